//! `CHAR(n)`: texts of n characters, of which those at the end that are blanks have no meaning, as in PostgreSQL.
//!
//! Tables keep them without these blanks, so comparing, grouping, sorting, joining and measuring them is right, and
//! what makes another text of one sees none. What is left is done here: a text as it is written, or one of
//! `VARCHAR(n)`, that one is compared with loses its blanks, patterns and a few functions see all n characters, and so
//! does who gets the rows of a query ([`delivered`]). Which columns are meant is said by their fields
//! (`catalog::lengths`).
//!
//! # Limits
//! Choices between such a text and another (COALESCE, CASE, UNION, ..) are refused, but for NULL and texts of the same
//! length: a cast to TEXT says what is meant. TEXT that one is compared with counts with its blanks, as in PostgreSQL,
//! and so does `VARCHAR` without a length, which is the same type here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, Alias, WindowFunction};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, cast, lit};
use datafusion_optimizer::AnalyzerRule;

use crate::catalog::lengths::{LENGTH, Length};
use crate::error::Error;
use crate::functions::anywhere::{any_node, any_part};
use crate::rewrite::casts::kept;
use crate::rewrite::field_types::with_parts;
use crate::rewrite::kinds::is_comparison;
use crate::rewrite::named::named;
use crate::rewrite::session_zone::here;
use crate::sql::CAST;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct PaddedTexts;

impl AnalyzerRule for PaddedTexts {
    fn name(&self) -> &str {
        "padded_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match concerns(&plan)? {
            true => Ok(plan.transform_up_with_subqueries(rewrite_plan)?.data),
            false => Ok(plan),
        }
    }
}

/// A query whose rows somebody gets who is no table: texts of `CHAR(n)` have n characters, numbers of what has a name
/// are it, and instants are told in the session's zone.
///
/// # Errors
/// As the rule.
pub(crate) fn delivered(plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
    let zone = options.execution.time_zone.as_deref();
    let plan = told_in(named(plan)?, zone)?;
    if !concerns(&plan)? {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(rewrite_plan)?.data;
    let columns = plan.schema().columns();
    let mut any = false;
    let outputs =
        columns.into_iter().zip(plan.schema().fields()).map(|(column, field)| match of_field(field.metadata()) {
            Some(length) => {
                any = true;
                let (relation, name) = (column.relation.clone(), column.name.clone());
                padded(Expr::Column(column), length).alias_qualified(relation, name)
            }
            None => Expr::Column(column),
        });
    let outputs: Vec<Expr> = outputs.collect();
    if any { LogicalPlanBuilder::from(plan).project(outputs)?.build() } else { Ok(plan) }
}

/// A query whose instants are told in a zone.
fn told_in(plan: LogicalPlan, zone: Option<&str>) -> Result<LogicalPlan> {
    let mut any = false;
    let columns = plan.schema().columns();
    let outputs = columns.into_iter().zip(plan.schema().fields()).map(|(column, field)| {
        match zone.and_then(|zone| here(field.data_type(), zone)) {
            Some(to) => {
                any = true;
                let (relation, name) = (column.relation.clone(), column.name.clone());
                cast(Expr::Column(column), to).alias_qualified(relation, name)
            }
            None => Expr::Column(column),
        }
    });
    let outputs: Vec<Expr> = outputs.collect();
    if any { LogicalPlanBuilder::from(plan).project(outputs)?.build() } else { Ok(plan) }
}

/// The column that an output of [`delivered`] pads.
pub(crate) fn padded_column(output: &Alias) -> Option<&Expr> {
    match output.expr.as_ref() {
        Expr::ScalarFunction(call) if call.name() == "rpad" => {
            call.args.first().filter(|e| matches!(e, Expr::Column(column) if column.name == output.name))
        }
        _ => None,
    }
}

/// Whether there are such texts in a plan.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    let has_length = |field: &FieldRef| of_field(field.metadata()).is_some();
    any_node(plan, |node| match node {
        LogicalPlan::TableScan(scan) if scan.source.schema().fields().iter().any(has_length) => Ok(true),
        node => any_part(node, |part| cast_length(part).is_some()),
    })
}

