//! Table versions: immutable snapshots, each made from the one before.
//!
//! # Invariants
//! A version never changes; the `with_*` builders share everything that stays the same and count `version` up by one.

mod attach;
mod duplicate;
mod find;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use numa::Allocator;

use crate::column::{Column, RowIds};
use crate::constant::constant_column;
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::index::Index;
use crate::on_disk::{ColumnOnDisk, load_columns};
use crate::parallel::Parallel;
use crate::placement::ColumnAllocator;
use crate::segment::{Part, Segment, SegmentVersion, StoredColumn};
use crate::types::{surface_schema, surface_type};
pub use duplicate::{DuplicateKey, KeyCheck, KeyLimits, duplicate_key};
pub use find::{Keys, RowPlace};

/// One snapshot of a table.
#[derive(Debug, Clone)]
pub struct TableVersion {
    /// The columns, in surface types.
    pub schema: SchemaRef,
    /// The parts, in row order.
    pub parts: Vec<Arc<Part>>,
    /// Counts the changes of the table.
    pub version: u64,
}

/// Rows of one segment that a statement deletes.
#[derive(Debug, Clone)]
pub struct RowsToDelete {
    /// Index of the part.
    pub part: usize,
    /// Index of the segment within the part.
    pub segment: usize,
    /// Rows within the segment, in any order.
    pub rows: Vec<u32>,
}

/// A column and the index on it, if there is one.
type IndexedColumn = (StoredColumn, Option<Arc<Index>>);

impl TableVersion {
    /// A table without rows; types are brought to their surface types.
    pub fn empty(schema: &Schema) -> TableVersion {
        TableVersion { schema: Arc::new(surface_schema(schema)), parts: Vec::new(), version: 0 }
    }

