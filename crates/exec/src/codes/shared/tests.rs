use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use numa::Allocator;
use random::Random;
use sched::Priority;
use storage::{Column, ColumnAllocator, GRANULE_ROWS, Segment, Serial, Stager, build_part};

use super::rule::APART_MAX;
use super::*;
use crate::codes::ranges::CodeRanges;
use crate::mask::Mask;

/// Different values of the column; each is its code.
const VALUES: u32 = 4096;

/// A segment of one column of values that follow no order.
fn segment(rows: usize) -> Arc<Segment> {
    let mut random = Random::new(rows as u64);
    segment_of(rows, |_| random.below(VALUES as usize))
}

/// A segment of one column of values by row, after one row of each value.
fn segment_of(rows: usize, mut value: impl FnMut(usize) -> usize) -> Arc<Segment> {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
    let value = |row: usize| if row < VALUES as usize { row } else { value(row) };
    let values: Int64Array = (0..rows).map(value).map(|value| value as i64).collect();
    let mut stager = Stager::new(schema.clone(), Allocator::unplaced());
    stager.append(&RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).unwrap()).unwrap();
    let part = build_part(&schema, vec![stager.finish().unwrap()], &[ColumnAllocator::unplaced()], &Serial).unwrap();
    let segment = part.segments[0].segment.clone();
    assert_eq!(segment.column(0).as_coded().unwrap().dictionary().len(), VALUES as usize);
    segment
}

fn looking_for(ranges: impl IntoIterator<Item = Range<u32>>) -> CodeTest {
    CodeTest::new(0, CodeRanges::ascending(ranges, VALUES))
}

fn looking_for_one(range: Range<u32>) -> CodeTest {
    looking_for(std::iter::once(range))
}

/// A few codes from `first` on.
fn few(first: u32) -> CodeTest {
    looking_for_one(first..first + 3)
}

/// What a scan finds by itself.
fn own(column: &Column, rows: Range<usize>, test: &CodeTest) -> Vec<u32> {
    let mut codes = Vec::new();
    column.as_coded().unwrap().unpack(rows.clone(), &mut codes);
    let passing = codes.into_iter().zip(rows).filter(|(code, _)| test.set().meets(*code, *code));
    passing.map(|(_, row)| row as u32).collect()
}

fn rows_of(found: FoundRows, rows: &Range<usize>) -> Vec<u32> {
    let mask = match found {
        FoundRows::Rows(rows) => return rows,
        FoundRows::All => Mask::full(rows.len()),
        FoundRows::Mask(mask) => mask,
    };
    let mut positions = Vec::new();
    mask.positions_in(&(0..rows.len()), rows.start, &mut positions);
    positions
}

struct Fixture {
    segment: Arc<Segment>,
    shared: Arc<SharedScans>,
}

impl Fixture {
    fn new(rows: usize, budget: u64) -> Fixture {
        Fixture::of_segment(segment(rows), SharedScans::bounded(&Budget::unlimited(), budget))
    }

    fn of_segment(segment: Arc<Segment>, shared: SharedScans) -> Fixture {
        Fixture { segment, shared: Arc::new(shared) }
    }

    fn column(&self) -> &Column {
        self.segment.column(0)
    }

    fn granules(&self) -> usize {
        self.segment.rows().div_ceil(GRANULE_ROWS)
    }

    fn statement(&self) -> AttachedScans {
        self.of(Statement::new(1, Budget::unlimited()))
    }

    fn of(&self, statement: Arc<Statement>) -> AttachedScans {
        AttachedScans::new(self.shared.clone(), ScanSharing::On, statement)
    }

    fn attach(&self, statement: &AttachedScans, test: &CodeTest) -> Arc<ScanAttachment> {
        statement.attach(self.column(), test, 0..self.granules()).unwrap()
    }

    fn rows(&self, granule: usize) -> Range<usize> {
        granule * GRANULE_ROWS..((granule + 1) * GRANULE_ROWS).min(self.segment.rows())
    }

