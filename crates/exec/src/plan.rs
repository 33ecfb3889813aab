//! [`Plan`]: a tree of operators over one snapshot of a table.
//!
//! A plan is data: building it reads no row and starts nothing. The constructors [`Plan::scan`], [`Plan::filter`],
//! [`Plan::project`] and [`Plan::limit`] check column indexes and types; [`Plan::validate`] checks a tree that was put
//! together by hand, and [`execute`](crate::execute) does so before it starts. `Display` gives the lines of EXPLAIN, root
//! first, two blanks per level.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use storage::TableVersion;

use crate::PlanError;
use crate::expression::Expression;
use crate::predicate::{Predicate, column_type, same_type, validate_expression};

/// Bytes that one materialised value of a variable width is taken to have.
const VARIABLE_WIDTH_BYTES: u64 = 32;

/// One column of a projection and the field it surfaces as.
#[derive(Debug, Clone)]
pub enum Output {
    /// An input column as it is, possibly renamed.
    Column {
        /// Input column.
        column: usize,
        /// Name, type (the column's) and metadata of the output.
        field: FieldRef,
    },
    /// A computed column.
    Expression {
        /// What computes it.
        expression: Arc<dyn Expression>,
        /// Name, type (the expression's) and metadata of the output.
        field: FieldRef,
    },
}

impl Output {
    /// The field that it surfaces as.
    pub fn field(&self) -> &FieldRef {
        match self {
            Output::Column { field, .. } | Output::Expression { field, .. } => field,
        }
    }

    /// Text for EXPLAIN.
    fn describe(&self, input: &Schema) -> String {
        let (text, field) = match self {
            Output::Column { column, field } => {
                (input.fields().get(*column).map_or_else(|| format!("#{column}"), |f| f.name().clone()), field)
            }
            Output::Expression { expression, field } => (expression.describe(), field),
        };
        if text == *field.name() { text } else { format!("{text} AS {}", field.name()) }
    }
}

/// An operator and its input.
#[derive(Clone)]
pub enum Plan {
    /// The live rows of a snapshot, in order of parts, segments and rows.
    Scan {
        /// Name for EXPLAIN.
        table: String,
        /// What is read; the statement holds it for as long as it runs.
        snapshot: Arc<TableVersion>,
        /// Columns of the table that the output has, in this order.
        columns: Vec<usize>,
    },
    /// Rows of the input for which the predicate is TRUE.
    Filter {
        /// Input.
        input: Box<Plan>,
        /// Over the input's columns.
        predicate: Predicate,
    },
    /// One row per row of the input, with other columns.
    Project {
        /// Input.
        input: Box<Plan>,
        /// The columns; none is allowed (`count(*)` needs only the number of rows).
        outputs: Vec<Output>,
    },
    /// Some consecutive rows of the input.
    Limit {
        /// Input.
        input: Box<Plan>,
        /// Rows to pass over.
        skip: usize,
        /// Rows to hand out after that; all when `None`.
        fetch: Option<usize>,
    },
}

impl Plan {
    /// A scan of `columns` (indexes into the table's schema).
    pub fn scan(table: impl Into<String>, snapshot: Arc<TableVersion>, columns: Vec<usize>) -> Result<Plan, PlanError> {
        Plan::Scan { table: table.into(), snapshot, columns }.checked()
    }

    /// The rows of this plan that pass `predicate`.
    pub fn filter(self, predicate: Predicate) -> Result<Plan, PlanError> {
        Plan::Filter { input: Box::new(self), predicate }.checked()
    }

    /// This plan's rows with `outputs` as columns.
    pub fn project(self, outputs: Vec<Output>) -> Result<Plan, PlanError> {
        Plan::Project { input: Box::new(self), outputs }.checked()
    }

    /// At most `fetch` rows of this plan after the first `skip`.
    pub fn limit(self, skip: usize, fetch: Option<usize>) -> Plan {
        Plan::Limit { input: Box::new(self), skip, fetch }
    }

