//! Which expressions are of one row: scans may test conditions of these only.

use datafusion_common::tree_node::TreeNode;
use datafusion_expr::Expr;

/// True for expressions that `exec` can evaluate from the row alone.
pub(crate) fn is_exact(expr: &Expr) -> bool {
    let foreign = expr.exists(|e| Ok(is_foreign(e)));
    matches!(foreign, Ok(false))
}

/// True for conditions that may be tested within a scan, before or after others.
pub(crate) fn is_exact_in_scan(expr: &Expr) -> bool {
    is_exact(expr) && !expr.is_volatile()
}

/// True for what needs more than the row.
pub(crate) fn is_foreign(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
            | Expr::GroupingSet(_)
            | Expr::Unnest(_)
            | Expr::ScalarVariable(..)
    )
}
