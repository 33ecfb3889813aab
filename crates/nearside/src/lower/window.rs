//! Window functions: [`bind`](super::bind) makes each of DataFusion's window nodes a native one.
//!
//! What their expressions read is computed below the lowest of windows that lie over one another, so that nothing lies
//! between them and those whose orders
//! begin alike are sorted once. Constants tell no rows apart: they are left out of PARTITION BY and ORDER BY; one of
//! them says what a frame
//! excludes ([`exclusion_of`]).
//!
//! Functions that have no native form are refused by name: DataFusion's functions are those that [`native`] lists, and
//! every aggregate.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::expr::{
    AggregateFunction as AggregateExpr, NullTreatment, WindowFunction as Call, WindowFunctionDefinition,
};
use datafusion_expr::{
    Expr, ExprSchemable, LogicalPlan, SortExpr, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use exec::{
    AggregateFunction, Amount, Frame, FrameBound, FrameExclusion, FrameOffset, FrameUnits, Plan, SortKey, WindowCall,
    WindowFunction,
};

use super::binder::Binder;
use super::constant::value;
use super::scope::{Columns, Scope, keep};
use super::support::{is_fixed, window_call as call_of};
use super::{aggregate, bug};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::reading::read_one;
use crate::functions::uuids::UUID;
use crate::sql::exclusion_of;

/// The plan of a window node and of those right below it.
pub(super) fn window(binder: &Binder<'_>, node: &Window) -> Result<Plan> {
    let mut nodes = vec![node];
    while let LogicalPlan::Window(below) = nodes[nodes.len() - 1].input.as_ref()
        && nodes.iter().all(|above| reads_only(above, below.input.schema()))
    {
        nodes.push(below);
    }
    nodes.reverse();
    let input = &nodes[0].input;
    let mut scope = Scope::new(binder.plan(input)?, input.schema());
    let mut resolved = Vec::with_capacity(nodes.len());
    for node in &nodes {
        resolved.push(scope.resolve_all(binder, &node.window_expr)?);
    }
    let width = input.schema().fields().len();
    let mut columns = Columns::new(&scope.schema, binder.props);
    let mut windows = Vec::with_capacity(nodes.len());
    for (node, exprs) in nodes.iter().zip(&resolved) {
        let own = node.schema.fields().len() - exprs.len();
        let bound = exprs.iter().zip(node.schema.fields().iter().skip(own));
        let mut drawn = Drawn::default();
        let calls = bound.map(|(expr, field)| bind_call(&mut columns, &mut drawn, expr, field));
        windows.extend(calls.collect::<Result<Vec<_>>>()?);
    }
    let mut plan = columns.over(scope.plan)?;
    let base = plan.schema().fields().len();
    let calls = windows.len();
    let mut windows = windows.into_iter().peekable();
    while let Some((partition, order, call)) = windows.next() {
        let mut calls = vec![call];
        while let Some((_, _, call)) = windows.next_if(|(p, o, _)| *p == partition && *o == order) {
            calls.push(call);
        }
        plan = plan.window(partition, order, calls).map_err(bug)?;
    }
    if base == width { Ok(plan) } else { keep(plan, (0..width).chain(base..base + calls)) }
}

/// True if all that a window node's expressions name is in the schema.
fn reads_only(node: &Window, schema: &DFSchema) -> bool {
    let known = |expr: &Expr| expr.column_refs().into_iter().all(|column| schema.index_of_column(column).is_ok());
    node.window_expr.iter().all(known)
}

type Bound = (Vec<usize>, Vec<SortKey>, WindowCall);

/// The columns of keys that differ from call to call, which are drawn once for all calls over one window.
#[derive(Default)]
struct Drawn(Vec<(Expr, usize)>);

impl Drawn {
    /// The column that holds a key.
    fn index(&mut self, columns: &mut Columns<'_>, key: &Expr) -> Result<usize> {
        if !key.is_volatile() {
            return columns.index(key);
        }
        if let Some((_, column)) = self.0.iter().find(|(known, _)| known == key) {
            return Ok(*column);
        }
        let column = columns.index(key)?;
        self.0.push((key.clone(), column));
        Ok(column)
    }
}

fn bind_call(columns: &mut Columns<'_>, drawn: &mut Drawn, expr: &Expr, field: &FieldRef) -> Result<Bound> {
    let call = call_of(expr).ok_or_else(|| Error::Internal(format!("{expr} was lowered")))?;
    let schema = columns.schema();
    let params = &call.params;
    let mut exclusion = FrameExclusion::NoOthers;
    let mut partition = Vec::new();
    for key in &params.partition_by {
        match constant(columns, key)? {
            Some(value) => exclusion = exclusion_of(&value).unwrap_or(exclusion),
            None => partition.push(drawn.index(columns, key)?),
        }
    }
    let mut order = Vec::new();
    let mut first = None;
    for SortExpr { expr, asc, nulls_first } in &params.order_by {
        // Distances are of a key, whatever it is.
        if has_distance(&params.window_frame) || constant(columns, expr)?.is_none() {
            first = first.or(Some(expr.get_type(schema)?));
            order.push(SortKey { column: drawn.index(columns, expr)?, descending: !asc, nulls_first: *nulls_first });
        }
    }
    let frame = Frame { exclusion, ..frame(&params.window_frame, first.as_ref())? };
    let filter = params.filter.as_deref().map(|f| columns.index(f)).transpose()?;
    let (function, arguments) = function(columns, call, field)?;
    let ignore_nulls = ignores_nulls(call, &function)?;
    Ok((partition, order, WindowCall { function, arguments, filter, ignore_nulls, frame, field: Arc::clone(field) }))
}

fn ignores_nulls(call: &Call, function: &WindowFunction) -> Result<bool> {
    let gives_a_row = matches!(
        function,
        WindowFunction::Lag { .. }
            | WindowFunction::Lead { .. }
            | WindowFunction::FirstValue
            | WindowFunction::LastValue
            | WindowFunction::NthValue(_)
    );
    match call.params.null_treatment {
        None => Ok(false),
        Some(NullTreatment::RespectNulls) if gives_a_row => Ok(false),
        Some(NullTreatment::IgnoreNulls) if gives_a_row => Ok(true),
        Some(_) => Err(Error::Unsupported(format!(
            "{} OVER (..) takes neither IGNORE NULLS nor RESPECT NULLS; lag, lead, first_value, last_value and \
             nth_value do",
            call.fun.name()
        ))),
    }
}

/// Which function a call is natively, and the columns of its arguments.
fn function(columns: &mut Columns<'_>, call: &Call, field: &FieldRef) -> Result<(WindowFunction, Vec<usize>)> {
    let name = call.fun.name();
    let args = &call.params.args;
    let definition = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let call = AggregateExpr::new_udf(
                Arc::clone(function),
                args.clone(),
                call.params.distinct,
                None,
                Vec::new(),
                None,
            );
            return aggregated(columns, &call, field);
        }
        WindowFunctionDefinition::WindowUDF(_) => native(name),
    };
    if call.params.distinct {
        return Err(Error::Unsupported(format!("DISTINCT is for aggregates; {name} is none")));
    }
    let Some((definition, least, most)) = definition else {
        return Err(Error::Unsupported(format!("{name} is no window function that Nearside has")));
    };
    if args.len() < least || args.len() > most {
        let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        return Err(Error::plan(
            SqlState::UndefinedFunction,
            format!("{name} takes {wanted} arguments, not {}", args.len()),
        ));
    }
    let amount = |columns: &mut Columns<'_>, place: usize| match args.get(place) {
        Some(expr) => amount(columns, name, expr),
        None => Ok(Amount::Constant(Some(1))),
    };
    let function = match definition {
        Definition::Plain(function) => return Ok((function, Vec::new())),
        Definition::Ntile => match amount(columns, 0)? {
            Amount::Constant(parts) => return Ok((WindowFunction::Ntile(parts), Vec::new())),
            Amount::Column(_) => {
                return Err(Error::Unsupported(format!(
                    "ntile({}): the number of parts has to be a constant",
                    args[0]
                )));
            }
        },
        Definition::Value(function) => function,
        Definition::Nth => WindowFunction::NthValue(amount(columns, 1)?),
        Definition::Shift { behind } => {
            let offset = amount(columns, 1)?;
            let default = args.get(2).map(|d| default(columns, name, d, field)).transpose()?.flatten();
            if behind { WindowFunction::Lead { offset, default } } else { WindowFunction::Lag { offset, default } }
        }
    };
    if let WindowFunction::NthValue(Amount::Constant(Some(number))) = function
        && number < 1
    {
        return Err(Error::plan(
            SqlState::InvalidArgumentForNthValue,
            format!("nth_value(.., {number}): the number of the row must be at least 1"),
        ));
    }
    let value = args[0].clone().cast_to(field.data_type(), columns.schema())?;
    Ok((function, vec![columns.index(&value)?]))
}

