//! Messages that are spoilt, while another client works.
//!
//! `NEARSIDE_WIRE_CASES` and `NEARSIDE_WIRE_SEED` as for the other doors.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::sql::{
    ActionEndTransactionRequest, CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, TableDefinitionOptions, TicketStatementQuery,
};
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket};
use futures::{TryStreamExt, stream};
use nearside::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use nearside_server::Options;
use prost::Message;
use random::Random;

use super::client::{connect, query, runtime, server};

fn spoilt(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return bytes;
        }
        let place = random.below(bytes.len());
        match random.below(4) {
            0 => bytes.truncate(place),
            1 => bytes[place] = random.below(256) as u8,
            2 => bytes.insert(place, random.below(256) as u8),
            _ => bytes[place] ^= 1 << random.below(8),
        }
    }
    bytes
}

async fn batches(command: Vec<u8>) -> Vec<FlightData> {
    let texts = StringArray::from(vec![Some("a"), None, Some("long enough to stand elsewhere")]);
    let columns = [("n", Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef), ("t", Arc::new(texts) as ArrayRef)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command)))
        .build(stream::iter([Ok(batch.clone()), Ok(batch)]))
        .try_collect()
        .await
        .unwrap()
}

#[test]
fn spoilt_messages_harm_nobody() {
    let (cases, seed) = crate::hostile::cases(400);
    let (server, _database) = server(Options::default());
    runtime().block_on(async {
        let mut other = connect(&server).await;
        let mut random = Random::new(seed);
        let mut client = connect(&server).await;
        let prepared = client.prepare("SELECT $1::int + 1".into(), None).await.unwrap();
        drop(prepared);
        let handle = bytes::Bytes::from_static(b"0123456789abcdef");
        let ingest = CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions { if_not_exist: 1, if_exists: 3 }),
            table: "spoilt".into(),
            ..CommandStatementIngest::default()
        };
        let query_of = |sql: &str| CommandStatementQuery { query: sql.into(), transaction_id: None }.as_any();
        let commands = [
            query_of("SELECT 1").encode_to_vec(),
            query_of("SELECT * FROM generate_series(1, 10)").encode_to_vec(),
            CommandPreparedStatementQuery { prepared_statement_handle: handle.clone() }.as_any().encode_to_vec(),
            TicketStatementQuery { statement_handle: handle.clone() }.as_any().encode_to_vec(),
            arrow_flight::sql::CommandGetTables { include_schema: true, ..Default::default() }.as_any().encode_to_vec(),
            ActionEndTransactionRequest { transaction_id: handle.clone(), action: 1 }.as_any().encode_to_vec(),
        ];
        let puts = [
            ingest.as_any().encode_to_vec(),
            CommandStatementUpdate { query: "SELECT 1".into(), transaction_id: None }.as_any().encode_to_vec(),
            CommandPreparedStatementUpdate { prepared_statement_handle: handle }.as_any().encode_to_vec(),
        ];
        let actions =
            ["CreatePreparedStatement", "EndTransaction", "BeginTransaction", "CancelQuery", "CancelFlightInfo"];
        for case in 0..cases {
            let of = random.below(commands.len());
            let command = spoilt(&mut random, &commands[of]);
            match random.below(4) {
                0 => {
                    let call = client.inner_mut().get_flight_info(FlightDescriptor::new_cmd(command));
                    let _ = tokio::time::timeout(Duration::from_secs(60), call).await.expect("an answer").map(|_| ());
                }
                1 => {
                    let call = async {
                        let mut rows = client.inner_mut().do_get(Ticket::new(command)).await?.into_inner();
                        while rows.message().await?.is_some() {}
                        Ok(())
                    };
                    let _ = tokio::time::timeout(Duration::from_secs(60), call).await.expect("an answer")
                        as Result<(), tonic::Status>;
                }
                2 => {
                    let name = actions[random.below(actions.len())];
                    let call = client.inner_mut().do_action(Action::new(name, command));
                    let _ = tokio::time::timeout(Duration::from_secs(60), call).await.expect("an answer").map(|_| ());
                }
                _ => {
                    let put = &puts[random.below(puts.len())];
                    let mut all = batches(put.clone()).await;
                    for data in &mut all {
                        match random.below(5) {
                            0 => data.data_header = spoilt(&mut random, &data.data_header).into(),
                            1 => data.data_body = spoilt(&mut random, &data.data_body).into(),
                            _ => {}
                        }
                    }
                    if random.below(4) == 0 {
                        let place = random.below(all.len());
                        all.swap(0, place);
                    }
                    let call = client.inner_mut().do_put(stream::iter(all));
                    let _ = tokio::time::timeout(Duration::from_secs(60), call).await.expect("an answer").map(|_| ());
                }
            }
            if case % 50 == 0 {
                assert_eq!(query(&mut other, "SELECT 6 * 7").await.unwrap(), ["42"], "case {case} of seed {seed}");
            }
        }
        assert_eq!(query(&mut other, "SELECT 6 * 7").await.unwrap(), ["42"]);
    });
}

#[test]
fn bytes_that_are_no_grpc_end_their_connection_alone() {
    let (cases, seed) = crate::hostile::cases(60);
    let (server, _database) = server(Options::default());
    let runtime = runtime();
    let mut other = runtime.block_on(connect(&server));
    let mut random = Random::new(seed);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x20\x01\x04\0\0\0\x01\x82\x86\x84\x41\x8a";
    for _ in 0..cases {
        let mut stream = TcpStream::connect(server.flight()[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let _ = stream.write_all(&spoilt(&mut random, preface));
        let _ = stream.read(&mut [0; 64]);
    }
    assert_eq!(runtime.block_on(query(&mut other, "SELECT 6 * 7")).unwrap(), ["42"]);
}
