//! `+ - * / %` and unary minus: literals, columns, every clause, names, plans.

use arrow::datatypes::DataType;
use datafusion_common::DFSchema;
use datafusion_common::tree_node::TreeNode;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::{col, lit};
use datafusion_optimizer::AnalyzerRule;

use super::super::guard::can_fail;
use super::super::{CheckedArithmetic, as_operator, checked, create_physical_expr, plain};
use super::Sql;
use crate::plan::planning::analyse;
use crate::sql::AnyStatement;

const MAX_PLUS_ONE: &str = "integer overflow: 9223372036854775807 + 1 does not fit BIGINT";

#[test]
fn constants_are_folded_checked() {
    let sql = Sql::new();
    sql.fails("select 9223372036854775807 + 1", MAX_PLUS_ONE);
    sql.fails("select -9223372036854775808 - 1", "integer overflow: -9223372036854775808 - 1 does not fit BIGINT");
    sql.fails("select 9223372036854775807 * 2", "integer overflow: 9223372036854775807 * 2 does not fit BIGINT");
    sql.fails("select -(-9223372036854775808)", "integer overflow: -(-9223372036854775808) does not fit BIGINT");
    sql.fails("select -9223372036854775808 / -1", "integer overflow: -9223372036854775808 / -1 does not fit BIGINT");
    sql.gives("select -9223372036854775808 % -1", &["0"]);
    sql.gives(
        "select 9223372036854775806 + 1, -9223372036854775807 - 1, 9223372036854775807 + 0",
        &["9223372036854775807|-9223372036854775808|9223372036854775807"],
    );
    for text in ["select 1 / 0", "select 1 % 0", "select 1.5 / 0", "select 1.5 % 0.0"] {
        sql.fails(text, "division by zero");
    }
    // Constants that only optimizer rules bring together.
    sql.fails("select x + 1 from (select 9223372036854775807 as x)", MAX_PLUS_ONE);
    sql.fails("select case when true then 9223372036854775807 else 0 end + 1", MAX_PLUS_ONE);
    sql.fails("select coalesce(9223372036854775807, a) + 1 from t", MAX_PLUS_ONE);
    sql.fails("select * from (values (9223372036854775807 + 1))", MAX_PLUS_ONE);
    sql.fails("insert into t(a) values (9223372036854775807 + 1)", MAX_PLUS_ONE);
    // Not reached, so no error.
    sql.gives("select case when false then 9223372036854775807 + 1 else 5 end", &["5"]);
    sql.gives("select b from t where b < 0 limit 1 + 1", &["-1"]);
}

#[test]
fn every_integer_width() {
    let sql = Sql::new();
    for (name, min, max) in [
        ("tinyint", "-128", "127"),
        ("smallint", "-32768", "32767"),
        ("int", "-2147483648", "2147483647"),
        ("bigint", "-9223372036854775808", "9223372036854775807"),
        ("tinyint unsigned", "0", "255"),
        ("smallint unsigned", "0", "65535"),
        ("int unsigned", "0", "4294967295"),
        ("bigint unsigned", "0", "18446744073709551615"),
    ] {
        let cast = |v: &str| format!("cast({v} as {name})");
        let lo = cast(min);
        let hi = cast(max);
        let one = cast("1");
        let target = match name {
            "int" => "INTEGER".to_string(),
            "int unsigned" => "INTEGER UNSIGNED".to_string(),
            other => other.to_uppercase(),
        };
        let overflow = |operation: String| format!("integer overflow: {operation} does not fit {target}");
        sql.fails(&format!("select {hi} + {one}"), &overflow(format!("{max} + 1")));
        sql.fails(&format!("select {lo} - {one}"), &overflow(format!("{min} - 1")));
        sql.fails(&format!("select {hi} * {}", cast("2")), &overflow(format!("{max} * 2")));
        sql.fails(&format!("select {one} / {}", cast("0")), "division by zero");
        sql.fails(&format!("select {one} % {}", cast("0")), "division by zero");
        sql.gives(&format!("select {hi} - {one} + {one}, {lo} + {one} - {one}"), &[&format!("{max}|{min}")]);
        if !name.ends_with("unsigned") {
            sql.fails(&format!("select - {lo}"), &overflow(format!("-({min})")));
            sql.fails(&format!("select {lo} / {}", cast("-1")), &overflow(format!("{min} / -1")));
            sql.gives(&format!("select - {hi}"), &[&format!("-{max}")]);
        }
    }
}

