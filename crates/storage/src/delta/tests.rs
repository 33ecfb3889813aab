//! Deltas against a model that keeps every row in a vector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray, Decimal128Array, Int64Array, StringViewArray};
use arrow::compute::concat;
use arrow::datatypes::{Decimal128Type, Int64Type};
use numa::{Allocator, Policy};

use super::log::{CHUNK_ROWS, Log};
use super::*;
use crate::segment::{Part, Segment};
use crate::tests::data::{Random, SHAPES, array, opaque_types, ordered_types};
use crate::tests::{Threads, assert_same, batch_of, schema_of};
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

fn consolidated(delta: &Delta, base: &TableVersion, parallel: &dyn Parallel) -> TableVersion {
    delta.consolidated(base, &allocators(), &Allocator::unplaced(), parallel).unwrap()
}

/// Every row there ever was, in order, and whether it lives.
#[derive(Clone, Default)]
struct Model {
    base: Vec<(TableRow, Row, bool)>,
    /// Rows of the base that lived before the delta.
    base_live: usize,
    delta: Vec<(Row, bool)>,
    entries: usize,
}

impl Model {
    fn live_places(&self) -> Vec<TableRow> {
        let base = self.base.iter().filter(|row| row.2).map(|row| row.0);
        let delta = self.delta.iter().enumerate().filter(|(_, row)| row.1);
        base.chain(delta.map(|(row, _)| TableRow::Delta { row: row as u32 })).collect()
    }

    fn kill(&mut self, place: TableRow) {
        match place {
            TableRow::Delta { row } => self.delta[row as usize].1 = false,
            base => self.base.iter_mut().find(|row| row.0 == base).unwrap().2 = false,
        }
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
        model.base.extend(rows.into_iter().enumerate().map(|(i, row)| (place(i), row, true)));
    }
    let parts = table.parts.iter().enumerate();
    let places: Vec<_> = parts.flat_map(|(p, part)| (0..part.segments.len()).map(move |s| (p, s))).collect();
    for (place, (part, segment)) in places.into_iter().enumerate() {
        let rows = 0..table.segments().nth(place).unwrap().segment.rows() as u32;
        let rows: Vec<u32> = rows.filter(|_| random.one_in(9)).collect();
        rows.iter().for_each(|&row| model.kill(TableRow::Base { segment: place as u32, row }));
        table = table.with_deleted(&[RowsToDelete { part, segment, rows }], &Allocator::unplaced()).unwrap();
    }
    model.base_live = table.rows();
    (table, model)
}

