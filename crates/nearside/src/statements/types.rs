//! SQL's names of types.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_expr::LogicalPlan;

use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::run::inner::Inner;
use crate::run::statement::RunningStatement;
use crate::sql::AnyStatement;

/// The Arrow type of an SQL type's name, e.g. `DECIMAL(15, 2)`, as a column of a table would have it.
pub(crate) fn parse(text: &str, running: &Arc<RunningStatement>) -> Result<DataType> {
    let wrong = || {
        Error::plan(
            SqlState::UndefinedObject,
            format!("'{text}' is not a type; use SQL's names, e.g. BIGINT, DECIMAL(15, 2), DATE, TEXT"),
        )
    };
    let context = running.own_context();
    let parsed = AnyStatement::one(&format!("CREATE TABLE t (c {text})")).map_err(|_| wrong())?;
    match parsed.plan(&context).map_err(|_| wrong())? {
        LogicalPlan::Ddl(datafusion_expr::DdlStatement::CreateMemoryTable(create)) => {
            let schema = create.input.schema();
            if schema.fields().len() != 1 {
                return Err(wrong());
            }
            Ok(storage::surface_type(schema.field(0).data_type()))
        }
        _ => Err(wrong()),
    }
}

/// [`parse`] outside a statement.
pub(crate) fn parse_alone(text: &str, inner: &Arc<Inner>) -> Result<DataType> {
    parse(text, &Arc::new(RunningStatement::start(inner, inner.default_planner())))
}
