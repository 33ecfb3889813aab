//! What the parser or the planner would take otherwise than SQL has it, or not at all, set right in the syntax tree.

use std::ops::ControlFlow;

use datafusion_sql::parser::Statement;
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{self, Ident, ObjectName, SelectItem, Value, VisitorMut, visit_expressions};

use super::calls::{call, is_called};
use super::casts::{CAST, apart_from_its_column, name_outputs, with_own_digits};
use super::dimensions;
use super::fields::name_fields;
use super::grouping;
use super::intervals::spell_out;
use super::keys::{order_by_outputs, order_by_queries, order_distinct_keys};
use super::outputs::{each_select, folded, name_outputs_apart, name_queries};
use super::similar;
use super::ties::rank_with_ties;
use super::values::{of_one_type, values_of_floats};
use super::walk::{rewrite, visit_mut};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::any_of_list;
use crate::functions::arrays::SLICES;
use crate::functions::overlaps;
use crate::functions::zones;

/// Sets a statement right.
///
/// # Errors
/// Rows of VALUES whose types do not meet.
pub(super) fn mend(statement: &mut Statement) -> Result<()> {
    rewrite(statement, &mut Mend::default())?;
    let _ = visit_mut(statement, &mut Lists { depth: 0 });
    Ok(())
}

/// `ARRAY[outer.a]` within a query: the planner looks for columns of lists in the innermost query alone, for those of
/// calls in all.
struct Lists {
    /// How many queries there are around the place.
    depth: usize,
}

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Array(list) = expr
            && self.depth > 1
            && list.elem.iter().any(names_a_column)
        {
            *expr = call("make_array", std::mem::take(&mut list.elem));
        }
        ControlFlow::Continue(())
    }
}

