//! A disk with a write cache that is lost when it is switched off: what was not flushed survives in part, or not at
//! all, as drawn.
//!
//! Invariants: what was written before a flush was answered, and what was written with force (FUA), is there after any
//! power-off. Of all else each block is there or not, whatever its neighbours and its order; writes of one block keep
//! their order.
//!
//! # Limits
//! A block is written whole or not at all: disks say so of their sectors, and file systems rely on it. A write that was
//! on its way when the power went is lost as a whole with those that were not flushed, or was here already.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use random::Random;

/// What is written as one: the sector of most disks that are sold, and the block of the file system.
pub const BLOCK_BYTES: usize = 4096;

/// Blocks by their numbers; one that is absent is zeros.
type Blocks = BTreeMap<u64, Arc<[u8]>>;

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    bytes: u64,
    /// What survives.
    durable: Blocks,
    /// What reading finds.
    seen: Blocks,
    /// Since the last flush, in order.
    unflushed: Vec<Write>,
    /// Whether a flush does what it says.
    honest: bool,
}

#[derive(Clone, Debug)]
struct Write {
    block: u64,
    data: Arc<[u8]>,
    forced: bool,
}

/// How much of the write cache a power-off takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    All,
    /// Nothing: only the machine's memory is lost.
    Nothing,
    /// Everything behind some write.
    End,
    /// Each block or not.
    Some,
}

/// Blocks in the write cache when the power went, and how many of them were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// That were not flushed.
    pub unflushed: usize,
    /// That are not there.
    pub lost: usize,
}

impl Loss {
    /// One of them.
    pub fn drawn(random: &mut Random) -> Loss {
        random.pick(&[Loss::All, Loss::All, Loss::Nothing, Loss::End, Loss::End, Loss::Some, Loss::Some, Loss::Some])
    }
}

impl Disk {
    /// A disk with what is in a file.
    pub fn read(path: &Path) -> io::Result<Disk> {
        let mut file = File::open(path)?;
        let mut disk =
            Disk { bytes: 0, durable: Blocks::new(), seen: Blocks::new(), unflushed: Vec::new(), honest: true };
        let mut buffer = vec![0; BLOCK_BYTES];
        for block in 0..file.metadata()?.len() / BLOCK_BYTES as u64 {
            file.read_exact(&mut buffer)?;
            if buffer.iter().any(|byte| *byte != 0) {
                disk.durable.insert(block, buffer.as_slice().into());
            }
            disk.bytes += BLOCK_BYTES as u64;
        }
        disk.seen = disk.durable.clone();
        Ok(disk)
    }

    /// The same disk, but it says that it has flushed and has not; nothing is forced either.
    pub fn dishonest(self) -> Disk {
        Disk { honest: false, ..self }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads into `to`, from byte `from`; false where the disk does not go so far.
    pub fn read_at(&self, from: u64, to: &mut [u8]) -> bool {
        if !self.has(from, to.len()) {
            return false;
        }
        let mut at = 0;
        while at < to.len() {
            let byte = from + at as u64;
            let (block, within) = (byte / BLOCK_BYTES as u64, (byte % BLOCK_BYTES as u64) as usize);
            let part = (BLOCK_BYTES - within).min(to.len() - at);
            let target = &mut to[at..at + part];
            match self.seen.get(&block) {
                Some(data) => target.copy_from_slice(&data[within..within + part]),
                None => target.fill(0),
            }
            at += part;
        }
        true
    }

    /// Writes whole blocks from byte `to` on, into the write cache; false where the disk has no such blocks.
    pub fn write_at(&mut self, to: u64, data: &[u8], forced: bool) -> bool {
        let block = BLOCK_BYTES as u64;
        if !self.has(to, data.len()) || !to.is_multiple_of(block) || !data.len().is_multiple_of(BLOCK_BYTES) {
            return false;
        }
        for (place, part) in data.chunks(BLOCK_BYTES).enumerate() {
            let write = Write { block: to / block + place as u64, data: part.into(), forced: forced && self.honest };
            self.seen.insert(write.block, Arc::clone(&write.data));
            self.unflushed.push(write);
        }
        true
    }

    /// What was written is safe.
    pub fn flush(&mut self) {
        if self.honest {
            self.unflushed.drain(..).for_each(|write| _ = self.durable.insert(write.block, write.data));
        }
    }

    /// The power goes and comes back.
    pub fn switch_off(&mut self, loss: Loss, random: &mut Random) -> Lost {
        let mut lost = Lost { unflushed: 0, lost: 0 };
        let end = random.below(self.unflushed.len() + 1);
        for (place, write) in std::mem::take(&mut self.unflushed).into_iter().enumerate() {
            let survives = match loss {
                Loss::All => false,
                Loss::Nothing => true,
                Loss::End => place < end,
                Loss::Some => random.one_in(2),
            };
            lost.unflushed += usize::from(!write.forced);
            if survives || write.forced {
                self.durable.insert(write.block, write.data);
            } else {
                lost.lost += 1;
            }
        }
        self.seen = self.durable.clone();
        lost
    }

    /// Writes what survives into a file, for people to look at.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.set_len(self.bytes)?;
        for (block, data) in &self.durable {
            file.seek(SeekFrom::Start(block * BLOCK_BYTES as u64))?;
            file.write_all(data)?;
        }
        Ok(())
    }

