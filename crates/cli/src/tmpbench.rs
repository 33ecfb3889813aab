pub fn run() {
    use std::time::Instant;
    let rows: i64 = std::env::var("NS_ROWS").ok().and_then(|v| v.parse().ok()).unwrap_or(1000);
    let n: usize = std::env::var("NS_N").ok().and_then(|v| v.parse().ok()).unwrap_or(20000);
    let db = nearside::Database::new().unwrap();
    let s = db.session();
    let t = Instant::now();
    s.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT, b VARCHAR, c DOUBLE)").unwrap();
    s.execute(&format!(
        "INSERT INTO t SELECT value, value * 7, 'x' || (value % 1000), value * 0.5 FROM generate_series(1, {rows})"
    ))
    .unwrap();
    println!("load {:?}", t.elapsed());
    let time = |name: &str, f: &mut dyn FnMut(i64) -> usize| {
        for i in 0..n / 10 {
            f(1 + (i as i64 * 7919) % rows);
        }
        let t = Instant::now();
        let mut got = 0;
        for i in 0..n {
            got += f(1 + (i as i64 * 7919) % rows);
        }
        println!("{name}: {:.2} us ({got} rows)", t.elapsed().as_secs_f64() * 1e6 / n as f64);
    };
    let p = s.prepare("SELECT a, b, c FROM t WHERE id = $1").unwrap();
    time("point prepared", &mut |k| p.query(&[k.into()]).unwrap().map(|b| b.unwrap().num_rows()).sum());
    let p = s.prepare("SELECT a, b, c FROM t WHERE id BETWEEN $1 AND $2").unwrap();
    time("range prepared", &mut |k| p.query(&[k.into(), (k + 9).into()]).unwrap().map(|b| b.unwrap().num_rows()).sum());
    let p = s.prepare("SELECT count(*), sum(a) FROM t WHERE id BETWEEN $1 AND $2").unwrap();
    time("sum prepared", &mut |k| p.query(&[k.into(), (k + 9).into()]).unwrap().map(|b| b.unwrap().num_rows()).sum());
    time("same text", &mut |_| {
        s.query("SELECT a, b, c FROM t WHERE id = 5").unwrap().map(|b| b.unwrap().num_rows()).sum()
    });
    s.execute("PREPARE q AS SELECT a, b, c FROM t WHERE id = $1").unwrap();
    time("execute", &mut |k| s.query(&format!("EXECUTE q({k})")).unwrap().map(|b| b.unwrap().num_rows()).sum());
    time("new text", &mut |k| {
        s.query(&format!("SELECT a, b, c FROM t WHERE id = {k}")).unwrap().map(|b| b.unwrap().num_rows()).sum()
    });
}
pub fn plans() {
    use std::time::Instant;
    let db = nearside::Database::new().unwrap();
    let s = db.session();
    let dir = std::env::var("NS_TP").unwrap();
    for t in ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"] {
        s.execute(&format!("CREATE TABLE {t} AS SELECT * FROM '{dir}/{t}.parquet'")).unwrap();
    }
    let reps: usize = std::env::var("NS_N").ok().and_then(|v| v.parse().ok()).unwrap_or(21);
    let only: Option<usize> = std::env::var("NS_Q").ok().and_then(|v| v.parse().ok());
    for q in 1..=22 {
        if only.is_some_and(|o| o != q) {
            continue;
        }
        let sql = std::fs::read_to_string(format!("crates/cli/queries/q{q:02}.sql"))
            .or_else(|_| std::fs::read_to_string(format!("crates/cli/queries/q{q}.sql")))
            .unwrap();
        let sql = sql.trim().trim_end_matches(';').to_string();
        let sql = match sql.rfind("create view") {
            Some(_) => continue,
            None => sql,
        };
        let mut times = Vec::new();
        for _ in 0..reps {
            let t = Instant::now();
            s.query(&format!("EXPLAIN {sql}")).unwrap().for_each(|b| {
                b.unwrap();
            });
            times.push(t.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        println!("q{q}: {:.2} ms", times[reps / 2]);
    }
    let cols: Vec<String> = (0..16).map(|i| format!("c{i} BIGINT")).collect();
    s.execute(&format!("CREATE TABLE w ({})", cols.join(", "))).unwrap();
    s.execute(&format!("INSERT INTO w VALUES ({})", (0..16).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")))
        .unwrap();
    s.execute("SET nearside.plan_cache = false").unwrap();
    let n = 2000;
    let t = Instant::now();
    for i in 0..n {
        s.query(&format!("SELECT * FROM w WHERE c1 = {i} AND c2 > 5 AND c3 < 9")).unwrap().for_each(|b| {
            b.unwrap();
        });
    }
    println!("unprepared: {:.1} us", t.elapsed().as_secs_f64() * 1e6 / n as f64);
}
