//! Recursive queries: a source that takes the step when the rows of the last one were handed out, and not before, so
//! that a query which would never end ends with its consumer.
//!
//! The step is a plan of its own that runs once per work table: operators are chosen by what that table holds. Plans
//! that several places share ([`Plan::Shared`]) and that do not read the work table are computed once for all steps.
//!
//! # Limits
//! One step's rows are kept in memory, and of UNION every row that ever came. Tables of joins are built anew for
//! every step, over shared rows too.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::row::{RowConverter, SortField};
use numa::Reservation;
use parking_lot::Mutex;

use super::foreign::{PART_ROWS, info_of};
use super::union::converted;
use crate::ExecError;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector};
use crate::chunk::{CHUNK_ROWS, Chunk, Origin, RowIds, Rows, check_kept};
use crate::keys::float::one_of_each;
use crate::keys::hash::hash_bytes;
use crate::keys::strings::Strings;
use crate::pipe::filters::Filters;
use crate::pipe::flow::{Flow, Outer};
use crate::pipe::kept::rows_of;
use crate::pipe::{ChunkSource, Out, Pipe};
use crate::plan::{Plan, Recursion};
use crate::tasks::places::{Places, current_node};
use crate::tasks::profile::OperatorPlace;
use crate::tasks::run::Run;
use crate::tasks::traffic::{self, KeptColumn, LookUps};

/// After `n` steps a task ends: its statement may have enough, which only who hands out tasks knows.
const STEPS_PER_TASK: usize = 64;

/// Rows that are looked up between two looks at the statement.
const LOOKED_UP_ROWS: usize = 4096;

/// A pipe of the recursion's rows. Nothing runs before somebody asks for some.
pub(crate) fn pipe(flow: &Flow<'_>, recursion: &Arc<Recursion>, place: &OperatorPlace) -> Pipe {
    let infos: Vec<ColumnInfo> = recursion.schema.fields().iter().map(info_of).map(with_nulls).collect();
    let source = RecursionSource {
        recursion: recursion.clone(),
        infos: infos.clone(),
        outer: flow.outer(),
        place: place.clone(),
        state: Mutex::new(RecursionState { stage: Stage::Base, work: no_rows(&infos), next: 0, seen: None }),
    };
    Pipe::of(Box::new(source), infos, u64::from(u32::MAX))
}

/// Steps may make NULLs where the first rows have none.
fn with_nulls(info: ColumnInfo) -> ColumnInfo {
    ColumnInfo { nullable: true, ..info }
}

fn no_rows(infos: &[ColumnInfo]) -> Arc<Rows> {
    let columns = infos.iter().map(|info| Arc::new(info.empty())).collect();
    Arc::new(Rows { infos: infos.to_vec(), columns, rows: 0, _charged: Vec::new(), lies: None })
}

struct RecursionSource {
    recursion: Arc<Recursion>,
    infos: Vec<ColumnInfo>,
    /// What outlives a step.
    outer: Outer,
    place: OperatorPlace,
    state: Mutex<RecursionState>,
}

enum Stage {
    Base,
    Step,
    Done,
}

struct RecursionState {
    /// What runs next, once the work table was handed out.
    stage: Stage,
    work: Arc<Rows>,
    /// Rows of the work table that were handed out.
    next: usize,
    seen: Option<Seen>,
}

impl ChunkSource for RecursionSource {
    fn morsels(&self) -> usize {
        1
    }

    fn has_more(&self, _morsel: usize) -> bool {
        let state = self.state.lock();
        !matches!(state.stage, Stage::Done) || state.next < state.work.rows
    }

    fn run(&self, _morsel: usize, run: &Run<'_>, out: &mut Out<'_>) -> Result<bool, ExecError> {
        // One task at a time runs it; the lock is there for the compiler.
        let mut state = self.state.lock();
        let (mut given, mut steps) = (0, 0);
        loop {
            while state.next < state.work.rows {
                if given >= PART_ROWS {
                    return Ok(true);
                }
                let rows = state.next..(state.next + CHUNK_ROWS).min(state.work.rows);
                (state.next, given) = (rows.end, given + rows.len());
                if !out(Chunk::of(Origin::Rows(state.work.clone()), RowIds::Range(rows)))? {
                    return Ok(false);
                }
            }
            if matches!(state.stage, Stage::Done) || steps == STEPS_PER_TASK {
                return Ok(true);
            }
            run.check()?;
            steps += 1;
            self.advance(&mut state, run)?;
        }
    }
}

impl RecursionSource {
    /// The next work table.
    fn advance(&self, state: &mut RecursionState, run: &Run<'_>) -> Result<(), ExecError> {
        let mut outer = self.outer.clone();
        let (plan, place) = match state.stage {
            Stage::Base => (&self.recursion.base, self.place.input(0)),
            _ => {
                outer.work_tables.insert(self.recursion.id, state.work.clone());
                (&self.recursion.step, self.place.input(1))
            }
        };
        // A step's scans end with it: others would hardly come to read for them, and there may be many steps.
        let run = &Run { places: Places { attached: None, ..run.places }, ..*run };
        let flow = Flow::within(*run, outer);
        let made = self.rows_of(&flow, plan, &place)?;
        let made = match self.recursion.distinct {
            true => self.unseen(&mut state.seen, made, run)?,
            false => made,
        };
        state.stage = if made.rows == 0 { Stage::Done } else { Stage::Step };
        (state.work, state.next) = (made, 0);
        Ok(())
    }

