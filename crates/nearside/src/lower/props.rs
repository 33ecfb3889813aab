//! What expressions are bound with.

use std::ops::Deref;

use arrow::array::ArrayRef;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::Placeholder;

/// The values of `$1`, `$2`, ..: each an array of one value, and of an allocation of its own, by which plans that were
/// bound with it are told where it stands.
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

    /// The value of a parameter, if it has one.
    pub(super) fn value_of(&self, parameter: &Placeholder) -> Option<&ArrayRef> {
        self.slots.get(place_of(parameter)?)
    }
}

impl Deref for Props {
    type Target = ExecutionProps;

    fn deref(&self) -> &ExecutionProps {
        &self.inner
    }
}

/// Which of the values a parameter has: 0 for `$1`.
pub(super) fn place_of(parameter: &Placeholder) -> Option<usize> {
    parameter.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}
