//! GROUPING SETS, ROLLUP and CUBE: the groups of several sets of keys in one pass over the input.
//!
//! Rows are grouped by the sets that lie in no other one, all at once. Every other set is made of the groups of the
//! smallest set that has all its keys, whose states are merged as those of workers are: counts and sums add up
//! exactly, lists are put one after the other, and an opaque function merges its own. So ROLLUP and CUBE group rows
//! once, and what a coarse set costs is the number of groups of a finer one.
//!
//! # Limits
//! Sets of which none lies in another are each grouped by from rows; that is more work per row, not another pass.

use std::any::Any;
use std::sync::Arc;

use numa::Reservation;

use super::calls::{Calls, States};
use super::column::{Column, Values};
use super::groups::Pick;
use super::merge::{self, ResultPiece};
use super::{Grouping, Strategy, Worker};
use crate::ExecError;
use crate::chunk::Chunk;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::keys::group::{GroupCodec, GroupKey};
use crate::pipe::Pipe;
use crate::pipe::drive::{Sink, drive};
use crate::plan::{AggregateCall, GroupingSet, GroupingSets};
use crate::tasks::places::current_node;
use crate::tasks::run::Run;

/// Some groups of a set.
struct Groups {
    rows: usize,
    /// The set's keys, in its order.
    keys: Vec<(ColumnInfo, Vector)>,
    /// Sealed.
    states: States,
}

/// The groups of a set of keys.
struct GroupedSet {
    /// The keys, by place.
    keys: Vec<usize>,
    pieces: Vec<Groups>,
    /// Rows that they are of.
    rows: u64,
    _held: Reservation,
}

impl GroupedSet {
    fn new(keys: Vec<usize>, pieces: Vec<Groups>, rows: u64, run: &Run<'_>) -> Result<GroupedSet, ExecError> {
        let bytes = |piece: &Groups| piece.states.bytes() + piece.keys.iter().map(|(_, v)| v.bytes()).sum::<u64>();
        let held = run.reserve(pieces.iter().map(bytes).sum())?;
        Ok(GroupedSet { keys, pieces, rows, _held: held })
    }

    fn groups(&self) -> usize {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }
}

/// The state of a worker for one set.
type Local = Box<dyn Any + Send>;

/// A [`Grouping`] by keys of any width.
trait SetSink: Sync {
    fn local(&self) -> Result<Local, ExecError>;
    fn begin(&self, local: &mut Local, morsel: usize);
    fn push(&self, local: &mut Local, chunk: Chunk) -> Result<bool, ExecError>;
    /// Takes groups of a finer set.
    fn absorb(&self, local: &mut Local, groups: &Groups) -> Result<(), ExecError>;
    /// The groups of all workers, and how many rows they were told of.
    fn groups(&self, locals: Vec<Local>) -> Result<(Vec<Groups>, u64), ExecError>;
}

fn of<K: GroupKey>(local: &mut Local) -> &mut Worker<K> {
    local.downcast_mut().expect("a worker of this set")
}

impl<K: GroupKey> SetSink for Grouping<'_, K> {
    fn local(&self) -> Result<Local, ExecError> {
        Ok(Box::new(Sink::local(self)?))
    }

    fn begin(&self, local: &mut Local, morsel: usize) {
        Sink::begin(self, of::<K>(local), morsel);
    }

    fn push(&self, local: &mut Local, chunk: Chunk) -> Result<bool, ExecError> {
        Sink::push(self, of::<K>(local), chunk)
    }

    fn absorb(&self, local: &mut Local, groups: &Groups) -> Result<(), ExecError> {
        let worker = of::<K>(local);
        let mut chunk = Chunk::empty(groups.rows);
        groups.keys.iter().for_each(|(_, vector)| chunk.push(Arc::new(vector.clone())));
        match self.strategy {
            Strategy::One => worker.groups = vec![0; groups.rows],
            _ => self.find_groups(worker, &mut chunk)?,
        }
        worker.states.expect_rows(self.rows);
        let all = Pick::Range(0..groups.rows);
        self.calls.merge(&mut worker.states, &groups.states, &all, Some(&worker.groups))?;
        match self.strategy {
            Strategy::One => self.charge(worker),
            _ => self.settle(worker),
        }
    }

    fn groups(&self, locals: Vec<Local>) -> Result<(Vec<Groups>, u64), ExecError> {
        let mut workers = Vec::with_capacity(locals.len().max(1));
        for local in locals {
            workers.push(*local.downcast::<Worker<K>>().expect("a worker of this set"));
        }
        if workers.is_empty() {
            workers.push(Sink::local(self)?);
        }
        let rows = workers.iter().map(Worker::rows).sum();
        let groups = merge::pieces(self, workers, &|keys, mut states| {
            self.calls.seal(&mut states)?;
            Ok(Groups { rows: keys.len(), keys: self.coder.decode(keys)?, states })
        })?;
        Ok((groups, rows))
    }
}

