//! Ordinary SQL that the planner does not read, written in other words of SQL before anybody looks at it.
//!
//! ```text
//! x LIKE ANY (ARRAY[a, b])          x LIKE a OR x LIKE b
//! ARRAY(SELECT c FROM ..)           coalesce((SELECT array_agg(c) FROM ..), [])
//! (a, b) IN (SELECT c, d ..)        EXISTS (SELECT .. WHERE a = c AND b = d), and NULL where that is not known; so are
//!                                   other comparisons with ANY and ALL
//! current_schema                    current_schema()
//! pg_catalog.f(x)                   f(x)
//! GROUP BY ()                       GROUP BY GROUPING SETS (())
//! GROUPING SETS (ROLLUP (a), b)     GROUPING SETS ((a), (), (b))
//! UPDATE .. SET (a, b) = (1, 2)     UPDATE .. SET a = 1, b = 2
//! SET (a, b) = (SELECT c, d ..)     SET a = (SELECT c FROM (SELECT c, d ..)), b = (SELECT d FROM (SELECT c, d ..))
//! ```
//!
//! Columns of queries that are put around others have names that nothing else has, so no name means something else than
//! before.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, Assignment, AssignmentTarget, BinaryOperator, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, MergeAction, OnConflict, OnConflictAction,
    OnInsert, Query, Select, SelectFlavor, SelectItem, SetExpr, UnaryOperator, Value, ValueWithSpan, VisitorMut,
    WildcardAdditionalOptions,
};

use super::array_query::{array_query, listed};
use super::calls::{call, is_called};
use super::mend::{joined, row};
use super::named_arguments::in_order;
use super::parsed::from_query;
use super::scope::binary;
use super::walk::rewrite;
use super::written_with::volatile_call;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::like_escape::{LIKE_ESCAPE, with_backslashes};
use crate::sql::{fresh_name, normalised};

/// Columns of grouping sets are not more than these; CUBE has two to their power of sets.
const CUBE_MAX: usize = 12;

/// Writes a statement in words that the planner reads.
///
/// # Errors
/// What cannot be written so, by name.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Ordinary)
}

struct Ordinary;

