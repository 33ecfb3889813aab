//! Writers and readers in threads: what is told of each version is what whole statements have left.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::*;

/// A writer replaces the row that it wrote before and adds another, so that version `n` has `n` live rows.
#[test]
fn views_are_consolidated_while_rows_are_added() {
    let base = TableVersion::empty(&schema());
    let delta = Delta::new(schema(), &Budget::unlimited());
    let (published, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let versions = 3000;
    let write = || {
        let mut random = Random::new(1);
        for version in 1..=versions {
            let last = delta.rows() as u32;
            let dead: Vec<_> = last.checked_sub(1).map(of_delta).into_iter().collect();
            let rows = [row(i64::from(last), &mut random), row(i64::from(last) + 1, &mut random)];
            let rows = &rows[..if dead.is_empty() { 1 } else { 2 }];
            delta.write(&batch(rows), &dead).unwrap().unwrap().commit(version);
            published.store(version, Ordering::Release);
        }
    };
    let read = || {
        let mut seen = 0;
        while !done.load(Ordering::Acquire) || seen == 0 {
            let version = published.load(Ordering::Acquire);
            let view = delta.view(version);
            let table = consolidated(&view, &base, &Serial);
            assert_eq!((table.rows() as u64, table.version, view.version()), (version, version, version));
            assert!(version >= seen);
            seen = version;
            let mut ids = Vec::new();
            for version in table.segments() {
                let all = version.segment.column(0).slice(0..version.segment.rows());
                ids.extend_from_slice(all.as_primitive::<Int64Type>().values());
            }
            assert!(ids.iter().copied().eq(0..ids.len() as i64), "version {version}");
        }
    };
    beside(&done, vec![&write], vec![&read, &read]);
    assert_eq!((delta.entries(), delta.live_rows()), (versions as usize, versions as usize));
}

/// Readers in threads that go on until the writers are done, whatever becomes of those.
fn beside(done: &AtomicBool, writers: Vec<&(dyn Fn() + Sync)>, readers: Vec<&(dyn Fn() + Sync)>) {
    std::thread::scope(|scope| {
        let writers: Vec<_> = writers.into_iter().map(|write| scope.spawn(write)).collect();
        let readers: Vec<_> = readers.into_iter().map(|read| scope.spawn(read)).collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Release);
        written.into_iter().chain(readers.into_iter().map(|reader| reader.join())).for_each(|ended| ended.unwrap());
    });
}

/// Accounts, each a row, whose amounts are moved from one to the other: two rows die and two are added at once.
struct Bank {
    base: TableVersion,
    delta: Arc<Delta>,
    /// The last version that was committed: who has it commits.
    turn: Mutex<u64>,
    /// What readers are told.
    published: AtomicU64,
}

const ACCOUNTS: i64 = 48;

impl Bank {
    fn new(budget: &Arc<Budget>) -> Bank {
        let rows: Vec<Row> = (0..ACCOUNTS).map(|id| (id, None, Some(1000))).collect();
        let base = TableVersion::empty(&schema()).with_appended(part(&rows));
        Bank { base, delta: Delta::new(schema(), budget), turn: Mutex::new(0), published: AtomicU64::new(0) }
    }

    fn view(&self) -> DeltaView {
        self.delta.view(self.published.load(Ordering::Acquire))
    }

    /// What a view finds, by account: where each is and what it has.
    fn accounts(&self, view: &DeltaView) -> Vec<(i64, i128, TableRow)> {
        let found = places(view, &self.base).into_iter();
        let mut accounts: Vec<_> = found.map(|(row, place)| (row.0, row.2.unwrap(), place)).collect();
        accounts.sort_unstable();
        accounts
    }

    /// Whether it is what whole statements have left.
    fn is_whole(accounts: &[(i64, i128, TableRow)]) -> bool {
        let ids = accounts.iter().map(|account| account.0);
        ids.eq(0..ACCOUNTS) && accounts.iter().map(|account| account.1).sum::<i128>() == i128::from(1000 * ACCOUNTS)
    }

    /// Moves amounts between some of the accounts as they stand in a view. `None` where others were faster.
    fn moves(&self, accounts: &[(i64, i128, TableRow)], random: &mut Random) -> Option<DeltaWrite> {
        let mut some = accounts.to_vec();
        random.shuffle(&mut some);
        some.truncate(random.pick(&[2, 2, 2, 3, ACCOUNTS as usize]));
        let mut rows: Vec<Row> = some.iter().map(|(id, amount, _)| (*id, None, Some(*amount))).collect();
        for to in 1..rows.len() {
            let moved = i128::from(random.between(-50, 50));
            rows[to].2 = rows[to].2.map(|amount| amount + moved);
            rows[0].2 = rows[0].2.map(|amount| amount - moved);
        }
        let dead: Vec<TableRow> = some.iter().map(|account| account.2).collect();
        self.delta.write(&batch(&rows), &dead).unwrap()
    }

