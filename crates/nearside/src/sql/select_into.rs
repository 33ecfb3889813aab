//! `SELECT .. INTO [TEMP] t FROM ..` is `CREATE [TEMP] TABLE t AS SELECT .. FROM ..`.
//!
//! # Limits
//! UNLOGGED, and INTO within a statement, are refused where statements are checked.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, SelectInto, SetExpr};

use super::parsed;
use crate::error::Result;

/// Writes such a query as the statement that it is.
///
/// # Errors
/// None that a statement has.
pub(super) fn write_out(statement: &mut Statement) -> Result<()> {
    let Statement::Statement(inner) = statement else { return Ok(()) };
    let ast::Statement::Query(query) = inner.as_mut() else { return Ok(()) };
    let Some(into) = into_of(&mut query.body).and_then(|into| into.take_if(|into| !into.unlogged)) else {
        return Ok(());
    };
    let query = query.clone();
    let mut made = parsed::statement("CREATE TABLE t AS SELECT 1")?;
    if let ast::Statement::CreateTable(table) = &mut made {
        table.temporary = into.temporary;
        table.name = into.name;
        table.query = Some(query);
    }
    **inner = made;
    Ok(())
}

/// The clause of a query, which stands in its first SELECT.
fn into_of(body: &mut SetExpr) -> Option<&mut Option<SelectInto>> {
    match body {
        SetExpr::Select(select) => Some(&mut select.into),
        SetExpr::SetOperation { left, .. } => into_of(left),
        SetExpr::Query(query) => into_of(&mut query.body),
        _ => None,
    }
}
