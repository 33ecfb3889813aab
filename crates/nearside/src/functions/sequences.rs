//! `nextval`, `currval`, `lastval`, `setval` and `pg_get_serial_sequence`.
//!
//! What they do is done by [`Sequences`], which a statement binds them to when it plans; in a column's default, which
//! outlives statements, they stand unbound. They are volatile: no plan that others may run is kept with one, since
//! `currval` is of the session.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::statement_err;

/// Who gives out values.
pub(crate) trait Sequences: Debug + Send + Sync {
    /// The next values of a sequence; its name is as SQL writes it.
    ///
    /// # Errors
    /// There is no such sequence, it has ended, the transaction reads only, the log takes nothing.
    fn next(&self, name: &str, count: usize) -> crate::error::Result<Vec<i64>>;

    /// The value that this session was last given of a sequence.
    ///
    /// # Errors
    /// It was given none; there is no such sequence.
    fn current(&self, name: &str) -> crate::error::Result<i64>;

    /// The value that this session was last given.
    ///
    /// # Errors
    /// It was given none.
    fn last(&self) -> crate::error::Result<i64>;

    /// Puts a sequence somewhere else.
    ///
    /// # Errors
    /// As [`next`](Self::next); a value that is none of its values.
    fn set(&self, name: &str, value: i64, is_called: bool) -> crate::error::Result<()>;

    /// The same for columns' defaults, whose names without a schema are of the usual one, whatever the session's are.
    fn of_defaults(&self) -> Arc<dyn Sequences>;

    /// The same for functions in views' texts.
    fn of_views(&self) -> Arc<dyn Sequences>;

    /// The name of the sequence of a table's column, if it has one.
    ///
    /// # Errors
    /// There is no such table or column.
    fn of_column(&self, table: &str, column: &str) -> crate::error::Result<Option<String>>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Verb {
    Next,
    Current,
    Last,
    Set,
    OfColumn,
}

const VERBS: [(&str, Verb); 5] = [
    ("nextval", Verb::Next),
    ("currval", Verb::Current),
    ("lastval", Verb::Last),
    ("setval", Verb::Set),
    ("pg_get_serial_sequence", Verb::OfColumn),
];

#[derive(Debug)]
struct OfSequence {
    name: &'static str,
    verb: Verb,
    signature: Signature,
    bound: Option<Arc<dyn Sequences>>,
}

impl PartialEq for OfSequence {
    fn eq(&self, other: &OfSequence) -> bool {
        self.verb == other.verb && self.address() == other.address()
    }
}

impl Eq for OfSequence {}

impl Hash for OfSequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.verb, self.address()).hash(state);
    }
}

/// The functions unbound, for who asks what functions there are.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    VERBS.iter().map(|(name, verb)| of_verb(name, *verb, None)).collect()
}

/// The function of a name, bound; `None` for other functions.
pub(crate) fn function(name: &str, bound: &Arc<dyn Sequences>) -> Option<Arc<ScalarUDF>> {
    let (name, verb) = VERBS.iter().find(|(known, _)| *known == name)?;
    Some(of_verb(name, *verb, Some(Arc::clone(bound))))
}

/// Whether a function is one of these.
pub(crate) fn is_of_sequence(function: &ScalarUDF) -> bool {
    function.inner().is::<OfSequence>()
}

/// Whether a function gives the next value of a sequence.
pub(crate) fn is_next(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<OfSequence>().is_some_and(|of| of.verb == Verb::Next)
}

/// Whether a function changes a sequence.
pub(crate) fn has_effect(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<OfSequence>().is_some_and(|of| matches!(of.verb, Verb::Next | Verb::Set))
}

