//! What the columns of a query are called where users see them: as PostgreSQL has it, and not as the planner, whose
//! names are the expressions in its own notation.
//!
//! ```text
//! i, t.i      i               CAST(i AS BIGINT)    i        CASE .. END         case
//! i + 1, 'x'  ?column?        CAST('5' AS INT)     int4     rank() OVER (..)    rank
//! sum(i)      sum             (SELECT max(i) ..)   max      count(*)            count
//! ```
//! A name that was given with AS stays, of course. Names are of the plan as the planner makes it: the optimiser moves
//! expressions, and columns keep their places.
//!
//! Within a statement, `sql::scope` gives queries in FROM and WITH the same names, from how they are written.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{Column, ScalarValue};
use datafusion_expr::expr::Alias;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Unnest};

use crate::error::Result;
use crate::error::types::sql_type;
use crate::functions::texts::nested::is_list;
use crate::rewrite::chars::padded_column;
use crate::sql::{CAST, is_made, seen_name};

/// What nobody has named.
const UNNAMED: &str = "?column?";

/// What an expression is called.
enum Name {
    /// A column's name, or a function's.
    Own(String),
    /// What kind of expression it is, if what it holds has no name.
    Kind(String),
    None,
}

impl Name {
    fn own(name: &str) -> Name {
        Name::Own(name.to_string())
    }
}

/// The names of a plan's columns, one by one; several may have the same.
pub(crate) fn names(plan: &LogicalPlan) -> Vec<String> {
    let places = 0..plan.schema().fields().len();
    let text = |name: Name| match name {
        Name::Own(name) | Name::Kind(name) => seen_name(&name).map(str::to_string).unwrap_or(name),
        Name::None => UNNAMED.to_string(),
    };
    places.map(|place| text(output(plan, place))).collect()
}

/// Names and types of a plan's rows as users see them.
pub(crate) fn columns(plan: &LogicalPlan) -> SchemaRef {
    named(plan.schema().as_arrow(), &names(plan))
}

