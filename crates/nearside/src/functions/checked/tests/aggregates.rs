//! `sum` and `avg`: all rows, groups, DISTINCT, FILTER, windows; order and splitting make no difference.

use arrow::datatypes::DataType;

use super::Sql;

fn overflow(call: &str) -> String {
    format!("integer overflow in {call}: the total does not fit BIGINT; cast the argument to DECIMAL")
}

#[test]
fn result_types() {
    let sql = Sql::new();
    let types = |text: &str| -> Vec<DataType> {
        let batches = sql.run(text).unwrap();
        let schema = batches[0].schema();
        schema.fields().iter().map(|f| f.data_type().clone()).collect()
    };
    assert_eq!(
        types(
            "select sum(y), sum(s), sum(i), sum(b), sum(u), sum(f), sum(d), sum(e), sum(null) from (select *, cast(b \
             as tinyint) y, cast(b as smallint) s, cast(1 as int unsigned) u, cast(b as double) f from t)"
        ),
        [
            DataType::Int64,
            DataType::Int64,
            DataType::Int64,
            DataType::Int64,
            DataType::UInt64,
            DataType::Float64,
            DataType::Decimal128(38, 2),
            DataType::Decimal128(25, 2),
            DataType::Int64
        ]
    );
    assert_eq!(
        types("select avg(b), avg(i), avg(e), mean(e), avg(r) from (select *, cast(b as real) as r from t)"),
        [
            DataType::Float64,
            DataType::Float64,
            DataType::Decimal128(29, 16),
            DataType::Decimal128(29, 16),
            DataType::Float64
        ]
    );
}

#[test]
fn totals_that_fit_whatever_the_order() {
    let sql = Sql::new();
    // MAX + 1 + MIN: some orders and some splits leave the range on the way.
    sql.gives("select sum(a) from t", &["0"]);
    for order in ["asc", "desc"] {
        sql.gives(
            &format!("select sum(a) from (select a from t union all select a from t order by a {order})"),
            &["0"],
        );
    }
    sql.gives("select sum(d) from (select d from t union all select -d from t)", &["0.00"]);
    sql.gives("select g % 1, sum(a) from t group by g % 1", &["0|0"]);
    sql.gives("select sum(a), sum(d), avg(d) from t where false", &["||"]);
    sql.gives_set(
        "select g, sum(e), avg(e), sum(b) from t group by g",
        &["1|3.75|1.8750000000000000|1", "2|3.00|3.0000000000000000|1"],
    );
}

#[test]
fn totals_that_do_not_fit() {
    let sql = Sql::new();
    sql.fails("select sum(a) from t where a > 0", &overflow("sum(t.a)"));
    sql.fails("select sum(a) from (select a from t where a < 0 union all select -1)", &overflow("sum(a)"));
    sql.fails("select g, sum(a) from t group by g", &overflow("sum(t.a)"));
    sql.fails("select sum(distinct a) from t where a > 0", &overflow("sum(DISTINCT ..)"));
    sql.fails("select g, sum(distinct a), count(distinct b) from t group by g", &overflow("sum(DISTINCT t.a)"));
    sql.fails(
        "select sum(x) from (values (18446744073709551615), (cast(1 as bigint unsigned))) v(x)",
        "integer overflow in sum(v.x): the total does not fit BIGINT UNSIGNED; cast the argument to DECIMAL",
    );
    let decimal = "decimal overflow in sum(t.d): the total does not fit DECIMAL(38, 2); cast the argument to DOUBLE";
    sql.fails("select sum(d) from t where d > 0", decimal);
    sql.fails("select g, sum(d) from t group by g", decimal);
    sql.gives("select sum(cast(a as decimal(38, 0))) from t where a > 0", &["9223372036854775808"]);
    // Far beyond 128 bits on the way, in the total and back again.
    sql.fails(
        "select sum(d) from (select d from t, generate_series(1, 1000) s(v) where d > 0)",
        "decimal overflow in sum(t.d): the total does not fit DECIMAL(38, 2); cast the argument to DOUBLE",
    );
    sql.gives(
        "select g, sum(d) from (select 1 as g, d from t, generate_series(1, 1000) s(v) where b = 0
         union all select 1, -d from t, generate_series(1, 1000) s(v) where b = 0) group by g",
        &["1|0.00"],
    );
}

