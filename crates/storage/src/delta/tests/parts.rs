//! The deltas of several parts against a model: each row with its part, when it came and when it died.

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::segment::SegmentVersion;

/// A row there was.
#[derive(Clone, Debug)]
struct Known {
    row: Row,
    part: usize,
    born: u64,
    died: Option<u64>,
}

/// A table in parts, its deltas, and every row there ever was, by the number that its first column has.
struct Divided {
    parts: usize,
    base: TableVersion,
    deltas: Arc<Deltas>,
    model: BTreeMap<i64, Known>,
    version: u64,
    next: i64,
}

fn part_allocators(_: usize) -> Vec<ColumnAllocator> {
    allocators()
}

fn whole(view: &DeltasView, base: &TableVersion) -> TableVersion {
    view.consolidated(base, &part_allocators, &Allocator::unplaced(), &Serial).unwrap()
}

/// Live rows by part, and where each is.
fn found(view: &DeltasView, base: &TableVersion) -> Vec<(usize, Row, TableRow)> {
    let whole = whole(view, base);
    let mut found = Vec::new();
    let places = view.places(base);
    let mut segment = 0;
    for (part, of) in whole.parts.iter().enumerate() {
        for version in &of.segments {
            let rows = content(version).into_iter().enumerate().filter(|(row, _)| version.is_live(*row));
            found.extend(rows.map(|(row, known)| (part, known, places.of(segment, row as u32).unwrap())));
            segment += 1;
        }
    }
    found
}

impl Divided {
    fn new(random: &mut Random) -> Divided {
        let parts = random.pick(&[1, 2, 3, 5]);
        let mut base = TableVersion::empty(&schema());
        let mut model = BTreeMap::new();
        let mut next = 0;
        for part in 0..random.below(parts + 1) {
            let mut segments = Vec::new();
            for _ in 0..random.below(3) {
                let rows: Vec<Row> = (0..1 + random.below(60)).map(|i| row(next + i as i64, random)).collect();
                next += rows.len() as i64;
                for row in &rows {
                    model.insert(row.0, Known { row: row.clone(), part, born: 0, died: None });
                }
                segments.extend(super::part(&rows).segments);
            }
            base.parts.push(Arc::new(Part { segments }));
        }
        let deltas = Deltas::new(schema(), &Budget::unlimited(), parts, 0);
        Divided { parts, base, deltas, model, version: 0, next }
    }

    fn expected(&self, version: u64) -> Vec<(usize, Row)> {
        let lives = |known: &&Known| known.born <= version && known.died.is_none_or(|died| died > version);
        let mut rows: Vec<_> = self.model.values().filter(lives).map(|known| (known.part, known.row.clone())).collect();
        rows.sort();
        rows
    }

    fn check(&self, view: &DeltasView, version: u64) {
        let places = found(view, &self.base);
        for (_, row, place) in &places {
            assert!(self.deltas.is_live(*place, &self.base, version), "{row:?} at {place:?}");
        }
        let mut rows: Vec<(usize, Row)> = places.into_iter().map(|(part, row, _)| (part, row)).collect();
        rows.sort();
        assert_eq!(rows, self.expected(version), "version {version}");
    }

    /// A statement: some rows of some parts come, others die; now and then it fails.
    fn statement(&mut self, random: &mut Random) {
        let live = found(&self.deltas.view(self.version), &self.base);
        let mut dead: Vec<_> = live.into_iter().filter(|_| random.one_in(20)).collect();
        dead.truncate(random.below(12));
        random.shuffle(&mut dead);
        let mut rows = Vec::new();
        let mut parts: Vec<usize> = (0..self.parts).collect();
        random.shuffle(&mut parts);
        let mut next = self.next;
        for part in parts.into_iter().take(random.below(self.parts + 1)) {
            let new: Vec<Row> = (0..1 + random.below(40)).map(|i| row(next + i as i64, random)).collect();
            next += new.len() as i64;
            rows.push((part, new));
        }
        let batches: Vec<(usize, RecordBatch)> = rows.iter().map(|(part, rows)| (*part, batch(rows))).collect();
        let batches = || batches.iter().map(|(part, rows)| (*part, rows));
        let places: Vec<TableRow> = dead.iter().map(|(.., place)| *place).collect();
        let write = self.deltas.write(batches(), &places, &self.base).unwrap().expect("nobody else writes");
        let first_rows: Vec<u32> = write.first_rows().collect();
        if !dead.is_empty() {
            let again = self.deltas.write([], &places[..1], &self.base).unwrap();
            assert!(again.is_none(), "a row dies once");
        }
        self.next = next;
        if random.one_in(6) {
            return;
        }
        self.version += 1;
        write.commit(self.version);
        for ((part, rows), first) in rows.into_iter().zip(first_rows) {
            let numbers: Vec<u32> = (first..first + rows.len() as u32).rev().collect();
            let taken: Vec<ArrayRef> = (0..3).map(|column| self.deltas.take(column, &numbers)).collect();
            assert!(rows_of(&taken).iter().eq(rows.iter().rev()));
            for row in rows {
                self.model.insert(row.0, Known { row, part, born: self.version, died: None });
            }
        }
        for (_, row, _) in dead {
            self.model.get_mut(&row.0).unwrap().died = Some(self.version);
        }
    }

