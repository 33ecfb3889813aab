//! What a statement of a transaction sees: a snapshot with what the transaction has written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catalog::index::{IndexedTable, indexed};
use crate::catalog::snapshot::Snapshot;
use crate::catalog::transactions::Level;
use crate::catalog::{Alone, CatalogState, Entry, TableEntry, writes_until_now};
use crate::error::{Error, Result};
use crate::run::statement::RunningStatement;
use crate::run::transaction::{Content, InTransaction, SharedView, Transaction, TransactionState, WrittenTable};

/// Tells the names and columns of transactions apart from each other's and from those of the database, whose numbers
/// begin at 0.
static DDL_VERSIONS: AtomicU64 = AtomicU64::new(1 << 62);

/// A number for names and columns that nobody else has.
pub(super) fn own_ddl_version() -> u64 {
    DDL_VERSIONS.fetch_add(1, Ordering::Relaxed)
}

/// A statement that was just started, as one of the transaction's.
///
/// # Errors
/// A table that the transaction has written was dropped, no memory.
pub(crate) fn begin_statement(
    transaction: &Transaction,
    state: &mut TransactionState,
    running: RunningStatement,
) -> Result<RunningStatement> {
    state.begun += 1;
    let snapshot = match &state.snapshot {
        Some(known) if state.level != Level::ReadCommitted => known.clone(),
        _ => {
            state.writes_before = writes_until_now();
            running.inner.catalog.snapshot()
        }
    };
    let is_same =
        |known: &Snapshot| Arc::ptr_eq(known.state(), snapshot.state()) && known.version() == snapshot.version();
    let own = match state.own.take().filter(|_| state.snapshot.as_ref().is_some_and(is_same)) {
        Some(own) => own,
        None => own_state(transaction.open.id, &snapshot, &mut state.content)?,
    };
    state.own = Some(Arc::clone(&own));
    transaction.home.begin(own, snapshot.version());
    state.snapshot = Some(snapshot);
    let of = InTransaction {
        id: transaction.open.id,
        is_read_only: state.is_read_only,
        is_implicit: state.is_implicit,
        has_failed: Arc::clone(&state.stream_failed),
        number: state.begun,
        level: state.level,
        own: state.content.own_tables().map(|table| table.id).collect(),
        shared: Mutex::new(shared_views(&state.content)),
        waited_for: state.deferred.tables(),
        wanted: Mutex::default(),
        changes: Default::default(),
        writes_before: state.writes_before,
    };
    let mut catalog = transaction.home.snapshot();
    if state.level == Level::Serializable {
        catalog = catalog.telling(Arc::clone(&state.reads));
    }
    let running = if state.is_implicit { running } else { running.at(transaction.open.began) };
    Ok(running.within(Arc::new(of), Arc::clone(&transaction.home), catalog))
}

fn shared_views(content: &Content) -> HashMap<u64, Arc<SharedView>> {
    content.tables.iter().map(|(id, written)| (*id, Arc::clone(&written.shared))).collect()
}

/// A state of the database with what a transaction has written.
fn own_state(id: u64, snapshot: &Snapshot, content: &mut Content) -> Result<Arc<CatalogState>> {
    if content.is_empty() {
        return Ok(Arc::clone(snapshot.state()));
    }
    let mut state = CatalogState::clone(snapshot);
    put_definitions(&mut state, content, true)?;
    for (table, written) in &mut content.tables {
        let now = snapshot.by_id(*table).ok_or_else(|| gone(written.table.as_ref()))?;
        if !written.shared.is_seen_in(now, snapshot.version()) {
            *written = over(written, now, id, snapshot.version())?;
        }
        state.set_rows(Arc::clone(&written.table))?;
    }
    state.ddl_version = match content.has_definitions() {
        true => own_ddl_version(),
        false => snapshot.ddl_version,
    };
    Ok(Arc::new(state))
}

