//! Joins: a table over the rows of one side, which the rows of the other side are looked up in.
//!
//! The *build* side runs first and is kept; what is then known of its keys thins out the scans of the *probe* side
//! ([`KeyFilter`]) before that one streams by. Key columns of every kind become one integer per row ([`keys`]), looked
//! up in an array or a hash table ([`table`]) by the operator ([`probe`]). Kinds that give rows of the build side by
//! whether they have a match drain the probe side first and go on with the build side's rows ([`rest`]).
//!
//! # Limits
//! A build side has fewer than 2^32 - 1 rows. Pairs of a join that also gives unmatched rows of its build side are kept
//! in memory.

mod probe;
mod rank;
mod rest;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::{DataType, Field};

use crate::chunk::vector::{ColumnInfo, NO_ROW, is_integer};
use crate::chunk::{Chunk, Rows};
use crate::keys::join::join_keys;
use crate::keys::key_filter::KeyFilter;
use crate::pipe::drive::{Sink, drive};
use crate::pipe::filters::{ColumnKeys, Filters};
use crate::pipe::flow::Flow;
use crate::pipe::kept::{collect, of_rows};
use crate::pipe::{Lane, Operator, Out, Pipe};
use crate::plan::delicate::{is_delicate_join, shows_rows};
use crate::plan::{Join, JoinKind, Plan, Side};
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, LookUps};
use crate::{ExecError, eval};

use probe::{Bits, Emit, Probe, Prober, Seen};
use rest::{Beside, BuildSource, no_rows};
use table::{Codes, KeyTable, Strategy};

/// A pipe of the operator's rows.
pub(crate) fn pipe(flow: &Flow<'_>, join: &Join, place: &OperatorPlace, filters: &Filters) -> Result<Pipe, ExecError> {
    pipe_with(flow, join, place, filters, Strategy::Auto)
}

/// As [`pipe`] with a certain kind of table.
fn pipe_with(
    flow: &Flow<'_>,
    join: &Join,
    place: &OperatorPlace,
    filters: &Filters,
    strategy: Strategy,
) -> Result<Pipe, ExecError> {
    let shape = Shape::new(join);
    let (build_filters, mut probe_filters) = shape.below(filters);
    let build = shape.build_rows(flow, &shape.place(place, shape.build), &build_filters)?;
    if build.rows >= NO_ROW as usize {
        return Err(ExecError::Evaluation(format!(
            "a join would keep {} rows of one side in memory, more than 2^32 - 2; filter that side further",
            build.rows
        )));
    }
    if build.rows == 0 && !shape.lonely_probe() {
        return Ok(shape.nothing());
    }
    // The keys of a whole table are most likely all that there are.
    if shape.thins_probe() && !(build_filters.is_empty() && is_whole(shape.plan(shape.build))) {
        probe_filters.extend(shape.key_filters(&build, &flow.run)?);
    }
    let probe = flow.pipe(shape.probe_plan(), &shape.place(place, other(shape.build)), &probe_filters)?;
    shape.joined(flow, build, probe, strategy)
}

/// Are these all rows of a table?
fn is_whole(plan: &Plan) -> bool {
    match plan {
        Plan::Scan { .. } => true,
        Plan::Project { input, .. } => is_whole(input),
        _ => false,
    }
}

/// A join seen from the side that is kept.
struct Shape<'a> {
    join: &'a Join,
    /// The side that is kept.
    build: Side,
    /// Key columns: build, probe.
    on: Vec<(usize, usize)>,
    /// Columns of the build side that are kept: keys only where nothing else is read.
    build_columns: Option<Vec<usize>>,
}

fn other(side: Side) -> Side {
    match side {
        Side::Left => Side::Right,
        Side::Right => Side::Left,
    }
}