impl VisitorMut for Ordinary {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        match statement {
            ast::Statement::CreateTable(create) => {
                create.columns.iter_mut().for_each(|column| in_short(&mut column.data_type));
                ControlFlow::Continue(())
            }
            ast::Statement::AlterTable(alter) => {
                for operation in &mut alter.operations {
                    match operation {
                        AlterTableOperation::AddColumn { column_def, .. } => in_short(&mut column_def.data_type),
                        AlterTableOperation::AlterColumn {
                            op: AlterColumnOperation::SetDataType { data_type, .. },
                            ..
                        } => in_short(data_type),
                        _ => {}
                    }
                }
                ControlFlow::Continue(())
            }
            ast::Statement::Update(update) => flow(each_by_itself(&mut update.assignments)),
            ast::Statement::Insert(insert) => match &mut insert.on {
                Some(OnInsert::OnConflict(OnConflict { action: OnConflictAction::DoUpdate(update), .. })) => {
                    flow(each_by_itself(&mut update.assignments))
                }
                _ => ControlFlow::Continue(()),
            },
            ast::Statement::Merge(merge) => {
                let updates = merge.clauses.iter_mut().filter_map(|clause| match &mut clause.action {
                    MergeAction::Update(update) => Some(&mut update.assignments),
                    _ => None,
                });
                flow(updates.into_iter().try_for_each(each_by_itself))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if matches!(select.flavor, SelectFlavor::FromFirstNoSelect) && select.projection.is_empty() {
            // `FROM t` alone gives all of it.
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && array_query(expr).is_some()
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new("array") };
            }
        }
        if let Some(condition) = &mut select.selection {
            rows_in_query(condition);
        }
        match &mut select.group_by {
            GroupByExpr::Expressions(keys, _) => flow(keys.iter_mut().try_for_each(grouping)),
            GroupByExpr::All(_) => ControlFlow::Continue(()),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Cast { data_type, .. } => in_short(data_type),
            Expr::Identifier(name) if is_keyword(name) => *expr = call(&name.value.to_lowercase(), Vec::new()),
            Expr::Function(function) => {
                if let [schema, _] = function.name.0.as_slice()
                    && schema.as_ident().is_some_and(|schema| normalised(schema.clone()) == "pg_catalog")
                {
                    function.name.0.remove(0);
                }
                without_regclass(function);
                if let Err(error) = in_order(function) {
                    return ControlFlow::Break(error);
                }
                if let Some(query) = array_query(expr) {
                    let listed = listed(query);
                    return flow(listed.map(|listed| *expr = listed));
                }
            }
            Expr::Exists { subquery, .. } => something(subquery),
            Expr::Like { pattern, escape_char, any: false, .. }
            | Expr::ILike { pattern, escape_char, any: false, .. }
                if escape_char.is_some() =>
            {
                return flow(with_backslashes_alone(pattern, escape_char));
            }
            Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => like_any(expr),
            Expr::AnyOp { .. } | Expr::AllOp { .. } => row_quantified(expr),
            Expr::InSubquery { .. } => {
                if let Some(test) = row_in_query(expr, true) {
                    *expr = test;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `CHARACTER VARYING(n)` is VARCHAR(n), `CHARACTER(n)` is CHAR(n). Sizes of arrays mean nothing: `INT[3]` is INT[].
fn in_short(data_type: &mut ast::DataType) {
    use ast::DataType as T;
    match data_type {
        T::CharacterVarying(length) | T::CharVarying(length) => *data_type = T::Varchar(length.take()),
        T::Character(length) => *data_type = T::Char(length.take()),
        T::Array(ast::ArrayElemTypeDef::SquareBracket(inner, size)) => {
            *size = None;
            in_short(inner);
        }
        _ => {}
    }
}

/// `nextval('s'::regclass)`: functions of sequences take the name as a text.
fn without_regclass(function: &mut Function) {
    let is_of_sequence = ["nextval", "currval", "setval"].iter().any(|name| is_called(&function.name, name));
    if let FunctionArguments::List(list) = &mut function.args
        && is_of_sequence
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(name))) = list.args.first_mut()
        && let Expr::Cast { expr, data_type: ast::DataType::Regclass, .. } = name
    {
        let inner = std::mem::replace(expr.as_mut(), Expr::Value(Value::Null.into()));
        *name = inner;
    }
}

/// `EXISTS (SELECT FROM t)` asks for rows without columns.
fn something(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_mut()
        && select.projection.is_empty()
    {
        select.projection = vec![SelectItem::UnnamedExpr(Expr::Value(Value::Number("1".into(), false).into()))];
    }
}

/// `LIKE pattern ESCAPE 'c'` with a pattern in which backslashes escape.
fn with_backslashes_alone(pattern: &mut Box<Expr>, escape: &mut Option<ValueWithSpan>) -> Result<()> {
    let Some(written) = escape.take() else { return Ok(()) };
    let text = |value: &Value| match value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    };
    if text(&written.value).as_deref() == Some("\\") {
        return Ok(());
    }
    let constant = match pattern.as_ref() {
        Expr::Value(value) => text(&value.value),
        _ => None,
    };
    **pattern = match (constant, text(&written.value)) {
        (Some(pattern), Some(escape)) => {
            Expr::value(Value::SingleQuotedString(with_backslashes(&pattern, &escape).map_err(Error::from)?))
        }
        _ => call(LIKE_ESCAPE, vec![pattern.as_ref().clone(), Expr::Value(written)]),
    };
    Ok(())
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Words that are values by themselves and that the parser takes for names.
fn is_keyword(name: &Ident) -> bool {
    let is = |word: &&str| name.value.eq_ignore_ascii_case(word);
    name.quote_style.is_none() && ["current_schema", "current_role"].iter().any(is)
}

/// `SET (a, b) = (1, 2)`.
fn each_by_itself(assignments: &mut Vec<Assignment>) -> Result<()> {
    let mut all = Vec::with_capacity(assignments.len());
    for Assignment { target, value } in std::mem::take(assignments) {
        let columns = match target {
            AssignmentTarget::Tuple(columns) => columns,
            AssignmentTarget::ColumnName(column) if column.0.len() > 1 => {
                return Err(Error::plan(
                    SqlState::UndefinedColumn,
                    format!("SET {column}: name the column alone, without its table"),
                ));
            }
            AssignmentTarget::ColumnName(_) => {
                all.push(Assignment { target, value });
                continue;
            }
        };
        let values = match value {
            Expr::Subquery(query) => of_one_row(*query, columns.len())?,
            Expr::Tuple(values) => values,
            Expr::Nested(value) => vec![*value],
            Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) if is_called(&name, "row") => {
                list.args.into_iter().map_while(plain).collect()
            }
            other => {
                return Err(Error::Unsupported(format!(
                    "SET of several columns to {other} is not supported; set each column by itself"
                )));
            }
        };
        if values.len() != columns.len() {
            let n = columns.len();
            let m = values.len();
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!("SET of {n} columns to {m} values; give each column one"),
            ));
        }
        let pairs = columns.into_iter().zip(values);
        all.extend(pairs.map(|(column, value)| Assignment { target: AssignmentTarget::ColumnName(column), value }));
    }
    *assignments = all;
    Ok(())
}