#[test]
fn averages() {
    let sql = Sql::new();
    sql.fails(
        "select avg(d) from t",
        "decimal overflow in avg(t.d): the average does not fit DECIMAL(38, 6); cast the argument to DOUBLE",
    );
    // The total does not fit, the average does.
    let big = "select cast(99999999999999999999999999999999.99 as decimal(38, 2)) as x, v % 3 as g from \
        generate_series(1, 30000) s(v)";
    sql.gives(&format!("select avg(x) from ({big})"), &["99999999999999999999999999999999.990000"]);
    sql.gives_set(
        &format!("select g, avg(x), avg(distinct x) from ({big}) group by g"),
        &[
            "0|99999999999999999999999999999999.990000|99999999999999999999999999999999.990000",
            "1|99999999999999999999999999999999.990000|99999999999999999999999999999999.990000",
            "2|99999999999999999999999999999999.990000|99999999999999999999999999999999.990000",
        ],
    );
    sql.gives(
        "select avg(e), avg(e) filter (where b > 0), avg(distinct e), avg(a) is not null from t",
        &["2.2500000000000000|2.2500000000000000|2.2500000000000000|true"],
    );
    sql.gives("select avg(b), avg(i - i) from t", &["0.5|0.0"]);
    sql.gives("select avg(x) from (values (-0.02), (-0.03)) v(x)", &["-0.0250000000000000"]);
    sql.gives("select avg(x) from (values (cast(1 as decimal(3, 0))), (0), (0)) v(x)", &["0.3333333333333333"]);
    sql.gives(
        "select avg(arrow_cast(b, 'Decimal64(18, 0)')), avg(arrow_cast(e, 'Decimal256(40, 2)')) from t",
        &["0.5000000000000000|2.250000"],
    );
    assert!(sql.run("select avg(arrow_cast(1, 'Decimal256(70, 2)'))").is_err());
}

#[test]
fn distinct_and_filter() {
    let sql = Sql::new();
    let twice = "(select * from t union all select * from t)";
    sql.gives(
        &format!(
            "select sum(distinct b), sum(b), sum(distinct e), avg(distinct e), count(distinct b), sum(distinct a) \
            from {twice}"
        ),
        &["2|4|6.75|2.2500000000000000|4|0"],
    );
    sql.gives_set(
        &format!(
            "select g, sum(distinct b), sum(b), sum(b) filter (where b > 0), sum(distinct e) filter (where b > 7) \
            from {twice} group by g"
        ),
        &["1|1|2|2|", "2|1|2|4|"],
    );
    sql.gives("select sum(a) filter (where a < 0), sum(a) filter (where null) from t", &["-9223372036854775808|"]);
    sql.fails(
        "select sum(a) filter (where a > 0) from t",
        "integer overflow in sum(t.a) FILTER (WHERE t.a > 0): the total does not fit BIGINT; \
         cast the argument to DECIMAL",
    );
}

#[test]
fn window_frames() {
    let sql = Sql::new();
    // Rows by b: MIN, MAX, 1, NULL. Running totals stay in range; MAX + 1 in a frame does not.
    sql.gives("select sum(a) over (order by b) from t", &["-9223372036854775808", "-1", "0", "0"]);
    let frame = "order by b rows between 1 preceding and current row";
    let error = sql.fault(&format!("select sum(a) over ({frame}) from t"));
    assert!(error.contains("the total does not fit BIGINT"), "{error}");
    // A frame that leaves the big values behind is exact again.
    sql.gives(
        "select sum(a) over (order by o rows between 1 preceding and current row) from (values
         (1, 9223372036854775807), (2, 0), (3, 5), (4, -9223372036854775808), (5, null), (6, null)) v(o, a)",
        &["9223372036854775807", "9223372036854775807", "5", "-9223372036854775803", "-9223372036854775808", ""],
    );
    sql.gives(
        &format!(
            "select sum(e) over ({frame}), avg(e) over ({frame}), sum(distinct e) over ({frame}), avg(distinct e) \
            over ({frame}), sum(distinct b) over ({frame}) from t"
        ),
        &[
            "3.00|3.0000000000000000|3.00|3.0000000000000000|-1",
            "4.50|2.2500000000000000|4.50|2.2500000000000000|-1",
            "3.75|1.8750000000000000|3.75|1.8750000000000000|1",
            "2.25|2.2500000000000000|2.25|2.2500000000000000|3",
        ],
    );
    sql.gives(
        "select sum(distinct x) over (order by o rows between 2 preceding and current row) from (values (1, 4), (2, \
         4), (3, 6), (4, 4), (5, 6), (6, 7)) v(o, x)",
        &["4", "4", "10", "10", "10", "17"],
    );
    sql.gives(
        "select sum(b) over (partition by g order by b range between 1 preceding and 1 following) from t order by g, b",
        &["1", "1", "-1", "2"],
    );
    sql.gives(
        "select sum(b) over (), avg(e) over (partition by g) from t order by g, b",
        &["2|1.8750000000000000", "2|1.8750000000000000", "2|3.0000000000000000", "2|3.0000000000000000"],
    );
}

