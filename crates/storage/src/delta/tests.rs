//! Deltas against a model that keeps every row in a vector, with when it came and when it died.

mod holds;
mod merging;
mod parts;
mod threads;

use arrow::array::{Array, AsArray, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat;
use arrow::datatypes::{Decimal128Type, Int64Type};
use numa::{Allocator, Policy};

use super::dead::DEAD_ROW_BYTES;
use super::*;
use crate::segment::{Part, Segment};
use crate::surface_schema;
use crate::tests::data::{Random, SHAPES, array, opaque_types, ordered_types};
use crate::tests::{Cancelling, Threads, assert_same, batch_of, schema_of};
use crate::{ColumnAllocator, Compacted, Encoding, Parallel, RowsToDelete, Serial, Stager, build_part};

type Row = (i64, Option<String>, Option<i128>);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(20, 2), true),
    ]))
}

/// A row that tells which it is; names are short, long or NULL.
fn row(id: i64, random: &mut Random) -> Row {
    let name = match random.below(4) {
        0 => None,
        1 => Some(format!("n{}", id % 7)),
        _ => Some(format!("a name that is too long for a view, {id}")),
    };
    (id, name, (!random.one_in(5)).then(|| i128::from(random.between(-1_000_000_000_000, 1_000_000_000_000))))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let names = StringViewArray::from_iter(rows.iter().map(|row| row.1.as_deref()));
    let prices = Decimal128Array::from_iter(rows.iter().map(|row| row.2));
    let prices = prices.with_precision_and_scale(20, 2).unwrap();
    let schema = Arc::new(surface_schema(&schema()));
    batch_of(&schema, vec![Arc::new(ids), Arc::new(names), Arc::new(prices)], rows.len())
}

fn rows_of(columns: &[ArrayRef]) -> Vec<Row> {
    let ids = columns[0].as_primitive::<Int64Type>();
    let names = columns[1].as_string_view();
    let prices = columns[2].as_primitive::<Decimal128Type>();
    let name = |i| names.is_valid(i).then(|| names.value(i).to_string());
    (0..ids.len()).map(|i| (ids.value(i), name(i), prices.is_valid(i).then(|| prices.value(i)))).collect()
}

fn allocators() -> Vec<ColumnAllocator> {
    vec![ColumnAllocator::unplaced(); 3]
}

fn part(rows: &[Row]) -> Part {
    let mut stager = Stager::new(schema(), Allocator::unplaced());
    stager.append(&batch(rows)).unwrap();
    build_part(&schema(), vec![stager.finish().unwrap()], &allocators(), &Serial).unwrap()
}

fn consolidated(view: &DeltaView, base: &TableVersion, parallel: &dyn Parallel) -> TableVersion {
    view.consolidated(base, &allocators(), &Allocator::unplaced(), parallel).unwrap()
}

/// What a reader of all that is committed sees.
fn newest(delta: &Arc<Delta>) -> DeltaView {
    delta.view(u64::MAX)
}

/// A statement that runs alone.
fn add(delta: &Arc<Delta>, rows: &RecordBatch, dead: &[TableRow]) {
    let version = delta.newest_seen(u64::MAX) + 1;
    delta.write(rows, dead).unwrap().expect("nobody else writes").commit(version);
}

fn of_delta(row: u32) -> TableRow {
    TableRow::Delta { row }
}

/// Bytes that the stamps of so many rows take: blocks of 1024 and twice as many each time, 16 bytes a row.
fn stamp_bytes(rows: usize) -> u64 {
    let room = (0..).take_while(|blocks| (1024 << blocks) - 1024 < rows as u64);
    room.map(|block| (1024 << block) * 16).sum()
}

/// The rows of a segment, dead ones too.
fn content(version: &SegmentVersion) -> Vec<Row> {
    let rows = version.segment.rows();
    rows_of(&version.segment.columns().map(|column| column.slice(0..rows)).collect::<Vec<ArrayRef>>())
}

/// What a view finds: rows and where they are.
fn places(view: &DeltaView, base: &TableVersion) -> Vec<(Row, TableRow)> {
    let mut places = Vec::new();
    for (segment, version) in consolidated(view, base, &Serial).segments().enumerate() {
        let rows = content(version).into_iter().enumerate().filter(|(row, _)| version.is_live(*row));
        places.extend(rows.map(|(row, known)| (known, view.place_of(base, segment, row as u32).unwrap())));
    }
    places
}

/// Which rows live, by segment.
fn liveness(table: &TableVersion) -> Vec<Vec<bool>> {
    table.segments().map(|version| (0..version.segment.rows()).map(|row| version.is_live(row)).collect()).collect()
}

/// When a row came to be and when it died.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    born: Option<u64>,
    died: Option<u64>,
    is_claimed: bool,
}

impl Life {
    /// Of a row that was there before the delta.
    const BEFORE: Life = Life { born: Some(0), died: None, is_claimed: false };

    fn lives(&self, version: u64) -> bool {
        self.born.is_some_and(|born| born <= version) && self.died.is_none_or(|died| died > version)
    }

    /// Whether a statement may let it die.
    fn is_free(&self) -> bool {
        self.born.is_some() && self.died.is_none() && !self.is_claimed
    }
}

#[derive(Debug)]
struct Known {
    place: TableRow,
    row: Row,
    life: Life,
}

/// Every row there ever was, in order, and the versions that were committed.
#[derive(Default)]
struct Model {
    base: Vec<Known>,
    log: Vec<Known>,
    versions: Vec<u64>,
}

impl Model {
    /// The rows of the base and the first of the log.
    fn rows(&self, of_log: usize) -> impl Iterator<Item = &Known> {
        self.base.iter().chain(&self.log[..of_log])
    }

