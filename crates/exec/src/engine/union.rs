//! Union.

use super::flow::{Filters, Flow};
use super::pipe::Pipe;
use crate::ExecError;
use crate::plan::Union;

/// A pipe of the operator's rows.
pub(crate) fn pipe(_flow: &Flow<'_>, _operator: &Union, _filters: &Filters) -> Result<Pipe, ExecError> {
    Err(ExecError::Evaluation("not here yet".into()))
}
