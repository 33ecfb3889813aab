//! [`Calls`]: the aggregates of a statement as the states that they need, each kept once.
//!
//! `avg(x)` is the state of `sum(x)` and that of `count(x)`, and the count of a column without NULLs is that of rows,
//! so eight calls of a statement may come down to five loops. A sum is kept in 64 bits as long as the bounds of its
//! column times the rows seen prove that nothing overflows, and in 128 bits from then on.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type, UInt64Type};
use arrow::row::{RowConverter, SortField};

use super::best;
use super::finish::Finish;
use super::groups::{Groups, Pick, add_floats, add_ints, add_one, add_wide, count, for_each_pair, most};
use super::lists::Lists;
use super::ordered::OrderFinish;
use super::ranked::{self, RankFinish};
use super::state::{Distinct, Opaque, PendingRows, State};
use super::store::{Arrival, Store};
use super::table::Table;
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::keys::float::ordered;
use crate::keys::group::{GroupCodec, load, loaded_info};
use crate::plan::{AggregateCall, AggregateFunction, OpaqueAggregate};

/// What a state keeps.
pub(super) enum Op {
    /// Rows.
    Count,
    /// The sum of integers; the largest is that far from 0.
    Sum { largest: u64 },
    /// The sum of decimals or unsigned integers in Arrow arrays.
    SumExact,
    /// The sum of floats.
    SumFloat,
    /// The smallest or largest value, as a number of which the largest counts.
    Most { low: i64, high: i64, smallest: bool },
    /// The smallest or largest value of any other type.
    Bytes { converter: RowConverter, smallest: bool },
    /// A function that this crate does not know.
    Opaque(Arc<dyn OpaqueAggregate>),
    /// Different values, for a call over them.
    Distinct { coder: Box<GroupCodec>, call: Box<Calls> },
    /// All values, as numbers of the same order.
    Numbers,
    /// All rows.
    Rows(Box<Store>),
    /// The first row, or the last one.
    Best { store: Box<Store>, last: bool },
}

/// A state that is kept.
pub(super) struct Kept {
    pub(super) op: Op,
    /// Columns that it reads.
    pub(super) columns: Vec<usize>,
    /// Rows that count, if not all do.
    mask: Option<usize>,
}

/// Rows that count: where no such column is NULL and the filter is TRUE.
#[derive(PartialEq, Eq)]
struct Mask {
    columns: Vec<usize>,
    filter: Option<usize>,
}

/// How a call's result is made; `of` and `counts` are states by number.
pub(super) enum Output {
    /// A count.
    Count { of: usize, field: FieldRef },
    /// A sum; NULL where the count is 0.
    Sum { of: usize, counts: Option<usize>, finish: Finish },
    /// A sum divided by a count.
    Avg { of: usize, counts: usize, finish: Finish },
    /// The smallest or largest value of a column.
    Most { of: usize, counts: Option<usize>, info: ColumnInfo },
    /// Of a function that this crate does not know.
    Opaque { of: usize, field: FieldRef },
    /// A call over different values.
    Distinct { of: usize },
    /// A percentile or the most frequent of numbers.
    Ranked { of: usize, finish: RankFinish },
    /// The first or the last row.
    Best { of: usize, finish: OrderFinish },
    /// Of rows in an order.
    Ordered { of: usize, finish: OrderFinish },
}

/// The aggregates of a statement.
pub(super) struct Calls {
    pub(super) infos: Vec<ColumnInfo>,
    masks: Vec<Mask>,
    pub(super) kept: Vec<Kept>,
    pub(super) outputs: Vec<Output>,
    /// Groups may have no row.
    counted: bool,
}

/// The states of all aggregates.
pub(super) struct States {
    pub(super) states: Vec<State>,
    pub(super) groups: usize,
    rows: u64,
    /// Of the next chunk.
    pub(super) arrival: Arrival,
}

impl States {
    /// Bytes that they hold.
    pub(super) fn bytes(&self) -> u64 {
        self.states.iter().map(State::bytes).sum()
    }

    /// Rows that were added.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// There will have been `n` rows at least.
    pub(super) fn expect_rows(&mut self, rows: u64) {
        self.rows = self.rows.max(rows);
    }
}

