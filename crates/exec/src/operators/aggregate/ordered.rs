//! Results of functions that see the rows of a group in an order: the row at a place, lists, text put together; and
//! percentiles and modes of values that are no numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, GenericStringBuilder, ListArray};
use arrow::array::{OffsetSizeTrait, StringViewBuilder};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type};

use super::column::{Column, Values};
use super::lists::Lists;
use super::ranked::{RankWish, at, between, mean_of_decimals, mean_of_floats};
use super::store::{NOWHERE, Reader};
use crate::ExecError;
use crate::chunk::vector::ColumnInfo;
use crate::plan::{AggregateCall, AggregateFunction};
use crate::tasks::run::Run;

/// How a call's result is made of the rows of each group.
pub(super) struct OrderFinish {
    function: AggregateFunction,
    field: FieldRef,
    /// Which of the kept columns is the argument.
    pub(super) column: usize,
}

/// Rows of some groups in order: those of group `g` are from `starts[g]` to before `starts[g + 1]`.
struct SortedGroup {
    rows: Vec<u64>,
    starts: Vec<usize>,
}

impl SortedGroup {
    fn of(&self, group: usize) -> &[u64] {
        &self.rows[self.starts[group]..self.starts[group + 1]]
    }

    fn groups(&self) -> impl Iterator<Item = &[u64]> {
        self.starts.windows(2).map(|ends| &self.rows[ends[0]..ends[1]])
    }
}

impl OrderFinish {
    /// Of a call whose argument is one of the columns that are kept.
    pub(super) fn new(call: &AggregateCall, column: usize) -> OrderFinish {
        OrderFinish { function: call.function.clone(), field: call.field.clone(), column }
    }

    /// The value of one row per group.
    pub(super) fn of_rows(&self, reader: &Reader<'_>, rows: &[u64]) -> Result<Column, ExecError> {
        let mut column = reader.gather(rows, self.column)?;
        column.info.field = self.field.clone();
        Ok(column)
    }

    /// The results of `n` groups.
    pub(super) fn finish(
        &self,
        reader: &Reader<'_>,
        lists: &Lists,
        groups: usize,
        run: &Run<'_>,
    ) -> Result<Column, ExecError> {
        let mut sorted = SortedGroup { rows: Vec::new(), starts: vec![0] };
        for group in 0..groups {
            sorted.rows.extend(reader.order(lists.of(group), run)?);
            sorted.starts.push(sorted.rows.len());
            if group % 1024 == 0 {
                run.check()?;
            }
        }
        match &self.function {
            AggregateFunction::Nth { place, .. } => {
                let row = |rows: &[u64]| {
                    let from_front = place.unsigned_abs() as usize - 1;
                    let index = if *place > 0 { Some(from_front) } else { rows.len().checked_sub(from_front + 1) };
                    index.and_then(|i| rows.get(i).copied()).unwrap_or(NOWHERE)
                };
                self.of_rows(reader, &sorted.groups().map(row).collect::<Vec<u64>>())
            }
            AggregateFunction::Collect { .. } => self.lists(reader, &sorted),
            AggregateFunction::Join { separator } => self.texts(reader, &sorted, separator),
            function => self.ranked(reader, &sorted, RankWish::of(function)),
        }
    }

    fn arrow(&self, array: ArrayRef) -> Column {
        Column::new(ColumnInfo::plain(self.field.clone()), Values::Arrow(array), None)
    }

    fn too_large(&self, what: &str) -> ExecError {
        let name = self.field.name();
        ExecError::Evaluation(format!("{name}: {what} than fit one result; group by more, or filter first"))
    }

    fn lists(&self, reader: &Reader<'_>, sorted: &SortedGroup) -> Result<Column, ExecError> {
        let DataType::List(item) = self.field.data_type() else { unreachable!("it was validated") };
        let values = reader.gather(&sorted.rows, self.column)?.into_arrow();
        let ends = sorted.starts.iter().map(|&end| i32::try_from(end));
        let ends = ends.collect::<Result<Vec<i32>, _>>().map_err(|_| self.too_large("more values"))?;
        let valid: NullBuffer = sorted.groups().map(|rows| !rows.is_empty()).collect::<Vec<bool>>().into();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
        let item = Arc::new(item.as_ref().clone().with_nullable(true));
        let list = ListArray::try_new(item, offsets, values, Some(valid))?;
        // The item's nullability and metadata are those of the type that was planned.
        let data = list.into_data().into_builder().data_type(self.field.data_type().clone()).build()?;
        Ok(self.arrow(arrow::array::make_array(data)))
    }