    fn all(&self) -> impl Iterator<Item = &Known> {
        self.rows(self.log.len())
    }

    fn life(&mut self, place: TableRow) -> &mut Life {
        match place {
            TableRow::Delta { row } => &mut self.log[row as usize].life,
            base => &mut self.base.iter_mut().find(|known| known.place == base).unwrap().life,
        }
    }

    /// Rows that died in the base after it was made, or are about to.
    fn dead_base(&self, is_it: impl Fn(&Life) -> bool) -> usize {
        self.base.iter().filter(|known| is_it(&known.life)).count()
    }
}

/// A base of up to three segments in up to two parts, some rows of it deleted.
fn base(random: &mut Random) -> (TableVersion, Model) {
    let mut table = TableVersion::empty(&schema());
    let mut model = Model::default();
    let segments = random.below(4);
    for segment in 0..segments {
        let rows: Vec<Row> = (0..1 + random.below(150)).map(|i| row(-((segment * 1000 + i) as i64), random)).collect();
        match random.below(2) {
            0 => table = table.with_appended(part(&rows)),
            _ => table = table.with_parts(table.parts.iter().cloned().chain([Arc::new(part(&rows))]).collect()),
        }
        let place = |row: usize| TableRow::Base { segment: segment as u32, row: row as u32 };
        let known = |(i, row)| Known { place: place(i), row, life: Life::BEFORE };
        model.base.extend(rows.into_iter().enumerate().map(known));
    }
    let parts = table.parts.iter().enumerate();
    let places: Vec<_> = parts.flat_map(|(p, part)| (0..part.segments.len()).map(move |s| (p, s))).collect();
    for (place, (part, segment)) in places.into_iter().enumerate() {
        let rows = 0..table.segments().nth(place).unwrap().segment.rows() as u32;
        let rows: Vec<u32> = rows.filter(|_| random.one_in(9)).collect();
        rows.iter().for_each(|&row| model.life(TableRow::Base { segment: place as u32, row }).died = Some(0));
        table = table.with_deleted(&[RowsToDelete { part, segment, rows }], &Allocator::unplaced()).unwrap();
    }
    (table, model)
}

/// A statement that has not ended.
struct Open {
    write: DeltaWrite,
    /// Its rows.
    rows: Vec<TableRow>,
    dead: Vec<TableRow>,
}

/// A table that several statements write at a time, and what is known of it.
struct Written {
    base: TableVersion,
    delta: Arc<Delta>,
    budget: Arc<Budget>,
    model: Model,
    open: Vec<Open>,
    /// The last that was committed.
    version: u64,
}

/// What a reader has.
struct Reader {
    view: DeltaView,
    version: u64,
    /// Rows that the log had when the view was taken.
    rows: usize,
}

impl Written {
    fn new(base: TableVersion, model: Model) -> Written {
        let budget = Budget::new("test", u64::MAX);
        let delta = Delta::new(schema(), &budget);
        Written { base, delta, budget, model, open: Vec::new(), version: 0 }
    }

    /// A statement begins, or ends, or fails.
    fn step(&mut self, random: &mut Random) {
        if self.open.is_empty() || (self.open.len() < 5 && random.one_in(2)) {
            return self.begin(random);
        }
        let place = random.below(self.open.len());
        self.end(place, !random.one_in(4), random);
    }

    fn begin(&mut self, random: &mut Random) {
        let free: Vec<TableRow> = self.model.all().filter(|known| known.life.is_free()).map(|row| row.place).collect();
        let most = random.pick(&[0, 1, 2, 50]);
        let deaths = random.below(most + 1).min(free.len());
        let mut dead: Vec<TableRow> = (0..deaths).map(|_| random.pick(&free)).collect();
        if random.one_in(4) {
            // Any row, but none that the base has as deleted: that is for the caller to know.
            let any: Vec<TableRow> =
                self.model.all().filter(|known| known.life.died != Some(0)).map(|row| row.place).collect();
            dead.extend(random.choose(&any));
            random.shuffle(&mut dead);
        }
        let can_have: Vec<TableRow> = dead.iter().copied().filter(|place| self.model.life(*place).is_free()).collect();
        let first = self.model.log.len();
        let most = random.pick(&[0, 1, 1, 2, 50, 50, 900]);
        let rows: Vec<Row> = (0..random.below(most + 1)).map(|i| row((first + i) as i64, random)).collect();
        let used = self.budget.used_bytes();
        let Some(write) = self.delta.write(&batch(&rows), &dead).unwrap() else {
            assert_ne!(can_have, dead, "nothing stands against it");
            assert_eq!((self.delta.rows(), self.budget.used_bytes()), (first, used));
            assert!(self.delta.write(&batch(&[]), &can_have).unwrap().is_some(), "a claim stays of {dead:?}");
            return;
        };
        assert_eq!(can_have, dead, "rows that are dead, claimed or not there yet");
        assert!(rows.is_empty() || write.first_row() as usize == first);
        dead.iter().for_each(|place| self.model.life(*place).is_claimed = true);
        let known = |(i, row)| Known { place: of_delta((first + i) as u32), row, life: Life::default() };
        self.model.log.extend(rows.into_iter().enumerate().map(known));
        let rows = self.model.log[first..].iter().map(|known| known.place).collect();
        self.open.push(Open { write, rows, dead });
    }

    fn end(&mut self, place: usize, is_committed: bool, random: &mut Random) {
        let Open { write, rows, dead } = self.open.swap_remove(place);
        dead.iter().for_each(|place| self.model.life(*place).is_claimed = false);
        if !is_committed {
            return drop(write);
        }
        self.version += random.pick(&[1, 1, 2, 7]);
        write.commit(self.version);
        self.model.versions.push(self.version);
        rows.iter().for_each(|place| self.model.life(*place).born = Some(self.version));
        dead.iter().for_each(|place| self.model.life(*place).died = Some(self.version));
    }