fn check(delta: &Delta, base: &TableVersion, model: &Model, random: &mut Random) {
    assert_eq!((delta.rows(), delta.entries()), (model.delta.len(), model.entries));
    assert_eq!(delta.is_empty(), model.entries == 0);
    let live = model.live_places();
    assert_eq!(base.rows() - delta.dead_base_rows() + delta.live_rows(), live.len());
    assert_eq!(delta.live_rows(), model.delta.iter().filter(|row| row.1).count());
    assert_eq!(model.base_live - delta.dead_base_rows(), model.base.iter().filter(|row| row.2).count());

    let table = if random.one_in(2) { consolidated(delta, base, &Threads) } else { consolidated(delta, base, &Serial) };
    assert_eq!((table.rows(), table.version), (live.len(), base.version + model.entries as u64));
    assert_eq!((&table.schema, table.parts.len()), (&base.schema, base.parts.len().max(usize::from(delta.rows() > 0))));
    let mut places = model.base.iter().map(|row| (row.0, &row.1, row.2)).collect::<Vec<_>>();
    let of_delta = model.delta.iter().enumerate();
    places.extend(of_delta.map(|(row, known)| (TableRow::Delta { row: row as u32 }, &known.0, known.1)));
    let mut expected = places.iter();
    let mut segments = 0;
    for (segment, version) in table.segments().enumerate() {
        let rows = version.segment.rows();
        let columns: Vec<ArrayRef> = version.segment.columns().iter().map(|column| column.slice(0..rows)).collect();
        for (row, content) in rows_of(&columns).iter().enumerate() {
            let (place, known, alive) = expected.next().unwrap();
            assert_eq!((content, version.is_live(row)), (*known, *alive), "{place:?}");
            assert_eq!(delta.is_live(*place, base), *alive, "{place:?}");
            assert_eq!(delta.place_of(base, segment, row as u32).unwrap(), *place);
        }
        assert!(matches!(delta.place_of(base, segment, rows as u32), Err(StoreError::NotThere { what: "row", .. })));
        segments += 1;
    }
    assert!(expected.next().is_none());
    let error = delta.place_of(base, segments, 0).unwrap_err();
    assert!(matches!(error, StoreError::NotThere { what: "segment", count, .. } if count == segments), "{error}");
    assert!(!delta.is_live(TableRow::Delta { row: model.delta.len() as u32 }, base));
    assert!(!delta.is_live(TableRow::Base { segment: base.segments().count() as u32, row: 0 }, base));

    let count = if model.delta.is_empty() { 0 } else { random.below(60) };
    let rows: Vec<u32> = (0..count).map(|_| random.below(model.delta.len()) as u32).collect();
    let columns: Vec<ArrayRef> = (0..3).map(|column| delta.take(column, &rows)).collect();
    let expected: Vec<Row> = rows.iter().map(|&row| model.delta[row as usize].0.clone()).collect();
    assert_eq!(rows_of(&columns), expected, "{rows:?}");
}

/// Which rows live, by segment.
fn liveness(table: &TableVersion) -> Vec<Vec<bool>> {
    table.segments().map(|version| (0..version.segment.rows()).map(|row| version.is_live(row)).collect()).collect()
}

/// An entry of a few rows, and the model with it.
fn entry(delta: &Delta, model: &Model, random: &mut Random) -> (Delta, Model) {
    let mut model = model.clone();
    let live = model.live_places();
    let most = random.pick(&[0, 1, 2, 50]);
    let deaths = random.below(most + 1).min(live.len());
    let mut dead: Vec<TableRow> = (0..deaths).map(|_| random.pick(&live)).collect();
    dead.iter().for_each(|&place| model.kill(place));
    if random.one_in(8) {
        // Rows of the log that died before stay dead.
        let gone = model.delta.iter().position(|row| !row.1);
        dead.extend(gone.map(|row| TableRow::Delta { row: row as u32 }));
    }
    let most = random.pick(&[0, 1, 1, 2, 50, 50, 900]);
    let first = model.delta.len();
    let rows: Vec<Row> = (0..random.below(most + 1)).map(|i| row((first + i) as i64, random)).collect();
    let next = delta.with(batch(&rows), &dead).unwrap();
    model.delta.extend(rows.into_iter().map(|row| (row, true)));
    model.entries += 1;
    (next, model)
}

#[test]
fn a_delta_has_the_rows_of_the_model_and_views_never_change() {
    let mut longest = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let budget = Budget::new("test", u64::MAX);
        let (base, mut model) = base(&mut random);
        let mut delta = Delta::new(schema(), &budget);
        check(&delta, &base, &model, &mut random);
        let mut kept = Vec::new();
        let mut held = Vec::new();
        for _ in 0..random.below(220) {
            // A statement that fails: its entry is forgotten, whether it was looked at or not.
            if random.one_in(6) {
                let (failed, with_failed) = entry(&delta, &model, &mut random);
                match random.below(3) {
                    0 => check(&failed, &base, &with_failed, &mut random),
                    1 => kept.push((failed, with_failed)),
                    _ => {}
                }
            }
            (delta, model) = entry(&delta, &model, &mut random);
            match random.below(12) {
                0 => check(&delta, &base, &model, &mut random),
                1 => kept.push((delta.clone(), model.clone())),
                // A reader that stays: what is marked later is not to be seen.
                2 | 3 => {
                    let table = consolidated(&delta, &base, &Serial);
                    let seen = liveness(&table);
                    let live = model.live_places().len();
                    assert_eq!(seen.iter().flatten().filter(|live| **live).count(), live);
                    held.push((table, seen));
                }
                4 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                _ => {}
            }
        }
        check(&delta, &base, &model, &mut random);
        longest = longest.max(delta.view.log.segment_rows(0).map_or(0, |rows| rows.len()));
        held.iter().for_each(|(table, seen)| assert_eq!(&liveness(table), seen));
        for (delta, model) in &kept {
            check(delta, &base, model, &mut random);
            check(delta, &base, model, &mut random);
        }
        assert!(budget.used_bytes() >= delta.bytes());
        drop((delta, kept, held));
        assert_eq!(budget.used_bytes(), 0, "seed {seed}");
    }
    assert!(longest > 2 * CHUNK_ROWS, "no run of chunks: {longest} rows");
}

