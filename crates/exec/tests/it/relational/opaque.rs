//! An aggregate that only the tests know: it mixes the values of each row and adds the rows up, in any order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use exec::{ExecError, GroupedRows, OpaqueAggregate, OpaqueGroups};

#[derive(Debug)]
pub struct Mix;

impl Mix {
    pub fn new() -> Arc<Mix> {
        Arc::new(Mix)
    }
}

impl OpaqueAggregate for Mix {
    fn name(&self) -> String {
        "mix".into()
    }

    fn data_type(&self) -> &DataType {
        &DataType::Int64
    }

    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError> {
        Ok(Box::new(Mixed(Vec::new())))
    }
}

/// The sum of each group; a group without rows has 0.
struct Mixed(Vec<i64>);

impl OpaqueGroups for Mixed {
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError> {
        self.0.resize(rows.total, 0);
        assert!(arguments.iter().all(|a| a.len() == rows.groups.len()));
        for (row, group) in rows.counted() {
            let mixed = arguments.iter().fold(1i64, |mixed, argument| {
                let argument = argument.as_primitive::<Int64Type>();
                let value = if argument.is_null(row) { -99 } else { argument.value(row) };
                mixed.wrapping_mul(31).wrapping_add(value).rotate_left(7)
            });
            self.0[group] = self.0[group].wrapping_add(mixed);
        }
        Ok(())
    }

    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError> {
        self.0.resize(total, 0);
        let state = state[0].as_primitive::<Int64Type>();
        assert_eq!(state.len(), groups.len());
        for (&value, &group) in state.values().iter().zip(groups) {
            self.0[group] = self.0[group].wrapping_add(value);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError> {
        Ok(vec![self.finish()?])
    }

    fn finish(&mut self) -> Result<ArrayRef, ExecError> {
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.0))))
    }

    fn bytes(&self) -> usize {
        8 * self.0.len()
    }
}