    fn reader(&self, version: u64) -> Reader {
        Reader { view: self.delta.view(version), version, rows: self.model.log.len() }
    }

    /// Where a table, and what is said of each row, is not as the model has it: none for what is right.
    fn fault(&self, reader: &Reader, table: &TableVersion, is_live: &dyn Fn(TableRow) -> bool) -> Option<String> {
        let mut expected = self.model.rows(reader.rows);
        for (segment, version) in table.segments().enumerate() {
            for (row, content) in content(version).iter().enumerate() {
                let place = reader.view.place_of(&self.base, segment, row as u32);
                let Some(known) = expected.next() else { return Some(format!("{content:?} at {place:?}")) };
                let lives = known.life.lives(reader.version);
                let is_so = place.is_ok_and(|place| place == known.place) && *content == known.row;
                if !is_so || version.is_live(row) != lives || is_live(known.place) != lives {
                    return Some(format!("{known:?} at {segment} {row} as of {}", reader.version));
                }
            }
        }
        expected.next().map(|known| format!("{known:?} is nowhere"))
    }

    fn is_live(&self, place: TableRow, version: u64) -> bool {
        self.delta.is_live(place, &self.base, version)
    }

    fn check_reader(&self, reader: &Reader, random: &mut Random) {
        let Reader { view, version, rows } = reader;
        let seen = self.model.versions.iter().filter(|known| *known <= version).count();
        let last = seen.checked_sub(1).map_or(0, |last| self.model.versions[last]);
        assert_eq!((view.version(), self.delta.newest_seen(*version)), (last, last));
        let parallel: &dyn Parallel = if random.one_in(2) { &Threads } else { &Serial };
        let table = consolidated(view, &self.base, parallel);
        let live = self.model.rows(*rows).filter(|known| known.life.lives(*version)).count();
        assert_eq!((table.rows(), table.version), (live, self.base.version + seen as u64));
        let parts = self.base.parts.len().max(usize::from(*rows > 0));
        assert_eq!((&table.schema, table.parts.len()), (&self.base.schema, parts));
        assert_eq!(self.fault(reader, &table, &|place| self.is_live(place, *version)), None);

        let segments = table.segments().count();
        for (segment, of) in table.segments().enumerate() {
            let beyond = view.place_of(&self.base, segment, of.segment.rows() as u32);
            assert!(matches!(beyond, Err(StoreError::NotThere { what: "row", .. })));
        }
        let error = view.place_of(&self.base, segments, 0).unwrap_err();
        assert!(matches!(error, StoreError::NotThere { what: "segment", count, .. } if count == segments), "{error}");
        assert!(!self.is_live(of_delta(self.model.log.len() as u32), *version));
        assert!(!self.is_live(TableRow::Base { segment: self.base.segments().count() as u32, row: 0 }, *version));
    }

    fn check(&self, random: &mut Random) {
        let (delta, model) = (&self.delta, &self.model);
        assert_eq!((delta.rows(), delta.entries()), (model.log.len(), model.versions.len()));
        assert_eq!(delta.is_empty(), model.versions.is_empty());
        assert_eq!(delta.live_rows(), model.log.iter().filter(|known| known.life.lives(self.version)).count());
        assert_eq!(delta.dead_base_rows(), model.dead_base(|life| life.died.is_some_and(|died| died > 0)));
        let live = model.all().filter(|known| known.life.lives(self.version)).count();
        assert_eq!(self.base.rows() - delta.dead_base_rows() + delta.live_rows(), live);
        self.check_reader(&self.reader(self.version), random);
        self.check_reader(&self.reader(random.below_u64(self.version + 1)), random);
        // As `view` does, so does `is_live` take the greatest number for whatever is the newest version.
        let is_same = |known: &Known| self.is_live(known.place, u64::MAX) == known.life.lives(self.version);
        assert!(model.all().all(is_same), "claimed rows live");

        let count = if model.log.is_empty() { 0 } else { random.below(60) };
        let rows: Vec<u32> = (0..count).map(|_| random.below(model.log.len()) as u32).collect();
        let columns: Vec<ArrayRef> = (0..3).map(|column| delta.take(column, &rows)).collect();
        let expected: Vec<Row> = rows.iter().map(|&row| model.log[row as usize].row.clone()).collect();
        assert_eq!(rows_of(&columns), expected, "{rows:?}");
    }

    /// What the delta holds while nobody has a view of it.
    fn bytes(&self) -> u64 {
        let of_open = self.open.iter().flat_map(|open| &open.write.charge).map(|charge| charge.bytes());
        let dead = self.model.dead_base(|life| life.died.is_some_and(|died| died > 0));
        assert!(self.delta.bytes() >= stamp_bytes(self.model.log.len()) + (dead * DEAD_ROW_BYTES) as u64);
        self.delta.bytes() + of_open.sum::<u64>()
    }
}

