//! Batches into tables.

use std::sync::Arc;
use std::time::Duration;

use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption};
use futures::{StreamExt, stream};
use nearside::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array, LargeStringArray, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt8Array,
};
use nearside::arrow::datatypes::Int32Type;
use nearside_server::Options;

use super::client::{Client, code, connect, query, runtime, server};

fn asked(table: &str, if_not_exist: TableNotExistOption, if_exists: TableExistsOption) -> CommandStatementIngest {
    let options = TableDefinitionOptions { if_not_exist: if_not_exist.into(), if_exists: if_exists.into() };
    CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.into(),
        ..CommandStatementIngest::default()
    }
}

async fn ingest(client: &mut Client, of: CommandStatementIngest, all: Vec<RecordBatch>) -> Result<i64, FlightError> {
    client.execute_ingest(of, stream::iter(all.into_iter().map(Ok))).await
}

fn numbers(from: i32, to: i32) -> RecordBatch {
    let numbers = Int32Array::from_iter_values(from..to);
    let texts = StringArray::from_iter_values((from..to).map(|n| format!("text {n}")));
    RecordBatch::try_from_iter([("N", Arc::new(numbers) as ArrayRef), ("t", Arc::new(texts) as ArrayRef)]).unwrap()
}

#[test]
fn tables_are_made_added_to_and_replaced() {
    use {TableExistsOption as If, TableNotExistOption as IfNot};
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let of = asked("in", IfNot::Fail, If::Append);
        assert_eq!(code(ingest(&mut client, of, vec![numbers(0, 1)]).await).1, "42P01");
        let of = asked("in", IfNot::Create, If::Fail);
        let all = (0..40).map(|n| numbers(n * 5000, (n + 1) * 5000)).collect();
        assert_eq!(ingest(&mut client, of.clone(), all).await.unwrap(), 200_000);
        let sql = "SELECT count(*), sum(\"N\"), max(t) FROM \"in\"";
        assert_eq!(query(&mut client, sql).await.unwrap(), ["200000|19999900000|text 99999"]);
        assert_eq!(code(ingest(&mut client, of, vec![numbers(0, 1)]).await).1, "42P07");
        let of = asked("in", IfNot::Fail, If::Append);
        assert_eq!(ingest(&mut client, of.clone(), vec![numbers(0, 2)]).await.unwrap(), 2);
        assert_eq!(query(&mut client, "SELECT count(*) FROM \"in\"").await.unwrap(), ["200002"]);
        let other = RecordBatch::try_from_iter([("other", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
        assert_eq!(code(ingest(&mut client, of, vec![other]).await).1, "42703");
        let of = asked("in", IfNot::Create, If::Replace);
        assert_eq!(ingest(&mut client, of, vec![numbers(0, 3)]).await.unwrap(), 3);
        assert_eq!(query(&mut client, "SELECT count(*) FROM \"in\"").await.unwrap(), ["3"]);
    });
}

#[test]
fn all_of_it_is_there_or_nothing() {
    use {TableExistsOption as If, TableNotExistOption as IfNot};
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        client.execute_update("CREATE TABLE k (\"N\" int PRIMARY KEY, t text)".into(), None).await.unwrap();
        let of = asked("k", IfNot::Fail, If::Append);
        let all = vec![numbers(0, 70_000), numbers(70_000, 140_000), numbers(5, 6)];
        assert_eq!(code(ingest(&mut client, of.clone(), all).await).1, "23505");
        assert_eq!(query(&mut client, "SELECT count(*) FROM k").await.unwrap(), ["0"]);
        // A client that breaks off leaves nothing either.
        let broken = stream::iter([Ok(numbers(0, 10))]).chain(stream::pending());
        let broken = client.execute_ingest(of.clone(), broken);
        assert!(tokio::time::timeout(Duration::from_millis(300), broken).await.is_err());
        let count = |rows: &str| [rows.to_string()];
        assert_eq!(query(&mut client, "SELECT count(*) FROM k").await.unwrap(), count("0"));
        // One of a transaction goes with that.
        let id = client.begin_transaction().await.unwrap();
        let of = CommandStatementIngest { transaction_id: Some(id.clone()), ..of };
        assert_eq!(ingest(&mut client, of, vec![numbers(0, 10)]).await.unwrap(), 10);
        client.end_transaction(id, arrow_flight::sql::EndTransaction::Rollback).await.unwrap();
        assert_eq!(query(&mut client, "SELECT count(*) FROM k").await.unwrap(), count("0"));
    });
}

#[test]
fn columns_have_the_types_of_their_values() {
    use {TableExistsOption as If, TableNotExistOption as IfNot};
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        let packed: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("a")].into_iter().collect();
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("u", Arc::new(UInt8Array::from(vec![1, 2, 255])) as ArrayRef, false),
            ("f", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)])) as ArrayRef, true),
            ("l", Arc::new(LargeStringArray::from(vec!["ä", "", "x"])) as ArrayRef, true),
            ("d", Arc::new(Date32Array::from(vec![0, 1, -1])) as ArrayRef, true),
            (
                "n",
                Arc::new(Decimal128Array::from(vec![1, 22, -333]).with_precision_and_scale(10, 2).unwrap()) as ArrayRef,
                true,
            ),
            ("p", Arc::new(packed) as ArrayRef, true),
            ("z", Arc::new(TimestampMicrosecondArray::from(vec![0, 1, 2]).with_timezone("UTC")) as ArrayRef, true),
        ])
        .unwrap();
        let of = asked("types", IfNot::Create, If::Fail);
        assert_eq!(ingest(&mut client, of, vec![batch]).await.unwrap(), 3);
        let sql = "SELECT u, f, l, d, n, p FROM types ORDER BY u";
        let told = ["1|0.5|ä|1970-01-01|0.01|a", "2|||1970-01-02|0.22|", "255|NaN|x|1969-12-31|-3.33|a"];
        assert_eq!(query(&mut client, sql).await.unwrap(), told);
        let sql =
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'types' AND is_nullable = 'NO'";
        assert_eq!(query(&mut client, sql).await.unwrap(), ["u"]);
        let of = CommandStatementIngest { temporary: true, ..asked("passing", IfNot::Create, If::Append) };
        assert_eq!(ingest(&mut client, of.clone(), vec![numbers(0, 2)]).await.unwrap(), 2);
        assert_eq!(ingest(&mut client, of, vec![numbers(0, 2)]).await.unwrap(), 2);
        assert_eq!(query(&mut client, "SELECT count(*) FROM passing").await.unwrap(), ["4"]);
        let of = CommandStatementIngest { catalog: Some("other".into()), ..asked("x", IfNot::Create, If::Fail) };
        assert_eq!(code(ingest(&mut client, of, vec![numbers(0, 1)]).await).1, "0A000");
    });
}
