//! [`Traffic`]: which bytes of what a statement's tasks touched, on which node they lay, and on which node the task
//! ran.
//!
//! A task keeps a small [ledger](ledger) of its own. When the task ends, its ledger is added to the statement's
//! traffic under one lock, and when the statement ends, its traffic to that of all statements. That one has several
//! parts, each with a lock of its own; a thread always adds to the same one.
//!
//! Invariants: bytes are counted once, by the task that touches them; nothing is counted for a node that nobody knows;
//! a task within a task of the same statement writes into the outer one's ledger; numbers of tables are those of a
//! part.
//!
//! # Limits
//! Bytes are those of the lines that have to come from memory if no cache holds them: a row that is looked up by its
//! position counts a line. Time is that of whole tasks, waiting included, dealt out over what they touched by bytes.
//! Arrow arrays that expressions make on the way are not counted.
//!
//! Source: what an adaptive placer has to observe, Psaroudakis et al., VLDB 2015, section 7.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow::datatypes::{Schema, SchemaRef};
use foldhash::fast::FixedState;
use numa::NodeId;
use parking_lot::{Mutex, MutexGuard};
use storage::DictionaryId;

use super::feedback::Feedback;
use super::places::current_node;

mod ledger;
mod together;

pub(crate) use ledger::{
    GROUPS, JOIN_TABLES, KeptColumn, KeptRows, LookUps, ROWS_KEPT, ROWS_SEEN, SORT_KEYS, Task, WINDOW_RESULTS,
    add_line, is_untypical, note, note_kept, note_kept_read, note_values,
};
use together::ColumnSets;
pub use together::TouchedTogether;

/// Tables (and earlier columns of them) that an account tells apart, and each of its parts: which of more are told
/// apart hangs on the threads that read them.
const TABLES_MAX: usize = 4096;
/// Parts of an account of all statements.
const PARTS_MAX: usize = 64;
/// What further ones are called.
const OTHERS: &str = "(other tables)";

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

/// Bytes of an item that a task touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: Item,
    pub(crate) phase: TouchPhase,
    /// Where they lie.
    pub(crate) from: NodeId,
    pub(crate) bytes: u64,
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
    first: Part,
    /// Further parts, so that threads do not wait for each other: of an account of all statements.
    others: Box<[Part]>,
    /// The account that this one is added to when nobody can add to it any more.
    whole: Option<Arc<Traffic>>,
    /// What tasks cost that it is told of; the larger account's, if there is one.
    feedback: Arc<Feedback>,
}

