//! What one task touches, on its thread, until it ends.
//!
//! Operators and columns note what they touch where they touch it ([`note`]), whoever's thread they run on. The same
//! notes count for the operator that is being profiled, so there is one place where bytes are counted.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use numa::NodeId;
use sched::{Hint, Statement, report_bytes};
use storage::DictionaryId;

use super::{DictionaryBytes, Item, LINE_BYTES, Line, TouchPhase, TouchedComponent, Traffic};
use crate::tasks::feedback::{Measured, Shape};
use crate::tasks::places::current_node;
use crate::tasks::profile::Working;

/// Rows that a join, a sort, a limit or a window keeps.
pub(crate) const ROWS_KEPT: &str = "rows kept";
/// Groups of an aggregation, and what their states hold.
pub(crate) const GROUPS: &str = "groups";
/// What a join finds its rows by.
pub(crate) const JOIN_TABLES: &str = "join tables";
/// Rows of a recursion that came before, of UNION.
pub(crate) const ROWS_SEEN: &str = "rows seen";
/// What windows give for each row.
pub(crate) const WINDOW_RESULTS: &str = "window results";
/// Keys that are put in order.
pub(crate) const SORT_KEYS: &str = "sort keys";
/// Lines of a task that reads a row by its key, or a column or two.
const LINES_USUAL: usize = 8;

/// Where rows that are kept lie, and how wide they are, by column: for whoever reads some of them.
#[derive(Debug, Clone)]
pub(crate) struct KeptRows {
    table: u32,
    columns: Arc<[KeptColumn]>,
}

/// A column of kept rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptColumn {
    /// All of it.
    pub(crate) bytes: u64,
    /// How many values that are.
    pub(crate) rows: usize,
    /// The node of the task that wrote it.
    pub(crate) node: Option<NodeId>,
}

impl KeptRows {
    pub(super) fn new(table: u32, columns: Arc<[KeptColumn]>) -> KeptRows {
        KeptRows { table, columns }
    }

    /// Says that the task on this thread reads some rows of a column: consecutive ones, or each by its number.
    pub(crate) fn read(&self, column: usize, rows: usize, by_number: bool) {
        let KeptColumn { bytes: all, rows: of, node } = self.columns[column];
        let (Some(node), true) = (node, of > 0) else { return };
        let width = all as f64 / of as f64;
        let bytes = if by_number { width.max(LINE_BYTES as f64) } else { width } * rows as f64;
        let item = Item { table: self.table, column: 0, part: 0, component: TouchedComponent::Output };
        note(item, TouchPhase::Materialize, node, (bytes as u64).min(all));
    }

    /// Says that the task on this thread copies some of the rows; where the copies, of so many bytes by column, lie.
    pub(crate) fn written_again(&self, rows: usize, bytes: impl Iterator<Item = u64>) -> KeptRows {
        let node = current_node();
        let columns: Arc<[KeptColumn]> = bytes.map(|bytes| KeptColumn { bytes, rows, node }).collect();
        let item = Item { table: self.table, column: 0, part: 0, component: TouchedComponent::Output };
        if let Some(here) = node {
            note(item, TouchPhase::Keep, here, columns.iter().map(|column| column.bytes).sum());
        }
        KeptRows { table: self.table, columns }
    }
}

/// What one task touched so far.
struct Ledger {
    traffic: Arc<Traffic>,
    statement: Arc<Statement>,
    since: Instant,
    lines: Vec<Line>,
    /// Numbers of operators that it has kept something for.
    operators: Vec<(&'static str, u32)>,
    /// Bytes that it looked up so far, by the number of [`LookUps`].
    looked_up: Vec<(u64, u64)>,
    /// Dictionaries that it took values of, and the bytes of those so far.
    taken: Vec<TakenValues>,
    /// What it cost says nothing of others of its shape.
    untypical: bool,
}

type TakenValues = (DictionaryId, Option<Arc<dyn DictionaryBytes>>, u64);

/// What a task was expected to cost when it began.
struct Expected {
    shape: Arc<Shape>,
    hint: Hint,
    since: Instant,
    /// What its ledger held by then, if the task is part of another.
    bytes: u64,
    bytes_near: u64,
}

impl Ledger {
    /// All bytes so far, and those that are on the node of this thread.
    fn bytes(&self) -> (u64, u64) {
        let here = current_node();
        let near = |line: &&Line| here.is_none_or(|here| here == line.from);
        (bytes_of(self.lines.iter()), bytes_of(self.lines.iter().filter(near)))
    }

