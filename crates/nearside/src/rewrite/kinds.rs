//! Which types may meet in a comparison or in a choice (COALESCE, CASE, IN, ARRAY, ..), as PostgreSQL has it: types of
//! one kind, and a text as it is written takes the type of what it meets.
//!
//! DataFusion makes a number of a text, or a text of a number, where they meet; then it depends on the rows whether a
//! statement fails, and `'010'` equals 10. So what is of different kinds is refused before it looks.
//!
//! Rows within columns (structs) are equal or not; what orders them by their fields with NULL where SQL does not is
//! refused, and `IS NULL` asks their fields.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, Case, WindowFunctionDefinition};
use datafusion_expr::type_coercion::binary::type_union_coercion;
use datafusion_expr::utils::{conjunction, disjunction};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion_functions::core::get_field;

use crate::catalog::named_types::{REGPROC, name_of};
use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::uuids::UUID;

/// Functions that choose one of their arguments, or make a list of them.
const CHOICES: [&str; 6] = ["coalesce", "nvl", "ifnull", "greatest", "least", "make_array"];

/// Casts texts as they are written to the type that they meet in this expression; true when it did.
///
/// # Errors
/// Types of different kinds, and rows where they are not compared as SQL has it.
pub(super) fn meet(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            let op = binary.op;
            let changed = compared(&mut [&mut binary.left, &mut binary.right], &op.to_string(), schema)?;
            if !matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom) {
                refuse_rows(&op.to_string(), &binary.left, schema)?;
            }
            Ok(changed)
        }
        Expr::BinaryExpr(binary) if is_arithmetic(binary.op) => {
            let sides = &mut [binary.left.as_mut(), binary.right.as_mut()];
            let types = types_of(sides, schema);
            if binary.op == Operator::Minus && types.iter().flatten().all(is_moment) {
                return Ok(tell_moments(sides, schema));
            }
            let numbers = types.iter().flatten().any(DataType::is_numeric);
            if numbers { take_type(sides, schema) } else { Ok(false) }
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::StringConcat => {
            let sides = &mut [binary.left.as_mut(), binary.right.as_mut()];
            let types = types_of(sides, schema);
            let bytes = |data_type: &DataType| same_kind(data_type, &DataType::Binary);
            if types.iter().flatten().any(bytes) { compared(sides, "||", schema) } else { Ok(false) }
        }
        Expr::Between(between) => {
            refuse_rows("BETWEEN", &between.expr, schema)?;
            compared(&mut [&mut between.expr, &mut between.low, &mut between.high], "BETWEEN", schema)
        }
        Expr::InList(list) => {
            let mut all = vec![list.expr.as_mut()];
            all.extend(list.list.iter_mut());
            compared(&mut all, "IN", schema)
        }
        Expr::InSubquery(test) => {
            let to = test.subquery.subquery.schema().fields().first().map(|field| field.data_type().clone());
            let mut query = Expr::Literal(ScalarValue::Null, None);
            if let Some(to) = to {
                query = cast(query, to);
            }
            compared(&mut [&mut test.expr, &mut query], "IN", schema)
        }
        Expr::Case(case) => meet_in_case(case, schema),
        Expr::ScalarFunction(call) if call.name() == "nullif" => {
            compared(&mut call.args.iter_mut().collect::<Vec<_>>(), "NULLIF", schema)
        }
        Expr::ScalarFunction(call) if CHOICES.contains(&call.name()) => {
            let name = if call.name() == "make_array" { "ARRAY".into() } else { call.name().to_uppercase() };
            if matches!(call.name(), "greatest" | "least") {
                call.args.iter().try_for_each(|argument| refuse_rows(&name, argument, schema))?;
            }
            chosen(&mut call.args.iter_mut().collect::<Vec<_>>(), &name, schema)
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) if matches!(func.name(), "min" | "max") => {
            params.args.iter().try_for_each(|argument| refuse_rows(func.name(), argument, schema)).map(|()| false)
        }
        Expr::WindowFunction(window) => match &window.fun {
            WindowFunctionDefinition::AggregateUDF(func) if matches!(func.name(), "min" | "max") => {
                let arguments = &window.params.args;
                arguments.iter().try_for_each(|argument| refuse_rows(func.name(), argument, schema)).map(|()| false)
            }
            _ => Ok(false),
        },
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
            let Ok(DataType::Struct(fields)) = inner.get_type(schema) else { return Ok(false) };
            let row = std::mem::take(inner.as_mut());
            *expr = null_test_of_fields(row, &fields, matches!(expr, Expr::IsNull(_)));
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// What is tested meets the values that it is tested for, and the results meet each other.
fn meet_in_case(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    if let Some(operand) = case.expr.as_deref_mut() {
        let mut all = vec![operand];
        all.extend(case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut()));
        changed |= compared(&mut all, "CASE", schema)?;
    } else {
        case.when_then_expr.iter().try_for_each(|(when, _)| must_be_condition(when, schema))?;
    }
    let mut results: Vec<&mut Expr> = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut()).collect();
    results.extend(case.else_expr.as_deref_mut());
    Ok(changed | chosen(&mut results, "CASE", schema)?)
}

