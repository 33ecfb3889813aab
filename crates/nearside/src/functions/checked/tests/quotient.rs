//! Quotients of decimals against PostgreSQL's rule, written out over groups of four digits.

use arrow::datatypes::i256;
use proptest::prelude::*;

use super::super::quotient::Scales;
use super::Sql;

/// The groups of four digits of a value as PostgreSQL holds it: the place of the first that is not zero, and that.
fn first_group(value: i128, scale: usize) -> (i32, u32) {
    let text = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = text.split_at(text.len() - scale);
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let all = format!("{whole}{fraction}");
    let mut groups = (0..all.len() / 4).map(|i| all[4 * i..4 * i + 4].parse::<u32>().unwrap());
    match groups.by_ref().position(|group| group > 0) {
        Some(at) => ((whole.len() / 4) as i32 - 1 - at as i32, all[4 * at..4 * at + 4].parse().unwrap()),
        None => (0, 0),
    }
}

fn ten(n: i32) -> i256 {
    i256::from_i128(10).checked_pow(n as u32).unwrap()
}

/// `a / b` by the rule of numeric.c, held with `scale` digits behind the point.
fn slow(a: i128, s1: usize, b: i128, s2: usize, scale: i32) -> i256 {
    let (left, right) = (first_group(a, s1), first_group(b, s2));
    let weight = left.0 - right.0 - i32::from(left.1 <= right.1);
    let digits = (16 - 4 * weight).max(s1 as i32).max(s2 as i32).max(0).min(scale);
    let dividend = i256::from_i128(a).wrapping_abs() * ten(digits - s1 as i32 + s2 as i32);
    let divisor = i256::from_i128(b).wrapping_abs();
    let quotient = (dividend + dividend + divisor) / (divisor + divisor) * ten(scale - digits);
    if (a < 0) == (b < 0) { quotient } else { -quotient }
}

proptest! {
    #[test]
    fn quotients_have_the_digits_of_the_rule(
        a in any::<i64>(), b in any::<i64>(), cut in 0u32..18, off in 0u32..18, s1 in 0usize..12, s2 in 0usize..12,
        further in 0i32..9,
    ) {
        let a = i128::from(a / 10i64.pow(cut));
        let b = i128::from(b / 10i64.pow(off));
        prop_assume!(b != 0);
        let scale = 12 + further;
        let scales = Scales { left: s1 as i32, right: s2 as i32, result: scale };
        let expected = slow(a, s1, b, s2, scale);
        prop_assert_eq!(scales.divide(a, b), expected.to_i128());
        prop_assert_eq!(scales.divide_wide(i256::from_i128(a), i256::from_i128(b)), Some(expected));
    }
}

proptest! {
    #[test]
    fn products_are_rounded_once_where_they_fit(
        a in any::<i64>(), b in any::<i64>(), s1 in 0i32..20, s2 in 0i32..20, cut in 0i32..9,
    ) {
        let result = (s1 + s2 - cut).max(0);
        let scales = Scales { left: s1, right: s2, result };
        let exact = i256::from_i128(i128::from(a) * i128::from(b));
        let unit = ten(s1 + s2 - result);
        let expected = (exact.wrapping_abs() + exact.wrapping_abs() + unit) / (unit + unit);
        let expected = if (a < 0) == (b < 0) { expected } else { -expected };
        prop_assert_eq!(scales.multiply(i256::from_i128(a.into()), i256::from_i128(b.into())), Some(expected));
    }
}

/// Operands of many digits are rounded before they are multiplied: 1/3 of 40 digits times itself.
#[test]
fn products_of_many_digits_have_room() {
    let third = (ten(40) - i256::ONE) / i256::from_i128(3);
    let scales = Scales { left: 40, right: 40, result: 40 };
    let ninth = (ten(27) - i256::ONE) / i256::from_i128(9);
    let found = scales.multiply(third, third).unwrap() / ten(13);
    assert!((found - ninth).wrapping_abs() <= i256::ONE, "{found}");
    assert_eq!(scales.multiply(i256::MAX, i256::MAX), None);
}

/// The values are PostgreSQL 15's, but for zeros behind them.
#[test]
fn quotients_are_those_of_postgresql() {
    let sql = Sql::new();
    for (text, expected) in [
        ("1.0 / 3", "0.33333333333333333333"),
        ("10.0 / 3", "3.33333333333333330000"),
        ("1000000.0 / 3", "333333.33333333333300000000"),
        ("2 / 3.0", "0.66666666666666666667"),
        ("-7 / 0.3", "-23.33333333333333330000"),
        ("100.0 * 1 / 7", "14.2857142857142857"),
        ("1e0::decimal(10, 2) / 1000000", "0.00000100000000000000"),
        ("round(1.0 / 3 * 3, 2)", "1.00"),
        ("1.0 / 3 * 3", "0.99999999999999999999"),
        ("(1.0 / 3) * (1.0 / 3)", "0.1111111111111111111088888888888888888889"),
        ("(1.0 / 3) * (1.0 / 3) * (1.0 / 3)", "0.0370370370370370370359259259259259259259"),
        ("1 / 3", "0"),
        ("7 / 2.0e0", "3.5"),
    ] {
        sql.gives(&format!("select {text}"), &[expected]);
    }
    // Of columns, arrays and wide types too.
    sql.gives(
        "select e / b, sum(e) / count(*), sum(e) / sum(e), sum(e * e) / sum(d * 0 + 3) from t where e > 2 and b > 0 \
         group by e, b",
        &["2.2500000000000000|2.2500000000000000|1.0000000000000000|1.6875000000000000"],
    );
    sql.gives(
        "select cast(10 as decimal(60, 2)) / 3, cast(1 as decimal(3, 1)) / cast(3 as decimal(40, 2))",
        &["3.3333333333333333|0.3333333333333333"],
    );
    // Four quotients, each way round, have room, and no name but that of an operator.
    let third = "cast(1 as decimal(20, 4)) / cast(3 as decimal(20, 4))";
    sql.gives(
        &format!(
            "select round(\"?column?\", 20) from (select ({third}) * ({third}) * ({third}) * ({third})) s union all
             select round(\"?column?\", 20) from (select (({third}) * ({third})) * (({third}) * ({third}))) s"
        ),
        &["0.01234567901234567407", "0.01234567901234567407"],
    );
    sql.fails("select e / b from t", "division by zero");
    sql.fails("select e / (e - e) from t", "division by zero");
    sql.gives(
        "select case when b = 0 then 0 else e / b end from t where e is not null",
        &["0.0000000000000000", "2.2500000000000000", "-3.0000000000000000"],
    );
}
