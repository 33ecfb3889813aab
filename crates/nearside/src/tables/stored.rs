//! [`StoredSource`]: a stored table as the planner sees it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::{Constraint, Constraints, Result as DfResult};
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableSource};

use crate::catalog::defaults::{ColumnDefault, ColumnDefaults};
use crate::catalog::lengths::told;
use crate::catalog::{Name, TableEntry};
use crate::functions::sequences::{Sequences, bound};
use crate::tables::exact::is_exact_in_scan;

/// The hidden column that DELETE and UPDATE read: which row of which segment.
pub(crate) const ROW_ID: &str = "__nearside_row";

/// A stored table as the planner sees it: identity and columns, no rows.
#[derive(Debug)]
pub(crate) struct StoredSource {
    /// The table's identity.
    pub id: u64,
    /// The table's name.
    pub name: Arc<Name>,
    /// The same as people write it.
    pub shown: Arc<str>,
    /// Columns, with [`ROW_ID`] last where asked for.
    pub schema: SchemaRef,
    /// Whether the last column is [`ROW_ID`].
    pub row_ids: bool,
    defaults: ColumnDefaults,
    constraints: Constraints,
}

impl StoredSource {
    /// For reading and inserting.
    pub(crate) fn new(table: &TableEntry) -> StoredSource {
        let schema = told(&table.base.schema, &table.lengths);
        // A key that may be NULL does not tell NULLs apart, and the planner would take it for one that does.
        let columns = |key: &[String]| key.iter().map(|c| schema.index_of(c).ok()).collect::<Option<Vec<usize>>>();
        let required = |key: &Vec<usize>| key.iter().all(|&column| !schema.field(column).is_nullable());
        let keys: Vec<_> = table.keys().filter_map(columns).filter(required).map(Constraint::Unique).collect();
        StoredSource {
            id: table.id,
            name: Arc::clone(&table.name),
            shown: table.name.shown().into(),
            constraints: Constraints::new_unverified(keys),
            schema,
            row_ids: false,
            defaults: defaults_of(table),
        }
    }

    /// For DELETE and UPDATE: the rows' identities stand in a last column.
    pub(crate) fn with_row_ids(table: &TableEntry) -> StoredSource {
        let mut source = StoredSource::new(table);
        let mut fields: Vec<_> = source.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_ID, DataType::UInt64, false)));
        source.schema = Arc::new(Schema::new(fields));
        source.row_ids = true;
        source
    }
}

impl StoredSource {
    /// The same, whose defaults take values of sequences from who is told.
    pub(crate) fn counting(mut self, sequences: Option<&Arc<dyn Sequences>>) -> StoredSource {
        let counts = |default: &ColumnDefault| default.expr.is_volatile();
        if let Some(sequences) = sequences
            && self.defaults.values().any(counts)
        {
            let defaults = Arc::make_mut(&mut self.defaults);
            defaults.values_mut().for_each(|default| default.expr = bound(&default.expr, Some(sequences)));
        }
        self
    }

    /// A column's default as it is written.
    pub(crate) fn default_text(&self, column: &str) -> Option<&str> {
        self.defaults.get(column).map(|default| &*default.text)
    }
}

/// A table's defaults, those of its columns' domains among them.
fn defaults_of(table: &TableEntry) -> ColumnDefaults {
    let of_domains = table.rules.domains.keys().filter(|column| !table.defaults.contains_key(*column));
    let of_domains: Vec<_> =
        of_domains.filter_map(|column| Some((column.clone(), table.default_of(column)?.clone()))).collect();
    let mut defaults = Arc::clone(&table.defaults);
    if !of_domains.is_empty() {
        Arc::make_mut(&mut defaults).extend(of_domains);
    }
    defaults
}

impl TableSource for StoredSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let answer = |f: &&Expr| {
            if is_exact_in_scan(f) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(answer).collect())
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column).map(|default| &default.expr)
    }
}
