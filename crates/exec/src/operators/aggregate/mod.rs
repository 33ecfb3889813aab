//! Aggregation: GROUP BY and aggregates over the chunks of a pipe.
//!
//! Key columns become one number per row ([`keys`]); the number becomes a group's number, by an array where the numbers
//! are few, by a table that first hopes for ascending keys and then hashes ([`table`], [`strategy`]); and each
//! aggregate adds its column to one value per group ([`state`], [`calls`]). Every worker has groups of its own; at the
//! end they are merged piece by piece, in parallel ([`merge`]), and values are made of states ([`result`]).
//!
//! Functions that one value per group is not enough for keep all of them ([`lists`]): as numbers, of which
//! percentiles are selected ([`ranked`]), or as rows of a [`store`], which are put in order at the end ([`ordered`]),
//! or the one row of them that is wanted ([`best`]). GROUPING SETS are made of each other ([`sets`]).
//!
//! DISTINCT of calls that all have the same arguments is two aggregations, by keys and arguments and then by keys;
//! otherwise each such call keeps pairs of group and value.
//!
//! # Limits
//! Calls with DISTINCT beside others are merged by one thread. Sums and averages are over integers, floats, decimals of
//! up to 38 digits and durations; other types have to come as opaque functions.

mod best;
mod calls;
pub(crate) mod column;
pub(crate) mod finish;
mod groups;
mod lists;
mod merge;
mod ordered;
mod pending;
mod ranked;
mod result;
mod sets;
pub(crate) mod state;
mod store;
mod strategy;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use numa::Reservation;
use parking_lot::Mutex;

use crate::ExecError;
use crate::chunk::Chunk;
use crate::keys::group::{GroupCodec, GroupKey, GroupScratch};
use crate::pipe::Pipe;
use crate::pipe::drive::{Sink, drive};
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::plan::delicate::is_delicate_call;
use crate::plan::{AggregateCall, Aggregation};
use crate::tasks::places::LITTLE_BYTES;
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, LookUps};
use calls::{Calls, States};
use groups::{FEW_GROUPS, Groups, Pick};
use merge::GroupPart;
use store::Arrival;
use strategy::{Facts, Strategy, choose};
use table::Table;

/// A table with `n` groups is put aside if it does not get smaller what it takes. Its slots are 4 MiB.
const FLUSH_GROUPS: usize = 1 << 17;
/// Rows per group above which a large table is worth its misses.
const ROWS_PER_GROUP: u64 = 8;

/// A pipe of the groups.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    aggregation: &Aggregation,
    place: &OperatorPlace,
    filters: &Filters,
) -> Result<Pipe, ExecError> {
    let keys = &aggregation.keys;
    // A row whose key passes no filter is of a group that passes none.
    let schema = aggregation.input.schema();
    let shows = aggregation.calls.iter().any(|call| is_delicate_call(call, &schema));
    let below = filters.iter().filter_map(|w| Some(w.below(aggregation.key_of(w.column)?, shows)));
    let input = flow.pipe(&aggregation.input, &place.input(0), &below.collect())?;
    if let Some(sets) = &aggregation.sets {
        return sets::pipe(&flow.run, &input, keys, sets, &aggregation.calls);
    }
    grouped(flow, &input, keys, &aggregation.calls, None)
}

/// A pipe of the groups of another pipe's rows; with the given strategy, if one is.
fn grouped(
    flow: &Flow<'_>,
    input: &Pipe,
    keys: &[usize],
    calls: &[AggregateCall],
    strategy: Option<Strategy>,
) -> Result<Pipe, ExecError> {
    if let Some(arguments) = shared_distinct(calls) {
        let different = grouped(flow, input, &[keys, arguments].concat(), &[], strategy)?;
        let keys: Vec<usize> = (0..keys.len()).collect();
        let places: Vec<usize> = (keys.len()..keys.len() + arguments.len()).collect();
        let calls: Vec<AggregateCall> = calls
            .iter()
            .map(|call| AggregateCall { arguments: places.clone(), distinct: false, ..call.clone() })
            .collect();
        return grouped(flow, &different, &keys, &calls, strategy);
    }
    let coder = GroupCodec::new(keys, &input.infos, 2)?;
    let calls = Calls::new(calls, &input.infos, keys.is_empty())?;
    match coder.words() {
        1 => Grouping::<u64>::run(flow, input, coder, calls, strategy),
        _ => Grouping::<u128>::run(flow, input, coder, calls, strategy),
    }
}

/// The arguments of calls that are all over different values of the same ones, without a filter.
fn shared_distinct(calls: &[AggregateCall]) -> Option<&[usize]> {
    let first = calls.first()?;
    let same = |c: &AggregateCall| {
        c.distinct && c.filter.is_none() && !c.function.is_ordered() && c.arguments == first.arguments
    };
    (!first.arguments.is_empty() && calls.iter().all(same)).then_some(&first.arguments)
}