    /// Finds the rows of a granule, which have to be the right ones if they are found at all.
    fn find(&self, scan: &ScanAttachment, test: &CodeTest, granule: usize) -> SharedTurn {
        let (rows, column) = (self.rows(granule), self.column().as_coded().unwrap());
        let read = GranuleRead { column, rows: rows.clone(), skips: true, told: &|_| {} };
        let turn = scan.find(granule, &read);
        if let SharedTurn::Taken(found) | SharedTurn::Led(found, _) = &turn {
            assert_eq!(rows_of(found.clone(), &rows), own(self.column(), rows, test), "granule {granule}");
        }
        turn
    }

    fn is_clean(&self) {
        assert_eq!((self.shared.attached(), self.shared.kept_bytes()), (0, 0));
        assert_eq!(self.shared.looked_for.used_bytes(), 0);
    }
}

fn led_for(turn: SharedTurn) -> usize {
    let SharedTurn::Led(_, others) = turn else { panic!("not led: {turn:?}") };
    others
}

#[test]
fn who_comes_late_gets_the_rest_and_reads_the_beginning() {
    let fixture = Fixture::new(5 * GRANULE_ROWS + 100, 1 << 20);
    let (a, b, c) = (fixture.statement(), fixture.statement(), fixture.statement());
    let tests = [few(7), few(8), few(3000)];
    let first = fixture.attach(&a, &tests[0]);
    for granule in 0..2 {
        assert_eq!(fixture.find(&first, &tests[0], granule), SharedTurn::Alone, "nobody else is there");
    }
    let second = fixture.attach(&b, &tests[1]);
    for granule in 2..6 {
        assert_eq!(led_for(fixture.find(&first, &tests[0], granule)), 1);
    }
    assert_eq!(fixture.shared.attached(), 1, "the first has got everything");
    let third = fixture.attach(&c, &tests[2]);
    for granule in 0..2 {
        assert_eq!(led_for(fixture.find(&second, &tests[1], granule)), 1);
    }
    for granule in 2..6 {
        assert!(matches!(fixture.find(&second, &tests[1], granule), SharedTurn::Taken(_)));
    }
    assert!(matches!(fixture.find(&third, &tests[2], 0), SharedTurn::Taken(_)));
    assert!(matches!(fixture.find(&third, &tests[2], 1), SharedTurn::Taken(_)));
    assert_eq!(fixture.shared.kept_bytes(), 0, "all that was kept was taken");
    assert_eq!(fixture.find(&third, &tests[2], 5), SharedTurn::Alone);
    drop((first, second, third));
    fixture.is_clean();
}

#[test]
fn many_scans_are_found_together_and_one_by_one() {
    let fixture = Fixture::new(2 * GRANULE_ROWS + 300, 32 << 20);
    // Few rows, in one range and in several that overlap others', none, most, all but few.
    let mut tests: Vec<CodeTest> = (0..40).map(|i| few(i * 2)).collect();
    tests.push(looking_for([5..6, 9..11, 4000..4002]));
    tests.push(looking_for_one(VALUES - 1..VALUES));
    tests.push(looking_for_one(100..3000));
    tests.push(looking_for([0..50, 60..VALUES]));
    tests.push(looking_for((0..VALUES / 4).map(|i| i * 4..i * 4 + 1)));
    let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
    for granule in 0..3 {
        let leader = granule * 21;
        assert_eq!(led_for(fixture.find(&scans[leader], &tests[leader], granule)), tests.len() - 1);
        for (place, (scan, test)) in scans.iter().zip(&tests).enumerate().filter(|(place, _)| *place != leader) {
            assert!(matches!(fixture.find(scan, test, granule), SharedTurn::Taken(_)), "{place}");
        }
    }
    fixture.is_clean();
}

#[test]
fn what_is_kept_goes_with_whom_it_is_kept_for() {
    let fixture = Fixture::new(3 * GRANULE_ROWS, 1 << 20);
    let statements: Vec<AttachedScans> = (0..3).map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().map(|of| fixture.attach(of, &few(9))).collect();
    for granule in 0..3 {
        assert_eq!(led_for(fixture.find(&scans[0], &few(9), granule)), 2);
    }
    let kept = fixture.shared.kept_bytes();
    assert!(kept > 0);
    statements[1].end();
    assert_eq!((fixture.shared.attached(), fixture.shared.kept_bytes()), (1, kept));
    assert!(matches!(fixture.find(&scans[2], &few(9), 0), SharedTurn::Taken(_)));
    drop(scans);
    fixture.is_clean();
    assert!(statements[1].attach(fixture.column(), &few(9), 0..3).is_none(), "it has ended");
}