#[test]
fn readers_find_the_rows_of_the_model_and_views_never_change() {
    let (mut longest, mut most_open) = (0, 0);
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let (base, model) = base(&mut random);
        let mut table = Written::new(base, model);
        table.check(&mut random);
        let (mut kept, mut held) = (Vec::new(), Vec::new());
        for _ in 0..random.below(450) {
            table.step(&mut random);
            most_open = most_open.max(table.open.len());
            match random.below(24) {
                0 => table.check(&mut random),
                1 => kept.push(table.reader(table.version)),
                2 => kept.push(table.reader(random.below_u64(table.version + 1))),
                // A reader that stays: what is marked later is not to be seen.
                3 | 4 => {
                    let whole = consolidated(&table.reader(table.version).view, &table.base, &Serial);
                    let seen = liveness(&whole);
                    assert_eq!(seen.iter().flatten().filter(|live| **live).count(), whole.rows());
                    held.push((whole, seen));
                }
                5 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                6 if !kept.is_empty() => table.check_reader(&kept[random.below(kept.len())], &mut random),
                _ => {}
            }
        }
        table.check(&mut random);
        longest = longest.max(newest(&table.delta).log.segment_rows(0).map_or(0, |rows| rows.len()));
        held.iter().for_each(|(table, seen)| assert_eq!(&liveness(table), seen));
        for reader in kept.iter().chain(&kept) {
            table.check_reader(reader, &mut random);
        }
        assert!(table.budget.used_bytes() >= table.bytes());
        drop((kept, held));
        assert_eq!(table.budget.used_bytes(), table.bytes(), "seed {seed}");
        // Statements that run hold the delta.
        let Written { budget, open, delta, .. } = table;
        drop(delta);
        assert!(open.is_empty() || budget.used_bytes() > 0);
        drop(open);
        assert_eq!(budget.used_bytes(), 0, "seed {seed}");
    }
    assert!(longest > 2 * CHUNK_ROWS, "no run of chunks: {longest} rows");
    assert!(most_open > 3, "{most_open} statements at a time");
}

/// That the check above notices readers that look at the stamps as they should not, and tables of another version.
#[test]
fn readers_at_fault_are_noticed() {
    let mut random = Random::new(3);
    let bases = std::iter::repeat_with(|| base(&mut random));
    let (base, model) = bases.into_iter().find(|(base, _)| base.rows() > 200).unwrap();
    let mut table = Written::new(base, model);
    while table.model.log.len() < 4000 || table.open.len() < 4 {
        table.step(&mut random);
    }
    let stamps = &table.delta.stamps;
    let middle = table.model.versions[table.model.versions.len() / 2];
    for version in [middle, table.version] {
        let reader = table.reader(version);
        let whole = consolidated(&reader.view, &table.base, &Serial);
        let right = |place: TableRow| table.is_live(place, version);
        assert_eq!(table.fault(&reader, &whole, &right), None);
        let of_log = |is_live: &dyn Fn(u32) -> bool| {
            let is_live = |place: TableRow| match place {
                TableRow::Delta { row } => is_live(row),
                base => right(base),
            };
            table.fault(&reader, &whole, &is_live).is_some()
        };
        assert!(of_log(&|row| stamps.is_born(row, version)), "as if no row had died");
        assert!(of_log(&|row| stamps.died(row).is_none_or(|died| died > version)), "as if all rows had been born");
        let is_known = |known: Option<u64>| known.is_some_and(|version| version > middle);
        let changed = |row: &Known| is_known(row.life.born) || is_known(row.life.died);
        assert!(table.model.log.iter().any(changed));
        assert_eq!(of_log(&|row| stamps.is_seen(row, table.version)), version == middle, "as if nobody had pinned");
        let is_claimed = |row: u32| table.model.log[row as usize].life.is_claimed;
        assert!((0..table.model.log.len() as u32).any(is_claimed));
        assert!(of_log(&|row| stamps.is_seen(row, version) && !is_claimed(row)), "as if claimed rows were dead");
        let of_base = |place: TableRow| match place {
            TableRow::Base { segment, row } => segment_of(&table.base, segment as usize).unwrap().is_live(row as usize),
            of_delta => right(of_delta),
        };
        assert!(table.fault(&reader, &whole, &of_base).is_some(), "as if no row of the base had died");

        let earlier = consolidated(&table.delta.view(middle - 1), &table.base, &Serial);
        assert!(table.fault(&reader, &earlier, &right).is_some(), "a statement is missing");
        let fewer = Reader { rows: reader.rows - 1, view: reader.view.clone(), version };
        assert!(table.fault(&fewer, &whole, &right).is_some(), "a row too many");
        let part = whole.parts.len() - 1;
        let segment = whole.parts[part].segments.len() - 1;
        let place = whole.parts[part].segments[segment].segment.rows() as u32 - 1;
        let last = |rows: &[u32]| RowsToDelete { part, segment, rows: rows.to_vec() };
        let with_last = |rows: &[u32]| whole.with_deleted(&[last(rows)], &Allocator::unplaced()).unwrap();
        let live = (0..=place).rev().find(|row| whole.parts[part].segments[segment].is_live(*row as usize));
        assert_eq!(table.fault(&reader, &with_last(&[]), &right), None);
        assert!(live.is_none_or(|row| table.fault(&reader, &with_last(&[row]), &right).is_some()), "one more is dead");
    }
}

