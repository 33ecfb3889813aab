//! Rows that are there, in the place of tables that a query reads.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use datafusion_common::{Column as ColumnName, DFSchemaRef, TableReference};
use datafusion_expr::{Expr, LogicalPlan, Projection, TableScanBuilder};

use crate::error::Result;
use crate::sql::fresh_name;
use crate::tables::sources::GivenSource;

/// Rows in the place of the tables that a query reads, whose schema it is.
pub(super) fn given(of: &DFSchemaRef, rows: &[RecordBatch]) -> Result<LogicalPlan> {
    let fields = of.fields().iter().enumerate();
    let fields =
        fields.map(|(place, field)| Arc::new(Field::clone(field).with_name(format!("c{place}")).with_nullable(true)));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batches = rows.iter().map(|batch| {
        let of_types = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
            match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => Ok(arrow::compute::cast(column, field.data_type())?),
            }
        });
        let columns = of_types.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    let batches = batches.collect::<Result<Vec<_>>>()?;
    let rows = match batches.is_empty() {
        true => {
            let none = schema.fields().iter().map(|field| new_empty_array(field.data_type())).collect();
            RecordBatch::try_new(Arc::clone(&schema), none)?
        }
        false => concat_batches(&schema, &batches)?,
    };
    let name = TableReference::bare(fresh_name("written"));
    let scan = TableScanBuilder::new(name.clone(), GivenSource::table(rows)).build()?;
    let named = of.iter().enumerate().map(|(place, (qualifier, field))| {
        let column = Expr::Column(ColumnName::new(Some(name.clone()), format!("c{place}")));
        column.alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), Arc::new(LogicalPlan::TableScan(scan)))?))
}
