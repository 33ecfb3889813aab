//! `x op ANY (list)` and `x op ALL (list)`, with SQL's three values: functions whose names are the operator and the
//! quantifier (`> ALL`).
//!
//! A constant list is compared element by element with all rows at once; of lists that differ from row to row all
//! elements are compared at once. No list at all is NULL; an empty one is FALSE for ANY and TRUE for ALL, whatever
//! `x` is. The parser's `mend` writes the calls.
//!
//! # Limits
//! Elements of the lists have an order of their own: no lists of lists, no structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, new_empty_array};
use arrow::compute::kernels::cmp;
use arrow::compute::{and_kleene, or_kleene, take};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::type_coercion::binary::comparison_coercion;
use datafusion_expr::{ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::error::Error;
use crate::error::codes::SqlState;
use crate::functions::floats::canonical;
use crate::functions::uuids::UUID;

const COMPARISONS: [Operator; 6] =
    [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

/// A function for every comparison and quantifier.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let both = COMPARISONS.iter().flat_map(|op| [(*op, false), (*op, true)]);
    both.map(|(op, all)| Arc::new(ScalarUDF::from(OfList::new(op, all)))).collect()
}

/// The name of the function for a comparison as SQL writes it.
pub(crate) fn name_of(op: &str, all: bool) -> String {
    let op = if op == "!=" { "<>" } else { op };
    format!("{op} {}", if all { "ALL" } else { "ANY" })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfList {
    name: String,
    op: Operator,
    all: bool,
    signature: Signature,
}

impl OfList {
    fn new(op: Operator, all: bool) -> OfList {
        let signature = Signature::user_defined(Volatility::Immutable);
        OfList { name: name_of(&op.to_string(), all), op, all, signature }
    }

    fn compare(&self, left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        match self.op {
            Operator::NotEq => cmp::neq(left, right),
            Operator::Lt => cmp::lt(left, right),
            Operator::LtEq => cmp::lt_eq(left, right),
            Operator::Gt => cmp::gt(left, right),
            Operator::GtEq => cmp::gt_eq(left, right),
            _ => cmp::eq(left, right),
        }
    }

    /// Every row with the same elements.
    fn of_constant(&self, values: &ArrayRef, elements: &ArrayRef) -> Result<BooleanArray> {
        let rows = values.len();
        let mut so_far = BooleanArray::from(vec![self.all; rows]);
        for place in 0..elements.len() {
            let one = ScalarValue::try_from_array(elements, place)?.to_array_of_size(rows)?;
            let compared = self.compare(values, &one)?;
            so_far = if self.all { and_kleene(&so_far, &compared)? } else { or_kleene(&so_far, &compared)? };
        }
        Ok(so_far)
    }

    /// Every row with the elements of its own list.
    fn of_lists(&self, values: &ArrayRef, lists: &ListArray) -> Result<BooleanArray> {
        let offsets = lists.value_offsets();
        let first = offsets.first().copied().unwrap_or(0) as usize;
        let end = offsets.last().copied().unwrap_or(0) as usize;
        let lengths = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize);
        let rows = lengths.enumerate().flat_map(|(row, length)| std::iter::repeat_n(row as u32, length));
        let repeated = take(values, &UInt32Array::from_iter_values(rows), None)?;
        let elements = canonical(&lists.values().slice(first, end - first));
        let compared = self.compare(&repeated, &elements)?;
        let of_row = |row: usize| {
            let range = offsets[row] as usize - first..offsets[row + 1] as usize - first;
            let mut unknown = false;
            for place in range {
                match compared.is_valid(place) {
                    true if compared.value(place) != self.all => return Some(!self.all),
                    true => {}
                    false => unknown = true,
                }
            }
            (!unknown).then_some(self.all)
        };
        Ok((0..lists.len()).map(|row| if lists.is_valid(row) { of_row(row) } else { None }).collect())
    }
}

impl ScalarUDFImpl for OfList {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let refused = |what: String| {
            Error::plan(SqlState::DatatypeMismatch, format!("{} (list): {what}", self.name)).into_datafusion()
        };
        let [value, list] = types else { return Err(refused("it takes a value and a list".into())) };
        let element = match list {
            DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => f.data_type().clone(),
            DataType::ListView(f) | DataType::LargeListView(f) => f.data_type().clone(),
            // No cast of Arrow's makes UUIDs of a text, which the rules do before it is looked at again.
            DataType::Utf8 | DataType::Utf8View if *value == UUID => return Ok(types.to_vec()),
            // A text as it is written is a list of such values.
            DataType::Null | DataType::Utf8 | DataType::Utf8View => value.clone(),
            other => return Err(refused(format!("{other} is no list; compare with ARRAY[..] or a query"))),
        };
        let exact = |of: &DataType| of.is_decimal() || of.is_integer();
        let floats = (value.is_floating() && exact(&element)) || (exact(value) && element.is_floating());
        let common = if floats { Some(DataType::Float64) } else { comparison_coercion(value, &element) };
        let Some(common) = common.filter(|common| !common.is_nested()) else {
            return Err(refused(format!(
                "{value} cannot be compared with {element}; cast one to the type of the other"
            )));
        };
        // NULL with a list of NULLs: any type compares them.
        let common = if common.is_null() { DataType::Boolean } else { common };
        Ok(vec![common.clone(), DataType::List(Arc::new(Field::new_list_field(common, true)))])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let constant = matches!(args.args[..], [ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)]);
        let rows = if constant { 1 } else { rows };
        let values = canonical(&args.args[0].to_array(rows)?);
        let found = match &args.args[1] {
            ColumnarValue::Scalar(list) if list.is_null() => BooleanArray::new_null(rows),
            ColumnarValue::Scalar(list) => {
                let list = list.to_array()?;
                let list = list.as_list::<i32>();
                let elements = if list.is_empty() { new_empty_array(&list.value_type()) } else { list.value(0) };
                self.of_constant(&values, &canonical(&elements))?
            }
            ColumnarValue::Array(lists) => self.of_lists(&values, lists.as_list::<i32>())?,
        };
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(found))),
        }
    }
}
