//! [`Predicate`]: what a filter asks of a row, in three-valued logic.
//!
//! A row passes when the predicate is TRUE. Comparing NULL with anything gives NULL; `x IN (..)` and `x NOT IN (..)`
//! are NULL for a NULL `x`, also when the list is empty. Floats compare by IEEE 754 totalOrder, as Arrow's kernels do.
//!
//! [`Predicate::without_not`] pushes every NOT down to the leaves, where it is exact (`NOT (a AND b)` is
//! `NOT a OR NOT b` in three-valued logic too). After that a predicate contains no [`Predicate::Not`] over AND, OR,
//! comparisons, lists or NULL tests, and evaluating needs to know only which rows are TRUE: AND is TRUE where all parts
//! are, OR where any is.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::expression::{CompareOp, Expression, RemappedExpression};
use super::literal::Literal;
use crate::PlanError;

/// How many list members [`Predicate::describe`] shows.
const LISTED_MAX: usize = 8;

/// A condition on the rows of an input, over its columns by index.
#[derive(Debug, Clone)]
pub enum Predicate {
    /// `column op value`.
    Compare {
        /// Input column.
        column: usize,
        /// Comparison.
        op: CompareOp,
        /// Length 1, the column's surface type, not NULL.
        value: Literal,
    },
    /// `column IN (values)`, or `NOT IN` when negated.
    In {
        /// Input column.
        column: usize,
        /// The column's surface type, no NULLs, any length and order.
        values: ArrayRef,
        /// NOT IN.
        negated: bool,
    },
    /// `column IS NULL`, or `IS NOT NULL` when negated.
    IsNull {
        /// Input column.
        column: usize,
        /// IS NOT NULL.
        negated: bool,
    },
    /// TRUE where all are; an empty list is TRUE.
    And(Vec<Predicate>),
    /// TRUE where any is; an empty list is FALSE.
    Or(Vec<Predicate>),
    /// TRUE where the inner one is FALSE.
    Not(Box<Predicate>),
    /// A boolean expression; over one coded column it is evaluated per dictionary entry where that is cheaper.
    Boolean(Arc<dyn Expression>),
}

impl Predicate {
    /// Checks column indexes and types against the schema of the input.
    pub fn validate(&self, input: &Schema) -> Result<(), PlanError> {
        match self {
            Predicate::Compare { column, op, value } => {
                let context = || format!("comparison {} of column {column}", op.symbol());
                let found = comparable_column(*column, input, &context)?;
                same_type(found, value.data_type(), &context)?;
                if value.len() != 1 || value.is_null(0) {
                    let problem = format!("the literal must be one value that is not NULL, got {} values", value.len());
                    return Err(PlanError::BadLiteral { context: context(), problem });
                }
                Ok(())
            }
            Predicate::In { column, values, .. } => {
                let context = || format!("IN list over column {column}");
                let found = comparable_column(*column, input, &context)?;
                same_type(found, values.data_type(), &context)?;
                if values.null_count() > 0 {
                    let problem = "the list contains NULL; take it out and state what it means first".to_string();
                    return Err(PlanError::BadLiteral { context: context(), problem });
                }
                Ok(())
            }
            Predicate::IsNull { column, .. } => column_type(*column, input, &|| "a NULL test".into()).map(|_| ()),
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().try_for_each(|p| p.validate(input)),
            Predicate::Not(inner) => inner.validate(input),
            Predicate::Boolean(expression) => {
                validate_expression(expression.as_ref(), input)?;
                same_type(&DataType::Boolean, expression.data_type(), &|| {
                    format!("filter expression {}", expression.describe())
                })
            }
        }
    }