    fn rows_of(&self, flow: &Flow<'_>, plan: &Plan, place: &OperatorPlace) -> Result<Arc<Rows>, ExecError> {
        let pipe = converted(flow.pipe(plan, place, &Filters::new())?, &self.infos);
        let rows = rows_of(&pipe, &flow.run)?;
        drop(pipe);
        let infos = self.infos.iter().zip(&rows.columns).map(|(info, column)| match (&column.data, &info.kind) {
            (Data::Int(values), ColumnKind::Int { .. }) => {
                let low = values.iter().copied().min().unwrap_or(0);
                let high = values.iter().copied().max().unwrap_or(0);
                ColumnInfo::int(info.field.clone(), low, high, column.valid.is_some())
            }
            _ => info.clone(),
        });
        let infos = infos.collect();
        Ok(Arc::new(match Arc::try_unwrap(rows) {
            Ok(rows) => Rows { infos, ..rows },
            // Somebody else keeps them too, and is charged.
            Err(kept) => {
                let (columns, lies) = (kept.columns.clone(), kept.lies.clone());
                Rows { infos, columns, rows: kept.rows, _charged: Vec::new(), lies }
            }
        }))
    }

    /// The rows that never came before, each once.
    fn unseen(&self, seen: &mut Option<Seen>, rows: Arc<Rows>, run: &Run<'_>) -> Result<Arc<Rows>, ExecError> {
        if seen.is_none() {
            *seen = Some(Seen::new(&self.infos, run)?);
        }
        let seen = seen.as_mut().expect("made above");
        let arrays =
            rows.infos.iter().zip(0..).map(|(info, column)| info.to_arrow(rows.column_read(column, rows.rows)));
        let arrays: Vec<ArrayRef> = arrays.collect();
        let kept = seen.keep_unseen(&arrays, rows.rows, run)?;
        if kept.len() == rows.rows {
            return Ok(rows);
        }
        let columns: Vec<Arc<Vector>> = rows.columns.iter().map(|column| Arc::new(column.take(&kept, false))).collect();
        traffic::note_kept(traffic::ROWS_KEPT, columns.iter().map(|column| column.bytes()).sum());
        let (count, node) = (kept.len(), current_node());
        let lies = columns.iter().map(|column| KeptColumn { bytes: column.bytes(), rows: count, node });
        let lies = Some(run.traffic.kept_rows(traffic::ROWS_KEPT, lies));
        let bytes = kept.len() as u64 * 8 * rows.infos.len() as u64;
        let charged = vec![run.reserve(bytes)?];
        Ok(Arc::new(Rows { infos: rows.infos.clone(), columns, rows: count, _charged: charged, lies }))
    }
}

/// Rows that came before, as bytes that are equal where the rows are.
struct Seen {
    converter: Option<RowConverter>,
    rows: Strings,
    charged: Reservation,
    look_ups: LookUps,
}

impl Seen {
    fn new(infos: &[ColumnInfo], run: &Run<'_>) -> Result<Seen, ExecError> {
        let fields: Vec<SortField> = infos.iter().map(|info| SortField::new(info.data_type().clone())).collect();
        // Rows without a column are all equal, and have no bytes.
        let converter = if fields.is_empty() { None } else { Some(RowConverter::new(fields)?) };
        let charged = run.reserve(0)?;
        Ok(Seen { converter, rows: Strings::default(), charged, look_ups: LookUps::here(traffic::ROWS_SEEN) })
    }

    /// Numbers of the rows that were never there; they are from then on.
    fn keep_unseen(&mut self, columns: &[ArrayRef], rows: usize, run: &Run<'_>) -> Result<Vec<u32>, ExecError> {
        let mut kept = Vec::new();
        for start in (0..rows).step_by(LOOKED_UP_ROWS) {
            run.check()?;
            let length = LOOKED_UP_ROWS.min(rows - start);
            let part: Vec<ArrayRef> = columns.iter().map(|column| one_of_each(&column.slice(start, length))).collect();
            let converted = match &self.converter {
                Some(converter) => Some(converter.convert_columns(&part)?),
                None => None,
            };
            for row in 0..length {
                let bytes = converted.as_ref().map_or(&[][..], |rows| rows.row(row).data());
                if self.rows.number(hash_bytes(bytes), bytes).1 {
                    kept.push((start + row) as u32);
                }
            }
            check_kept(self.rows.len())?;
            let more = self.rows.held_bytes().saturating_sub(self.charged.bytes());
            traffic::note_kept(traffic::ROWS_SEEN, more);
            self.charged.grow(more)?;
            self.look_ups.note(length, self.charged.bytes());
        }
        Ok(kept)
    }
}
