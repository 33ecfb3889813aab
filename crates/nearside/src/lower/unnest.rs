//! UNNEST: level by level, the deepest lists first, then fields of structs; and columns brought to the types that
//! they should have.
//!
//! Of several lists that are as deep, elements stand side by side; those of lists that are less deep come once for
//! each row that the deeper ones made.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::NullHandling;
use datafusion_expr::Unnest;
use exec::{ExecError, Expression, Output, Plan};

use super::binder::Binder;
use super::bug;
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// The plan of an UNNEST.
pub(super) fn unnest(binder: &Binder<'_>, node: &Unnest) -> Result<Plan> {
    let outer = match node.options.null_handling {
        NullHandling::Drop => false,
        NullHandling::PreserveAndExpandEmpty => true,
        NullHandling::Preserve => {
            return Err(Error::Unsupported("UNNEST that keeps NULL and drops empty lists is not supported".into()));
        }
    };
    let mut plan = binder.plan(&node.input)?;
    // Where the elements of each list are, once it was taken apart; before, it is an input column.
    let mut places: Vec<usize> = node.list_type_columns.iter().map(|(column, _)| *column).collect();
    let depth = node.list_type_columns.iter().map(|(_, list)| list.depth).max().unwrap_or(0);
    for level in (1..=depth).rev() {
        let schema = plan.schema();
        let mut lists = Vec::new();
        for ((_, list), place) in node.list_type_columns.iter().zip(&mut places) {
            if list.depth >= level {
                let field = element(schema.field(*place))?;
                lists.push((*place, field));
                *place = schema.fields().len() + lists.len() - 1;
            }
        }
        plan = plan.unnest(lists, outer).map_err(bug)?;
    }
    project(plan, node, &places)
}

fn element(list: &Field) -> Result<FieldRef> {
    match list.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Ok(Arc::new(Field::new(list.name(), field.data_type().clone(), true)))
        }
        other => Err(Error::plan(
            SqlState::DatatypeMismatch,
            format!("UNNEST takes a list or a struct, and '{}' is {other}", list.name()),
        )),
    }
}

/// The columns that the operator gives: each input column, or what it was taken apart into.
fn project(plan: Plan, node: &Unnest, places: &[usize]) -> Result<Plan> {
    let mut met: HashMap<usize, usize> = HashMap::new();
    let mut outputs = Vec::with_capacity(node.dependency_indices.len());
    for (&input, field) in node.dependency_indices.iter().zip(node.schema.fields()) {
        let nth = met.entry(input).or_default();
        let mut of_input = node.list_type_columns.iter().zip(places).filter(|((column, _), _)| *column == input);
        let output = if node.struct_type_columns.contains(&input) {
            let expression = FieldOf { column: [input], place: *nth, field: Arc::clone(field) };
            Output::Expression { expression: Arc::new(expression), field: Arc::clone(field) }
        } else {
            let column = of_input.nth(*nth).map_or(input, |(_, place)| *place);
            Output::Column { column, field: Arc::clone(field) }
        };
        *nth += 1;
        outputs.push(output);
    }
    plan.project(outputs).map_err(bug)
}

/// A field of a struct; NULL where the struct is.
#[derive(Debug)]
struct FieldOf {
    column: [usize; 1],
    place: usize,
    field: FieldRef,
}

impl Expression for FieldOf {
    fn columns(&self) -> &[usize] {
        &self.column
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        let structs = batch.column(0).as_struct();
        let values = structs.column(self.place);
        let nulls = NullBuffer::union(structs.nulls(), values.nulls());
        let data = values.to_data().into_builder().nulls(nulls).build()?;
        Ok(make_array(data))
    }

    fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    fn describe(&self) -> String {
        self.field.name().clone()
    }

    fn fallible(&self) -> bool {
        false
    }
}

/// A column as another type.
#[derive(Debug)]
struct CastTo {
    column: [usize; 1],
    field: FieldRef,
}

impl Expression for CastTo {
    fn columns(&self) -> &[usize] {
        &self.column
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, ExecError> {
        // What does not fit is an error, not NULL.
        let options = CastOptions { safe: false, ..CastOptions::default() };
        Ok(cast_with_options(batch.column(0), self.field.data_type(), &options)?)
    }

    fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    fn describe(&self) -> String {
        format!("CAST({} AS {})", self.field.name(), self.field.data_type())
    }

    fn fallible(&self) -> bool {
        true
    }
}

/// The plan's rows with columns of the types that `schema` has.
pub(super) fn cast_to(plan: Plan, schema: &Schema) -> Result<Plan> {
    let found = plan.schema();
    if found.fields().len() != schema.fields().len() {
        let found = found.fields().len();
        let expected = schema.fields().len();
        return Err(Error::plan(
            SqlState::SyntaxError,
            format!("a part of the query has {found} columns, and another {expected}"),
        ));
    }
    let same = |(found, field): (&FieldRef, &FieldRef)| found.data_type() == field.data_type();
    if found.fields().iter().zip(schema.fields()).all(same) {
        return Ok(plan);
    }
    let outputs = found.fields().iter().zip(schema.fields()).enumerate().map(|(column, (found, field))| {
        match found.data_type() == field.data_type() {
            true => Output::Column { column, field: Arc::clone(field) },
            false => {
                let expression = Arc::new(CastTo { column: [column], field: Arc::clone(field) });
                Output::Expression { expression, field: Arc::clone(field) }
            }
        }
    });
    plan.project(outputs.collect()).map_err(bug)
}