/// `IS NULL`, or `IS NOT NULL`, of a row as one of its fields.
fn null_test_of_fields(row: Expr, fields: &Fields, is_null: bool) -> Expr {
    let field =
        |field: &Arc<Field>| get_field().call(vec![row.clone(), lit(ScalarValue::Utf8(Some(field.name().clone())))]);
    let tests = fields.iter().map(field);
    let test = match is_null {
        true => {
            let none = conjunction(tests.map(Expr::is_null));
            disjunction(std::iter::once(row.clone().is_null()).chain(none))
        }
        false => conjunction(std::iter::once(row.clone().is_not_null()).chain(tests.map(Expr::is_not_null))),
    };
    test.unwrap_or(row)
}

/// Refuses joins of columns of different kinds.
///
/// # Errors
/// The first pair of them.
pub(super) fn check_join(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Join(join) = plan else { return Ok(()) };
    for (left, right) in &join.on {
        let sides = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        if let (Ok(a), Ok(b)) = &sides
            && !same_kind(a, b)
        {
            return Err(incomparable(&format!("{left} = {right}"), a, b));
        }
    }
    Ok(())
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}

/// What is compared with each other; `how` names the comparison.
fn compared(all: &mut [&mut Expr], how: &str, schema: &DFSchema) -> Result<bool> {
    let changed = no_function(all, schema);
    if let Some((first, other)) = strangers(all, schema) {
        let place = match all {
            [left, right] if how != "IN" && (how.len() <= 2 || how.starts_with("IS")) => {
                format!("{left} {how} {right}")
            }
            _ => how.to_string(),
        };
        return Err(incomparable(&place, &first, &other));
    }
    Ok(take_type(all, schema)? || changed)
}

/// Beside a column of functions 0 stands for none, which it shows as `-`.
fn no_function(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let zero = ScalarValue::Int64(Some(0));
    let is_zero = |expr: &Expr| match expr {
        Expr::Literal(value, _) if value.data_type().is_integer() => {
            value.cast_to(&DataType::Int64).is_ok_and(|n| n == zero)
        }
        _ => false,
    };
    let is_function = |expr: &Expr| {
        matches!(expr, Expr::Column(_))
            && expr.to_field(schema).is_ok_and(|(_, field)| name_of(&field) == Some(REGPROC))
    };
    if !all.iter().any(|expr| is_zero(expr)) || !all.iter().any(|expr| is_function(expr)) {
        return false;
    }
    for expr in all.iter_mut().filter(|expr| is_zero(expr)) {
        **expr = lit("-");
    }
    true
}