/// Functions by what their arguments are.
enum Definition {
    /// None.
    Plain(WindowFunction),
    /// The value that is given.
    Value(WindowFunction),
    /// The value and the number of the row.
    Nth,
    /// The value, how many rows away, and what is given where there are fewer.
    Shift { behind: bool },
    /// The number of parts.
    Ntile,
}

/// DataFusion's window functions, with the least and the most arguments of each.
fn native(name: &str) -> Option<(Definition, usize, usize)> {
    Some(match name {
        "row_number" => (Definition::Plain(WindowFunction::RowNumber), 0, 0),
        "rank" => (Definition::Plain(WindowFunction::Rank), 0, 0),
        "dense_rank" => (Definition::Plain(WindowFunction::DenseRank), 0, 0),
        "percent_rank" => (Definition::Plain(WindowFunction::PercentRank), 0, 0),
        "cume_dist" => (Definition::Plain(WindowFunction::CumeDist), 0, 0),
        "ntile" => (Definition::Ntile, 1, 1),
        "lag" => (Definition::Shift { behind: false }, 1, 3),
        "lead" => (Definition::Shift { behind: true }, 1, 3),
        "first_value" => (Definition::Value(WindowFunction::FirstValue), 1, 1),
        "last_value" => (Definition::Value(WindowFunction::LastValue), 1, 1),
        "nth_value" => (Definition::Nth, 2, 2),
        _ => return None,
    })
}