#[test]
fn who_comes_first_lets_a_row_die() {
    let mut random = Random::new(12);
    let budget = Budget::new("test", u64::MAX);
    let rows: Vec<Row> = (0..4).map(|id| row(id, &mut random)).collect();
    let base = TableVersion::empty(&schema()).with_appended(part(&rows));
    let delta = Delta::new(schema(), &budget);
    let none = batch(&[]);
    let first = delta.write(&batch(&rows[..2]), &[]).unwrap().unwrap();
    let used = budget.used_bytes();
    assert!(delta.write(&none, &[of_delta(1)]).unwrap().is_none(), "nobody sees it yet");
    first.commit(5);
    for row in [of_delta(1), TableRow::Base { segment: 0, row: 2 }] {
        let other = if row == of_delta(1) { TableRow::Base { segment: 0, row: 3 } } else { of_delta(0) };
        let write = delta.write(&none, &[row, row]).unwrap().expect("a row may be named twice");
        let wants = |rows: &[TableRow]| delta.write(&none, rows).unwrap();
        assert!(wants(&[row]).is_none() && wants(&[other, row]).is_none() && wants(&[row, other]).is_none());
        // Neither is `other` claimed by who did not get both, nor is the row given back.
        assert!(wants(&[other]).is_some() && wants(&[row]).is_none());
        assert!(delta.is_live(row, &base, 5) && delta.is_live(row, &base, u64::MAX));
        drop(write);
        assert!(wants(&[other, row]).is_some());
        let write = wants(&[row, other]).unwrap();
        let second = delta.write(&batch(&rows[2..3]), &[]).unwrap().unwrap();
        assert!(delta.is_live(row, &base, u64::MAX));
        second.commit(delta.newest_seen(u64::MAX) + 1);
        drop(write);
        let version = delta.newest_seen(u64::MAX) + 3;
        wants(&[row]).unwrap().commit(version);
        assert!(wants(&[row]).is_none() && wants(&[row, other]).is_none() && wants(&[other]).is_some());
        let lives = |version: u64| delta.is_live(row, &base, version);
        assert!(lives(5) && lives(version - 1) && !lives(version) && !lives(u64::MAX));
    }
    assert_eq!((delta.rows(), delta.live_rows(), delta.dead_base_rows(), delta.entries()), (4, 3, 1, 5));
    assert!(budget.used_bytes() > used);
    assert_eq!(budget.used_bytes(), delta.bytes());
    assert!(delta.bytes() > stamp_bytes(4) + DEAD_ROW_BYTES as u64);
}

#[test]
fn what_is_consolidated_is_the_base_of_what_follows() {
    let mut random = Random::new(77);
    let (mut base, mut model) = base(&mut random);
    for _ in 0..5 {
        let mut table = Written::new(base, model);
        for _ in 0..60 {
            table.step(&mut random);
        }
        // Statements that have not ended are lost with their delta.
        table.open.clear();
        base = consolidated(&newest(&table.delta), &table.base, &Serial);
        let mut places = Vec::new();
        for (segment, version) in base.segments().enumerate() {
            let place = |row| TableRow::Base { segment: segment as u32, row };
            places.extend((0..version.segment.rows() as u32).map(place));
        }
        let mut places = places.into_iter();
        let rows = std::mem::take(&mut table.model);
        let known = |Known { row, life, .. }| {
            let died = (!life.lives(table.version)).then_some(0);
            Known { place: places.next().unwrap(), row, life: Life { died, ..Life::BEFORE } }
        };
        model = Model { base: rows.base.into_iter().chain(rows.log).map(known).collect(), ..Model::default() };
        let after = Written::new(base, model);
        after.check(&mut random);
        Written { base, model, .. } = after;
    }
}

#[test]
fn every_type_comes_back() {
    let mut random = Random::new(5);
    for data_type in ordered_types().into_iter().chain(opaque_types()) {
        let t = crate::surface_type(&data_type);
        let delta = Delta::new(schema_of(&data_type), &Budget::unlimited());
        let mut all = Vec::new();
        while delta.rows() < 3 * CHUNK_ROWS {
            let rows = random.pick(&[1, 2, 40, 300]);
            let long = array(&t, random.pick(&SHAPES), rows + random.below(3) * 5000, 5, &mut random);
            let from = random.below(long.len() - rows + 1);
            all.push(long.slice(from, rows));
            let schema = schema_of(&t);
            add(&delta, &batch_of(&schema, vec![long.slice(from, rows)], rows), &[]);
        }
        let parts: Vec<&dyn Array> = all.iter().map(|array| array.as_ref()).collect();
        let all = concat(&parts).unwrap();
        let base = TableVersion::empty(&schema_of(&data_type));
        let allocators = [ColumnAllocator::unplaced()];
        let table = newest(&delta).consolidated(&base, &allocators, &Allocator::unplaced(), &Serial).unwrap();
        let stored: Vec<ArrayRef> = table.segments().map(|s| s.segment.column(0).slice(0..s.segment.rows())).collect();
        assert!((2..=4).contains(&stored.len()), "{} segments", stored.len());
        let stored: Vec<&dyn Array> = stored.iter().map(|array| array.as_ref()).collect();
        // Stored floats have one NaN: compare with what storing the values at once gives.
        let mut stager = Stager::new(schema_of(&data_type), Allocator::unplaced());
        stager.append(&batch_of(&schema_of(&t), vec![all.clone()], all.len())).unwrap();
        let at_once = build_part(&schema_of(&t), vec![stager.finish().unwrap()], &allocators, &Serial).unwrap();
        let at_once = at_once.segments[0].segment.column(0).slice(0..all.len());
        assert_same(&concat(&stored).unwrap(), &at_once, &format!("{t}"));
        let rows: Vec<u32> = (0..500).map(|_| random.below(all.len()) as u32).collect();
        let indices = arrow::array::UInt32Array::from(rows.clone());
        let expected = arrow::compute::take(all.as_ref(), &indices, None).unwrap();
        assert_same(&delta.take(0, &rows), &expected, &format!("{t}"));
        assert_same(&delta.take(0, &rows[..1]), &expected.slice(0, 1), &format!("{t}"));
        assert_eq!(delta.take(0, &[]).len(), 0);
    }
}