/// How rows, or the groups of a finer set, are grouped by `columns`: `rows` of the input, in `groups` at most.
fn grouping<'a>(
    run: Run<'a>,
    (rows, groups): (u64, u64),
    columns: &[usize],
    infos: &[ColumnInfo],
    calls: &Arc<Calls>,
) -> Result<Box<dyn SetSink + 'a>, ExecError> {
    let coder = GroupCodec::new(columns, infos, 2)?;
    let calls = calls.clone();
    Ok(match coder.words() {
        1 => Box::new(Grouping::<u64>::new(run, (rows, groups), coder, calls, None)?),
        _ => Box::new(Grouping::<u128>::new(run, (rows, groups), coder, calls, None)?),
    })
}

/// Several sets that take the same chunks.
struct Together<'a> {
    sinks: Vec<Box<dyn SetSink + 'a>>,
    /// Columns that any of them reads.
    columns: Vec<usize>,
}

impl Sink for Together<'_> {
    const KIND: &'static str = "grouping sets";
    type Local = Vec<Local>;

    fn local(&self) -> Result<Vec<Local>, ExecError> {
        self.sinks.iter().map(|sink| sink.local()).collect()
    }

    fn begin(&self, locals: &mut Vec<Local>, morsel: usize) {
        self.sinks.iter().zip(locals).for_each(|(sink, local)| sink.begin(local, morsel));
    }

    fn push(&self, locals: &mut Vec<Local>, mut chunk: Chunk) -> Result<bool, ExecError> {
        if self.sinks.len() > 1 {
            // Loaded once for all.
            self.columns.iter().for_each(|&column| drop(chunk.column(column)));
        }
        for (sink, local) in self.sinks.iter().zip(locals) {
            sink.push(local, chunk.clone())?;
        }
        Ok(true)
    }
}

/// A pipe of the groups of all sets of a pipe's rows.
pub(super) fn pipe(
    run: &Run<'_>,
    input: &Pipe,
    keys: &[usize],
    sets: &GroupingSets,
    calls: &[AggregateCall],
) -> Result<Pipe, ExecError> {
    let kept = Arc::new(Calls::new(calls, &input.infos, sets.has_grand_total())?);
    let mut different: Vec<&[usize]> = sets.sets.iter().map(|set| &set.keys[..]).collect();
    // The finest first, so that what a set is made of is there.
    different.sort_by_key(|keys| (std::cmp::Reverse(keys.len()), *keys));
    different.dedup();
    let is_within = |coarse: &[usize], fine: &[usize]| coarse.iter().all(|key| fine.contains(key));
    let (finest, coarser): (Vec<&[usize]>, Vec<&[usize]>) = different
        .iter()
        .partition(|set| !different.iter().any(|other| other.len() > set.len() && is_within(set, other)));
    let mut all = from_rows(run, input, keys, &finest, calls, &kept)?;
    for set in coarser {
        let within = all.iter().filter(|fine| is_within(set, &fine.keys));
        let fine = within.min_by_key(|fine| fine.groups()).expect("a set lies in one that was made before");
        let made = from_groups(run, fine, set, (&input.infos, keys), &kept)?;
        all.push(made);
    }
    let infos: Vec<ColumnInfo> = keys.iter().map(|&key| crate::keys::group::loaded_info(&input.infos[key])).collect();
    let mut pieces = Vec::new();
    for set in &sets.sets {
        let grouped = all.iter().find(|grouped| grouped.keys == set.keys).expect("every set was made");
        let made = run.map(grouped.pieces.len(), &|piece| {
            finished(&grouped.pieces[piece], set, (&infos, &sets.id), &kept, run)
        })?;
        pieces.extend(made);
    }
    merge::joined(run, pieces, || {
        // As those of groups are: what is merged takes no more rows.
        let mut none = kept.states(0, 0)?;
        kept.seal(&mut none)?;
        let set = GroupingSet { keys: Vec::new(), id: 0 };
        finished(&Groups { rows: 0, keys: Vec::new(), states: none }, &set, (&infos, &sets.id), &kept, run)
    })
}