fn aggregated(
    columns: &mut Columns<'_>,
    call: &AggregateExpr,
    field: &FieldRef,
) -> Result<(WindowFunction, Vec<usize>)> {
    let (function, arguments) = aggregate::over_frames(columns, call, field)?;
    let distinct = call.params.distinct && !matches!(function, AggregateFunction::Min | AggregateFunction::Max);
    if distinct && matches!(function, AggregateFunction::Opaque(_)) {
        return Err(Error::Unsupported(format!(
            "{}(DISTINCT ..) OVER (..): over windows DISTINCT is for count, sum, avg, min and max",
            call.func.name()
        )));
    }
    Ok((WindowFunction::Aggregate { function, distinct }, arguments))
}

/// The value of an expression that reads no column; `None` for others.
fn constant(columns: &Columns<'_>, expr: &Expr) -> Result<Option<ScalarValue>> {
    match is_fixed(expr) {
        true => value(expr, columns.props()).map(Some),
        false => Ok(None),
    }
}

/// A number of rows.
fn amount(columns: &mut Columns<'_>, function: &str, expr: &Expr) -> Result<Amount> {
    let data_type = expr.get_type(columns.schema())?;
    if !data_type.is_integer() && !data_type.is_null() {
        return Err(Error::plan(
            SqlState::UndefinedFunction,
            format!("{function}(.., {expr}) takes a number of rows, which is an integer, not {data_type}"),
        ));
    }
    if let Some(value) = constant(columns, expr)? {
        let array = cast(&value.to_array_of_size(1)?, &DataType::Int64)?;
        if array.is_null(0) && !value.is_null() {
            return Err(Error::plan(
                SqlState::NumericValueOutOfRange,
                format!("{function}(.., {value}): the number of rows is too large"),
            ));
        }
        return Ok(Amount::Constant(array.is_valid(0).then(|| array.as_primitive::<Int64Type>().value(0))));
    }
    let wide = expr.clone().cast_to(&DataType::Int64, columns.schema())?;
    Ok(Amount::Column(columns.index(&wide)?))
}

/// The column of a default, in the type of the result; `None` for NULL.
fn default(columns: &mut Columns<'_>, function: &str, expr: &Expr, field: &FieldRef) -> Result<Option<usize>> {
    let from = expr.get_type(columns.schema())?;
    let to = field.data_type();
    let unfit = || {
        Error::plan(
            SqlState::UndefinedFunction,
            format!(
                "{function}(.., .., {expr}): the default is {from} and the value {to}; cast one to the type of \
                 the other"
            ),
        )
    };
    if let Some(value) = constant(columns, expr)? {
        if value.is_null() {
            return Ok(None);
        }
        // What another type would cut or round is no default of it.
        if *to == UUID
            && let Some(text) = value.try_as_str().flatten()
        {
            return columns.index(&Expr::Literal(read_one(text, to)?, None)).map(Some);
        }
        let cast = value.cast_to(to).map_err(|_| unfit())?;
        if cast.is_null() || cast.cast_to(&from).ok().as_ref() != Some(&value) {
            return Err(unfit());
        }
        return columns.index(&Expr::Literal(cast, None)).map(Some);
    }
    if from != *to && !widens(&from, to) {
        return Err(unfit());
    }
    let cast = expr.clone().cast_to(to, columns.schema())?;
    columns.index(&cast).map(Some)
}

