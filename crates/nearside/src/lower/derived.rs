//! Values that are computed of parameters and compared with a column: `aid <= $1 + 99`, `day >= $1 - 7`,
//! `name = upper($1)`. Each becomes a parameter of its own, behind those of the statement, which a run computes before
//! it starts: so the plan has nothing but values beside columns, and is lowered once.
//!
//! A column that is cast to a wider integer for such a comparison stands as it is, and the value is made one of its
//! type: a value that does not fit is no parameter's, and the run has to go without ([`Derived::values`]).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema, SchemaRef};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::Placeholder;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use exec::Expression;

use super::PhysicalExpression;
use super::parameters::parameters;
use super::predicate::comparable;
use super::props::{Slots, id_of};
use crate::error::Result;
use crate::lower::structure::comparison;

/// What a run computes of its parameters.
#[derive(Debug)]
pub(crate) struct Derived {
    values: Vec<DerivedValue>,
    /// The parameters that are compared as they are given, too.
    direct: Vec<usize>,
}

#[derive(Debug)]
struct DerivedValue {
    expression: PhysicalExpression,
    /// The parameters that it is computed of, as columns of a row.
    row: SchemaRef,
    /// The type of the column that it is compared with.
    data_type: DataType,
}

impl Derived {
    /// The parameters given and those computed of them; `None` where one has no value of its type, or computing it
    /// fails, which whoever runs the plan as it was written tells better.
    pub(crate) fn values(&self, given: &Slots) -> Option<Slots> {
        let is_there = |place: &usize| given.get(*place).is_some_and(is_plain);
        self.direct.iter().all(is_there).then_some(())?;
        let mut all = given.clone();
        for value in &self.values {
            let of = value.expression.columns().iter().map(|place| given.get(*place).cloned());
            let row = RecordBatch::try_new(Arc::clone(&value.row), of.collect::<Option<_>>()?).ok()?;
            let computed = value.expression.evaluate(&row).ok()?;
            let of_column = match computed.data_type() == &value.data_type {
                true => computed,
                // NULL where it does not fit.
                false => cast(&computed, &value.data_type).ok()?,
            };
            is_plain(&of_column).then_some(())?;
            all.push(of_column);
        }
        Some(all)
    }
}

/// True for values that a comparison may have as they are: NULL makes it another one, and zeros and NaNs are several in
/// a dictionary.
pub(crate) fn is_plain(value: &ArrayRef) -> bool {
    let is_special = match value.data_type() {
        DataType::Float64 => value.as_primitive::<Float64Type>().values().iter().any(|v| *v == 0.0 || v.is_nan()),
        DataType::Float32 => value.as_primitive::<Float32Type>().values().iter().any(|v| *v == 0.0 || v.is_nan()),
        _ => false,
    };
    !is_special && value.null_count() == 0 && value.len() == 1
}

