//! Which expressions are known, as SQL has them after the optimiser. That a known one computes the same as DataFusion's
//! own is tested from outside, `tests/it/expressions.rs`.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion_expr::LogicalPlan;

use super::*;
use crate::Database;
use crate::plan::planning::{analyse, optimise};
use crate::sql::AnyStatement;

/// What `SELECT expr FROM t` computes, and what is known of it.
fn mapped(expr: &str) -> Option<Scalar> {
    let fields = vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
        Field::new("i", DataType::Int32, true),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("disc", DataType::Decimal128(15, 2), true),
        Field::new("tax", DataType::Decimal128(15, 2), true),
        Field::new("d", DataType::Date32, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8View, true),
    ];
    let database = Database::builder().threads(1).build().unwrap();
    database.register("t", vec![RecordBatch::new_empty(Arc::new(Schema::new(fields)))]).unwrap();
    let running = database.session().running();
    let text = format!("SELECT {expr} AS x FROM t");
    let plan = AnyStatement::one(&text).unwrap().plan(&running.plan_context()).unwrap();
    let plan = optimise(analyse(plan, running.as_ref()).unwrap(), running.as_ref()).unwrap();
    let LogicalPlan::Projection(projection) = &plan else { panic!("{expr}: {plan}") };
    let schema = projection.input.schema();
    let planned = PhysicalExpression::new(&projection.expr[0], schema, &running.props()).unwrap();
    planned.structure().cloned()
}

#[test]
fn what_is_known_to_the_last_part() {
    for expr in [
        "price * (1 - disc)",
        "price * (1 - disc) * (1 + tax)",
        "price + a",
        "a + 1",
        "-a",
        "a / 2 + b % 7",
        "extract(year from d)",
        "date_part('month', ts)",
        "CASE WHEN s = 'x' OR s = 'y' THEN 1 ELSE 0 END",
        "CASE s WHEN 'x' THEN price END",
        "CASE WHEN a <> 0 THEN b / a ELSE 0 END",
        "CASE WHEN a <> 0 THEN b / a > 3 ELSE false END",
        "a <> 0 AND b / a > 3",
        "a = 0 OR b / a > 3",
        "a BETWEEN 1 AND b",
        "s NOT IN ('a', 'b', 'c', 'd', 'e')",
        "NOT (a = 1 AND b > 2)",
        "a + b IS NULL",
        "f * 2.5 - f / 3",
        "CAST(a AS DOUBLE)",
        "CAST(price AS DECIMAL(12, 1))",
        "CAST(i AS BIGINT) + a",
        "d < DATE '1995-01-01' AND d >= DATE '1994-01-01'",
        "(a > 1) IS NOT TRUE",
        "i = 3 AND s <> 'Brand#45'",
    ] {
        let known = mapped(expr).unwrap_or_else(|| panic!("{expr} is not known"));
        assert!(!format!("{known:?}").contains("Opaque"), "{expr}: {known:?}");
    }
}

#[test]
fn what_is_known_but_for_a_part() {
    for expr in [
        "CASE WHEN s LIKE 'PROMO%' THEN price * (1 - disc) ELSE 0 END",
        "length(s) + 1",
        "substring(s, 1, 2) = '13'",
        "s LIKE '%a%' AND a > 3",
        "f IN (1, 2, 3, 4, 5) OR a = 2",
    ] {
        let known = mapped(expr).unwrap_or_else(|| panic!("{expr} is not known"));
        assert!(!matches!(known, Scalar::Opaque(_)), "{expr}: {known:?}");
        assert!(format!("{known:?}").contains("Opaque"), "{expr}: {known:?}");
    }
}

#[test]
fn what_is_not_known() {
    for expr in ["upper(s)", "s LIKE 'a%'", "d + INTERVAL '1 day'", "f % 2", "CAST(s AS BIGINT)", "abs(a)"] {
        assert!(mapped(expr).is_none(), "{expr}");
    }
}

#[test]
fn types_come_from_below() {
    let Some(Scalar::Arithmetic { data_type, left, .. }) = mapped("price * (1 - disc)") else { panic!("a product") };
    assert!(matches!(data_type, DataType::Decimal128(_, 4)), "{data_type}");
    assert!(matches!(*left, Scalar::Column(1) | Scalar::Column(0)), "{left:?}");
    let Some(Scalar::DatePart { data_type, .. }) = mapped("extract(day from d)") else { panic!("a part of a date") };
    assert_eq!(data_type, DataType::Int32);
}
