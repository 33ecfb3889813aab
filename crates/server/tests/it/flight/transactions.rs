//! Transactions and savepoints.

use arrow_flight::Action;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest};
use arrow_flight::sql::{Any, EndTransaction, ProstMessageExt};
use bytes::Bytes;
use nearside_server::Options;
use prost::Message;

use super::client::{Client, code, connect, query, runtime, server};

async fn act(client: &mut Client, name: &str, message: impl ProstMessageExt) -> Result<Option<Bytes>, FlightError> {
    let action = Action::new(name, message.as_any().encode_to_vec());
    let mut told = client.inner_mut().do_action(action).await?.into_inner();
    Ok(told.message().await?.map(|result| result.body))
}

#[test]
fn a_transaction_is_seen_when_it_is_committed() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let (mut one, mut two) = (connect(&server).await, connect(&server).await);
        one.execute_update("CREATE TABLE t (n int)".into(), None).await.unwrap();
        let id = one.begin_transaction().await.unwrap();
        one.execute_update("INSERT INTO t VALUES (1)".into(), Some(id.clone())).await.unwrap();
        assert_eq!(query(&mut two, "SELECT count(*) FROM t").await.unwrap(), ["0"]);
        // What names no transaction was meant to commit by itself.
        assert_eq!(code(one.execute("SELECT 1".into(), None).await).1, "25001");
        assert_eq!(code(one.begin_transaction().await).1, "25001");
        assert_eq!(code(one.execute_update("COMMIT".into(), Some(id.clone())).await).1, "0A000");
        // Another session's is none.
        assert_eq!(code(two.execute("SELECT 1".into(), Some(id.clone())).await).1, "25P01");
        one.end_transaction(id.clone(), EndTransaction::Commit).await.unwrap();
        assert_eq!(query(&mut two, "SELECT count(*) FROM t").await.unwrap(), ["1"]);
        assert_eq!(code(one.execute("SELECT 1".into(), Some(id)).await).1, "25P01");

        let id = one.begin_transaction().await.unwrap();
        let mut insert = one.prepare("INSERT INTO t VALUES (2)".into(), Some(id.clone())).await.unwrap();
        assert_eq!(insert.execute_update().await.unwrap(), 1);
        one.end_transaction(id, EndTransaction::Rollback).await.unwrap();
        assert_eq!(code(insert.execute_update().await).1, "25P01");
        assert_eq!(query(&mut one, "SELECT count(*) FROM t").await.unwrap(), ["1"]);
    });
}

#[test]
fn one_that_has_failed_is_not_committed_in_silence() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        client.execute_update("CREATE TABLE t (n int)".into(), None).await.unwrap();
        let id = client.begin_transaction().await.unwrap();
        client.execute_update("INSERT INTO t VALUES (1)".into(), Some(id.clone())).await.unwrap();
        assert_eq!(code(client.execute("SELECT nothing".into(), Some(id.clone())).await).1, "42703");
        assert_eq!(code(client.execute("SELECT 1".into(), Some(id.clone())).await).1, "25P02");
        assert_eq!(code(client.end_transaction(id, EndTransaction::Commit).await).1, "25P02");
        assert_eq!(query(&mut client, "SELECT count(*) FROM t").await.unwrap(), ["0"]);
    });
}

#[test]
fn savepoints_go_back_to_what_was() {
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut client = connect(&server).await;
        client.execute_update("CREATE TABLE t (n int)".into(), None).await.unwrap();
        let id = client.begin_transaction().await.unwrap();
        client.execute_update("INSERT INTO t VALUES (1)".into(), Some(id.clone())).await.unwrap();
        let asked = ActionBeginSavepointRequest { transaction_id: id.clone(), name: "a".into() };
        let made = act(&mut client, "BeginSavepoint", asked).await.unwrap().unwrap();
        let made = Any::decode(made).unwrap().unpack::<ActionBeginSavepointResult>().unwrap().unwrap();
        client.execute_update("INSERT INTO t VALUES (2)".into(), Some(id.clone())).await.unwrap();
        let back = ActionEndSavepointRequest { savepoint_id: made.savepoint_id.clone(), action: 2 };
        act(&mut client, "EndSavepoint", back.clone()).await.unwrap();
        let release = ActionEndSavepointRequest { action: 1, ..back };
        act(&mut client, "EndSavepoint", release.clone()).await.unwrap();
        assert_eq!(code(act(&mut client, "EndSavepoint", release).await).1, "3B001");
        client.end_transaction(id, EndTransaction::Commit).await.unwrap();
        assert_eq!(query(&mut client, "SELECT n FROM t").await.unwrap(), ["1"]);
    });
}