/// Few rows are the values that a load makes of them, whatever the table has.
#[test]
fn few_rows_are_encoded_as_all_are() {
    let mut random = Random::new(23);
    for data_type in ordered_types().into_iter().chain(opaque_types()) {
        let t = crate::surface_type(&data_type);
        let schema = schema_of(&t);
        let allocators = [ColumnAllocator::unplaced()];
        let built = |array: &ArrayRef| encode::built(&schema, vec![Arc::clone(array)], &allocators, &Serial).unwrap();
        let likes: [Option<Arc<Segment>>; 3] = [
            None,
            Some(built(&array(&t, SHAPES[0], 10, 3, &mut random))),
            Some(built(&array(&t, SHAPES[SHAPES.len() - 1], 20_000, 20_000, &mut random))),
        ];
        for round in 0..12 {
            let rows = random.pick(&[1, 2, 63, 64, 65, 256, 1024]);
            let distinct = random.pick(&[1, 2, 5, 1000]);
            let values = array(&t, random.pick(&SHAPES), rows + 7, distinct, &mut random).slice(7, rows);
            let like = likes[round % 3].as_deref();
            let quick = encode::encoded(&schema, &[Arc::clone(&values)], like, &allocators, &Serial).unwrap();
            let slow = built(&values);
            let what = format!("{t}, {rows} rows, round {round}");
            assert_eq!((quick.rows(), slow.rows()), (rows, rows), "{what}");
            let (quick, slow) = (quick.column(0), slow.column(0));
            assert_same(&quick.slice(0..rows), &slow.slice(0..rows), &what);
            assert_eq!(quick.has_nulls(), slow.has_nulls(), "{what}");
            let some: Vec<u32> = (0..40).map(|_| random.below(rows) as u32).collect();
            assert_same(&quick.take(&some), &slow.take(&some), &what);
            if let Some(coded) = quick.as_coded() {
                // The optimiser counts entries: no more of them than where time is no matter.
                if let Some(slow) = slow.as_coded().filter(|slow| slow.dictionary().encoding() == Encoding::Affine) {
                    assert_eq!(coded.dictionary().len(), slow.dictionary().len(), "{what}");
                }
                let mut codes = Vec::new();
                coded.unpack(0..rows, &mut codes);
                let bounds = (*codes.iter().min().unwrap(), *codes.iter().max().unwrap());
                assert_eq!(coded.code_bounds(0), bounds, "{what}");
            }
        }
    }
}

#[test]
fn a_slice_does_not_keep_its_batch() {
    let mut random = Random::new(9);
    for data_type in ordered_types().into_iter().chain(opaque_types()) {
        let t = crate::surface_type(&data_type);
        let long = array(&t, SHAPES[5], 100_000, 5, &mut random);
        let few = long.get_array_memory_size() < 100_000;
        let budget = Budget::new("test", u64::MAX);
        let [one, many] = [1, 2000].map(|rows| {
            let delta = Delta::new(schema_of(&t), &budget);
            let batch = batch_of(&schema_of(&t), vec![long.slice(70_000, rows)], rows);
            let expected = delta.bytes() + log::bytes_with(&batch);
            add(&delta, &batch, &[]);
            let bytes = delta.bytes() - stamp_bytes(rows);
            assert!(expected <= 2 * bytes + 2048 && bytes <= 2 * expected + 4000, "{t}: {bytes}, not {expected}");
            (delta, bytes)
        });
        assert!(one.1 < 4000, "{t}: {} bytes for a row", one.1);
        assert!(few || many.1 < long.get_array_memory_size() as u64 / 10, "{t}: {} bytes", many.1);
        assert_eq!(budget.used_bytes(), one.0.bytes() + many.0.bytes());
    }
}