/// An analysed plan with parameters in the place of what is computed of `given` parameters, and how they are computed;
/// `None` where nothing is. It is not optimised yet, for then a cast of a column that stands twice would be computed
/// row by row, and once.
///
/// # Errors
/// None that a plan which was analysed has.
pub(crate) fn derived(
    plan: &LogicalPlan,
    given: usize,
    props: &ExecutionProps,
) -> Result<Option<(LogicalPlan, Derived)>> {
    // One that the optimiser did away with has no type, and nothing is computed of it.
    let mut row: Vec<Field> =
        (1..=given).map(|number| Field::new(format!("${number}"), DataType::Null, true)).collect();
    for parameter in parameters(plan)? {
        let (Some(id), Some(field)) = (id_of(&parameter), &parameter.field) else { return Ok(None) };
        let Some(place) = row.get_mut(id.0) else { return Ok(None) };
        *place = Field::new(&parameter.id, field.data_type().clone(), true);
    }
    let row = DFSchema::from_unqualified_fields(row.into(), HashMap::new())?;
    let mut found = Found { given, row, props, values: Vec::new() };
    let rewritten = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(mut filter) => {
            let predicate = found.condition(std::mem::take(&mut filter.predicate), filter.input.schema())?;
            filter.predicate = predicate;
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::TableScan(mut scan) if !scan.filters.is_empty() => {
            let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            let filters = std::mem::take(&mut scan.filters).into_iter();
            scan.filters = filters.map(|filter| found.condition(filter, &schema)).collect::<Result<_, _>>()?;
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let values = found.values;
    if values.is_empty() {
        return Ok(None);
    }
    let left = parameters(&rewritten.data)?;
    let direct = left.iter().filter_map(id_of).map(|id| id.0).filter(|place| *place < given).collect();
    Ok(Some((rewritten.data, Derived { values, direct })))
}

/// What was found so far.
struct Found<'a> {
    given: usize,
    row: DFSchema,
    props: &'a ExecutionProps,
    values: Vec<DerivedValue>,
}

type DfResult<T> = datafusion_common::Result<T>;

impl Found<'_> {
    fn condition(&mut self, condition: Expr, schema: &DFSchema) -> DfResult<Expr> {
        Ok(match condition {
            Expr::Alias(mut alias) => {
                *alias.expr = self.condition(std::mem::take(&mut alias.expr), schema)?;
                Expr::Alias(alias)
            }
            Expr::Not(inner) => Expr::Not(Box::new(self.condition(*inner, schema)?)),
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let (left, right) = (self.condition(*left, schema)?, self.condition(*right, schema)?);
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }
            Expr::Between(between) if between.expr.try_as_col().is_some() || matches!(*between.expr, Expr::Cast(_)) => {
                let (low, high, of) = (*between.low, *between.high, between.expr);
                let (at_low, op, at_high) = match between.negated {
                    false => (Operator::GtEq, Operator::And, Operator::LtEq),
                    true => (Operator::Lt, Operator::Or, Operator::Gt),
                };
                let low = BinaryExpr::new(of.clone(), at_low, Box::new(low));
                let high = BinaryExpr::new(of, at_high, Box::new(high));
                let both = BinaryExpr::new(Box::new(Expr::BinaryExpr(low)), op, Box::new(Expr::BinaryExpr(high)));
                self.condition(Expr::BinaryExpr(both), schema)?
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if comparison(op).is_some() => {
                if let Some((column, value)) = self.compared(&left, &right, schema)? {
                    Expr::BinaryExpr(BinaryExpr::new(Box::new(column), op, Box::new(value)))
                } else if let Some((column, value)) = self.compared(&right, &left, schema)? {
                    Expr::BinaryExpr(BinaryExpr::new(Box::new(value), op, Box::new(column)))
                } else {
                    Expr::BinaryExpr(BinaryExpr { left, op, right })
                }
            }
            other => other,
        })
    }

    /// The column, and the new parameter that it is compared with in the place of `value`; `None` where that is
    /// another comparison, or one of a parameter as it was given.
    fn compared(&mut self, column: &Expr, value: &Expr, schema: &DFSchema) -> DfResult<Option<(Expr, Expr)>> {
        let (column, widened) = match column {
            Expr::Column(column) => (column, None),
            Expr::Cast(cast) => match cast.expr.as_ref() {
                Expr::Column(column) => (column, Some(cast.field.data_type())),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let Ok(Some((_, field))) = comparable(column, schema) else { return Ok(None) };
        let data_type = field.data_type().clone();
        if widened.is_some_and(|to| !is_wider(to, &data_type)) || !self.is_computed(value, widened.is_some())? {
            return Ok(None);
        }
        let over_row = value.clone().transform_up(|part| match part {
            Expr::Placeholder(parameter) => Ok(Transformed::yes(Expr::Column(Column::from_name(parameter.id)))),
            other => Ok(Transformed::no(other)),
        })?;
        let over_row = over_row.data;
        let of_value = over_row.get_type(&self.row)?;
        if of_value != *widened.unwrap_or(&data_type) {
            return Ok(None);
        }
        let Ok(expression) = PhysicalExpression::opaque(&over_row, &self.row, self.props) else { return Ok(None) };
        let row = expression.columns().iter().map(|place| Arc::clone(&self.row.fields()[*place])).collect::<Vec<_>>();
        let row = Arc::new(Schema::new(row));
        let id = format!("${}", self.given + self.values.len() + 1);
        let field = Arc::new(Field::new(&id, data_type.clone(), true));
        self.values.push(DerivedValue { expression, row, data_type });
        Ok(Some((Expr::Column(column.clone()), Expr::Placeholder(Placeholder::new_with_field(id, Some(field))))))
    }

    /// Whether something is computed of parameters alone, and is the same for each row. A bare parameter is, where its
    /// column was widened.
    fn is_computed(&self, value: &Expr, is_widened: bool) -> DfResult<bool> {
        if matches!(value, Expr::Placeholder(_)) && !is_widened {
            return Ok(false);
        }
        let is_query = |part: &Expr| {
            matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
        };
        let is_other = |part: &Expr| is_query(part) || matches!(part, Expr::OuterReferenceColumn(..));
        let has_parameter = value.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))?;
        Ok(has_parameter
            && !value.any_column_refs()
            && !value.is_volatile()
            && !value.exists(|part| Ok(is_other(part)))?)
    }
}

/// Whether each integer of a type is one of another type, and the other has more.
fn is_wider(to: &DataType, from: &DataType) -> bool {
    let bits = |data_type: &DataType| match data_type {
        DataType::Int8 => Some(8),
        DataType::Int16 => Some(16),
        DataType::Int32 => Some(32),
        DataType::Int64 => Some(64),
        _ => None,
    };
    matches!((bits(to), bits(from)), (Some(to), Some(from)) if to > from)
}
