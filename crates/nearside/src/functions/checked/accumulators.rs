//! The accumulators of `sum` and `avg` without groups: one total for all rows, for a window frame (rows come and
//! go), or for one group of an aggregate that has no [`super::groups`] form (DISTINCT).

use std::fmt::Debug;
use std::hash::Hash;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion_common::{HashMap, Result, ScalarValue};
use datafusion_expr::Accumulator;

use super::error::ArithmeticError;
use super::total::{AggregateKind, Finish, Total};
use crate::error::types::sql_type;

/// `sum` or `avg` of values that fit 128 bits, exactly.
///
/// State: for `avg` the count; the total's low half; how often it wrapped. A sum of no values is NULL.
#[derive(Debug)]
pub(super) struct ExactAccumulator<T> {
    finish: Finish,
    total: Total,
    /// Values now in the total; after a merge of sums only whether there are any.
    count: u64,
    _input: std::marker::PhantomData<fn() -> T>,
}

impl<T> ExactAccumulator<T> {
    pub fn new(finish: Finish) -> Self {
        ExactAccumulator { finish, total: Total::default(), count: 0, _input: std::marker::PhantomData }
    }
}

/// Calls `f` with every value of `array` that is not NULL; returns how many there are.
fn for_each_valid<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, mut f: impl FnMut(T::Native)) -> u64 {
    if array.null_count() == 0 {
        array.values().iter().for_each(|&v| f(v));
    } else {
        array.iter().flatten().for_each(f);
    }
    (array.len() - array.null_count()) as u64
}