/// What becomes one value.
fn chosen(all: &mut [&mut Expr], what: &str, schema: &DFSchema) -> Result<bool> {
    if let Some((first, other)) = strangers(all, schema) {
        let message = format!("{what} types {first} and {other} cannot be matched; cast one to the type of the other");
        return Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion());
    }
    let told = tell_moments(all, schema);
    Ok(take_type(all, schema)? || told)
}

/// Days and times without a zone become instants where they stand beside one; true when there was such a one.
fn tell_moments(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let Some(to) = common_instant(known(all, schema).iter()) else { return false };
    let mut changed = false;
    for expr in all.iter_mut() {
        if expr.get_type(schema).is_ok_and(|of| is_local(&of)) {
            **expr = cast(std::mem::take(*expr), to.clone());
            changed = true;
        }
    }
    changed
}

pub(super) fn is_moment(of: &DataType) -> bool {
    is_local(of) || matches!(of, DataType::Timestamp(..))
}

/// Whether values of a type are days, or times without a zone.
pub(super) fn is_local(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
}

/// The type of instants that days and times without a zone become beside one: as fine as the finest. `None` where there
/// is none.
pub(super) fn common_instant<'t>(types: impl Iterator<Item = &'t DataType>) -> Option<DataType> {
    let mut finest = None;
    let mut in_zone = None;
    for of in types {
        if let DataType::Timestamp(unit, zone) = of {
            finest = finest.max(Some(*unit));
            in_zone = in_zone.or(zone.clone());
        }
    }
    in_zone.zip(finest).map(|(zone, unit)| DataType::Timestamp(unit, Some(zone)))
}

fn incomparable(place: &str, a: &DataType, b: &DataType) -> datafusion_common::DataFusionError {
    Error::plan(
        SqlState::UndefinedFunction,
        format!("{place} cannot compare {a} with {b}; cast one to the type of the other"),
    )
    .into_datafusion()
}

/// The types of expressions; what has none yet is left to DataFusion, which says why.
fn types_of(all: &[&mut Expr], schema: &DFSchema) -> Vec<Option<DataType>> {
    all.iter().map(|e| e.get_type(schema).ok().filter(|data_type| *data_type != DataType::Null)).collect()
}

/// The types of what is no text as it is written.
fn known(all: &[&mut Expr], schema: &DFSchema) -> Vec<DataType> {
    let types = types_of(all, schema);
    all.iter().zip(types).filter(|(e, _)| written(e).is_none()).filter_map(|(_, t)| t).collect()
}

/// Two types that do not meet.
fn strangers(all: &[&mut Expr], schema: &DFSchema) -> Option<(DataType, DataType)> {
    let known = known(all, schema);
    let first = known.first()?;
    known.iter().find(|other| !same_kind(first, other)).map(|other| (first.clone(), other.clone()))
}

/// Gives texts as they are written the type of the others; true when there was one.
///
/// # Errors
/// None that types give.
pub(super) fn take_type(all: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let known = known(all, schema);
    let Some(first) = known.first() else { return Ok(false) };
    if same_kind(first, &DataType::Utf8) || first.is_nested() {
        return Ok(false);
    }
    let common = |a: DataType, b: &DataType| type_union_coercion(&a, b).unwrap_or(a);
    let floats = known.iter().any(DataType::is_floating) && known.iter().any(DataType::is_decimal);
    let to = if floats { DataType::Float64 } else { known[1..].iter().fold(first.clone(), common) };
    let mut changed = false;
    for expr in all.iter_mut() {
        if let Some(text) = written(expr) {
            let to = exactly(&to, text);
            **expr = cast(std::mem::take(*expr), to);
            changed = true;
        }
    }
    Ok(changed)
}