#[test]
fn who_stops_is_not_worked_for() {
    let fixture = Fixture::new(GRANULE_ROWS, 1 << 20);
    let (of_first, of_second) = (fixture.statement(), Statement::new(2, Budget::unlimited()));
    let stopped = fixture.of(of_second.clone());
    let (first, second) = (fixture.attach(&of_first, &few(9)), fixture.attach(&stopped, &few(9)));
    of_second.cancel();
    assert_eq!(fixture.find(&first, &few(9), 0), SharedTurn::Alone);
    drop((first, second));
    fixture.is_clean();
}

#[test]
fn a_leader_that_panics_leaves_the_granule_to_the_others() {
    let fixture = Fixture::new(GRANULE_ROWS, 1 << 20);
    let statements: Vec<AttachedScans> = (0..3).map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().map(|of| fixture.attach(of, &few(9))).collect();
    let column = fixture.column().as_coded().unwrap();
    let read = GranuleRead { column, rows: 0..GRANULE_ROWS, skips: true, told: &|_| panic!("the leader fell") };
    assert!(catch_unwind(AssertUnwindSafe(|| scans[0].find(0, &read))).is_err());
    assert_eq!(led_for(fixture.find(&scans[1], &few(9), 0)), 1);
    assert!(matches!(fixture.find(&scans[2], &few(9), 0), SharedTurn::Taken(_)));
    drop(scans);
    fixture.is_clean();
}

#[test]
fn statements_of_another_priority_and_those_short_of_time_keep_to_themselves() {
    let fixture = Fixture::new(2 * GRANULE_ROWS, 1 << 20);
    let urgent = Statement::with_priority(Priority { user: 1, statement_time: 2 }, Budget::unlimited());
    let (usual, urgent) = (fixture.statement(), fixture.of(urgent));
    let (first, other) = (fixture.attach(&usual, &few(1)), fixture.attach(&urgent, &few(1)));
    assert_eq!(fixture.find(&first, &few(1), 0), SharedTurn::Alone);
    assert_eq!(fixture.find(&other, &few(1), 0), SharedTurn::Alone);
    let late = Statement::new(3, Budget::unlimited());
    while late.began().elapsed() < Duration::from_millis(2) {
        std::hint::spin_loop();
    }
    let late_scans = fixture.of(late.clone());
    let slow = fixture.attach(&late_scans, &few(1));
    late.set_deadline(late.began() + 2 * late.began().elapsed().min(Duration::from_secs(1)));
    assert_eq!(fixture.find(&slow, &few(1), 1), SharedTurn::Alone, "more time has passed than is left");
    drop((first, other, slow));
    fixture.is_clean();
}

#[test]
fn results_that_wait_for_the_slow_are_bounded() {
    // Room for the results of one granule, but not of two.
    let fixture = Fixture::new(2 * GRANULE_ROWS, 20_000);
    let test = looking_for((0..VALUES / 8).map(|i| i * 8..i * 8 + 1));
    let statements: Vec<AttachedScans> = (0..4).map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().map(|of| fixture.attach(of, &test)).collect();
    // The expectation lets in as many as there is room for in both granules: one beside the leader.
    assert_eq!(led_for(fixture.find(&scans[0], &test, 0)), 1);
    assert!(fixture.shared.kept_bytes() > 0);
    for (scan, granule) in [(0, 1), (2, 0), (3, 0), (2, 1), (3, 1), (1, 0), (1, 1)] {
        // Right rows or none, whatever has room.
        fixture.find(&scans[scan], &test, granule);
    }
    drop(scans);
    fixture.is_clean();
}

/// What is kept for statements that are about to take it stays; what nobody takes any more gives way.
#[test]
fn results_that_nobody_takes_give_way_to_later_ones() {
    assert!(gives_way(true));
}

