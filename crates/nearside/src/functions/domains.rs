//! Logarithms, powers and inverse functions fail where they have no value, as in PostgreSQL and as `sqrt` does, which
//! DataFusion's give as NaN or an infinity: `ln(0)`, `power(-1, 0.5)`, `acos(2)`. So do those whose value is beyond the
//! largest float, or so near to zero that there is none for it: `exp(1000)`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion_common::Result;
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_functions::math;

use crate::error::value_err;

/// Where a function has values.
#[derive(Debug, Clone, Copy)]
enum Domain {
    /// Above zero: each argument of a logarithm.
    Positive,
    /// From -1 to 1.
    Unit,
    /// From 1.
    FromOne,
    /// Of a negative number only whole powers; the value has to be within the range of floats.
    Power,
    /// Everywhere, but the value has to be within the range of floats.
    Range,
    /// Everywhere but at the infinities.
    Finite,
}

/// A function of DataFusion's that fails outside of where it has values.
#[derive(Debug)]
struct Partial {
    known: Arc<ScalarUDF>,
    domain: Domain,
}

/// The functions, in place of DataFusion's of the same names.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all = [
        (math::ln(), Domain::Positive),
        (math::log(), Domain::Positive),
        (math::log2(), Domain::Positive),
        (math::log10(), Domain::Positive),
        (math::acos(), Domain::Unit),
        (math::asin(), Domain::Unit),
        (math::atanh(), Domain::Unit),
        (math::acosh(), Domain::FromOne),
        (math::power(), Domain::Power),
        (math::exp(), Domain::Range),
        (math::degrees(), Domain::Range),
        (math::radians(), Domain::Range),
        (math::sin(), Domain::Finite),
        (math::cos(), Domain::Finite),
        (math::tan(), Domain::Finite),
        (math::cot(), Domain::Finite),
    ];
    all.into_iter().map(|(known, domain)| Arc::new(ScalarUDF::from(Partial { known, domain })))
}

/// Whether it is a call of a function that fails for some numbers.
pub(crate) fn is_partial(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    call.func.inner().is::<Partial>() || call.name() == "sqrt"
}

/// Shows the rows without NULL, as floats.
fn each_row(columns: &[ColumnarValue], show: &mut dyn FnMut(&[f64]) -> Result<()>) -> Result<()> {
    let numbers: Vec<ArrayRef> = ColumnarValue::values_to_arrays(columns)?
        .iter()
        .map(|values| cast(values, &DataType::Float64))
        .collect::<std::result::Result<_, _>>()?;
    let numbers: Vec<_> = numbers.iter().map(|values| values.as_primitive::<Float64Type>()).collect();
    let rows = numbers.first().map_or(0, |values| values.len());
    let mut row_numbers = Vec::with_capacity(numbers.len());
    for row in (0..rows).filter(|&row| numbers.iter().all(|values| values.is_valid(row))) {
        row_numbers.clear();
        row_numbers.extend(numbers.iter().map(|values| values.value(row)));
        show(&row_numbers)?;
    }
    Ok(())
}

impl Partial {
    /// Fails where a row has an argument of which there is no value.
    fn check(&self, args: &[ColumnarValue]) -> Result<()> {
        each_row(args, &mut |numbers| self.check_row(numbers))
    }

    /// Fails where a row's value is out of the range of floats and what it is made of is not.
    fn check_range(&self, args: &[ColumnarValue], value: &ColumnarValue) -> Result<()> {
        let name = self.known.name();
        let mut all = args.to_vec();
        all.push(value.clone());
        each_row(&all, &mut |numbers| {
            let Some((value, args)) = numbers.split_last() else { return Ok(()) };
            let finite = args.iter().all(|number| number.is_finite());
            // Zero to the power of something, and multiples of zero, are zero.
            let zero = *value == 0.0 && (name == "exp" || args.first() != Some(&0.0));
            match (finite, value.is_infinite(), zero) {
                (true, true, _) => value_err!(NumericValueOutOfRange, "value out of range: overflow in {name}"),
                (true, _, true) => value_err!(NumericValueOutOfRange, "value out of range: underflow in {name}"),
                _ => Ok(()),
            }
        })
    }

    fn check_row(&self, numbers: &[f64]) -> Result<()> {
        let name = self.known.name();
        match (self.domain, numbers) {
            (Domain::Positive, numbers) if numbers.contains(&0.0) => {
                value_err!(InvalidArgumentForLogarithm, "cannot take logarithm of zero")
            }
            (Domain::Positive, numbers) if numbers.iter().any(|number| *number < 0.0) => {
                value_err!(InvalidArgumentForLogarithm, "cannot take logarithm of a negative number")
            }
            (Domain::Unit, [number]) if number.abs() > 1.0 => {
                value_err!(NumericValueOutOfRange, "{name}({number}) has no value; the argument is to be from -1 to 1")
            }
            (Domain::FromOne, [number]) if *number < 1.0 => {
                value_err!(NumericValueOutOfRange, "{name}({number}) has no value; the argument is to be 1 or more")
            }
            (Domain::Finite, [number]) if number.is_infinite() => {
                value_err!(NumericValueOutOfRange, "{name}({number}) has no value")
            }
            (Domain::Power, [base, exponent])
                if *base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 =>
            {
                value_err!(
                    InvalidArgumentForPower,
                    "a negative number raised to a non-integer power yields a complex result"
                )
            }
            _ => Ok(()),
        }
    }
}

// Each function has one domain, so its name says all.
impl PartialEq for Partial {
    fn eq(&self, other: &Partial) -> bool {
        self.known == other.known
    }
}

impl Eq for Partial {}

impl Hash for Partial {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.known.hash(state);
    }
}

impl ScalarUDFImpl for Partial {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.known.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.known.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.known.inner().coerce_types(types)
    }

    fn is_strict(&self) -> bool {
        self.known.inner().is_strict()
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.known.inner().output_ordering(input)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.inner().documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !matches!(self.domain, Domain::Range) {
            self.check(&args.args)?;
        }
        if !matches!(self.domain, Domain::Range | Domain::Power) {
            return self.known.inner().invoke_with_args(args);
        }
        let numbers = args.args.clone();
        let value = self.known.inner().invoke_with_args(args)?;
        self.check_range(&numbers, &value)?;
        Ok(value)
    }
}
