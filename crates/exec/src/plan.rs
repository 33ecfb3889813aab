//! [`Plan`]: a tree of operators over snapshots of tables.
//!
//! A plan is data: building it reads no row and starts nothing. The constructors [`Plan::scan`], [`Plan::filter`],
//! [`Plan::project`] and [`Plan::limit`] check column indexes and types; [`Plan::validate`] checks a tree that was put
//! together by hand, and [`execute`](crate::execute) does so before it starts. `Display` gives the lines of EXPLAIN,
//! root first, two blanks per level.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use storage::TableVersion;

use crate::PlanError;
use expression::Expression;
use predicate::{Predicate, column_type, same_type, validate_expression};

mod aggregation;
mod checked;
pub(crate) mod delicate;
pub(crate) mod expression;
pub(crate) mod literal;
mod literals;
mod operators;
pub(crate) mod predicate;
mod relational;
mod sources;
pub(crate) mod text;
mod unnest;
mod window;

pub use aggregation::{
    AggregateCall, AggregateFunction, Aggregation, GroupedRows, GroupingSet, GroupingSets, OpaqueAggregate,
    OpaqueGroups,
};
pub use checked::CheckedPlan;
pub use operators::{ListedOperator, OperatorId, PerOperator};
pub use relational::{Join, JoinKind, Side, Sort, SortKey, Union};
pub use sources::{Recursion, RowPieces, RowSource};
pub use unnest::Unnesting;
pub use window::{
    Amount, Frame, FrameBound, FrameExclusion, FrameOffset, FrameUnits, Window, WindowCall, WindowFunction,
};

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
        table: Arc<str>,
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
    /// Groups and aggregates.
    Aggregate(Box<Aggregation>),
    /// Pairs of rows of two inputs.
    Join(Box<Join>),
    /// Rows in an order.
    Sort(Box<Sort>),
    /// Rows with functions over the rows around them.
    Window(Box<Window>),
    /// Rows of several inputs.
    Union(Union),
    /// Rows that are given; surface types.
    Values {
        /// Of every batch.
        schema: SchemaRef,
        /// The rows.
        batches: Vec<RecordBatch>,
    },
    /// A plan that several places of a tree share (a common table expression): it is run once.
    Shared(Arc<Shared>),
    /// Rows from elsewhere.
    Source {
        /// Where they come from.
        source: Arc<dyn RowSource>,
        /// Its columns that the output has, in this order, each at most once.
        columns: Vec<usize>,
    },
    /// The rows of a recursive query.
    Recursive(Arc<Recursion>),
    /// What the last step of the recursion around it has made.
    WorkTable {
        /// The recursion's.
        id: usize,
        /// Of the recursion's rows.
        schema: SchemaRef,
    },
    /// A row per element of lists.
    Unnest(Box<Unnesting>),
}

/// What several places of a tree share. Places with the same number share: whoever makes a tree gives different plans
/// different ones.
#[derive(Clone)]
pub struct Shared {
    /// Its number.
    pub id: usize,
    /// The user's word (MATERIALIZED): the optimiser neither computes it in each place nor takes conditions into it.
    pub keep: bool,
    /// What is run once.
    pub plan: Plan,
}

