//! Outgoing buffers of one sender: what it sends waits here, on its own node, until there is enough for a unit.
//!
//! For each unit there is a buffer of commands for it alone, and one of references to commands that several units get;
//! those stand once, in a buffer that all share. A reference says which part of a scan's range is its unit's. So a scan
//! of a whole object costs three words per unit until it is sent.
//!
//! Invariants: the memory is the same whatever the number of units, and so is that of all senders together; commands
//! for one unit are sent in the order in which they came, but for scans, which go after its own ones.
//!
//! # Limits
//! One thread at a time has it. With hundreds of units a buffer has room for some tens of keys; 2,730 units are the
//! most.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.2.

use numa::{Allocator, MemoryError, NodeId, Region};

use super::command::{HEAD_WORDS, SCAN_WORDS};
use super::inbox::Full;
use crate::primitive::{AtomicU64, Ordering};

/// Words of one sender's buffers: 512 KiB. (Its window of values is 128 KiB more.)
pub(crate) const SENDER_WORDS: usize = 1 << 16;
/// Words of the buffer that all units share.
const SHARED_WORDS: usize = SENDER_WORDS / 8;
/// Words of references to it, all units together.
const REFERENCES_WORDS: usize = SENDER_WORDS / 8;
/// Words of commands for one unit each, all units together.
const OWN_WORDS: usize = SENDER_WORDS - SHARED_WORDS - REFERENCES_WORDS;

/// Words of a command that several units get: its head, and the most pairs.
const SHARED_COMMAND_WORDS: usize = HEAD_WORDS + 1;
/// Words of a reference: where the command is, first and last key.
const REFERENCE_WORDS: usize = 3;
/// The most units: each has room for a reference, and then for a command too.
pub(crate) const UNITS_MAX: usize = REFERENCES_WORDS / REFERENCE_WORDS;
const _: () = assert!(OWN_WORDS / UNITS_MAX > SENT_SCAN_WORDS, "a unit's buffer holds a scan, or a key");

/// Words of a scan in an incoming buffer.
const SENT_SCAN_WORDS: usize = HEAD_WORDS + SCAN_WORDS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Whose memory it is.
    node: Option<NodeId>,
    memory: Region,
    lanes: Vec<Lane>,
    /// The most words of commands for one unit, and of references.
    own_max: usize,
    references_max: usize,
    /// Words taken of the shared buffer.
    shared: usize,
    /// References that are not sent, and commands to which some are being made.
    references: usize,
}

/// What waits for one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Words of commands.
    own: usize,
    /// Words of references.
    references: usize,
    commands: usize,
}