/// A schema with other names.
pub(crate) fn named(schema: &Schema, names: &[String]) -> SchemaRef {
    let fields = schema.fields().iter().zip(names).map(|(field, name)| match field.name() == name {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_name(name)),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Names of which no two are the same, whatever their case: `sum`, `sum_1`. Files and tables take no others. A name
/// that is `given` stays, also where it stands twice.
pub(crate) fn apart(names: Vec<String>, given: &dyn Fn(usize, &str) -> bool) -> Vec<String> {
    let all: HashSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let kept = names.iter().enumerate().filter(|(place, name)| given(*place, name));
    let mut taken: HashSet<String> = kept.map(|(_, name)| name.to_lowercase()).collect();
    let apart = names.into_iter().enumerate().map(|(place, name)| {
        if given(place, &name) || taken.insert(name.to_lowercase()) {
            return name;
        }
        let mut number = 1;
        loop {
            let free = format!("{name}_{number}");
            let folded = free.to_lowercase();
            if !all.contains(&folded) && taken.insert(folded) {
                return free;
            }
            number += 1;
        }
    });
    apart.collect()
}

/// A query for the rows of a table or view: names that it makes up are told apart. Two that were given are a fault of
/// the statement.
///
/// # Errors
/// None that a plan of the planner has.
pub(crate) fn with_names_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let names = apart(names(&plan), &|place, name| columns[place].name == name);
    if columns.iter().zip(&names).all(|(column, name)| column.name == *name) {
        return Ok(plan);
    }
    let outputs = columns.into_iter().zip(names).map(|(column, name)| Expr::Column(column).alias(name));
    Ok(LogicalPlanBuilder::from(plan).project(outputs)?.build()?)
}

/// What a column of a plan is called.
fn output(plan: &LogicalPlan, place: usize) -> Name {
    let found = match plan {
        LogicalPlan::Projection(node) => node.expr.get(place).map(|expr| of(expr, &node.input)),
        LogicalPlan::Aggregate(node) => of_aggregate(node, place),
        LogicalPlan::Window(node) => match place.checked_sub(node.input.schema().fields().len()) {
            None => Some(output(&node.input, place)),
            Some(call) => node.window_expr.get(call).map(|expr| of(expr, &node.input)),
        },
        LogicalPlan::Filter(node) => Some(output(&node.input, place)),
        LogicalPlan::Sort(node) => Some(output(&node.input, place)),
        LogicalPlan::Limit(node) => Some(output(&node.input, place)),
        LogicalPlan::SubqueryAlias(node) => Some(output(&node.input, place)),
        LogicalPlan::Distinct(Distinct::All(input)) => Some(output(input, place)),
        LogicalPlan::Distinct(Distinct::On(node)) => node.select_expr.get(place).map(|expr| of(expr, &node.input)),
        LogicalPlan::Subquery(node) => Some(output(&node.subquery, place)),
        LogicalPlan::RecursiveQuery(node) => Some(output(&node.static_term, place)),
        LogicalPlan::Union(node) => node.inputs.first().map(|first| output(first, place)),
        LogicalPlan::Join(node) => match place.checked_sub(node.left.schema().fields().len()) {
            None => Some(output(&node.left, place)),
            Some(right) if right < node.right.schema().fields().len() => Some(output(&node.right, right)),
            Some(_) => None,
        },
        LogicalPlan::Unnest(node) => beside_lists(node, place).map(|below| output(&node.input, below)),
        _ => None,
    };
    found.unwrap_or_else(|| Name::own(plan.schema().field(place).name()))
}

/// Where a column that is no list's stands below.
fn beside_lists(node: &Unnest, place: usize) -> Option<usize> {
    let below = *node.dependency_indices.get(place)?;
    let is_list = node.list_type_columns.iter().any(|(list, _)| *list == below);
    (!is_list && !node.struct_type_columns.contains(&below)).then_some(below)
}

fn of_aggregate(node: &Aggregate, place: usize) -> Option<Name> {
    let keys = match node.group_expr.as_slice() {
        [Expr::GroupingSet(_)] => grouping_set_to_exprlist(&node.group_expr).ok()?,
        keys => keys.iter().collect(),
    };
    let calls = node.schema.fields().len().checked_sub(node.aggr_expr.len())?;
    let expr = match place.checked_sub(calls) {
        Some(call) => node.aggr_expr.get(call)?,
        None => keys.get(place)?,
    };
    Some(of(expr, &node.input))
}

/// What an expression over rows of a plan is called.
fn of(expr: &Expr, input: &LogicalPlan) -> Name {
    match expr {
        Expr::Column(column) => of_column(column, input),
        Expr::OuterReferenceColumn(_, column) => Name::own(&column.name),
        Expr::Alias(alias) if seen_name(&alias.name).is_some() => {
            Name::own(seen_name(&alias.name).unwrap_or(&alias.name))
        }
        Expr::Alias(alias) => match of(padded_column(alias).unwrap_or(&alias.expr), input) {
            inner if padded_column(alias).is_some() => inner,
            inner if is_planners(&alias.name, &alias.expr) => inner,
            // The planner counts a constant, and calls that so.
            Name::Own(inner) if inner == "count" && alias.name.starts_with("count(*)") => Name::Own(inner),
            inner => match called_otherwise(alias) {
                Some(name) if name == "row" => Name::Kind(name),
                Some(name) => Name::Own(name),
                None if has_literals(&alias.name) => inner,
                None => Name::own(&alias.name),
            },
        },
        Expr::Cast(cast) => of_cast(&cast.expr, cast.field.data_type(), input),
        Expr::TryCast(cast) => of_cast(&cast.expr, cast.field.data_type(), input),
        Expr::Case(case) => match case.else_expr.as_deref().map(|last| of(last, input)) {
            Some(Name::Own(name)) => Name::Own(name),
            _ => Name::Kind("case".into()),
        },
        Expr::AggregateFunction(call) => Name::own(call.func.name()),
        Expr::WindowFunction(call) => Name::own(call.fun.name()),
        Expr::ScalarFunction(call) => match (call.func.name(), call.args.as_slice()) {
            ("array_element" | "array_slice", [list, ..]) => of(list, input),
            ("get_field", [.., Expr::Literal(field, _)]) => match field.try_as_str() {
                Some(Some(field)) => Name::own(field),
                _ => Name::None,
            },
            (CAST, [cut, Expr::Literal(length, _)]) => of_cut(cut, length, input),
            ("make_array", _) => Name::Kind("array".into()),
            ("struct" | "named_struct", _) => Name::Kind("row".into()),
            (name, [inner, ..]) if is_made(name) => of(inner, input),
            (name, _) if is_word(name) => Name::own(name),
            _ => Name::None,
        },
        Expr::ScalarSubquery(query) => output(&query.subquery, 0),
        Expr::Exists(test) if !test.negated => Name::own("exists"),
        Expr::Unnest(_) => Name::own("unnest"),
        Expr::Literal(value, _) if matches!(value.data_type(), DataType::Interval(_)) => Name::Kind("interval".into()),
        _ => Name::None,
    }
}

/// A column's name: of what it stands for, where the planner or a rule of ours named that.
fn of_column(column: &Column, input: &LogicalPlan) -> Name {
    match input.schema().maybe_index_of_column(column) {
        Some(place) => match input {
            LogicalPlan::Unnest(_) if column.name.starts_with("__unnest_placeholder") => Name::own("unnest"),
            _ => output(input, place),
        },
        None => Name::own(&column.name),
    }
}

/// A cast to VARCHAR(n) or CHAR(n), which is a call that cuts what is cast, is called as the cast would be.
fn of_cut(cut: &Expr, length: &ScalarValue, input: &LogicalPlan) -> Name {
    let within = |expr: &'_ Expr| match expr {
        Expr::ScalarFunction(call) => call.args.first().cloned(),
        _ => None,
    };
    let is_fixed = length.try_as_str().flatten().is_some_and(|length| length.starts_with("CHAR"));
    // CHAR(n) is `rtrim(left(x, n))`, VARCHAR(n) is `left(x, n)`.
    let inner = if is_fixed { within(cut).as_ref().and_then(within) } else { within(cut) };
    match inner.as_ref().map_or(Name::None, |inner| of(inner, input)) {
        Name::Own(name) => Name::Own(name),
        Name::Kind(_) | Name::None => Name::Kind(if is_fixed { "bpchar" } else { "varchar" }.into()),
    }
}

