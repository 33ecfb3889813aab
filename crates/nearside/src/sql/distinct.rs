//! `a IS DISTINCT FROM b AND c` is `(a IS DISTINCT FROM b) AND c`: the parser takes everything behind FROM, up to a
//! bracket, for what is compared with.
//!
//! What is written in brackets stands in the tree as such. So the conditions of an expression between brackets are put
//! in a row as they were written, and NOT, AND and OR bind them anew. It runs before anything else writes conditions
//! into the tree.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use super::walk::visit_mut;

/// Binds IS [NOT] DISTINCT FROM as it should be in all of a statement.
pub(super) fn bind(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Comparisons);
}

struct Comparisons;

impl VisitorMut for Comparisons {
    type Break = ();

    /// Before what is below: only the whole tells where its parts were written.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if takes_too_much(expr) {
            let whole = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            let mut written = Vec::new();
            take_apart(whole, &mut written);
            *expr = any(&mut written.into_iter().peekable());
        }
        ControlFlow::Continue(())
    }
}

/// A condition, or what stands between two.
enum ConditionPart {
    Condition(Box<Expr>),
    Not,
    And,
    Or,
}

fn logic(expr: &Expr) -> bool {
    let binary = matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. });
    binary || matches!(expr, Expr::UnaryOp { op: UnaryOperator::Not, .. })
}

/// Is there a comparison, outside of brackets, with a condition on its right side?
fn takes_too_much(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            takes_too_much(left) || takes_too_much(right)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => takes_too_much(expr),
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => logic(right) || takes_too_much(right),
        _ => false,
    }
}

/// The conditions in the order in which they were written.
fn take_apart(expr: Expr, written: &mut Vec<ConditionPart>) {
    match expr {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
            take_apart(*left, written);
            written.push(if op == BinaryOperator::And { ConditionPart::And } else { ConditionPart::Or });
            take_apart(*right, written);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            written.push(ConditionPart::Not);
            take_apart(*expr, written);
        }
        Expr::IsDistinctFrom(left, right) => compared(written, *right, |right| Expr::IsDistinctFrom(left, right)),
        Expr::IsNotDistinctFrom(left, right) => compared(written, *right, |right| Expr::IsNotDistinctFrom(left, right)),
        other => written.push(ConditionPart::Condition(Box::new(other))),
    }
}

/// The first condition of what stands to the right is what is compared with.
fn compared(written: &mut Vec<ConditionPart>, right: Expr, comparison: impl FnOnce(Box<Expr>) -> Expr) {
    let place = written.len();
    take_apart(right, written);
    // `a IS DISTINCT FROM NOT b` compares with the negation.
    let nots = written[place..].iter().take_while(|part| matches!(part, ConditionPart::Not)).count();
    written.drain(place..place + nots);
    if let Some(part) = written.get_mut(place)
        && let ConditionPart::Condition(first) = part
    {
        let mut first = std::mem::replace(first.as_mut(), Expr::Value(Value::Null.into()));
        for _ in 0..nots {
            first = negated(first);
        }
        *part = ConditionPart::Condition(Box::new(comparison(Box::new(first))));
    }
}

type Written = std::iter::Peekable<std::vec::IntoIter<ConditionPart>>;

fn negated(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

fn any(written: &mut Written) -> Expr {
    let mut left = all(written);
    while written.next_if(|part| matches!(part, ConditionPart::Or)).is_some() {
        left = Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Or, right: Box::new(all(written)) };
    }
    left
}

fn all(written: &mut Written) -> Expr {
    let mut left = one(written);
    while written.next_if(|part| matches!(part, ConditionPart::And)).is_some() {
        left = Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(one(written)) };
    }
    left
}

fn one(written: &mut Written) -> Expr {
    match written.next() {
        Some(ConditionPart::Not) => negated(one(written)),
        Some(ConditionPart::Condition(condition)) => *condition,
        // Two conditions have one of AND and OR between them, as the tree had.
        Some(ConditionPart::And | ConditionPart::Or) | None => {
            unreachable!("a condition stands where the tree had one")
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::VisitMut;
    use sqlparser::parser::Parser;

    use super::*;
    use crate::sql::dialect::SqlDialect;

    fn bound(text: &str) -> Expr {
        let mut expr = Parser::new(&SqlDialect).try_with_sql(text).unwrap().parse_expr().unwrap();
        let _ = expr.visit(&mut Comparisons);
        expr
    }

    /// With brackets around each comparison the parser reads it right.
    #[test]
    fn it_binds_as_with_brackets() {
        let conditions = ["p", "NOT p", "x IS DISTINCT FROM y", "NOT x IS NOT DISTINCT FROM y", "(p OR q)"];
        for first in conditions {
            for second in conditions {
                for third in conditions {
                    for ops in [["AND", "AND"], ["AND", "OR"], ["OR", "AND"], ["OR", "OR"]] {
                        let text = |bracket: &dyn Fn(&str) -> String| {
                            let [a, b, c] = [first, second, third].map(bracket);
                            format!("{a} {} {b} {} {c}", ops[0], ops[1])
                        };
                        let plain = bound(&text(&|condition| condition.to_string()));
                        let in_brackets = text(&|condition| match condition.strip_prefix("NOT x") {
                            Some(rest) => format!("NOT (x{rest})"),
                            None if condition.starts_with('x') => format!("({condition})"),
                            None => condition.to_string(),
                        });
                        let expected = shape(&bound(&in_brackets));
                        assert_eq!(shape(&plain), expected, "{} as {in_brackets}", text(&|c| c.to_string()));
                    }
                }
            }
        }
        assert_eq!(shape(&bound("x IS DISTINCT FROM NOT y AND p")), "((x is distinct from NOT y) AND p)");
        assert_eq!(shape(&bound("x IS DISTINCT FROM (y AND p)")), "(x is distinct from (y AND p))");
    }

    /// With a bracket for each operation and none besides.
    fn shape(expr: &Expr) -> String {
        match expr {
            Expr::Nested(inner) => shape(inner),
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", shape(left), shape(right)),
            Expr::UnaryOp { op, expr } => format!("{op} {}", shape(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} is distinct from {})", shape(left), shape(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} is not distinct from {})", shape(left), shape(right)),
            other => other.to_string(),
        }
    }
}