    fn operator(&mut self, name: &'static str) -> u32 {
        if let Some((_, number)) = self.operators.iter().find(|(known, _)| *known == name) {
            return *number;
        }
        let number = self.traffic.operator(name);
        self.operators.push((name, number));
        number
    }
}

thread_local! {
    static LEDGER: RefCell<Option<Ledger>> = const { RefCell::new(None) };
}

/// While it lives, what this thread notes belongs to one task.
pub(crate) struct Task {
    /// The task is part of another on this thread.
    inner: bool,
    /// What the task of another statement noted that waits below this one on the thread's stack.
    waiting: Option<Ledger>,
    expected: Option<Expected>,
}

impl Task {
    /// A task of a statement begins on this thread. Others of its shape, if it has one, learn from what it costs beside
    /// its hint.
    pub(crate) fn begin(
        traffic: &Arc<Traffic>,
        statement: &Arc<Statement>,
        expected: Option<(Arc<Shape>, Hint)>,
    ) -> Task {
        let since = Instant::now();
        LEDGER.with_borrow_mut(|ledger| {
            let inner = ledger.as_ref().filter(|known| Arc::ptr_eq(&known.traffic, traffic));
            let (bytes, bytes_near) = match (inner, &expected) {
                (Some(ledger), Some(_)) => ledger.bytes(),
                _ => (0, 0),
            };
            let expected = expected.map(|(shape, hint)| Expected { shape, hint, since, bytes, bytes_near });
            if inner.is_some() {
                return Task { inner: true, waiting: None, expected };
            }
            let (traffic, statement) = (Arc::clone(traffic), Arc::clone(statement));
            let own = Ledger {
                traffic,
                statement,
                since,
                lines: Vec::with_capacity(LINES_USUAL),
                operators: Vec::new(),
                looked_up: Vec::new(),
                taken: Vec::new(),
                untypical: false,
            };
            Task { inner: false, waiting: ledger.replace(own), expected }
        })
    }
}

impl Expected {
    /// The task has ended.
    fn learn(self) {
        let (bytes, near) = LEDGER
            .with_borrow(|ledger| ledger.as_ref().filter(|ledger| !ledger.untypical).map_or((0, 0), Ledger::bytes));
        let measured = Measured {
            bytes: bytes.saturating_sub(self.bytes),
            bytes_near: near.saturating_sub(self.bytes_near),
            busy_ns: Duration::as_nanos(&self.since.elapsed()) as u64,
        };
        // Whoever came too late to do anything says nothing of those that do.
        if measured.bytes > 0 {
            self.shape.observe(self.hint, measured);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // A task that failed in the middle would teach the wrong thing.
        if let Some(expected) = self.expected.take().filter(|_| !std::thread::panicking()) {
            expected.learn();
        }
        if !self.inner {
            let own = LEDGER.with_borrow_mut(|ledger| std::mem::replace(ledger, self.waiting.take()));
            settle(own);
        }
    }
}

fn bytes_of<'a>(lines: impl Iterator<Item = &'a Line>) -> u64 {
    lines.map(|line| line.bytes).sum()
}

/// Adds a line to those of a task, of which there are few.
pub(crate) fn add_line(lines: &mut Vec<Line>, more: Line) {
    let same = |line: &&mut Line| line.item == more.item && line.phase == more.phase && line.from == more.from;
    match lines.iter_mut().find(same) {
        Some(line) => line.bytes += more.bytes,
        None => lines.push(more),
    }
}

/// Says that the task on this thread touches `bytes` of an item that lie on `from`.
pub(crate) fn note(item: Item, phase: TouchPhase, from: NodeId, bytes: u64) {
    if bytes == 0 {
        return;
    }
    LEDGER.with_borrow_mut(|ledger| {
        let Some(ledger) = ledger else { return };
        add_line(&mut ledger.lines, Line { item, phase, from, bytes });
    });
    if let Some(operator) = Working::now() {
        operator.add_bytes(bytes, current_node().is_none_or(|here| here == from));
    }
}

/// Says that the task on this thread does what is others' work, or has others do its own: nobody learns from it.
pub(crate) fn is_untypical() {
    LEDGER.with_borrow_mut(|ledger| {
        if let Some(ledger) = ledger {
            ledger.untypical = true;
        }
    });
}

/// Says that the task on this thread keeps `bytes` for an operator, which is called `what`. New memory lies where it is
/// first written.
pub(crate) fn note_kept(what: &'static str, bytes: u64) {
    let table = LEDGER.with_borrow_mut(|ledger| ledger.as_mut().map(|ledger| ledger.operator(what)));
    let (Some(table), Some(here), true) = (table, current_node(), bytes > 0) else { return };
    let item = Item { table, column: 0, part: 0, component: TouchedComponent::Output };
    note(item, TouchPhase::Keep, here, bytes);
}

/// Says that the task on this thread reads `bytes` that lie on `node` and that an operator, which is called `what`, has
/// kept.
pub(crate) fn note_kept_read(what: &'static str, node: Option<NodeId>, bytes: u64) {
    let table = LEDGER.with_borrow_mut(|ledger| ledger.as_mut().map(|ledger| ledger.operator(what)));
    let (Some(table), Some(node)) = (table, node) else { return };
    let item = Item { table, column: 0, part: 0, component: TouchedComponent::Output };
    note(item, TouchPhase::Materialize, node, bytes);
}

/// Says that the task on this thread takes `values` values out of a dictionary: at most all of it, however often it
/// comes. Nothing of dictionaries that no scan of the statement has made known, as those of rows of functions.
pub(crate) fn note_values(dictionary: DictionaryId, phase: TouchPhase, values: usize) {
    let touched = LEDGER.with_borrow_mut(|ledger| {
        let ledger = ledger.as_mut()?;
        let place = ledger.taken.iter().position(|(known, ..)| *known == dictionary).unwrap_or_else(|| {
            let known = ledger.traffic.first.0.lock().dictionaries.get(&dictionary).cloned();
            ledger.taken.push((dictionary, known, 0));
            ledger.taken.len() - 1
        });
        let (_, known, so_far) = &mut ledger.taken[place];
        let known = known.clone()?;
        let (all, taken) = known.bytes(values);
        let more = taken.min(all.saturating_sub(*so_far));
        *so_far += more;
        Some((known, more))
    });
    if let Some((known, bytes)) = touched {
        known.note(phase, bytes);
    }
}

/// Something that an operator keeps and that tasks look rows up in.
#[derive(Debug)]
pub(crate) struct LookUps {
    number: u64,
    what: &'static str,
    /// Where it lies.
    node: Option<NodeId>,
}

impl LookUps {
    /// In what the task on this thread has made for an operator, which is called `what`.
    pub(crate) fn here(what: &'static str) -> LookUps {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        LookUps { number: NUMBERS.fetch_add(1, Relaxed), what, node: current_node() }
    }

