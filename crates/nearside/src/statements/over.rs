//! A table that is being changed, as a statement's own queries see it.

use std::sync::Arc;

use crate::catalog::index::indexed;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Name, TableEntry};
use crate::error::Result;
use crate::run::statement::RunningStatement;
use crate::sql::fresh_name;

/// The statement over a state in which the table is as it has become.
pub(super) fn over(table: &TableEntry, running: &Arc<RunningStatement>) -> Result<(CatalogState, Name)> {
    let mut state = CatalogState::clone(&running.catalog);
    let name = Name { schema: table.name.schema.clone(), table: fresh_name("changed") };
    let known = running.catalog.by_id(table.id).map(|known| Name::clone(&known.name));
    let rights = known.and_then(|known| state.take_for_again(&known));
    let named = TableEntry { name: Arc::new(name.clone()), ..table.clone() };
    state.put_table(name.clone(), indexed(named, running)?)?;
    state.put_rights(Thing::named(&name), rights);
    Ok((state, name))
}