#[test]
fn results_for_statements_that_wait_for_their_turn_stay() {
    assert!(!gives_way(false));
}

/// Whether what is kept for a scan that takes nothing goes, for those of another column.
fn gives_way(has_begun: bool) -> bool {
    let fixture = Fixture::new(3 * GRANULE_ROWS, 40_000);
    let test = looking_for((0..VALUES / 16).map(|i| i * 16..i * 16 + 1));
    let sleeping: Vec<AttachedScans> = (0..2).map(|_| fixture.statement()).collect();
    // It has begun, and stops behind the last granule; who has not begun waits for its turn.
    let second = fixture.attach(&sleeping[1], &test);
    if has_begun {
        assert_eq!(fixture.find(&second, &test, 2), SharedTurn::Alone);
    }
    let asleep = [fixture.attach(&sleeping[0], &test), second];
    for granule in 0..2 {
        assert_eq!(led_for(fixture.find(&asleep[0], &test, granule)), 1);
    }
    let kept = fixture.shared.kept_bytes();
    assert!(kept > 30_000, "{kept} bytes");
    // Another column, whose scans look for as much.
    let other = segment(GRANULE_ROWS + 1);
    let read =
        GranuleRead { column: other.column(0).as_coded().unwrap(), rows: 0..GRANULE_ROWS, skips: true, told: &|_| {} };
    let mut rounds = 0;
    let more = loop {
        rounds += 1;
        if rounds == 5000 {
            return false;
        }
        let pair = [fixture.statement(), fixture.statement()];
        let scans = [0, 1].map(|i| pair[i].attach(other.column(0), &test, 0..1).unwrap());
        if let SharedTurn::Led(_, 1) = scans[0].find(0, &read) {
            assert!(matches!(scans[1].find(0, &read), SharedTurn::Taken(_)));
            break fixture.shared.kept_bytes();
        }
        assert!(fixture.shared.kept_bytes() == kept || rounds > 64, "not before it is clear that nobody takes it");
    };
    assert_eq!(more, 0, "all that was asleep went");
    assert!(rounds > 64, "{rounds} refusals come before");
    assert_eq!(fixture.find(&asleep[1], &test, 0), SharedTurn::Alone, "it looks for itself");
    drop(asleep);
    fixture.is_clean();
    true
}

/// Many statements whose results have no room together, the oldest first: between them they test hardly more rows than
/// if each looked for itself.
#[test]
fn results_without_room_do_not_make_work() {
    let granules = 10;
    let segment = segment(granules * GRANULE_ROWS);
    let count = 96;
    // One row in 270.
    let tests: Vec<CodeTest> = (0..count).map(|i| looking_for_one(i * 40..i * 40 + 15)).collect();
    let passes = |budget: u64, lanes: usize| {
        let shared = SharedScans::bounded(&Budget::unlimited(), budget);
        let fixture = Fixture::of_segment(segment.clone(), shared);
        let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
        let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
        let column = fixture.column().as_coded().unwrap();
        let (mut read, mut taken) = (0usize, 0usize);
        // In steps as those of a few workers: each goes on with the oldest statement that nobody is at.
        let mut next = lanes;
        let mut at: Vec<(usize, usize)> = (0..lanes).map(|lane| (lane, 0)).collect();
        while !at.is_empty() {
            for lane in &mut at {
                let (scan, granule) = *lane;
                let rows = fixture.rows(granule);
                match scans[scan].find(granule, &GranuleRead { column, rows, skips: true, told: &|_| {} }) {
                    SharedTurn::Taken(_) => taken += 1,
                    SharedTurn::Led(..) | SharedTurn::Alone => read += 1,
                }
                *lane = (scan, granule + 1);
                if granule + 1 == granules {
                    *lane = (next, 0);
                    next += 1;
                }
            }
            at.retain(|(scan, _)| *scan < scans.len());
        }
        drop(scans);
        fixture.is_clean();
        assert!(budget > 0 || taken == 0);
        assert!(budget < 1 << 20 || taken > 0, "nothing was shared with {budget} bytes");
        // What readers of a pass have is dealt out row by row, kept or not, which takes as long as testing for a third.
        read + fixture.shared.read_for.load(Relaxed) / 3
    };
    let unshared = granules * count as usize;
    for lanes in [1, 2, 5] {
        for budget in [0, 20_000, 100_000, 400_000, 1 << 20] {
            let read = passes(budget, lanes);
            assert!(read <= unshared * 11 / 10, "{read} with {budget} bytes and {lanes} lanes, {unshared} unshared");
        }
        let read = passes(64 << 20, lanes);
        assert!(read * 2 < unshared, "{read} with room for all and {lanes} lanes, {unshared} unshared");
    }
}

