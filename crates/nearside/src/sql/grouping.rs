//! Grouping sets as the planner takes them: `ROLLUP ((a, b), c)` is `GROUPING SETS ((a, b, c), (a, b), ())`, and a
//! number in one is an output, as in GROUP BY itself.

use sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// The most keys of a CUBE, as in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Writes out the grouping sets of a SELECT.
pub(super) fn write_out(select: &mut Select) {
    let outputs: Vec<Option<Expr>> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        })
        .collect();
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = key else { continue };
        for part in sets.iter_mut().flatten() {
            if let Some(output) = output(part, &outputs) {
                *part = output;
            }
        }
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
}

/// The output that a number stands for.
fn output(part: &Expr, outputs: &[Option<Expr>]) -> Option<Expr> {
    let Expr::Value(value) = part else { return None };
    let Value::Number(number, _) = &value.value else { return None };
    let place = number.to_string().parse::<usize>().ok()?.checked_sub(1)?;
    // Behind a star nobody knows the places here.
    outputs.get(..=place)?.iter().all(Option::is_some).then(|| outputs[place].clone()).flatten()
}
