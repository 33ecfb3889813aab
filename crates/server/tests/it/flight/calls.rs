//! Queries, prepared statements, what there is, cancelling.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_flight::sql::{
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandStatementQuery, ProstMessageExt, SqlInfo,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor, Ticket};
use futures::{StreamExt, TryStreamExt};
use nearside::arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use nearside::arrow::datatypes::{DataType, Schema};
use nearside_server::Options;
use prost::Message;
use tonic::Code;

use super::client::{code, connect, lines, query, rows, runtime, server, ticket};

#[test]
fn statements_run_once_and_their_rows_are_what_the_session_gives() {
    let (server, database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        assert_eq!(query(&mut client, "SELECT 1 AS a, 'ä' AS b, NULL::int AS c").await.unwrap(), ["1|ä|"]);
        let made = client.execute_update("CREATE TABLE t (n int PRIMARY KEY, s text)".into(), None).await.unwrap();
        assert_eq!(made, -1);
        let written =
            client.execute_update("INSERT INTO t SELECT g, g::text FROM generate_series(1, 9) g".into(), None);
        assert_eq!(written.await.unwrap(), 9);
        // One that writes is done when it is told of, whether or not its rows are taken.
        let info = client.execute("INSERT INTO t VALUES (10, 'x') RETURNING n".into(), None).await.unwrap();
        assert_eq!(info.total_records, 1);
        assert_eq!(query(&mut client, "SELECT count(*), max(n) FROM t").await.unwrap(), ["10|10"]);
        assert_eq!(lines(&rows(&mut client, info.clone()).await.unwrap()), ["10"]);
        // Rows are taken once.
        assert_eq!(code(rows(&mut client, info).await), (Code::FailedPrecondition, "34000".into()));
        let info = client.execute("DELETE FROM t WHERE n > 8".into(), None).await.unwrap();
        assert_eq!(info.total_records, 2);
        assert!(rows(&mut client, info).await.unwrap().is_empty());
        assert_eq!(database.session().query("SELECT n FROM t").unwrap().collect_all().unwrap()[0].num_rows(), 8);
        // Settings are the session's.
        client.execute_update("SET search_path = nowhere".into(), None).await.unwrap();
        assert_eq!(code(client.execute("SELECT * FROM t".into(), None).await).1, "42P01");
    });
}

#[test]
fn what_is_wrong_has_its_sqlstate() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        for (sql, of, sqlstate) in [
            ("SELEC", Code::InvalidArgument, "42601"),
            ("", Code::InvalidArgument, "42601"),
            ("SELECT 1; SELECT 2", Code::InvalidArgument, "42601"),
            ("SELECT * FROM nothing", Code::NotFound, "42P01"),
            ("COPY t FROM STDIN", Code::Unimplemented, "0A000"),
        ] {
            assert_eq!(code(client.execute(sql.into(), None).await), (of, sqlstate.into()), "{sql}");
        }
        let sql = "SELECT 1 / (5 - g) FROM generate_series(1, 9) g";
        let failed = match client.execute(sql.into(), None).await {
            Ok(info) => rows(&mut client, info).await,
            Err(failed) => Err(failed),
        };
        assert_eq!(code(failed), (Code::InvalidArgument, "22012".into()));
    });
}

#[test]
fn columns_are_known_before_a_statement_runs() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        client.execute_update("CREATE SEQUENCE s".into(), None).await.unwrap();
        let asked = CommandStatementQuery { query: "SELECT nextval('s') AS n, 1.5 AS d".into(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(asked.as_any().encode_to_vec());
        let told = client.inner_mut().get_schema(descriptor).await.unwrap().into_inner();
        let schema = Schema::try_from(&told).unwrap();
        assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["n", "d"]);
        let info = client.execute(asked.query, None).await.unwrap();
        assert_eq!(info.clone().try_decode_schema().unwrap(), schema);
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["1|1.5"]);
    });
}

fn row(values: &[i64], texts: &[&str]) -> RecordBatch {
    let (values, texts) = (Int64Array::from(values.to_vec()), StringArray::from(texts.to_vec()));
    RecordBatch::try_from_iter([("a", Arc::new(values) as _), ("b", Arc::new(texts) as _)]).unwrap()
}