    /// Columns that it reads, ascending, each once.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.collect_columns(&mut columns);
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// May it fail on some value?
    pub(crate) fn fallible(&self) -> bool {
        match self {
            Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } => false,
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(Predicate::fallible),
            Predicate::Not(inner) => inner.fallible(),
            Predicate::Boolean(expression) => expression.fallible(),
        }
    }

    /// May it change from call to call?
    pub(crate) fn volatile(&self) -> bool {
        match self {
            Predicate::Compare { .. } | Predicate::In { .. } | Predicate::IsNull { .. } => false,
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().any(Predicate::volatile),
            Predicate::Not(inner) => inner.volatile(),
            Predicate::Boolean(expression) => expression.volatile(),
        }
    }

    fn collect_columns(&self, into: &mut Vec<usize>) {
        match self {
            Predicate::Compare { column, .. } | Predicate::In { column, .. } | Predicate::IsNull { column, .. } => {
                into.push(*column);
            }
            Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|p| p.collect_columns(into)),
            Predicate::Not(inner) => inner.collect_columns(into),
            Predicate::Boolean(expression) => into.extend_from_slice(expression.columns()),
        }
    }

    /// The same predicate over an input where each column `c` is called `map(c)`.
    pub fn map_columns(&self, map: &dyn Fn(usize) -> usize) -> Predicate {
        match self {
            Predicate::Compare { column, op, value } => {
                Predicate::Compare { column: map(*column), op: *op, value: value.clone() }
            }
            Predicate::In { column, values, negated } => {
                Predicate::In { column: map(*column), values: values.clone(), negated: *negated }
            }
            Predicate::IsNull { column, negated } => Predicate::IsNull { column: map(*column), negated: *negated },
            Predicate::And(parts) => Predicate::And(parts.iter().map(|p| p.map_columns(map)).collect()),
            Predicate::Or(parts) => Predicate::Or(parts.iter().map(|p| p.map_columns(map)).collect()),
            Predicate::Not(inner) => Predicate::Not(Box::new(inner.map_columns(map))),
            Predicate::Boolean(expression) => Predicate::Boolean(RemappedExpression::over(expression.clone(), map)),
        }
    }

    /// An equal predicate in which NOT stands only before [`Predicate::Boolean`], and AND in AND and OR in OR are flat.
    pub(crate) fn without_not(&self) -> Predicate {
        self.push_not(false)
    }

    /// Whether it is a leaf that [`without_not`](Self::without_not) leaves as it is.
    pub(crate) fn is_plain_leaf(&self) -> bool {
        !matches!(self, Predicate::And(_) | Predicate::Or(_) | Predicate::Not(_))
    }

    fn push_not(&self, negate: bool) -> Predicate {
        match self {
            Predicate::Compare { column, op, value } => Predicate::Compare {
                column: *column,
                op: if negate { op.negated() } else { *op },
                value: value.clone(),
            },
            Predicate::In { column, values, negated } => {
                Predicate::In { column: *column, values: values.clone(), negated: *negated != negate }
            }
            Predicate::IsNull { column, negated } => Predicate::IsNull { column: *column, negated: *negated != negate },
            Predicate::And(parts) | Predicate::Or(parts) => {
                let conjunction = matches!(self, Predicate::And(_)) != negate;
                let mut flat = Vec::with_capacity(parts.len());
                for part in parts.iter().map(|p| p.push_not(negate)) {
                    match (part, conjunction) {
                        (Predicate::And(inner), true) | (Predicate::Or(inner), false) => flat.extend(inner),
                        (part, _) => flat.push(part),
                    }
                }
                match (flat.len(), conjunction) {
                    (1, _) => flat.swap_remove(0),
                    (_, true) => Predicate::And(flat),
                    (_, false) => Predicate::Or(flat),
                }
            }
            Predicate::Not(inner) => inner.push_not(!negate),
            Predicate::Boolean(_) if negate => Predicate::Not(Box::new(self.clone())),
            Predicate::Boolean(_) => self.clone(),
        }
    }

    /// Text for EXPLAIN, with the names of the input's columns.
    pub fn describe(&self, input: &Schema) -> String {
        let name = |c: usize| input.fields().get(c).map_or_else(|| format!("#{c}"), |f| f.name().clone());
        match self {
            Predicate::Compare { column, op, value } => {
                format!("{} {} {}", name(*column), op.symbol(), literal(value, 0))
            }
            Predicate::In { column, values, negated } => {
                let mut items: Vec<String> = (0..values.len().min(LISTED_MAX)).map(|i| literal(values, i)).collect();
                if values.len() > LISTED_MAX {
                    items.push(format!(".. {} values", values.len()));
                }
                format!("{}{} IN ({})", name(*column), if *negated { " NOT" } else { "" }, items.join(", "))
            }
            Predicate::IsNull { column, negated } => {
                format!("{} IS {}NULL", name(*column), if *negated { "NOT " } else { "" })
            }
            Predicate::And(parts) if parts.is_empty() => "true".into(),
            Predicate::Or(parts) if parts.is_empty() => "false".into(),
            Predicate::And(parts) => join(parts, input, " AND "),
            Predicate::Or(parts) => join(parts, input, " OR "),
            Predicate::Not(inner) => format!("NOT ({})", inner.describe(input)),
            Predicate::Boolean(expression) => expression.describe(),
        }
    }
}

/// Checks that the columns of `expression` exist and come ascending.
pub(crate) fn validate_expression(expression: &dyn Expression, input: &Schema) -> Result<(), PlanError> {
    let columns = expression.columns();
    if !columns.windows(2).all(|w| w[0] < w[1]) {
        return Err(PlanError::ColumnsOutOfOrder { expression: expression.describe(), columns: columns.to_vec() });
    }
    for &column in columns {
        column_type(column, input, &|| format!("expression {}", expression.describe()))?;
    }
    Ok(())
}

/// Type of an input column, or which operator asked for one that is not there.
pub(crate) fn column_type<'a>(
    column: usize,
    input: &'a Schema,
    operator: &dyn Fn() -> String,
) -> Result<&'a DataType, PlanError> {
    input.fields().get(column).map(|f| f.data_type()).ok_or_else(|| PlanError::UnknownColumn {
        operator: operator(),
        column,
        available: input.fields().len(),
    })
}

/// Fails with both types when they differ.
pub(crate) fn same_type(expected: &DataType, found: &DataType, context: &dyn Fn() -> String) -> Result<(), PlanError> {
    if expected == found {
        return Ok(());
    }
    Err(PlanError::TypeMismatch { context: context(), expected: expected.clone(), found: found.clone() })
}

fn comparable_column<'a>(
    column: usize,
    input: &'a Schema,
    context: &dyn Fn() -> String,
) -> Result<&'a DataType, PlanError> {
    let data_type = column_type(column, input, context)?;
    let unordered = data_type.is_nested()
        || matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::Interval(_));
    if unordered {
        return Err(PlanError::NotComparable { context: context(), data_type: data_type.clone() });
    }
    Ok(data_type)
}

fn literal(values: &ArrayRef, index: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let text = match ArrayFormatter::try_new(values.as_ref(), &options) {
        Ok(formatter) if index < values.len() => formatter.value(index).to_string(),
        _ => "?".into(),
    };
    match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("'{}'", text.replace('\'', "''")),
        _ => text,
    }
}

fn join(parts: &[Predicate], input: &Schema, with: &str) -> String {
    let texts: Vec<String> = parts
        .iter()
        .map(|p| match p {
            Predicate::And(inner) | Predicate::Or(inner) if inner.len() > 1 => format!("({})", p.describe(input)),
            _ => p.describe(input),
        })
        .collect();
    texts.join(with)
}
