//! [`OrderedRows`]: the rows of a window in its order, and [`RowPlace`], where a row is in it.

use std::ops::Range;
use std::sync::Arc;

use numa::{NodeId, Reservation};

use crate::ExecError;
use crate::chunk::Rows;
use crate::chunk::vector::{ColumnInfo, Data, Vector};
use crate::operators::aggregate::column::{Column, settle};
use crate::tasks::places::current_node;
use crate::tasks::run::Run;
use crate::tasks::traffic;

/// The values of a function for all rows, by piece.
/// With the node on which each was made.
pub(super) type ColumnPieces = (ColumnInfo, Vec<(Vector, Option<NodeId>)>);

/// Rows that are evaluated at a time, by one task.
pub(super) const PIECE_ROWS: usize = 1 << PIECE_BITS;
/// The same as a number of bits.
pub(super) const PIECE_BITS: u32 = if cfg!(test) { 5 } else { 15 };
/// Rows between two looks at the statement where a row may take long.
pub(super) const CHECK_ROWS: usize = 1024;

/// Rows in an order. A row's *position* is its place there.
pub(super) struct OrderedRows<'a> {
    /// The rows as they were kept.
    pub(super) rows: &'a Arc<Rows>,
    /// Which of them is at a position.
    pub(super) order: &'a [u32],
    /// Where partitions begin, and the end.
    pub(super) partitions: &'a [u32],
    /// Where groups of peers begin, and the end; those of the partitions where nobody asks for peers.
    pub(super) peers: &'a [u32],
    /// Columns that were put into this order.
    pub(super) gathered: &'a GatheredColumns,
    /// The columns that the function reads, row by row in this order.
    pub(super) reads: &'a [usize],
}

/// A column as functions read it, by position.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    /// What is known of it.
    pub(super) info: &'a ColumnInfo,
    /// Its values; which of them is at a position says [`at`](Self::at).
    pub(super) vector: &'a Vector,
    /// Where they are as they were kept: which of them is at a position.
    order: Option<&'a [u32]>,
}

impl Argument<'_> {
    /// The place of a position's value.
    #[inline]
    pub(super) fn at(&self, position: usize) -> usize {
        self.order.map_or(position, |order| order[position] as usize)
    }

    /// Is there a value at a position?
    #[inline]
    pub(super) fn is_valid(&self, position: usize) -> bool {
        self.vector.is_valid(self.at(position))
    }
}

/// Columns in the order of a window: reading a value here and there costs more than all else that is done with it, so
/// what is read more than once is gathered once.
#[derive(Default)]
pub(super) struct GatheredColumns {
    columns: Vec<(usize, Vector)>,
    _charged: Vec<Reservation>,
}

impl GatheredColumns {
    /// Those of `columns` whose values are words.
    pub(super) fn new(
        run: &Run<'_>,
        rows: &Rows,
        order: &[u32],
        columns: &[usize],
    ) -> Result<GatheredColumns, ExecError> {
        let mut gathered = GatheredColumns::default();
        for &column in columns {
            let vector = &rows.columns[column];
            if matches!(vector.data, Data::Arrow(_)) {
                continue;
            }
            gathered._charged.push(run.reserve(vector.bytes())?);
            let input = ColumnInput { run, rows, order, column };
            let data = match &vector.data {
                Data::Int(values) => Data::Int(input.gathered(values, true)?),
                Data::Float(values) => Data::Float(input.gathered(values, true)?),
                Data::Vid(vids) => Data::Vid(input.gathered(vids, true)?),
                Data::Arrow(_) => unreachable!("such columns stay as they are"),
            };
            let valid = vector.valid.as_ref().map(|valid| input.gathered(valid, false)).transpose()?;
            gathered.columns.push((column, Vector { data, valid }));
        }
        Ok(gathered)
    }

    fn get(&self, column: usize) -> Option<&Vector> {
        self.columns.iter().find(|(known, _)| *known == column).map(|(_, vector)| vector)
    }
}

/// A column that is gathered.
struct ColumnInput<'a> {
    run: &'a Run<'a>,
    rows: &'a Rows,
    order: &'a [u32],
    column: usize,
}

impl ColumnInput<'_> {
    /// Its values, or which of them are there, in order. `notes`: that they are read is noted.
    fn gathered<T: Copy + Default + Send + Sync>(&self, values: &[T], notes: bool) -> Result<Vec<T>, ExecError> {
        filled(self.run, self.order.len(), &|range: Range<usize>, part: &mut [T]| {
            if let Some(lies) = self.rows.lies.as_ref().filter(|_| notes) {
                lies.read(self.column, range.len(), true);
            }
            part.iter_mut().zip(&self.order[range]).for_each(|(to, &row)| *to = values[row as usize]);
            Ok(())
        })
    }
}

/// Where a row is.
#[derive(Debug, Clone, Default)]
pub(super) struct RowPlace {
    /// Its position.
    pub(super) row: usize,
    /// Which partition it is in.
    partition_number: usize,
    /// Positions of its partition.
    pub(super) partition: Range<usize>,
    /// The groups of peers of its partition, by number.
    pub(super) groups: Range<usize>,
    /// Its own one's number.
    pub(super) group: usize,
    /// Positions of its peers, itself among them.
    pub(super) peers: Range<usize>,
}

