//! Which columns of a table have an index.

use std::collections::HashMap;
use std::sync::Arc;

use super::TableVersion;
use crate::column::Column;
use crate::error::StoreError;
use crate::index::{Index, build, indexable};
use crate::parallel::{Parallel, map};
use crate::placement::ColumnAllocator;
use crate::segment::{Part, Segment, SegmentVersion};

/// Indexes of columns with more rows are built one after the other, each by all threads: what waits to be sorted takes
/// twelve bytes a row.
const TOGETHER_ROWS_MAX: usize = 1 << 20;

/// An index to be built.
struct IndexJob<'a> {
    /// Where it belongs: part, segment, column.
    place: (usize, usize, usize),
    column: &'a Column,
    allocator: ColumnAllocator,
}

impl TableVersion {
    /// The same rows and the same version number, with an index on each of these columns in every segment and on no
    /// other: those that are there are shared, missing ones are built, each in the memory that the allocator of its
    /// part and column gives, where the placement of its index says. The work is spread over `parallel`, whose tasks
    /// call it again.
    ///
    /// # Errors
    /// [`StoreError::NotThere`] and [`StoreError::NotIndexable`] for a column, [`StoreError::Memory`] or
    /// [`StoreError::Interrupted`]; nothing is left behind.
    pub fn with_indexes(
        &self,
        columns: &[usize],
        allocator_of: &dyn Fn(usize, usize) -> ColumnAllocator,
        parallel: &dyn Parallel,
    ) -> Result<TableVersion, StoreError> {
        for &column in columns {
            self.check_indexable(column)?;
        }
        let mut large = Vec::new();
        let mut small = Vec::new();
        for (p, part) in self.parts.iter().enumerate() {
            for (s, version) in part.segments.iter().enumerate() {
                let missing = columns.iter().filter(|&&column| version.segment.index(column).is_none());
                let jobs = missing.map(|&c| IndexJob {
                    place: (p, s, c),
                    column: version.segment.column(c),
                    allocator: allocator_of(p, c),
                });
                let rows = version.segment.rows();
                if rows > TOGETHER_ROWS_MAX { &mut large } else { &mut small }.extend(jobs);
            }
        }
        let built = |job: IndexJob<'_>| Ok((job.place, Arc::new(build(job.column, &job.allocator, parallel)?)));
        let nodes: Vec<_> = small.iter().map(|job| job.allocator.placement.index.only_node()).collect();
        let mut indexes: HashMap<_, Arc<Index>> =
            map(parallel, small, &|job| nodes[job], &built)?.into_iter().collect();
        for job in large {
            let (place, index) = built(job)?;
            indexes.insert(place, index);
        }
        let parts = self.parts.iter().enumerate().map(|(p, part)| {
            let segments = part.segments.iter().enumerate();
            let segments = segments.map(|(s, version)| attached(version, columns, |c| indexes.get(&(p, s, c))));
            Arc::new(Part { segments: segments.collect() })
        });
        Ok(TableVersion { schema: self.schema.clone(), parts: parts.collect(), version: self.version })
    }

    /// Fails for a column that is not there or has no order of ours.
    pub(super) fn check_indexable(&self, column: usize) -> Result<(), StoreError> {
        let count = self.schema.fields().len();
        let Some(field) = self.schema.fields().get(column) else {
            return Err(StoreError::NotThere { what: "column", index: column, count });
        };
        if !indexable(field.data_type()) {
            let column = field.name().clone();
            let data_type = field.data_type().clone();
            return Err(StoreError::NotIndexable { column, data_type });
        }
        Ok(())
    }
}

/// The segment with just these indexes; itself where it has just these.
fn attached<'a>(
    version: &SegmentVersion,
    columns: &[usize],
    built: impl Fn(usize) -> Option<&'a Arc<Index>>,
) -> SegmentVersion {
    let old = version.segment.indexes();
    let wanted = |column: &usize| columns.contains(column);
    if (0..old.len()).all(|column| old[column].is_some() == wanted(&column)) {
        return version.clone();
    }
    let of_column = |column: usize| old[column].as_ref().or_else(|| built(column)).filter(|_| wanted(&column)).cloned();
    let indexes = (0..old.len()).map(of_column).collect();
    let segment = Segment::indexed(version.segment.rows(), version.segment.stored_columns().to_vec(), indexes);
    SegmentVersion { segment: Arc::new(segment), deleted: version.deleted.clone() }
}