/// Groups of one worker.
struct Worker<K> {
    /// Keys of groups that are no array entries.
    table: Table<K>,
    /// Group numbers are keys.
    direct: bool,
    /// Which array entries have rows, where no count tells.
    seen: Vec<bool>,
    states: States,
    /// Groups that were put aside, and their bytes.
    flushed: Vec<GroupPart<K>>,
    flushed_bytes: u64,
    /// Of the next chunk.
    arrival: Arrival,
    encoding: GroupScratch,
    keys: Vec<K>,
    groups: Vec<u32>,
    reservation: Reservation,
    /// Bytes of it that the account of traffic knows.
    noted_bytes: u64,
    look_ups: LookUps,
}

impl<K> Worker<K> {
    /// Rows that it has seen.
    fn rows(&self) -> u64 {
        self.states.rows() + self.flushed.iter().map(|part| part.states.rows()).sum::<u64>()
    }
}

/// The sink of the input's chunks.
struct Grouping<'a, K> {
    coder: GroupCodec,
    calls: Arc<Calls>,
    strategy: Strategy,
    run: Run<'a>,
    /// Rows that a worker may expect.
    rows: u64,
    /// A table with `n` groups may be put aside.
    flush_groups: usize,
    /// Fewer bytes of groups are merged wherever a thread is free.
    little_bytes: u64,
    /// What the workers share.
    shared: Mutex<Reservation>,
    _key: std::marker::PhantomData<fn() -> K>,
}

impl<'a, K: GroupKey> Grouping<'a, K> {
    fn new(
        run: Run<'a>,
        (rows, keys): (u64, u64),
        coder: GroupCodec,
        calls: Arc<Calls>,
        strategy: Option<Strategy>,
    ) -> Result<Grouping<'a, K>, ExecError> {
        let facts = Facts {
            domain: coder.domain(),
            rows: keys,
            group_bytes: calls.group_bytes(),
            threads: run.threads as u64,
            available_bytes: run.statement.budget().available_bytes(),
            dense_only: calls.needs_dense_groups(),
        };
        let strategy = match coder.is_empty() {
            true => Strategy::One,
            false => strategy.unwrap_or_else(|| choose(&facts)),
        };
        let shared = Mutex::new(run.reserve(0)?);
        let (flush_groups, little_bytes) = (FLUSH_GROUPS, LITTLE_BYTES);
        let _key = std::marker::PhantomData;
        Ok(Grouping { coder, calls, strategy, run, rows, flush_groups, little_bytes, shared, _key })
    }

    /// The groups of all workers.
    fn finish(&self, mut workers: Vec<Worker<K>>) -> Result<Pipe, ExecError> {
        if workers.is_empty() {
            workers.push(self.local()?);
        }
        merge::pipe_of(self, workers)
    }

    fn run(
        flow: &Flow<'_>,
        input: &Pipe,
        coder: GroupCodec,
        calls: Calls,
        strategy: Option<Strategy>,
    ) -> Result<Pipe, ExecError> {
        let sink = Grouping::<K>::new(flow.run, (input.rows, input.rows), coder, Arc::new(calls), strategy)?;
        let workers = drive(input, &sink, &flow.run)?;
        sink.finish(workers)
    }

    /// Finds the groups of a chunk's rows, which are there from then on.
    fn find_groups(&self, worker: &mut Worker<K>, chunk: &mut Chunk) -> Result<(), ExecError> {
        self.coder.encode(chunk, &mut worker.encoding, &mut worker.keys)?;
        if worker.direct {
            worker.groups.clear();
            worker.groups.extend(worker.keys.iter().map(|k| k.low() as u32));
            if !worker.seen.is_empty() {
                worker.groups.iter().for_each(|&g| worker.seen[g as usize] = true);
            }
        } else {
            too_many(worker.table.len() + worker.keys.len())?;
            worker.table.groups(&worker.keys, &mut worker.groups);
            self.calls.resize(&mut worker.states, worker.table.len());
        }
        Ok(())
    }

    /// After rows have come: goes another way where that pays by now, and charges what is held.
    fn settle(&self, worker: &mut Worker<K>) -> Result<(), ExecError> {
        if let Strategy::TableThenDirect { domain, from } = self.strategy
            && !worker.direct
            && !worker.table.is_ordered()
            && worker.table.len() >= from
        {
            self.make_direct(worker, domain)?;
        }
        if worker.table.len() >= self.flush_groups && !worker.direct && !worker.table.is_ordered() {
            self.flush(worker)?;
        }
        self.charge(worker)
    }

    /// Turns a table into an array.
    fn make_direct(&self, worker: &mut Worker<K>, domain: usize) -> Result<(), ExecError> {
        let mut states = self.calls.states(0, self.rows.max(worker.states.rows()))?;
        worker.reservation.grow((self.calls.group_bytes() + 1) * domain as u64)?;
        self.calls.resize(&mut states, domain);
        let groups: Vec<u32> = worker.table.keys().iter().map(|k| k.low() as u32).collect();
        self.calls.take_over(&mut states, &mut worker.states, &Pick::Range(0..groups.len()), Some(&groups))?;
        worker.states = states;
        worker.direct = true;
        if self.calls.row_count().is_none() {
            worker.seen = vec![false; domain];
            groups.iter().for_each(|&g| worker.seen[g as usize] = true);
        }
        worker.table = Table::new();
        Ok(())
    }

    /// Puts the groups aside and begins anew, unless most rows find their group: a table that fits the cache, and
    /// groups that are merged piece by piece later, cost less than one large table that misses the cache with every row
    /// (Leis et al., SIGMOD 2014, section 4.4).
    fn flush(&self, worker: &mut Worker<K>) -> Result<(), ExecError> {
        if worker.states.rows() > ROWS_PER_GROUP * worker.table.len() as u64
            || matches!(self.strategy, Strategy::TableThenDirect { .. })
        {
            return Ok(());
        }
        let states = std::mem::replace(&mut worker.states, self.calls.states(0, self.rows)?);
        let part = GroupPart::by_hash(&self.calls, worker.table.keys(), states)?;
        worker.table.clear();
        worker.flushed_bytes += part.bytes();
        worker.flushed.push(part);
        Ok(())
    }

    fn charge(&self, worker: &mut Worker<K>) -> Result<(), ExecError> {
        let scratch = worker.keys.capacity() * size_of::<K>() + worker.groups.capacity() * 4 + worker.seen.len();
        let held = scratch as u64
            + worker.flushed_bytes
            + worker.states.bytes()
            + worker.table.bytes()
            + worker.encoding.bytes();
        traffic::note_kept(traffic::GROUPS, held.saturating_sub(worker.noted_bytes));
        worker.noted_bytes = worker.noted_bytes.max(held);
        grow_to(&mut worker.reservation, held)?;
        let shared = self.coder.bytes() + self.calls.shared_bytes();
        if shared > 0 {
            grow_to(&mut self.shared.lock(), shared)?;
        }
        Ok(())
    }
}

