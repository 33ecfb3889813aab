//! Filters, and scans with what they can test of the filters above them.

use std::sync::Arc;

use storage::TableVersion;

use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::ColumnInfo;
use crate::codes::filter::Filter;
use crate::codes::shared::AttachedScans;
use crate::eval::{self, Test};
use crate::pipe::filters::{Filters, behind};
use crate::pipe::flow::{Demand, Flow};
use crate::pipe::{Operator, Out, Pipe};
use crate::plan::Plan;
use crate::plan::delicate::is_delicate;
use crate::plan::predicate::Predicate;
use crate::scan::Scan;
use crate::scan::source::{ScanSource, column_infos};
use crate::tasks::places::ScanOptions;
use crate::tasks::profile::OperatorPlace;

/// A pipe of the rows of `input` that pass; a scan tests what it can itself. `place` is the filter's.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    input: &Plan,
    place: &OperatorPlace,
    predicate: &Predicate,
    wanted: Demand<'_>,
) -> Result<Pipe, ExecError> {
    let (below, below_input) = filters_of(input);
    let conjuncts: Vec<Predicate> = below_input.into_iter().chain(conjuncts_of(predicate)).collect();
    if let Plan::Scan { .. } = below {
        return scan(flow, below, conjuncts, wanted);
    }
    let place = lowest_filter(input, place);
    let pipe = flow.pipe(below, &place.input(0), &behind(wanted.filters, conjuncts.iter().any(is_delicate)))?;
    let test = eval::prepared_test(&Predicate::And(conjuncts), &pipe.infos, &flow.run, pipe.rows_expected())?;
    let infos = pipe.infos.clone();
    Ok(pipe.then(FilterOperator { test }, infos))
}

/// A scan with conjuncts over its output columns.
pub(crate) fn scan(
    flow: &Flow<'_>,
    scan: &Plan,
    conjuncts: Vec<Predicate>,
    wanted: Demand<'_>,
) -> Result<Pipe, ExecError> {
    let Plan::Scan { table, snapshot, columns } = scan else { unreachable!("a scan is given") };
    let Demand { filters, rows: needed, .. } = wanted;
    let infos = infos_of(snapshot, columns, &conjuncts, wanted.as_stored);
    let (filter, later) = filter_of(snapshot, columns, conjuncts, &infos)?;
    // What is tested within the scan sees all rows anyway.
    let shows = later.iter().any(is_delicate);
    let of_table: Filters = filters.iter().map(|wanted| wanted.below(columns[wanted.column], shows)).collect();
    // Rows that something else drops as well cannot be counted here.
    let needed = needed.filter(|_| later.is_empty() && filters.is_empty());
    let number = flow.run.traffic.table(table, &snapshot.schema);
    let operator = Scan::new(snapshot.clone(), filter, columns.clone(), needed).booked_to(number);
    let source = ScanSource::new(operator, columns.clone(), infos.clone(), &of_table, &flow.run)?;
    let rows = source.rows();
    let pipe = Pipe::of(Box::new(source), infos.clone(), rows);
    if later.is_empty() {
        return Ok(pipe);
    }
    let test = eval::prepared_test(&Predicate::And(later), &infos, &flow.run, pipe.rows_expected())?;
    Ok(pipe.then(FilterOperator { test }, infos))
}

/// What is below the filters that a plan begins with, and their conjuncts, the lowest first.
fn filters_of(plan: &Plan) -> (&Plan, Vec<Predicate>) {
    match plan {
        Plan::Filter { input, predicate } => {
            let (below, mut conjuncts) = filters_of(input);
            conjuncts.extend(conjuncts_of(predicate));
            (below, conjuncts)
        }
        other => (other, Vec::new()),
    }
}

/// The place of the lowest of the filters that stand one over the other, which run as one.
fn lowest_filter(input: &Plan, place: &OperatorPlace) -> OperatorPlace {
    match input {
        Plan::Filter { input, .. } => lowest_filter(input, &place.part()),
        _ => place.clone(),
    }
}

fn conjuncts_of(predicate: &Predicate) -> Vec<Predicate> {
    match predicate.without_not() {
        Predicate::And(parts) => parts,
        other => vec![other],
    }
}

