//! A look at the machine: the system views, one after the other, as one JSON object.
//!
//! A look is shared by all who ask within a second, and is made again no sooner than after ten times what it took, so
//! that looking takes a tenth of a thread at most: where pages lie is asked of the kernel, column by column.
//!
//! # Limits
//! Views are read one after the other: what happens meanwhile is in the later ones alone.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use bytes::Bytes;
use nearside::{Error, Session};
use tokio::sync::Mutex;

use super::value::{Shape, text};
use crate::blocking::panicked;
use crate::connection::zone;
use crate::fault::Fault;
use crate::values::column::{Times, Values};

/// How long a look is good for, at least.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// And as a multiple of what it took.
const TIMES: u32 = 10;
/// Which form a state has.
pub const VERSION: u64 = 1;

/// What is looked at: the name in the state, and the query of the rows.
const VIEWS: [(&str, &str); 18] = [
    ("nodes", "SELECT * FROM nearside.nodes ORDER BY node"),
    (
        "links",
        "SELECT from_node, to_node, distance, hops, latency_ns, read_bytes_per_second, write_bytes_per_second \
         FROM nearside.links LIMIT 16384",
    ),
    (
        "columns",
        "SELECT schema, \"table\", \"column\", type, encoding, rows, segments, parts, placement, bytes_by_node, \
         codes_bytes + dictionary_bytes + index_bytes AS bytes FROM nearside.columns ORDER BY bytes DESC LIMIT 2000",
    ),
    (
        "parts",
        "SELECT schema, \"table\", part, node, sum(bytes)::bigint AS bytes FROM nearside.pages \
         WHERE node IS NOT NULL AND bytes > 0 GROUP BY schema, \"table\", part, node ORDER BY schema, \"table\", part, \
         node LIMIT 4096",
    ),
    (
        "column_traffic",
        "SELECT \"table\", \"column\", sum(bytes)::bigint AS bytes, \
         sum(CASE WHEN from_node <> to_node THEN bytes ELSE 0 END)::bigint AS remote \
         FROM nearside.traffic GROUP BY \"table\", \"column\" LIMIT 4096",
    ),
    (
        "traffic",
        "SELECT from_node, to_node, sum(bytes)::bigint AS bytes FROM nearside.traffic \
         WHERE from_node IS NOT NULL AND to_node IS NOT NULL GROUP BY from_node, to_node",
    ),
    ("memory", "SELECT node, kind, sum(bytes)::bigint AS bytes FROM nearside.memory GROUP BY node, kind"),
    (
        "workers",
        "SELECT worker, node, cpu, state, tasks_run, stolen, busy_seconds, bytes_local, bytes_remote \
         FROM nearside.workers ORDER BY worker LIMIT 4096",
    ),
    ("thread_groups", "SELECT * FROM nearside.thread_groups"),
    ("statements", "SELECT * FROM nearside.statements LIMIT 200"),
    ("placement_log", "SELECT * FROM nearside.placement_log ORDER BY number DESC LIMIT 100"),
    ("advice", "SELECT * FROM nearside.advice LIMIT 100"),
    ("placement_changes", "SELECT * FROM nearside.placement_changes ORDER BY at DESC LIMIT 50"),
    ("units", "SELECT * FROM nearside.units LIMIT 4096"),
    ("balancing", "SELECT * FROM nearside.balancing ORDER BY at DESC LIMIT 20"),
    ("deltas", "SELECT * FROM nearside.deltas LIMIT 200"),
    ("transactions", "SELECT * FROM nearside.transactions LIMIT 200"),
    ("durability", "SELECT * FROM nearside.durability"),
];

/// The last look.
#[derive(Debug, Default)]
pub struct Look(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    at: Instant,
    took: Duration,
    state: Bytes,
}

impl Look {
    /// The state as of the last second, or a little longer.
    ///
    /// # Errors
    /// A view that cannot be read.
    pub async fn state(&self, session: Session, seconds: f64, counts: (u64, u64)) -> Result<Bytes, Fault> {
        let mut last = self.0.lock().await;
        if let Some(last) = &*last
            && last.at.elapsed() < GOOD_FOR.max(last.took * TIMES)
        {
            return Ok(last.state.clone());
        }
        let begun = Instant::now();
        let looking = tokio::task::spawn_blocking(move || made(&session, seconds, counts));
        let state = looking.await.map_err(|_| panicked())??;
        let state = Bytes::from(state);
        *last = Some(Last { at: Instant::now(), took: begun.elapsed(), state: state.clone() });
        Ok(state)
    }
}

fn made(session: &Session, seconds: f64, (statements, failed): (u64, u64)) -> Result<Vec<u8>, Fault> {
    let zone = zone(session);
    let counts = format!("{{\"statements\":{statements},\"failed\":{failed}}}");
    let mut to = format!("{{\"version\":{VERSION},\"seconds\":{seconds:.3},\"counts\":{counts}").into_bytes();
    for (name, sql) in VIEWS {
        to.extend(format!(",\"{name}\":[").bytes());
        let rows = session.query(sql)?;
        let mut is_first = true;
        for batch in rows {
            objects(&batch?, zone, &mut is_first, &mut to)?;
        }
        to.push(b']');
    }
    to.extend(b"}\n");
    Ok(to)
}

/// Rows as objects, with what is NULL left out.
fn objects(batch: &RecordBatch, zone: Tz, is_first: &mut bool, to: &mut Vec<u8>) -> Result<(), Fault> {
    let schema = batch.schema_ref();
    let times = Times { zone, to_us: true };
    let of = |(column, field)| Values::of_field(column, field, times);
    let fields = schema.fields().iter().map(|field| field.as_ref());
    let columns = batch.columns().iter().zip(fields).map(of).collect::<Result<Vec<_>, _>>()?;
    let mut shown = Vec::new();
    for row in 0..batch.num_rows() {
        to.extend(if std::mem::take(is_first) { &b"{"[..] } else { b",{" });
        let mut has_some = false;
        for (column, field) in columns.iter().zip(schema.fields()) {
            if column.is_null(row) {
                continue;
            }
            if std::mem::replace(&mut has_some, true) {
                to.push(b',');
            }
            text(field.name(), to);
            to.push(b':');
            shown.clear();
            column.write_text(row, &mut shown)?;
            Shape::of(field).write(&shown, to);
        }
        to.push(b'}');
    }
    Ok(())
}

/// The rows of a query as texts.
///
/// # Errors
/// The query fails.
pub fn texts(session: &Session, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
    let times = Times { zone: zone(session), to_us: true };
    let mut rows = Vec::new();
    for batch in session.query(sql)? {
        let batch = batch?;
        let values = |array| Values::new(array, times);
        let columns = batch.columns().iter().map(values).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|wrong| Error::Internal(wrong.to_string()))?;
        for row in 0..batch.num_rows() {
            let mut of_row = Vec::new();
            for column in &columns {
                let mut shown = Vec::new();
                column.write_text(row, &mut shown).map_err(|wrong| Error::Internal(wrong.to_string()))?;
                of_row.push((!column.is_null(row)).then(|| String::from_utf8_lossy(&shown).into_owned()));
            }
            rows.push(of_row);
        }
    }
    Ok(rows)
}
