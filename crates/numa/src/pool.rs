//! Pools: small placed requests come from slabs that are bound to their node, so that a small dictionary lies where it
//! was asked for, and does not cost a mapping of its own.
//!
//! A request is rounded up to a size class. Each thread keeps a few blocks of each class and node; it fetches them and
//! brings them back in batches, so that the pool's lock is taken once per batch. A block may be freed by any thread: it
//! goes into that thread's cache, and from there back to its slab. A slab all of whose blocks are back is unmapped, but
//! for one per class and node.
//!
//! Invariants: a block is in the hands of one region, in the cache of one thread, or free in its slab. A slab with a
//! free block is in its shelf's `open` list, or is its `empty` one; a slab without is in none.
//!
//! # Limits
//! What a thread's cache holds (at most [`CACHED_BYTES`] or two blocks per class) other threads cannot have until
//! that thread ends. Pools are used on machines of several nodes only; elsewhere the heap serves small requests.
//!
//! Source: thread-local pools per node, Seidel 2011, NUMA Building Blocks, section 3.3.1.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::error::MemoryError;
use crate::sys::mapping::Mapping;
use crate::sys::memory::Memory;
use crate::sys::slab::{Block, Home, Slab};

/// Bytes of a block, by class: at most a third more than was asked for.
const CLASS_BYTES: [usize; 19] =
    [64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 20480, 24576, 32768];
const CLASSES: usize = CLASS_BYTES.len();
/// The largest request that a pool serves.
pub(crate) const POOL_BYTES_MAX: usize = CLASS_BYTES[CLASSES - 1];
/// Bytes of a slab: many blocks for one mapping, and not much to keep for one block.
pub(crate) const SLAB_BYTES: usize = 256 << 10;
/// How much a thread keeps of one class and node.
const CACHED_BYTES: usize = 32 << 10;
/// How many blocks a thread keeps of one class and node, however small they are.
const CACHED_BLOCKS_MAX: usize = 64;

/// The slabs of one node.
#[derive(Debug)]
pub(crate) struct Pool {
    id: u64,
    shelves: [Mutex<Shelf>; CLASSES],
    held_bytes: AtomicU64,
}

/// The slabs of one class that have a free block.
#[derive(Debug, Default)]
struct Shelf {
    open: Vec<Arc<Slab>>,
    /// One slab without any used block, kept so that one request in turn does not map and unmap.
    empty: Option<Arc<Slab>>,
}

/// Which pool and class a slab belongs to.
#[derive(Debug)]
struct Shelving {
    pool: Weak<Pool>,
    pool_id: u64,
    class: usize,
}

impl Pool {
    pub(crate) fn new() -> Arc<Pool> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shelves = std::array::from_fn(|_| Mutex::default());
        Arc::new(Pool { id, shelves, held_bytes: AtomicU64::new(0) })
    }

    /// The pool that a block belongs to, while it is there.
    pub(crate) fn of(block: &Block) -> Option<Arc<Pool>> {
        let home: &dyn Any = block.slab().home();
        home.downcast_ref::<Shelving>()?.pool.upgrade()
    }

    /// What a request of this many bytes takes; at most [`POOL_BYTES_MAX`].
    pub(crate) fn block_bytes(len_bytes: usize) -> usize {
        CLASS_BYTES[class_of(len_bytes)]
    }

    /// Zeroed memory of `len_bytes` bytes, at most [`POOL_BYTES_MAX`]. `map` makes the mapping of a new slab, bound to
    /// the node, when there is no free block.
    ///
    /// # Errors
    /// Those of `map`.
    pub(crate) fn take(
        self: &Arc<Pool>,
        len_bytes: usize,
        map: impl FnOnce() -> Result<Mapping, MemoryError>,
    ) -> Result<Memory, MemoryError> {
        let class = class_of(len_bytes);
        let block = match cached(|cache| cache.blocks(self, class).pop()).flatten() {
            Some(block) => block,
            None => self.fetch(class, map)?,
        };
        Memory::of_block(block, len_bytes).map_err(|error| MemoryError::system(len_bytes as u64, error))
    }

    /// Bytes of all its slabs, used or not.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Gives the slabs back that are kept in reserve: their bytes.
    pub(crate) fn release(&self) -> u64 {
        let empty = (0..CLASSES).filter_map(|class| self.shelf(class).empty.take());
        empty.map(|slab| self.forget(slab)).sum()
    }

    /// One block to use and, while the shelf has them at hand, a batch for this thread's cache.
    fn fetch(
        self: &Arc<Pool>,
        class: usize,
        map: impl FnOnce() -> Result<Mapping, MemoryError>,
    ) -> Result<Block, MemoryError> {
        let mut taken = self.shelf(class).take(batch(class));
        if taken.is_empty() {
            // Outside of the lock: this asks the kernel for free memory and for a mapping.
            let mapping = map()?;
            self.held_bytes.fetch_add(mapping.bytes() as u64, Ordering::Relaxed);
            let home = Shelving { pool: Arc::downgrade(self), pool_id: self.id, class };
            let slab = Arc::new(Slab::new(mapping, CLASS_BYTES[class], Box::new(home)));
            taken.extend((0..batch(class)).map_while(|_| slab.take()));
            if slab.free_blocks() > 0 {
                self.shelf(class).open.push(slab);
            }
        }
        let block = taken.pop().expect("a slab has a block, and a shelf gives none or some");
        if cached(|cache| cache.blocks(self, class).append(&mut taken)).is_none() {
            self.put(class, taken);
        }
        Ok(block)
    }

    /// Brings blocks back to their slabs, and slabs that nobody uses any more to the system.
    fn put(&self, class: usize, blocks: impl IntoIterator<Item = Block>) {
        let mut idle = Vec::new();
        let mut shelf = self.shelf(class);
        for block in blocks {
            let slab = Arc::clone(block.slab());
            let was_full = slab.free_blocks() == 0;
            drop(block);
            if slab.free_blocks() == slab.blocks() {
                shelf.open.retain(|open| !Arc::ptr_eq(open, &slab));
                idle.extend(shelf.empty.replace(slab));
            } else if was_full {
                shelf.open.push(slab);
            }
        }
        drop(shelf);
        for slab in idle {
            self.forget(slab);
        }
    }

    fn forget(&self, slab: Arc<Slab>) -> u64 {
        let bytes = slab.held_bytes() as u64;
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    fn shelf(&self, class: usize) -> MutexGuard<'_, Shelf> {
        // Lists of slabs are valid after every statement, so a panic elsewhere while they were held does not matter.
        self.shelves[class].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Up to `count` free blocks; none when there are none.
    fn take(&mut self, count: usize) -> Vec<Block> {
        let mut taken = Vec::with_capacity(count);
        if self.open.is_empty() {
            self.open.extend(self.empty.take());
        }
        while taken.len() < count
            && let Some(slab) = self.open.last()
        {
            taken.extend((taken.len()..count).map_while(|_| slab.take()));
            if slab.free_blocks() == 0 {
                self.open.pop();
            }
        }
        taken
    }
}