#[test]
fn chunks_are_encoded_once_and_shared() {
    let mut random = Random::new(3);
    let base = TableVersion::empty(&schema());
    let of = |view: &DeltaView| -> Vec<_> {
        consolidated(view, &base, &Serial).segments().map(|version| Arc::clone(&version.segment)).collect()
    };
    let sizes = |segments: &[Arc<Segment>]| segments.iter().map(|segment| segment.rows()).collect::<Vec<_>>();
    let delta = Delta::new(schema(), &Budget::unlimited());
    let mut ids = 0..;
    let mut rows = |count: usize| batch(&ids.by_ref().take(count).map(|id| row(id, &mut random)).collect::<Vec<_>>());
    for _ in 0..40 {
        add(&delta, &rows(100), &[]);
    }
    let early = newest(&delta);
    let segments = of(&early);
    assert_eq!(sizes(&segments), [1100, 1100, 1100, 700]);
    let again = of(&newest(&delta));
    assert!(segments.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(a, b)));

    // Rows that die leave what is encoded as it is; further rows only what is behind the last chunk.
    add(&delta, &batch(&[]), &[of_delta(5), of_delta(3999)]);
    assert!(segments.iter().zip(&of(&newest(&delta))).all(|(a, b)| Arc::ptr_eq(a, b)));
    add(&delta, &rows(1), &[]);
    let more = of(&newest(&delta));
    assert!(segments[..3].iter().zip(&more).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!((more.len(), more[3].rows()), (4, 701));

    // A chunk that closes with rows of one that has not ended, and of one that fails: it is encoded once all the same.
    let running = delta.write(&rows(200), &[]).unwrap().unwrap();
    drop(delta.write(&rows(200), &[]).unwrap());
    let closed = newest(&delta);
    let before = of(&closed);
    assert_eq!((sizes(&before), consolidated(&closed, &base, &Serial).rows()), (vec![1100, 1100, 1100, 1101], 3999));
    running.commit(50);
    assert!(before.iter().zip(&of(&newest(&delta))).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(consolidated(&newest(&delta), &base, &Serial).rows(), 4199);
    assert_eq!(consolidated(&closed, &base, &Serial).rows(), 3999);

    // Eight chunks are one segment, to whoever comes then.
    while newest(&delta).log.segments() != 1 {
        add(&delta, &rows(500), &[]);
    }
    let run = of(&newest(&delta));
    assert_eq!(sizes(&run), [3300 + 1101 + 4 * 1500]);
    assert!(Arc::ptr_eq(&run[0], &of(&newest(&delta))[0]));
    assert!(segments.iter().zip(&of(&early)).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert!(before.iter().zip(&of(&closed)).all(|(a, b)| Arc::ptr_eq(a, b)));
}

/// The same rows in other parts, of which others died: what is kept of one base is of no use to the other.
#[test]
fn a_delta_over_two_bases_keeps_them_apart() {
    let mut random = Random::new(15);
    let rows: Vec<Row> = (0..200).map(|id| row(id, &mut random)).collect();
    let one = TableVersion::empty(&schema()).with_appended(part(&rows));
    let last = RowsToDelete { part: 0, segment: 0, rows: vec![199] };
    let other = one.with_deleted(&[last], &Allocator::unplaced()).unwrap();
    let longer = one.with_parts(one.parts.iter().cloned().chain([Arc::new(part(&rows))]).collect());
    let delta = Delta::new(schema(), &Budget::unlimited());
    for died in 0..20 {
        add(&delta, &batch(&rows[..100]), &[TableRow::Base { segment: 0, row: died }]);
        for (base, dead) in [(&one, 0), (&longer, 0), (&other, 1), (&one, 0)] {
            let view = newest(&delta);
            let table = consolidated(&view, base, &Serial);
            let (died, added) = (died as usize + 1, 100 * (died as usize + 1));
            assert_eq!(table.rows(), base.rows() - died + added);
            assert_eq!((table.parts.len(), table.version), (base.parts.len(), base.version + died as u64));
            let live = |row: usize| table.segments().next().unwrap().is_live(row);
            assert_eq!((live(died - 1), live(died), live(199)), (false, true, dead == 0));
            // Nor is one of them never kept.
            let again = consolidated(&view, base, &Serial);
            let [first, second] = [&table, &again].map(|of| of.segments().next().unwrap().deleted.as_ref().unwrap());
            assert!(Arc::ptr_eq(first, second));
        }
    }
}

#[test]
fn one_row_at_a_time_stays_small() {
    let budget = Budget::new("test", u64::MAX);
    let mut random = Random::new(4);
    let delta = Delta::new(schema(), &budget);
    let count = 20_000;
    for id in 0..count {
        let dead = (id % 2 == 1).then_some(of_delta(id as u32 / 2));
        add(&delta, &batch(&[row(id, &mut random)]), dead.as_slice());
        assert_eq!(budget.used_bytes(), delta.bytes());
    }
    assert!(budget.used_bytes() < 150 * count as u64, "{} bytes", budget.used_bytes());
    let base = TableVersion::empty(&schema());
    let table = consolidated(&newest(&delta), &base, &Serial);
    let chunks = count as usize / CHUNK_ROWS;
    let segments = chunks / RUN_CHUNKS + chunks % RUN_CHUNKS + 1;
    assert_eq!((table.segments().count(), table.rows()), (segments, count as usize / 2));
    let live = |row: u32| delta.is_live(of_delta(row), &base, count as u64);
    assert!((0..count as u32).all(|row| live(row) == (row >= count as u32 / 2)));
}

#[test]
fn a_full_budget_changes_nothing() {
    let mut random = Random::new(8);
    let rows: Vec<Row> = (0..3000).map(|id| row(id, &mut random)).collect();
    let base = TableVersion::empty(&schema()).with_appended(part(&rows[..100]));
    let mut refused = 0;
    for limit in (0..250_000).step_by(1403) {
        let budget = Budget::new("recent rows", limit);
        let delta = Delta::new(schema(), &budget);
        let (mut from, mut dead) = (0, 0);
        while from < rows.len() {
            let end = rows.len().min(from + 1 + random.below(120));
            let used = budget.used_bytes();
            let of_base = (dead..100.min(dead + 3)).map(|row| TableRow::Base { segment: 0, row });
            let deaths: Vec<_> = of_base.chain(from.checked_sub(1).map(|row| of_delta(row as u32))).collect();
            match delta.write(&batch(&rows[from..end]), &deaths) {
                Ok(write) => write.unwrap().commit(delta.entries() as u64 + 1),
                Err(error) => {
                    assert!(matches!(error, StoreError::Memory(_)), "{error}");
                    assert!(error.to_string().contains("recent rows"), "{error}");
                    refused += 1;
                    // Room for stamps stays where there was memory for that.
                    let stamps = stamp_bytes(end) - stamp_bytes(from);
                    assert!([used, used + stamps].contains(&budget.used_bytes()));
                    for row in &deaths {
                        let is_claimed = match *row {
                            TableRow::Base { segment, row } => !delta.dead_base.claim(number_of(segment, row)),
                            TableRow::Delta { row } => !delta.stamps.claim(row),
                        };
                        assert!(!is_claimed, "a claim stays of {row:?}");
                    }
                    break;
                }
            }
            from = end;
            dead = 100.min(dead + 3);
        }
        assert_eq!((delta.rows(), delta.dead_base_rows() as u32), (from, dead));
        let table = consolidated(&newest(&delta), &base, &Serial);
        assert_eq!(table.rows(), 100 - dead as usize + delta.live_rows());
        assert_eq!(budget.used_bytes(), delta.bytes());
        assert!(delta.bytes() >= stamp_bytes(from) + dead as u64 * DEAD_ROW_BYTES as u64);
        drop(delta);
        assert_eq!(budget.used_bytes(), 0);
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn encoding_without_memory_or_threads_can_be_tried_again() {
    let mut random = Random::new(6);
    let delta = Delta::new(schema(), &Budget::unlimited());
    for id in 0..30 {
        let rows: Vec<Row> = (0..100).map(|i| row(id * 100 + i, &mut random)).collect();
        add(&delta, &batch(&rows), &[of_delta(0)][..usize::from(id == 1)]);
    }
    let base = TableVersion::empty(&schema());
    // The second time one of the three segments is encoded before the end, and kept.
    for tasks in 0..2 {
        let parallel = Cancelling(std::sync::Mutex::new(tasks));
        let consolidated = newest(&delta).consolidated(&base, &allocators(), &Allocator::unplaced(), &parallel);
        let error = consolidated.unwrap_err();
        assert!(matches!(error, StoreError::Interrupted(_)), "{error}");
    }
    let budget = Budget::new("table", 1000);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    add(&delta, &batch(&[row(1, &mut random)]), &[]);
    let of_columns = vec![ColumnAllocator::local(allocator.clone()); 3];
    let error = newest(&delta).consolidated(&base, &of_columns, &allocator, &Serial);
    assert!(matches!(error, Err(StoreError::Memory(_))));
    assert_eq!(budget.used_bytes(), 0);
    assert_eq!(consolidated(&newest(&delta), &base, &Serial).rows(), 3000);

    // Everything is encoded, but which rows died is not to be written down: it is the next time.
    add(&delta, &batch(&[]), &[of_delta(1), of_delta(2999)]);
    let none = Allocator::new(Policy::Local, Budget::new("table", 0));
    let error = newest(&delta).consolidated(&base, &of_columns, &none, &Serial);
    assert!(matches!(error, Err(StoreError::Memory(_))));
    assert_eq!(consolidated(&newest(&delta), &base, &Serial).rows(), 2998);
}

#[test]
fn faults_of_an_entry_are_named() {
    let mut random = Random::new(2);
    let budget = Budget::new("test", u64::MAX);
    let delta = Delta::new(schema(), &budget);
    add(&delta, &batch(&[row(0, &mut random), row(1, &mut random)]), &[]);
    let used = budget.used_bytes();
    let error = |rows: RecordBatch, dead: &[TableRow]| delta.write(&rows, dead).unwrap_err().to_string();
    assert_eq!(error(batch(&[]), &[of_delta(0), of_delta(2)]), "there is no row 2, only 2");
    // A row that comes with the entry cannot die with it.
    assert_eq!(error(batch(&[row(2, &mut random)]), &[of_delta(2)]), "there is no row 2, only 2");
    let ids = schema_of(&DataType::Int64);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let narrow = batch_of(&ids, vec![Arc::clone(&column)], 1);
    assert_eq!(error(narrow, &[of_delta(0)]), "the rows have 1 columns, the table has 3");
    let wrong = batch_of(
        &Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Int64, true),
            Field::new("price", DataType::Decimal128(20, 2), true),
        ])),
        vec![Arc::clone(&column), column, Arc::clone(batch(&[row(0, &mut random)]).column(2))],
        1,
    );
    let expected = "column \"name\" is of type Utf8View, the rows have Int64; cast them to Utf8View";
    assert_eq!(error(wrong, &[]), expected);
    assert_eq!((budget.used_bytes(), delta.rows(), delta.entries()), (used, 2, 1));
    assert!(delta.write(&batch(&[]), &[of_delta(0)]).unwrap().is_some(), "a claim stays");

    let base = TableVersion::empty(&schema()).with_appended(part(&[row(0, &mut random)]));
    let consolidated = |delta: &Arc<Delta>| {
        newest(delta).consolidated(&base, &allocators(), &Allocator::unplaced(), &Serial).unwrap_err().to_string()
    };
    let dead = |segment, row| {
        let delta = Delta::new(schema(), &budget);
        add(&delta, &batch(&[]), &[TableRow::Base { segment, row }]);
        delta
    };
    assert_eq!(consolidated(&dead(0, 1)), "there is no row 1, only 1");
    assert_eq!(consolidated(&dead(3, 0)), "there is no segment 3, only 1");
    let other = Delta::new(ids, &budget);
    assert_eq!(consolidated(&other), "the rows have 1 columns, the table has 3");
}