#[test]
fn what_was_attached_early_is_taken_over() {
    let fixture = Fixture::new(4 * GRANULE_ROWS, 1 << 20);
    let (leader, later) = (fixture.statement(), fixture.statement());
    later.attach_early(fixture.column(), &few(20), 0..4);
    later.attach_early(fixture.column(), &few(500), 0..4);
    let first = fixture.attach(&leader, &few(10));
    for granule in 0..4 {
        assert_eq!(led_for(fixture.find(&first, &few(10), granule)), 2);
    }
    let taken = later.attach(fixture.column(), &few(20), [0, 1, 3].into_iter()).unwrap();
    assert!(taken.has_little_left());
    later.all_prepared();
    for granule in [3, 0, 1] {
        assert!(matches!(fixture.find(&taken, &few(20), granule), SharedTurn::Taken(_)));
    }
    drop((first, taken));
    fixture.is_clean();
}

/// A code that half of the rows have: scans that look for it look for few codes and find many rows.
#[test]
fn rows_of_a_frequent_code_are_not_dealt_out() {
    let mut random = Random::new(5);
    let hot = segment_of(3 * GRANULE_ROWS, |row| if row % 2 == 0 { 7 } else { random.below(VALUES as usize) });
    let fixture = Fixture::of_segment(hot, SharedScans::default());
    let tests: Vec<CodeTest> = (0..64).map(|i| if i % 4 == 0 { few(20 + i) } else { looking_for_one(7..8) }).collect();
    let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
    for granule in 0..3 {
        let leader = 1 + granule;
        assert!(led_for(fixture.find(&scans[leader], &tests[leader], granule)) > 0);
        // A bit a row of the leader and of the others that are tested on their own; 64 readers have 2 million rows.
        let most = (APART_MAX + 1) * (GRANULE_ROWS / 8 + 64) + 64 * 4 * 200;
        assert!(fixture.shared.kept_bytes() <= most as u64, "{} bytes", fixture.shared.kept_bytes());
        let others = scans.iter().zip(&tests).enumerate().filter(|(place, _)| *place != leader);
        let turns: Vec<(usize, SharedTurn)> =
            others.map(|(place, (scan, test))| (place, fixture.find(scan, test, granule))).collect();
        let led = turns.iter().filter(|(_, turn)| matches!(turn, SharedTurn::Led(..))).count();
        assert!(led <= 64 / APART_MAX, "{led} lead at granule {granule}");
        for (place, turn) in &turns {
            let SharedTurn::Taken(found) = turn else { continue };
            assert_eq!(matches!(found, FoundRows::Mask(_)), place % 4 != 0, "{place}: many rows are bits");
        }
    }
    fixture.is_clean();
}

/// Who has more rows than others, but not too many for all, is found with them.
#[test]
fn many_rows_of_a_scan_that_is_found_together_are_bits() {
    let mut random = Random::new(6);
    let warm = segment_of(GRANULE_ROWS, |row| if row % 20 == 0 { 7 } else { random.below(VALUES as usize) });
    let fixture = Fixture::of_segment(warm, SharedScans::default());
    let tests: Vec<CodeTest> = (0..40).map(|i| few(5 + i * 20)).collect();
    let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
    assert_eq!(led_for(fixture.find(&scans[1], &tests[1], 0)), 39);
    let first = fixture.find(&scans[0], &tests[0], 0);
    assert!(matches!(first, SharedTurn::Taken(FoundRows::Mask(_))), "{first:?}");
    assert!(matches!(fixture.find(&scans[2], &tests[2], 0), SharedTurn::Taken(FoundRows::Rows(_))));
    drop(scans);
    fixture.is_clean();
}