impl Home for Shelving {
    /// To the cache of the calling thread.
    fn give_back(&self, block: Block) {
        let mut block = Some(block);
        let surplus = cached(|cache| {
            let blocks = cache.blocks_by_id(self.pool_id, &self.pool, self.class);
            blocks.extend(block.take());
            // Those that came first go: they are the coldest.
            let most = 2 * batch(self.class);
            let surplus = if blocks.len() > most { blocks.len() - batch(self.class) } else { 0 };
            blocks.drain(..surplus).collect::<Vec<_>>()
        });
        // Where the thread is ending it has no cache any more, and the block is still here.
        let mut surplus = surplus.unwrap_or_default();
        surplus.extend(block);
        if let Some(pool) = self.pool.upgrade().filter(|_| !surplus.is_empty()) {
            pool.put(self.class, surplus);
        }
    }
}

fn class_of(len_bytes: usize) -> usize {
    let class = CLASS_BYTES.partition_point(|bytes| *bytes < len_bytes);
    assert!(class < CLASSES, "{len_bytes} bytes are no request for a pool");
    class
}

/// How many blocks travel at a time between a pool and a thread; a thread keeps at most twice as many.
fn batch(class: usize) -> usize {
    (CACHED_BYTES / 2 / CLASS_BYTES[class]).clamp(1, CACHED_BLOCKS_MAX / 2)
}

/// What a thread keeps of every pool that it used.
#[derive(Default)]
struct ThreadCache {
    pools: Vec<CachedPool>,
}

struct CachedPool {
    id: u64,
    pool: Weak<Pool>,
    blocks: [Vec<Block>; CLASSES],
}

impl ThreadCache {
    fn blocks(&mut self, pool: &Arc<Pool>, class: usize) -> &mut Vec<Block> {
        let at = self.at(pool.id, || Arc::downgrade(pool));
        &mut self.pools[at].blocks[class]
    }

    fn blocks_by_id(&mut self, id: u64, pool: &Weak<Pool>, class: usize) -> &mut Vec<Block> {
        let at = self.at(id, || Weak::clone(pool));
        &mut self.pools[at].blocks[class]
    }

    /// The place of a pool; there are as many as the machine has nodes.
    fn at(&mut self, id: u64, pool: impl FnOnce() -> Weak<Pool>) -> usize {
        self.pools.iter().position(|known| known.id == id).unwrap_or_else(|| {
            // Pools that are gone (made-up machines of tests) make room.
            self.pools.retain(|known| known.pool.strong_count() > 0);
            self.pools.push(CachedPool { id, pool: pool(), blocks: std::array::from_fn(|_| Vec::new()) });
            self.pools.len() - 1
        })
    }
}

impl Drop for ThreadCache {
    fn drop(&mut self) {
        for CachedPool { pool, blocks, .. } in self.pools.drain(..) {
            if let Some(pool) = pool.upgrade() {
                for (class, blocks) in blocks.into_iter().enumerate() {
                    pool.put(class, blocks);
                }
            }
        }
    }
}

/// Does something with this thread's cache; `None` where the thread is ending.
fn cached<R>(body: impl FnOnce(&mut ThreadCache) -> R) -> Option<R> {
    thread_local! {
        static CACHE: RefCell<ThreadCache> = RefCell::default();
    }
    CACHE.try_with(|cache| cache.try_borrow_mut().ok().map(|mut cache| body(&mut cache))).ok().flatten()
}

#[cfg(test)]
mod tests;
