//! Commands that read, executed together: all look-ups of one object that a unit has taken are one batch, and its scans
//! share passes where their ranges meet and they see the same.
//!
//! Nothing is allocated per command: what is made here is kept for the next buffer.
//!
//! Source: Kissinger et al., ADMS 2014, section 3.1 (command grouping).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::scans::{PassRoom, Scan, ScanPass, Scanned};
use super::{AtomicU64, Ordering, Partition, Requests, Sent, Unit, UnitState};
use crate::read::{Part, ReadRequest};
use crate::request::{ObjectId, text_of};
use crate::routing::command::{HEAD_WORDS, Head, ReadKind};

/// What was taken of commands that read, and room for what they find.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// The objects of commands, and where each begins.
    commands: Vec<(ObjectId, usize)>,
    /// Who sent them, with commands of theirs that are done with and not told yet.
    askers: Vec<Asker>,
    keys: Vec<u64>,
    /// The asker of each key.
    asker_of: Vec<u32>,
    values: Vec<Option<u64>>,
    pieces: Vec<Piece>,
    scans: Vec<AskedScan>,
    /// The scans of a pass as they are told to it.
    alike: Vec<Scan>,
    /// What a pass finds.
    room: PassRoom,
    /// Which of it is of which scan.
    scanned: Vec<Scanned>,
    /// Of a leaf.
    pairs: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Asker {
    number: u32,
    request: Arc<ReadRequest>,
    answered: u64,
}

/// A look-up of a batch.
#[derive(Debug)]
struct Piece {
    asker: usize,
    tag: u64,
    /// Its keys in the batch.
    from: usize,
    to: usize,
}

/// A scan, of whom.
#[derive(Debug)]
struct AskedScan {
    asker: usize,
    tag: u64,
    scan: Scan,
}

impl Reads {
    pub(super) fn begin(&mut self) {
        self.commands.clear();
    }

    pub(super) fn add(&mut self, object: ObjectId, at: usize) {
        self.commands.push((object, at));
    }

    /// The asker with a request's number; commands of one follow each other as a rule.
    fn asker(&mut self, number: u32, requests: &dyn Requests) -> usize {
        if let Some(known) = self.askers.iter().rposition(|asker| asker.number == number) {
            return known;
        }
        let Sent::Read(request) = requests.sent(number) else { panic!("a read was sent by a read") };
        self.askers.push(Asker { number, request, answered: 0 });
        self.askers.len() - 1
    }
}

impl Unit {
    /// Executes the reads of what was taken.
    pub(super) fn execute_reads(&self, state: &mut UnitState, words: &[AtomicU64], requests: &dyn Requests) {
        if state.reads.commands.is_empty() {
            return;
        }
        let mut reads = std::mem::take(&mut state.reads);
        let mut commands = std::mem::take(&mut reads.commands);
        commands.sort_unstable();
        for of_object in commands.chunk_by(|one, other| one.0 == other.0) {
            let partition = state.partitions.get(of_object[0].0.0 as usize).and_then(Option::as_ref);
            self.gather(partition, of_object, words, &mut reads, requests);
            if let Some(partition) = partition {
                self.look_up(partition, &mut reads);
                self.scan_all(partition, &mut reads);
            }
        }
        self.commands.fetch_add(commands.len() as u64, Ordering::Relaxed);
        for asker in reads.askers.drain(..) {
            asker.request.answer(asker.answered);
        }
        reads.commands = commands;
        state.reads = reads;
    }

    /// Gathers an object's look-ups and scans, and sends back what may be another unit's.
    fn gather(
        &self,
        partition: Option<&Partition>,
        commands: &[(ObjectId, usize)],
        words: &[AtomicU64],
        reads: &mut Reads,
        requests: &dyn Requests,
    ) {
        reads.keys.clear();
        reads.asker_of.clear();
        reads.pieces.clear();
        reads.scans.clear();
        for (_, at) in commands {
            let (head, len) = Head::read(&words[*at..]);
            let data = &words[at + HEAD_WORDS..at + HEAD_WORDS + len];
            let data = data.iter().map(|word| word.load(Ordering::Relaxed));
            let number = reads.asker(head.request, requests);
            let asker = &mut reads.askers[number];
            asker.answered += 1;
            let Some(partition) = partition.filter(|_| !asker.request.has_failed()) else { continue };
            if head.table < partition.lost_at && self.sends_back() {
                asker.request.moved(head.words(len).into_iter().chain(data));
                continue;
            }
            match head.kind {
                ReadKind::Nothing => {}
                ReadKind::LookUp => {
                    self.note_look_up(&asker.request, head.tag, data.clone());
                    let from = reads.keys.len();
                    reads.keys.extend(data);
                    reads.asker_of.resize(reads.keys.len(), number as u32);
                    reads.pieces.push(Piece { asker: number, tag: head.tag, from, to: reads.keys.len() });
                }
                ReadKind::Scan => {
                    let mut data = data;
                    let mut next = || data.next().expect("a scan has three words of data");
                    let scan = Scan { first: next(), last: next(), limit: next() as usize };
                    self.note_scan(scan);
                    reads.scans.push(AskedScan { asker: number, tag: head.tag, scan });
                }
            }
        }
    }