/// Rows in the order of their values: most granules are of one scan's codes, or of none of them.
#[test]
fn bounds_of_granules_decide_for_each_reader() {
    let last = VALUES as usize - 16;
    let sorted = segment_of(4 * GRANULE_ROWS, |row| last + 2 * (row / GRANULE_ROWS) + row % GRANULE_ROWS / 40_000);
    let fixture = Fixture::of_segment(sorted, SharedScans::default());
    let after = |first: u32| looking_for_one(VALUES - 16 + first..VALUES);
    let tests: Vec<CodeTest> = (0..64).map(|i| if i % 8 == 7 { few(i) } else { after(i % 8) }).collect();
    let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
    for granule in [0, 1, 2, 3] {
        let leader = 8 + granule;
        assert!(led_for(fixture.find(&scans[leader], &tests[leader], granule)) > 0);
        let most = (APART_MAX + 1) * (GRANULE_ROWS / 8 + 64) + 64 * 100;
        assert!(fixture.shared.kept_bytes() <= most as u64, "{} bytes", fixture.shared.kept_bytes());
        let (mut all, mut none) = (0, 0);
        for (scan, test) in scans.iter().zip(&tests) {
            match fixture.find(scan, test, granule) {
                SharedTurn::Taken(FoundRows::All) => all += 1,
                SharedTurn::Taken(FoundRows::Rows(rows)) if rows.is_empty() => none += 1,
                _ => {}
            }
        }
        assert!(granule == 0 || none >= 7 && all > 0, "{granule}: {all} have all rows, {none} have none");
    }
    fixture.is_clean();
}

/// What is decided by bounds costs nothing to read.
#[test]
fn a_granule_whose_bounds_decide_is_not_read() {
    let constant = segment_of(2 * GRANULE_ROWS, |_| 9);
    let fixture = Fixture::of_segment(constant, SharedScans::default());
    let tests: Vec<CodeTest> = (0..40).map(|i| few(if i % 2 == 0 { 8 } else { 100 + i })).collect();
    let statements: Vec<AttachedScans> = tests.iter().map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().zip(&tests).map(|(of, test)| fixture.attach(of, test)).collect();
    let column = fixture.column().as_coded().unwrap();
    let read = GranuleRead { column, rows: fixture.rows(1), skips: true, told: &|_| panic!("codes are read") };
    assert_eq!(scans[0].find(1, &read), SharedTurn::Led(FoundRows::All, 39));
    for (place, scan) in scans.iter().enumerate().skip(1) {
        let expected = if place % 2 == 0 { FoundRows::All } else { FoundRows::Rows(Vec::new()) };
        assert_eq!(scan.find(1, &read), SharedTurn::Taken(expected), "{place}");
    }
    drop(scans);
    fixture.is_clean();
}

#[test]
fn a_granule_is_read_once_for_a_scan() {
    let fixture = Fixture::new(4 * GRANULE_ROWS, 1 << 20);
    let statements: Vec<AttachedScans> = (0..3).map(|_| fixture.statement()).collect();
    let (first, waiting) = (fixture.attach(&statements[0], &few(9)), fixture.attach(&statements[1], &few(90)));
    assert!(!waiting.has_little_left());
    for granule in 0..2 {
        assert_eq!(led_for(fixture.find(&first, &few(9), granule)), 1);
    }
    let later = fixture.attach(&statements[2], &few(900));
    for granule in 0..2 {
        assert_eq!(fixture.find(&later, &few(900), granule), SharedTurn::Alone, "the other's rows are kept");
    }
    assert!(!waiting.has_little_left(), "two of four granules were read");
    for granule in 2..4 {
        assert_eq!(led_for(fixture.find(&first, &few(9), granule)), 2);
    }
    assert!(waiting.has_little_left());
    fixture.shared.drop_kept(|_| true);
    assert!(!waiting.has_little_left(), "what was dropped is to be read");
    drop((first, waiting, later));
    fixture.is_clean();
}