fn rewrite_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Union(union) = &plan {
        for column in 0..plan.schema().fields().len() {
            let field = |input: &Arc<LogicalPlan>| of_field(input.schema().field(column).metadata());
            let lengths: Vec<Option<Length>> = union.inputs.iter().map(field).collect();
            if let Some(Some(length)) = lengths.iter().find(|length| length.is_some())
                && lengths.iter().any(|other| other.as_ref() != Some(length))
            {
                return Err(refused("UNION", length));
            }
        }
    }
    let of = |expr: &Expr, schema: &DFSchema| {
        handed_on(expr, schema).map(|length| HashMap::from([(LENGTH.to_string(), length.sql())]))
    };
    Ok(Transformed::yes(with_parts(with_trimmed_keys(plan)?, rewrite, of)?))
}

fn rewrite(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) => match binary.op {
            op if is_comparison(op) => trim(&mut [&mut binary.left, &mut binary.right], schema),
            op if is_pattern(op) => pad(&mut [&mut binary.left], schema),
            _ => false,
        },
        Expr::InSubquery(test) => trim_query(&mut test.expr, &mut test.subquery, schema)?,
        Expr::SetComparison(test) => trim_query(&mut test.expr, &mut test.subquery, schema)?,
        Expr::Like(like) | Expr::SimilarTo(like) => pad(&mut [&mut like.expr], schema),
        Expr::Between(between) => trim(&mut [&mut between.expr, &mut between.low, &mut between.high], schema),
        Expr::InList(list) => {
            let mut all = vec![list.expr.as_mut()];
            all.extend(list.list.iter_mut());
            trim(&mut all, schema)
        }
        Expr::Case(case) => {
            let mut tested: Vec<&mut Expr> = case.expr.iter_mut().map(AsMut::as_mut).collect();
            if !tested.is_empty() {
                tested.extend(case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
            }
            let trimmed = trim(&mut tested, schema);
            let results = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            let results: Vec<Expr> = results.chain(case.else_expr.as_deref()).cloned().collect();
            return of_choice("CASE", &results, schema, expr, trimmed);
        }
        Expr::ScalarFunction(call) => match call.name() {
            "nullif" => {
                let trimmed = trim(&mut call.args.iter_mut().collect::<Vec<_>>(), schema);
                let first = call.args[0].clone();
                return of_choice("NULLIF", &[first], schema, expr, trimmed);
            }
            "coalesce" | "nvl" | "ifnull" | "greatest" | "least" => {
                let (name, all) = (call.name().to_uppercase(), call.args.clone());
                return of_choice(&name, &all, schema, expr, false);
            }
            "concat" | "octet_length" | "bit_length" | "make_array" | "struct" | "row" | "named_struct" => {
                pad(&mut call.args.iter_mut().collect::<Vec<_>>(), schema)
            }
            _ => false,
        },
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            pad(&mut call.params.args.iter_mut().collect::<Vec<_>>(), schema)
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// A choice between texts of one length is a text of that length.
fn of_choice(what: &str, all: &[Expr], schema: &DFSchema, expr: Expr, changed: bool) -> Result<Transformed<Expr>> {
    let lengths: Vec<Option<Length>> = all.iter().filter(|e| !is_null(e)).map(|e| length_of(e, schema)).collect();
    let Some(length) = lengths.iter().flatten().next().cloned() else {
        return Ok(Transformed::new_transformed(expr, changed));
    };
    if lengths.iter().any(|other| other.as_ref() != Some(&length)) {
        return Err(refused(what, &length));
    }
    Ok(Transformed::yes(kept(expr, &length.sql())))
}

fn refused(what: &str, length: &Length) -> datafusion_common::DataFusionError {
    Error::Unsupported(format!(
        "{what} of {} and other texts is not supported; cast it to TEXT, which has no blanks at the end",
        length.sql()
    ))
    .into_datafusion()
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// The length of a text that an aggregate or window function hands on.
fn handed_on(expr: &Expr, schema: &DFSchema) -> Option<Length> {
    let (name, args) = match expr {
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args),
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_ref();
            (fun.name(), &params.args)
        }
        _ => return None,
    };
    let known =
        ["min", "max", "first_value", "last_value", "nth_value", "any_value", "mode", "lag", "lead"].contains(&name);
    args.first().filter(|_| known).and_then(|argument| length_of(argument, schema))
}