/// The groups of some sets, from rows.
fn from_rows(
    run: &Run<'_>,
    input: &Pipe,
    keys: &[usize],
    sets: &[&[usize]],
    calls: &[AggregateCall],
    kept: &Arc<Calls>,
) -> Result<Vec<GroupedSet>, ExecError> {
    let sinks = sets.iter().map(|set| {
        let columns: Vec<usize> = set.iter().map(|&place| keys[place]).collect();
        grouping(*run, (input.rows, input.rows), &columns, &input.infos, kept)
    });
    let sinks = sinks.collect::<Result<Vec<_>, _>>()?;
    let mut columns: Vec<usize> = keys.iter().copied().chain(calls.iter().flat_map(AggregateCall::columns)).collect();
    columns.sort_unstable();
    columns.dedup();
    let together = Together { sinks, columns };
    let mut locals: Vec<Vec<Local>> = sets.iter().map(|_| Vec::new()).collect();
    for worker in drive(input, &together, run)? {
        locals.iter_mut().zip(worker).for_each(|(all, local)| all.push(local));
    }
    let mut made = Vec::with_capacity(sets.len());
    for ((set, sink), locals) in sets.iter().zip(&together.sinks).zip(locals) {
        let (groups, rows) = sink.groups(locals)?;
        made.push(GroupedSet::new(set.to_vec(), groups, rows, run)?);
    }
    Ok(made)
}

/// The groups of a set, from those of a finer one.
fn from_groups(
    run: &Run<'_>,
    fine: &GroupedSet,
    set: &[usize],
    (infos, keys): (&[ColumnInfo], &[usize]),
    kept: &Arc<Calls>,
) -> Result<GroupedSet, ExecError> {
    let infos: Vec<ColumnInfo> = fine.keys.iter().map(|&place| infos[keys[place]].clone()).collect();
    let place = |key: &usize| fine.keys.iter().position(|k| k == key).expect("the finer set has all keys");
    let columns: Vec<usize> = set.iter().map(place).collect();
    let sink = grouping(*run, (fine.rows, fine.groups() as u64), &columns, &infos, kept)?;
    let tasks = run.threads.min(fine.pieces.len());
    let locals = run.map(tasks, &|task| {
        let mut local = sink.local()?;
        for piece in fine.pieces.iter().skip(task).step_by(tasks) {
            run.check()?;
            sink.absorb(&mut local, piece)?;
        }
        Ok(local)
    })?;
    GroupedSet::new(set.to_vec(), sink.groups(locals)?.0, fine.rows, run)
}

/// The rows of a set's groups.
fn finished(
    groups: &Groups,
    set: &GroupingSet,
    (keys, id): (&[ColumnInfo], &arrow::datatypes::FieldRef),
    calls: &Calls,
    run: &Run<'_>,
) -> Result<ResultPiece, ExecError> {
    let mut columns: Vec<Column> = Vec::with_capacity(keys.len() + 1);
    for (place, info) in keys.iter().enumerate() {
        columns.push(match set.keys.iter().position(|&key| key == place) {
            Some(at) => {
                let (info, vector) = groups.keys[at].clone();
                Column::of_vector(info, vector)
            }
            None => Column::of_vector(info.clone(), nothing(info, groups.rows)),
        });
    }
    let number = Values::Int(vec![set.id as i64; groups.rows]);
    columns.push(Column::new(ColumnInfo::plain(id.clone()), number, None).bound());
    // The groups are still wanted by others, or again.
    let mut states = calls.states(groups.rows, groups.states.rows())?;
    calls.merge(&mut states, &groups.states, &Pick::Range(0..groups.rows), None)?;
    columns.extend(calls.finish(&mut states, run)?);
    Ok(ResultPiece { rows: groups.rows, columns, node: current_node() })
}

/// `n` NULLs.
fn nothing(info: &ColumnInfo, rows: usize) -> Vector {
    let data = match info.kind {
        ColumnKind::Int { .. } => Data::Int(vec![0; rows]),
        ColumnKind::Float => Data::Float(vec![0.0; rows]),
        ColumnKind::Vid(_) => Data::Vid(vec![0; rows]),
        ColumnKind::Arrow => {
            let nulls = arrow::array::new_null_array(info.data_type(), rows);
            return Vector { data: Data::Arrow(nulls), valid: None };
        }
    };
    Vector { data, valid: Some(vec![false; rows]) }
}