/// Results take a small share of the database's memory, and none where it is short of memory.
#[test]
fn results_give_way_to_what_statements_need() {
    let whole = Budget::new("database", 16 << 20);
    let fixture = Fixture::of_segment(segment(3 * GRANULE_ROWS), SharedScans::within(&whole));
    assert_eq!(fixture.shared.results.limit_bytes(), Some(1 << 20));
    assert_eq!(SharedScans::within(&Budget::new("large", 1 << 40)).results.limit_bytes(), Some(RESULT_BYTES_MAX));
    assert_eq!(SharedScans::within(&Budget::unlimited()).results.limit_bytes(), Some(RESULT_BYTES_MAX));
    let statements: Vec<AttachedScans> = (0..3).map(|_| fixture.statement()).collect();
    let scans: Vec<_> = statements.iter().map(|of| fixture.attach(of, &few(9))).collect();
    assert_eq!(led_for(fixture.find(&scans[0], &few(9), 0)), 2);
    assert!(fixture.shared.kept_bytes() > 0);
    let statement = whole.reserve(15 << 20).unwrap();
    assert_eq!(led_for(fixture.find(&scans[0], &few(9), 1)), 0, "nothing is kept");
    assert_eq!(fixture.shared.kept_bytes(), 0, "what was kept went");
    drop(statement);
    assert_eq!(fixture.find(&scans[1], &few(9), 0), SharedTurn::Alone);
    drop(scans);
    fixture.is_clean();
    assert_eq!(whole.used_bytes(), 0);
}

#[test]
fn what_is_gone_is_not_remembered() {
    let fixture = Fixture::new(GRANULE_ROWS, 1 << 20);
    let statement = fixture.statement();
    let stays = fixture.attach(&statement, &few(9));
    (0..1000).for_each(|_| drop(fixture.attach(&statement, &few(10))));
    assert!(statement.remembered() < 20, "{}", statement.remembered());
    statement.end();
    assert_eq!(fixture.shared.attached(), 0, "what is there ends with it");
    drop(stays);
    fixture.is_clean();
}

/// Threads whose statements come and go, with conditions of all kinds: what is found is always what each finds by
/// itself, and nothing stays behind.
#[test]
fn statements_that_come_and_go_find_their_rows() {
    for (seed, budget) in [(1, 32 << 20), (2, 100_000), (3, 3000)] {
        let fixture = &Fixture::new(6 * GRANULE_ROWS + 12_345, budget);
        let (shared_once, all_attached) = (&AtomicBool::new(false), &Barrier::new(8));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let mut random = Random::new(seed * 100 + thread);
                    for _ in 0..12 {
                        let shared = one_statement(fixture, all_attached, &mut random);
                        shared_once.fetch_or(shared, Relaxed);
                    }
                });
            }
        });
        assert!(shared_once.load(Relaxed) || budget < 10_000, "nothing was shared with {budget} bytes");
        fixture.is_clean();
    }
}

/// Whether it took what another found.
fn one_statement(fixture: &Fixture, all_attached: &Barrier, random: &mut Random) -> bool {
    let first = random.below(VALUES as usize - 10) as u32;
    let test = match random.below(6) {
        0 => looking_for_one(first..VALUES),
        1 => looking_for((0..40).map(|i| i * 100..i * 100 + 2)),
        _ => looking_for_one(first..first + 1 + random.below(9) as u32),
    };
    let statement = Statement::new(1, Budget::unlimited());
    let scans = fixture.of(statement.clone());
    if random.one_in(3) {
        scans.attach_early(fixture.column(), &test, 0..fixture.granules());
    }
    let scan = fixture.attach(&scans, &test);
    all_attached.wait();
    let mut granules: Vec<usize> = (0..fixture.granules()).collect();
    granules.rotate_left(random.below(fixture.granules()));
    let stops_after = if random.one_in(4) { random.below(granules.len()) } else { granules.len() };
    let mut shared = false;
    for granule in granules.into_iter().take(stops_after) {
        shared |= matches!(fixture.find(&scan, &test, granule), SharedTurn::Taken(_));
    }
    match random.below(3) {
        0 => statement.cancel(),
        1 => scans.end(),
        _ => {}
    }
    shared
}