#[test]
fn what_is_consolidated_is_the_base_of_what_follows() {
    let mut random = Random::new(77);
    let (mut base, mut model) = base(&mut random);
    let budget = Budget::unlimited();
    for _ in 0..5 {
        let mut delta = Delta::new(schema(), &budget);
        for _ in 0..30 {
            (delta, model) = entry(&delta, &model, &mut random);
        }
        base = consolidated(&delta, &base, &Serial);
        let mut places = base.segments().enumerate().flat_map(|(segment, version)| {
            (0..version.segment.rows() as u32).map(move |row| TableRow::Base { segment: segment as u32, row })
        });
        let rows: Vec<_> = model.base.drain(..).map(|row| (row.1, row.2)).chain(model.delta.drain(..)).collect();
        model.base = rows.into_iter().map(|(row, alive)| (places.next().unwrap(), row, alive)).collect();
        model.base_live = base.rows();
        model.entries = 0;
        check(&Delta::new(schema(), &budget), &base, &model, &mut random);
    }
}

#[test]
fn every_type_comes_back() {
    let mut random = Random::new(5);
    for data_type in ordered_types().into_iter().chain(opaque_types()) {
        let t = crate::surface_type(&data_type);
        let mut delta = Delta::new(schema_of(&data_type), &Budget::unlimited());
        let mut all = Vec::new();
        while delta.rows() < 3 * CHUNK_ROWS {
            let rows = random.pick(&[1, 2, 40, 300]);
            let long = array(&t, random.pick(&SHAPES), rows + random.below(3) * 5000, 5, &mut random);
            let from = random.below(long.len() - rows + 1);
            all.push(long.slice(from, rows));
            let schema = schema_of(&t);
            delta = delta.with(batch_of(&schema, vec![long.slice(from, rows)], rows), &[]).unwrap();
        }
        let parts: Vec<&dyn Array> = all.iter().map(|array| array.as_ref()).collect();
        let all = concat(&parts).unwrap();
        let base = TableVersion::empty(&schema_of(&data_type));
        let allocators = [ColumnAllocator::unplaced()];
        let table = delta.consolidated(&base, &allocators, &Allocator::unplaced(), &Serial).unwrap();
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

/// A table that is written and merged: rows by their order, which nothing changes, and where each lies.
struct Merging {
    base: TableVersion,
    delta: Delta,
    live: Vec<Row>,
    next: i64,
}

impl Merging {
    fn places(&self) -> Vec<(Row, TableRow)> {
        let table = consolidated(&self.delta, &self.base, &Serial);
        let mut places = Vec::new();
        for (segment, version) in table.segments().enumerate() {
            let rows = version.segment.rows();
            let columns: Vec<ArrayRef> = version.segment.columns().iter().map(|column| column.slice(0..rows)).collect();
            for (row, content) in rows_of(&columns).into_iter().enumerate().filter(|(row, _)| version.is_live(*row)) {
                places.push((content, self.delta.place_of(&self.base, segment, row as u32).unwrap()));
            }
        }
        places
    }

    /// A statement that adds rows and lets others die; where it fails nobody sees it.
    fn write(&mut self, random: &mut Random) {
        let places = self.places();
        let deaths = random.pick(&[0, 1, 3, 40]).min(places.len());
        let mut dead: Vec<_> = (0..deaths).map(|_| random.below(places.len())).collect();
        dead.sort_unstable();
        dead.dedup();
        let count = random.pick(&[0, 1, 2, 30, 700]);
        let rows: Vec<Row> = (0..count).map(|i| row(self.next + i, random)).collect();
        let of_dead: Vec<TableRow> = dead.iter().map(|place| places[*place].1).collect();
        let next = self.delta.with(batch(&rows), &of_dead).unwrap();
        if random.one_in(5) {
            return;
        }
        self.delta = next;
        self.next += count;
        dead.iter().rev().for_each(|place| drop(self.live.remove(*place)));
        self.live.extend(rows);
    }

    fn check(&self) {
        let places = self.places();
        let found: Vec<&Row> = places.iter().map(|(row, _)| row).collect();
        assert!(found.iter().copied().eq(&self.live), "{} rows, {} expected", found.len(), self.live.len());
        let (delta, base) = (&self.delta, &self.base);
        assert_eq!(base.rows() + delta.live_rows() - delta.dead_base_rows(), self.live.len());
        assert!(places.iter().all(|(_, place)| delta.is_live(*place, base)));
        let rows = 0..delta.rows() as u32;
        let live = rows.filter(|row| delta.is_live(TableRow::Delta { row: *row }, base));
        let of_log: Vec<u32> = live.collect();
        let expected: Vec<&Row> = self.live.iter().rev().take(of_log.len()).rev().collect();
        let columns: Vec<ArrayRef> = (0..3).map(|column| delta.take(column, &of_log)).collect();
        assert!(rows_of(&columns).iter().eq(expected), "rows of the log by their numbers");
    }
}

/// Keys of a delta's rows as whoever keeps them does: from each live row of the log to its number.
fn numbers(delta: &Delta, base: &TableVersion) -> std::collections::BTreeMap<i64, u32> {
    let live = (0..delta.rows() as u32).filter(|row| delta.is_live(TableRow::Delta { row: *row }, base));
    let live: Vec<u32> = live.collect();
    let ids = delta.take(0, &live);
    ids.as_primitive::<Int64Type>().values().iter().copied().zip(live).collect()
}

/// Deltas that are made segments while statements go on, segments that are compacted meanwhile, in any order.
#[test]
fn merges_beside_writes_change_no_row() {
    let (mut folded, mut given_up, mut moved) = (0, 0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let budget = Budget::new("test", u64::MAX);
        let (base, model) = base(&mut random);
        let live = model.base.into_iter().filter(|row| row.2).map(|row| row.1).collect();
        let mut table = Merging { base, delta: Delta::new(schema(), &budget), live, next: 1 };
        let mut folding: Option<(Delta, TableVersion)> = None;
        let mut compacting: Option<Compacted> = None;
        for _ in 0..80 {
            match random.below(10) {
                0 => table.check(),
                1 if folding.is_none() => folding = Some((table.delta.clone(), table.base.clone())),
                2 | 3 if folding.is_some() => {
                    let (earlier, base) = folding.take().unwrap();
                    let rest = table.delta.since(&earlier, &base).unwrap();
                    let is_same = base.parts.iter().map(Arc::as_ptr).eq(table.base.parts.iter().map(Arc::as_ptr));
                    let Some(rest) = rest.filter(|_| is_same) else {
                        given_up += 1;
                        continue;
                    };
                    let whole = consolidated(&earlier, &base, &Serial);
                    let part = whole.parts.len().saturating_sub(1);
                    let first = base.parts.get(part).map_or(0, |part| part.segments.len());
                    let behind = whole.parts.get(part).map_or(0, |part| part.segments.len());
                    // What keys have to be told, at once or in two steps.
                    let before = numbers(&table.delta, &base);
                    let first_row = earlier.rows() as u32;
                    let mut expected = numbers(&earlier, &base);
                    for row in table.delta.died_since(&earlier) {
                        expected.retain(|_, known| *known != row);
                    }
                    let added = table.delta.added_since(&earlier);
                    let ids = table.delta.take(0, &added);
                    expected.extend(ids.as_primitive::<Int64Type>().values().iter().copied().zip(added));
                    assert_eq!(before, expected);
                    if first < behind && !random.one_in(4) {
                        let compacted = Compacted::of(&whole, part, first..behind, &allocators(), &Serial).unwrap();
                        table.base = compacted.within(&whole, &Allocator::unplaced()).unwrap().unwrap();
                        table.delta = rest.moved(&compacted, &whole).unwrap();
                    } else {
                        (table.base, table.delta) = (whole, rest);
                    }
                    let after = before.into_iter().filter(|(_, row)| *row >= first_row);
                    let after = after.map(|(id, row)| (id, row - first_row));
                    assert!(after.eq(numbers(&table.delta, &table.base)));
                    folded += 1;
                    table.check();
                }
                4 if compacting.is_none() && !table.base.parts.is_empty() => {
                    let part = random.below(table.base.parts.len());
                    let segments = table.base.parts[part].segments.len();
                    let first = random.below(segments + 1);
                    let range = first..first + random.below(segments + 1 - first);
                    compacting = Some(Compacted::of(&table.base, part, range, &allocators(), &Serial).unwrap());
                }
                5 if compacting.is_some() => {
                    let compacted = compacting.take().unwrap();
                    let within = compacted.within(&table.base, &Allocator::unplaced()).unwrap();
                    let Some(base) = within else {
                        given_up += 1;
                        continue;
                    };
                    table.delta = table.delta.moved(&compacted, &table.base).unwrap();
                    table.base = base;
                    moved += 1;
                    table.check();
                }
                _ => table.write(&mut random),
            }
        }
        table.check();
        drop((table, folding, compacting));
        assert_eq!(budget.used_bytes(), 0, "seed {seed}");
    }
    assert!(folded > 100 && given_up > 10 && moved > 50, "{folded} {given_up} {moved}");
}

#[test]
fn a_delta_of_another_table_is_none_before() {
    let mut random = Random::new(5);
    let base = TableVersion::empty(&schema());
    let one = Delta::new(schema(), &Budget::unlimited());
    let first = one.with(batch(&[row(0, &mut random)]), &[]).unwrap();
    let second = first.with(batch(&[]), &[TableRow::Delta { row: 0 }]).unwrap();
    let other = Delta::new(schema(), &Budget::unlimited());
    assert!(second.since(&other, &base).unwrap().is_none());
    assert!(first.since(&second, &base).unwrap().is_none());
    let rest = second.since(&first, &base).unwrap().unwrap();
    assert_eq!((rest.rows(), rest.entries(), rest.dead_base_rows()), (0, 1, 1));
    assert!(second.since(&second, &base).unwrap().unwrap().is_empty());
    // No memory: the state before stays.
    let budget = Budget::new("rows", 5000);
    let full = Delta::new(schema(), &budget).with(batch(&[row(0, &mut random)]), &[]).unwrap();
    let earlier = Delta::clone(&full);
    let mut full = full;
    while let Ok(next) = full.with(batch(&[row(1, &mut random)]), &[]) {
        full = next;
    }
    let (rows, used) = (full.rows(), budget.used_bytes());
    assert!(matches!(full.since(&earlier, &base), Err(StoreError::Memory(_))));
    assert_eq!((full.rows(), budget.used_bytes()), (rows, used));
}

#[test]
fn a_slice_does_not_keep_its_batch() {
    let mut random = Random::new(9);
    for data_type in ordered_types().into_iter().chain(opaque_types()) {
        let t = crate::surface_type(&data_type);
        let long = array(&t, SHAPES[5], 100_000, 5, &mut random);
        let few = long.get_array_memory_size() < 100_000;
        let budget = Budget::new("test", u64::MAX);
        let empty = Delta::new(schema_of(&t), &budget);
        let one = empty.with(batch_of(&schema_of(&t), vec![long.slice(70_000, 1)], 1), &[]).unwrap();
        let many = empty.with(batch_of(&schema_of(&t), vec![long.slice(70_000, 2000)], 2000), &[]).unwrap();
        assert!(one.bytes() < 4000, "{t}: {} bytes for a row", one.bytes());
        assert!(few || many.bytes() < long.get_array_memory_size() as u64 / 10, "{t}: {} bytes", many.bytes());
        assert_eq!(budget.used_bytes(), one.bytes() + many.bytes());
    }
}

#[test]
fn chunks_are_encoded_once_and_shared() {
    let mut random = Random::new(3);
    let base = TableVersion::empty(&schema());
    let of = |delta: &Delta| -> Vec<_> {
        consolidated(delta, &base, &Serial).segments().map(|version| Arc::clone(&version.segment)).collect()
    };
    let mut delta = Delta::new(schema(), &Budget::unlimited());
    for id in 0..40 {
        let rows: Vec<Row> = (0..100).map(|i| row(id * 100 + i, &mut random)).collect();
        delta = delta.with(batch(&rows), &[]).unwrap();
    }
    let segments = of(&delta);
    assert_eq!(segments.iter().map(|segment| segment.rows()).collect::<Vec<_>>(), [1100, 1100, 1100, 700]);
    let again = of(&delta.clone());
    assert!(segments.iter().zip(&again).all(|(a, b)| Arc::ptr_eq(a, b)));

    // Rows that die leave what is encoded as it is; further rows only what is behind the last chunk.
    let fewer = delta.with(batch(&[]), &[TableRow::Delta { row: 5 }, TableRow::Delta { row: 3999 }]).unwrap();
    assert!(segments.iter().zip(&of(&fewer)).all(|(a, b)| Arc::ptr_eq(a, b)));
    let more = of(&fewer.with(batch(&[row(4000, &mut random)]), &[]).unwrap());
    assert!(segments[..3].iter().zip(&more).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!((more.len(), more[3].rows()), (4, 701));

    // Two ways to close the chunk: neither sees the other's rows.
    let rows: Vec<Row> = (0..400).map(|i| row(i, &mut random)).collect();
    let forgotten = of(&delta.with(batch(&rows), &[]).unwrap());
    let other = of(&delta.with(batch(&rows[100..]), &[]).unwrap().with(batch(&rows[..70]), &[]).unwrap());
    assert_eq!((forgotten.len(), forgotten[3].rows(), other.len(), other[3].rows()), (4, 1100, 4, 1070));
    assert!(!Arc::ptr_eq(&forgotten[3], &other[3]));
}

#[test]
fn one_row_at_a_time_stays_small() {
    let budget = Budget::new("test", u64::MAX);
    let mut random = Random::new(4);
    let mut delta = Delta::new(schema(), &budget);
    let count = 20_000;
    for id in 0..count {
        let dead = (id % 2 == 1).then_some(TableRow::Delta { row: id as u32 / 2 });
        delta = delta.with(batch(&[row(id, &mut random)]), dead.as_slice()).unwrap();
        assert_eq!(budget.used_bytes(), delta.bytes(), "older views hold nothing");
    }
    assert!(delta.bytes() < 150 * count as u64, "{} bytes", delta.bytes());
    let table = consolidated(&delta, &TableVersion::empty(&schema()), &Serial);
    let chunks = count as usize / CHUNK_ROWS;
    let segments = chunks / RUN_CHUNKS + chunks % RUN_CHUNKS + 1;
    assert_eq!((table.segments().count(), table.rows()), (segments, count as usize / 2));
    let live = |row: u32| delta.is_live(TableRow::Delta { row }, &TableVersion::empty(&schema()));
    assert!((0..count as u32).all(|row| live(row) == (row >= count as u32 / 2)));
}

#[test]
fn a_full_budget_changes_nothing() {
    let mut random = Random::new(8);
    let rows: Vec<Row> = (0..3000).map(|id| row(id, &mut random)).collect();
    let base = TableVersion::empty(&schema()).with_appended(part(&rows[..100]));
    let mut refused = 0;
    for limit in (0..120_000).step_by(701) {
        let budget = Budget::new("recent rows", limit);
        let mut delta = Delta::new(schema(), &budget);
        let mut from = 0;
        let mut dead = 0;
        while from < rows.len() {
            let end = rows.len().min(from + 1 + random.below(120));
            let used = budget.used_bytes();
            let deaths: Vec<_> = (0..3).map(|i| TableRow::Base { segment: 0, row: (dead + i) % 100 }).collect();
            match delta.with(batch(&rows[from..end]), &deaths) {
                Ok(next) => delta = next,
                Err(error) => {
                    assert!(matches!(error, StoreError::Memory(_)), "{error}");
                    assert!(error.to_string().contains("recent rows"), "{error}");
                    refused += 1;
                    assert_eq!(budget.used_bytes(), used);
                    break;
                }
            }
            from = end;
            dead += 3;
        }
        assert_eq!((delta.rows(), delta.dead_base_rows() as u32), (from, dead.min(100)));
        let table = consolidated(&delta, &base, &Serial);
        assert_eq!(table.rows(), 100 - dead.min(100) as usize + from);
        assert_eq!(budget.used_bytes(), delta.bytes());
        drop(delta);
        assert_eq!(budget.used_bytes(), 0);
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn encoding_without_memory_or_threads_can_be_tried_again() {
    let mut random = Random::new(6);
    let mut delta = Delta::new(schema(), &Budget::unlimited());
    for id in 0..30 {
        let rows: Vec<Row> = (0..100).map(|i| row(id * 100 + i, &mut random)).collect();
        delta = delta.with(batch(&rows), &[TableRow::Delta { row: 0 }][..usize::from(id > 0)]).unwrap();
    }
    let base = TableVersion::empty(&schema());
    // The second time one of the three segments is encoded before the end, and kept.
    for tasks in 0..2 {
        let parallel = crate::tests::Cancelling(Mutex::new(tasks));
        let error = delta.consolidated(&base, &allocators(), &Allocator::unplaced(), &parallel).unwrap_err();
        assert!(matches!(error, StoreError::Interrupted(_)), "{error}");
    }
    let budget = Budget::new("table", 1000);
    let allocator = Allocator::new(Policy::Local, Arc::clone(&budget));
    let more = delta.with(batch(&[row(1, &mut random)]), &[]).unwrap();
    let error = more.consolidated(&base, &vec![ColumnAllocator::local(allocator.clone()); 3], &allocator, &Serial);
    assert!(matches!(error, Err(StoreError::Memory(_))));
    assert_eq!(budget.used_bytes(), 0);
    assert_eq!(consolidated(&more, &base, &Serial).rows(), 3000);
}

#[test]
fn faults_of_an_entry_are_named() {
    let mut random = Random::new(2);
    let budget = Budget::new("test", u64::MAX);
    let delta = Delta::new(schema(), &budget);
    let delta = delta.with(batch(&[row(0, &mut random), row(1, &mut random)]), &[]).unwrap();
    let used = budget.used_bytes();
    let error = |rows: RecordBatch, dead: &[TableRow]| delta.with(rows, dead).unwrap_err().to_string();
    assert_eq!(error(batch(&[]), &[TableRow::Delta { row: 2 }]), "there is no row 2, only 2");
    // A row that comes with the entry cannot die with it.
    assert_eq!(error(batch(&[row(2, &mut random)]), &[TableRow::Delta { row: 2 }]), "there is no row 2, only 2");
    let ids = schema_of(&DataType::Int64);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let narrow = batch_of(&ids, vec![Arc::clone(&column)], 1);
    assert_eq!(error(narrow, &[]), "the rows have 1 columns, the table has 3");
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

    let base = TableVersion::empty(&schema()).with_appended(part(&[row(0, &mut random)]));
    let consolidated =
        |delta: &Delta| delta.consolidated(&base, &allocators(), &Allocator::unplaced(), &Serial).unwrap_err();
    let dead = |segment, row| delta.with(batch(&[]), &[TableRow::Base { segment, row }]).unwrap();
    assert_eq!(consolidated(&dead(0, 1)).to_string(), "there is no row 1, only 1");
    assert_eq!(consolidated(&dead(3, 0)).to_string(), "there is no segment 3, only 1");
    let other = Delta::new(ids, &budget);
    assert_eq!(consolidated(&other).to_string(), "the rows have 1 columns, the table has 3");
}

#[test]
fn row_numbers_end() {
    let budget = Budget::unlimited();
    let mut random = Random::new(2);
    let full = Log::starting_at(u32::MAX - 2);
    let two = full.with(batch(&[row(0, &mut random), row(1, &mut random)]), &budget).unwrap();
    assert_eq!(two.rows(), u32::MAX);
    let error = two.with(batch(&[row(0, &mut random)]), &budget).unwrap_err();
    assert!(matches!(error, StoreError::TooManyRows { rows: 1, rows_max: 0 }), "{error}");
    let t = DataType::Boolean;
    let many = arrow::array::BooleanArray::from(arrow::buffer::BooleanBuffer::new_unset(ENTRY_ROWS_MAX + 1));
    let many = batch_of(&schema_of(&t), vec![Arc::new(many)], ENTRY_ROWS_MAX + 1);
    let delta = Delta::new(schema_of(&t), &budget);
    assert!(matches!(delta.with(many.clone(), &[]), Err(StoreError::TooManyRows { .. })));
    let most =
        delta.with(many.slice(0, CHUNK_ROWS - 1), &[]).unwrap().with(many.slice(1, ENTRY_ROWS_MAX), &[]).unwrap();
    let base = TableVersion::empty(&schema_of(&t));
    let table = most.consolidated(&base, &[ColumnAllocator::unplaced()], &Allocator::unplaced(), &Serial).unwrap();
    assert_eq!((table.segments().count(), table.rows()), (1, CHUNK_ROWS - 1 + ENTRY_ROWS_MAX));
}

/// A writer replaces the row that it wrote before and adds another, so that view `n` has `n` live rows.
#[test]
fn views_are_consolidated_while_others_are_derived() {
    let base = TableVersion::empty(&schema());
    let newest = Mutex::new(Delta::new(schema(), &Budget::unlimited()));
    let done = AtomicBool::new(false);
    let entries = 3000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(1);
            for _ in 0..entries {
                let delta = newest.lock().unwrap().clone();
                let last = delta.rows() as u32;
                let dead: Vec<_> = last.checked_sub(1).map(|row| TableRow::Delta { row }).into_iter().collect();
                let rows = [row(i64::from(last), &mut random), row(i64::from(last) + 1, &mut random)];
                if random.one_in(10) {
                    delta.with(batch(&rows[..1]), &[]).unwrap();
                }
                let rows = &rows[..if dead.is_empty() { 1 } else { 2 }];
                *newest.lock().unwrap() = delta.with(batch(rows), &dead).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Acquire) || seen == 0 {
                    let delta = newest.lock().unwrap().clone();
                    let table = consolidated(&delta, &base, &Serial);
                    assert_eq!((table.rows(), delta.live_rows()), (delta.entries(), delta.entries()));
                    assert!(delta.entries() >= seen);
                    seen = delta.entries();
                    let mut ids = Vec::new();
                    for version in table.segments() {
                        let all = version.segment.column(0).slice(0..version.segment.rows());
                        ids.extend_from_slice(all.as_primitive::<Int64Type>().values());
                    }
                    assert!(ids.iter().copied().eq(0..delta.rows() as i64), "{} entries", delta.entries());
                }
            });
        }
    });
    let delta = newest.into_inner().unwrap();
    assert_eq!((delta.entries(), consolidated(&delta, &base, &Serial).rows()), (entries, entries));
}
