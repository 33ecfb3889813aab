//! The memory of the trees of one object on one node: blocks of cache lines, named by number.
//!
//! Blocks are whole cache lines (64 bytes) and their names fit 32 bits, so a child costs half a pointer. Memory comes
//! in chunks, the first of 64 KiB, each as large as all before it up to 32 MiB; chunks never move, so a reader
//! needs no latch to follow a name. An owner claims runs of lines for itself ([`Pool`]) and asks the arena for the next
//! only when its run is used up (Kissinger et al., ADMS 2014, section 3.1: a memory manager per node and object).
//!
//! Invariants: block 0 is never handed out; a block is handed out to one owner until it is given back; words of
//! fresh memory are zero, those of reused blocks are not.
//!
//! # Limits
//! Memory goes back to the system when the arena is dropped. 256 GiB per arena.

use std::sync::OnceLock;

use numa::{Allocator, AtomicRegion, MemoryError};
use parking_lot::Mutex;

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;
/// Lines of the first chunk.
const FIRST_LINES: u32 = 1 << 10;
/// Lines of a chunk once they do not grow.
const CHUNK_LINES: u32 = 1 << 19;
const CHUNK_BITS: u32 = CHUNK_LINES.trailing_zeros();
/// Chunks that are smaller than the last size: one of `FIRST_LINES`, then as large as all before.
const SMALL_CHUNKS: usize = (CHUNK_BITS - FIRST_LINES.trailing_zeros() + 1) as usize;
const LARGE_CHUNKS: usize = (1 << (32 - CHUNK_BITS)) - 1;
/// The most lines of a block.
const BLOCK_LINES_MAX: usize = 40;
/// The least and the most lines that an owner claims at a time.
const RUN_LINES_MIN: u32 = 128;
const RUN_LINES_MAX: u32 = 1 << 14;
/// Free lines that an owner keeps, however few it uses: 256 KiB.
const FREE_LINES_KEPT: u64 = 1 << 12;
/// The most spare blocks that an owner takes at a time.
const SPARE_BLOCKS: usize = 64;

/// The name of a block: the number of its first line. 0 names none.
pub type Block = u32;

/// See the module.
#[derive(Debug)]
pub struct Arena {
    small: [OnceLock<AtomicRegion>; SMALL_CHUNKS],
    large: OnceLock<Box<[OnceLock<AtomicRegion>]>>,
    allocator: Allocator,
    /// The first line that nobody has claimed.
    next_line: Mutex<u64>,
    /// Blocks that owners gave up for each other, by their lines.
    spare: Mutex<Vec<Vec<Block>>>,
    /// How many those are.
    spare_blocks: AtomicU64,
}

/// Where a line's chunk is.
enum ChunkPlace {
    Small(usize),
    Large(usize),
}

impl ChunkPlace {
    #[inline]
    fn of(line: u32) -> ChunkPlace {
        if line < CHUNK_LINES {
            let doublings = (line / FIRST_LINES).checked_ilog2().map_or(0, |log| log + 1);
            ChunkPlace::Small(doublings as usize)
        } else {
            ChunkPlace::Large((line >> CHUNK_BITS) as usize - 1)
        }
    }

    /// Its first line and how many it has.
    #[inline]
    fn lines(&self) -> (u32, u32) {
        match self {
            ChunkPlace::Small(0) => (0, FIRST_LINES),
            ChunkPlace::Small(chunk) => (FIRST_LINES << (chunk - 1), FIRST_LINES << (chunk - 1)),
            ChunkPlace::Large(chunk) => ((*chunk as u32 + 1) << CHUNK_BITS, CHUNK_LINES),
        }
    }
}

impl Arena {
    /// An empty arena; its memory follows the allocator's policy and budget.
    pub fn new(allocator: Allocator) -> Arena {
        Arena {
            small: [const { OnceLock::new() }; SMALL_CHUNKS],
            large: OnceLock::new(),
            allocator,
            next_line: Mutex::new(1),
            spare: Mutex::new(vec![Vec::new(); BLOCK_LINES_MAX + 1]),
            spare_blocks: AtomicU64::new(0),
        }
    }

    /// Bytes that it holds from the system.
    pub fn held_bytes(&self) -> u64 {
        let large = self.large.get().into_iter().flatten();
        self.small.iter().chain(large).filter_map(OnceLock::get).map(|chunk| chunk.held_bytes() as u64).sum()
    }

