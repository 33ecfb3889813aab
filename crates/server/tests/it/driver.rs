//! A client that people use.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use nearside_server::Server;
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, NoTls};

use crate::wire::server;

async fn connected(server: &Server) -> Client {
    let port = server.addresses()[0].port();
    let config = format!("host=127.0.0.1 port={port} user=test dbname=nearside");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    let (server, _) = server();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { test(connected(&server).await).await });
}

#[test]
fn enums_are_types_of_their_own() {
    with_client(async |client| {
        client
            .batch_execute(
                "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE TABLE people (name TEXT, feels mood); \
                 INSERT INTO people VALUES ('Ann', 'happy'), ('Bob', 'sad'), ('Cyd', 'ok')",
            )
            .await
            .unwrap();
        let rows = client.query("SELECT feels, name FROM people ORDER BY feels DESC", &[]).await.unwrap();
        let told = rows[0].columns()[0].type_();
        assert_eq!(told.name(), "mood");
        assert_eq!(*told.kind(), Kind::Enum(["sad", "ok", "happy"].map(String::from).to_vec()));
        let names: Vec<&str> = rows.iter().map(|row| row.get(1)).collect();
        assert_eq!(names, ["Ann", "Cyd", "Bob"]);
        let found = client.query("SELECT name FROM people WHERE feels < $1", &[&"ok"]).await.unwrap();
        assert_eq!(found[0].get::<_, &str>(0), "Bob");
        let error = client.query("SELECT name FROM people WHERE feels = $1", &[&"angry"]).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("22P02"));
    });
}

#[test]
fn values_go_there_and_back() {
    with_client(async |client| {
        client
            .batch_execute(
                "CREATE TABLE t (a BIGINT PRIMARY KEY, b BOOLEAN, c SMALLINT, d INT, e REAL, f DOUBLE PRECISION, \
                 g TEXT, h BYTEA, i TIMESTAMPTZ, j VARCHAR(5), k INT[])",
            )
            .await
            .unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let insert =
            client.prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)").await.unwrap();
        assert_eq!(insert.params()[..3], [Type::INT8, Type::BOOL, Type::INT2]);
        let list = vec![Some(1), None, Some(3)];
        let written = client
            .execute(
                &insert,
                &[&1_i64, &true, &2_i16, &3_i32, &4.5_f32, &5.25_f64, &"é", &&b"\0x"[..], &now, &"short", &list],
            )
            .await
            .unwrap();
        assert_eq!(written, 1);
        let nothing: Option<i32> = None;
        client.execute("INSERT INTO t (a, d) VALUES ($1, $2)", &[&2_i64, &nothing]).await.unwrap();
        let row = client.query_one("SELECT * FROM t WHERE a = $1", &[&1_i64]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1), row.get::<_, i16>(2)), (1, true, 2));
        assert_eq!((row.get::<_, i32>(3), row.get::<_, f32>(4), row.get::<_, f64>(5)), (3, 4.5, 5.25));
        assert_eq!((row.get::<_, &str>(6), row.get::<_, &[u8]>(7)), ("é", &b"\0x"[..]));
        assert_eq!((row.get::<_, SystemTime>(8), row.get::<_, &str>(9)), (now, "short"));
        assert_eq!(row.get::<_, Vec<Option<i32>>>(10), list);
        let row = client.query_one("SELECT d, g, k FROM t WHERE a = 2", &[]).await.unwrap();
        assert_eq!(row.get::<_, Option<i32>>(0), None);
        assert_eq!(row.get::<_, Option<Vec<Option<i32>>>>(2), None);
    });
}

#[test]
fn transactions_pipelines_and_portals_work() {
    with_client(async |mut client| {
        client.batch_execute("CREATE TABLE t (a INT PRIMARY KEY)").await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let insert = transaction.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
        for a in 1..=10 {
            assert_eq!(transaction.execute(&insert, &[&a]).await.unwrap(), 1);
        }
        let portal = transaction.bind("SELECT a FROM t ORDER BY a", &[]).await.unwrap();
        let some = transaction.query_portal(&portal, 4).await.unwrap();
        assert_eq!(some.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(transaction.query_portal(&portal, 0).await.unwrap().len(), 6);
        transaction.commit().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.execute("DELETE FROM t", &[]).await.unwrap();
        transaction.rollback().await.unwrap();
        let of = |a: i32| {
            let client = &client;
            async move {
                let row = client.query_one("SELECT (a * 2)::int FROM t WHERE a = $1", &[&a]).await.unwrap();
                row.get::<_, i32>(0)
            }
        };
        let all: Vec<i32> = futures::future::join_all((1..=10).map(of)).await;
        assert_eq!(all, (1..=10).map(|a| a * 2).collect::<Vec<_>>());
    });
}

#[test]
fn errors_have_their_codes() {
    with_client(async |client| {
        client.batch_execute("CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
        let error = client.execute("INSERT INTO t VALUES ($1)", &[&1_i32]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "23505");
        let error = client.query("SELECT * FROM nowhere", &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42P01");
        assert_eq!(client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

#[test]
fn rows_are_copied() {
    use bytes::Bytes;
    use futures::SinkExt;
    with_client(async |client| {
        client.batch_execute("CREATE TABLE t (a INT, b TEXT)").await.unwrap();
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN (FORMAT csv)").await.unwrap();
        let mut sink = std::pin::pin!(sink);
        for piece in ["1,o", "ne\n2,", "two\n"] {
            sink.send(Bytes::from_static(piece.as_bytes())).await.unwrap();
        }
        assert_eq!(sink.finish().await.unwrap(), 2);
        let out = client.copy_out("COPY (SELECT * FROM t ORDER BY a) TO STDOUT").await.unwrap();
        let all: Vec<Bytes> = out.map(|piece| piece.unwrap()).collect().await;
        assert_eq!(all.concat(), b"1\tone\n2\ttwo\n");
    });
}

#[test]
fn a_query_is_cancelled_by_its_token() {
    with_client(async |client| {
        let token = client.cancel_token();
        let long = "SELECT count(*) FROM generate_series(1, 3000000) a, generate_series(1, 3000000) b \
                    WHERE a.value * b.value % 7 = 8";
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let (result, ()) = tokio::join!(client.query(long, &[]), cancel);
        assert_eq!(result.unwrap_err().code().unwrap().code(), "57014");
        assert_eq!(client.query_one("SELECT 1::int", &[]).await.unwrap().get::<_, i32>(0), 1);
    });
}
