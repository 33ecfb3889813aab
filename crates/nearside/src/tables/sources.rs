//! Tables that are not stored, as the planner sees them: [`ForeignSource`] reads or computes its rows when a
//! statement runs, [`GivenSource`] has them already, [`WorkSource`] is what the step of a recursive query reads.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion_expr::{TableSource, TableType};
use exec::RowSource;

/// Rows that come from elsewhere while the statement runs: files, functions.
pub(crate) struct ForeignSource {
    /// What gives them.
    pub rows: Arc<dyn RowSource>,
    schema: SchemaRef,
}

impl ForeignSource {
    /// A table of these rows.
    pub(crate) fn table(rows: Arc<dyn RowSource>) -> Arc<dyn TableSource> {
        let schema = rows.schema();
        Arc::new(ForeignSource { rows, schema })
    }
}

impl TableSource for ForeignSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Rows that are there already: of system views.
pub(crate) struct GivenSource {
    /// The rows.
    pub batch: RecordBatch,
}

impl GivenSource {
    /// A table of these rows.
    pub(crate) fn table(batch: RecordBatch) -> Arc<dyn TableSource> {
        Arc::new(GivenSource { batch })
    }
}

impl TableSource for GivenSource {
    fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }
}

/// The rows that the last step of a recursive query has made.
pub(crate) struct WorkSource {
    /// The query's name.
    pub name: String,
    schema: SchemaRef,
}

impl WorkSource {
    /// Of the query with this name.
    pub(crate) fn table(name: &str, schema: SchemaRef) -> Arc<dyn TableSource> {
        // Steps may make NULLs where the first rows have none.
        let fields = schema.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
        Arc::new(WorkSource { name: name.into(), schema: Arc::new(schema) })
    }
}

impl TableSource for WorkSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