#[test]
fn row_numbers_end() {
    let budget = Budget::unlimited();
    let mut random = Random::new(2);
    let mut log = Log::starting_at(u32::MAX - 2);
    let two = batch(&[row(0, &mut random), row(1, &mut random)]);
    assert_eq!(log.push(&two, &budget).unwrap(), u32::MAX - 2..u32::MAX);
    let error = log.push(&two.slice(0, 1), &budget).unwrap_err();
    assert!(matches!(error, StoreError::TooManyRows { rows: 1, rows_max: 0 }), "{error}");
    assert_eq!(log.rows(), u32::MAX);
    let t = DataType::Boolean;
    let many = arrow::array::BooleanArray::from(arrow::buffer::BooleanBuffer::new_unset(ENTRY_ROWS_MAX + 1));
    let many = batch_of(&schema_of(&t), vec![Arc::new(many)], ENTRY_ROWS_MAX + 1);
    let delta = Delta::new(schema_of(&t), &budget);
    assert!(matches!(delta.write(&many, &[]), Err(StoreError::TooManyRows { .. })));
    add(&delta, &many.slice(0, CHUNK_ROWS - 1), &[]);
    add(&delta, &many.slice(1, ENTRY_ROWS_MAX), &[]);
    let base = TableVersion::empty(&schema_of(&t));
    let allocators = [ColumnAllocator::unplaced()];
    let table = newest(&delta).consolidated(&base, &allocators, &Allocator::unplaced(), &Serial).unwrap();
    assert_eq!((table.segments().count(), table.rows()), (1, CHUNK_ROWS - 1 + ENTRY_ROWS_MAX));
}
