//! Merges and compactions beside statements that go on: to readers of every version nothing changes.

use std::collections::{BTreeMap, HashMap};

use super::*;
use crate::delta::rebase::Caught;

/// A statement that has not ended: the rows that it adds and lets die.
struct Pending {
    write: DeltaWrite,
    added: Vec<i64>,
    died: Vec<i64>,
}

/// A table that is written and merged: rows by what they are called, which nothing changes.
struct Merging {
    base: TableVersion,
    delta: Arc<Delta>,
    rows: BTreeMap<i64, (Row, Life)>,
    open: Vec<Pending>,
    /// What was committed, in order: a version and the rows that it added.
    commits: Vec<(u64, Vec<i64>)>,
    /// The base has what was written up to it: whoever reads an earlier version is too late.
    merged: u64,
    next: i64,
}

/// A merge on its way.
struct Folding {
    view: DeltaView,
    base: TableVersion,
    whole: Option<TableVersion>,
    caught: Caught,
    /// Rows that were added since and live, each with the number that it gets.
    numbers: HashMap<u32, u32>,
}

impl Merging {
    fn version(&self) -> u64 {
        self.commits.last().map_or(0, |commit| commit.0)
    }

    fn begin(&mut self, random: &mut Random) {
        let places = places(&newest(&self.delta), &self.base);
        let deaths = random.pick(&[0, 1, 3, 40]).min(places.len());
        let dead: Vec<_> = (0..deaths).map(|_| random.pick(&places)).collect();
        let count = random.pick(&[0, 1, 2, 30, 700]);
        let rows: Vec<Row> = (0..count).map(|i| row(self.next + i, random)).collect();
        let of_dead: Vec<TableRow> = dead.iter().map(|(_, place)| *place).collect();
        let died: Vec<i64> = dead.iter().map(|(row, _)| row.0).collect();
        let is_free = died.iter().all(|id| self.rows[id].1.is_free());
        let write = self.delta.write(&batch(&rows), &of_dead).unwrap();
        assert_eq!(write.is_some(), is_free);
        let Some(write) = write else { return };
        died.iter().for_each(|id| self.rows.get_mut(id).unwrap().1.is_claimed = true);
        self.next += count;
        let added = rows.iter().map(|row| row.0).collect();
        self.rows.extend(rows.into_iter().map(|row| (row.0, (row, Life::default()))));
        self.open.push(Pending { write, added, died });
    }

    /// A statement ends; where it fails nobody sees it.
    fn end(&mut self, random: &mut Random) {
        let Pending { write, added, died } = self.open.swap_remove(random.below(self.open.len()));
        let fails = random.one_in(5);
        let version = self.version() + random.pick(&[1, 1, 3]);
        for id in &died {
            let life = &mut self.rows.get_mut(id).unwrap().1;
            life.is_claimed = false;
            life.died = life.died.or((!fails).then_some(version));
        }
        if fails {
            return drop(write);
        }
        write.commit(version);
        added.iter().for_each(|id| self.rows.get_mut(id).unwrap().1.born = Some(version));
        self.commits.push((version, added));
    }

    /// Nobody writes.
    fn settle(&mut self, random: &mut Random) {
        while !self.open.is_empty() {
            self.end(random);
        }
    }

    /// That a view finds what was there as of a version.
    fn check_view(&self, view: &DeltaView, base: &TableVersion, version: u64) {
        let mut places = places(view, base);
        places.sort_unstable_by_key(|(row, _)| row.0);
        let found = places.iter().map(|(row, _)| row);
        let expected = self.rows.values().filter(|(_, life)| life.lives(version)).map(|(row, _)| row);
        assert!(found.eq(expected), "{} rows as of {version}", places.len());
        assert!(places.iter().all(|(_, place)| view.delta.is_live(*place, base, version)));
        let of_log: Vec<u32> =
            (0..view.delta.rows() as u32).filter(|row| view.delta.is_live(of_delta(*row), base, version)).collect();
        let of_base = places.iter().filter(|(_, place)| matches!(place, TableRow::Base { .. })).count();
        assert_eq!(of_base + of_log.len(), places.len());
    }

