//! [`Traffic`]: which bytes of what a statement's tasks touched, on which node they lay, and on which node the task
//! ran.
//!
//! A task keeps a small ledger of its own ([`Task`]), whoever's thread it runs on: operators and columns note what they
//! touch where they touch it ([`note`]). When the task ends, its ledger is added to the statement's traffic under one
//! lock, and each node's sum to the counters of the scheduler. The same notes count for the operator that is being
//! profiled, so there is one place where bytes are counted.
//!
//! Invariants: bytes are counted once, by the task that touches them; nothing is counted for a node that nobody knows;
//! a task within a task of the same statement writes into the outer one's ledger.
//!
//! # Limits
//! Bytes are those of the lines that have to come from memory if no cache holds them: a row that is looked up by its
//! position counts a line. Time is that of whole tasks, waiting included, dealt out over what they touched by bytes.
//! Arrow arrays that expressions make on the way are not counted.
//!
//! Source: what an adaptive placer has to observe, Psaroudakis et al., VLDB 2015, section 7.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arrow::datatypes::{Schema, SchemaRef};
use foldhash::fast::FixedState;
use numa::NodeId;
use parking_lot::Mutex;
use sched::{Hint, Statement, report_bytes};
use storage::DictionaryId;

use super::feedback::{Feedback, Measured, Shape};
use super::places::current_node;
use super::profile::Working;

/// Tables (and earlier columns of them) that an account tells apart.
const TABLES_MAX: usize = 4096;
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
/// What further ones are called.
const OTHERS: &str = "(other tables)";

/// Lines of a task that reads a row by its key, or a column or two.
const LINES_USUAL: usize = 8;

/// Bytes that come from memory at a time.
pub(crate) const LINE_BYTES: u64 = 64;

/// What of a column, or of an operator, is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TouchedComponent {
    /// The codes of a column, or the values of a plain one.
    Codes,
    /// A dictionary's values.
    Dictionary,
    /// An index.
    Index,
    /// Rows that an operator keeps: build sides, groups, rows that are sorted, results.
    Output,
}

impl TouchedComponent {
    /// In lower case, as views show it.
    pub fn name(self) -> &'static str {
        match self {
            TouchedComponent::Codes => "codes",
            TouchedComponent::Dictionary => "dictionary",
            TouchedComponent::Index => "index",
            TouchedComponent::Output => "output",
        }
    }
}

/// What a task does with what it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TouchPhase {
    /// Finds rows that match (VLDB 2015, section 5.2).
    Find,
    /// Reads the columns of rows that were found.
    Materialize,
    /// Looks rows up.
    LookUp,
    /// Keeps rows for later.
    Keep,
}

impl TouchPhase {
    /// In lower case, as views show it.
    pub fn name(self) -> &'static str {
        match self {
            TouchPhase::Find => "find",
            TouchPhase::Materialize => "materialize",
            TouchPhase::LookUp => "look up",
            TouchPhase::Keep => "keep",
        }
    }
}

/// A thing that tasks touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Item {
    /// Which of the statement's tables, as [`Traffic::table`] numbered it.
    pub(crate) table: u32,
    /// Column of the table.
    pub(crate) column: u32,
    /// Part of the table.
    pub(crate) part: u32,
    /// What of it.
    pub(crate) component: TouchedComponent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    item: Item,
    phase: TouchPhase,
    /// Where the bytes lie.
    from: NodeId,
    /// Where the task runs.
    to: Option<NodeId>,
}

/// Bytes and time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    /// Bytes.
    pub bytes: u64,
    /// Time that tasks took, in nanoseconds.
    pub busy_ns: u64,
    /// Tasks that touched it.
    pub tasks: u64,
}

impl Touched {
    fn add(&mut self, other: &Touched) {
        self.bytes += other.bytes;
        self.busy_ns += other.busy_ns;
        self.tasks += other.tasks;
    }
}

/// One line of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficLine {
    /// The table, or an operator.
    pub table: Arc<str>,
    /// Its column; `None` of an operator.
    pub column: Option<String>,
    /// Part of the table.
    pub part: u32,
    /// What of it.
    pub component: TouchedComponent,
    /// What was done.
    pub phase: TouchPhase,
    /// The node on which the bytes lie.
    pub from: NodeId,
    /// The node of the task that touched them; `None` where the kernel does not tell.
    pub to: Option<NodeId>,
    /// How much.
    pub touched: Touched,
}