/// True where every value of a type is one of another.
fn widens(from: &DataType, to: &DataType) -> bool {
    let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from.primitive_width(), to.primitive_width()) {
        (Some(f), Some(t)) if from.is_signed_integer() && to.is_signed_integer() => f <= t,
        (Some(f), Some(t)) if from.is_unsigned_integer() && to.is_integer() => f < t,
        _ => {
            (is_text(from) && is_text(to))
                || (from.is_integer() && *to == DataType::Float64 && *from != DataType::Int64)
        }
    }
}

/// A frame; `order` is the type of the first key.
fn frame(frame: &WindowFrame, order: Option<&DataType>) -> Result<Frame> {
    let units = match frame.units {
        WindowFrameUnits::Rows => FrameUnits::Rows,
        WindowFrameUnits::Range => FrameUnits::Range,
        WindowFrameUnits::Groups => FrameUnits::Groups,
    };
    let offset = |value: &ScalarValue| offset(value, units, order);
    let bound = |bound: &WindowFrameBound, unbounded: FrameBound| -> Result<FrameBound> {
        Ok(match bound {
            WindowFrameBound::CurrentRow => FrameBound::CurrentRow,
            WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) if value.is_null() => unbounded,
            WindowFrameBound::Preceding(value) => FrameBound::Preceding(offset(value)?),
            WindowFrameBound::Following(value) => FrameBound::Following(offset(value)?),
        })
    };
    let start = bound(&frame.start_bound, FrameBound::UnboundedPreceding)?;
    let end = bound(&frame.end_bound, FrameBound::UnboundedFollowing)?;
    Ok(Frame { units, start, end, exclusion: FrameExclusion::NoOthers })
}

/// Does an end of a frame lie at a distance in the key?
fn has_distance(frame: &WindowFrame) -> bool {
    let distance = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => !value.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    frame.units == WindowFrameUnits::Range && (distance(&frame.start_bound) || distance(&frame.end_bound))
}

fn offset(value: &ScalarValue, units: FrameUnits, order: Option<&DataType>) -> Result<FrameOffset> {
    let unusable = || {
        let order = order.map_or_else(|| "nothing".to_string(), ToString::to_string);
        Error::Unsupported(format!("RANGE with the offset {value} is not possible over an order by {order}"))
    };
    if units != FrameUnits::Range {
        return match value {
            ScalarValue::UInt64(Some(count)) => Ok(FrameOffset::Count(*count)),
            other => Err(Error::plan(
                SqlState::DatatypeMismatch,
                format!("a frame's offset is a number of rows, not {other}"),
            )),
        };
    }
    if is_negative(value) {
        return Err(Error::plan(
            SqlState::InvalidPrecedingOrFollowingSize,
            format!("the offset of a frame must not be negative, and {value} is"),
        ));
    }
    Ok(match value {
        ScalarValue::Float64(Some(distance)) => FrameOffset::Float(*distance),
        ScalarValue::Float32(Some(distance)) => FrameOffset::Float(f64::from(*distance)),
        ScalarValue::Decimal128(Some(distance), ..) => FrameOffset::Integer(*distance),
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let in_zone = matches!(order, Some(DataType::Timestamp(_, Some(zone))) if !is_utc(zone));
            if in_zone && (interval.months != 0 || interval.days != 0) {
                return Err(Error::Unsupported(
                    "RANGE with an offset of days or months over an order by TIMESTAMP WITH TIME ZONE is not \
                     supported; use hours, or \
                     cast the key to TIMESTAMP"
                        .into(),
                ));
            }
            FrameOffset::Interval { months: interval.months, days: interval.days, nanoseconds: interval.nanoseconds }
        }
        other => {
            let array = other.to_array_of_size(1)?;
            if !array.data_type().is_integer() {
                return Err(unusable());
            }
            let wide = cast(&array, &DataType::Decimal128(38, 0))?;
            FrameOffset::Integer(wide.as_primitive::<arrow::datatypes::Decimal128Type>().value(0))
        }
    })
}

fn is_negative(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let days = i128::from(interval.months) * 30 + i128::from(interval.days);
            days * 86_400_000_000_000 + i128::from(interval.nanoseconds) < 0
        }
        other => ScalarValue::new_zero(&other.data_type()).is_ok_and(|zero| *other < zero),
    }
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "+00:00" | "+00" | "Etc/UTC")
}
