//! [`affinities`]: where the tasks of a plan's scan would run, without running them.

use std::ops::Range;

use numa::NodeId;

use crate::ExecError;
use crate::operators::filter::only_scan;
use crate::plan::Plan;
use crate::scan::Morsel;
use crate::tasks::locate::PageMaps;

/// A segment (its place among all of the snapshot), rows of it, and the node that the task which reads them runs next
/// to; `None` where it may run anywhere.
pub type TaskPlace = (usize, Range<usize>, Option<NodeId>);

/// For every piece of every task of the plan's scan, in the order in which tasks are handed out: where it runs. Nothing
/// is run: granules that only an evaluation per dictionary entry would exclude are listed. Nothing is listed for a plan
/// that is more than a scan.
///
/// # Errors
/// [`ExecError::Plan`] for a plan that is not valid.
pub fn affinities(plan: &Plan) -> Result<Vec<TaskPlace>, ExecError> {
    let morsels = morsels(plan, PageMaps::of_kernel())?.into_iter();
    let places = |Morsel { pieces, node, .. }: Morsel| pieces.into_iter().map(move |(s, rows)| (s, rows, node));
    Ok(morsels.flat_map(places).collect())
}

/// The morsels of the plan's scan by these page maps.
pub(crate) fn morsels(plan: &Plan, page_maps: &PageMaps) -> Result<Vec<Morsel>, ExecError> {
    plan.validate()?;
    match only_scan(plan)? {
        Some(scan) => scan.morsels_by(page_maps).map(<[Morsel]>::to_vec),
        None => Ok(Vec::new()),
    }
}
