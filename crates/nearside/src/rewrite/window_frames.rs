//! Frames of windows that SQL refuses, before anything is made of them.
//!
//! The planner takes frames that end before they begin, and gives an offset the type of the key that it is added to:
//! digits behind the point are rounded, and an offset that is too large becomes UNBOUNDED. So what would change is
//! refused here, while offsets are texts as they were written.
//!
//! It also refuses a frame by distance over an order by what it knows no distances of, though none is asked for where
//! a frame goes to the row's peers: such frames count groups of peers here, which is the same.

use arrow::datatypes::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::WindowFunctionParams;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound as Bound, WindowFrameUnits};
use datafusion_optimizer::AnalyzerRule;

use crate::error::statement_err;

/// The analyzer rule.
#[derive(Debug, Default)]
pub(crate) struct WindowFrames;

impl AnalyzerRule for WindowFrames {
    fn name(&self) -> &str {
        "window_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
            let schema = window.input.schema();
            window.window_expr.iter().try_for_each(|expr| check(expr, schema))?;
            if !window.window_expr.iter().any(|expr| goes_to_peers_without_distance(expr, schema)) {
                return Ok(Transformed::no(node));
            }
            let schema = schema.clone();
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let by_groups = expr.transform_up(|expr| Ok(by_groups(expr, &schema)))?;
                Ok(by_groups.update_data(|expr| name.restore(expr)))
            })?
            .map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(analyzed.data)
    }
}

/// The call, below names.
fn call(expr: &Expr) -> Option<&WindowFunctionParams> {
    match expr {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::WindowFunction(call) => Some(&call.params),
        _ => None,
    }
}

fn goes_to_peers_without_distance(expr: &Expr, schema: &DFSchema) -> bool {
    call(expr).is_some_and(|params| {
        let key = params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
        params.window_frame.units == WindowFrameUnits::Range && key.is_some_and(|key| !has_distances(&key))
    })
}

fn by_groups(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if !goes_to_peers_without_distance(&expr, schema) {
        return Transformed::no(expr);
    }
    match &mut expr {
        Expr::WindowFunction(call) => {
            call.params.window_frame.units = WindowFrameUnits::Groups;
            Transformed::yes(expr)
        }
        _ => Transformed::no(expr),
    }
}

/// Types of which the planner knows distances, or lets them pass.
fn has_distances(data_type: &DataType) -> bool {
    let lists = matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    let times = matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
    let others = data_type.is_string() || data_type.is_null() || *data_type == DataType::Boolean;
    data_type.is_numeric() || lists || times || others
}

fn check(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let Some(params) = call(expr) else { return Ok(()) };
    check_order(&params.window_frame)?;
    [&params.window_frame.start_bound, &params.window_frame.end_bound].into_iter().try_for_each(|bound| match bound {
        Bound::Preceding(offset) | Bound::Following(offset) => check_offset(offset, params, schema),
        Bound::CurrentRow => Ok(()),
    })
}

/// A frame that begins behind where it ends by its words alone is a mistake.
fn check_order(frame: &WindowFrame) -> Result<()> {
    let preceding = |bound: &Bound| matches!(bound, Bound::Preceding(_));
    match (&frame.start_bound, &frame.end_bound) {
        (Bound::CurrentRow, end) if preceding(end) => {
            statement_err!(WindowingError, "a frame that starts with the current row cannot end with preceding rows")
        }
        (Bound::Following(_), end) if preceding(end) || matches!(end, Bound::CurrentRow) => {
            statement_err!(WindowingError, "a frame that starts with following rows cannot end with {end}")
        }
        _ => Ok(()),
    }
}

fn check_offset(offset: &ScalarValue, params: &WindowFunctionParams, schema: &DFSchema) -> Result<()> {
    let Some(Some(text)) = offset.try_as_str() else { return Ok(()) };
    let (WindowFrameUnits::Range, Some(key)) = (params.window_frame.units, params.order_by.first()) else {
        return Ok(());
    };
    let data_type = key.expr.get_type(schema)?;
    if !has_distances(&data_type) {
        return statement_err!(
            FeatureNotSupported,
            "RANGE with an offset is not supported over an order by {data_type}"
        );
    }
    let text = text.trim();
    if text.starts_with('-') && !is_time(&data_type) {
        return statement_err!(
            InvalidPrecedingOrFollowingSize,
            "the offset of a frame must not be negative, and {text} is"
        );
    }
    let whole = data_type.is_integer().then_some((20u32, 0usize));
    let decimal = match data_type {
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((u32::from(p).saturating_sub(s.max(0) as u32), s.max(0) as usize)),
        _ => whole,
    };
    let Some((digits, places)) = decimal else { return Ok(()) };
    let (before, behind) = text.split_once('.').unwrap_or((text, ""));
    let fits = before.trim_start_matches('0').len() as u32 <= digits && before.bytes().all(|b| b.is_ascii_digit());
    let exact = behind.trim_end_matches('0').len() <= places;
    let within = !data_type.is_integer() || ScalarValue::try_from_string(before.to_string(), &data_type).is_ok();
    if fits && exact && within {
        return Ok(());
    }
    statement_err!(
        FeatureNotSupported,
        "RANGE with the offset {text} is not possible over an order by {data_type}, which cannot hold that number; \
         cast the key of ORDER BY \
         to a type that can"
    )
}

fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_)
    )
}
