//! Keeps guards alive: `CASE WHEN b <> 0 THEN a / b > 1 END`, `b <> 0 AND a / b > 1`,
//! `sum(a / b) FILTER (WHERE b <> 0)`.
//!
//! DataFusion treats an error as something that may come early: it turns a Boolean CASE into ANDs and ORs, evaluates
//! both sides of an AND whenever the left one passes more than a fifth of the rows, and computes an aggregate's
//! argument for rows that its FILTER drops. With wrapping arithmetic only division could tell; with checked
//! arithmetic every sum can. So expressions in which a checked operator reads a column are put into a form that
//! DataFusion evaluates row by row in the written order and has no simplification for: `CASE <literal> WHEN ..`.
//!
//! The conjunctions at the top of a WHERE or ON stay as they are, so that they can be pushed down and turned into join
//! keys one by one; `exec` asks those that cannot fail first, the others in their order and only for rows that are
//! still undecided.
//!
//! # Limits
//! Casts are not guarded. `coalesce`, `nvl` and the like are lazy in DataFusion already, except with Boolean values.

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, WindowFunction};
use datafusion_expr::utils::split_binary_owned;
use datafusion_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, binary_expr, lit};

use super::operators;
use crate::functions::domains::is_partial;

/// Whether evaluating `expr` for a row can fail in a checked operator, or a function such as `ln`: one of them reads a
/// column (or what stands for one). Constant arithmetic is folded before it is run and is not meant; nor are casts and
/// other functions.
pub fn can_fail(expr: &Expr) -> bool {
    any(expr, |e| (operators::is_checked(e) || is_partial(e)) && any(e, is_variable))
}

/// `expr` of a WHERE or ON: the conjunctions and disjunctions at the top stay, what is below them is guarded.
pub(super) fn guard_condition(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|e| match e {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) | Expr::Not(_) => Ok(Transformed::no(e)),
        other => {
            let guarded = guard(other, schema)?;
            Ok(Transformed::new(guarded.data, guarded.transformed, TreeNodeRecursion::Jump))
        }
    })
}

/// `expr` with its guards in a form that holds.
pub(super) fn guard(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|e| {
        if !can_fail(&e) || is_lazy(&e) {
            return Ok(Transformed::new(e, false, TreeNodeRecursion::Jump));
        }
        match e {
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                let chain = lazy_chain(e, op, schema)?;
                Ok(Transformed::new(chain, true, TreeNodeRecursion::Jump))
            }
            Expr::Case(case) => guard_case(case, schema),
            Expr::AggregateFunction(call) => Ok(guard_aggregate(call)),
            Expr::WindowFunction(call) => Ok(guard_window(*call)),
            other => Ok(Transformed::no(other)),
        }
    })
}

/// `a AND b AND c` as `CASE FALSE WHEN a THEN FALSE WHEN b THEN FALSE ELSE a AND b AND c END` where `b` or `c` can
/// fail: each is computed only for rows that no operand before it has decided, and NULLs count as ever. OR likewise.
fn lazy_chain(expr: Expr, op: Operator, schema: &DFSchema) -> Result<Expr> {
    let mut operands = Vec::new();
    for operand in split_binary_owned(expr, op) {
        operands.push(guard(operand, schema)?.data);
    }
    let last_risky = operands.iter().rposition(can_fail).unwrap_or(0);
    let whole = operands
        .iter()
        .cloned()
        .reduce(|left, right| binary_expr(left, op, right))
        .unwrap_or_else(|| lit(op == Operator::And));
    if last_risky == 0 {
        return Ok(whole);
    }
    let decided = op == Operator::Or;
    operands.truncate(last_risky);
    Ok(Expr::Case(Case {
        expr: Some(Box::new(lit(decided))),
        when_then_expr: operands.into_iter().map(|operand| (Box::new(operand), Box::new(lit(decided)))).collect(),
        else_expr: Some(Box::new(whole)),
    }))
}

/// Whether `expr` is what [`lazy_chain`] made: its parts are guarded already.
fn is_lazy(expr: &Expr) -> bool {
    let Expr::Case(Case { expr: Some(base), when_then_expr, else_expr: Some(whole) }) = expr else {
        return false;
    };
    let Expr::Literal(ScalarValue::Boolean(Some(decided)), _) = base.as_ref() else {
        return false;
    };
    let op = if *decided { Operator::Or } else { Operator::And };
    when_then_expr
        .iter()
        .all(|(_, then)| matches!(then.as_ref(), Expr::Literal(ScalarValue::Boolean(Some(b)), _) if b == decided))
        && matches!(whole.as_ref(), Expr::BinaryExpr(binary) if binary.op == op)
}

/// `CASE WHEN ..` as `CASE TRUE WHEN ..` where DataFusion would take it apart into ANDs and ORs.
fn guard_case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if case.expr.is_some() {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    let later_when = case.when_then_expr.iter().skip(1).any(|(when, _)| can_fail(when));
    let outcome =
        case.when_then_expr.iter().any(|(_, then)| can_fail(then)) || case.else_expr.as_deref().is_some_and(can_fail);
    let boolean = || -> Result<bool> {
        match case.when_then_expr.first() {
            Some((_, then)) => Ok(then.get_type(schema)?.equals_datatype(&BOOLEAN)),
            None => Ok(false),
        }
    };
    if later_when || (outcome && boolean()?) {
        case.expr = Some(Box::new(lit(true)));
        return Ok(Transformed::yes(Expr::Case(case)));
    }
    Ok(Transformed::no(Expr::Case(case)))
}

const BOOLEAN: arrow::datatypes::DataType = arrow::datatypes::DataType::Boolean;

/// `f(x) FILTER (WHERE c)` as `f(CASE TRUE WHEN c THEN x END) FILTER (WHERE c)` where `x` can fail.
fn guard_aggregate(mut call: AggregateFunction) -> Transformed<Expr> {
    let filter = call.params.filter.as_deref().cloned();
    let changed = filter.is_some_and(|filter| guard_arguments(&mut call.params.args, &filter));
    Transformed::new(Expr::AggregateFunction(call), changed, TreeNodeRecursion::Continue)
}

fn guard_window(mut call: WindowFunction) -> Transformed<Expr> {
    let filter = call.params.filter.as_deref().cloned();
    let changed = filter.is_some_and(|filter| guard_arguments(&mut call.params.args, &filter));
    Transformed::new(Expr::WindowFunction(Box::new(call)), changed, TreeNodeRecursion::Continue)
}

fn guard_arguments(args: &mut [Expr], filter: &Expr) -> bool {
    let mut changed = false;
    for arg in args.iter_mut() {
        let done = matches!(arg, Expr::Case(Case { when_then_expr, .. })
            if when_then_expr.first().is_some_and(|(when, _)| when.as_ref() == filter));
        if done || !can_fail(arg) {
            continue;
        }
        let then = std::mem::replace(arg, lit(true));
        *arg = Expr::Case(Case {
            expr: Some(Box::new(lit(true))),
            when_then_expr: vec![(Box::new(filter.clone()), Box::new(then))],
            else_expr: None,
        });
        changed = true;
    }
    changed
}

/// Whether `expr` has a value per row, or per outer row, or is not known yet.
fn is_variable(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Column(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_)
            | Expr::ScalarSubquery(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
    )
}

fn any(expr: &Expr, test: impl Fn(&Expr) -> bool) -> bool {
    // The closure never fails, so neither does the walk.
    expr.exists(|e| Ok(test(e))).unwrap_or(false)
}
