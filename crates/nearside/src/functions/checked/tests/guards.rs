//! CASE, AND, OR, FILTER and sub-queries do not evaluate what they exclude.

use super::Sql;

#[test]
fn case_guards() {
    let sql = Sql::new();
    let guarded = "case when b <> 0 then a / b end";
    sql.gives(&format!("select {guarded} from t where g = 1"), &["", "1"]);
    // Shared subexpressions, several guards in one projection.
    sql.gives(
        &format!(
            "select {guarded}, case when b <> 0 then a / b else 0 end, case when b <> 0 then a / b + 1 end from t \
            where g = 1"
        ),
        &["|0|", "1|1|2"],
    );
    sql.gives("select case b when 0 then 0 else 10 / b end from t", &["0", "10", "-10", "5"]);
    sql.gives("select case when b = 0 then 0 when 10 / b > 3 then 1 else 10 / b end from t", &["0", "1", "-10", "1"]);
    sql.gives("select case when b = 100 then 9223372036854775807 + 1 else 5 end from t limit 1", &["5"]);
    // Boolean ones, which the optimizer would take apart.
    for case in [
        "case when b <> 0 then 10 / b > 1 else false end",
        "case when b <> 0 then 10 / b > 1 end",
        "case when b = 0 then false else 10 / b > 1 end",
        "case when b = 0 then 1 when 10 / b > 1 then 2 else 3 end = 2",
    ] {
        sql.gives(&format!("select b from t where {case}"), &["1", "2"]);
        sql.gives(&format!("select b from t where coalesce({case}, false)"), &["1", "2"]);
        sql.gives(
            &format!("select count(*) from t where not ({case})"),
            &[if case.ends_with("1 end") && !case.contains("else") { "1" } else { "2" }],
        );
        sql.gives(
            &format!(
                "select x.b from t x join t y on x.b = y.b and ({})",
                case.replace('b', "x.b").replace("x.b", "y.b")
            ),
            &["1", "2"],
        );
    }
    sql.gives("select b from t where coalesce(10 / nullif(b, 0), 0) > 1", &["1", "2"]);
}

#[test]
fn and_or_in_projections() {
    let sql = Sql::new();
    sql.gives("select b <> 0 and 10 / b > 1 from t", &["false", "true", "false", "true"]);
    sql.gives("select b = 0 or 10 / b > 1 from t", &["true", "true", "false", "true"]);
    sql.gives("select b <> 0 and b > -5 and 10 / b > 1 and b is not null from t", &["false", "true", "false", "true"]);
    sql.gives("select case when b <> 0 and 10 / b > 1 then 1 else 0 end from t", &["0", "1", "0", "1"]);
    sql.gives("select sum(case when b <> 0 and 10 / b > 1 then 1 else 0 end) from t", &["2"]);
    sql.gives("select count(*) filter (where b <> 0 and 10 / b > 1) from t", &["2"]);
    sql.gives("select b from t order by b <> 0 and 10 / b > 1, b", &["-1", "0", "1", "2"]);
    // Three-valued logic survives.
    for (op, table) in [
        ("and", ["true", "false", "", "false", "false", "false", "", "false", ""]),
        ("or", ["true", "", "", "", "true", "false", "true", "true", "true"]),
    ] {
        let rows = "(values (1), (0), (cast(null as bigint))) p(x), (values (1), (0), (cast(null as bigint))) q(y)";
        let text = format!(
            "select (x > 0) {op} (1 / (y + 1) < 1) as eager, case when true then (x > 0) {op} (1 / (y + 1) < 1) end \
             from {rows}"
        );
        for row in sql.rows(&text) {
            let (left, right) = row.split_once('|').unwrap();
            assert_eq!(left, right, "{text}");
        }
        let mut values = sql.rows(&format!("select (x > 0) {op} (1 / (y + 1) < 1) from {rows}"));
        let mut expected = table.to_vec();
        values.sort();
        expected.sort_unstable();
        assert_eq!(values, expected, "{op}");
    }
    // The left side is wrong for no row here, so it fails.
    sql.fails("select 10 / b > 1 and b <> 0 from t", "division by zero");
}

#[test]
fn conditions() {
    let sql = Sql::new();
    for text in [
        "select b from t where b <> 0 and 10 / b > 1",
        "select b from t where 10 / b > 1 and b <> 0",
        "select b from t where b <> 0 and b / b = 1 and 10 / b > 1",
        "select b from (select b, 10 / b as q from t where b <> 0) where q > 1",
        "select b from (select b from t where b <> 0) where 10 / b > 1",
        "select b from t where not (b = 0 or 10 / b <= 1)",
        "select b from t where b in (select b from t where b <> 0 and 10 / b > 1)",
        "select b from t where g = 7 or (b <> 0 and 10 / b > 1)",
        "select b from t group by b having b <> 0 and 10 / b > 1 order by b",
        "select x.b from t x join t y on x.b = y.b and x.b <> 0 and 10 / y.b > 1 order by 1",
    ] {
        sql.gives_set(text, &["1", "2"]);
    }
    let pairs = "x.b <> y.b and 10 / (x.b - y.b) > 9";
    sql.gives_set(&format!("select x.b, y.b from t x join t y on {pairs}"), &["0|-1", "1|0", "2|1"]);
    sql.gives_set(&format!("select x.b, y.b from t x join t y on x.g = y.g and {pairs}"), &["1|0"]);
    sql.gives_set(
        &format!("select x.b, y.b from t x left join t y on x.g = y.g and {pairs}"),
        &["1|0", "0|", "-1|", "2|"],
    );
    sql.gives("select s from (values ('1'), ('x')) v(s) where s <> 'x' and cast(s as int) > 0", &["1"]);
    sql.fails("select b from t where 10 / b > 1", "division by zero");
    sql.fails("select b from t where b < 2 and 10 / b > 1", "division by zero");
}

#[test]
fn aggregate_filters() {
    let sql = Sql::new();
    sql.gives("select sum(10 / b) filter (where b <> 0), count(10 / b) filter (where b <> 0) from t", &["5|3"]);
    sql.gives_set(
        "select g, sum(10 / b) filter (where b <> 0), sum(distinct 10 / b) filter (where b <> 0) from t group by g",
        &["1|10|10", "2|-5|-5"],
    );
    sql.gives("select sum(10 / b) filter (where b <> 0) over (order by b) from t", &["-10", "-10", "0", "5"]);
    sql.gives("select array_agg(10 / b) filter (where b <> 0 and 10 / b > 1) from t", &["[10, 5]"]);
    sql.fails("select sum(10 / b) filter (where g = 1) from t", "division by zero");
    let plan = sql.optimised("select sum(10 / b) filter (where b <> 0) from t");
    assert_eq!(plan.schema().field(0).name(), "sum(Int32(10) / t.b) FILTER (WHERE t.b != Int32(0))");
}

#[test]
fn lazy_functions() {
    let sql = Sql::new();
    sql.gives("select coalesce(b, 1 / 0), nvl(b, 1 / 0), nvl2(b, b, 1 / 0) from t where b = 1", &["1|1|1"]);
}