impl Deref for Shared {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Plan {
    /// A scan of `columns` (indexes into the table's schema).
    pub fn scan(
        table: impl Into<Arc<str>>,
        snapshot: Arc<TableVersion>,
        columns: Vec<usize>,
    ) -> Result<Plan, PlanError> {
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

    /// Groups and aggregates of this plan's rows.
    pub fn aggregate(self, keys: Vec<usize>, calls: Vec<AggregateCall>) -> Result<Plan, PlanError> {
        Plan::Aggregate(Box::new(Aggregation { input: self, keys, sets: None, calls })).checked()
    }

    /// Groups and aggregates of this plan's rows, by several sets of the keys.
    pub fn aggregate_sets(
        self,
        keys: Vec<usize>,
        sets: GroupingSets,
        calls: Vec<AggregateCall>,
    ) -> Result<Plan, PlanError> {
        Plan::Aggregate(Box::new(Aggregation { input: self, keys, sets: Some(sets), calls })).checked()
    }

    /// A join.
    pub fn join(join: Join) -> Result<Plan, PlanError> {
        Plan::Join(Box::new(join)).checked()
    }

    /// This plan's rows in an order; only the first `fetch` of them, if that is given.
    pub fn sort(self, keys: Vec<SortKey>, fetch: Option<usize>) -> Result<Plan, PlanError> {
        Plan::Sort(Box::new(Sort { input: self, keys, fetch })).checked()
    }

    /// This plan, to be put wherever the tree needs its rows: it is run once for all places with this `id`.
    pub fn shared(self, id: usize) -> Plan {
        Plan::Shared(Arc::new(Shared { id, keep: false, plan: self }))
    }

    /// This plan's rows with functions over the rows around them.
    pub fn window(self, partition: Vec<usize>, order: Vec<SortKey>, calls: Vec<WindowCall>) -> Result<Plan, PlanError> {
        Plan::Window(Box::new(Window { input: self, partition, order, calls })).checked()
    }

    fn checked(self) -> Result<Plan, PlanError> {
        self.validate_operator()?;
        Ok(self)
    }

    /// Checks every operator against its input.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.inputs().into_iter().try_for_each(Plan::validate)?;
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
            Plan::Aggregate(aggregation) => aggregation.validate(),
            Plan::Join(join) => join.validate(),
            Plan::Sort(sort) => sort.validate(),
            Plan::Window(window) => window.validate(),
            Plan::Union(union) => union.validate(),
            Plan::Values { schema, batches } => batches.iter().try_for_each(|batch| {
                let types = |s: &Schema| s.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
                if types(&batch.schema()) == types(schema) {
                    return Ok(());
                }
                let problem = format!("a batch has columns of types {:?}", types(&batch.schema()));
                Err(PlanError::BadLiteral { context: "VALUES".into(), problem })
            }),
            Plan::Source { source, columns } => {
                let (schema, context) = (source.schema(), || source.describe());
                columns.iter().try_for_each(|&c| column_type(c, &schema, &context).map(|_| ()))
            }
            Plan::Recursive(recursion) => recursion.validate(),
            Plan::Unnest(unnesting) => unnesting.validate(),
            Plan::Limit { .. } | Plan::Shared(_) | Plan::WorkTable { .. } => Ok(()),
        }
    }

    /// The operators below, left first.
    pub fn inputs(&self) -> Vec<&Plan> {
        match self {
            Plan::Scan { .. } | Plan::Values { .. } | Plan::Source { .. } | Plan::WorkTable { .. } => Vec::new(),
            Plan::Recursive(recursion) => vec![&recursion.base, &recursion.step],
            Plan::Unnest(unnesting) => vec![&unnesting.input],
            Plan::Filter { input, .. } | Plan::Project { input, .. } | Plan::Limit { input, .. } => vec![input],
            Plan::Aggregate(aggregation) => vec![&aggregation.input],
            Plan::Join(join) => vec![&join.left, &join.right],
            Plan::Sort(sort) => vec![&sort.input],
            Plan::Window(window) => vec![&window.input],
            Plan::Union(union) => union.inputs.iter().collect(),
            Plan::Shared(shared) => vec![shared],
        }
    }

