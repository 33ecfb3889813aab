//! [`Literal`]: a value in a plan, and which parameter of its statement it was given for.
//!
//! Invariant: the number goes wherever the value is copied to, so a plan that was cloned, moved or optimised still
//! tells where a parameter stands. What makes another value of a literal makes one without a number.

use std::ops::Deref;

use arrow::array::ArrayRef;

/// Which parameter of a statement: 0 for `$1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(pub usize);

/// One value, which may be that of a parameter: then a run with other values has another in its place
/// ([`Plan::with_values`](crate::Plan::with_values)).
#[derive(Debug, Clone)]
pub struct Literal {
    value: ArrayRef,
    parameter: Option<ParameterId>,
}

impl Literal {
    /// The value of a parameter.
    pub fn of_parameter(parameter: ParameterId, value: ArrayRef) -> Literal {
        Literal { value, parameter: Some(parameter) }
    }

    /// The value.
    pub fn value(&self) -> &ArrayRef {
        &self.value
    }

    /// The parameter that it was given for.
    pub fn parameter(&self) -> Option<ParameterId> {
        self.parameter
    }
}

/// A value that belongs to no parameter.
impl From<ArrayRef> for Literal {
    fn from(value: ArrayRef) -> Literal {
        Literal { value, parameter: None }
    }
}

impl Deref for Literal {
    type Target = ArrayRef;

    fn deref(&self) -> &ArrayRef {
        &self.value
    }
}
