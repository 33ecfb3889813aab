//! Grouping sets as the planner takes them: `ROLLUP ((a, b), c)` is `GROUPING SETS ((a, b, c), (a, b), ())`, and a
//! number in one is an output, as in GROUP BY itself.

use sqlparser::ast::{Expr, GroupByExpr, Select};

use super::keys::{outputs, put_output};
use crate::error::Result;

/// The most keys of a CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Writes out the grouping sets of a SELECT.
///
/// # Errors
/// A number that no output has.
pub(super) fn write_out(select: &mut Select) -> Result<()> {
    let outputs = outputs(select);
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    for key in keys {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = key else { continue };
        sets.iter_mut().flatten().try_for_each(|part| put_output(part, &outputs, "GROUP BY"))?;
        if sets.iter().all(|set| set.len() == 1) {
            continue;
        }
        let written = match key {
            Expr::Rollup(sets) => (0..=sets.len()).rev().map(|many| sets[..many].concat()).collect(),
            Expr::Cube(sets) if sets.len() <= CUBE_MAX => {
                let subset = |mask: usize| {
                    let taken = sets.iter().enumerate().filter(|(place, _)| mask >> place & 1 == 1);
                    taken.flat_map(|(_, set)| set.clone()).collect()
                };
                (0..1_usize << sets.len()).rev().map(subset).collect()
            }
            _ => continue,
        };
        *key = Expr::GroupingSets(written);
    }
    Ok(())
}