/// A text whose type nobody has said.
pub(super) fn written(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// A decimal, or a time, as exact as it is written: `d = '1.555'` is no question about 1.56.
pub(crate) fn exactly(to: &DataType, text: &str) -> DataType {
    const DIGITS_MAX: u8 = 38;
    let behind = text.trim().split_once('.').map_or("", |(_, behind)| behind);
    match to {
        DataType::Decimal128(precision, scale) => {
            let further = i8::try_from(behind.len()).unwrap_or(i8::MAX).saturating_sub(*scale).max(0);
            let precision = precision.saturating_add(further.unsigned_abs());
            if precision > DIGITS_MAX { to.clone() } else { DataType::Decimal128(precision, scale + further) }
        }
        DataType::Timestamp(unit, zone) => {
            // An offset may stand behind the digits.
            let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
            let written = match digits {
                0 => TimeUnit::Second,
                1..=3 => TimeUnit::Millisecond,
                4..=6 => TimeUnit::Microsecond,
                _ => TimeUnit::Nanosecond,
            };
            DataType::Timestamp((*unit).max(written), zone.clone())
        }
        other => other.clone(),
    }
}

/// Whether values of both types may stand in one column.
pub(super) fn same_kind(a: &DataType, b: &DataType) -> bool {
    use DataType as T;
    let is_text = |t: &DataType| matches!(t, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let is_binary = |t: &DataType| matches!(t, T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_));
    let is_time = |t: &DataType| matches!(t, T::Time32(_) | T::Time64(_));
    let is_span = |t: &DataType| matches!(t, T::Interval(_) | T::Duration(_));
    let both = |is: &dyn Fn(&DataType) -> bool| is(a) && is(b);
    if *a == UUID || *b == UUID {
        return a == b || *a == T::Null || *b == T::Null;
    }
    if both(&DataType::is_numeric) || both(&is_text) || both(&is_binary) {
        return true;
    }
    if both(&is_moment) || both(&is_time) || both(&is_span) {
        return true;
    }
    match (a, b) {
        (T::Null, _) | (_, T::Null) => true,
        (T::Dictionary(_, a), b) | (b, T::Dictionary(_, a)) => same_kind(a, b),
        (
            T::List(a) | T::LargeList(a) | T::FixedSizeList(a, _) | T::ListView(a),
            T::List(b) | T::LargeList(b) | T::FixedSizeList(b, _) | T::ListView(b),
        ) => same_kind(a.data_type(), b.data_type()),
        // Their fields are compared by DataFusion.
        (T::Struct(_), T::Struct(_)) | (T::Map(..), T::Map(..)) => true,
        _ => a == b,
    }
}

/// The type of floats among types; `None` where there is none.
pub(super) fn common_float<'t>(types: impl Iterator<Item = &'t DataType>) -> Option<DataType> {
    let floats = types.filter(|data_type| data_type.is_floating());
    floats.map(|data_type| if *data_type == DataType::Float64 { 64 } else { 32 }).max().map(|bits| match bits {
        64 => DataType::Float64,
        _ => DataType::Float32,
    })
}

fn must_be_condition(when: &Expr, schema: &DFSchema) -> Result<()> {
    match when.get_type(schema) {
        Ok(data_type) if !matches!(data_type, DataType::Boolean | DataType::Null) && written(when).is_none() => {
            let message =
                format!("CASE WHEN {when}: a condition is BOOLEAN, not {data_type}; compare it with something");
            Err(Error::plan(SqlState::DatatypeMismatch, message).into_datafusion())
        }
        _ => Ok(()),
    }
}

/// Rows are ordered by their fields, and a NULL among these by no order that a comparison gives.
fn refuse_rows(what: &str, expr: &Expr, schema: &DFSchema) -> Result<()> {
    match expr.get_type(schema) {
        Ok(DataType::Struct(_)) => Err(Error::Unsupported(format!(
            "{what} over a row as one value ({expr}) is not supported; compare its fields, as in (a, b) < (c, d)"
        ))
        .into_datafusion()),
        _ => Ok(()),
    }
}