impl<'a> Shape<'a> {
    fn new(join: &'a Join) -> Shape<'a> {
        let build = join.build;
        let on = join.on.iter().map(|&(l, r)| if build == Side::Left { (l, r) } else { (r, l) });
        let mut shape = Shape { join, build, on: on.collect(), build_columns: None };
        if shape.kept_side() == Some(other(build)) && join.residual.is_none() {
            let mut columns = Vec::new();
            for (column, _) in &mut shape.on {
                let known = columns.iter().position(|c| c == column);
                let at = known.unwrap_or(columns.len());
                if known.is_none() {
                    columns.push(*column);
                }
                *column = at;
            }
            shape.build_columns = Some(columns);
        }
        shape
    }

    fn plan(&self, side: Side) -> &'a Plan {
        if side == Side::Left { &self.join.left } else { &self.join.right }
    }

    /// Where a side stands, of the join at `join`.
    fn place(&self, join: &OperatorPlace, side: Side) -> OperatorPlace {
        join.input(usize::from(side == Side::Right))
    }

    fn probe_plan(&self) -> &'a Plan {
        self.plan(other(self.build))
    }

    /// The side whose rows come out alone: semi, anti and mark joins.
    fn kept_side(&self) -> Option<Side> {
        match self.join.kind {
            JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) => Some(side),
            _ => None,
        }
    }

    /// Do rows of a side come out that have no match?
    fn lonely(&self, side: Side) -> bool {
        match self.join.kind {
            JoinKind::Inner | JoinKind::Semi(_) => false,
            JoinKind::Left => side == Side::Left,
            JoinKind::Right => side == Side::Right,
            JoinKind::Full => true,
            JoinKind::Anti(kept) | JoinKind::Mark(kept) => side == kept,
        }
    }

    fn lonely_probe(&self) -> bool {
        self.lonely(other(self.build))
    }

    /// NOT IN whose rows are those of the build side.
    fn null_aware(&self) -> bool {
        self.join.null_aware && matches!(self.join.kind, JoinKind::Anti(_)) && self.on.len() == 1
    }

    /// May rows of a side be left out that have no match?
    fn may_thin(&self, side: Side) -> bool {
        // NOT IN asks whether the other side has any row and any NULL.
        !self.lonely(side) && !self.null_aware()
    }

    fn thins_probe(&self) -> bool {
        self.may_thin(other(self.build))
    }

    /// Filters from above for the plans below: those of the build side, those of the probe side.
    fn below(&self, filters: &Filters) -> (Filters, Filters) {
        let mut below = (Filters::new(), Filters::new());
        if filters.is_empty() {
            return below;
        }
        let left_columns = self.join.left.schema().fields().len();
        // Rows of the build side decide which of the probe side are wanted.
        let shows = is_delicate_join(self.join);
        let shows_in_probe = shows || shows_rows(self.probe_plan());
        for wanted in filters {
            let (side, column) = match self.kept_side() {
                Some(side) => (side, wanted.column),
                None if wanted.column < left_columns => (Side::Left, wanted.column),
                None => (Side::Right, wanted.column - left_columns),
            };
            // Rows that come out with NULLs in this column instead would be no better.
            if self.lonely(other(side)) || column >= self.plan(side).schema().fields().len() {
                continue;
            }
            let mut give = |to: Side, column: usize| match to == self.build {
                true => below.0.push(wanted.below(column, shows_in_probe)),
                false => below.1.push(wanted.below(column, shows)),
            };
            give(side, column);
            if self.may_thin(other(side)) {
                for &(l, r) in &self.join.on {
                    let (here, there) = if side == Side::Left { (l, r) } else { (r, l) };
                    if here == column {
                        give(other(side), there);
                    }
                }
            }
        }
        below
    }

    /// Runs the build side.
    fn build_rows(&self, flow: &Flow<'_>, place: &OperatorPlace, filters: &Filters) -> Result<Arc<Rows>, ExecError> {
        let plan = self.plan(self.build);
        match &self.build_columns {
            None => flow.rows(plan, place, filters),
            Some(columns) => {
                let pipe = flow.pipe(plan, place, filters)?;
                let infos = columns.iter().map(|&c| pipe.infos[c].clone()).collect();
                let pipe = pipe.then(PickOperator { columns: columns.clone().into() }, infos);
                Ok(Arc::new(collect(&pipe, &flow.run, None)?))
            }
        }
    }

    /// What is known of the keys for the scans of the probe side.
    fn key_filters(&self, build: &Rows, run: &Run<'_>) -> Result<Filters, ExecError> {
        let mut filters = Filters::new();
        for &(build_column, probe_column) in &self.on {
            let (info, column) = (&build.infos[build_column], &build.columns[build_column]);
            if let Some(filter) = KeyFilter::of(info, column, self.join.nulls_equal, run)? {
                build.column_read(build_column, build.rows);
                filters.push(ColumnKeys::new(probe_column, Arc::new(filter)));
            }
        }
        Ok(filters)
    }

    /// No rows, where nothing of the probe side is known.
    fn nothing(&self) -> Pipe {
        let schema = self.join.schema();
        let infos = schema.fields().iter().map(|field| {
            if is_integer(field.data_type()) {
                return ColumnInfo::int(field.clone(), 0, 0, false);
            }
            ColumnInfo::plain(field.clone())
        });
        let rows = no_rows(&infos.collect::<Vec<_>>());
        Pipe::of(Box::new(crate::pipe::kept::RowsSource::new(rows.clone())), rows.infos.clone(), 0)
    }

    /// What is known of the columns that come out.
    fn infos(&self, build: &[ColumnInfo], probe: &[ColumnInfo]) -> Vec<ColumnInfo> {
        let of = |side: Side| if side == self.build { build } else { probe };
        let with_nulls = |side: Side| {
            let nullable = self.lonely(other(side));
            of(side).iter().cloned().map(move |info| ColumnInfo { nullable: info.nullable || nullable, ..info })
        };
        match self.join.kind {
            JoinKind::Semi(side) | JoinKind::Anti(side) => of(side).to_vec(),
            JoinKind::Mark(side) => {
                let mark = Arc::new(Field::new("mark", DataType::Boolean, false));
                of(side).iter().cloned().chain([ColumnInfo::int(mark, 0, 1, false)]).collect()
            }
            _ => with_nulls(Side::Left).chain(with_nulls(Side::Right)).collect(),
        }
    }

    /// The order of the columns of a pair that was made as probe, then build.
    fn pair_columns(&self, build: usize, probe: usize) -> Option<Vec<usize>> {
        (self.build == Side::Left).then(|| (probe..probe + build).chain(0..probe).collect())
    }

    fn emit(&self) -> Emit {
        match self.join.kind {
            JoinKind::Semi(side) | JoinKind::Anti(side) | JoinKind::Mark(side) if side == self.build => Emit::Nothing,
            JoinKind::Semi(_) => Emit::Matched,
            JoinKind::Anti(_) => Emit::Unmatched,
            JoinKind::Mark(_) => Emit::Mark,
            _ => Emit::Pairs { lonely: self.lonely_probe() },
        }
    }

    /// Puts the two sides together.
    fn joined(&self, flow: &Flow<'_>, build: Arc<Rows>, probe: Pipe, strategy: Strategy) -> Result<Pipe, ExecError> {
        let run = &flow.run;
        let (emit, null_aware) = (self.emit(), self.null_aware());
        if null_aware && emit == Emit::Unmatched {
            if build.rows == 0 {
                return Ok(probe);
            }
            let key = &build.columns[self.on[0].0];
            if (0..build.rows).any(|row| !key.is_valid(row)) {
                return Ok(self.nothing());
            }
        }
        let keys = join_keys(&self.on, &build, &probe.infos, self.join.nulls_equal, run)?;
        let codes = Codes { pieces: &keys.codes, domain: keys.domain, rows_matter: self.build_columns.is_none() };
        let table = KeyTable::build(&codes, strategy, run)?;
        // The table has all that the codes told.
        drop((keys.codes, keys.charged));
        let notes = emit == Emit::Nothing || self.lonely(self.build);
        let bits = |rows: usize| Ok::<_, ExecError>(Arc::new(Bits::new(rows, run.reserve(rows as u64 / 8)?)));
        let matched = notes.then(|| bits(build.rows)).transpose()?;
        let pair_columns = self.pair_columns(build.infos.len(), probe.infos.len());
        let residual = self.join.residual.as_ref().map(|residual| {
            let of = |side: Side| if side == self.build { &build.infos } else { &probe.infos };
            eval::test(residual, &[of(Side::Left).as_slice(), of(Side::Right)].concat())
        });
        let seen = (null_aware && emit == Emit::Nothing).then(Arc::<Seen>::default);
        let prober = Prober {
            statement: run.statement.clone(),
            build: build.clone(),
            table,
            look_ups: LookUps::here(traffic::JOIN_TABLES),
            codec: keys.probe,
            emit,
            pair_columns: pair_columns.clone(),
            residual: residual.transpose()?,
            matched: matched.clone(),
            null_key: null_aware.then(|| self.on[0].1),
            seen: seen.clone(),
        };
        let (infos, probe_infos) = (self.infos(&build.infos, &probe.infos), probe.infos.clone());
        let pipe = probe.then(Probe(Arc::new(prober)), infos.clone());
        let Some(matched) = matched else { return Ok(pipe) };

        // The probe side has to be drained before it is known which rows of the build side have a match.
        let unmatched = |row: usize| !matched.get(row);
        let source = if emit == Emit::Nothing {
            drive(&pipe, &Drain, run)?;
            match self.join.kind {
                JoinKind::Mark(_) => BuildSource::new(build, None, Beside::Mark(matched), run)?,
                JoinKind::Semi(_) => BuildSource::new(build, Some(&|row| matched.get(row)), Beside::Nothing, run)?,
                _ => {
                    let passes = not_in(&build, self.on.first().map(|on| on.0), seen.as_deref(), &unmatched);
                    BuildSource::new(build.clone(), Some(&*passes), Beside::Nothing, run)?
                }
            }
        } else {
            let pairs = Arc::new(collect(&pipe, &flow.run, None)?);
            let beside = Beside::Nulls(no_rows(&probe_infos), pair_columns);
            let lonely = BuildSource::new(build, Some(&unmatched), beside, run)?;
            let rows = lonely.rows() as u64;
            let mut both = of_rows(pairs);
            both.lanes.push(Lane { source: Box::new(lonely), operators: Vec::new() });
            both.rows += rows;
            return Ok(both);
        };
        let rows = source.rows() as u64;
        Ok(Pipe::of(Box::new(source), infos, rows))
    }
}