    fn check(&self, random: &mut Random) {
        let (delta, version) = (&self.delta, self.version());
        let live = self.rows.values().filter(|(_, life)| life.lives(version)).count();
        assert_eq!(self.base.rows() + delta.live_rows() - delta.dead_base_rows(), live);
        let between = || self.merged + random.below_u64(version + 1 - self.merged);
        let some: Vec<u64> = std::iter::repeat_with(between).take(2).collect();
        for version in some.into_iter().chain([version, self.merged]) {
            self.check_view(&delta.view(version), &self.base, version);
        }
    }

    fn fold(&self, random: &mut Random) -> Folding {
        let version = self.merged + random.below_u64(self.version() + 1 - self.merged);
        let view = self.delta.view(if random.one_in(2) { self.version() } else { version });
        let whole = random.one_in(2).then(|| consolidated(&view, &self.base, &Serial));
        Folding { view, base: self.base.clone(), whole, caught: Caught::default(), numbers: HashMap::new() }
    }

    /// Puts segments in the place of base and delta; false where they have been moved meanwhile.
    fn put(&mut self, mut folding: Folding, random: &mut Random) -> bool {
        self.settle(random);
        let rest = self.delta.since(&folding.view, &folding.base).unwrap();
        assert_eq!(rest.is_some(), Arc::ptr_eq(&self.delta, &folding.view.delta));
        let Some(rest) = rest else { return false };
        folding.catch_up(&self.delta);
        // A view that sees nothing of the delta is one of the base, whatever version made that.
        let merged = folding.view.version().max(self.merged);
        let added = self.commits.iter().filter(|commit| commit.0 > merged).flat_map(|commit| &commit.1);
        let ids = rest.take(0, &(0..rest.rows() as u32).collect::<Vec<u32>>());
        assert!(ids.as_primitive::<Int64Type>().values().iter().eq(added), "in the order of versions");
        folding.check(&self.delta, &rest);

        let whole = folding.whole.unwrap_or_else(|| consolidated(&folding.view, &folding.base, &Serial));
        let part = whole.parts.len().saturating_sub(1);
        let first = folding.base.parts.get(part).map_or(0, |part| part.segments.len());
        let behind = whole.parts.get(part).map_or(0, |part| part.segments.len());
        if first < behind && !random.one_in(4) {
            let compacted = Compacted::of(&whole, part, first..behind, &allocators(), &Serial).unwrap();
            self.base = compacted.within(&whole, &Allocator::unplaced()).unwrap().unwrap();
            self.delta = rest.moved(&compacted, &whole).unwrap();
        } else {
            (self.base, self.delta) = (whole, rest);
        }
        self.merged = merged;
        true
    }
}

impl Folding {
    /// As whoever keeps keys does, now and then and once more at the end.
    fn catch_up(&mut self, delta: &Delta) {
        let caught = delta.caught(&self.view, &self.caught, u64::MAX);
        let is_seen = |row: &u32| delta.stamps.is_born(*row, self.view.version());
        assert!(!caught.died.iter().any(is_seen), "the view's rows are known elsewhere");
        self.numbers.retain(|row, _| !caught.died.contains(row));
        self.numbers.extend(caught.added.iter().copied());
        self.caught = caught;
    }

    /// That it was told of all live rows of the delta that goes on.
    fn check(&self, delta: &Delta, rest: &Delta) {
        assert_eq!((self.caught.rows as usize, self.numbers.len()), (rest.rows(), rest.live_rows()));
        assert!(self.numbers.values().all(|row| rest.is_live(of_delta(*row), &self.base, self.caught.version)));
        let (from, to): (Vec<u32>, Vec<u32>) = self.numbers.iter().unzip();
        (0..3).for_each(|column| assert_eq!(&delta.take(column, &from), &rest.take(column, &to)));
        let again = delta.caught(&self.view, &self.caught, u64::MAX);
        assert!(again.added.is_empty() && again.died.is_empty());
        assert_eq!((again.version, again.rows), (self.caught.version, self.caught.rows));
    }
}