/// The values of a query's one row, each by a query of its own.
fn of_one_row(query: Query, columns: usize) -> Result<Vec<Expr>> {
    if let Some(name) = volatile_call(&query) {
        return Err(Error::Unsupported(format!(
            "SET of several columns to a query that calls {name}() is not supported; set each column by itself"
        )));
    }
    let names: Vec<String> = (0..columns).map(|_| fresh_name("set")).collect();
    let value = |name: &String| {
        let mut around = from_query(query.clone(), &names)?;
        if let SetExpr::Select(select) = around.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(Expr::Identifier(Ident::with_quote('"', name)))];
        }
        Ok(Expr::Subquery(Box::new(around)))
    };
    names.iter().map(value).collect()
}

fn plain(arg: FunctionArg) -> Option<Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

/// A key of GROUP BY.
fn grouping(key: &mut Expr) -> Result<()> {
    match key {
        Expr::Tuple(none) if none.is_empty() => *key = Expr::GroupingSets(vec![Vec::new()]),
        Expr::Rollup(parts) if repeats(parts) => *key = Expr::GroupingSets(each_once(rollup(parts))),
        Expr::Cube(parts) if repeats(parts) => *key = Expr::GroupingSets(each_once(cube(parts)?)),
        Expr::GroupingSets(sets) => {
            let mut all = Vec::with_capacity(sets.len());
            for set in std::mem::take(sets) {
                match set.as_slice() {
                    [Expr::Function(Function { name, args: FunctionArguments::List(list), .. })]
                        if is_called(name, "rollup") || is_called(name, "cube") =>
                    {
                        let parts = list.args.iter().cloned().map_while(plain).map(columns_of).collect::<Vec<_>>();
                        all.extend(if is_called(name, "cube") { cube(&parts)? } else { rollup(&parts) });
                    }
                    [Expr::Rollup(parts)] => all.extend(rollup(parts)),
                    [Expr::Cube(parts)] => all.extend(cube(parts)?),
                    [inner @ Expr::GroupingSets(_)] => {
                        let mut inner = inner.clone();
                        grouping(&mut inner)?;
                        if let Expr::GroupingSets(sets) = inner {
                            all.extend(sets);
                        }
                    }
                    _ => all.push(set),
                }
            }
            *sets = each_once(all);
        }
        _ => {}
    }
    Ok(())
}

fn repeats(parts: &[Vec<Expr>]) -> bool {
    let all: Vec<&Expr> = parts.iter().flatten().collect();
    all.iter().enumerate().any(|(place, column)| all[..place].contains(column))
}

/// Sets in which no column stands twice.
fn each_once(mut sets: Vec<Vec<Expr>>) -> Vec<Vec<Expr>> {
    for set in &mut sets {
        let mut once: Vec<Expr> = Vec::with_capacity(set.len());
        for column in set.drain(..) {
            if !once.contains(&column) {
                once.push(column);
            }
        }
        *set = once;
    }
    sets
}

fn columns_of(part: Expr) -> Vec<Expr> {
    match part {
        Expr::Tuple(columns) => columns,
        Expr::Nested(column) => vec![*column],
        column => vec![column],
    }
}

fn rollup(parts: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=parts.len()).rev().map(|count| parts[..count].concat()).collect()
}

