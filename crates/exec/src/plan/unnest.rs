//! [`Unnesting`]: a row per element of lists.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};

use super::Plan;
use super::predicate::{column_type, same_type};
use crate::PlanError;

/// Rows of the input, each as often as the longest of its lists has elements; behind the input's columns one column
/// per list has the elements, and NULL where its list is shorter. A list that is NULL has no elements.
#[derive(Clone)]
pub struct Unnesting {
    /// Input.
    pub input: Plan,
    /// Columns with lists, at least one, and the field of each one's elements.
    pub lists: Vec<(usize, FieldRef)>,
    /// A row without any element comes once, with NULLs for its elements.
    pub outer: bool,
}

/// Type of the elements of a list.
fn element_type(list: &DataType) -> Option<&DataType> {
    match list {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

impl Unnesting {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let input = self.input.schema();
        let problem = |problem: String| PlanError::BadLiteral { context: "UNNEST".into(), problem };
        if self.lists.is_empty() {
            return Err(problem("it has no list".into()));
        }
        for (column, field) in &self.lists {
            let context = || format!("UNNEST to {}", field.name());
            let list = column_type(*column, &input, &context)?;
            let element = element_type(list).ok_or_else(|| problem(format!("{list} is no list")))?;
            same_type(element, field.data_type(), &context)?;
        }
        Ok(())
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let elements = self.lists.iter().map(|(_, field)| Arc::new(field.as_ref().clone().with_nullable(true)));
        Arc::new(Schema::new(self.input.schema().fields().iter().cloned().chain(elements).collect::<Vec<_>>()))
    }

    pub(super) fn describe(&self) -> String {
        let input = self.input.schema();
        let name = |c: usize| input.fields().get(c).map_or("?", |f| f.name().as_str());
        let outer = if self.outer { " outer" } else { "" };
        format!("Unnest{outer}: {}", self.lists.iter().map(|(c, _)| name(*c)).collect::<Vec<_>>().join(", "))
    }
}

impl Plan {
    /// A row per element of these columns' lists, behind whose columns those of the elements come; `outer` as in
    /// [`Unnesting`].
    ///
    /// # Errors
    /// A column that is no list.
    pub fn unnest(self, lists: Vec<(usize, FieldRef)>, outer: bool) -> Result<Plan, PlanError> {
        Plan::Unnest(Box::new(Unnesting { input: self, lists, outer })).checked()
    }
}