    /// Where it lies.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// Says that the task on this thread looks `rows` rows up in it: a line each, and at most all `bytes` of it,
    /// however often the task comes.
    pub(crate) fn note(&self, rows: usize, bytes: u64) {
        let Some(node) = self.node else { return };
        let found = LEDGER.with_borrow_mut(|ledger| {
            let ledger = ledger.as_mut()?;
            let place = ledger.looked_up.iter().position(|(number, _)| *number == self.number).unwrap_or_else(|| {
                ledger.looked_up.push((self.number, 0));
                ledger.looked_up.len() - 1
            });
            let so_far = &mut ledger.looked_up[place].1;
            let more = (rows as u64 * LINE_BYTES).min(bytes.saturating_sub(*so_far));
            *so_far += more;
            (more > 0).then(|| (ledger.operator(self.what), more))
        });
        if let Some((table, more)) = found {
            let item = Item { table, column: 0, part: 0, component: TouchedComponent::Output };
            note(item, TouchPhase::LookUp, node, more);
        }
    }
}

/// Adds what a task noted to its statement's account.
fn settle(ledger: Option<Ledger>) {
    let Some(ledger) = ledger.filter(|ledger| !ledger.lines.is_empty()) else { return };
    let busy_ns = Duration::as_nanos(&ledger.since.elapsed()) as u64;
    for line in &ledger.lines {
        report_bytes(&ledger.statement, line.from, line.bytes);
    }
    ledger.traffic.add(&ledger.lines, busy_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_looks_up_no_more_than_there_is() {
        let traffic: Arc<Traffic> = Arc::default();
        let statement = Statement::new(1, numa::Budget::unlimited());
        let (table, other) = (LookUps::here(JOIN_TABLES), LookUps::here(JOIN_TABLES));
        for _ in 0..3 {
            let _task = Task::begin(&traffic, &statement, None);
            // Ten lines, then as much as is left of 1,000 bytes.
            table.note(10, 1000);
            table.note(10, 1000);
            table.note(10, 1000);
            other.note(1, 5000);
        }
        let lines = traffic.lines();
        if table.node.is_none() {
            return assert!(lines.is_empty(), "nobody knows where it lies");
        }
        let found: Vec<(&str, TouchPhase, u64)> =
            lines.iter().map(|line| (&*line.table, line.phase, line.touched.bytes)).collect();
        assert_eq!(found, [(JOIN_TABLES, TouchPhase::LookUp, 3 * (1000 + LINE_BYTES))]);
    }

    #[test]
    fn what_is_noted_outside_of_a_task_is_nobodys() {
        let item = Item { table: 0, column: 0, part: 0, component: TouchedComponent::Codes };
        note(item, TouchPhase::Find, NodeId(0), 100);
        assert!(LEDGER.with_borrow(|ledger| ledger.is_none()));
    }
}