fn is_pattern(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::RegexMatch | O::RegexIMatch | O::RegexNotMatch | O::RegexNotIMatch)
        || matches!(op, O::LikeMatch | O::ILikeMatch | O::NotLikeMatch | O::NotILikeMatch)
}

/// Takes the blanks off texts as they are written, and of `VARCHAR(n)`, where one of what is compared is a text of
/// `CHAR(n)`.
fn trim(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let has_length = all.iter().any(|expr| length_of(expr, schema).is_some());
    has_length && all.iter_mut().fold(false, |changed, expr| trimmed(expr, schema) | changed)
}

/// Takes the blanks off a text, or a parameter, that is compared with a text of `CHAR(n)`.
fn trimmed(expr: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) = expr {
        let end = text.trim_end_matches(' ').len();
        let changed = end < text.len();
        text.truncate(end);
        return changed;
    }
    let changes = stands_for_literal(expr) || is_varying(expr, schema);
    if changes {
        *expr = bare(std::mem::take(expr));
    }
    changes
}

/// Whether it is a parameter that stands for a text that could be written there: one that is declared is of the type
/// that is declared.
fn stands_for_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().is_none_or(|field| of_field(field.metadata()).is_some())
        }
        _ => false,
    }
}

/// The same of a value and the rows of a query that it is compared with.
fn trim_query(value: &mut Expr, query: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let [column] = query.subquery.schema().columns().try_into().unwrap_or_else(|_| [Column::from_name("")]);
    let of = (Expr::Column(column.clone()), query.subquery.schema());
    if length_of(&of.0, of.1).is_some() {
        return Ok(trimmed(value, schema));
    }
    if length_of(value, schema).is_none() || !is_varying(&of.0, of.1) {
        return Ok(false);
    }
    let trimmed = bare(of.0).alias_qualified(column.relation, column.name);
    query.subquery = Arc::new(LogicalPlanBuilder::from(Arc::clone(&query.subquery)).project([trimmed])?.build()?);
    Ok(true)
}

/// Joins by columns (USING) of which one is a text of `CHAR(n)`.
fn with_trimmed_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Join(mut join) = plan else { return Ok(plan) };
    for (left, right) in &mut join.on {
        let lengths = (length_of(left, join.left.schema()), length_of(right, join.right.schema()));
        match lengths {
            (Some(_), None) if is_varying(right, join.right.schema()) => *right = bare(std::mem::take(right)),
            (None, Some(_)) if is_varying(left, join.left.schema()) => *left = bare(std::mem::take(left)),
            _ => {}
        }
    }
    Ok(LogicalPlan::Join(join))
}

/// Is it a text of `VARCHAR(n)`?
fn is_varying(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => {
            expr.to_field(schema).is_ok_and(|(_, field)| field.metadata().contains_key(LENGTH))
                && length_of(expr, schema).is_none()
        }
        Expr::Alias(alias) => is_varying(&alias.expr, schema),
        _ => false,
    }
}

/// A text without the blanks at its end.
fn bare(expr: Expr) -> Expr {
    datafusion_functions::string::rtrim().call(vec![expr, lit(" ")])
}

fn pad(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in all {
        if let Some(length) = length_of(expr, schema) {
            **expr = padded(std::mem::take(*expr), length);
            changed = true;
        }
    }
    changed
}

fn padded(expr: Expr, length: Length) -> Expr {
    let chars = i64::try_from(length.chars()).unwrap_or(i64::MAX);
    datafusion_functions::unicode::rpad().call(vec![expr, lit(chars)])
}

/// The length of a text of `CHAR(n)`.
fn length_of(expr: &Expr, schema: &DFSchema) -> Option<Length> {
    match expr {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) => {
            let (_, field) = expr.to_field(schema).ok()?;
            of_field(field.metadata())
        }
        Expr::Alias(alias) => length_of(&alias.expr, schema),
        other => cast_length(other),
    }
}

fn cast_length(expr: &Expr) -> Option<Length> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == CAST => match call.args.get(1) {
            Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) => Length::of_text(text).filter(|l| l.is_fixed()),
            _ => None,
        },
        _ => None,
    }
}

fn of_field(metadata: &HashMap<String, String>) -> Option<Length> {
    metadata.get(LENGTH).and_then(|text| Length::of_text(text)).filter(|length| length.is_fixed())
}