#[test]
fn prepared_statements_take_rows_of_parameters() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        client.execute_update("CREATE TABLE t (n int PRIMARY KEY, d date)".into(), None).await.unwrap();
        let mut insert = client.prepare("INSERT INTO t VALUES ($1, $2)".into(), None).await.unwrap();
        let types: Vec<_> =
            insert.parameter_schema().unwrap().fields().iter().map(|of| of.data_type().clone()).collect();
        assert_eq!(types, [DataType::Int32, DataType::Date32]);
        assert!(insert.dataset_schema().unwrap().fields().is_empty());
        // Numbers of another width, and texts that are read.
        insert.set_parameters(row(&[1, 2, 3], &["2024-02-29", "2001-01-01", "1999-12-31"])).unwrap();
        assert_eq!(insert.execute_update().await.unwrap(), 3);
        // All of them or nothing.
        insert.set_parameters(row(&[4, 2], &["2024-02-29", "2001-01-01"])).unwrap();
        assert_eq!(code(insert.execute_update().await).1, "23505");
        insert.set_parameters(row(&[4], &["no date"])).unwrap();
        assert_eq!(code(insert.execute_update().await).1, "22007");
        insert.set_parameters(row(&[1 << 40], &["2001-01-01"])).unwrap();
        assert_eq!(code(insert.execute_update().await).1, "22003");
        assert_eq!(query(&mut client, "SELECT count(*) FROM t").await.unwrap(), ["3"]);

        let mut select =
            client.prepare("SELECT n, d FROM t WHERE n >= $1 AND d < $2 ORDER BY n".into(), None).await.unwrap();
        assert_eq!(select.dataset_schema().unwrap().fields().len(), 2);
        assert_eq!(code(select.execute().await).1, "08P01");
        select.set_parameters(row(&[2], &["2020-01-01"])).unwrap();
        let info = select.execute().await.unwrap();
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["2|2001-01-01", "3|1999-12-31"]);
        // As with PostgreSQL a larger type is compared, not cut.
        select.set_parameters(row(&[1 << 40], &["2020-01-01"])).unwrap();
        let info = select.execute().await.unwrap();
        assert!(lines(&rows(&mut client, info).await.unwrap()).is_empty());
        select.set_parameters(row(&[1, 2], &["2020-01-01", "2020-01-01"])).unwrap();
        assert_eq!(code(select.execute().await), (Code::Unimplemented, "0A000".into()));
        let unbound = select.close().await;
        unbound.unwrap();
        // What a session does not prepare runs from its text.
        let mut other = client.prepare("CREATE TABLE u (a int)".into(), None).await.unwrap();
        other.execute_update().await.unwrap();
        assert_eq!(code(client.prepare("SELECT nothing".into(), None).await.map(|_| ())).1, "42703");
    });
}