/// The expression with its functions of sequences bound, or unbound again.
pub(crate) fn bound(expr: &Expr, to: Option<&Arc<dyn Sequences>>) -> Expr {
    let again = expr.clone().transform_up(|part| match part {
        Expr::ScalarFunction(mut call) => match call.func.inner().downcast_ref::<OfSequence>() {
            Some(of) => {
                call.func = of_verb(of.name, of.verb, to.cloned());
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        other => Ok(Transformed::no(other)),
    });
    again.map_or_else(|_| expr.clone(), |again| again.data)
}

fn of_verb(name: &'static str, verb: Verb, bound: Option<Arc<dyn Sequences>>) -> Arc<ScalarUDF> {
    let signature = match verb {
        Verb::Last => Signature::nullary(Volatility::Volatile),
        // It gives no values.
        Verb::OfColumn => Signature::user_defined(Volatility::Stable),
        _ => Signature::user_defined(Volatility::Volatile),
    };
    Arc::new(ScalarUDF::from(OfSequence { name, verb, signature, bound }))
}

impl OfSequence {
    fn address(&self) -> usize {
        self.bound.as_ref().map_or(0, |bound| Arc::as_ptr(bound).cast::<()>().addr())
    }

    fn bound(&self) -> Result<&dyn Sequences> {
        match &self.bound {
            Some(bound) => Ok(bound.as_ref()),
            None => statement_err!(FeatureNotSupported, "{}() cannot be called here: it is for statements", self.name),
        }
    }
}

/// An argument, a value for each row.
fn texts(args: &ScalarFunctionArgs, place: usize) -> Result<ArrayRef> {
    Ok(cast(&args.args[place].to_array(args.number_rows)?, &DataType::Utf8View)?)
}

impl ScalarUDFImpl for OfSequence {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.verb {
            Verb::OfColumn => DataType::Utf8View,
            _ => DataType::Int64,
        })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted: &[DataType] = match self.verb {
            Verb::Set if types.len() == 3 => &[DataType::Utf8View, DataType::Int64, DataType::Boolean],
            Verb::Set => &[DataType::Utf8View, DataType::Int64],
            Verb::OfColumn => &[DataType::Utf8View, DataType::Utf8View],
            _ => &[DataType::Utf8View],
        };
        let is = |of: &DataType, wanted: &DataType| match wanted {
            DataType::Boolean => matches!(of, DataType::Boolean | DataType::Null),
            DataType::Int64 => of.is_integer() || of.is_null(),
            _ => of.is_string() || of.is_null(),
        };
        if types.len() == wanted.len() && types.iter().zip(wanted).all(|(of, wanted)| is(of, wanted)) {
            return Ok(wanted.to_vec());
        }
        let arguments = match self.verb {
            Verb::Set => "the name of a sequence, a value, and whether the value was given out",
            Verb::OfColumn => "the names of a table and of a column",
            _ => "the name of a sequence",
        };
        statement_err!(UndefinedFunction, "{}() takes {arguments}", self.name)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bound = self.bound()?;
        let rows = args.number_rows;
        if self.verb == Verb::Last {
            let last = bound.last().map_err(crate::error::Error::into_datafusion)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::Int64(Some(last))));
        }
        let names = texts(&args, 0)?;
        let names = names.as_string_view();
        let wrong = crate::error::Error::into_datafusion;
        match self.verb {
            Verb::Next => {
                // Rows of one sequence, as nearly all are, take their values at once.
                let first = names.iter().flatten().next();
                let is_one = first.is_some_and(|first| names.iter().all(|name| name == Some(first)));
                if let Some(name) = first.filter(|_| is_one) {
                    let values = bound.next(name, rows).map_err(wrong)?;
                    return Ok(ColumnarValue::Array(Arc::new(Int64Array::from(values))));
                }
                let value = |name: Option<&str>| match name {
                    Some(name) => Ok(bound.next(name, 1).map_err(wrong)?.first().copied()),
                    None => Ok(None),
                };
                let values = names.iter().map(value).collect::<Result<Int64Array>>()?;
                Ok(ColumnarValue::Array(Arc::new(values)))
            }
            Verb::Current => {
                let value = |name: Option<&str>| name.map(|name| bound.current(name).map_err(wrong)).transpose();
                let values = names.iter().map(value).collect::<Result<Int64Array>>()?;
                Ok(ColumnarValue::Array(Arc::new(values)))
            }
            Verb::Set => {
                let values = cast(&args.args[1].to_array(rows)?, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>();
                let called: BooleanArray = match args.args.get(2) {
                    Some(called) => cast(&called.to_array(rows)?, &DataType::Boolean)?.as_boolean().clone(),
                    None => BooleanArray::from(vec![true; rows]),
                };
                let mut set = Vec::with_capacity(rows);
                for (row, name) in names.iter().enumerate() {
                    let is_known = values.is_valid(row) && called.is_valid(row);
                    set.push(match name.filter(|_| is_known) {
                        Some(name) => {
                            bound.set(name, values.value(row), called.value(row)).map_err(wrong)?;
                            Some(values.value(row))
                        }
                        None => None,
                    });
                }
                Ok(ColumnarValue::Array(Arc::new(Int64Array::from(set))))
            }
            Verb::OfColumn => {
                let columns = texts(&args, 1)?;
                let mut found = StringViewBuilder::with_capacity(rows);
                for (table, column) in names.iter().zip(columns.as_string_view().iter()) {
                    found.append_option(match table.zip(column) {
                        Some((table, column)) => bound.of_column(table, column).map_err(wrong)?,
                        None => None,
                    });
                }
                Ok(ColumnarValue::Array(Arc::new(found.finish())))
            }
            Verb::Last => statement_err!(FeatureNotSupported, "lastval() takes no argument"),
        }
    }
}