#[test]
fn columns_in_every_clause() {
    let sql = Sql::new();
    for text in [
        "select a + 1 from t",
        "select b from t where a + 1 > 0",
        "select g from t group by g, a + 1",
        "select g, max(a + 1) from t group by g",
        "select g from t group by g having max(a) + 1 > 0",
        "select b from t order by a + 1",
        "select row_number() over (order by a + 1) from t",
        "select sum(b) over (partition by a + 1) from t",
        "select count(*) from t x join t y on x.a + 1 = y.a + 1",
        "select count(*) from t x left join t y on x.g = y.g and x.a + 1 > y.b",
        "select count(*) from t x, t y where x.g < y.g + 1 and x.a + 1 > y.b",
        "select count(*) from t where b in (select a + 1 from t)",
        "select (select max(y.a + 1) from t y where y.g = x.g) from t x",
        "select x.b from t x where exists (select 1 from t y where y.a + 1 = x.b)",
        "select array_agg(a + 1) from t",
        "select abs(a + 1) from t",
        "select case when a + 1 > 0 then 1 end from t",
        "select b from t where a + 1 between 0 and 5",
        "select b from t where a + 1 in (0, 5, 7, 9)",
        "select a + 1 from t union all select 1",
        "select g + 1, sum(a + 1) from t group by rollup(g + 1)",
        "with x as (select a + 1 as c from t) select c from x where c > 0",
        "create table copy as select a + 1 as c from t",
        "insert into t(a) select a + 1 from t",
    ] {
        sql.fails(text, MAX_PLUS_ONE);
    }
    sql.fails("select -a from t", "integer overflow: -(-9223372036854775808) does not fit BIGINT");
    sql.fails("select i + i from t", "integer overflow: 2147483647 + 2147483647 does not fit INTEGER");
    sql.fails("select i + 1 from t", "integer overflow: 2147483647 + 1 does not fit INTEGER");
    sql.gives("select i + bigint '1' from t", &["2147483648", "2", "-2147483647", ""]);
    sql.gives("select a - b from t where g = 1", &["9223372036854775807", "0"]);
    sql.run("create view v as select a + 1 as c, b from t").unwrap();
    sql.fails("select c from v", MAX_PLUS_ONE);
    sql.gives("select b from v where b > 0", &["1", "2"]);
    sql.fails(
        "with recursive r(n) as (select 1 union all select n * 3 from r) select max(n) from r",
        "integer overflow: 4052555153018976267 * 3 does not fit BIGINT",
    );
    sql.run("prepare p as select $1 + 1").unwrap();
    sql.fails("execute p(9223372036854775807)", MAX_PLUS_ONE);
    sql.gives("execute p(41)", &["42"]);
}

#[test]
fn values_under_null_do_not_count() {
    let sql = Sql::new();
    // The kernel sees MAX + NULL, NULL + MAX and x / NULL.
    sql.gives(
        "select a + x from (values (9223372036854775807, null), (null, 9223372036854775807), (1, 2)) v(a, x)",
        &["", "", "3"],
    );
    sql.gives("select a / x from (values (1, cast(null as bigint)), (6, 2)) v(a, x)", &["", "3"]);
    sql.gives("select null + 1, a + null, null / 0, -null from t limit 1", &["|||"]);
}