/// What the tasks of a statement, or of all statements, touched.
#[derive(Debug, Default)]
pub struct Traffic {
    state: Mutex<State>,
    /// The account that this one is added to when nobody can add to it any more.
    whole: Option<Arc<Traffic>>,
    /// What tasks cost that it is told of; the larger account's, if there is one.
    feedback: Arc<Feedback>,
}

#[derive(Debug, Default)]
struct State {
    tables: Vec<(Arc<str>, SchemaRef)>,
    lines: HashMap<Key, Touched, FixedState>,
    /// Dictionaries of the columns that a statement reads.
    dictionaries: HashMap<DictionaryId, Arc<dyn DictionaryBytes>, FixedState>,
}

/// A dictionary for whoever reads values of it without its column: who it belongs to and where it lies.
pub(crate) trait DictionaryBytes: std::fmt::Debug + Send + Sync {
    /// All of it, and of so many values.
    fn bytes(&self, values: usize) -> (u64, u64);
    /// Says that the task on this thread touches `n` bytes of it.
    fn note(&self, phase: TouchPhase, bytes: u64);
}

impl Traffic {
    /// A part of a larger account, which gets what is in it when the last task and the statement are done with it.
    pub fn within(whole: Arc<Traffic>) -> Traffic {
        let feedback = Arc::clone(&whole.feedback);
        Traffic { state: Mutex::default(), whole: Some(whole), feedback }
    }

    /// What tasks cost so far, by what they do.
    pub fn feedback(&self) -> &Feedback {
        &self.feedback
    }

    /// What a table or an operator of this number is called.
    pub(crate) fn name_of(&self, number: u32) -> Arc<str> {
        Arc::clone(&self.state.lock().tables[number as usize].0)
    }

    /// The number of a table with these columns; an operator has none.
    pub(crate) fn table(&self, name: &Arc<str>, schema: &SchemaRef) -> u32 {
        self.state.lock().table(name, schema)
    }

    /// Who these dictionaries, of which some may be known, belong to and where they lie.
    pub(crate) fn know_dictionaries<D: DictionaryBytes + 'static>(
        &self,
        dictionaries: impl Iterator<Item = (DictionaryId, impl FnOnce() -> D)>,
    ) {
        let mut state = self.state.lock();
        for (id, of) in dictionaries {
            state.dictionaries.entry(id).or_insert_with(|| Arc::new(of()));
        }
    }

    /// The number of an operator.
    fn operator(&self, name: &str) -> u32 {
        let mut state = self.state.lock();
        match state.tables.iter().position(|(known, schema)| schema.fields().is_empty() && **known == *name) {
            Some(known) => known as u32,
            None => state.table(&name.into(), &Arc::new(Schema::empty())),
        }
    }

    /// Rows that an operator, which is called `what`, has kept.
    pub(crate) fn kept_rows(&self, what: &str, columns: impl Iterator<Item = KeptColumn>) -> KeptRows {
        KeptRows { table: self.operator(what), columns: columns.collect() }
    }

    /// Everything so far, by table, column, part, component, phase and nodes.
    pub fn lines(&self) -> Vec<TrafficLine> {
        let state = self.state.lock();
        let line = |(key, touched): (&Key, &Touched)| {
            let (table, schema) = &state.tables[key.item.table as usize];
            let column = schema.fields().get(key.item.column as usize).map(|field| field.name().clone());
            (
                key.item.column,
                TrafficLine {
                    table: Arc::clone(table),
                    column,
                    part: key.item.part,
                    component: key.item.component,
                    phase: key.phase,
                    from: key.from,
                    to: key.to,
                    touched: *touched,
                },
            )
        };
        let mut lines: Vec<(u32, TrafficLine)> = state.lines.iter().map(line).collect();
        lines.sort_by(|(a_column, a), (b_column, b)| {
            let rank = |l: &TrafficLine| (l.part, l.component, l.phase, l.from, l.to);
            (&a.table, a_column, rank(a)).cmp(&(&b.table, b_column, rank(b)))
        });
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// Adds what another one has.
    pub fn absorb(&self, other: &Traffic) {
        let other = other.state.lock();
        if other.lines.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let numbers: Vec<u32> = other.tables.iter().map(|(name, schema)| state.table(name, schema)).collect();
        for (key, touched) in &other.lines {
            let item = Item { table: numbers[key.item.table as usize], ..key.item };
            state.lines.entry(Key { item, ..*key }).or_default().add(touched);
        }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if let Some(whole) = self.whole.take() {
            whole.absorb(self);
        }
    }
}

