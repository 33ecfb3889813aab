//! Rows that transactions hold, against a list of who holds which.

use super::*;

const KINDS: [RowHold; 5] = [RowHold::KeyShare, RowHold::Share, RowHold::NoKeyUpdate, RowHold::Update, RowHold::Death];

/// Which kinds go together, as PostgreSQL's manual has it (13.3.2).
fn goes_with(a: RowHold, b: RowHold) -> bool {
    const TABLE: [[bool; 5]; 5] = [
        [true, true, true, false, false],
        [true, true, false, false, false],
        [true, false, false, false, false],
        [false; 5],
        [false; 5],
    ];
    TABLE[a as usize][b as usize]
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    holder: u64,
    step: u64,
    kind: RowHold,
    row: TableRow,
}

/// A delta over a base of ten rows, with ten rows of its own, and who holds what.
struct Model {
    delta: Arc<Delta>,
    base: TableVersion,
    rows: Vec<TableRow>,
    held: Vec<Held>,
    dead: Vec<TableRow>,
}

impl Model {
    fn new(random: &mut Random) -> Model {
        let of = |from: i64, random: &mut Random| (from..from + 10).map(|id| row(id, random)).collect::<Vec<Row>>();
        let base = TableVersion::empty(&schema()).with_appended_parts(vec![part(&of(0, random))]);
        let delta = Delta::new(schema(), &Budget::unlimited());
        add(&delta, &batch(&of(10, random)), &[]);
        let of_base = (0..10).map(|row| TableRow::Base { segment: 0, row });
        Model { delta, base, rows: of_base.chain((0..10).map(of_delta)).collect(), held: Vec::new(), dead: Vec::new() }
    }

    fn of<'a>(&'a self, row: &'a TableRow) -> impl Iterator<Item = &'a Held> {
        self.held.iter().filter(move |held| held.row == *row)
    }

    fn can_hold(&self, holder: u64, kind: RowHold, row: &TableRow) -> bool {
        let stands_against = |held: &Held| match held.holder == holder {
            true => kind == RowHold::Death && held.kind == kind,
            false => !goes_with(kind, held.kind),
        };
        !self.dead.contains(row) && !self.of(row).any(stands_against)
    }

    fn hold(&mut self, holder: u64, step: u64, random: &mut Random) {
        let kind = random.pick(&KINDS);
        let most = random.pick(&[1, 1, 2, 4]);
        let rows: Vec<TableRow> = (0..most).map(|_| random.pick(&self.rows)).collect();
        let holds = self.delta.hold(holder, step, kind, &rows).unwrap();
        assert_eq!(holds, rows.iter().all(|row| self.can_hold(holder, kind, row)), "{kind:?} of {rows:?}");
        if holds {
            self.held.extend(rows.iter().map(|row| Held { holder, step, kind, row: *row }));
        }
    }

    fn commit(&mut self, holder: u64) {
        let taken: Vec<Held> =
            self.held.iter().filter(|held| held.holder == holder && held.kind == RowHold::Death).copied().collect();
        self.delta.take_held(holder).unwrap().commit(self.delta.newest_seen(u64::MAX) + 1);
        self.delta.release_held(holder, 0);
        self.dead.extend(taken.iter().map(|held| held.row));
        self.held.retain(|held| held.holder != holder);
    }

    fn release(&mut self, holder: u64, after_step: u64) {
        self.delta.release_held(holder, after_step);
        self.held.retain(|held| held.holder != holder || held.step <= after_step);
    }

    fn check(&self) {
        for row in &self.rows {
            let is_held = self.of(row).next().is_some();
            for holder in 0..4 {
                let taken = |held: &Held| held.holder == holder && held.kind == RowHold::Death;
                assert_eq!(self.delta.is_taken(*row, holder), self.of(row).any(taken), "{row:?}");
                let taker = self.delta.taker_of(&[*row], Some(holder));
                let takes = |held: &&Held| held.holder != holder && held.kind == RowHold::Death;
                assert_eq!(taker, self.of(row).find(takes).map(|held| held.holder), "{row:?}");
                for kind in KINDS {
                    let against = |held: &Held| held.holder != holder && !goes_with(kind, held.kind);
                    let expected = self.of(row).any(against);
                    let found = self.delta.holder_of(&[*row], Some(holder), kind);
                    assert_eq!(found.is_some(), expected, "{row:?} as {kind:?} of {holder}: {:?}", self.held);
                }
            }
            // Who writes without a transaction.
            let write = self.delta.write(&batch(&[]), &[*row]).unwrap();
            assert_eq!(write.is_some(), !is_held && !self.dead.contains(row), "{row:?}: {:?}", self.held);
            assert_eq!(self.delta.is_live(*row, &self.base, u64::MAX), !self.dead.contains(row), "{row:?}");
        }
        assert_eq!(self.delta.has_holds(), !self.held.is_empty());
    }
}

#[test]
fn rows_are_held_as_their_kinds_go_together() {
    for seed in 0..80 {
        let mut random = Random::new(seed);
        let mut model = Model::new(&mut random);
        for step in 1..40 {
            let holder = random.below(3) as u64;
            match random.below(8) {
                0 => model.commit(holder),
                1 => model.release(holder, 0),
                2 => model.release(holder, random.below(step as usize) as u64),
                3 => {
                    // Another delta over the same base takes over what is held.
                    let seen = model.delta.view(0);
                    let next = model.delta.since(&seen, &model.base).unwrap().expect("all of it has a place");
                    model.delta = next;
                }
                _ => model.hold(holder, step, &mut random),
            }
            model.check();
        }
    }
}

#[test]
fn which_kinds_go_together_is_postgresqls_table() {
    for a in KINDS {
        for b in KINDS {
            assert_eq!(a.goes_with(b), goes_with(a, b), "{a:?} with {b:?}");
        }
    }
}