impl Calls {
    /// The calls over columns of which `infos` are known; `counted` if there may be groups without a row.
    pub(super) fn new(calls: &[AggregateCall], infos: &[ColumnInfo], counted: bool) -> Result<Calls, ExecError> {
        let infos = infos.iter().map(loaded_info).collect();
        let mut all = Calls { infos, masks: Vec::new(), kept: Vec::new(), outputs: Vec::new(), counted };
        for call in calls {
            let output = match call.distinct && !call.arguments.is_empty() {
                _ if call.function.is_ordered() => all.ordered(call)?,
                true => all.distinct(call)?,
                false => all.plain(call)?,
            };
            all.outputs.push(output);
        }
        Ok(all)
    }

    fn plain(&mut self, call: &AggregateCall) -> Result<Output, ExecError> {
        let mask = self.mask(if call.function.skips_nulls() { &call.arguments } else { &[] }, call.filter);
        let field = call.field.clone();
        let Some(&column) = call.arguments.first().filter(|_| !matches!(call.function, AggregateFunction::Count))
        else {
            return Ok(match &call.function {
                AggregateFunction::Opaque(f) => {
                    Output::Opaque { of: self.keep(Op::Opaque(f.clone()), &[], mask), field }
                }
                _ => Output::Count { of: self.count(mask), field },
            });
        };
        let counted = (self.counted || mask.is_some()).then_some(mask);
        Ok(match &call.function {
            AggregateFunction::CountRows | AggregateFunction::Count => Output::Count { of: self.count(mask), field },
            AggregateFunction::Sum => {
                let of = self.sum(call, column, mask)?;
                let counts = counted.map(|mask| self.count(mask));
                Output::Sum { of, counts, finish: Finish::sum(call)? }
            }
            AggregateFunction::Avg => {
                let of = self.sum(call, column, mask)?;
                let finish = Finish::average(call, self.infos[column].data_type())?;
                Output::Avg { of, counts: self.count(mask), finish }
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let smallest = matches!(call.function, AggregateFunction::Min);
                let of = self.most(column, mask, smallest)?;
                let counts = counted.map(|mask| self.count(mask));
                Output::Most { of, counts, info: ColumnInfo { field, ..self.infos[column].clone() } }
            }
            AggregateFunction::Opaque(f) => {
                Output::Opaque { of: self.keep(Op::Opaque(f.clone()), &call.arguments, mask), field }
            }
            ordered => unreachable!("{ordered:?} is of the order of rows"),
        })
    }

    /// A function of the order of rows.
    fn ordered(&mut self, call: &AggregateCall) -> Result<Output, ExecError> {
        let column = call.arguments[0];
        let mask = self.mask(if call.function.skips_nulls() { &call.arguments } else { &[] }, call.filter);
        if call.function.is_ranked() && !matches!(self.infos[column].kind, ColumnKind::Arrow) {
            let of = self.keep(Op::Numbers, &[column], mask);
            return Ok(Output::Ranked { of, finish: RankFinish::new(call, &self.infos[column]) });
        }
        let store = Store::new(column, &call.order, call.distinct, &self.infos)?;
        let last = match call.function {
            // Of different values the first is the first of all.
            AggregateFunction::Nth { place: 1, .. } => Some(false),
            AggregateFunction::Nth { place: -1, .. } => Some(true),
            _ => None,
        };
        let same = |kept: &mut Kept| match (&mut kept.op, last) {
            (Op::Best { store: known, last: l }, Some(last)) => {
                (*l == last && known.order == store.order && kept.mask == mask).then(|| known.column(column))
            }
            (Op::Rows(known), None) => {
                let equal = known.order == store.order && known.distinct == store.distinct && kept.mask == mask;
                equal.then(|| known.column(column))
            }
            _ => None,
        };
        let known = self.kept.iter_mut().enumerate().find_map(|(of, kept)| Some((of, same(kept)?)));
        let (of, place) = known.unwrap_or_else(|| {
            let op = match last.filter(|_| store.has_words()) {
                Some(last) => Op::Best { store: Box::new(store), last },
                None => Op::Rows(Box::new(store)),
            };
            self.kept.push(Kept { op, columns: Vec::new(), mask });
            (self.kept.len() - 1, 0)
        });
        let finish = OrderFinish::new(call, place);
        Ok(match self.kept[of].op {
            Op::Best { .. } => Output::Best { of, finish },
            _ => Output::Ordered { of, finish },
        })
    }