fn names_a_column(expr: &ast::Expr) -> bool {
    visit_expressions(expr, |part| match part {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

#[derive(Default)]
struct Mend {
    /// How many queries there are around the place.
    depth: usize,
    /// The statement puts the rows of the outermost query into columns, whose types they take one by one.
    inserts: bool,
}

impl VisitorMut for Mend {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<Error> {
        match statement {
            ast::Statement::Set(set) => match assign_time_zone(set) {
                Ok(()) => {}
                Err(error) => return ControlFlow::Break(error),
            },
            ast::Statement::Insert(_) => self.inserts = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        self.depth += 1;
        each_select(&mut query.body, &mut |select| select.projection.iter_mut().for_each(replace_known_columns));
        order_by_outputs(query);
        let mut checked = order_distinct_keys(query);
        order_by_queries(query);
        name_queries(query);
        name_outputs_apart(query);
        if let Err(error) = rank_with_ties(query) {
            return ControlFlow::Break(error);
        }
        each_select(&mut query.body, &mut name_outputs);
        each_select(&mut query.body, &mut having_one_group);
        each_select(&mut query.body, &mut |select| {
            if checked.is_ok() {
                checked = grouping::write_out(select);
            }
        });
        if let Err(error) = checked {
            return ControlFlow::Break(error);
        }
        limit_by_fetch(query);
        count_by_parameters(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<Error> {
        self.depth -= 1;
        if let ast::SetExpr::Values(values) = query.body.as_mut() {
            values_of_floats(values);
            if !(self.inserts && self.depth == 0)
                && let Err(error) = of_one_type(values)
            {
                return ControlFlow::Break(error);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Error> {
        call_timezone(expr);
        order_distinct_values(expr);
        compare_with_lists(expr);
        compare_rows(expr);
        distinct_from_text(expr);
        dimensions::give(expr);
        cut_to_length(expr);
        read_exponents_as_doubles(expr);
        with_own_digits(expr);
        apart_from_its_column(expr);
        call_substr(expr);
        name_fields(expr);
        give_ends(expr);
        slice_dimensions(expr);
        match spell_out(expr).and_then(|()| call_overlaps(expr)).and_then(|()| similar::write_out(expr)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// `SET TIME ZONE '+02:00'`, as the standard has it, is `SET TIMEZONE = '+02:00'`, and so is an interval of hours.
///
/// # Errors
/// An interval that is no offset.
fn assign_time_zone(set: &mut ast::Set) -> Result<()> {
    if let ast::Set::SetTimeZone { local: false, value } = set {
        if let ast::Expr::Interval(interval) = value {
            let offset = offset_of(interval).ok_or_else(|| {
                let message = "the interval of SET TIME ZONE is one of hours and minutes, as in INTERVAL '+02:00'";
                Error::plan(SqlState::InvalidParameterValue, message)
            })?;
            *value = ast::Expr::Value(Value::SingleQuotedString(offset).into());
        }
        let variable = ObjectName::from(vec![Ident::new("TIMEZONE")]);
        *set = ast::Set::SingleAssignment { scope: None, hivevar: false, variable, values: vec![value.clone()] };
    }
    Ok(())
}

/// `+02:00`, of an interval of hours or of hours and minutes.
fn offset_of(interval: &ast::Interval) -> Option<String> {
    let ast::Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let (sign, digits) = match text.trim() {
        text if text.starts_with('-') => ('-', &text[1..]),
        text => ('+', text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (hours, minutes),
        None if matches!(interval.leading_field, Some(ast::DateTimeField::Hour)) => (digits, "0"),
        None => return None,
    };
    let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
    (hours < 16 && minutes < 60).then(|| format!("{sign}{hours:02}:{minutes:02}"))
}

/// Numbers with an exponent are DOUBLEs: as decimals, which other numbers with a point are, most would not fit.
fn read_exponents_as_doubles(expr: &mut ast::Expr) {
    if let ast::Expr::Value(value) = expr
        && let Value::Number(text, _) = &value.value
        && text.contains(['e', 'E'])
    {
        let span = value.span;
        let text = Value::SingleQuotedString(text.to_string());
        *expr = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::Value(ast::ValueWithSpan { value: text, span })),
            data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
            array: false,
            format: None,
        };
    }
}

/// `a[:2]` begins with the first element, `a[2:]` ends with the last.
fn give_ends(expr: &mut ast::Expr) {
    let ast::Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, .. }) = access {
            let number = |number: i32| ast::Expr::Value(Value::Number(number.to_string(), false).into());
            lower_bound.get_or_insert_with(|| number(1));
            upper_bound.get_or_insert_with(|| number(i32::MAX));
        }
    }
}

/// `a[1:2][3]`: where one of several subscripts is a slice all are, `3` from 1, each of a dimension of its own. They
/// are taken together, as `a[1:2]` alone would be a list whose elements `[3]` tells.
fn slice_dimensions(expr: &mut ast::Expr) {
    use ast::{AccessExpr, Subscript};
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let is_text = |index: &ast::Expr| match index {
        ast::Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    };
    let of_lists = |access: &AccessExpr| match access {
        AccessExpr::Dot(_) => false,
        AccessExpr::Subscript(Subscript::Index { index }) => !is_text(index),
        AccessExpr::Subscript(Subscript::Slice { stride, .. }) => stride.is_none(),
    };
    let is_slice = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
    let Some(first) = access_chain.iter().position(is_slice) else { return };
    let start = access_chain[..first].iter().rposition(|access| !of_lists(access)).map_or(0, |last| last + 1);
    let length = access_chain[start..].iter().take_while(|access| of_lists(access)).count();
    if length < 2 {
        return;
    }
    let rest = access_chain.split_off(start + length);
    let number = |number: i32| ast::Expr::Value(Value::Number(number.to_string(), false).into());
    let subscripts = access_chain.split_off(start).into_iter().flat_map(|access| match access {
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            [lower_bound.unwrap_or_else(|| number(1)), upper_bound.unwrap_or_else(|| number(i32::MAX))]
        }
        AccessExpr::Subscript(Subscript::Index { index: inner }) | AccessExpr::Dot(inner) => [number(1), inner],
    });
    let subscripts: Vec<ast::Expr> = subscripts.collect();
    let list = match access_chain.is_empty() {
        true => root.as_ref().clone(),
        false => ast::Expr::CompoundFieldAccess { root: root.clone(), access_chain: std::mem::take(access_chain) },
    };
    let sliced = call(SLICES, std::iter::once(list).chain(subscripts).collect());
    *expr = match rest.is_empty() {
        true => sliced,
        false => ast::Expr::CompoundFieldAccess { root: Box::new(sliced), access_chain: rest },
    };
}

/// `(a, b) OVERLAPS (c, d)` is a call.
fn call_overlaps(expr: &mut ast::Expr) -> Result<()> {
    if let ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Overlaps, right } = expr {
        let ends = |side: &ast::Expr| row(side).filter(|ends| ends.len() == 2);
        let (Some(left), Some(right)) = (ends(left), ends(right)) else {
            return Err(Error::plan(
                SqlState::SyntaxError,
                "OVERLAPS has two ends on either side; write (a, b) OVERLAPS (c, d)",
            ));
        };
        *expr = call(overlaps::NAME, left.into_iter().chain(right).collect());
    }
    Ok(())
}

/// `substr(s, 2)` is a call, which the parser takes for `substring(s FROM 2)`: the column has another name.
fn call_substr(expr: &mut ast::Expr) {
    if let ast::Expr::Substring { expr: text, substring_from, substring_for, shorthand: true, .. } = expr {
        let places = substring_from.iter().chain(substring_for.iter());
        *expr =
            call("substr", std::iter::once(&*text).chain(places).map(|argument| argument.as_ref().clone()).collect());
    }
}

/// Values that an aggregate takes once come in their order, as in PostgreSQL, which finds them by sorting.
fn order_distinct_values(expr: &mut ast::Expr) {
    let ast::Expr::Function(function) = expr else { return };
    if function.over.is_some() || !["array_agg", "string_agg"].iter().any(|name| is_called(&function.name, name)) {
        return;
    }
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    let is_ordered = |clause: &ast::FunctionArgumentClause| matches!(clause, ast::FunctionArgumentClause::OrderBy(_));
    if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)
        && !list.clauses.iter().any(is_ordered)
        && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))) = list.args.first()
    {
        let options = ast::OrderByOptions { asc: None, nulls_first: None };
        let key = ast::OrderByExpr { expr: value.clone(), options, with_fill: None };
        list.clauses.push(ast::FunctionArgumentClause::OrderBy(vec![key]));
    }
}

/// `x AT TIME ZONE 'z'` is another type for a TIMESTAMP than for a TIMESTAMPTZ, which a cast could not tell.
fn call_timezone(expr: &mut ast::Expr) {
    if let ast::Expr::AtTimeZone { timestamp, time_zone } = expr {
        *expr = call(zones::NAME, vec![time_zone.as_ref().clone(), timestamp.as_ref().clone()]);
    }
}

/// `x = ANY (ARRAY[..])` is IN; every other comparison with a list is a call of ours. So is one with decimals as they
/// are written: beside a REAL those of IN are REAL, those of an array are not. A query's values are compared by
/// `quantified`.
fn compare_with_lists(expr: &mut ast::Expr) {
    let (left, op, right, all) = match expr {
        ast::Expr::AnyOp { left, compare_op, right, is_some: _ } => (left, compare_op, right, false),
        ast::Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return,
    };
    if matches!(right.as_ref(), ast::Expr::Subquery(_)) {
        return;
    }
    let in_list = matches!((&*op, all), (ast::BinaryOperator::Eq, false) | (ast::BinaryOperator::NotEq, true));
    let has_point = |item: &ast::Expr| match item {
        ast::Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if text.contains('.')),
        _ => false,
    };
    if let ast::Expr::Array(array) = right.as_mut()
        && in_list
        && !array.elem.is_empty()
        && !array.elem.iter().any(has_point)
    {
        *expr = ast::Expr::InList { expr: left.clone(), list: std::mem::take(&mut array.elem), negated: all };
        return;
    }
    *expr = call(&any_of_list::name_of(&op.to_string(), all), vec![left.as_ref().clone(), right.as_ref().clone()]);
}

/// A comparison of rows is one of their fields, which says what it makes of NULLs: `(a, b) = (c, d)` is
/// `a = c AND b = d`.
fn compare_rows(expr: &mut ast::Expr) {
    use ast::BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    let compared = match expr {
        ast::Expr::BinaryOp { left, op, right } => {
            let (Some(left), Some(right)) = (row(left), row(right)) else { return };
            if left.len() != right.len() {
                return;
            }
            let pairs = left.iter().zip(&right);
            match op {
                Eq => joined(And, pairs.map(|(l, r)| binary(l.clone(), Eq, r.clone()))),
                NotEq => joined(Or, pairs.map(|(l, r)| binary(l.clone(), NotEq, r.clone()))),
                Lt | LtEq | Gt | GtEq => {
                    let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
                    // The last fields decide as the rows do; earlier ones where they differ.
                    pairs.rev().fold(None, |later, (l, r)| match later {
                        None => Some(binary(l.clone(), op.clone(), r.clone())),
                        Some(later) => {
                            let equal = binary(binary(l.clone(), Eq, r.clone()), And, later);
                            Some(binary(binary(l.clone(), strict.clone(), r.clone()), Or, equal))
                        }
                    })
                }
                _ => return,
            }
        }
        ast::Expr::InList { expr: left, list, negated } => {
            let Some(left) = row(left) else { return };
            let rows: Option<Vec<Vec<ast::Expr>>> = list.iter().map(row).collect();
            let Some(rows) = rows.filter(|rows| rows.iter().all(|row| row.len() == left.len())) else { return };
            let equal = rows
                .iter()
                .filter_map(|row| joined(And, left.iter().zip(row).map(|(l, r)| binary(l.clone(), Eq, r.clone()))));
            let any = joined(Or, equal);
            match *negated {
                true => any.map(|any| ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(any) }),
                false => any,
            }
        }
        ast::Expr::Between { expr: value, negated, low, high } => {
            if row(value).is_none() || row(low).is_none() || row(high).is_none() {
                return;
            }
            let mut above = binary(*value.clone(), GtEq, *low.clone());
            let mut below = binary(*value.clone(), LtEq, *high.clone());
            for part in [&mut above, &mut below] {
                if let ast::Expr::Nested(inner) = part {
                    compare_rows(inner);
                }
            }
            let within = binary(above, And, below);
            Some(match *negated {
                true => ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(within) },
                false => within,
            })
        }
        ast::Expr::IsNull(fields) => {
            let Some(fields) = row(fields) else { return };
            joined(And, fields.iter().map(|field| ast::Expr::IsNull(Box::new(field.clone()))))
        }
        ast::Expr::IsNotNull(fields) => {
            let Some(fields) = row(fields) else { return };
            joined(And, fields.iter().map(|field| ast::Expr::IsNotNull(Box::new(field.clone()))))
        }
        _ => return,
    };
    if let Some(compared) = compared {
        *expr = ast::Expr::Nested(Box::new(compared));
    }
}