/// Which rows of the build side an anti join lets through; `seen` where it is NOT IN.
fn not_in<'a>(
    build: &'a Rows,
    key: Option<usize>,
    seen: Option<&Seen>,
    unmatched: &'a dyn Fn(usize) -> bool,
) -> Box<dyn Fn(usize) -> bool + 'a> {
    let (Some(seen), Some(key)) = (seen, key) else { return Box::new(unmatched) };
    let key = &build.columns[key];
    match (seen.row.load(Ordering::Relaxed), seen.null.load(Ordering::Relaxed)) {
        (false, _) => Box::new(|_| true),
        (true, true) => Box::new(|_| false),
        (true, false) => Box::new(move |row| key.is_valid(row) && unmatched(row)),
    }
}

/// Takes chunks for what their coming does.
struct Drain;

impl Sink for Drain {
    const KIND: &'static str = "join rows kept";
    type Local = ();

    fn local(&self) -> Result<(), ExecError> {
        Ok(())
    }

    fn push(&self, _local: &mut (), _chunk: Chunk) -> Result<bool, ExecError> {
        Ok(true)
    }
}

/// Hands on some of the columns.
#[derive(Clone)]
struct PickOperator {
    columns: Arc<[usize]>,
}

impl Operator for PickOperator {
    fn kind(&self) -> Option<&'static str> {
        None
    }

    fn push(&self, chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        out(chunk.project(&self.columns))
    }
}