    /// Number of rows that are not deleted.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.live_rows()).sum()
    }

    /// Every segment, in row order.
    pub fn segments(&self) -> impl Iterator<Item = &SegmentVersion> {
        self.parts.iter().flat_map(|part| &part.segments)
    }

    /// Bytes of codes, dictionaries, values, indexes and bitmaps in memory; a dictionary that segments share counts
    /// once.
    pub fn bytes(&self) -> usize {
        let mut seen = HashSet::new();
        let mut bytes = 0;
        for version in self.segments() {
            bytes += version.deleted.as_ref().map_or(0, |deleted| deleted.bytes());
            bytes += version.segment.indexes().iter().flatten().map(|index| index.bytes()).sum::<usize>();
            for column in version.segment.stored_columns().iter().filter_map(StoredColumn::resident) {
                bytes += column.bytes_codes();
                if let Some(coded) = column.as_coded()
                    && seen.insert(coded.dictionary().id())
                {
                    bytes += coded.dictionary().bytes();
                }
            }
        }
        bytes
    }

    /// Columns that are on the disk and not in memory yet, of those that are wanted.
    pub fn on_disk(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<&Arc<ColumnOnDisk>> {
        let columns = self.segments().flat_map(|version| version.segment.stored_columns().iter().enumerate());
        let wanted = columns.filter(|(place, _)| is_wanted(*place));
        let of = wanted.filter_map(|(_, column)| match column {
            StoredColumn::OnDisk(column) if column.get().is_none() => Some(column),
            _ => None,
        });
        of.collect()
    }

    /// Brings columns into memory that are on the disk, those of all segments that are wanted.
    ///
    /// # Errors
    /// [`StoreError::Source`], [`StoreError::Memory`], [`StoreError::Interrupted`]; some may have come.
    pub fn load(&self, is_wanted: impl Fn(usize) -> bool, parallel: &dyn Parallel) -> Result<(), StoreError> {
        load_columns(self.on_disk(is_wanted), parallel)
    }

    /// With the rows of `part` behind the others: its segments join the last part, or become the first.
    pub fn with_appended(&self, part: Part) -> TableVersion {
        let mut parts = self.parts.clone();
        match parts.last_mut() {
            Some(last) => {
                let segments = last.segments.iter().cloned().chain(part.segments).collect();
                *last = Arc::new(Part { segments });
            }
            None => parts.push(Arc::new(part)),
        }
        self.with_parts(parts)
    }

    /// With rows of several parts: the segments of item `i` join part `i`; items behind the last part become parts.
    pub fn with_appended_parts(&self, appended: Vec<Part>) -> TableVersion {
        let mut parts = self.parts.clone();
        for (i, part) in appended.into_iter().enumerate() {
            match parts.get_mut(i) {
                Some(_) if part.segments.is_empty() => {}
                Some(known) => {
                    let segments = known.segments.iter().cloned().chain(part.segments).collect();
                    *known = Arc::new(Part { segments });
                }
                None => parts.push(Arc::new(part)),
            }
        }
        self.with_parts(parts)
    }

    /// With these parts instead.
    pub fn with_parts(&self, parts: Vec<Arc<Part>>) -> TableVersion {
        TableVersion { schema: Arc::clone(&self.schema), parts, version: self.version + 1 }
    }

    /// With `replacement` instead of a range of a part's segments, as `compact` made it.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn with_replaced(
        &self,
        part: usize,
        segments: std::ops::Range<usize>,
        replacement: Vec<SegmentVersion>,
    ) -> Result<TableVersion, StoreError> {
        self.segments_of(part, segments.clone())?;
        let mut parts = self.parts.clone();
        let mut new = parts[part].segments.clone();
        new.splice(segments, replacement);
        parts[part] = Arc::new(Part { segments: new });
        Ok(self.with_parts(parts))
    }

    /// Without these rows too; each segment may be listed more than once.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] for a part, segment or row that is not there, [`StoreError::Memory`].
    pub fn with_deleted(&self, deletes: &[RowsToDelete], allocator: &Allocator) -> Result<TableVersion, StoreError> {
        let mut parts = self.parts.clone();
        for delete in deletes.iter().filter(|delete| !delete.rows.is_empty()) {
            let count = self.part(delete.part)?.segments.len();
            let segments = &mut Arc::make_mut(&mut parts[delete.part]).segments;
            let Some(version) = segments.get_mut(delete.segment) else {
                return Err(StoreError::NotThere { what: "segment", index: delete.segment, count });
            };
            let deleted = match &version.deleted {
                Some(old) => old.with_deleted(&delete.rows, allocator)?,
                None => DeletedRows::none(version.segment.rows()).with_deleted(&delete.rows, allocator)?,
            };
            version.deleted = Some(deleted);
        }
        Ok(self.with_parts(parts))
    }

    /// With another column behind the others that has `value` (one value of the field's type, or `None` for NULL) in
    /// every row; `allocator_of_part` gives each part its own.
    ///
    /// # Errors
    /// [`StoreError::DuplicateColumn`], [`StoreError::NullNotAllowed`] where a table with rows would get NULLs it must
    /// not have, and the errors of [`constant_column`].
    pub fn with_column_added(
        &self,
        field: &Field,
        value: Option<&dyn Array>,
        allocator_of_part: &dyn Fn(usize) -> ColumnAllocator,
    ) -> Result<TableVersion, StoreError> {
        self.check_name(field.name())?;
        let null = value.is_none_or(|value| value.len() == 1 && value.is_null(0));
        if null && !field.is_nullable() && self.segments().next().is_some() {
            return Err(StoreError::NullNotAllowed { column: field.name().clone() });
        }
        let data_type = surface_type(field.data_type());
        let schema = self.schema_with(|fields| fields.push(field.clone().with_data_type(data_type.clone())));
        self.with_columns(schema, |part, rows, columns| {
            let column = constant_column(&data_type, value, rows, &allocator_of_part(part))?;
            columns.push((StoredColumn::Resident(Arc::new(column)), None));
            Ok(())
        })
    }

    /// Without a column.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn with_column_dropped(&self, column: usize) -> Result<TableVersion, StoreError> {
        self.check_column(column)?;
        let schema = self.schema_with(|fields| drop(fields.remove(column)));
        self.with_columns(schema, |_, _, columns| {
            columns.remove(column);
            Ok(())
        })
    }

    /// With another name for a column.
    ///
    /// # Errors
    /// [`StoreError::NotThere`], [`StoreError::DuplicateColumn`].
    pub fn with_column_renamed(&self, column: usize, name: &str) -> Result<TableVersion, StoreError> {
        self.check_column(column)?;
        if self.schema.field(column).name() != name {
            self.check_name(name)?;
        }
        let schema = self.schema_with(|fields| fields[column] = fields[column].clone().with_name(name));
        Ok(TableVersion { schema, ..self.with_parts(self.parts.clone()) })
    }

    /// With a column that may be NULL, or that is never.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub fn with_column_nullable(&self, column: usize, nullable: bool) -> Result<TableVersion, StoreError> {
        self.check_column(column)?;
        let schema = self.schema_with(|fields| fields[column] = fields[column].clone().with_nullable(nullable));
        Ok(TableVersion { schema, ..self.with_parts(self.parts.clone()) })
    }

    /// With one more column, named `name`, that says which row of which segment each row is ([`RowIds`]).
    pub fn with_row_ids(&self, name: &str) -> TableVersion {
        let schema = self.schema_with(|fields| fields.push(Field::new(name, DataType::UInt64, false)));
        let mut place = 0;
        let mut numbered = |version: &SegmentVersion| {
            let rows = version.segment.rows();
            let ids = StoredColumn::Resident(Arc::new(Column::RowIds(RowIds { segment: place, rows })));
            place += 1;
            let columns = version.segment.stored_columns().iter().cloned().chain([ids]).collect();
            let indexes = version.segment.indexes().iter().cloned().chain([None]).collect();
            let segment = Arc::new(Segment::indexed(rows, columns, indexes));
            SegmentVersion { segment, deleted: version.deleted.clone() }
        };
        let parts = self
            .parts
            .iter()
            .map(|part| Arc::new(Part { segments: part.segments.iter().map(&mut numbered).collect() }));
        let parts = parts.collect();
        TableVersion { schema, parts, version: self.version }
    }

    /// Without any row.
    pub fn truncated(&self) -> TableVersion {
        self.with_parts(Vec::new())
    }

    fn part(&self, part: usize) -> Result<&Arc<Part>, StoreError> {
        let count = self.parts.len();
        self.parts.get(part).ok_or(StoreError::NotThere { what: "part", index: part, count })
    }

    /// Some segments of a part.
    ///
    /// # Errors
    /// [`StoreError::NotThere`].
    pub(crate) fn segments_of(
        &self,
        part: usize,
        range: std::ops::Range<usize>,
    ) -> Result<&[SegmentVersion], StoreError> {
        let segments = &self.part(part)?.segments;
        let error = StoreError::NotThere { what: "segment", index: range.end, count: segments.len() };
        segments.get(range).ok_or(error)
    }

    fn check_column(&self, index: usize) -> Result<(), StoreError> {
        let count = self.schema.fields().len();
        if index < count { Ok(()) } else { Err(StoreError::NotThere { what: "column", index, count }) }
    }

    fn check_name(&self, name: &str) -> Result<(), StoreError> {
        match self.schema.column_with_name(name) {
            Some(_) => Err(StoreError::DuplicateColumn { column: name.to_string() }),
            None => Ok(()),
        }
    }

    fn schema_with(&self, change: impl FnOnce(&mut Vec<Field>)) -> SchemaRef {
        let mut fields = self.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        change(&mut fields);
        Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()))
    }

    fn with_columns(
        &self,
        schema: SchemaRef,
        change: impl Fn(usize, usize, &mut Vec<IndexedColumn>) -> Result<(), StoreError>,
    ) -> Result<TableVersion, StoreError> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            let mut segments = Vec::with_capacity(part.segments.len());
            for version in &part.segments {
                let rows = version.segment.rows();
                let of_segment = version.segment.stored_columns().iter().zip(version.segment.indexes());
                let mut columns = of_segment.map(|(column, index)| (column.clone(), index.clone())).collect();
                change(index, rows, &mut columns)?;
                let (columns, indexes) = columns.into_iter().unzip();
                let segment = Arc::new(Segment::indexed(rows, columns, indexes));
                segments.push(SegmentVersion { segment, deleted: version.deleted.clone() });
            }
            parts.push(Arc::new(Part { segments }));
        }
        Ok(TableVersion { schema, ..self.with_parts(parts) })
    }
}