    fn commit(&self, write: DeltaWrite) {
        let mut last = self.turn.lock().unwrap();
        *last += 1;
        write.commit(*last);
        self.published.store(*last, Ordering::Release);
    }

    fn write(&self, seed: u64, statements: usize) {
        let mut random = Random::new(seed);
        let (mut committed, mut tries) = (0, 0);
        while committed < statements {
            tries += 1;
            assert!(tries < 1000 * statements, "an account that nobody gets");
            let Some(write) = self.moves(&self.accounts(&self.view()), &mut random) else { continue };
            // Others have time to come between.
            if random.one_in(2) {
                std::thread::yield_now();
            }
            if !random.one_in(6) {
                self.commit(write);
                committed += 1;
            }
        }
    }

    fn read(&self, done: &AtomicBool) {
        let mut kept = Vec::new();
        while !done.load(Ordering::Acquire) || kept.len() < 8 {
            let version = self.published.load(Ordering::Acquire);
            let view = self.delta.view(version);
            let accounts = self.accounts(&view);
            assert_eq!((view.version(), self.delta.newest_seen(version)), (version, version));
            assert!(Bank::is_whole(&accounts), "version {version}: {accounts:?}");
            assert_eq!(self.accounts(&self.delta.view(version)), accounts);
            assert!(accounts.iter().all(|(_, _, place)| self.delta.is_live(*place, &self.base, version)));
            kept.push((view, accounts));
            let (view, accounts) = &kept[kept.len() / 2];
            assert_eq!(self.accounts(view), *accounts);
            if kept.len() > 8 {
                kept.swap_remove(kept.len() / 3);
            }
        }
        kept.iter().for_each(|(view, accounts)| assert_eq!(&self.accounts(view), accounts));
    }
}

#[test]
fn readers_beside_writers_see_whole_statements() {
    let budget = Budget::new("test", u64::MAX);
    let bank = Bank::new(&budget);
    let done = AtomicBool::new(false);
    let seeds = AtomicU64::new(0);
    let write = || bank.write(seeds.fetch_add(1, Ordering::Relaxed), 150);
    let read = || bank.read(&done);
    beside(&done, vec![&write; 4], vec![&read, &read]);
    let (view, delta) = (bank.view(), &bank.delta);
    assert!(Bank::is_whole(&bank.accounts(&view)));
    assert_eq!((delta.entries(), view.version()), (600, 600));
    assert_eq!(bank.base.rows() + delta.live_rows() - delta.dead_base_rows(), ACCOUNTS as usize);
    assert!(view.log.segments() > 1, "{} rows", delta.rows());
    drop((view, bank));
    assert_eq!(budget.used_bytes(), 0);
}

/// That the check above notices statements of which a part is missing.
#[test]
fn half_statements_are_noticed() {
    let bank = Bank::new(&Budget::unlimited());
    let mut random = Random::new(31);
    for _ in 0..20 {
        let before = bank.accounts(&bank.view());
        let write = bank.moves(&before, &mut random).unwrap();
        assert!(Bank::is_whole(&before) && bank.accounts(&bank.view()) == before);
        bank.commit(write);
    }
    let [one, other, ..] = bank.accounts(&bank.view())[..] else { panic!("accounts") };
    let moved = [(one.0, None, Some(one.1 - 5)), (other.0, None, Some(other.1 + 5))];
    let halves = [(&moved[..1], vec![one.2]), (&moved[1..], vec![other.2])];
    for (place, (rows, dead)) in halves.into_iter().enumerate() {
        bank.commit(bank.delta.write(&batch(rows), &dead).unwrap().unwrap());
        assert_eq!(Bank::is_whole(&bank.accounts(&bank.view())), place == 1);
    }
    let [one, ..] = bank.accounts(&bank.view())[..] else { panic!("an account") };
    bank.commit(bank.delta.write(&batch(&[]), &[one.2]).unwrap().unwrap());
    assert!(!Bank::is_whole(&bank.accounts(&bank.view())), "a row has died and none came");
    bank.commit(bank.delta.write(&batch(&[(one.0, None, Some(one.1))]), &[]).unwrap().unwrap());
    assert!(Bank::is_whole(&bank.accounts(&bank.view())));
    assert!(Bank::is_whole(&bank.accounts(&bank.delta.view(20))), "an earlier version is as it was");
}