    fn checked(self) -> Result<Plan, PlanError> {
        self.validate_operator()?;
        Ok(self)
    }

    /// Checks every operator against its input.
    pub fn validate(&self) -> Result<(), PlanError> {
        if let Some(input) = self.input() {
            input.validate()?;
        }
        self.validate_operator()
    }

    /// Checks this operator, taking its input for granted.
    fn validate_operator(&self) -> Result<(), PlanError> {
        match self {
            Plan::Scan { table, snapshot, columns } => columns
                .iter()
                .try_for_each(|&c| column_type(c, &snapshot.schema, &|| format!("the scan of {table}")).map(|_| ())),
            Plan::Filter { input, predicate } => predicate.validate(&input.schema()),
            Plan::Project { input, outputs } => {
                let schema = input.schema();
                outputs.iter().try_for_each(|output| match output {
                    Output::Column { column, field } => {
                        let context = || format!("output {}", field.name());
                        same_type(column_type(*column, &schema, &context)?, field.data_type(), &context)
                    }
                    Output::Expression { expression, field } => {
                        validate_expression(expression.as_ref(), &schema)?;
                        same_type(expression.data_type(), field.data_type(), &|| format!("output {}", field.name()))
                    }
                })
            }
            Plan::Limit { .. } => Ok(()),
        }
    }

    /// The operator below, if any.
    pub fn input(&self) -> Option<&Plan> {
        match self {
            Plan::Scan { .. } => None,
            Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => Some(input),
        }
    }

    /// Schema of the batches that it gives.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Plan::Scan { snapshot, columns, .. } => {
                let fields: Vec<FieldRef> =
                    columns.iter().filter_map(|&c| snapshot.schema.fields().get(c).cloned()).collect();
                Arc::new(Schema::new_with_metadata(fields, snapshot.schema.metadata().clone()))
            }
            Plan::Filter { input, .. } | Plan::Limit { input, .. } => input.schema(),
            Plan::Project { outputs, .. } => {
                Arc::new(Schema::new(outputs.iter().map(|o| o.field().clone()).collect::<Vec<_>>()))
            }
        }
    }

    /// A batch of this plan's schema without rows.
    pub fn empty_batch(&self) -> RecordBatch {
        RecordBatch::new_empty(self.schema())
    }

    /// This operator's line of EXPLAIN, without its input's.
    pub fn describe_operator(&self) -> String {
        match self {
            Plan::Scan { table, snapshot, columns } => {
                let names: Vec<&str> = columns
                    .iter()
                    .map(|&c| snapshot.schema.fields().get(c).map_or("?", |f| f.name().as_str()))
                    .collect();
                format!("Scan: {table} [{}] parts={} rows={}", names.join(", "), snapshot.parts.len(), snapshot.rows())
            }
            Plan::Filter { input, predicate } => format!("Filter: {}", predicate.describe(&input.schema())),
            Plan::Project { input, outputs } => {
                let schema = input.schema();
                let texts: Vec<String> = outputs.iter().map(|o| o.describe(&schema)).collect();
                format!("Project: {}", if texts.is_empty() { "(no columns)".into() } else { texts.join(", ") })
            }
            Plan::Limit { skip, fetch, .. } => match fetch {
                Some(fetch) => format!("Limit: skip={skip}, fetch={fetch}"),
                None => format!("Limit: skip={skip}"),
            },
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = Some(self);
        let mut depth = 0;
        while let Some(operator) = next {
            if depth > 0 {
                writeln!(f)?;
            }
            write!(f, "{:indent$}{}", "", operator.describe_operator(), indent = depth * 2)?;
            next = operator.input();
            depth += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes that one value of a type takes once materialised, roughly.
pub(crate) fn width_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Null | DataType::Boolean => 1,
        other => other.primitive_width().map_or(VARIABLE_WIDTH_BYTES, |w| w as u64),
    }
}
