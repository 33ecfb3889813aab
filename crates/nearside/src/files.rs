//! Files as tables: `SELECT .. FROM 'lineitem.parquet'` and external tables. Each statement reads them anew, on the private
//! runtime's blocking threads.
//!
//! # Limits
//! Columns that are not asked for are not decoded; filters are evaluated after reading. Row order across pieces of a file
//! is not kept.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use files::{FileFormat, FileSet, ReadOptions};

use crate::busy::Reading;
use crate::database::Inner;
use crate::error::{Error, Result};

/// Batches that may wait for the operators.
const WAITING_BATCHES: usize = 2;

/// Files behind a path, folder or glob.
#[derive(Debug)]
pub(crate) struct FileTable {
    path: String,
    options: ReadOptions,
    schema: SchemaRef,
    threads: usize,
}

impl FileTable {
    /// Finds the files and their columns.
    pub(crate) fn open(path: &str, options: &ReadOptions, inner: &Arc<Inner>) -> Result<FileTable> {
        let files = FileSet::open(path, options)?;
        Ok(FileTable {
            path: path.into(),
            options: options.clone(),
            schema: Arc::clone(files.schema()),
            threads: inner.scheduler.threads(),
        })
    }

    /// True for names that can only mean files: they hold a separator or wildcard, or end like a file we read.
    pub(crate) fn looks_like_path(name: &str) -> bool {
        name.contains(['/', '*', '?']) || FileFormat::from_path(Path::new(name)).is_some()
    }
}

#[async_trait::async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut options = self.options.clone();
        let empty = projection.is_some_and(Vec::is_empty);
        if let Some(columns) = projection {
            // Rows can only be counted by reading some column.
            let wanted = if empty { &[0][..] } else { columns.as_slice() };
            options.columns = Some(wanted.iter().map(|&i| self.schema.field(i).name().clone()).collect());
        }
        let files = FileSet::open(&self.path, &options).map_err(|e| Error::from(e).into_datafusion())?;
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let files = Arc::new(files);
        let partitions = self.threads.max(1);
        let streams: Vec<_> = (0..partitions)
            .map(|partition| {
                Arc::new(FilePartition {
                    files: Arc::clone(&files),
                    partition,
                    partitions,
                    schema: Arc::clone(&schema),
                    no_columns: empty,
                }) as Arc<dyn PartitionStream>
            })
            .collect();
        StreamingTable::try_new(schema, streams)?.scan(state, None, &[], limit).await
    }
}

/// Every n-th run of a file set's pieces.
#[derive(Debug)]
struct FilePartition {
    files: Arc<FileSet>,
    partition: usize,
    partitions: usize,
    schema: SchemaRef,
    no_columns: bool,
}

impl PartitionStream for FilePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), WAITING_BATCHES);
        let sender = builder.tx();
        let pieces = self.files.producers(self.partitions);
        let share = pieces.len().div_ceil(self.partitions).max(1);
        let (partition, schema, no_columns) = (self.partition, Arc::clone(&self.schema), self.no_columns);
        builder.spawn_blocking(move || {
            let mut batches = pieces.into_iter().skip(partition * share).take(share).flatten();
            loop {
                // Busy while it reads, not while it waits for room.
                let reading = Reading::begin();
                let Some(batch) = batches.next() else { break };
                let batch =
                    batch.map_err(|e| Error::from(e).into_datafusion()).and_then(|b| renamed(b, &schema, no_columns));
                drop(reading);
                let failed = batch.is_err();
                if sender.blocking_send(batch).is_err() || failed {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

fn renamed(batch: RecordBatch, schema: &SchemaRef, no_columns: bool) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = if no_columns { vec![] } else { batch.columns().to_vec() };
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