impl State {
    /// Allocations are compared first: those of one table's versions are the same until it is altered.
    fn table(&mut self, name: &Arc<str>, schema: &SchemaRef) -> u32 {
        let known = self.tables.iter().position(|(n, s)| {
            (Arc::ptr_eq(n, name) || n == name) && (Arc::ptr_eq(s, schema) || s.fields() == schema.fields())
        });
        // Tables that come and go would fill the account.
        let known = known.or_else(|| (self.tables.len() > TABLES_MAX).then_some(TABLES_MAX));
        let number = known.unwrap_or_else(|| {
            if self.tables.len() == TABLES_MAX {
                self.tables.push((OTHERS.into(), Arc::new(Schema::empty())));
                return TABLES_MAX;
            }
            self.tables.push((Arc::clone(name), Arc::clone(schema)));
            self.tables.len() - 1
        });
        number as u32
    }
}

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
    lines: Vec<(Item, TouchPhase, NodeId, u64)>,
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
        let near = |line: &&(Item, TouchPhase, NodeId, u64)| here.is_none_or(|here| here == line.2);
        (self.lines.iter().map(|line| line.3).sum(), self.lines.iter().filter(near).map(|line| line.3).sum())
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

/// Says that the task on this thread touches `bytes` of an item that lie on `from`.
pub(crate) fn note(item: Item, phase: TouchPhase, from: NodeId, bytes: u64) {
    if bytes == 0 {
        return;
    }
    LEDGER.with_borrow_mut(|ledger| {
        let Some(ledger) = ledger else { return };
        let same = |line: &&mut (Item, TouchPhase, NodeId, u64)| line.0 == item && line.1 == phase && line.2 == from;
        match ledger.lines.iter_mut().find(same) {
            Some(line) => line.3 += bytes,
            None => ledger.lines.push((item, phase, from, bytes)),
        }
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
            let known = ledger.traffic.state.lock().dictionaries.get(&dictionary).cloned();
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
    let to = current_node();
    let total: u64 = ledger.lines.iter().map(|line| line.3).sum();
    let busy = Duration::as_nanos(&ledger.since.elapsed()) as u64;
    for &(_, _, from, bytes) in &ledger.lines {
        report_bytes(&ledger.statement, from, bytes);
    }
    let mut state = ledger.traffic.state.lock();
    // Most statements of one row have one task, whose lines are all there are.
    if state.lines.is_empty() {
        state.lines.reserve(ledger.lines.len());
    }
    for (item, phase, from, bytes) in ledger.lines {
        let busy_ns = (busy as f64 * (bytes as f64 / total as f64)) as u64;
        let touched = Touched { bytes, busy_ns, tasks: 1 };
        state.lines.entry(Key { item, phase, from, to }).or_default().add(&touched);
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn item(table: u32, column: u32) -> Item {
        Item { table, column, part: 0, component: TouchedComponent::Codes }
    }

    #[test]
    fn accounts_add_up_by_name_and_nodes() {
        let (one, other) = (Traffic::default(), Traffic::default());
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let line = |traffic: &Traffic, name: &Arc<str>, column, from, bytes| {
            let item = item(traffic.table(name, &schema), column);
            let key = Key { item, phase: TouchPhase::Find, from: NodeId(from), to: Some(NodeId(0)) };
            let touched = Touched { bytes, busy_ns: 1, tasks: 1 };
            traffic.state.lock().lines.entry(key).or_default().add(&touched);
        };
        line(&one, &a, 0, 0, 10);
        line(&other, &b, 0, 1, 5);
        line(&other, &a, 0, 0, 7);
        one.absorb(&other);
        let found: Vec<(String, u64)> =
            one.lines().into_iter().map(|l| (format!("{} {}", l.table, l.from.0), l.touched.bytes)).collect();
        assert_eq!(found, [("a 0".to_string(), 17), ("b 1".to_string(), 5)]);
    }

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
        note(item(0, 0), TouchPhase::Find, NodeId(0), 100);
        assert!(LEDGER.with_borrow(|ledger| ledger.is_none()));
    }
}
