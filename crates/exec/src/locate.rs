//! Where the pages of what a morsel reads lie, so that its task runs next to them.
//!
//! The page map of a large column is read from the kernel once and kept for as long as the column lives; on a machine with
//! one node nothing is read at all.
//!
//! # Limits
//! A map is not read again when pages move under a live column. Columns under 4 MiB have no map: their morsels run
//! anywhere, since finding out costs more than it saves.
//!
//! Source: Psaroudakis et al., VLDB 2015, sections 4.3 and 5.2.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use numa::{NodeId, PageMap, Region};
use parking_lot::Mutex;
use storage::{Column, Component};

/// Columns smaller than this run anywhere.
const LARGE_BYTES: usize = 4 << 20;

/// Maps of live columns, by the column's address; an entry whose column is gone is replaced or swept.
static KNOWN: LazyLock<Mutex<HashMap<usize, Known>>> = LazyLock::new(Mutex::default);

/// A column and its map.
type Known = (Weak<Column>, Arc<PageMap>);

/// Access to page maps on a machine with several nodes.
pub(crate) struct PageMaps;

/// Finds the node of a row of one column.
pub(crate) struct Locator {
    map: Arc<PageMap>,
    column: Arc<Column>,
}

impl PageMaps {
    /// A locator for a column; `None` where it is small, or not in a region of ours.
    pub(crate) fn locator(&self, column: &Arc<Column>) -> Option<Locator> {
        let region = codes_region(column).filter(|region| region.len() >= LARGE_BYTES)?;
        let key = Arc::as_ptr(column) as usize;
        let same = |(live, _): &&Known| live.ptr_eq(&Arc::downgrade(column));
        let known = KNOWN.lock().get(&key).filter(same).map(|(_, map)| map.clone());
        let map = known.unwrap_or_else(|| {
            // Read without the lock: asking the kernel about gigabytes takes a while.
            let map = Arc::new(PageMap::of(region));
            let mut all = KNOWN.lock();
            all.retain(|_, (live, _)| live.strong_count() > 0);
            all.insert(key, (Arc::downgrade(column), map.clone()));
            map
        });
        Some(Locator { map, column: column.clone() })
    }
}

impl Locator {
    /// The node that holds the codes (or plain values) of a row; `None` where unknown.
    pub(crate) fn node_of(&self, row: usize) -> Option<NodeId> {
        let region = codes_region(&self.column)?;
        // Every row takes the same bits, so the offset follows the row.
        let offset = region.len() as u128 * row as u128 / self.column.len().max(1) as u128;
        self.map.node_of(region.address() + offset as usize)
    }
}

/// The largest region of the column's codes or values: the others (validity, views' text) are smaller or have no row order.
fn codes_region(column: &Column) -> Option<&Region> {
    let components = column.components().into_iter();
    components.filter(|(component, _)| *component == Component::Codes).map(|(_, region)| region).max_by_key(|r| r.len())
}