/// A cast is called like what it casts, or else like the type.
fn of_cast(inner: &Expr, data_type: &DataType, input: &LogicalPlan) -> Name {
    match of(inner, input) {
        Name::Own(name) => Name::Own(name),
        // The type is said of the elements.
        Name::Kind(kind) if kind == "array" && is_list(data_type) => Name::Kind(kind),
        Name::Kind(_) | Name::None => Name::Kind(type_word(data_type)),
    }
}

/// PostgreSQL's short name of a type.
fn type_word(data_type: &DataType) -> String {
    let word = match data_type {
        DataType::Boolean => "bool",
        DataType::Int16 => "int2",
        DataType::Int32 => "int4",
        DataType::Int64 => "int8",
        DataType::Float32 => "float4",
        DataType::Float64 => "float8",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            "numeric"
        }
        DataType::List(inner) | DataType::LargeList(inner) => return type_word(inner.data_type()),
        other => return sql_type(other).to_lowercase().replace(' ', "_"),
    };
    word.to_string()
}

/// Whether a name is none that a user gave: the planner's for this expression, or one that tells outputs apart.
fn is_planners(name: &str, expr: &Expr) -> bool {
    is_made(name) || name.contains("UNNEST(") || expr.schema_name().to_string() == name
}

/// The name under which a function was called that has another: the planner makes an alias of that call.
fn called_otherwise(alias: &Alias) -> Option<String> {
    let Expr::ScalarFunction(call) = alias.expr.as_ref() else { return None };
    let (name, rest) = alias.name.split_once('(')?;
    let is_call = rest.ends_with(')') && call.func.aliases().iter().any(|other| other.eq_ignore_ascii_case(name));
    is_call.then(|| name.to_lowercase())
}

/// Whether a name has constants in the planner's notation, so that the planner made it; a rule of ours kept it where it
/// changed the expression.
fn has_literals(name: &str) -> bool {
    ["Utf8(", "Utf8View(", "Int64(", "Int32(", "Float64(", "Boolean(", "Decimal128("]
        .iter()
        .any(|own| name.contains(own))
}

/// False for functions that stand for an operator of SQL.
fn is_word(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::apart;

    fn told(names: &[&str], given: &[usize]) -> Vec<String> {
        let names = names.iter().map(ToString::to_string).collect();
        apart(names, &|place, _| given.contains(&place))
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(told(&["a", "b"], &[]), ["a", "b"]);
        assert_eq!(told(&["a", "A", "a"], &[]), ["a", "A_1", "a_2"]);
        assert_eq!(told(&["a", "a", "a_1"], &[]), ["a", "a_2", "a_1"]);
        assert_eq!(told(&["a", "a"], &[1]), ["a_1", "a"]);
        assert_eq!(told(&["a", "a", "a"], &[0, 1]), ["a", "a", "a_1"]);
    }
}