    /// Looks all gathered keys up at once, each as its own sender sees it.
    fn look_up(&self, partition: &Partition, reads: &mut Reads) {
        let Reads { keys, asker_of, values, pieces, askers, .. } = reads;
        if keys.is_empty() {
            return;
        }
        values.clear();
        values.resize(keys.len(), None);
        let tree = partition.owner.tree();
        let watch = partition.monitor.watch(keys);
        let pin_of = |place: usize| askers[asker_of[place] as usize].request.pin();
        let run =
            AssertUnwindSafe(|| tree.get_many_by(tree.root(), keys, pin_of, |place, value| values[place] = value));
        let result = catch_unwind(run);
        drop(watch);
        if let Err(panic) = result {
            let text = text_of(&*panic);
            pieces.iter().for_each(|piece| askers[piece.asker].request.fail(text.clone()));
            return;
        }
        self.keys.fetch_add(keys.len() as u64, Ordering::Relaxed);
        for Piece { asker, tag, from, to } in pieces {
            let request = &askers[*asker].request;
            request.tell(|callback| callback.values(*tag, &keys[*from..*to], &values[*from..*to]));
        }
    }

    /// Executes all gathered scans, those together that see the same.
    fn scan_all(&self, partition: &Partition, reads: &mut Reads) {
        let Reads { scans, alike, room, scanned, pairs, askers, .. } = reads;
        // A callback that has panicked is told no more.
        scans.retain(|scan| !askers[scan.asker].request.has_failed());
        let seen_by = |scan: &AskedScan| askers[scan.asker].request.pin().seen();
        scans.sort_unstable_by_key(|scan| (seen_by(scan), scan.scan));
        for scans in scans.chunk_by(|one, other| seen_by(one) == seen_by(other)) {
            alike.clear();
            alike.extend(scans.iter().map(|scan| scan.scan));
            let mut done = 0;
            while done < scans.len() {
                let request = &askers[scans[done].asker].request;
                let mut pass = ScanPass::new(&alike[done..], room);
                let ((first, last), count) = (pass.keys(), pass.scans());
                // A pass is an access, however many scans share it.
                let watch = partition.monitor.watch(&[first]);
                let run = AssertUnwindSafe(|| {
                    let tree = partition.owner.tree();
                    tree.range_in(tree.root(), first, last, request.pin(), pairs, |key, value| pass.add(key, value));
                });
                let result = catch_unwind(run);
                drop(watch);
                if let Err(panic) = result {
                    let text = text_of(&*panic);
                    scans[done..done + count].iter().for_each(|scan| askers[scan.asker].request.fail(text.clone()));
                    done += count;
                    continue;
                }
                pass.end(scanned);
                self.keys.fetch_add(room.pairs.len() as u64, Ordering::Relaxed);
                for (AskedScan { asker, tag, scan }, scanned) in scans[done..].iter().zip(&*scanned) {
                    let part = Part { first: scan.first, last: scan.last, rest: scanned.rest };
                    let own = &room.pairs[scanned.pairs.clone()];
                    let request = &askers[*asker].request;
                    if !request.has_failed() {
                        request.tell(|callback| callback.pairs(*tag, part, own));
                    }
                }
                done += scanned.len();
            }
        }
        room.shrink();
    }

    /// Tells a test's journal.
    fn note_look_up(&self, request: &ReadRequest, tag: u64, keys: impl Iterator<Item = u64>) {
        #[cfg(test)]
        self.journal.1.record(|| crate::journal::Event::Executed {
            unit: self.journal.0,
            request: request.id,
            pairs: keys.zip(tag..).collect(),
        });
        #[cfg(not(test))]
        let _ = (request, tag, keys);
    }

    /// Tells a test's journal.
    fn note_scan(&self, scan: Scan) {
        #[cfg(test)]
        self.journal.1.record(|| crate::journal::Event::Scanned {
            unit: self.journal.0,
            first: scan.first,
            last: scan.last,
        });
        #[cfg(not(test))]
        let _ = scan;
    }
}
