//! Texts that mean a moment by a word: `'today'::DATE`, `TIMESTAMP 'now'`, `'epoch'::TIMESTAMPTZ`. As literals they
//! become what they mean when the statement runs.
//!
//! # Limits
//! Where a statement keeps an expression (defaults, views, conditions), PostgreSQL keeps the moment at which it was
//! made; there they are refused. Such texts that are no literals are refused where they are read.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, BinaryOperator, CastKind, DataType, Expr, TimezoneInfo, TypedString, Value, VisitorMut, visit_expressions,
};

use super::calls::call;
use super::walk::visit_mut;
use crate::error::{Error, Result};

/// Puts what they mean in the place of words for moments.
///
/// # Errors
/// One of the statement's moment stands in what the statement keeps.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Words { keeps: false }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Words {
    keeps: bool,
}

impl VisitorMut for Words {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        use ast::Statement as S;
        self.keeps = match statement {
            S::CreateTable(table) => table.query.is_none(),
            S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) | S::Merge(_) | S::Explain { .. } => false,
            S::Copy { .. } => false,
            _ => true,
        };
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match meant(expr) {
            Some(meant) if self.keeps && calls_now(&meant) => ControlFlow::Break(Error::Unsupported(format!(
                "{expr} in what is kept is not supported: a text cannot mean the day of the statement there; write \
                 that day itself, or current_date or now() for the day of each use"
            ))),
            Some(meant) => {
                *expr = meant;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Continue(()),
        }
    }
}

fn calls_now(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// What the literal means, as one of its own type.
fn meant(expr: &Expr) -> Option<Expr> {
    let (text, data_type) = match expr {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } => match inner.as_ref()
        {
            Expr::Value(value) => (&value.value, data_type),
            _ => return None,
        },
        Expr::TypedString(TypedString { data_type, value, .. }) => (&value.value, data_type),
        _ => return None,
    };
    let Value::SingleQuotedString(text) = text else { return None };
    let word = text.trim().to_lowercase();
    let zoned = match data_type {
        DataType::Timestamp(_, zone) => matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz),
        _ => false,
    };
    let days = match (word.as_str(), data_type) {
        ("now", DataType::Date | DataType::Timestamp(..) | DataType::Time(..)) => None,
        ("today", DataType::Date | DataType::Timestamp(..)) => Some(0),
        ("tomorrow", DataType::Date | DataType::Timestamp(..)) => Some(1),
        ("yesterday", DataType::Date | DataType::Timestamp(..)) => Some(-1),
        ("epoch", DataType::Date | DataType::Timestamp(..)) => {
            let epoch = if zoned { "1970-01-01 00:00:00+00" } else { "1970-01-01" };
            return Some(cast(Expr::Value(Value::SingleQuotedString(epoch.into()).into()), data_type.clone()));
        }
        ("allballs", DataType::Time(..)) => {
            let midnight = Value::SingleQuotedString("00:00:00".into());
            return Some(cast(Expr::Value(midnight.into()), data_type.clone()));
        }
        _ => return None,
    };
    let clock = DataType::Timestamp(None, TimezoneInfo::None);
    let now = call("now", Vec::new());
    let found = match days {
        None if zoned => now,
        None => cast(now, clock),
        Some(days) => {
            let day = cast(cast(now, clock.clone()), DataType::Date);
            let shifted = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(day),
                op: BinaryOperator::Plus,
                right: Box::new(Expr::Value(Value::Number(days.to_string(), false).into())),
            }));
            if zoned { cast(shifted, clock) } else { shifted }
        }
    };
    Some(cast(found, data_type.clone()))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