#[test]
fn decimals_keep_to_their_precision() {
    let sql = Sql::new();
    let max = "999999999999999999999999999999999999.99";
    for (text, operation, target) in [
        ("d + 1", format!("{max} + 1"), "DECIMAL(38, 2)"),
        ("d + d", format!("{max} + {max}"), "DECIMAL(38, 2)"),
        ("-1 - d", format!("-1 - {max}"), "DECIMAL(38, 2)"),
        ("d * 10", format!("{max} * 10"), "DECIMAL(38, 2)"),
        ("d * d", format!("{max} * {max}"), "DECIMAL(38, 4)"),
        ("d / 0.01", format!("{max} / 0.01"), "DECIMAL(38, 16)"),
        ("d + 0.001", format!("{max} + 0.001"), "DECIMAL(38, 3)"),
    ] {
        let message = format!("decimal overflow: {operation} does not fit {target}");
        sql.fails(&format!("select {text} from t"), &message);
    }
    sql.fails("select e / (e - e) from t", "division by zero");
    sql.fails("select e % (e - e) from t", "division by zero");
    sql.gives("select d - d, d + 0 from t where b = 0", &[&format!("0.00|{max}")]);
    sql.gives(
        "select e * e, e + e, e - 10, e / 3, e % 2, -e from t where b = 1",
        &["5.0625|4.50|-7.75|0.7500000000000000|0.25|-2.25"],
    );
    // 10^37 fits; ten times that does not. The dividend alone would not fit 128 bits.
    sql.gives(
        "select cast(10000000000000000000000000000000000000 as decimal(38, 0)) * 1",
        &["10000000000000000000000000000000000000"],
    );
    sql.gives(
        "select cast(99999999999999999999999999999.123456789 as decimal(38, 9)) / cast(100000000000000000000.000000000 \
         as decimal(38, 9))",
        &["1000000000.0000000000000000"],
    );
    sql.fails(
        "select 99999999999999999999999999999999999999 + 1",
        "decimal overflow: 99999999999999999999999999999999999999 + 1 does not fit DECIMAL(38, 0)",
    );
    for narrow in ["Decimal32(9, 0)", "Decimal64(18, 0)", "Decimal256(76, 0)"] {
        let nines = |n: usize| format!("arrow_cast('{}', '{narrow}')", "9".repeat(n));
        let digits = match narrow {
            "Decimal32(9, 0)" => 9,
            "Decimal64(18, 0)" => 18,
            _ => 76,
        };
        let text = format!("select {} + {}", nines(digits), nines(digits));
        assert!(sql.fault(&text).starts_with("arithmetic overflow: "), "{text}");
        sql.gives(&format!("select {} - {}", nines(digits), nines(digits)), &["0"]);
    }
}

#[test]
fn dates_casts_and_functions_were_checked_already() {
    let sql = Sql::new();
    for text in [
        "select date '2020-01-01' + interval '999999999 days'",
        "select date '2020-01-01' - interval '2147483647 months'",
        "select timestamp '2262-04-11 23:47:16' + interval '1 day'",
        "select timestamp '2262-04-11' - timestamp '1677-09-22'",
        "select interval '178956970 years' + interval '1 year'",
        "select arrow_cast(9223372036854775807, 'Date64') - arrow_cast(-10, 'Date64')",
        "select abs(a) from t",
        "select factorial(21), a from t",
        "select lcm(9223372036854775807, 2), a from t",
        "select round(9223372036854775807, -1), a from t",
    ] {
        let message = sql.fault(text).to_lowercase();
        assert!(["overflow", "out of range"].iter().any(|word| message.contains(word)), "{text}: {message}");
    }
    for text in [
        "select cast(a as int) from t",
        "select cast(9223372036854775807 as int)",
        "select cast(1e30 as bigint)",
        "select cast(12345.67 as decimal(5, 2))",
        "select cast(d as decimal(5, 2)) from t",
        "select cast(d as decimal(38, 10)) from t",
    ] {
        assert!(sql.run(text).is_err(), "{text}");
    }
    sql.gives(
        "select date '2020-03-01' - date '2020-02-01', date '2020-01-31' + interval '1 month'",
        &["29|2020-02-29T00:00:00"],
    );
    sql.gives("select median(a), power(10, 3) from t", &["1.0|1000.0"]);
}

#[test]
fn floats_have_a_range() {
    let sql = Sql::new();
    sql.gives(
        "select cast('inf' as double) * 2, cast('inf' as double) - cast('inf' as double), cast('1e307' as double) * 10",
        &["inf|NaN|1e308"],
    );
}

#[test]
fn names_types_and_plans_stay() {
    let sql = Sql::new();
    for (query, name) in [
        ("select b + 1 from t", "t.b + Int32(1)"),
        ("select -b from t", "(- t.b)"),
        ("select (b + 1) * 2 from t", "t.b + Int32(1) * Int32(2)"),
        ("select e * (1 - e) from t", "t.e * Int32(1) - t.e"),
    ] {
        assert_eq!(sql.optimised(query).schema().field(0).name(), name);
    }
    let plan = sql.optimised("select e * (1 - e) from t");
    assert_eq!(plan.schema().field(0).data_type(), &DataType::Decimal128(32, 4));
    sql.gives("select b + 1 from t group by b + 1 order by b + 1", &["0", "1", "2", "3"]);
    sql.gives("select sum(b + 1) as s from t order by s + 0", &["6"]);
    // Strictness survives: the outer join becomes an inner one.
    let plan = sql.optimised("select count(*) from t x left join t y on x.b + 1 = y.b where y.b + 1 > 0");
    let plan = plan.display_indent().to_string();
    assert!(plan.contains("Inner Join"), "{plan}");
    // Neutral elements and constants go.
    let plan = sql.optimised("select b + 0, b * 1, 2 + 3, b + (null + 1) from t").display_indent().to_string();
    assert!(plan.contains("Int32(5)"), "{plan}");
    assert!(!plan.contains("(t.b, "), "{plan}");
}

