//! Aggregate functions that `exec` does not know: [`Foreign`], one of DataFusion's, and [`SingleValue`], the value of a
//! scalar subquery.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, new_null_array};
use arrow::compute::{SortOptions, filter, take};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion_common::{DFSchema, Result as DfResult, ScalarValue};
use datafusion_expr::expr::{AggregateFunction as Call, Sort};
use datafusion_expr::{EmitTo, Expr, ExprSchemable, GroupsAccumulator};
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr, PhysicalSortExpr};
use exec::{ExecError, GroupedRows, OpaqueAggregate, OpaqueGroups};

use crate::error::codes::SqlState;
use crate::error::{Error, Result, SEVERAL_ROWS};

fn failed(error: impl Into<Error>) -> ExecError {
    ExecError::Expression(Box::new(error.into()))
}

/// An aggregate function of DataFusion's. Literal arguments are part of it; the others are columns.
#[derive(Debug)]
pub(super) struct Foreign {
    function: Arc<AggregateFunctionExpr>,
    data_type: DataType,
    arguments: Arc<[Argument]>,
}

#[derive(Debug)]
enum Argument {
    Literal(ScalarValue),
    Column(DataType),
}

impl Argument {
    /// An array in which it has no value that counts.
    fn nothing(&self) -> DfResult<ArrayRef> {
        match self {
            Argument::Literal(value) => value.to_array_of_size(1),
            Argument::Column(data_type) => Ok(new_null_array(data_type, 1)),
        }
    }
}

impl Foreign {
    /// The call's function; DISTINCT and FILTER are for the caller to heed. ORDER BY is the direction of percentiles.
    pub(super) fn new(call: &Call, schema: &DFSchema, field: &FieldRef) -> Result<Foreign> {
        let mut fields = Vec::new();
        let mut inputs = Vec::new();
        let mut arguments = Vec::new();
        for (i, argument) in call.params.args.iter().enumerate() {
            let name = format!("argument{i}");
            let data_type = argument.get_type(schema)?;
            fields.push(Field::new(&name, data_type.clone(), true));
            // Rows are counted by some column, if only one of a literal.
            let alone = i == 0 && call.params.args.iter().all(|a| matches!(a, Expr::Literal(..)));
            if let (Expr::Literal(value, _), false) = (argument, alone) {
                inputs.push(Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>);
                arguments.push(Argument::Literal(value.clone()));
            } else {
                inputs.push(Arc::new(Column::new(&name, i)));
                arguments.push(Argument::Column(data_type));
            }
        }
        let direction = |sort: &Sort| SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
        let order = call
            .params
            .order_by
            .iter()
            .zip(&inputs)
            .map(|(sort, input)| PhysicalSortExpr { expr: Arc::clone(input), options: direction(sort) });
        let order = order.filter(|_| call.func.supports_within_group_clause()).collect();
        let function = AggregateExprBuilder::new(Arc::clone(&call.func), inputs)
            .order_by(order)
            .schema(Arc::new(Schema::new(fields)))
            .alias(field.name())
            .build()?;
        let data_type = function.field().data_type().clone();
        Ok(Foreign { function: Arc::new(function), data_type, arguments: arguments.into() })
    }
}

impl Foreign {
    /// Which of the call's arguments are columns.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let of = |(i, argument): (usize, &Argument)| matches!(argument, Argument::Column(_)).then_some(i);
        self.arguments.iter().enumerate().filter_map(of)
    }
}

impl OpaqueAggregate for Foreign {
    fn name(&self) -> String {
        self.function.fun().name().to_string()
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError> {
        let groups: Box<dyn GroupsAccumulator> = match self.function.groups_accumulator_supported() {
            true => self.function.create_groups_accumulator().map_err(failed)?,
            false => {
                let function = Arc::clone(&self.function);
                Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator()))
            }
        };
        Ok(Box::new(ForeignGroups { groups, arguments: Arc::clone(&self.arguments), begun: false }))
    }
}

struct ForeignGroups {
    groups: Box<dyn GroupsAccumulator>,
    arguments: Arc<[Argument]>,
    begun: bool,
}