    /// This operator over other inputs: `map` gives what stands for each, which has the same columns.
    pub(crate) fn map_inputs(&self, map: &mut dyn FnMut(&Plan) -> Plan) -> Plan {
        match self {
            Plan::Scan { .. } | Plan::Values { .. } | Plan::Source { .. } | Plan::WorkTable { .. } => self.clone(),
            Plan::Recursive(of) => {
                let (base, step) = (map(&of.base), map(&of.step));
                Plan::Recursive(Arc::new(Recursion { base, step, schema: Arc::clone(&of.schema), ..**of }))
            }
            Plan::Unnest(of) => {
                Plan::Unnest(Box::new(Unnesting { input: map(&of.input), lists: of.lists.clone(), outer: of.outer }))
            }
            Plan::Filter { input, predicate } => {
                Plan::Filter { input: Box::new(map(input)), predicate: predicate.clone() }
            }
            Plan::Project { input, outputs } => Plan::Project { input: Box::new(map(input)), outputs: outputs.clone() },
            Plan::Limit { input, skip, fetch } => {
                Plan::Limit { input: Box::new(map(input)), skip: *skip, fetch: *fetch }
            }
            Plan::Aggregate(of) => Plan::Aggregate(Box::new(Aggregation {
                input: map(&of.input),
                keys: of.keys.clone(),
                sets: of.sets.clone(),
                calls: of.calls.clone(),
            })),
            Plan::Join(of) => {
                let (left, right) = (map(&of.left), map(&of.right));
                Plan::Join(Box::new(Join { left, right, on: of.on.clone(), residual: of.residual.clone(), ..**of }))
            }
            Plan::Sort(of) => {
                Plan::Sort(Box::new(Sort { input: map(&of.input), keys: of.keys.clone(), fetch: of.fetch }))
            }
            Plan::Window(of) => Plan::Window(Box::new(of.over(map(&of.input)))),
            Plan::Union(of) => {
                let inputs = of.inputs.iter().map(map).collect();
                Plan::Union(Union { inputs, schema: Arc::clone(&of.schema) })
            }
            Plan::Shared(of) => Plan::Shared(Arc::new(Shared { id: of.id, keep: of.keep, plan: map(of) })),
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
            Plan::Aggregate(aggregation) => aggregation.schema(),
            Plan::Join(join) => join.schema(),
            Plan::Sort(sort) => sort.input.schema(),
            Plan::Window(window) => window.schema(),
            Plan::Union(union) => union.schema.clone(),
            Plan::Values { schema, .. } | Plan::WorkTable { schema, .. } => schema.clone(),
            Plan::Shared(shared) => shared.schema(),
            Plan::Source { source, columns } => {
                let schema = source.schema();
                Arc::new(Schema::new(columns.iter().map(|&c| schema.fields()[c].clone()).collect::<Vec<_>>()))
            }
            Plan::Recursive(recursion) => recursion.schema.clone(),
            Plan::Unnest(unnesting) => unnesting.schema(),
            Plan::Project { outputs, .. } => {
                Arc::new(Schema::new(outputs.iter().map(|o| o.field().clone()).collect::<Vec<_>>()))
            }
        }
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
            Plan::Filter { input, predicate } => {
                let schema = input.schema();
                let index = match self.left_by_indexes() {
                    Some(left) => format!(" [index: {}]", self.names_of(&left.columns)),
                    None => String::new(),
                };
                format!("Filter: {}{index}", predicate.describe(&schema))
            }
            Plan::Project { input, outputs } => {
                let schema = input.schema();
                let texts: Vec<String> = outputs.iter().map(|o| o.describe(&schema)).collect();
                format!("Project: {}", if texts.is_empty() { "(no columns)".into() } else { texts.join(", ") })
            }
            Plan::Limit { skip, fetch, .. } => match fetch {
                Some(fetch) => format!("Limit: skip={skip}, fetch={fetch}"),
                None => format!("Limit: skip={skip}"),
            },
            Plan::Aggregate(aggregation) => aggregation.describe(),
            Plan::Join(join) => join.describe(),
            Plan::Sort(sort) => sort.describe(),
            Plan::Window(window) => window.describe(),
            Plan::Union(union) => format!("Union: {} inputs", union.inputs.len()),
            Plan::Values { batches, .. } => {
                format!("Values: {} rows", batches.iter().map(RecordBatch::num_rows).sum::<usize>())
            }
            Plan::Shared(shared) => format!("Shared: {}", shared.id),
            Plan::Source { source, .. } => {
                let schema = self.schema();
                let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                format!("Source: {} [{}]", source.describe(), names.join(", "))
            }
            Plan::Recursive(recursion) => recursion.describe(),
            Plan::WorkTable { id, .. } => format!("WorkTable: of recursion {id}"),
            Plan::Unnest(unnesting) => unnesting.describe(),
        }
    }
}

impl Plan {
    /// Names of columns of the table that is scanned below filters.
    fn names_of(&self, columns: &[usize]) -> String {
        match self {
            Plan::Filter { input, .. } => input.names_of(columns),
            Plan::Scan { snapshot, .. } => {
                let names: Vec<&str> = columns.iter().map(|&c| snapshot.schema.field(c).name().as_str()).collect();
                names.join(", ")
            }
            _ => String::new(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ListedOperator { depth, plan, .. } in self.operators() {
            if depth > 0 {
                writeln!(f)?;
            }
            write!(f, "{:indent$}{}", "", plan.describe_operator(), indent = depth * 2)?;
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