    /// The chunks' addresses and bytes, for the page map.
    pub fn chunks(&self) -> Vec<(usize, usize)> {
        let large = self.large.get().into_iter().flatten();
        let chunks = self.small.iter().chain(large).filter_map(OnceLock::get);
        chunks.map(|chunk| (chunk.address(), chunk.held_bytes())).collect()
    }

    fn chunk(&self, place: &ChunkPlace) -> Option<&AtomicRegion> {
        match place {
            ChunkPlace::Small(chunk) => self.small[*chunk].get(),
            ChunkPlace::Large(chunk) => self.large.get()?.get(*chunk)?.get(),
        }
    }

    /// A word of a block, counted from the block's first. A block that was never handed out is a fault of ours.
    #[inline]
    pub(crate) fn word(&self, block: Block, word: usize) -> &AtomicU64 {
        let place = ChunkPlace::of(block);
        let (first, _) = place.lines();
        let chunk = self.chunk(&place).expect("a block lies in a chunk");
        &chunk.words()[(block - first) as usize * LINE_WORDS + word]
    }

    /// The words of a block from its first on.
    #[inline]
    pub(crate) fn words(&self, block: Block, words: usize) -> &[AtomicU64] {
        let place = ChunkPlace::of(block);
        let (first, _) = place.lines();
        let chunk = self.chunk(&place).expect("a block lies in a chunk");
        let start = (block - first) as usize * LINE_WORDS;
        &chunk.words()[start..start + words]
    }

    /// Asks for the line of a word without waiting for it.
    #[inline]
    pub(crate) fn prefetch(&self, block: Block, word: usize) {
        let place = ChunkPlace::of(block);
        let (first, _) = place.lines();
        if let Some(chunk) = self.chunk(&place) {
            chunk.prefetch((block - first) as usize * LINE_WORDS + word);
        }
    }

    /// Spare blocks of `lines` lines, at most as many.
    fn take_spare(&self, lines: usize, most: usize) -> Vec<Block> {
        if self.spare_blocks.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut spare = self.spare.lock();
        let left = spare[lines].len().saturating_sub(most);
        let blocks = spare[lines].split_off(left);
        self.spare_blocks.fetch_sub(blocks.len() as u64, Ordering::Relaxed);
        blocks
    }

    /// A spare block of more than `lines` lines, and how many it has.
    fn take_larger(&self, lines: u32) -> Option<(Block, u32)> {
        let mut spare = self.spare.lock();
        let larger = (lines as usize + 1..spare.len()).find(|lines| !spare[*lines].is_empty())?;
        self.spare_blocks.fetch_sub(1, Ordering::Relaxed);
        Some((spare[larger].pop()?, larger as u32))
    }

    /// Lines for one owner, side by side: their first and how many, at least `least`.
    fn claim(&self, least: u32, wanted: u32) -> Result<(u32, u32), MemoryError> {
        let mut next = self.next_line.lock();
        loop {
            let Ok(line) = u32::try_from(*next) else {
                return Err(MemoryError::System {
                    requested_bytes: u64::from(least) * (LINE_WORDS * 8) as u64,
                    reason: "an object has at most 256 GiB on one node".to_owned(),
                });
            };
            let place = ChunkPlace::of(line);
            let (first, lines) = place.lines();
            self.ensure(&place)?;
            let left = first + (lines - 1) - line + 1;
            if left < least {
                *next += u64::from(left);
                continue;
            }
            let taken = wanted.min(left);
            *next += u64::from(taken);
            return Ok((line, taken));
        }
    }

    /// Makes a chunk where it is not there yet; called under the lock.
    fn ensure(&self, place: &ChunkPlace) -> Result<(), MemoryError> {
        let cell = match place {
            ChunkPlace::Small(chunk) => &self.small[*chunk],
            ChunkPlace::Large(chunk) => {
                &self.large.get_or_init(|| (0..LARGE_CHUNKS).map(|_| OnceLock::new()).collect())[*chunk]
            }
        };
        if cell.get().is_none() {
            let (_, lines) = place.lines();
            let region = self.allocator.region(lines as usize * LINE_WORDS * 8)?;
            // Chunks are made under the lock, so nobody was first.
            let _ = cell.set(AtomicRegion::from(region));
        }
        Ok(())
    }
}

/// The blocks that one owner may hand out.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The rest of the run that was claimed last.
    run: (u32, u32),
    run_lines: u32,
    /// Blocks that were given back, by their lines.
    free: Vec<Vec<Block>>,
    /// Lines in use.
    used_lines: u64,
    /// Lines of the free blocks.
    free_lines: u64,
}