#[test]
fn analysis_is_idempotent_and_reversible_for_display() {
    let sql = Sql::new();
    let text = "select b + 1, sum(10 / b) filter (where b <> 0) from t where b <> 0 and -b > 1 group by b + 1";
    let running = sql.session.running();
    let plan = AnyStatement::one(text).unwrap().plan(&running.plan_context()).unwrap();
    let once = analyse(plan, running.as_ref()).unwrap();
    let twice = CheckedArithmetic.analyze(once.clone(), running.planner.config_options()).unwrap();
    assert_eq!(once, twice);
    let again = analyse(once.clone(), running.as_ref()).unwrap();
    assert_eq!(once, again);
    assert!(once.display_indent().to_string().contains("+(t.b, "));
    let shown = once.transform_up(|node| node.map_expressions(plain)).unwrap().data.display_indent().to_string();
    assert!(shown.contains("t.b + ") && !shown.contains("+("), "{shown}");
}

#[test]
fn expressions_outside_plans() {
    let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new("a", DataType::Int64, true)]);
    let df_schema = DFSchema::try_from(schema.clone()).unwrap();
    let expr = col("a") + lit(1i64);
    assert!(!can_fail(&expr));
    let rewritten = checked(expr.clone(), &df_schema).unwrap().data;
    assert!(can_fail(&rewritten));
    let (op, operands) = as_operator(&rewritten).unwrap();
    assert_eq!(op.to_string(), "+");
    assert_eq!(operands, [col("a"), lit(1i64)]);
    assert!(as_operator(&expr).is_none());
    let physical = create_physical_expr(&expr, &df_schema, &ExecutionProps::new()).unwrap();
    let column = arrow::array::Int64Array::from(vec![Some(i64::MAX), None]);
    let batch =
        arrow::array::RecordBatch::try_new(std::sync::Arc::new(schema), vec![std::sync::Arc::new(column)]).unwrap();
    let error = physical.evaluate(&batch).unwrap_err();
    assert_eq!(crate::Error::from(error).to_string(), MAX_PLUS_ONE);
    assert!(physical.evaluate(&batch.slice(1, 1)).is_ok());
}

#[test]
fn long_generated_expressions_plan_in_reasonable_time() {
    // On a stack of its own: DataFusion itself recurses, and a test's stack is small.
    let planning = std::thread::Builder::new().stack_size(32 << 20).spawn(|| {
        let sql = Sql::new();
        let started = std::time::Instant::now();
        let sum = vec!["b"; 300].join(" + ");
        sql.gives(&format!("select {sum} from t where b = 1"), &["300"]);
        started.elapsed()
    });
    let took = planning.unwrap().join().unwrap();
    // Names are quadratic, in DataFusion too; cubic, it was half a minute.
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn no_plain_arithmetic_is_left_after_optimizing() {
    let sql = Sql::new();
    for text in [
        "select g, sum(e * (1 - e)), sum(b + 1), avg(b * 2), count(distinct b + 1) from t group by g",
        "select sum(distinct b + 1), sum(b) + count(*) from t",
        "select x.b - y.b from t x join t y on x.b + 1 = y.b where x.g % 2 = 1 and y.b * 2 in (select b + 1 from t)",
        "select sum(b + 1) over (order by g), -b from t order by b / 7",
    ] {
        let plan = sql.optimised(text);
        plan.apply_with_subqueries(|node| {
            for expr in node.expressions() {
                assert_eq!(checked(expr.clone(), &merged(node)).unwrap().data, expr, "{text}: {expr}");
            }
            Ok(datafusion_common::tree_node::TreeNodeRecursion::Continue)
        })
        .unwrap();
    }
}

/// All columns that the expressions of `node` may name.
fn merged(node: &datafusion_expr::LogicalPlan) -> DFSchema {
    let mut schema = datafusion_expr::utils::merge_schema(&node.inputs());
    schema.merge(node.schema());
    if let datafusion_expr::LogicalPlan::TableScan(scan) = node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema()).unwrap());
    }
    schema
}