    fn has(&self, from: u64, length: usize) -> bool {
        from.checked_add(length as u64).is_some_and(|end| end <= self.bytes)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An empty disk of so many blocks.
    pub fn empty(blocks: u64) -> Disk {
        let (durable, seen) = (Blocks::new(), Blocks::new());
        Disk { bytes: blocks * BLOCK_BYTES as u64, durable, seen, unflushed: Vec::new(), honest: true }
    }

    fn write(disk: &mut Disk, block: u64, value: u8, forced: bool) {
        assert!(disk.write_at(block * BLOCK_BYTES as u64, &[value; BLOCK_BYTES], forced));
    }

    /// The first byte of a block, all of which are alike.
    fn value(disk: &Disk, block: u64) -> u8 {
        let mut data = [9; BLOCK_BYTES];
        assert!(disk.read_at(block * BLOCK_BYTES as u64, &mut data));
        assert!(data.iter().all(|byte| *byte == data[0]));
        data[0]
    }

    #[test]
    fn what_is_written_is_read_and_stays_where_it_was_flushed() {
        let mut disk = empty(4);
        write(&mut disk, 1, 1, false);
        disk.flush();
        write(&mut disk, 1, 2, false);
        write(&mut disk, 2, 3, true);
        assert_eq!([0, 1, 2, 3].map(|block| value(&disk, block)), [0, 2, 3, 0]);
        let mut across = [0; 4];
        assert!(disk.read_at(2 * BLOCK_BYTES as u64 - 2, &mut across));
        assert_eq!(across, [2, 2, 3, 3]);
        let lost = disk.switch_off(Loss::All, &mut Random::new(1));
        assert_eq!(lost, Lost { unflushed: 1, lost: 1 });
        assert_eq!([0, 1, 2, 3].map(|block| value(&disk, block)), [0, 1, 3, 0]);
    }

    #[test]
    fn what_is_forced_is_not_overtaken_by_what_was_before_it() {
        for (loss, before) in [(Loss::Nothing, 1), (Loss::All, 0)] {
            let mut disk = empty(2);
            write(&mut disk, 0, 1, false);
            write(&mut disk, 0, 2, true);
            write(&mut disk, 1, 1, false);
            let mut off = disk.clone();
            off.switch_off(loss, &mut Random::new(1));
            assert_eq!((value(&off, 0), value(&off, 1)), (2, before));
            disk.flush();
            assert_eq!(value(&disk, 0), 2);
        }
    }

    #[test]
    fn a_flush_that_lies_keeps_nothing() {
        let mut disk = empty(2).dishonest();
        write(&mut disk, 0, 1, true);
        disk.flush();
        assert_eq!(value(&disk, 0), 1);
        assert_eq!(disk.switch_off(Loss::All, &mut Random::new(1)).lost, 1);
        assert_eq!(value(&disk, 0), 0);
    }

    #[test]
    fn each_kind_of_loss_leaves_what_it_says() {
        let mut random = Random::new(5);
        let (mut beginnings, mut others) = (0, 0);
        for loss in [Loss::Nothing, Loss::End, Loss::Some, Loss::All].repeat(50) {
            let mut disk = empty(16);
            (0..16).for_each(|block| write(&mut disk, block, 1, false));
            let lost = disk.switch_off(loss, &mut random);
            let there: Vec<bool> = (0..16).map(|block| value(&disk, block) == 1).collect();
            assert_eq!(lost, Lost { unflushed: 16, lost: there.iter().filter(|there| !**there).count() });
            let beginning = there.is_sorted_by(|a, b| a >= b);
            match loss {
                Loss::Nothing => assert_eq!(lost.lost, 0),
                Loss::All => assert_eq!(lost.lost, 16),
                Loss::End => {
                    assert!(beginning);
                    beginnings += usize::from(lost.lost > 0 && lost.lost < 16);
                }
                Loss::Some => others += usize::from(!beginning),
            }
        }
        assert!(beginnings > 30 && others > 40, "{beginnings} {others}");
    }

    #[test]
    fn what_is_outside_is_refused() {
        let mut disk = empty(2);
        let bytes = disk.bytes();
        assert!(!disk.write_at(bytes, &[1; BLOCK_BYTES], false));
        assert!(!disk.write_at(1, &[1; BLOCK_BYTES], false));
        assert!(!disk.write_at(0, &[1; 512], false));
        assert!(!disk.read_at(bytes - 1, &mut [0; 2]));
        assert!(!disk.read_at(u64::MAX, &mut [0; 2]));
    }

    #[test]
    fn files_come_back() {
        let path = std::env::temp_dir().join(format!("xtask-disk-{}", std::process::id()));
        let mut disk = empty(5);
        write(&mut disk, 3, 7, true);
        disk.switch_off(Loss::All, &mut Random::new(1));
        disk.write(&path).unwrap();
        let back = Disk::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((back.bytes(), back.durable), (disk.bytes(), disk.durable));
    }
}