impl Pool {
    pub(crate) fn new() -> Pool {
        Pool {
            run: (0, 0),
            run_lines: RUN_LINES_MIN,
            free: vec![Vec::new(); BLOCK_LINES_MAX + 1],
            used_lines: 0,
            free_lines: 0,
        }
    }

    /// A block of `lines` lines; what its words hold is unspecified.
    pub(crate) fn take(&mut self, arena: &Arena, lines: usize) -> Result<Block, MemoryError> {
        let block = match self.free[lines].pop() {
            Some(block) => {
                self.free_lines -= lines as u64;
                block
            }
            None => self.cut(arena, lines)?,
        };
        self.used_lines += lines as u64;
        Ok(block)
    }

    /// Gives a block back at once: nobody may be reading it.
    pub(crate) fn give_back(&mut self, block: Block, lines: usize) {
        self.keep(block, lines);
        self.used_lines -= lines as u64;
    }

    fn keep(&mut self, block: Block, lines: usize) {
        self.free[lines].push(block);
        self.free_lines += lines as u64;
    }

    /// Bytes of the blocks in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_lines * (LINE_WORDS * 8) as u64
    }

    /// Blocks in use that another owner has from here on.
    pub(crate) fn lose_lines(&mut self, lines: u64) {
        self.used_lines -= lines;
    }

    /// Blocks in use that were another owner's.
    pub(crate) fn gain_lines(&mut self, lines: u64) {
        self.used_lines += lines;
    }

    /// Gives up its free blocks for whoever needs them, where they are more than it is likely to need itself. Without
    /// this an owner that hands over what it fills would never get any back: blocks are given back where they are last.
    pub(crate) fn share_free(&mut self, arena: &Arena) {
        if self.free_lines <= self.used_lines.max(FREE_LINES_KEPT) {
            return;
        }
        let mut spare = arena.spare.lock();
        for (own, spare) in self.free.iter_mut().zip(spare.iter_mut()) {
            arena.spare_blocks.fetch_add(own.len() as u64, Ordering::Relaxed);
            spare.append(own);
        }
        self.free_lines = 0;
    }

    fn cut(&mut self, arena: &Arena, lines: usize) -> Result<Block, MemoryError> {
        let mut spare = arena.take_spare(lines, SPARE_BLOCKS);
        if let Some(block) = spare.pop() {
            spare.into_iter().for_each(|block| self.keep(block, lines));
            return Ok(block);
        }
        let lines = lines as u32;
        if self.run.1 < lines {
            let claimed = arena.claim(lines, self.run_lines.max(lines));
            // Where there is no memory, what others gave up and is larger does as well.
            let run = claimed.or_else(|error| arena.take_larger(lines).ok_or(error))?;
            let (first, left) = std::mem::replace(&mut self.run, run);
            if left > 0 {
                self.keep(first, left as usize);
            }
            self.run_lines = (self.run_lines * 2).min(RUN_LINES_MAX);
        }
        let (first, left) = self.run;
        self.run = (first + lines, left - lines);
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_in_the_chunk_that_has_them() {
        for line in
            [0, 1, FIRST_LINES - 1, FIRST_LINES, 5000, CHUNK_LINES - 1, CHUNK_LINES, 7 * CHUNK_LINES + 3, u32::MAX]
        {
            let (first, lines) = ChunkPlace::of(line).lines();
            assert!(first <= line && line - first < lines, "line {line}: {first} and {lines}");
        }
    }

    #[test]
    fn blocks_do_not_overlap_and_are_used_again() {
        let arena = Arena::new(Allocator::unplaced());
        let mut pool = Pool::new();
        let mut blocks = Vec::new();
        for number in 0..20_000_u64 {
            let lines = 1 + (number % 9) as usize;
            let block = pool.take(&arena, lines).unwrap();
            for word in arena.words(block, lines * LINE_WORDS) {
                assert_eq!(word.swap(number + 1, Ordering::Relaxed), 0);
            }
            blocks.push((block, lines));
        }
        let held = arena.held_bytes();
        for (block, lines) in blocks {
            pool.give_back(block, lines);
        }
        assert_eq!(pool.used_bytes(), 0);
        for number in 0..20_000_u64 {
            pool.take(&arena, 1 + (number % 9) as usize).unwrap();
        }
        assert_eq!(arena.held_bytes(), held);
    }
}