/// What a scan tests of conjuncts over its output columns, as a filter over the table's, and what is left for later.
fn filter_of(
    snapshot: &TableVersion,
    columns: &[usize],
    conjuncts: Vec<Predicate>,
    infos: &[ColumnInfo],
) -> Result<(Filter, Vec<Predicate>), ExecError> {
    let (within, later) = split(conjuncts, infos);
    let conjuncts: Vec<Predicate> = within.iter().map(|p| p.map_columns(&|c| columns[c])).collect();
    Ok((Filter::new(&conjuncts, &snapshot.schema)?, later))
}

/// The scan of a plan that is a chain of operators over one, as it would run.
pub(crate) fn only_scan(plan: &Plan) -> Result<Option<Scan>, ExecError> {
    let (below, conjuncts) = filters_of(plan);
    match below {
        Plan::Scan { snapshot, columns, .. } => {
            let (filter, _) = filter_of(snapshot, columns, conjuncts, &column_infos(snapshot, columns))?;
            Ok(Some(Scan::new(snapshot.clone(), filter, columns.clone(), None)))
        }
        Plan::Limit { input, .. } | Plan::Project { input, .. } => only_scan(input),
        _ => Ok(None),
    }
}

/// Attaches the scans of a plan that are going to run, with the filters over them, to what other statements read at
/// the moment. Those below a limit may need few rows, those of a recursion run more than once.
pub(crate) fn attach_scans(plan: &Plan, attached: &AttachedScans, options: ScanOptions) -> Result<(), ExecError> {
    let (below, conjuncts) = filters_of(plan);
    match below {
        Plan::Limit { .. } | Plan::Recursive(_) => Ok(()),
        Plan::Scan { .. } if conjuncts.is_empty() => Ok(()),
        Plan::Scan { snapshot, columns, .. } => {
            let infos = infos_of(snapshot, columns, &conjuncts, true);
            let (filter, _) = filter_of(snapshot, columns, conjuncts, &infos)?;
            Scan::new(snapshot.clone(), filter, columns.clone(), None).attach_early(attached, options)
        }
        other => other.inputs().into_iter().try_for_each(|input| attach_scans(input, attached, options)),
    }
}

/// What is known of a scan's columns: nothing where nobody asks, be it the conditions over them.
fn infos_of(snapshot: &TableVersion, columns: &[usize], conjuncts: &[Predicate], as_stored: bool) -> Vec<ColumnInfo> {
    let single = conjuncts.iter().all(|conjunct| conjunct.columns().len() <= 1);
    match as_stored && single {
        true => columns.iter().map(|&c| ColumnInfo::plain(snapshot.schema.fields()[c].clone())).collect(),
        false => column_infos(snapshot, columns),
    }
}

/// Conjuncts that a scan tests on codes, and those that it would have to test row by row over Arrow arrays although
/// they can be tested without. What may fail stays behind whatever is written before it.
fn split(conjuncts: Vec<Predicate>, infos: &[ColumnInfo]) -> (Vec<Predicate>, Vec<Predicate>) {
    let movable: Vec<bool> = conjuncts.iter().map(|p| p.columns().len() > 1 && eval::is_structured(p, infos)).collect();
    let last_fallible = conjuncts.iter().zip(&movable).rposition(|(p, moves)| !moves && p.fallible());
    let (mut within, mut behind) = (Vec::new(), Vec::new());
    for (i, (conjunct, moves)) in conjuncts.into_iter().zip(movable).enumerate() {
        let moves = moves && last_fallible.is_none_or(|last| i > last);
        if moves { behind.push(conjunct) } else { within.push(conjunct) }
    }
    (within, behind)
}

/// Keeps the rows that pass.
#[derive(Clone)]
struct FilterOperator {
    test: Arc<dyn Test>,
}

impl Operator for FilterOperator {
    fn kind(&self) -> Option<&'static str> {
        Some("filter")
    }

    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        self.test.narrow(&mut chunk)?;
        if chunk.rows() == 0 { Ok(true) } else { out(chunk) }
    }

    fn takes_any_size(&self) -> bool {
        true
    }
}
