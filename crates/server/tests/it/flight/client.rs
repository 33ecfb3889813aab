//! A client, and what tests ask of it.

use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightInfo, Ticket};
use futures::TryStreamExt;
use nearside::Database;
use nearside::arrow::array::RecordBatch;
use nearside::arrow::util::pretty::pretty_format_batches;
use nearside_server::{Options, Server};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// Arrow's client.
pub type Client = FlightSqlServiceClient<Channel>;

/// A server of an empty database that speaks Flight.
pub fn server(options: Options) -> (Server, Database) {
    crate::wire::with_options(Options { flight: vec!["127.0.0.1:0".parse().unwrap()], ..options })
}

/// What clients run in.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A connection of its own.
pub async fn connect(server: &Server) -> Client {
    let to = format!("http://{}", server.flight()[0]);
    Client::new(Endpoint::from_shared(to).unwrap().connect().await.unwrap())
}

/// The ticket of a result.
pub fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().expect("a ticket")
}

/// The rows of a result.
pub async fn rows(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    client.do_get(ticket(&info)).await?.try_collect().await
}

/// What a query gives, as a table without its frame: a line a row, values with bars between them.
pub async fn query(client: &mut Client, sql: &str) -> Result<Vec<String>, FlightError> {
    let info = client.execute(sql.into(), None).await?;
    Ok(lines(&rows(client, info).await?))
}

/// Rows as lines.
pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).unwrap().to_string();
    let rows = shown.lines().filter(|line| line.starts_with('|')).skip(1);
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join("|")).collect()
}

/// The status of what has failed.
pub fn status<T: std::fmt::Debug>(failed: Result<T, FlightError>) -> Status {
    match failed.expect_err("it fails") {
        FlightError::Tonic(status) => *status,
        other => panic!("{other}"),
    }
}

/// The code of gRPC and the SQLSTATE of what has failed.
pub fn code<T: std::fmt::Debug>(failed: Result<T, FlightError>) -> (Code, String) {
    let status = status(failed);
    let sqlstate = status.metadata().get("x-sqlstate").map_or("", |code| code.to_str().unwrap());
    assert!(status.message().ends_with(&format!("(SQLSTATE {sqlstate})")), "{}", status.message());
    (status.code(), sqlstate.to_string())
}