/// An error where there are more groups than numbers of them.
fn too_many(groups: usize) -> Result<(), ExecError> {
    match groups < u32::MAX as usize {
        true => Ok(()),
        false => Err(ExecError::Evaluation(format!(
            "an aggregation has {groups} groups or different values, and {} are the most; \
             group by less, or filter first",
            u32::MAX
        ))),
    }
}

/// Lets a reservation be of `n` bytes at least.
fn grow_to(reservation: &mut Reservation, bytes: u64) -> Result<(), ExecError> {
    match bytes.checked_sub(reservation.bytes()) {
        Some(more) if more > 0 => Ok(reservation.grow(more)?),
        _ => Ok(()),
    }
}

impl<K: GroupKey> Sink for Grouping<'_, K> {
    const KIND: &'static str = "aggregate";
    type Local = Worker<K>;

    fn local(&self) -> Result<Worker<K>, ExecError> {
        let mut worker = Worker {
            table: Table::new(),
            direct: false,
            seen: Vec::new(),
            states: self.calls.states(0, self.rows)?,
            flushed: Vec::new(),
            flushed_bytes: 0,
            arrival: Arrival::default(),
            encoding: GroupScratch::default(),
            keys: Vec::new(),
            groups: Vec::new(),
            reservation: self.run.reserve(0)?,
            noted_bytes: 0,
            look_ups: LookUps::here(traffic::GROUPS),
        };
        match self.strategy {
            Strategy::One => {
                self.calls.resize(&mut worker.states, 1);
                worker.direct = true;
            }
            Strategy::Direct { domain } => self.make_direct(&mut worker, domain)?,
            Strategy::Table | Strategy::TableThenDirect { .. } => {}
        }
        Ok(worker)
    }

    fn begin(&self, worker: &mut Worker<K>, morsel: usize) {
        worker.arrival = Arrival::of_morsel(morsel);
    }

    fn push(&self, worker: &mut Worker<K>, mut chunk: Chunk) -> Result<bool, ExecError> {
        worker.states.arrival = worker.arrival;
        worker.arrival = worker.arrival.next();
        if self.strategy == Strategy::One {
            let rows = chunk.rows();
            self.calls.update(&mut worker.states, &mut chunk, Groups::One(rows))?;
            self.charge(worker)?;
            return Ok(true);
        }
        self.find_groups(worker, &mut chunk)?;
        let groups = match worker.states.groups <= FEW_GROUPS {
            true => Groups::Few(&worker.groups),
            false => Groups::Many(&worker.groups),
        };
        self.calls.update(&mut worker.states, &mut chunk, groups)?;
        self.settle(worker)?;
        worker.look_ups.note(worker.keys.len(), worker.noted_bytes);
        Ok(true)
    }
}
