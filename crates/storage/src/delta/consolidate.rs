//! From a base and a delta to a table version that can be scanned.
//!
//! A chunk of the log is encoded by whoever first needs it and kept for all views that have it; what is behind the last
//! chunk is kept for the views that end with it. Two threads that need the same at the same time may both encode it:
//! one result stays.

use std::sync::Arc;

use arrow::array::RecordBatch;
use numa::Allocator;

use super::log::LogSegment;
use super::{Delta, View, check_types};
use crate::GRANULE_ROWS;
use crate::build::build_part;
use crate::deleted::DeletedRows;
use crate::error::StoreError;
use crate::parallel::{Parallel, Serial, map};
use crate::placement::ColumnAllocator;
use crate::segment::{Part, Segment, SegmentVersion};
use crate::stage::Stager;
use crate::table::{RowsToDelete, TableVersion};

impl Delta {
    /// The whole content as a table version: the base's segments, with more deleted rows where rows died, and the log's
    /// rows as further segments of the last part (of the first, where the base has none). Rows are in the base's order,
    /// then in the log's. Its number is the base's and the number of entries.
    ///
    /// Encoded rows are kept for later calls and other views, in the memory of who first called: `allocators`, one for
    /// each column, and `table_allocator`, for the deleted rows, are to be the table's own, not a statement's. The work
    /// is spread over `parallel`, whose tasks may call it again.
    ///
    /// # Errors
    /// [`StoreError::Memory`], [`StoreError::Interrupted`], [`StoreError::NotThere`] where a row of the base died that
    /// this base does not have, [`StoreError::ColumnCount`] and [`StoreError::TypeMismatch`] where the base has another
    /// schema. Nothing is left behind but chunks that were encoded before.
    pub fn consolidated(
        &self,
        base: &TableVersion,
        allocators: &[ColumnAllocator],
        table_allocator: &Allocator,
        parallel: &dyn Parallel,
    ) -> Result<TableVersion, StoreError> {
        let view = self.view.as_ref();
        check_types(&base.schema, view.schema.fields().iter().map(|field| field.data_type()))?;
        let deletes = view.deletes(base)?;
        let kept = if deletes.is_empty() { base.clone() } else { base.with_deleted(&deletes, table_allocator)? };
        let segments = match view.segments.get() {
            Some(segments) => segments,
            None => {
                let segments = view.encoded(allocators, table_allocator, parallel)?;
                view.segments.get_or_init(|| segments)
            }
        };
        let mut parts = kept.parts;
        match parts.last_mut() {
            _ if segments.is_empty() => {}
            Some(last) => {
                let segments = last.segments.iter().chain(segments).cloned().collect();
                *last = Arc::new(Part { segments });
            }
            None => parts.push(Arc::new(Part { segments: segments.clone() })),
        }
        Ok(TableVersion { schema: kept.schema, parts, version: base.version + view.entries as u64 })
    }
}

impl View {
    /// The rows of the base that died.
    fn deletes(&self, base: &TableVersion) -> Result<Vec<RowsToDelete>, StoreError> {
        let places = base.parts.iter().enumerate();
        let mut places = places.flat_map(|(part, p)| (0..p.segments.len()).map(move |segment| (part, segment)));
        let mut next = 0;
        let mut deletes = Vec::new();
        for (place, rows) in self.dead_base.by_segment() {
            let place = place as usize;
            let Some((part, segment)) = places.nth(place - next) else {
                let count = base.segments().count();
                return Err(StoreError::NotThere { what: "segment", index: place, count });
            };
            next = place + 1;
            deletes.push(RowsToDelete { part, segment, rows });
        }
        Ok(deletes)
    }

    /// The segments of the log's rows.
    fn encoded(
        &self,
        allocators: &[ColumnAllocator],
        table_allocator: &Allocator,
        parallel: &dyn Parallel,
    ) -> Result<Vec<SegmentVersion>, StoreError> {
        let count = self.schema.fields().len();
        assert_eq!(allocators.len(), count, "one allocator per column");
        let missing: Vec<_> = self.log.all_segments().filter(|segment| segment.encoded.get().is_none()).collect();
        let encode = |segment: LogSegment<'_>| {
            let built = self.encode(&segment, allocators, parallel)?;
            segment.encoded.get_or_init(|| built);
            Ok(())
        };
        if missing.len() > 1 {
            let node = allocators[0].home();
            map(parallel, missing, &|_| node, &encode)?;
        } else {
            missing.into_iter().try_for_each(encode)?;
        }
        let version = |segment: LogSegment<'_>| {
            let encoded = segment.encoded.get().expect("every segment is encoded");
            let dead = self.dead_delta.within(segment.rows);
            let deleted = match dead.is_empty() {
                true => None,
                false => Some(DeletedRows::none(encoded.rows()).with_deleted(&dead, table_allocator)?),
            };
            Ok(SegmentVersion { segment: Arc::clone(encoded), deleted })
        };
        self.log.all_segments().map(version).collect()
    }

    fn encode(
        &self,
        segment: &LogSegment<'_>,
        allocators: &[ColumnAllocator],
        parallel: &dyn Parallel,
    ) -> Result<Arc<Segment>, StoreError> {
        // A usual chunk takes less time than handing its columns out.
        let parallel = if segment.rows.len() > GRANULE_ROWS { parallel } else { &Serial };
        let mut stager = Stager::new(Arc::clone(&self.schema), allocators[0].staging());
        stager.append(&RecordBatch::try_new(Arc::clone(&self.schema), segment.columns()?)?)?;
        let part = build_part(&self.schema, vec![stager.finish()?], allocators, parallel)?;
        let [version] = part.segments.as_slice() else {
            panic!("{} segments of {} rows", part.segments.len(), segment.rows.len());
        };
        Ok(Arc::clone(&version.segment))
    }
}