impl OrderedRows<'_> {
    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Pieces of positions that are evaluated apart; at least one.
    pub(super) fn pieces(&self) -> usize {
        self.len().div_ceil(PIECE_ROWS).max(1)
    }

    /// The positions of a piece.
    pub(super) fn piece(&self, number: usize) -> Range<usize> {
        (number * PIECE_ROWS).min(self.len())..((number + 1) * PIECE_ROWS).min(self.len())
    }

    /// A column by position.
    pub(super) fn argument(&self, column: usize) -> Argument<'_> {
        let (info, by_row) = self.column(column);
        match self.gathered.get(column) {
            Some(vector) => Argument { info, vector, order: None },
            None => Argument { info, vector: by_row, order: Some(self.order) },
        }
    }

    /// What is known of a column, and its values by row.
    pub(super) fn column(&self, column: usize) -> (&ColumnInfo, &Vector) {
        (&self.rows.infos[column], &self.rows.columns[column])
    }

    /// Goes through consecutive positions.
    #[inline]
    pub(super) fn each(
        &self,
        positions: Range<usize>,
        mut f: impl FnMut(&RowPlace) -> Result<(), ExecError>,
    ) -> Result<(), ExecError> {
        let mut place = match positions.is_empty() {
            true => return Ok(()),
            false => self.place_of(positions.start),
        };
        for row in positions {
            place.row = row;
            if row >= place.partition.end {
                self.enter_next(&mut place);
            } else if row >= place.peers.end {
                place.group += 1;
                place.peers = place.peers.end..self.peers[place.group + 1] as usize;
            }
            f(&place)?;
        }
        Ok(())
    }

    /// Finds the partition and the group of a row.
    fn place_of(&self, row: usize) -> RowPlace {
        let of = |starts: &[u32], row: usize| starts.partition_point(|&start| start as usize <= row) - 1;
        let partition_number = of(self.partitions, row);
        let partition = self.partition(partition_number);
        let group = of(self.peers, row);
        let first_group = of(self.peers, partition.start);
        let groups = first_group..self.groups_end(first_group, partition.end);
        RowPlace { row, partition_number, partition, groups, group, peers: self.group(group) }
    }

    /// Goes on to the partition behind a place's.
    fn enter_next(&self, place: &mut RowPlace) {
        place.partition_number += 1;
        place.partition = self.partition(place.partition_number);
        place.group = place.groups.end;
        place.groups = place.group..self.groups_end(place.group, place.partition.end);
        place.peers = self.group(place.group);
    }

    /// Where the partition of a row begins.
    pub(super) fn partition_start(&self, row: usize) -> usize {
        self.partitions[self.partitions.partition_point(|&start| start as usize <= row) - 1] as usize
    }

    /// What partitions have of some positions, one after the other.
    pub(super) fn partitions_within(&self, positions: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let first = self.partitions.partition_point(|&start| start as usize <= positions.start);
        let starts = &self.partitions[first..];
        let inner = starts.iter().map(|&start| start as usize).take_while(move |&start| start < positions.end);
        let mut begin = positions.start;
        inner.chain([positions.end]).map(move |end| std::mem::replace(&mut begin, end)..end)
    }

    fn partition(&self, number: usize) -> Range<usize> {
        self.partitions[number] as usize..self.partitions[number + 1] as usize
    }

    fn group(&self, number: usize) -> Range<usize> {
        self.peers[number] as usize..self.peers[number + 1] as usize
    }

    /// The number behind a partition's last group, which is sought from its first one on: most partitions have few.
    fn groups_end(&self, first: usize, partition_end: usize) -> usize {
        let starts = &self.peers[first..];
        let last = starts.len() - 1;
        let mut reach = 1;
        while (starts[reach.min(last)] as usize) < partition_end {
            reach *= 2;
        }
        let from = reach / 2;
        let within = &starts[from..=reach.min(last)];
        first + from + within.partition_point(|&start| (start as usize) < partition_end)
    }

    /// A column of which each piece is made apart, in parallel.
    pub(super) fn in_pieces(
        &self,
        run: &Run<'_>,
        make: &(dyn Fn(Range<usize>) -> Result<Column, ExecError> + Sync),
    ) -> Result<ColumnPieces, ExecError> {
        let made = run.map(self.pieces(), &|piece| {
            if let Some(lies) = &self.rows.lies {
                let by_row = self.reads.iter().filter(|column| self.gathered.get(**column).is_none());
                by_row.for_each(|column| lies.read(*column, self.piece(piece).len(), true));
            }
            let column = make(self.piece(piece))?.bound();
            traffic::note_kept(traffic::WINDOW_RESULTS, column.bytes());
            Ok((column, current_node()))
        })?;
        let (columns, nodes): (Vec<Column>, Vec<Option<NodeId>>) = made.into_iter().unzip();
        let (info, vectors) = settle(columns);
        Ok((info, vectors.into_iter().zip(nodes).collect()))
    }
}

/// Fills the values of some rows.
type Fill<'f, T> = dyn Fn(Range<usize>, &mut [T]) -> Result<(), ExecError> + Sync + 'f;

/// A vector of `rows` values that tasks fill, piece by piece.
pub(super) fn filled<T: Copy + Default + Send>(
    run: &Run<'_>,
    rows: usize,
    fill: &Fill<'_, T>,
) -> Result<Vec<T>, ExecError> {
    let mut values = vec![T::default(); rows];
    {
        let parts: Vec<parking_lot::Mutex<&mut [T]>> =
            values.chunks_mut(PIECE_ROWS).map(parking_lot::Mutex::new).collect();
        run.for_each(parts.len(), &|_| None, &|piece| {
            let mut part = parts[piece].lock();
            let start = piece * PIECE_ROWS;
            fill(start..start + part.len(), &mut part)
        })?;
    }
    Ok(values)
}