impl ForeignGroups {
    /// DataFusion's accumulators take every group for one that has had a value, until they meet a NULL or a filter:
    /// there, groups exist because of a row. Here they may exist without one, so the first row is one that does not
    /// count.
    fn begin(&mut self, total: usize) -> Result<(), ExecError> {
        if self.begun || total == 0 {
            return Ok(());
        }
        self.begun = true;
        let nothing = self.arguments.iter().map(Argument::nothing).collect::<DfResult<Vec<_>>>().map_err(failed)?;
        self.groups.update_batch(&nothing, &[0], Some(&BooleanArray::from(vec![false])), total).map_err(failed)
    }
}

impl OpaqueGroups for ForeignGroups {
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError> {
        self.begin(rows.total)?;
        let mut columns = arguments.iter();
        let all = self.arguments.iter().map(|argument| match argument {
            Argument::Literal(value) => value.to_array_of_size(rows.groups.len()).map_err(failed),
            Argument::Column(_) => columns
                .next()
                .cloned()
                .ok_or_else(|| failed(Error::Internal("an aggregate has fewer arguments than planned".into()))),
        });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        self.groups.update_batch(&all, rows.groups, rows.filter, rows.total).map_err(failed)
    }

    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError> {
        self.begin(total)?;
        self.groups.merge_batch(state, groups, total).map_err(failed)
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        self.begun = false;
        self.groups.state(EmitTo::All).map_err(failed)
    }

    fn finish(&mut self) -> Result<ArrayRef, ExecError> {
        self.begun = false;
        self.groups.evaluate(EmitTo::All).map_err(failed)
    }

    fn bytes(&self) -> usize {
        self.groups.size()
    }
}

/// The value of the only row of a group; NULL without a row, an error with more than one.
#[derive(Debug)]
pub(super) struct SingleValue {
    data_type: DataType,
}

impl SingleValue {
    /// Of values of a type.
    pub(super) fn new(data_type: DataType) -> SingleValue {
        SingleValue { data_type }
    }
}

impl OpaqueAggregate for SingleValue {
    fn name(&self) -> String {
        "single_value".into()
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError> {
        Ok(Box::new(SingleGroups { data_type: self.data_type.clone(), groups: Vec::new() }))
    }
}

/// Rows that each group has had, at most one, and its value.
struct SingleGroups {
    data_type: DataType,
    groups: Vec<Option<ArrayRef>>,
}

impl SingleGroups {
    fn take(&mut self, group: usize, value: ArrayRef) -> Result<(), ExecError> {
        match self.groups[group].replace(value) {
            None => Ok(()),
            Some(_) => Err(failed(Error::execution(SqlState::CardinalityViolation, SEVERAL_ROWS))),
        }
    }

    fn values(&self) -> Result<ArrayRef, ExecError> {
        let none = new_null_array(&self.data_type, 1);
        let parts: Vec<&dyn Array> = self.groups.iter().map(|g| g.as_ref().unwrap_or(&none).as_ref()).collect();
        match parts.is_empty() {
            true => Ok(arrow::array::new_empty_array(&self.data_type)),
            false => Ok(arrow::compute::concat(&parts)?),
        }
    }
}

impl OpaqueGroups for SingleGroups {
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError> {
        self.groups.resize(rows.total.max(self.groups.len()), None);
        for (row, group) in rows.counted() {
            // A copy of one value: a slice would keep the whole array.
            let value = take(&arguments[0], &Int64Array::from(vec![row as i64]), None)?;
            self.take(group, value)?;
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError> {
        let counts = state[1].as_primitive::<Int64Type>();
        let some: BooleanArray = counts.iter().map(|count| Some(count == Some(1))).collect();
        let values = filter(&state[0], &some)?;
        let groups: Vec<usize> =
            groups.iter().zip(counts.values()).filter(|(_, c)| **c == 1).map(|(g, _)| *g).collect();
        self.update(&[values], GroupedRows { groups: &groups, filter: None, total })
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        let counts: Int64Array = self.groups.iter().map(|g| Some(i64::from(g.is_some()))).collect();
        let values = self.values()?;
        self.groups.clear();
        Ok(vec![values, Arc::new(counts)])
    }

    fn finish(&mut self) -> Result<ArrayRef, ExecError> {
        let values = self.values()?;
        self.groups.clear();
        Ok(values)
    }

    fn bytes(&self) -> usize {
        let held = |g: &Option<ArrayRef>| g.as_ref().map_or(0, |a| a.get_array_memory_size());
        self.groups.iter().map(held).sum::<usize>() + size_of_val(self.groups.as_slice())
    }
}
