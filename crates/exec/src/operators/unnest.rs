//! UNNEST: a row per element of lists. Rows are numbers of the chunk's, so what stands beside the lists is repeated
//! only if somebody reads it; elements are taken from the lists' values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::foreign::info_of;
use crate::ExecError;
use crate::chunk::vector::ColumnInfo;
use crate::chunk::{CHUNK_ROWS, Chunk};
use crate::pipe::filters::Filters;
use crate::pipe::flow::Flow;
use crate::pipe::{Operator, Out, Pipe};
use crate::plan::Unnesting;
use crate::tasks::profile::OperatorPlace;

/// A pipe of the operator's rows.
pub(crate) fn pipe(
    flow: &Flow<'_>,
    unnesting: &Unnesting,
    place: &OperatorPlace,
    filters: &Filters,
) -> Result<Pipe, ExecError> {
    let width = unnesting.input.schema().fields().len();
    // Rows of the input that nobody has a use for have no row that anybody has.
    let below = filters.iter().filter(|wanted| wanted.column < width).cloned().collect();
    let pipe = flow.pipe(&unnesting.input, &place.input(0), &below)?;
    let schema = unnesting.schema();
    let elements: Arc<[ColumnInfo]> = schema.fields()[width..].iter().map(info_of).collect();
    let given: Arc<[ColumnInfo]> = pipe.infos.clone().into();
    let lists = unnesting.lists.iter().map(|&(column, _)| (column, pipe.infos[column].clone())).collect();
    let infos = pipe.infos.iter().chain(elements.iter()).cloned().collect();
    let (outer, statement) = (unnesting.outer, flow.run.statement.clone());
    Ok(pipe.then(Unnest { given, lists, elements, outer, statement }, infos))
}

#[derive(Clone)]
struct Unnest {
    /// What is known of the input's columns.
    given: Arc<[ColumnInfo]>,
    /// Columns with lists, and what is known of those.
    lists: Arc<[(usize, ColumnInfo)]>,
    elements: Arc<[ColumnInfo]>,
    outer: bool,
    statement: Arc<sched::Statement>,
}

impl Operator for Unnest {
    fn kind(&self) -> Option<&'static str> {
        Some("unnest")
    }

    fn push(&self, mut chunk: Chunk, out: &mut Out<'_>) -> Result<bool, ExecError> {
        let lists: Vec<Lists> =
            self.lists.iter().map(|(column, info)| Lists::of(&info.to_arrow(&chunk.column(*column)))).collect();
        // A list that was loaded would be copied for each of its elements.
        let chunk = chunk.repeatable(&self.given);
        let least = usize::from(self.outer);
        let longest = |row: usize| lists.iter().map(|list| list.elements(row).1).max().unwrap_or(0).max(least);
        let mut part = ListPart::new(lists.len());
        for row in 0..chunk.rows() {
            let (mut from, length) = (0, longest(row));
            while from < length {
                let to = length.min(from + CHUNK_ROWS - part.rows.len());
                part.add(&lists, row, from..to);
                from = to;
                if part.rows.len() == CHUNK_ROWS && !self.hand_on(&chunk, &lists, &mut part, out)? {
                    return Ok(false);
                }
            }
        }
        Ok(part.rows.is_empty() || self.hand_on(&chunk, &lists, &mut part, out)?)
    }
}

impl Unnest {
    fn hand_on(
        &self,
        chunk: &Chunk,
        lists: &[Lists],
        part: &mut ListPart,
        out: &mut Out<'_>,
    ) -> Result<bool, ExecError> {
        self.statement.check().map_err(|_| crate::error::stopped(&self.statement))?;
        let mut rows = chunk.clone();
        rows.keep(&part.rows);
        for ((list, places), info) in lists.iter().zip(&mut part.elements).zip(self.elements.iter()) {
            let values = take(&list.values, &UInt64Array::from(std::mem::take(places)), None)?;
            rows.push(Arc::new(info.vector_of(&values)));
        }
        part.rows.clear();
        out(rows)
    }
}

/// Rows on their way out: numbers of the chunk's rows, and per list which of its values stand beside them.
struct ListPart {
    rows: Vec<u32>,
    elements: Vec<Vec<Option<u64>>>,
}

impl ListPart {
    fn new(lists: usize) -> ListPart {
        ListPart { rows: Vec::new(), elements: vec![Vec::new(); lists] }
    }

    /// Some elements of a row's lists.
    fn add(&mut self, lists: &[Lists], row: usize, range: std::ops::Range<usize>) {
        self.rows.resize(self.rows.len() + range.len(), row as u32);
        for (list, elements) in lists.iter().zip(&mut self.elements) {
            let (first, length) = list.elements(row);
            elements.extend(range.clone().map(|i| (i < length).then_some((first + i) as u64)));
        }
    }
}

/// The lists of a chunk.
struct Lists {
    array: ArrayRef,
    values: ArrayRef,
}

impl Lists {
    fn of(array: &ArrayRef) -> Lists {
        let values = match array.data_type() {
            DataType::List(_) => array.as_list::<i32>().values(),
            DataType::LargeList(_) => array.as_list::<i64>().values(),
            DataType::FixedSizeList(..) => array.as_fixed_size_list().values(),
            other => unreachable!("{other} is no list, which was checked"),
        };
        Lists { values: values.clone(), array: array.clone() }
    }

    /// Where a row's elements begin, and how many there are.
    fn elements(&self, row: usize) -> (usize, usize) {
        if self.array.is_null(row) {
            return (0, 0);
        }
        match self.array.data_type() {
            DataType::List(_) => {
                let offsets = self.array.as_list::<i32>().value_offsets();
                (offsets[row] as usize, (offsets[row + 1] - offsets[row]) as usize)
            }
            DataType::LargeList(_) => {
                let offsets = self.array.as_list::<i64>().value_offsets();
                (offsets[row] as usize, (offsets[row + 1] - offsets[row]) as usize)
            }
            _ => {
                let lists = self.array.as_fixed_size_list();
                (lists.value_offset(row) as usize, lists.value_length() as usize)
            }
        }
    }
}