impl Outgoing {
    /// Empty buffers for so many units, [`UNITS_MAX`] at most.
    pub(crate) fn new(units: usize, node: Option<NodeId>, allocator: &Allocator) -> Result<Outgoing, MemoryError> {
        assert!((1..=UNITS_MAX).contains(&units), "outgoing buffers of {units} units: 1 to {UNITS_MAX} can be had");
        Ok(Outgoing {
            node,
            memory: allocator.region(SENDER_WORDS * size_of::<u64>())?,
            lanes: vec![Lane::default(); units],
            own_max: OWN_WORDS / units,
            references_max: REFERENCES_WORDS / units / REFERENCE_WORDS * REFERENCE_WORDS,
            shared: 0,
            references: 0,
        })
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Its memory, for the page map.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &Region {
        &self.memory
    }

    /// The most words of data of a command.
    pub(crate) fn data_max(&self) -> usize {
        self.own_max - HEAD_WORDS
    }

    /// The most commands of one word of data for one unit.
    pub(crate) fn commands_max(&self) -> usize {
        self.own_max / (HEAD_WORDS + 1)
    }

    /// Commands that wait for a unit.
    pub(crate) fn commands(&self, unit: usize) -> usize {
        self.lanes[unit].commands
    }

    /// Units that buffers are for.
    pub(crate) fn units(&self) -> usize {
        self.lanes.len()
    }

    fn own_at(&self, unit: usize) -> usize {
        SHARED_WORDS + REFERENCES_WORDS + unit * self.own_max
    }

    fn references_at(&self, unit: usize) -> usize {
        SHARED_WORDS + unit * self.references_max
    }

    /// Appends a command for one unit, if there is room.
    pub(crate) fn put(&mut self, unit: usize, head: [u64; HEAD_WORDS], data: &[u64]) -> Result<(), Full> {
        let len = HEAD_WORDS + data.len();
        let at = self.own_at(unit) + self.lanes[unit].own;
        if self.lanes[unit].own + len > self.own_max {
            return Err(Full);
        }
        let words = &mut self.memory.words_mut::<u64>()[at..at + len];
        words[..HEAD_WORDS].copy_from_slice(&head);
        words[HEAD_WORDS..].copy_from_slice(data);
        self.lanes[unit].own += len;
        self.lanes[unit].commands += 1;
        Ok(())
    }

    /// Puts a scan where several units' references can name it: its place, if there is room. It stays there until
    /// [`shared`](Self::shared) and until all references were sent.
    pub(crate) fn share(&mut self, head: [u64; HEAD_WORDS], limit: usize) -> Result<usize, Full> {
        let at = self.shared;
        if at + SHARED_COMMAND_WORDS > SHARED_WORDS {
            return Err(Full);
        }
        let words = &mut self.memory.words_mut::<u64>()[at..at + SHARED_COMMAND_WORDS];
        words[..HEAD_WORDS].copy_from_slice(&head);
        words[HEAD_WORDS] = limit as u64;
        self.shared += SHARED_COMMAND_WORDS;
        self.references += 1;
        Ok(at)
    }

    /// All references to what was put there last have been made.
    pub(crate) fn shared(&mut self) {
        self.unrefer(1);
    }

    fn unrefer(&mut self, references: usize) {
        self.references -= references;
        if self.references == 0 {
            self.shared = 0;
        }
    }

    /// Appends a unit's part of a shared scan, if there is room.
    pub(crate) fn refer(&mut self, unit: usize, place: usize, (first, last): (u64, u64)) -> Result<(), Full> {
        let at = self.references_at(unit) + self.lanes[unit].references;
        if self.lanes[unit].references + REFERENCE_WORDS > self.references_max {
            return Err(Full);
        }
        let words = &mut self.memory.words_mut::<u64>()[at..at + REFERENCE_WORDS];
        words.copy_from_slice(&[place as u64, first, last]);
        self.lanes[unit].references += REFERENCE_WORDS;
        self.lanes[unit].commands += 1;
        self.references += 1;
        Ok(())
    }

    /// Hands what waits for a unit to `send`, in appends of at most `words_max` words and of whole commands: how many
    /// words, and what writes them. Gives how many commands it was.
    pub(crate) fn take(
        &mut self,
        unit: usize,
        words_max: usize,
        mut send: impl FnMut(usize, &dyn Fn(&[AtomicU64])),
    ) -> usize {
        let Lane { own, references, commands } = self.lanes[unit];
        let taken = references / REFERENCE_WORDS;
        let memory = self.memory.words::<u64>();
        let own = &memory[self.own_at(unit)..][..own];
        let mut rest = own;
        while !rest.is_empty() {
            let len = whole_commands(rest, words_max);
            let (now, later) = rest.split_at(len);
            send(len, &|words| words.iter().zip(now).for_each(|(to, from)| to.store(*from, Ordering::Relaxed)));
            rest = later;
        }
        let references = &memory[self.references_at(unit)..][..references];
        for references in references.chunks(words_max / SENT_SCAN_WORDS * REFERENCE_WORDS) {
            let len = references.len() / REFERENCE_WORDS * SENT_SCAN_WORDS;
            send(len, &|words| write_scans(memory, references, words));
        }
        self.lanes[unit] = Lane::default();
        self.unrefer(taken);
        commands
    }

    /// Forgets what was not sent.
    pub(crate) fn clear(&mut self) {
        self.lanes.fill(Lane::default());
        self.shared = 0;
        self.references = 0;
    }
}

/// Words of the commands at the start of `words` that are `max` words at most together; at least one command.
fn whole_commands(words: &[u64], max: usize) -> usize {
    if words.len() <= max {
        return words.len();
    }
    let mut end = 0;
    loop {
        let next = end + HEAD_WORDS + words[end] as u32 as usize;
        if next > max {
            assert!(end > 0, "a command fits an incoming buffer");
            return end;
        }
        end = next;
    }
}

fn write_scans(memory: &[u64], references: &[u64], words: &[AtomicU64]) {
    for (reference, words) in references.chunks(REFERENCE_WORDS).zip(words.chunks(SENT_SCAN_WORDS)) {
        let [place, first, last] = reference else { unreachable!("references have three words") };
        let shared = &memory[*place as usize..][..SHARED_COMMAND_WORDS];
        let data = [*first, *last, shared[HEAD_WORDS]];
        for (to, from) in words.iter().zip(shared[..HEAD_WORDS].iter().chain(&data)) {
            to.store(*from, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ObjectId;
    use crate::routing::command::{Head, ReadKind};

    fn head(kind: ReadKind, tag: u64) -> Head {
        Head { kind, object: ObjectId(3), request: 4, table: 5, tag }
    }

    /// What a unit gets: heads with their data, and the words of each append.
    fn taken(outgoing: &mut Outgoing, unit: usize, max: usize) -> (Vec<(Head, Vec<u64>)>, Vec<usize>) {
        let mut commands = Vec::new();
        let mut appends = Vec::new();
        let count = outgoing.take(unit, max, |len, write| {
            let words: Vec<AtomicU64> = (0..len).map(|_| AtomicU64::new(u64::MAX)).collect();
            write(&words);
            appends.push(len);
            let mut at = 0;
            while at < len {
                let (head, count) = Head::read(&words[at..]);
                let data = words[at + HEAD_WORDS..][..count].iter().map(|word| word.load(Ordering::Relaxed));
                commands.push((head, data.collect()));
                at += HEAD_WORDS + count;
            }
            assert_eq!(at, len, "appends are of whole commands");
        });
        assert_eq!(count, commands.len());
        (commands, appends)
    }

    #[test]
    fn each_unit_gets_its_commands_in_order_and_its_parts_of_shared_scans() {
        let mut outgoing = Outgoing::new(3, None, &Allocator::unplaced()).unwrap();
        for tag in 0..10 {
            let keys: Vec<u64> = (0..tag).collect();
            let head = head(ReadKind::LookUp, tag).words(keys.len());
            outgoing.put(tag as usize % 2, head, &keys).unwrap();
        }
        let scan = head(ReadKind::Scan, 77);
        let place = outgoing.share(scan.words(SCAN_WORDS), 1000).unwrap();
        outgoing.refer(1, place, (0, 9)).unwrap();
        outgoing.refer(2, place, (10, 19)).unwrap();
        outgoing.shared();
        assert_eq!([0, 1, 2].map(|unit| outgoing.commands(unit)), [5, 6, 1]);
        let even: Vec<(Head, Vec<u64>)> =
            (0..10).step_by(2).map(|tag| (head(ReadKind::LookUp, tag), (0..tag).collect())).collect();
        // 4 to 12 words each, in appends of at most 20.
        let (commands, appends) = taken(&mut outgoing, 0, 20);
        assert_eq!((commands, appends), (even, vec![4 + 6 + 8, 10, 12]));
        let (commands, _) = taken(&mut outgoing, 1, 1000);
        assert_eq!(commands.len(), 6);
        assert_eq!(commands[5], (scan, vec![0, 9, 1000]));
        assert!(outgoing.shared > 0, "another unit's reference names it still");
        assert_eq!(taken(&mut outgoing, 2, 1000).0, [(scan, vec![10, 19, 1000])]);
        assert_eq!((outgoing.shared, outgoing.references), (0, 0));
        assert_eq!(taken(&mut outgoing, 2, 1000), (vec![], vec![]));
    }

    #[test]
    fn buffers_have_their_bounds_whatever_the_number_of_units() {
        for units in [1, 2, 64, 512, UNITS_MAX] {
            let mut outgoing = Outgoing::new(units, None, &Allocator::unplaced()).unwrap();
            assert_eq!(outgoing.memory.len(), SENDER_WORDS * 8);
            let head = head(ReadKind::LookUp, 0).words(1);
            let scan = self::head(ReadKind::Scan, 0).words(SCAN_WORDS);
            let mut commands = 0;
            while outgoing.put(units - 1, head, &[9]).is_ok() {
                commands += 1;
            }
            assert_eq!(commands, OWN_WORDS / units / 5);
            let place = outgoing.share(scan, 1).unwrap();
            let mut references = 0;
            while outgoing.refer(units - 1, place, (references, references)).is_ok() {
                references += 1;
            }
            assert_eq!(references as usize, REFERENCES_WORDS / units / 3);
            while outgoing.share(scan, 1).is_ok() {}
            let (sent, _) = taken(&mut outgoing, units - 1, 16_384);
            assert_eq!(sent.len(), commands + references as usize);
            assert_eq!(sent.last().unwrap().1, [references - 1, references - 1, 1]);
            outgoing.put(0, head, &[9]).unwrap();
            outgoing.clear();
            assert_eq!(outgoing.commands(0), 0);
        }
    }
}