fn cube(parts: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>> {
    if parts.len() > CUBE_MAX {
        return Err(Error::Unsupported(format!("CUBE of more than {CUBE_MAX} columns within GROUPING SETS")));
    }
    let sets = (0..1usize << parts.len()).rev().map(|set| {
        let chosen = parts.iter().enumerate().filter(|(place, _)| set >> (parts.len() - 1 - place) & 1 == 1);
        chosen.flat_map(|(_, columns)| columns.clone()).collect()
    });
    Ok(sets.collect())
}

/// `x LIKE ANY (list)`; what is no list that is written out is refused behind this.
fn like_any(expr: &mut Expr) {
    let (Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. }) = &mut *expr else { return };
    let patterns = match unbracketed(pattern) {
        Expr::Array(ast::Array { elem, .. }) => elem.clone(),
        Expr::Tuple(patterns) => patterns.clone(),
        Expr::Value(value) if value.value == ast::Value::Null => vec![pattern.as_ref().clone()],
        _ => return,
    };
    *any = false;
    let tests = patterns.into_iter().map(|one| {
        let mut test = expr.clone();
        if let Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } = &mut test {
            **pattern = one;
        }
        test
    });
    let tests: Vec<Expr> = tests.collect();
    *expr = joined(BinaryOperator::Or, tests.into_iter()).unwrap_or_else(|| Expr::Value(Value::Boolean(false).into()));
}

fn unbracketed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unbracketed(inner),
        other => other,
    }
}

/// `(a, b) IN (query)` among the conditions of a WHERE, where what is not known counts as false.
fn rows_in_query(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rows_in_query(left);
            rows_in_query(right);
        }
        Expr::Nested(inner) => rows_in_query(inner),
        Expr::InSubquery { negated: false, .. } => {
            if let Some(test) = row_in_query(condition, false) {
                *condition = test;
            }
        }
        _ => {}
    }
}

/// `(a, b) op ANY (query)` and `ALL`.
fn row_quantified(expr: &mut Expr) {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return,
    };
    let Expr::Subquery(query) = right.as_ref() else { return };
    if let Some(test) = row_in(left, op, query, all, true) {
        *expr = test;
    }
}

/// The test of a row; `None` for what is none. `unknown`: whether it tells false from what is not known.
fn row_in_query(test: &Expr, unknown: bool) -> Option<Expr> {
    let Expr::InSubquery { expr, subquery, negated } = test else { return None };
    let op = if *negated { BinaryOperator::NotEq } else { BinaryOperator::Eq };
    row_in(expr, &op, subquery, *negated, unknown)
}

/// Whether a comparison of a row holds for any row of a query, or for all: that it is not so is true of none.
fn row_in(left: &Expr, op: &BinaryOperator, query: &Query, all: bool, unknown: bool) -> Option<Expr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let fields = row(left)?;
    let op = match (op, all) {
        (Eq | NotEq | Lt | LtEq | Gt | GtEq, false) => op.clone(),
        (Eq, true) => NotEq,
        (NotEq, true) => Eq,
        (Lt, true) => GtEq,
        (LtEq, true) => Gt,
        (Gt, true) => LtEq,
        (GtEq, true) => Lt,
        _ => return None,
    };
    let names: Vec<String> = fields.iter().map(|_| fresh_name("field")).collect();
    let columns = names.iter().map(|name| Expr::Identifier(Ident::with_quote('"', name)));
    let compared = match op {
        Eq => {
            let equal = fields.iter().cloned().zip(columns).map(|(field, column)| binary(field, Eq, column));
            joined(BinaryOperator::And, equal)?
        }
        op => binary(Expr::Tuple(fields.clone()), op, Expr::Tuple(columns.collect())),
    };
    let exists = |condition: Expr| {
        let mut query = from_query(query.clone(), &names).ok()?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.selection = Some(condition);
        }
        Some(Expr::Exists { subquery: Box::new(query), negated: false })
    };
    let found = exists(compared.clone())?;
    let found = match unknown {
        false => found,
        true => {
            let not_known = exists(Expr::IsNull(Box::new(Expr::Nested(Box::new(compared)))))?;
            let null = Expr::Value(Value::Null.into());
            let or_null = Expr::Nested(Box::new(binary(null, BinaryOperator::And, not_known)));
            Expr::Nested(Box::new(binary(found, BinaryOperator::Or, or_null)))
        }
    };
    Some(match all {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
        false => found,
    })
}