    fn distinct(&mut self, call: &AggregateCall) -> Result<Output, ExecError> {
        let mask = self.mask(if call.function.skips_nulls() { &call.arguments } else { &[] }, call.filter);
        let coder = Box::new(GroupCodec::new(&call.arguments, &self.infos, 1)?);
        let infos: Vec<ColumnInfo> = call.arguments.iter().map(|&c| self.infos[c].clone()).collect();
        let arguments = (0..infos.len()).collect();
        let inner = AggregateCall { arguments, distinct: false, filter: None, ..call.clone() };
        let inner = Box::new(Calls::new(&[inner], &infos, true)?);
        Ok(Output::Distinct { of: self.keep(Op::Distinct { coder, call: inner }, &call.arguments, mask) })
    }

    fn mask(&mut self, columns: &[usize], filter: Option<usize>) -> Option<usize> {
        let columns: Vec<usize> = columns.iter().copied().filter(|&c| self.infos[c].nullable).collect();
        let mask = Mask { columns, filter };
        if mask.columns.is_empty() && filter.is_none() {
            return None;
        }
        Some(self.masks.iter().position(|m| *m == mask).unwrap_or_else(|| {
            self.masks.push(mask);
            self.masks.len() - 1
        }))
    }

    /// The state of an operation, kept once where it can be told that another one is the same.
    fn keep(&mut self, op: Op, columns: &[usize], mask: Option<usize>) -> usize {
        let same = |kept: &Kept| {
            let op = match (&kept.op, &op) {
                (Op::Opaque(_) | Op::Distinct { .. } | Op::Rows(_) | Op::Best { .. }, _) => false,
                (Op::Most { smallest: a, .. }, Op::Most { smallest: b, .. }) => a == b,
                (Op::Bytes { smallest: a, .. }, Op::Bytes { smallest: b, .. }) => a == b,
                (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
            };
            op && kept.columns == columns && kept.mask == mask
        };
        self.kept.iter().position(same).unwrap_or_else(|| {
            self.kept.push(Kept { op, columns: columns.to_vec(), mask });
            self.kept.len() - 1
        })
    }

    fn count(&mut self, mask: Option<usize>) -> usize {
        self.keep(Op::Count, &[], mask)
    }

    fn sum(&mut self, call: &AggregateCall, column: usize, mask: Option<usize>) -> Result<usize, ExecError> {
        let info = &self.infos[column];
        let op = match (&info.kind, info.data_type()) {
            (ColumnKind::Int { low, high }, _) => Op::Sum { largest: low.unsigned_abs().max(high.unsigned_abs()) },
            (ColumnKind::Float, _) | (_, DataType::Float32 | DataType::Float16) => Op::SumFloat,
            (_, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::UInt64) => {
                Op::SumExact
            }
            (_, other) => {
                let name = call.field.name();
                return Err(ExecError::Evaluation(format!("{name}: no sum over {other} here; cast the argument")));
            }
        };
        Ok(self.keep(op, &[column], mask))
    }

    fn most(&mut self, column: usize, mask: Option<usize>, smallest: bool) -> Result<usize, ExecError> {
        let info = &self.infos[column];
        let op = match &info.kind {
            ColumnKind::Int { low, high } => Op::Most { low: *low, high: *high, smallest },
            ColumnKind::Vid(dictionary) => Op::Most { low: 0, high: dictionary.len() as i64, smallest },
            ColumnKind::Float => Op::Most { low: i64::MIN, high: i64::MAX, smallest },
            ColumnKind::Arrow => {
                let converter = RowConverter::new(vec![SortField::new(info.data_type().clone())])?;
                Op::Bytes { converter, smallest }
            }
        };
        Ok(self.keep(op, &[column], mask))
    }

    /// The state that counts every row, if one does.
    pub(super) fn row_count(&self) -> Option<usize> {
        self.kept.iter().position(|k| matches!(k.op, Op::Count) && k.mask.is_none())
    }

    /// Are there states that cannot be kept as an entry per possible key?
    pub(super) fn needs_dense_groups(&self) -> bool {
        self.kept.iter().any(|k| matches!(k.op, Op::Opaque(_) | Op::Bytes { .. }))
    }

    /// Are there sets of values?
    pub(super) fn has_distinct(&self) -> bool {
        self.kept.iter().any(|k| matches!(k.op, Op::Distinct { .. }))
    }

    /// Are all values or rows of groups kept?
    pub(super) fn has_lists(&self) -> bool {
        self.kept.iter().any(|k| matches!(k.op, Op::Numbers | Op::Rows(_)))
    }

    /// Bytes of a group.
    pub(super) fn group_bytes(&self) -> u64 {
        let of = |k: &Kept| match k.op {
            Op::SumExact => 16,
            Op::Bytes { .. } => 64,
            Op::Best { .. } => best::GROUP_BYTES,
            _ => 8,
        };
        self.kept.iter().map(of).sum()
    }

    /// Bytes that all workers share.
    pub(super) fn shared_bytes(&self) -> u64 {
        let of = |k: &Kept| match &k.op {
            Op::Distinct { coder, .. } => coder.bytes(),
            Op::Rows(store) | Op::Best { store, .. } => store.bytes(),
            _ => 0,
        };
        self.kept.iter().map(of).sum()
    }

    /// Zero for `n` groups, good for `n` rows at once.
    pub(super) fn states(&self, groups: usize, rows: u64) -> Result<States, ExecError> {
        let mut states = Vec::with_capacity(self.kept.len());
        for kept in &self.kept {
            let mut state = match &kept.op {
                Op::Count => State::Count(Vec::new()),
                Op::Sum { largest } if fits(*largest, rows) => State::Sum(Vec::new()),
                Op::Sum { .. } | Op::SumExact => State::Exact(Vec::new(), Vec::new()),
                Op::SumFloat => State::Float(Vec::new()),
                Op::Most { .. } => State::Most(Vec::new()),
                Op::Bytes { .. } => State::Bytes(Vec::new()),
                Op::Opaque(function) => State::Opaque(Opaque {
                    groups: parking_lot::Mutex::new(function.groups()?),
                    pending: PendingRows::default(),
                    total: 0,
                    fed: false,
                }),
                Op::Numbers | Op::Rows(_) => State::Lists(Box::default()),
                Op::Best { .. } => State::Best(Box::default()),
                Op::Distinct { .. } => State::Distinct(Box::new(Distinct {
                    pairs: Table::with_groups(0),
                    encoding: Default::default(),
                    numbers: Vec::new(),
                })),
            };
            state.resize(groups);
            states.push(state);
        }
        Ok(States { states, groups, rows: 0, arrival: Arrival::default() })
    }

    /// More groups.
    pub(super) fn resize(&self, states: &mut States, groups: usize) {
        if groups > states.groups {
            states.states.iter_mut().for_each(|s| s.resize(groups));
            states.groups = groups;
        }
    }

    /// Adds a chunk's rows to groups that are there.
    pub(super) fn update(&self, states: &mut States, chunk: &mut Chunk, groups: Groups<'_>) -> Result<(), ExecError> {
        let masks = self.masks.iter().map(|m| self.rows_of_mask(m, chunk)).collect::<Vec<_>>();
        states.rows += groups.rows() as u64;
        let (rows, total, arrival) = (states.rows, states.groups, states.arrival);
        states.arrival = arrival.next();
        for (kept, state) in self.kept.iter().zip(&mut states.states) {
            let mask = kept.mask.and_then(|m| masks[m].as_deref());
            if let (Op::Sum { largest }, State::Sum(_)) = (&kept.op, &*state)
                && !fits(*largest, rows)
            {
                state.widen();
            }
            match (&kept.op, state) {
                (Op::Rows(store), State::Lists(lists)) => {
                    keep_rows(store, lists, (chunk, &self.infos), groups, mask, arrival)?;
                }
                (Op::Best { store, last }, State::Best(best)) => {
                    best.update((store, *last), (chunk, &self.infos), groups, mask, arrival)?;
                }
                (_, state) => self.update_one(kept, state, chunk, groups, mask, total)?,
            }
        }
        Ok(())
    }

    fn rows_of_mask(&self, mask: &Mask, chunk: &mut Chunk) -> Option<Vec<bool>> {
        let mut rows: Option<Vec<bool>> = mask.filter.map(|filter| is_true(&chunk.column(filter)));
        let mut and = |valid: &mut dyn Iterator<Item = bool>| match &mut rows {
            Some(rows) => rows.iter_mut().zip(valid).for_each(|(row, valid)| *row &= valid),
            None => rows = Some(valid.collect()),
        };
        for &column in &mask.columns {
            let vector = chunk.column(column);
            match (&vector.data, &vector.valid) {
                (Data::Arrow(array), _) => {
                    if let Some(nulls) = array.logical_nulls().filter(|n| n.null_count() > 0) {
                        and(&mut nulls.iter());
                    }
                }
                (_, Some(valid)) => and(&mut valid.iter().copied()),
                _ => {}
            }
        }
        rows
    }

    fn update_one(
        &self,
        kept: &Kept,
        state: &mut State,
        chunk: &mut Chunk,
        groups: Groups<'_>,
        mask: Option<&[bool]>,
        total: usize,
    ) -> Result<(), ExecError> {
        if let (Op::Distinct { coder, .. }, State::Distinct(distinct)) = (&kept.op, &mut *state) {
            return distinct.update(coder, chunk, groups, mask);
        }
        if let State::Opaque(opaque) = state {
            let arrays =
                kept.columns.iter().map(|&c| self.infos[c].to_arrow(&load(chunk, c, &self.infos[c]))).collect();
            return opaque.update(arrays, groups, mask, total);
        }
        if let State::Count(counts) = state {
            count(counts, groups, mask);
            return Ok(());
        }
        let column = kept.columns[0];
        if mask.is_none() && matches!(groups, Groups::One(_)) && self.is_summed(column, state, chunk) {
            return Ok(());
        }
        let vector = load(chunk, column, &self.infos[column]);
        match (&kept.op, state, &vector.data) {
            (_, State::Lists(lists), Data::Int(values)) => {
                lists.push(groups, mask, values.iter().map(|&v| ranked::of_int(v)));
            }
            (_, State::Lists(lists), Data::Vid(vids)) => {
                lists.push(groups, mask, vids.iter().map(|&v| u64::from(v)));
            }
            (_, State::Lists(lists), Data::Float(values)) => {
                lists.push(groups, mask, values.iter().map(|&v| ranked::of_float(v)));
            }
            (_, State::Sum(sums), Data::Int(values)) => add_ints(sums, groups, values, mask),
            (_, State::Exact(low, _), Data::Int(values)) => {
                // 2^63 times as many rows would have to come first.
                add_wide(low, None, groups, values, mask);
            }
            (_, State::Exact(low, wraps), Data::Arrow(array)) => add_array(low, wraps, groups, array, mask)?,
            (_, State::Float(sums), Data::Float(values)) => add_floats(sums, groups, values, mask),
            (_, State::Float(sums), Data::Arrow(array)) => {
                let wide = cast(array, &DataType::Float64)?;
                let values = wide.as_primitive::<Float64Type>().values();
                add_floats(sums, groups, values, mask);
            }
            (Op::Most { low, high, smallest }, State::Most(state), data) => {
                let (low, high) = (*low, *high);
                match (data, smallest) {
                    (Data::Int(values), false) => most(state, groups, values, mask, |v| v.wrapping_sub(low) as u64),
                    (Data::Int(values), true) => most(state, groups, values, mask, |v| high.wrapping_sub(v) as u64),
                    (Data::Vid(vids), false) => most(state, groups, vids, mask, u64::from),
                    (Data::Vid(vids), true) => most(state, groups, vids, mask, |v| high as u64 - u64::from(v)),
                    (Data::Float(values), false) => most(state, groups, values, mask, ordered),
                    (Data::Float(values), true) => most(state, groups, values, mask, |v| !ordered(v)),
                    (Data::Arrow(_), _) => unreachable!("such values are kept as bytes"),
                }
            }
            (Op::Bytes { converter, smallest }, State::Bytes(state), Data::Arrow(array)) => {
                let rows = converter.convert_columns(std::slice::from_ref(array))?;
                for row in (0..groups.rows()).filter(|&row| mask.is_none_or(|m| m[row])) {
                    keep_better(&mut state[groups.of(row)], rows.row(row).data(), *smallest);
                }
            }
            _ => unreachable!("a state has the kind of its column"),
        }
        Ok(())
    }

    /// Adds all of a chunk's values of a column to the one group's sum where they lie, if they can be; what other
    /// states want too is loaded for all.
    fn is_summed(&self, column: usize, state: &mut State, chunk: &Chunk) -> bool {
        let is_asked_once = || self.kept.iter().filter(|other| other.columns.contains(&column)).count() == 1;
        match state {
            State::Sum(sums) if is_asked_once() => {
                let total = chunk.sum(column);
                sums[0] = sums[0].wrapping_add(total.unwrap_or(0) as i64);
                total.is_some()
            }
            State::Exact(low, wraps) if is_asked_once() => {
                let total = chunk.sum(column);
                add_one(low, wraps, 0, total.unwrap_or(0), 0);
                total.is_some()
            }
            _ => false,
        }
    }

    /// Ends the taking of rows; what opaque functions keep becomes arrays.
    pub(super) fn seal(&self, states: &mut States) -> Result<(), ExecError> {
        for state in &mut states.states {
            match state {
                State::Opaque(opaque) => {
                    opaque.flush()?;
                    // Functions that saw nothing know nothing of their number of groups.
                    let arrays = if !opaque.fed { Vec::new() } else { opaque.groups.get_mut().state()? };
                    *state = State::Partial(arrays);
                }
                State::Lists(lists) => lists.seal(),
                _ => {}
            }
        }
        Ok(())
    }

    /// As [`merge`](Self::merge) from states that may still hold rows back and are of no use afterwards.
    pub(super) fn take_over(
        &self,
        states: &mut States,
        from: &mut States,
        pick: &Pick<'_>,
        to: Option<&[u32]>,
    ) -> Result<(), ExecError> {
        self.seal(from)?;
        states.rows += from.rows;
        self.merge(states, from, pick, to)
    }

    /// Adds groups of other, sealed states: the `i`th that is picked to group `to[i]`, or `i`. They are there already.
    pub(super) fn merge(
        &self,
        states: &mut States,
        from: &States,
        pick: &Pick<'_>,
        to: Option<&[u32]>,
    ) -> Result<(), ExecError> {
        let groups = states.groups;
        for ((kept, state), from) in self.kept.iter().zip(&mut states.states).zip(&from.states) {
            if matches!(from, State::Exact(..)) {
                // More rows were expected there than have come in all.
                state.widen();
            }
            match (state, from) {
                (State::Count(to_), State::Count(from)) | (State::Sum(to_), State::Sum(from)) => {
                    each(to_, from, pick, to, |a, b| *a = a.wrapping_add(*b));
                }
                (State::Float(to_), State::Float(from)) => each(to_, from, pick, to, |a, b| *a += b),
                (State::Most(to_), State::Most(from)) => each(to_, from, pick, to, |a, b| *a = (*a).max(*b)),
                (State::Bytes(to_), State::Bytes(from)) => {
                    let Op::Bytes { smallest, .. } = kept.op else { unreachable!("bytes are of such an operation") };
                    each(to_, from, pick, to, |a, b| {
                        if let Some(b) = b {
                            keep_better(a, b, smallest);
                        }
                    });
                }
                (State::Exact(low, wraps), State::Exact(from, from_wraps)) => {
                    for_each_pair(pick, to, |source, target| {
                        let wrapped = from_wraps.get(source).copied().unwrap_or(0);
                        add_one(low, wraps, target, from[source], wrapped);
                    });
                }
                (State::Exact(low, wraps), State::Sum(from)) => {
                    for_each_pair(pick, to, |source, target| {
                        add_one(low, wraps, target, i128::from(from[source]), 0);
                    });
                }
                (State::Opaque(opaque), State::Partial(from)) => opaque.merge(from, pick, to, groups)?,
                (State::Distinct(distinct), State::Distinct(from)) => distinct.merge(from, pick, to)?,
                (State::Lists(lists), State::Lists(from)) => lists.merge(from, pick, to),
                (State::Best(best), State::Best(from)) => {
                    let Op::Best { last, .. } = kept.op else { unreachable!("the best rows have the state of such") };
                    best.merge(from, last, pick, to);
                }
                _ => unreachable!("states of one aggregate"),
            }
        }
        Ok(())
    }
}

/// Keeps the rows of a chunk that count.
fn keep_rows(
    store: &Store,
    lists: &mut Lists,
    (chunk, infos): (&mut Chunk, &[ColumnInfo]),
    groups: Groups<'_>,
    mask: Option<&[bool]>,
    arrival: Arrival,
) -> Result<(), ExecError> {
    let rows: Vec<u32> = (0..groups.rows() as u32).filter(|&row| mask.is_none_or(|m| m[row as usize])).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let first = store.keep(chunk, infos, rows.clone(), arrival)?;
    for (number, row) in rows.into_iter().enumerate() {
        lists.push_one(groups.of(row as usize), first + number as u64);
    }
    Ok(())
}

/// Is the sum of `n` values of at most this distance from 0 below 2^63?
fn fits(largest: u64, rows: u64) -> bool {
    largest.checked_mul(rows).is_some_and(|most| most <= i64::MAX as u64)
}

fn keep_better(kept: &mut Option<Box<[u8]>>, row: &[u8], smallest: bool) {
    let better = match kept {
        None => true,
        Some(kept) if smallest => row < &kept[..],
        Some(kept) => row > &kept[..],
    };
    if better {
        *kept = Some(row.into());
    }
}

fn each<T>(state: &mut [T], from: &[T], pick: &Pick<'_>, to: Option<&[u32]>, mut join: impl FnMut(&mut T, &T)) {
    match (pick, to) {
        (Pick::Range(range), None) => {
            state.iter_mut().zip(&from[range.clone()]).for_each(|(a, b)| join(a, b));
        }
        (Pick::List(list), None) => {
            state.iter_mut().zip(*list).for_each(|(a, &source)| join(a, &from[source as usize]));
        }
        _ => for_each_pair(pick, to, |source, target| join(&mut state[target], &from[source])),
    }
}

fn add_array(
    low: &mut [i128],
    wraps: &mut Vec<i64>,
    groups: Groups<'_>,
    array: &ArrayRef,
    mask: Option<&[bool]>,
) -> Result<(), ExecError> {
    match array.data_type() {
        DataType::Decimal128(precision, _) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            // Up to 28 digits, 2^32 rows stay far below 2^127.
            let wraps = (*precision > 28).then_some(wraps);
            add_wide(low, wraps, groups, values, mask);
        }
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            add_wide(low, None, groups, values, mask);
        }
        _ => {
            let wide = cast(array, &DataType::Decimal128(38, scale(array.data_type())))?;
            let values = wide.as_primitive::<Decimal128Type>().values();
            add_wide(low, None, groups, values, mask);
        }
    }
    Ok(())
}

fn scale(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => *s,
        _ => 0,
    }
}

/// TRUE rows of a boolean column.
fn is_true(vector: &Vector) -> Vec<bool> {
    match &vector.data {
        Data::Int(values) => match &vector.valid {
            None => values.iter().map(|&v| v != 0).collect(),
            Some(valid) => values.iter().zip(valid).map(|(&v, &valid)| valid && v != 0).collect(),
        },
        Data::Arrow(array) => {
            let array: &BooleanArray = array.as_boolean();
            array.iter().map(|v| v == Some(true)).collect()
        }
        _ => unreachable!("a boolean is an integer or an array"),
    }
}
