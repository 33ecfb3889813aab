//! Types of SQL whose values are those of another type here, and which are told by a name alone: `oid`, `name`, ..
//!
//! The planner sees the name in a field's metadata ([`TYPE`]), which goes with a column wherever it is named. A place
//! that loses it tells the type of the values: BIGINT, TEXT.

use std::collections::HashMap;

use arrow::datatypes::Field;

/// The key of a field's metadata under which the name of its type stands, as PostgreSQL's catalog has it: `oid`.
pub const TYPE: &str = "nearside.type";

/// The type of functions' names, which the catalog shows where PostgreSQL keeps their numbers.
pub(crate) const REGPROC: &str = "regproc";

/// The metadata of a field of such a type.
pub(crate) fn metadata(name: &str) -> HashMap<String, String> {
    HashMap::from([(TYPE.to_string(), name.to_string())])
}

/// Whether a field's type is one of PostgreSQL's vectors of numbers, which count from 0 and are shown without brackets.
pub(crate) fn is_vector(field: &Field) -> bool {
    matches!(name_of(field), Some("int2vector" | "oidvector"))
}

/// The name of a field's type, where it has one of its own.
pub(crate) fn name_of(field: &Field) -> Option<&str> {
    field.metadata().get(TYPE).map(String::as_str)
}
