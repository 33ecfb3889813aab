//! What expressions are bound with.

use std::ops::Deref;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::Placeholder;
use exec::{Literal, ParameterId};

/// The values of `$1`, `$2`, ..: each an array of one value.
pub(crate) type Slots = Vec<ArrayRef>;

/// The statement's time and settings, and the values of its parameters.
pub(crate) struct Props {
    inner: ExecutionProps,
    slots: Slots,
}

impl Props {
    /// Of a statement.
    pub(crate) fn new(inner: ExecutionProps, slots: Slots) -> Props {
        Props { inner, slots }
    }

    /// The value of a parameter, if it has one of this type.
    pub(super) fn value_of(&self, parameter: &Placeholder, data_type: &DataType) -> Option<Literal> {
        let id = id_of(parameter)?;
        let value = self.slots.get(id.0).filter(|value| value.data_type() == data_type)?;
        Some(Literal::of_parameter(id, Arc::clone(value)))
    }
}

impl Deref for Props {
    type Target = ExecutionProps;

    fn deref(&self) -> &ExecutionProps {
        &self.inner
    }
}

/// The number of a parameter: 0 for `$1`.
pub(crate) fn id_of(parameter: &Placeholder) -> Option<ParameterId> {
    parameter.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1).map(ParameterId)
}