/// Puts the schemas and names that a transaction has changed into a state. `cascade`: whether what others have put into
/// a schema that it has dropped goes with it.
pub(super) fn put_definitions(state: &mut CatalogState, content: &Content, cascade: bool) -> Result<()> {
    if let Some(change) = &content.roles {
        *state.roles_mut() = change.over(state.roles());
    }
    let schemas = |is_made: bool| content.schemas.iter().filter(move |(_, made)| **made == is_made);
    for (schema, _) in schemas(true) {
        state.create_schema(schema);
    }
    let rights = Arc::clone(state.rights());
    // A table that has another name now must not stand under both.
    for name in content.names.keys() {
        state.remove(name);
    }
    for (name, change) in &content.names {
        if let Some(entry) = &change.after {
            match entry {
                // It came into the other state with its indexes.
                Entry::Table(table) => state.put_table(name.clone(), IndexedTable::again(table))?,
                Entry::View(view) => state.put_view(name.clone(), Arc::clone(view))?,
                Entry::External(files) => state.put_external(name.clone(), Arc::clone(files))?,
                Entry::Type(of) => state.put_type(name.clone(), Arc::clone(of))?,
                Entry::Domain(of) => state.put_domain(name.clone(), Arc::clone(of))?,
                Entry::Function(of) => state.put_function(name.clone(), Arc::clone(of))?,
                Entry::Sequence(sequence) => state.put_sequence(name.clone(), Arc::clone(sequence))?,
            }
        }
    }
    if let Some(error) = state.tables().find_map(|table| state.has_domains_of(table).err()) {
        return Err(Error::Serialization(error.to_string()));
    }
    for (schema, _) in schemas(false) {
        state.drop_schema(schema, cascade).map_err(|error| Error::Serialization(error.to_string()))?;
    }
    let rights = match &content.rights {
        Some(change) => Arc::new(change.over(&rights)),
        None => rights,
    };
    if !Arc::ptr_eq(state.rights(), &rights) {
        state.set_rights(rights);
    }
    Ok(())
}

/// The error where a table that a transaction has written is not there any more.
pub(super) fn gone(table: &TableEntry) -> Error {
    Error::Serialization(format!("table '{}' was dropped or replaced by another transaction", table.name.shown()))
}

/// What a transaction has written of a table, over what others have committed by now.
fn over(written: &WrittenTable, now: &Arc<TableEntry>, id: u64, version: u64) -> Result<WrittenTable> {
    let shared = SharedView::of(now, version)?;
    let held = now.delta.as_ref().map_or_else(Vec::new, |delta| delta.rows.held(id, &now.base));
    let base = Arc::new(shared.changed(&held, written.added())?);
    let table = indexed(TableEntry { base, delta: None, ..TableEntry::clone(now) }, &Arc::new(Alone))?;
    Ok(WrittenTable { shared: Arc::new(shared), table: Arc::new(table.into_table()) })
}

/// A table that a statement of a transaction is about to write, without a delta, as the transaction sees it; and the
/// statement over a state that has it so.
///
/// # Errors
/// The transaction must not write, no memory.
pub(crate) fn to_be_written(
    of: &InTransaction,
    table: &Arc<TableEntry>,
    running: &Arc<RunningStatement>,
) -> Result<Arc<RunningStatement>> {
    of.may_write()?;
    if of.own.contains(&table.id) || of.shared.lock().contains_key(&table.id) {
        return Ok(Arc::clone(running));
    }
    let shared = SharedView::of(table, running.catalog.version())?;
    let base = Arc::clone(&shared.whole);
    of.shared.lock().insert(table.id, Arc::new(shared));
    if table.delta.is_none() {
        return Ok(Arc::clone(running));
    }
    let private = indexed(TableEntry { base, delta: None, ..TableEntry::clone(table) }, running)?;
    running.home.commit(|state| state.set_rows(Arc::new(private.into_table())))?;
    Ok(Arc::new(running.refreshed()))
}
