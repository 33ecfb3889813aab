//! Ordered-set aggregates that are made of others: `percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY x)`, a
//! list with the value of each share, and the place that a row would have (PostgreSQL's hypothetical-set aggregates):
//! `rank(3) WITHIN GROUP (ORDER BY x)` counts the values that come before 3.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, OrderByExpr, Select, SelectItem, Value, VisitorMut,
};

use super::calls::{call, is_called};
use super::walk::rewrite;
use crate::error::{Error, Result};

/// The functions that take several shares.
const OF_SHARES: [&str; 2] = ["percentile_cont", "percentile_disc"];
/// Those that tell the place of a row that there is not.
const OF_PLACES: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Writes such calls as ones of other aggregates.
///
/// # Errors
/// None: what is written otherwise is left to be refused.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut OrderedSets)
}

struct OrderedSets;

impl VisitorMut for OrderedSets {
    type Break = Error;

    /// What is written for them would give outputs another name.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let name = shares(expr).map(|(name, ..)| name).or_else(|| place(expr).map(|(name, ..)| name));
            if let Some(name) = name {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Some(written) = list_of_shares(expr).or_else(|| place_of(expr)) {
            *expr = written;
        }
        ControlFlow::Continue(())
    }
}

/// A call for each share; NULL over no values, as PostgreSQL has it.
fn list_of_shares(expr: &Expr) -> Option<Expr> {
    let (_, function, shares) = shares(expr)?;
    let key = function.within_group.first()?;
    let of_share = |share: &Expr| match is_null(share) {
        true => share.clone(),
        false => {
            let mut one = function.clone();
            if let FunctionArguments::List(list) = &mut one.args {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(share.clone()))];
            }
            Expr::Function(one)
        }
    };
    let list = Expr::Array(Array { elem: shares.iter().map(of_share).collect(), named: true });
    let mut counted = call("count", vec![key.expr.clone()]);
    if let Expr::Function(counted) = &mut counted {
        counted.filter.clone_from(&function.filter);
    }
    Some(case(binary(counted, BinaryOperator::Gt, number(0)), list, None))
}

/// The name, the call and the shares of one that takes a list which is written out.
fn shares(expr: &Expr) -> Option<(&'static str, &Function, &[Expr])> {
    let Expr::Function(function) = expr else { return None };
    let name = OF_SHARES.into_iter().find(|name| is_called(&function.name, name))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(shares)))] = &list.args[..] else { return None };
    let is_plain = function.over.is_none() && function.within_group.len() == 1;
    let is_list_of_lists = shares.elem.iter().any(|share| matches!(share, Expr::Array(_)));
    let is_of_some = is_plain && !is_list_of_lists && !shares.elem.iter().all(is_null);
    is_of_some.then_some((name, function, &shares.elem[..]))
}

/// The name and the call of one that asks for the place of a row, and that row's values.
fn place(expr: &Expr) -> Option<(&'static str, &Function, Vec<&Expr>)> {
    let Expr::Function(function) = expr else { return None };
    let name = OF_PLACES.into_iter().find(|name| is_called(&function.name, name))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    if function.over.is_some() || function.within_group.is_empty() || list.args.len() != function.within_group.len() {
        return None;
    }
    Some((name, function, list.args.iter().map(value).collect::<Option<_>>()?))
}

fn value(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

/// Counts what comes before the row.
fn place_of(expr: &Expr) -> Option<Expr> {
    let (name, function, values) = place(expr)?;
    let keys = &function.within_group;
    let mut before: Option<Expr> = None;
    let mut alike: Option<Expr> = None;
    // The last key decides last.
    for (key, value) in keys.iter().zip(&values).rev() {
        let equal = Expr::IsNotDistinctFrom(Box::new(key.expr.clone()), Box::new((*value).clone()));
        let further = before.map(|before| binary(equal.clone(), BinaryOperator::And, before));
        let precedes = precedes(key, value);
        before = Some(match further {
            Some(further) => binary(precedes, BinaryOperator::Or, further),
            None => precedes,
        });
        alike = Some(match alike {
            Some(alike) => binary(equal, BinaryOperator::And, alike),
            None => equal,
        });
    }
    let before = before?;
    let counted = |condition: Option<Expr>, of: Vec<Expr>, distinct: bool| -> Option<Expr> {
        let mut counted = call("count", of);
        if let Expr::Function(counted) = &mut counted {
            if let FunctionArguments::List(list) = &mut counted.args
                && distinct
            {
                list.duplicate_treatment = Some(sqlparser::ast::DuplicateTreatment::Distinct);
            }
            counted.filter = match (&function.filter, condition) {
                (Some(filter), Some(condition)) => {
                    Some(Box::new(binary(filter.as_ref().clone(), BinaryOperator::And, condition)))
                }
                (Some(filter), None) => Some(filter.clone()),
                (None, condition) => condition.map(Box::new),
            };
        }
        Some(counted)
    };
    let rows = |condition: Option<Expr>| counted(condition, vec![number(1)], false);
    let share = |part: Expr, of: Expr| binary(double(part), BinaryOperator::Divide, double(of));
    let plus_one = |of: Expr| binary(of, BinaryOperator::Plus, number(1));
    Some(match name {
        "rank" => plus_one(rows(Some(before))?),
        "dense_rank" => {
            // NULLs count as a value, so that the keys stand in a row.
            let mut row: Vec<Expr> = keys.iter().map(|key| key.expr.clone()).collect();
            row.push(number(1));
            plus_one(counted(Some(before), vec![Expr::Tuple(row)], true)?)
        }
        "percent_rank" => {
            let all = rows(None)?;
            let is_none = binary(all.clone(), BinaryOperator::Eq, number(0));
            case(is_none, double(number(0)), Some(share(rows(Some(before))?, all)))
        }
        _ => {
            let up_to = binary(before, BinaryOperator::Or, alike?);
            share(plus_one(rows(Some(up_to))?), plus_one(rows(None)?))
        }
    })
}

/// Whether a row comes before the value by this key.
fn precedes(key: &OrderByExpr, value: &Expr) -> Expr {
    let descends = key.options.asc == Some(false);
    let nulls_first = key.options.nulls_first.unwrap_or(descends);
    let op = if descends { BinaryOperator::Gt } else { BinaryOperator::Lt };
    let compared = binary(key.expr.clone(), op, value.clone());
    let [null, other] = if nulls_first { [&key.expr, value] } else { [value, &key.expr] };
    let by_null =
        binary(Expr::IsNull(Box::new(null.clone())), BinaryOperator::And, Expr::IsNotNull(Box::new(other.clone())));
    binary(compared, BinaryOperator::Or, by_null)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).into())
}

fn double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

fn case(condition: Expr, result: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: otherwise.map(Box::new),
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if value.value == Value::Null)
}