    fn texts(&self, reader: &Reader<'_>, sorted: &SortedGroup, separator: &str) -> Result<Column, ExecError> {
        let values = cast(&reader.gather(&sorted.rows, self.column)?.into_arrow(), &DataType::Utf8View)?;
        let values = values.as_string_view();
        let mut text = String::new();
        let mut each = |take: &mut dyn FnMut(Option<&str>)| -> Result<(), ExecError> {
            for group in 0..sorted.starts.len() - 1 {
                let rows = sorted.starts[group]..sorted.starts[group + 1];
                if rows.is_empty() {
                    take(None);
                    continue;
                }
                text.clear();
                for row in rows.clone() {
                    if row > rows.start {
                        text.push_str(separator);
                    }
                    text.push_str(values.value(row));
                }
                if text.len() > i32::MAX as usize {
                    return Err(self.too_large("longer text"));
                }
                take(Some(&text));
            }
            Ok(())
        };
        /// Hands texts, one after the other, to whoever takes them.
        type Each<'e> = dyn FnMut(&mut dyn FnMut(Option<&str>)) -> Result<(), ExecError> + 'e;
        fn strings<O: OffsetSizeTrait>(each: &mut Each<'_>) -> Result<ArrayRef, ExecError> {
            let mut builder = GenericStringBuilder::<O>::new();
            each(&mut |text| builder.append_option(text))?;
            Ok(Arc::new(builder.finish()))
        }
        let array = match self.field.data_type() {
            DataType::Utf8View => {
                let mut builder = StringViewBuilder::new();
                each(&mut |text| builder.append_option(text))?;
                Arc::new(builder.finish()) as ArrayRef
            }
            DataType::LargeUtf8 => strings::<i64>(&mut each)?,
            _ => {
                // Offsets of all texts together are what may not fit.
                let long = strings::<i64>(&mut each)?;
                cast(&long, &DataType::Utf8).map_err(|_| self.too_large("longer texts"))?
            }
        };
        Ok(self.arrow(array))
    }

    /// Percentiles and modes. The rows are in the call's order, whichever its direction.
    fn ranked(&self, reader: &Reader<'_>, sorted: &SortedGroup, wanted: RankWish) -> Result<Column, ExecError> {
        let groups = sorted.starts.len() - 1;
        let (mut firsts, mut seconds, mut parts) = (Vec::with_capacity(groups), Vec::new(), Vec::new());
        for group in 0..groups {
            let rows = sorted.of(group);
            match wanted {
                _ if rows.is_empty() => {
                    firsts.push(NOWHERE);
                    seconds.push(NOWHERE);
                    parts.push(0.0);
                }
                RankWish::At(share) => firsts.push(rows[at(share, rows.len())]),
                RankWish::Mode => {
                    let mut best = &rows[..0];
                    for equal in rows.chunk_by(|&a, &b| reader.are_equal(a, b)) {
                        best = if equal.len() > best.len() { equal } else { best };
                    }
                    firsts.push(best[0]);
                }
                RankWish::Between(share) => {
                    let (first, second, part) = between(share, rows.len());
                    firsts.push(rows[first]);
                    seconds.push(rows[second]);
                    parts.push(part);
                }
            }
        }
        if !matches!(wanted, RankWish::Between(_)) {
            return self.of_rows(reader, &firsts);
        }
        let low = reader.gather(&firsts, self.column)?.into_arrow();
        let high = reader.gather(&seconds, self.column)?.into_arrow();
        let valid: Vec<bool> = (0..groups).map(|g| low.is_valid(g)).collect();
        if let DataType::Decimal128(..) = self.field.data_type() {
            let (low, high) = (low.as_primitive::<Decimal128Type>(), high.as_primitive::<Decimal128Type>());
            let mean = |g: usize| valid[g].then(|| mean_of_decimals(low.value(g), high.value(g), parts[g]));
            let means: Decimal128Array = (0..groups).map(mean).collect();
            return Ok(self.arrow(Arc::new(means.with_data_type(self.field.data_type().clone()))));
        }
        if *self.field.data_type() != DataType::Float64 {
            let name = self.field.name();
            return Err(ExecError::Evaluation(format!("{name}: no mean of {}; cast the argument", low.data_type())));
        }
        let (low, high) = (cast(&low, &DataType::Float64)?, cast(&high, &DataType::Float64)?);
        let (low, high) = (low.as_primitive::<Float64Type>(), high.as_primitive::<Float64Type>());
        let mean = |g: usize| valid[g].then(|| mean_of_floats(low.value(g), high.value(g), parts[g]));
        let means: Float64Array = (0..groups).map(mean).collect();
        let info = ColumnInfo::plain(self.field.clone());
        let vector = info.vector_of(&(Arc::new(means) as ArrayRef));
        Ok(Column::of_vector(info, vector))
    }
}