#[test]
fn large_results_come_whole_and_one_cancelled_ends() {
    let (server, database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let sql = "SELECT g, repeat('x', 100) || g AS t FROM generate_series(1, 200000) g";
        let info = client.execute(sql.into(), None).await.unwrap();
        let batches = rows(&mut client, info).await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 200_000);
        assert!(lines(&batches[batches.len() - 1..]).iter().all(|line| line.contains("|xxx")));

        let endless = "SELECT a.g FROM generate_series(1, 1000000) a(g), generate_series(1, 1000000) b(g)";
        let info = client.execute(endless.into(), None).await.unwrap();
        let mut stream = client.do_get(ticket(&info)).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        let request = CancelFlightInfoRequest::new(info);
        let action = Action::new("CancelFlightInfo", request.encode_to_vec());
        let told = client.inner_mut().do_action(action).await.unwrap().into_inner().message().await.unwrap().unwrap();
        let told = CancelFlightInfoResult::decode(told.body).unwrap();
        assert_eq!(told.status(), CancelStatus::Cancelled);
        let failed = async {
            while stream.try_next().await?.is_some() {}
            Ok(())
        };
        assert_eq!(code(failed.await), (Code::Cancelled, "57014".into()));

        // A client that goes ends its query, whether rows go or a statement runs.
        let info = client.execute(endless.into(), None).await.unwrap();
        let stream = client.do_get(ticket(&info)).await.unwrap();
        drop(stream);
        let sleeping = tokio::time::timeout(
            Duration::from_millis(300),
            client.execute_update(format!("CREATE TABLE u AS {endless}"), None),
        );
        assert!(sleeping.await.is_err());
        let running = "SELECT count(*) FROM nearside.statements WHERE sql LIKE '%1000000%' AND sql NOT LIKE '%LIKE%'";
        let begun = Instant::now();
        loop {
            let session = database.session();
            let counted = session.query(running).unwrap().collect_all().unwrap();
            let left = counted[0].column(0).as_primitive::<nearside::arrow::datatypes::Int64Type>().value(0);
            if left == 0 {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{left} statements run on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

#[test]
fn rows_that_nobody_takes_end_their_statement() {
    let stall = Some(Duration::from_millis(200));
    let limits = nearside_server::Limits { stall, ..nearside_server::Limits::default() };
    let (server, _database) = server(Options { limits, ..Options::default() });
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let info = client.execute("SELECT * FROM generate_series(1, 100000000)".into(), None).await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(code(rows(&mut client, info).await), (Code::Cancelled, "57014".into()));
    });
}

#[test]
fn what_there_is_is_told() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        for sql in [
            "CREATE SCHEMA s",
            "CREATE TABLE s.a (x int, y int, PRIMARY KEY (y, x))",
            "CREATE TABLE b (p int, q int, FOREIGN KEY (p, q) REFERENCES s.a (y, x) ON DELETE CASCADE)",
            "CREATE VIEW v AS SELECT p AS only FROM b",
        ] {
            client.execute_update(sql.into(), None).await.unwrap();
        }
        let info = client.get_catalogs().await.unwrap();
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["nearside"]);
        let asked = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("_".into()) };
        let info = client.get_db_schemas(asked).await.unwrap();
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["nearside|s"]);
        let asked = CommandGetTables {
            db_schema_filter_pattern: Some("public".into()),
            table_types: vec!["VIEW".into()],
            include_schema: true,
            ..CommandGetTables::default()
        };
        let info = client.get_tables(asked).await.unwrap();
        let found = rows(&mut client, info).await.unwrap();
        assert_eq!(found[0].column(2).as_string::<i32>().value(0), "v");
        let columns = arrow_flight::IpcMessage(found[0].column(4).as_binary::<i32>().value(0).to_vec().into());
        assert_eq!(Schema::try_from(columns).unwrap().field(0).name(), "only");
        let asked = CommandGetTables { table_name_filter_pattern: Some("a".into()), ..CommandGetTables::default() };
        let info = client.get_tables(asked).await.unwrap();
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["nearside|s|a|BASE TABLE"]);
        let info = client.get_table_types().await.unwrap();
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), ["BASE TABLE", "LOCAL TEMPORARY", "VIEW"]);
        let asked = CommandGetPrimaryKeys { catalog: None, db_schema: Some("s".into()), table: "a".into() };
        let info = client.get_primary_keys(asked).await.unwrap();
        let keys = ["nearside|s|a|y|a_pkey|1", "nearside|s|a|x|a_pkey|2"];
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), keys);
        let asked = CommandGetExportedKeys { catalog: None, db_schema: None, table: "a".into() };
        let info = client.get_exported_keys(asked).await.unwrap();
        let keys = [
            "nearside|s|a|y|nearside|public|b|p|1|b_p_q_fkey|a_pkey|3|0",
            "nearside|s|a|x|nearside|public|b|q|2|b_p_q_fkey|a_pkey|3|0",
        ];
        assert_eq!(lines(&rows(&mut client, info).await.unwrap()), keys);
        let info = client.get_sql_info(vec![SqlInfo::FlightSqlServerName]).await.unwrap();
        assert_eq!(rows(&mut client, info).await.unwrap()[0].num_rows(), 1);
        let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: Some(4) }).await.unwrap();
        assert!(lines(&rows(&mut client, info).await.unwrap())[0].starts_with("integer|4|"));
    });
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let failed = client.inner_mut().do_action(Action::new("Dance", "")).await.unwrap_err();
        assert_eq!(failed.code(), Code::Unimplemented);
        assert!(failed.message().contains("'Dance'"), "{}", failed.message());
        let failed = client.inner_mut().list_flights(arrow_flight::Criteria::default()).await.unwrap_err();
        assert!(failed.message().contains("CommandGetTables"), "{}", failed.message());
        let plan = arrow_flight::sql::CommandStatementSubstraitPlan::default();
        let descriptor = FlightDescriptor::new_cmd(plan.as_any().encode_to_vec());
        let failed = client.inner_mut().get_flight_info(descriptor).await.unwrap_err();
        assert!(failed.code() == Code::Unimplemented && failed.message().contains("Substrait"), "{}", failed.message());
        let failed = client.inner_mut().do_get(Ticket::new("nonsense")).await.unwrap_err();
        assert_eq!(failed.code(), Code::InvalidArgument);
    });
}