impl<T> Accumulator for ExactAccumulator<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Into<i128> + TryFrom<i128>,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut total = self.total;
        self.count += for_each_valid(values[0].as_primitive::<T>(), |v| total.add(v.into()));
        self.total = total;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut total = self.total;
        self.count -= for_each_valid(values[0].as_primitive::<T>(), |v| total.sub(v.into()));
        self.total = total;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, rest) = match self.finish.wanted {
            AggregateKind::Sum => (None, states),
            AggregateKind::Average { .. } => (Some(states[0].as_primitive::<UInt64Type>()), &states[1..]),
        };
        let low = rest[0].as_primitive::<Decimal128Type>();
        let wraps = rest[1].as_primitive::<Int64Type>();
        for row in (0..low.len()).filter(|&row| low.is_valid(row)) {
            self.total.merge(Total { low: low.value(row), wraps: wraps.value(row) });
            self.count += counts.map_or(1, |counts| counts.value(row));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = match self.count {
            0 => None,
            count => T::Native::try_from(self.finish.value(self.total, count)?).ok(),
        };
        ScalarValue::new_primitive::<T>(value, &self.finish.data_type)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let low = (self.count > 0).then_some(self.total.low);
        let low = ScalarValue::new_primitive::<Decimal128Type>(low, &self.finish.low_type)?;
        let wraps = ScalarValue::Int64(Some(self.total.wraps));
        Ok(match self.finish.wanted {
            AggregateKind::Sum => vec![low, wraps],
            AggregateKind::Average { .. } => vec![ScalarValue::UInt64(Some(self.count)), low, wraps],
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// `sum` of values wider than 128 bits or of several parts (`DECIMAL(76, s)`, intervals), checked at every step: an
/// error may depend on the order of the rows, a result does not.
#[derive(Debug)]
pub(super) struct StepwiseSum<T: ArrowPrimitiveType> {
    name: String,
    data_type: DataType,
    sum: T::Native,
    count: u64,
}

impl<T: ArrowPrimitiveType> StepwiseSum<T> {
    pub fn new(name: &str, data_type: &DataType) -> Self {
        StepwiseSum { name: name.to_string(), data_type: data_type.clone(), sum: T::Native::default(), count: 0 }
    }

    fn overflow(&self) -> ArithmeticError {
        let (kind, advice) = match self.data_type.is_decimal() {
            true => ("decimal", "cast the argument to DOUBLE"),
            false => ("interval", "total fewer rows at a time"),
        };
        ArithmeticError::Aggregate {
            kind,
            aggregate: self.name.clone(),
            what: "the total",
            target: sql_type(&self.data_type),
            advice,
        }
    }

    fn apply(&mut self, values: &ArrayRef, step: impl Fn(T::Native, T::Native) -> Option<T::Native>) -> Result<u64> {
        let mut sum = Some(self.sum);
        let counted = for_each_valid(values.as_primitive::<T>(), |v| {
            sum = sum.and_then(|s| step(s, v));
        });
        match sum {
            Some(sum) => {
                self.sum = sum;
                Ok(counted)
            }
            None => Err(self.overflow().into()),
        }
    }
}

impl<T> Accumulator for StepwiseSum<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: ArrowNativeTypeOp,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += self.apply(&values[0], |s, v| s.add_checked(v).ok())?;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= self.apply(&values[0], |s, v| s.sub_checked(v).ok())?;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = (self.count > 0).then_some(self.sum);
        let scalar = ScalarValue::new_primitive::<T>(value, &self.data_type)?;
        if let ScalarValue::Decimal256(Some(_), precision, _) = scalar {
            let array = scalar.to_array()?;
            let array = array.as_primitive::<arrow::datatypes::Decimal256Type>();
            if array.validate_decimal_precision(precision).is_err() {
                return Err(self.overflow().into());
            }
        }
        Ok(scalar)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let value = (self.count > 0).then_some(self.sum);
        Ok(vec![ScalarValue::new_primitive::<T>(value, &self.data_type)?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// An aggregate over the distinct values only: hands each value to `inner` when its first copy comes and takes it
/// away when its last copy leaves the frame.
///
/// State: one list of the distinct values.
pub(super) struct DistinctAccumulator<T: ArrowPrimitiveType> {
    copies: HashMap<T::Native, u64>,
    input: DataType,
    inner: Box<dyn Accumulator>,
}

impl<T: ArrowPrimitiveType> Debug for DistinctAccumulator<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DistinctAccumulator").field("values", &self.copies.len()).field("inner", &self.inner).finish()
    }
}

impl<T: ArrowPrimitiveType> DistinctAccumulator<T>
where
    T::Native: Hash + Eq,
{
    /// Distinct values of type `input` for `inner`.
    pub fn new(input: &DataType, inner: Box<dyn Accumulator>) -> Self {
        DistinctAccumulator { copies: HashMap::default(), input: input.clone(), inner }
    }

    fn array(&self, values: Vec<T::Native>) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), None);
        Arc::new(array.with_data_type(self.input.clone()))
    }

    fn insert(&mut self, values: &PrimitiveArray<T>) -> Result<()> {
        let mut new = Vec::new();
        for_each_valid(values, |v| {
            let copies = self.copies.entry(v).or_insert(0);
            *copies += 1;
            if *copies == 1 {
                new.push(v);
            }
        });
        if new.is_empty() {
            return Ok(());
        }
        let new = self.array(new);
        self.inner.update_batch(&[new])
    }
}

impl<T> Accumulator for DistinctAccumulator<T>
where
    T: ArrowPrimitiveType + Debug,
    T::Native: Hash + Eq,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.insert(values[0].as_primitive::<T>())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = Vec::new();
        for_each_valid(values[0].as_primitive::<T>(), |v| {
            if let Some(copies) = self.copies.get_mut(&v) {
                *copies -= 1;
                if *copies == 0 {
                    self.copies.remove(&v);
                    gone.push(v);
                }
            }
        });
        if gone.is_empty() {
            return Ok(());
        }
        let gone = self.array(gone);
        self.inner.retract_batch(&[gone])
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.insert(list.as_primitive::<T>())?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.array(self.copies.keys().copied().collect());
        let list = datafusion_common::utils::SingleRowListArrayBuilder::new(values).build_list_scalar();
        Ok(vec![list])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.copies.capacity() * size_of::<(T::Native, u64)>() + self.inner.size()
    }
}
