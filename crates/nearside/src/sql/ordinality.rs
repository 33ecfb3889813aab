//! `f(..) WITH ORDINALITY` in FROM: the rows that lists or a series give, with their numbers behind them.
//!
//! `unnest(a, b) WITH ORDINALITY AS t(x, y, n)` is `unnest(a, b, generate_series(1, m)) AS t(x, y, n)`, with as many
//! numbers as the longest list has elements.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, ArrayElemTypeDef, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, TableAlias,
    TableAliasColumnDef, TableFactor, VisitorMut,
};

use super::calls::call;
use super::normalised;
use super::walk::rewrite;
use crate::error::{Error, Result};

const COLUMN: &str = "ordinality";

/// Writes such calls without the words; what is no list or series keeps them, and is refused.
///
/// # Errors
/// None.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Numbered)
}

struct Numbered;

impl VisitorMut for Numbered {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let (function, lists, alias) = match factor {
            TableFactor::UNNEST { array_exprs, with_ordinality: true, with_offset: false, alias, .. } => {
                ("unnest".to_string(), array_exprs.clone(), alias.take())
            }
            TableFactor::Table { name, args: Some(args), with_ordinality: true, alias, .. } => {
                let function = name.to_string().to_lowercase();
                let plain = |arg: &FunctionArg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
                    _ => None,
                };
                let given: Option<Vec<Expr>> = args.args.iter().map(plain).collect();
                match given {
                    Some(given) if matches!(function.as_str(), "generate_series" | "range") => {
                        let list = call(&function, given);
                        (function, vec![list], alias.take())
                    }
                    _ => return ControlFlow::Continue(()),
                }
            }
            _ => return ControlFlow::Continue(()),
        };
        let mut alias = alias.unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(function),
            columns: Vec::new(),
            at: None,
        });
        let named = |name: String| TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None };
        let own = normalised(alias.name.clone());
        for place in alias.columns.len()..lists.len() {
            alias.columns.push(named(if lists.len() == 1 && place == 0 { own.clone() } else { "unnest".into() }));
        }
        if alias.columns.len() == lists.len() {
            alias.columns.push(named(COLUMN.into()));
        }
        let mut array_exprs = lists.clone();
        array_exprs.push(numbers(lists));
        *factor = TableFactor::UNNEST {
            alias: Some(alias),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: false,
        };
        ControlFlow::Continue(())
    }
}

/// The list of as many numbers as the longest of some lists has elements.
fn numbers(lists: Vec<Expr>) -> Expr {
    let mut lengths: Vec<Expr> = lists.into_iter().map(|list| call("cardinality", vec![list])).collect();
    let most = match lengths.len() {
        1 => lengths.remove(0),
        _ => call("greatest", lengths),
    };
    let most = Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(most),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
    let series = call("generate_series", vec![Expr::value(ast::Value::Number("1".into(), false)), most]);
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(series),
        data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::BigInt(None)), None)),
        array: false,
        format: None,
    }
}
