//! tests
use datafusion::prelude::*;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionConfig;

#[test]
fn explore() {
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_stack_size(8<<20).build().unwrap();
    let Ok(text) = std::fs::read_to_string(std::env::var("EXPLORE").unwrap_or_default()) else { return };
    let mut config = SessionConfig::new().with_target_partitions(2);
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let plain = std::env::var("PLAIN").is_ok();
    let b = SessionStateBuilder::new().with_config(config).with_default_features();
    let b = if plain { b } else { super::register(b) };
    let ctx = SessionContext::new_with_state(b.build());
    for sql in text.split(";\n") {
        let sql = sql.trim(); if sql.is_empty() { continue }
        println!("> {sql}");
        let t = std::time::Instant::now();
        let out = rt.block_on(async { let df = ctx.sql(sql).await?; df.collect().await });
        match out {
            Ok(b) => println!("{}", arrow::util::pretty::pretty_format_batches(&b).unwrap()),
            Err(e) => println!("ERR {e}\n    {:?}", super::ArithmeticError::of(&e).map(|e| e.to_string())),
        }
        if std::env::var("TIME").is_ok() { println!("{:?}", t.elapsed()); }
    }
}