fn is_row(name: &ObjectName) -> bool {
    matches!(&name.0[..], [part] if part.as_ident().is_some_and(|name| folded(name) == "row"))
}

/// The fields of a row: in brackets, or as `ROW(..)`.
pub(super) fn row(expr: &ast::Expr) -> Option<Vec<ast::Expr>> {
    match expr {
        ast::Expr::Tuple(fields) if !fields.is_empty() => Some(fields.clone()),
        ast::Expr::Nested(inner) => row(inner),
        ast::Expr::Function(call) if is_row(&call.name) => {
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let field = |argument: &ast::FunctionArg| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(field)) => Some(field.clone()),
                _ => None,
            };
            list.args.iter().map(field).collect::<Option<Vec<_>>>().filter(|fields| !fields.is_empty())
        }
        _ => None,
    }
}

pub(super) fn joined(op: ast::BinaryOperator, conditions: impl Iterator<Item = ast::Expr>) -> Option<ast::Expr> {
    conditions.reduce(|left, right| binary(left, op.clone(), right))
}

/// `(left op right)`.
fn binary(left: ast::Expr, op: ast::BinaryOperator, right: ast::Expr) -> ast::Expr {
    ast::Expr::Nested(Box::new(ast::Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

/// `* REPLACE (x AS c)`: the planner passes over a `c` that is no column. So `x` is made to mention it, in a
/// condition that is always true.
fn replace_known_columns(item: &mut SelectItem) {
    let (table, options) = match item {
        SelectItem::Wildcard(options) => (Vec::new(), options),
        SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
            (name.0.iter().filter_map(|part| part.as_ident().cloned()).collect(), options)
        }
        _ => return,
    };
    for element in options.opt_replace.iter_mut().flat_map(|replace| &mut replace.items) {
        let column = Ident::with_quote('"', folded(&element.column_name));
        element.column_name = column.clone();
        let reference = match table.is_empty() {
            true => ast::Expr::Identifier(column),
            false => ast::Expr::CompoundIdentifier(table.iter().cloned().chain([column]).collect()),
        };
        let condition = ast::Expr::BinaryOp {
            left: Box::new(ast::Expr::Value(Value::Boolean(true).into())),
            op: ast::BinaryOperator::Or,
            right: Box::new(ast::Expr::IsNull(Box::new(reference))),
        };
        let result = std::mem::replace(&mut element.expr, ast::Expr::Value(Value::Null.into()));
        element.expr = ast::Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![ast::CaseWhen { condition, result }],
            else_result: None,
        };
    }
}

/// `HAVING` without GROUP BY and aggregates is about one group, too: the planner asks for an aggregate there.
fn having_one_group(select: &mut ast::Select) {
    let is_grouped = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if is_grouped {
        return;
    }
    let Some(having) = select.having.take() else { return };
    let rows = call("count", vec![ast::Expr::Value(Value::Number("1".into(), false).into())]);
    let always = ast::Expr::IsNotNull(Box::new(rows));
    let having = ast::Expr::Nested(Box::new(having));
    select.having = joined(ast::BinaryOperator::And, [having, always].into_iter());
}

/// `FETCH FIRST n ROWS ONLY`, as the standard has it, is `LIMIT n`.
fn limit_by_fetch(query: &mut ast::Query) {
    let Some(ast::Fetch { with_ties: false, percent: false, quantity }) = &query.fetch else { return };
    let one = || ast::Expr::Value(Value::Number("1".into(), false).into());
    let rows = quantity.clone().unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause =
                Some(ast::LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
        }
        Some(ast::LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
        // Both: the planner refuses that.
        Some(_) => return,
    }
    query.fetch = None;
}

/// Parameters of LIMIT and OFFSET are BIGINT where nobody has said so.
fn count_by_parameters(query: &mut ast::Query) {
    let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else { return };
    for count in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
        if matches!(count, ast::Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
            let parameter = std::mem::replace(count, ast::Expr::Value(Value::Null.into()));
            *count = ast::Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(parameter),
                data_type: ast::DataType::BigInt(None),
                array: false,
                format: None,
            };
        }
    }
}