/// Deltas that are made segments while statements go on, segments that are compacted meanwhile, in any order.
#[test]
fn merges_beside_writes_change_no_row() {
    let (mut folded, mut given_up, mut moved) = (0, 0, 0);
    for seed in 0..24 {
        let mut random = Random::new(seed);
        let budget = Budget::new("test", u64::MAX);
        let (base, model) = base(&mut random);
        let live = model.base.into_iter().filter(|known| known.life.lives(0));
        let rows = live.map(|known| (known.row.0, (known.row, known.life))).collect();
        let delta = Delta::new(schema(), &budget);
        let mut table = Merging { base, delta, rows, open: Vec::new(), commits: Vec::new(), merged: 0, next: 1 };
        let (mut folding, mut compacting): (Option<Folding>, Option<Compacted>) = (None, None);
        // Readers that stay over the base that they had.
        let mut kept: Vec<(DeltaView, TableVersion, u64)> = Vec::new();
        for _ in 0..100 {
            match random.below(16) {
                0 => table.check(&mut random),
                1 | 2 if folding.is_none() => folding = Some(table.fold(&mut random)),
                3 | 4 if folding.is_some() => {
                    match table.put(folding.take().unwrap(), &mut random) {
                        true => folded += 1,
                        false => given_up += 1,
                    }
                    table.check(&mut random);
                }
                5 if let Some(folding) = &mut folding
                    && Arc::ptr_eq(&table.delta, &folding.view.delta) =>
                {
                    folding.catch_up(&table.delta);
                }
                6 if compacting.is_none() && !table.base.parts.is_empty() => {
                    let part = random.below(table.base.parts.len());
                    let segments = table.base.parts[part].segments.len();
                    let first = random.below(segments + 1);
                    let range = first..first + random.below(segments + 1 - first);
                    compacting = Some(Compacted::of(&table.base, part, range, &allocators(), &Serial).unwrap());
                }
                7 if compacting.is_some() => {
                    let compacted = compacting.take().unwrap();
                    let Some(base) = compacted.within(&table.base, &Allocator::unplaced()).unwrap() else {
                        given_up += 1;
                        continue;
                    };
                    table.settle(&mut random);
                    table.delta = table.delta.moved(&compacted, &table.base).unwrap();
                    table.base = base;
                    moved += 1;
                    table.check(&mut random);
                }
                8 if random.one_in(3) => kept.push((newest(&table.delta), table.base.clone(), table.version())),
                9..=12 if !table.open.is_empty() => table.end(&mut random),
                _ => table.begin(&mut random),
            }
        }
        table.settle(&mut random);
        table.check(&mut random);
        kept.iter().for_each(|(view, base, version)| table.check_view(view, base, *version));
        drop((table, folding, compacting, kept));
        assert_eq!(budget.used_bytes(), 0, "seed {seed}");
    }
    assert!(folded > 100 && given_up > 10 && moved > 50, "{folded} {given_up} {moved}");
}

#[test]
fn a_view_of_another_delta_is_none_before() {
    let mut random = Random::new(5);
    let base = TableVersion::empty(&schema());
    let (one, other) = (Delta::new(schema(), &Budget::unlimited()), Delta::new(schema(), &Budget::unlimited()));
    add(&one, &batch(&[row(0, &mut random)]), &[]);
    let first = newest(&one);
    add(&one, &batch(&[]), &[of_delta(0)]);
    assert!(one.since(&newest(&other), &base).unwrap().is_none());
    assert!(other.since(&first, &base).unwrap().is_none());
    let rest = one.since(&first, &base).unwrap().unwrap();
    assert_eq!((rest.rows(), rest.entries(), rest.dead_base_rows(), rest.newest_seen(9)), (0, 1, 1, 2));
    assert!(one.since(&newest(&one), &base).unwrap().unwrap().is_empty());

    // No memory, for the stamps or for the rows: the state before stays.
    for spare in [0, stamp_bytes(1)] {
        let budget = Budget::new("rows", 40_000);
        let full = Delta::new(schema(), &budget);
        add(&full, &batch(&[row(0, &mut random)]), &[]);
        let first = newest(&full);
        let others = budget.reserve(spare).unwrap();
        while let Ok(Some(write)) = full.write(&batch(&[row(1, &mut random)]), &[]) {
            write.commit(full.newest_seen(u64::MAX) + 1);
        }
        drop(others);
        let (rows, used) = (full.rows(), budget.used_bytes());
        assert!(matches!(full.since(&first, &base), Err(StoreError::Memory(_))));
        assert_eq!((full.rows(), budget.used_bytes(), newest(&full).version()), (rows, used, rows as u64));
    }
}