#[test]
fn durations_and_intervals() {
    let sql = Sql::new();
    sql.gives(
        "select sum(x), avg(x) from (select arrow_cast(v, 'Duration(Second)') as x from generate_series(1, 4) s(v))",
        &["10.000000000 secs|PT3S"],
    );
    // Days are added apart from hours.
    sql.gives(
        "select cast(sum(x) as text) from (select arrow_cast(v, 'Duration(Nanosecond)') as x from (values \
        (9223372036854775807), (1)) s(v))",
        &["106751 days 23:47:16.854775808"],
    );
    sql.gives(
        "select cast(avg(x) as text) from (values (interval '1 mon 3 days'), (interval '2 days 5 hours'), (null)) v(x)",
        &["17 days 14:30:00"],
    );
    sql.gives("select cast(avg(x) as text) from (values (cast(null as interval))) v(x)", &[""]);
    sql.fails(
        "select sum(i) from (values (interval '178956970 years'), (interval '3 years')) v(i)",
        "interval overflow in sum(v.i): the total does not fit INTERVAL; total fewer rows at a time",
    );
    sql.gives("select sum(i) from (values (interval '1 day'), (interval '1 day')) v(i)", &["2 days"]);
}

#[test]
fn wide_decimals() {
    let sql = Sql::new();
    sql.gives(
        "select sum(arrow_cast(e, 'Decimal256(50, 2)')), sum(arrow_cast(e, 'Decimal32(9, 2)')), sum(distinct \
        arrow_cast(e, 'Decimal256(50, 2)')) from t",
        &["6.75|6.75|6.75"],
    );
    let nines = "9".repeat(76);
    sql.fails(
        &format!("select sum(x) from (select arrow_cast('{nines}', 'Decimal256(76, 0)') as x from t)"),
        "decimal overflow in sum(x): the total does not fit DECIMAL(76, 0); cast the argument to DOUBLE",
    );
}

#[test]
fn unusual_arguments() {
    let sql = Sql::new();
    for text in
        ["select sum('a')", "select sum(true)", "select avg('a')", "select sum(a, b) from t", "select sum() from t"]
    {
        let error = sql.run(text).unwrap_err().to_string();
        assert!(error.contains("sum") || error.contains("avg"), "{text}: {error}");
    }
    sql.gives("select sum(null), avg(null) from t", &["|"]);
    sql.gives("select sum(arrow_cast(b, 'Dictionary(Int32, Int64)')) from t", &["2"]);
}

#[test]
fn many_groups_with_partial_states_that_are_passed_on() {
    let sql = Sql::new();
    // More groups than rows per batch, so that the partial aggregation gives up and converts rows to states.
    let source = "select v % 150000 as g, v as x, cast(v as decimal(30, 2)) as y from generate_series(1, 300000) s(v)";
    sql.gives(
        &format!(
            "select count(*), sum(s), sum(m), sum(a) from (select g, sum(x) as s, sum(y) as m, avg(y) as a from \
            ({source}) group by g)"
        ),
        &["150000|45000150000|45000150000.00|22500075000.0000000000"],
    );
    sql.gives(
        &format!(
            "select sum(s), sum(f) from (select g, sum(x) as s, sum(x) filter (where x % 2 = 0) as f from \
            ({source}) group by g)"
        ),
        &["45000150000|22500150000"],
    );
}