    /// A merge of what there is, with statements that come while it is under way.
    fn merge(&mut self, random: &mut Random) {
        let view = self.deltas.view(self.version);
        let folded = self.version;
        let whole = whole(&view, &self.base);
        let mut version = whole.clone();
        let mut steps = Vec::new();
        for part in 0..whole.parts.len() {
            let of_base = self.base.parts.get(part).map_or(0, |part| part.segments.len());
            let segments = of_base..whole.parts[part].segments.len();
            if !segments.is_empty() {
                let compacted = Compacted::of(&version, part, segments, &allocators(), &Serial).unwrap();
                let next = compacted.within(&version, &Allocator::unplaced()).unwrap().unwrap();
                steps.push((compacted, std::mem::replace(&mut version, next)));
            }
        }
        let mut caught = DeltasCaught::default();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for _ in 0..random.below(4) {
            self.statement(random);
            if random.one_in(2) {
                caught = self.caught(&view, &caught, &mut numbers);
            }
        }
        self.caught(&view, &caught, &mut numbers);
        let live: BTreeMap<i64, u32> = {
            let of_log =
                found(&self.deltas.view(self.version), &self.base).into_iter().filter_map(|(_, row, place)| {
                    let TableRow::Delta { row: number } = place else { return None };
                    (self.model[&row.0].born > folded).then_some((row.0, number))
                });
            of_log.collect()
        };
        let mut rest = self.deltas.since(&view, &self.base).unwrap().unwrap();
        for (compacted, before) in &steps {
            rest = rest.moved(compacted, before).unwrap();
        }
        self.base = version;
        self.deltas = rest;
        // Rows that came meanwhile have the numbers that were told.
        assert_eq!(numbers.len(), live.len());
        for (id, old) in live {
            let ids = self.deltas.take(0, &[numbers[&old]]);
            assert_eq!(ids.as_primitive::<Int64Type>().value(0), id);
        }
    }

    fn caught(&self, view: &DeltasView, known: &DeltasCaught, numbers: &mut HashMap<u32, u32>) -> DeltasCaught {
        let caught = self.deltas.caught(view, known, self.version);
        numbers.extend(caught.added.iter().copied());
        numbers.retain(|row, _| !caught.died.contains(row));
        caught
    }
}

#[test]
fn parts_are_written_read_and_merged_as_one_table() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut table = Divided::new(&mut random);
        let mut views: Vec<(DeltasView, u64)> = Vec::new();
        for _ in 0..40 {
            match random.below(8) {
                0 => {
                    table.merge(&mut random);
                    // Older views are of what was before.
                    views.clear();
                }
                1 => views.push((table.deltas.view(table.version), table.version)),
                _ => table.statement(&mut random),
            }
            table.check(&table.deltas.view(table.version), table.version);
            if let Some((view, version)) = random.choose(&views) {
                table.check(&view, version);
            }
        }
        assert_eq!(table.deltas.is_empty(), table.deltas.entries() == 0);
        let live = whole(&table.deltas.view(table.version), &table.base).rows();
        assert_eq!(table.base.rows() + table.deltas.live_rows() - table.deltas.dead_base_rows(), live);
    }
}

#[test]
fn what_is_not_there_is_told() {
    let base = TableVersion::empty(&schema());
    let deltas = Deltas::new(schema(), &Budget::unlimited(), 3, 0);
    for dead in [TableRow::Base { segment: 0, row: 0 }, of_delta(0), of_delta(3 << 30)] {
        assert!(matches!(deltas.write([], &[dead], &base), Err(StoreError::NotThere { .. })), "{dead:?}");
    }
    let view = deltas.view(u64::MAX);
    assert!(matches!(view.places(&base).of(0, 0), Err(StoreError::NotThere { .. })));
    assert!(!deltas.is_live(TableRow::Base { segment: 7, row: 0 }, &base, 1));
    assert!(deltas.is_empty() && (0..3).all(|part| deltas.of_part(part).is_none()));
    let one = batch(&[row(1, &mut Random::new(1))]);
    drop(deltas.write([(2, &one)], &[], &base).unwrap());
    assert!(deltas.is_empty() && deltas.of_part(1).is_none());
    assert_eq!(deltas.of_part(2).map(|of| (of.live_rows, of.dead_base_rows)), Some((0, 0)));
    let segments: Vec<SegmentVersion> = whole(&deltas.view(1), &base).segments().cloned().collect();
    assert!(segments.iter().all(|version| version.live_rows() == 0));
}
