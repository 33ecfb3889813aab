//! A window function that stands twice is computed once: `sum(i) OVER w, sum(i::BIGINT) OVER w` are one when types are
//! known. The optimiser takes what two of them have in common out of the window, where nothing computes it.

use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, LogicalPlan, Projection, Window};
use datafusion_optimizer::AnalyzerRule;

/// The analyzer rule, behind those that give expressions their types.
#[derive(Debug, Default)]
pub(crate) struct WindowsOnce;

impl AnalyzerRule for WindowsOnce {
    fn name(&self) -> &str {
        "windows_once"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => once(window),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(analyzed.data)
    }
}

fn once(window: Window) -> Result<Transformed<LogicalPlan>> {
    let column = |expr: &Expr| Expr::Column(Column::new_unqualified(expr.schema_name().to_string()));
    let mut kept: Vec<Expr> = Vec::with_capacity(window.window_expr.len());
    let mut outputs: Vec<Expr> = window.input.schema().columns().into_iter().map(Expr::Column).collect();
    for expr in &window.window_expr {
        let is_same = |known: &&Expr| (*known).clone().unalias() == expr.clone().unalias() && !expr.is_volatile();
        match kept.iter().find(is_same) {
            Some(known) => outputs.push(column(known).alias(expr.schema_name().to_string())),
            None => {
                outputs.push(column(expr));
                kept.push(expr.clone());
            }
        }
    }
    if kept.len() == window.window_expr.len() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let windows = LogicalPlan::Window(Window::try_new(kept, window.input)?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(outputs, Arc::new(windows))?)))
}