/// `x IS NOT DISTINCT FROM 'text'` is `(x = 'text') IS TRUE`, since the text is not NULL: so it takes the type of `x`.
fn distinct_from_text(expr: &mut ast::Expr) {
    let is_text = |side: &ast::Expr| match side {
        ast::Expr::Value(value) => matches!(value.value, Value::SingleQuotedString(_)),
        _ => false,
    };
    let (left, right, is_distinct) = match expr {
        ast::Expr::IsDistinctFrom(left, right) => (left, right, true),
        ast::Expr::IsNotDistinctFrom(left, right) => (left, right, false),
        _ => return,
    };
    if is_text(left) == is_text(right) {
        return;
    }
    let equal = ast::Expr::BinaryOp { left: left.clone(), op: ast::BinaryOperator::Eq, right: right.clone() };
    let equal = Box::new(ast::Expr::Nested(Box::new(equal)));
    *expr = if is_distinct { ast::Expr::IsNotTrue(equal) } else { ast::Expr::IsTrue(equal) };
}

/// `CAST (x AS VARCHAR(n))` has the first n characters of the text, `CHAR(n)` without the blanks at their end.
fn cut_to_length(expr: &mut ast::Expr) {
    let ast::Expr::Cast { data_type, .. } = expr else { return };
    let (length, fixed) = match data_type {
        ast::DataType::Varchar(length) => (length, false),
        ast::DataType::Char(length) => (length, true),
        _ => return,
    };
    let chars = match length.take() {
        Some(ast::CharacterLength::IntegerLength { length, unit: _ }) => length,
        None if fixed => 1,
        _ => return,
    };
    let cast = std::mem::replace(expr, ast::Expr::Value(Value::Null.into()));
    let mut cut = call("left", vec![cast, ast::Expr::Value(Value::Number(chars.to_string(), false).into())]);
    if fixed {
        cut = call("rtrim", vec![cut]);
    }
    let length = format!("{}({chars})", if fixed { "CHAR" } else { "VARCHAR" });
    *expr = call(CAST, vec![cut, ast::Expr::Value(Value::SingleQuotedString(length).into())]);
}
