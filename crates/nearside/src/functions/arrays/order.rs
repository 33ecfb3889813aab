//! `<`, `<=`, `>` and `>=` of lists: by their first elements that differ, of which NULL is the largest; else the
//! shorter list is less. Intervals in lists are compared as lengths of time.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, make_comparator};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;

use super::{Defined, common, innermost, must_be_list};
use crate::functions::floats::canonical;
use crate::functions::spans::lengths;
use crate::functions::texts::nested::{as_lists, is_list};

/// The functions' names, which are no words: an output of one has no name.
pub(super) const LESS: &str = "list <";
pub(super) const LESS_OR_EQUAL: &str = "list <=";
pub(super) const GREATER: &str = "list >";
pub(super) const GREATER_OR_EQUAL: &str = "list >=";
pub(super) const EQUAL: &str = "list =";
pub(super) const UNEQUAL: &str = "list <>";

pub(super) fn functions() -> Vec<Defined> {
    let boolean = |_: &[DataType]| DataType::Boolean;
    let of = |name, runs| Defined::new(&[name], true, two_lists, boolean, runs);
    vec![
        of(LESS, |columns| compare(columns, Ordering::is_lt)),
        of(LESS_OR_EQUAL, |columns| compare(columns, Ordering::is_le)),
        of(GREATER, |columns| compare(columns, Ordering::is_gt)),
        of(GREATER_OR_EQUAL, |columns| compare(columns, Ordering::is_ge)),
        of(EQUAL, |columns| compare(columns, Ordering::is_eq)),
        of(UNEQUAL, |columns| compare(columns, Ordering::is_ne)),
    ]
}

/// Whether lists of a type are equal only by a function of ours.
pub(super) fn has_intervals(data_type: &DataType) -> bool {
    matches!(innermost(data_type), DataType::Interval(_) | DataType::Duration(_))
}

fn two_lists(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [left, right] = types else { return Err("it takes two lists".into()) };
    let to = must_be_list(&common(left, right)?)?;
    Ok(vec![to.clone(), to])
}

/// Values that Arrow's order is that of SQL of.
fn ordered(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        list if is_list(list) => {
            let (_, offsets, elements, nulls) = as_lists(values)?.into_parts();
            let elements = ordered(&elements)?;
            let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
            Arc::new(ListArray::try_new(field, offsets, elements, nulls)?)
        }
        DataType::Interval(_) | DataType::Duration(_) => lengths(values)?,
        DataType::Null => cast(values, &DataType::Int8)?,
        _ => canonical(values),
    })
}

fn compare(columns: &[ArrayRef], holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let (left, right) = (ordered(&columns[0])?, ordered(&columns[1])?);
    let options = SortOptions { descending: false, nulls_first: false };
    let compare = make_comparator(&left, &right, options)?;
    let row = |row| (left.is_valid(row) && right.is_valid(row)).then(|| holds(compare(row, row)));
    Ok(Arc::new((0..left.len()).map(row).collect::<BooleanArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_the_largest_element() {
        let lists = |rows: Vec<Vec<Option<i32>>>| -> ArrayRef {
            let rows = rows.into_iter().map(Some);
            Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(rows))
        };
        let left = lists(vec![vec![Some(1), None], vec![Some(1)], vec![], vec![Some(2)]]);
        let right = lists(vec![vec![Some(1), Some(2)], vec![Some(1), Some(0)], vec![None], vec![Some(1), Some(5)]]);
        let less = compare(&[left, right], Ordering::is_lt).unwrap();
        assert_eq!(less.as_ref(), &BooleanArray::from(vec![false, true, true, false]) as &dyn Array);
        assert!(has_intervals(&super::super::list_of(DataType::Interval(
            arrow::datatypes::IntervalUnit::MonthDayNano
        ))));
    }
}
