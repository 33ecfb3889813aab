//! Aggregates under names that PostgreSQL has for them and DataFusion has not, or as another word for one: columns are
//! named after functions, so each of these is one that has its own name and does what the other does.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, SetMonotonicity, Signature,
};
use datafusion_functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion_functions_aggregate::stddev::stddev_udaf;
use datafusion_functions_aggregate::variance::var_samp_udaf;

/// The functions.
pub(crate) fn aggregate_functions() -> Vec<AggregateUDF> {
    let named = |name, plain| AggregateUDF::new_from_impl(NamedAggregate { name, plain });
    vec![
        named("every", bool_and_udaf()),
        named("stddev_samp", stddev_udaf()),
        named("var_samp", var_samp_udaf()),
        named("variance", var_samp_udaf()),
    ]
}

/// A function by another name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedAggregate {
    name: &'static str,
    plain: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for NamedAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.plain.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.plain.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.plain.order_sensitivity()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(data_type)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.plain.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }
}
