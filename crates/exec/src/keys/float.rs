//! Floats as keys: both zeros are one key, and so are all NaNs, which come last.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};

/// The float that stands for all that are equal to it.
#[inline(always)]
pub(crate) fn one(value: f64) -> f64 {
    // Adding 0.0 turns -0.0 into 0.0.
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// One bit pattern per float that is a key.
#[inline(always)]
pub(crate) fn bits(value: f64) -> u64 {
    one(value).to_bits()
}

/// A number per float that is a key, of the same order.
#[inline(always)]
pub(crate) fn rank(value: f64) -> u64 {
    // All bits of a negative number are flipped, the sign of any other.
    let bits = bits(value);
    bits ^ (((bits as i64) >> 63) as u64 | 1 << 63)
}

/// As [`rank`], but that of -0.0 and 0.0, which are equal, the first is the smaller: for values that are handed out
/// again.
#[inline(always)]
pub(crate) fn ordered(value: f64) -> u64 {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    bits ^ (((bits as i64) >> 63) as u64 | 1 << 63)
}

/// The float behind [`ordered`] or [`rank`].
#[inline(always)]
pub(crate) fn of_ordered(number: u64) -> f64 {
    f64::from_bits(if number >> 63 == 1 { number ^ 1 << 63 } else { !number })
}

/// The array with every float replaced by [`one`]; others as they are.
pub(crate) fn one_of_each(array: &ArrayRef) -> ArrayRef {
    let narrow = |value: f32| one(f64::from(value)) as f32;
    match array.data_type() {
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(one)),
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(narrow)),
        DataType::Float16 => {
            let wide = cast(array, &DataType::Float32).expect("floats widen");
            let wide: Float32Array = wide.as_primitive::<Float32Type>().unary(narrow);
            let half = cast(&wide, &DataType::Float16).expect("floats narrow");
            Arc::new(half.as_primitive::<Float16Type>().clone())
        }
        _ => array.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_order_of_floats() {
        let ascending = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(ascending.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert!(ascending.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
        assert!(ascending.iter().all(|&value| of_ordered(rank(value)).to_bits() == value.to_bits()));
        assert_eq!(rank(-0.0), rank(0.0));
        assert_eq!(bits(-0.0), bits(0.0));
        assert!(ordered(-0.0) < ordered(0.0));
        let negative_nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63);
        assert_eq!((rank(negative_nan), bits(negative_nan)), (rank(f64::NAN), bits(f64::NAN)));
        assert_eq!(ordered(negative_nan), ordered(f64::NAN));
    }

    #[test]
    fn arrays_have_one_of_each() {
        let zeros: ArrayRef = Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(0.0), Some(-1.5)]));
        for data_type in [DataType::Float16, DataType::Float32, DataType::Float64] {
            let array = one_of_each(&cast(&zeros, &data_type).unwrap());
            assert_eq!((array.data_type(), array.null_count()), (&data_type, 1));
            let wide = cast(&array, &DataType::Float64).unwrap();
            let found: Vec<u64> = wide.as_primitive::<Float64Type>().values().iter().map(|v| v.to_bits()).collect();
            assert_eq!([found[0], found[2], found[3]], [0.0f64, 0.0, -1.5].map(f64::to_bits));
        }
    }
}