/// What some threads have added, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    tables: Vec<(Arc<str>, SchemaRef)>,
    /// Numbers of the tables of a name: one of each that had other columns.
    named: HashMap<Arc<str>, Vec<u32>, FixedState>,
    lines: HashMap<Key, Touched, FixedState>,
    together: ColumnSets,
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
    /// An account of all statements, which about `n` threads add to at a time.
    pub fn of_all(n: usize) -> Traffic {
        let others = n.next_power_of_two().min(PARTS_MAX) - 1;
        let others = (0..others).map(|_| Part::default()).collect();
        Traffic { first: Part::default(), others, whole: None, feedback: Arc::default() }
    }

    /// A part of a larger account, which gets what is in it when the last task and the statement are done with it.
    pub fn within(whole: Arc<Traffic>) -> Traffic {
        let feedback = Arc::clone(&whole.feedback);
        Traffic { first: Part::default(), others: Box::default(), whole: Some(whole), feedback }
    }

    /// The part that this thread adds to: numbers of tables are those of one part, so tasks of a statement have one.
    fn part(&self) -> MutexGuard<'_, State> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static THREAD: usize = THREADS.fetch_add(1, Relaxed);
        }
        let place = if self.others.is_empty() { 0 } else { THREAD.with(|n| n % (self.others.len() + 1)) };
        place.checked_sub(1).map_or(&self.first, |place| &self.others[place]).0.lock()
    }

    /// What tasks cost so far, by what they do.
    pub fn feedback(&self) -> &Feedback {
        &self.feedback
    }

    /// What a table or an operator of this number is called.
    pub(crate) fn name_of(&self, number: u32) -> Arc<str> {
        Arc::clone(&self.first.0.lock().tables[number as usize].0)
    }

    /// The number of a table with these columns; an operator has none.
    pub(crate) fn table(&self, name: &Arc<str>, schema: &SchemaRef) -> u32 {
        self.first.0.lock().table(name, schema)
    }

    /// Who these dictionaries, of which some may be known, belong to and where they lie.
    pub(crate) fn know_dictionaries<D: DictionaryBytes + 'static>(
        &self,
        dictionaries: impl Iterator<Item = (DictionaryId, impl FnOnce() -> D)>,
    ) {
        let mut state = self.first.0.lock();
        for (id, of) in dictionaries {
            state.dictionaries.entry(id).or_insert_with(|| Arc::new(of()));
        }
    }

    /// The number of an operator.
    fn operator(&self, name: &str) -> u32 {
        let mut state = self.first.0.lock();
        match state.tables.iter().position(|(known, schema)| schema.fields().is_empty() && **known == *name) {
            Some(known) => known as u32,
            None => state.table(name, &Arc::new(Schema::empty())),
        }
    }

    /// Rows that an operator, which is called `what`, has kept.
    pub(crate) fn kept_rows(&self, what: &str, columns: impl Iterator<Item = KeptColumn>) -> KeptRows {
        KeptRows::new(self.operator(what), columns.collect())
    }

    /// Everything so far, by table, column, part, component, phase and nodes.
    pub fn lines(&self) -> Vec<TrafficLine> {
        let state = self.sum();
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

    /// Nanoseconds that threads were busy for all of it.
    pub fn busy_ns(&self) -> u64 {
        let of = |part: &Part| part.0.lock().lines.values().map(|touched| touched.busy_ns).sum::<u64>();
        std::iter::once(&self.first).chain(&self.others).map(of).sum()
    }

    /// Columns that the same tasks touched so far, by table and set of columns. Of rows that were found by their key
    /// nothing is told: who reads those runs near no node.
    pub fn together(&self) -> Vec<TouchedTogether> {
        let state = self.sum();
        state.together.told(&state.tables)
    }

    fn sum(&self) -> State {
        let mut state = State::default();
        for part in std::iter::once(&self.first).chain(&self.others) {
            state.absorb(&part.0.lock());
        }
        state
    }

    /// Adds what another one has.
    pub fn absorb(&self, other: &Traffic) {
        for part in std::iter::once(&other.first).chain(&other.others) {
            let part = part.0.lock();
            if !part.lines.is_empty() {
                self.part().absorb(&part);
            }
        }
    }

    /// Adds what a task on this thread touched in `busy_ns` nanoseconds; numbers of tables are those of
    /// [`table`](Self::table).
    fn add(&self, lines: &[Line], busy_ns: u64) {
        let mut state = self.first.0.lock();
        // Most statements of one row have one task, whose lines are all there are.
        if state.lines.is_empty() {
            state.lines.reserve(lines.len());
        }
        state.add(lines, busy_ns, |item| item);
        state.together.add(lines);
    }

    /// As [`add`](Self::add), of one table, which has no number yet.
    pub(crate) fn add_of_table(&self, (name, schema): (&str, &SchemaRef), lines: &[Line], busy_ns: u64) {
        let mut state = self.part();
        let table = state.table(name, schema);
        state.add(lines, busy_ns, |item| Item { table, ..item });
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
    fn table(&mut self, name: &str, schema: &SchemaRef) -> u32 {
        let of_name = self.named.get(name).into_iter().flatten().copied();
        let same = |n: &u32| {
            let known = &self.tables[*n as usize].1;
            Arc::ptr_eq(known, schema) || known.fields() == schema.fields()
        };
        if let Some(known) = of_name.into_iter().find(same) {
            return known;
        }
        // Tables that come and go would fill the account.
        let (name, schema) = match self.tables.len() {
            ..TABLES_MAX => (Arc::from(name), Arc::clone(schema)),
            TABLES_MAX => (OTHERS.into(), Arc::new(Schema::empty())),
            _ => return TABLES_MAX as u32,
        };
        let number = self.tables.len() as u32;
        self.named.entry(Arc::clone(&name)).or_default().push(number);
        self.tables.push((name, schema));
        number
    }

    /// Adds a task's lines.
    fn add(&mut self, lines: &[Line], busy_ns: u64, numbered: impl Fn(Item) -> Item) {
        let to = current_node();
        let total: u64 = lines.iter().map(|line| line.bytes).sum();
        for line in lines {
            let busy_ns = (busy_ns as f64 * (line.bytes as f64 / total as f64)) as u64;
            let touched = Touched { bytes: line.bytes, busy_ns, tasks: 1 };
            let key = Key { item: numbered(line.item), phase: line.phase, from: line.from, to };
            self.lines.entry(key).or_default().add(&touched);
        }
    }

    fn absorb(&mut self, other: &State) {
        let numbers: Vec<u32> = other.tables.iter().map(|(name, schema)| self.table(name, schema)).collect();
        self.together.absorb(&other.together, &numbers);
        for (key, touched) in &other.lines {
            let item = Item { table: numbers[key.item.table as usize], ..key.item };
            self.lines.entry(Key { item, ..*key }).or_default().add(touched);
        }
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
            traffic.first.0.lock().lines.entry(key).or_default().add(&touched);
        };
        line(&one, &a, 0, 0, 10);
        line(&other, &b, 0, 1, 5);
        line(&other, &a, 0, 0, 7);
        one.absorb(&other);
        let found: Vec<(String, u64)> =
            one.lines().into_iter().map(|l| (format!("{} {}", l.table, l.from.0), l.touched.bytes)).collect();
        assert_eq!(found, [("a 0".to_string(), 17), ("b 1".to_string(), 5)]);
    }
}
