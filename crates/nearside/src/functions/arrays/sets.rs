//! `@>`, `<@` and `&&`: lists as sets of elements, at every dimension. A NULL among the elements equals nothing.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::Result;

use super::{Defined, Lists, common, innermost, list_of};
use crate::functions::floats::canonical;
use crate::functions::texts::nested::element;

/// The name of the function behind `@>`.
pub(super) const CONTAINS: &str = "list @> list";

/// The name of the function behind `&&`.
pub(super) const OVERLAPS: &str = "list && list";

pub(super) fn functions() -> Vec<Defined> {
    let boolean = |_: &[DataType]| DataType::Boolean;
    vec![
        Defined::new(&[CONTAINS], true, two_lists, boolean, contains),
        Defined::new(&[OVERLAPS], true, two_lists, boolean, overlaps),
        Defined::new(&["array_has_all", "list_has_all"], true, two_lists, boolean, contains),
        Defined::new(&["array_has_any", "list_has_any", "arrays_overlap"], true, two_lists, boolean, overlaps),
    ]
}

fn two_lists(types: &[DataType]) -> Result<Vec<DataType>, String> {
    let [left, right] = types else { return Err("it takes two lists".into()) };
    let is_unknown = |of: &DataType| matches!(of, DataType::Null | DataType::Utf8 | DataType::Utf8View);
    let inner = |of: &DataType| if is_unknown(of) { DataType::Null } else { innermost(of).clone() };
    if [left, right].iter().any(|side| element(side).is_none() && !is_unknown(side)) {
        return Err("it takes two lists".into());
    }
    let to = common(&inner(left), &inner(right))?;
    let raised = |of: &DataType| {
        let mut raised = to.clone();
        for _ in 0..super::dimensions(of).max(1) {
            raised = list_of(raised);
        }
        raised
    };
    Ok(vec![raised(left), raised(right)])
}

/// All elements of lists, whatever their dimension.
fn flat(column: &ArrayRef) -> Result<Lists> {
    let flat = crate::functions::flat::flat_lists(column)?;
    Lists::of(&flat)
}

fn compare(columns: &[ArrayRef], of: impl Fn(&HashSet<&[u8]>, &[Option<&[u8]>]) -> bool) -> Result<ArrayRef> {
    let (left, right) = (flat(&columns[0])?, flat(&columns[1])?);
    let to = match left.elements().data_type() {
        DataType::Null => DataType::Int8,
        other => other.clone(),
    };
    let converter = RowConverter::new(vec![SortField::new(to.clone())])?;
    let rows = |lists: &Lists| -> Result<_> {
        let elements = canonical(&cast(lists.elements(), &to)?);
        let nulls = elements.logical_nulls();
        Ok((converter.convert_columns(&[elements])?, nulls))
    };
    let ((left_rows, left_nulls), (right_rows, right_nulls)) = (rows(&left)?, rows(&right)?);
    let mut found = Vec::with_capacity(left.len());
    for row in 0..left.len() {
        let (Some(l), Some(r)) = (left.range(row), right.range(row)) else {
            found.push(None);
            continue;
        };
        let is_null =
            |nulls: &Option<arrow::buffer::NullBuffer>, at: usize| nulls.as_ref().is_some_and(|n| n.is_null(at));
        let known: HashSet<&[u8]> =
            l.filter(|at| !is_null(&left_nulls, *at)).map(|at| left_rows.row(at).data()).collect();
        let asked: Vec<Option<&[u8]>> =
            r.map(|at| (!is_null(&right_nulls, at)).then(|| right_rows.row(at).data())).collect();
        found.push(Some(of(&known, &asked)));
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

fn contains(columns: &[ArrayRef]) -> Result<ArrayRef> {
    compare(columns, |known, asked| asked.iter().all(|one| one.is_some_and(|one| known.contains(one))))
}

fn overlaps(columns: &[ArrayRef]) -> Result<ArrayRef> {
    compare(columns, |known, asked| asked.iter().any(|one| one.is_some_and(|one| known.contains(one))))
}
