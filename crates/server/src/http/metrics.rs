//! `/metrics`: what the system views count, in Prometheus' text format (version 0.0.4).
//!
//! A metric is a query whose last column is the value and whose other columns are the labels; a value that is NULL
//! cannot be counted on this machine, and is left out.

use nearside::Session;

use super::look::texts;
use crate::fault::Fault;

/// What a metric is.
#[derive(Debug, Clone, Copy)]
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    sql: &'static str,
}

const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str], sql: &'static str) -> Metric {
    Metric { name, kind: "counter", help, labels, sql }
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str], sql: &'static str) -> Metric {
    Metric { name, kind: "gauge", help, labels, sql }
}

const METRICS: &[Metric] = &[
    gauge(
        "nearside_statements_running",
        "Statements that have tasks or rows to come.",
        &[],
        "SELECT count(*) FROM nearside.statements",
    ),
    gauge(
        "nearside_statement_memory_bytes",
        "What running statements hold beside the tables.",
        &[],
        "SELECT coalesce(sum(memory_bytes), 0) FROM nearside.statements",
    ),
    counter(
        "nearside_tasks_total",
        "Tasks that workers of a node ran.",
        &["node"],
        "SELECT node, sum(tasks_run) FROM nearside.workers GROUP BY node ORDER BY node",
    ),
    counter(
        "nearside_tasks_stolen_total",
        "Tasks that workers of a node took from other groups.",
        &["node"],
        "SELECT node, sum(stolen) FROM nearside.workers GROUP BY node ORDER BY node",
    ),
    counter(
        "nearside_worker_busy_seconds_total",
        "Time that workers of a node spent in tasks.",
        &["node"],
        "SELECT node, sum(busy_seconds) FROM nearside.workers GROUP BY node ORDER BY node",
    ),
    gauge(
        "nearside_workers",
        "Workers by what they do.",
        &["node", "state"],
        "SELECT node, state, count(*) FROM nearside.workers GROUP BY node, state ORDER BY node, state",
    ),
    gauge(
        "nearside_queued_entries",
        "Entries in the queues of a node's workers.",
        &["node"],
        "SELECT node, sum(queued_stealable + queued_hard + queued_private) FROM nearside.thread_groups GROUP BY node \
         ORDER BY node",
    ),
    counter(
        "nearside_touched_bytes_total",
        "Bytes that tasks of a node's workers touched on their node (local) and on others (remote).",
        &["node", "reach"],
        "SELECT node, 'local', sum(bytes_local) FROM nearside.thread_groups GROUP BY node UNION ALL \
         SELECT node, 'remote', sum(bytes_remote) FROM nearside.thread_groups GROUP BY node ORDER BY 1, 2",
    ),
    counter(
        "nearside_link_bytes_total",
        "Bytes that lie on one node and were touched by tasks on another, or on their own.",
        &["from_node", "to_node"],
        "SELECT from_node, to_node, sum(bytes) FROM nearside.traffic WHERE from_node IS NOT NULL AND to_node IS NOT \
         NULL GROUP BY from_node, to_node ORDER BY from_node, to_node",
    ),
    gauge(
        "nearside_node_memory_bytes",
        "Memory of a node.",
        &["node"],
        "SELECT node, memory_bytes FROM nearside.nodes ORDER BY node",
    ),
    gauge(
        "nearside_node_stored_bytes",
        "Bytes of tables whose pages lie on a node.",
        &["node"],
        "SELECT node, stored_bytes FROM nearside.nodes ORDER BY node",
    ),
    counter(
        "nearside_node_memory_read_bytes_total",
        "What passed the memory controllers of a node, by whomever; where it can be counted.",
        &["node"],
        "SELECT node, memory_read_bytes FROM nearside.nodes ORDER BY node",
    ),
    counter(
        "nearside_node_memory_written_bytes_total",
        "What passed the memory controllers of a node, by whomever; where it can be counted.",
        &["node"],
        "SELECT node, memory_written_bytes FROM nearside.nodes ORDER BY node",
    ),
    counter(
        "nearside_node_llc_misses_total",
        "Misses of the last cache while workers ran tasks; where they can be counted.",
        &["node"],
        "SELECT node, llc_misses FROM nearside.nodes ORDER BY node",
    ),
    gauge(
        "nearside_memory_bytes",
        "Bytes held, by node and by what for.",
        &["node", "kind"],
        "SELECT node, kind, sum(bytes) FROM nearside.memory GROUP BY node, kind ORDER BY node, kind",
    ),
    gauge(
        "nearside_transactions",
        "Open transactions over several statements.",
        &["state"],
        "SELECT state, count(*) FROM nearside.transactions GROUP BY state ORDER BY state",
    ),
    gauge(
        "nearside_oldest_transaction_seconds",
        "Age of the oldest of them.",
        &[],
        "SELECT coalesce(max(age_seconds), 0) FROM nearside.transactions",
    ),
    gauge(
        "nearside_delta_rows",
        "Rows of small writes that are not merged.",
        &[],
        "SELECT coalesce(sum(live_rows), 0) FROM nearside.deltas",
    ),
    counter(
        "nearside_unit_commands_total",
        "Commands that the units of a node executed.",
        &["node"],
        "SELECT node, sum(commands) FROM nearside.units GROUP BY node ORDER BY node",
    ),
    counter(
        "nearside_placement_decisions_total",
        "Decisions of the placer.",
        &[],
        "SELECT coalesce(max(number), 0) FROM nearside.placement_log",
    ),
    counter(
        "nearside_log_last_record",
        "Number of the last commit in the log.",
        &[],
        "SELECT last_record FROM nearside.durability",
    ),
    counter(
        "nearside_log_durable_record",
        "Number of the last commit that is on the disk.",
        &[],
        "SELECT durable_record FROM nearside.durability",
    ),
    counter(
        "nearside_log_checkpoint_record",
        "The last commit that the last checkpoint has.",
        &[],
        "SELECT checkpoint_record FROM nearside.durability",
    ),
    gauge(
        "nearside_log_bytes",
        "Bytes of the log behind the last checkpoint.",
        &[],
        "SELECT log_bytes FROM nearside.durability",
    ),
    counter("nearside_log_syncs_total", "How often the log was synced.", &[], "SELECT syncs FROM nearside.durability"),
    gauge(
        "nearside_checkpoint_timestamp_seconds",
        "When the last checkpoint of this process was made.",
        &[],
        "SELECT extract(epoch FROM checkpoint_at) FROM nearside.durability",
    ),
    gauge(
        "nearside_checkpoint_bytes",
        "What the last checkpoint of this process wrote.",
        &[],
        "SELECT checkpoint_bytes FROM nearside.durability",
    ),
    gauge(
        "nearside_checkpoint_seconds",
        "How long the last checkpoint of this process took.",
        &[],
        "SELECT checkpoint_seconds FROM nearside.durability",
    ),
    gauge(
        "nearside_history_bytes",
        "Bytes of data that only restoring needs.",
        &[],
        "SELECT history_bytes FROM nearside.durability",
    ),
    gauge(
        "nearside_unread_columns",
        "Columns of segments that are on the disk and not in memory yet.",
        &[],
        "SELECT unread_columns FROM nearside.durability",
    ),
    gauge(
        "nearside_log_failed",
        "1 where nothing is written to the log any more.",
        &[],
        "SELECT CASE WHEN error IS NULL THEN 0 ELSE 1 END FROM nearside.durability",
    ),
];

/// What is counted beside the views.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Statements that were begun.
    pub statements: u64,
    /// Those that failed.
    pub failed: u64,
    /// Clients of PostgreSQL that are connected.
    pub connected: usize,
    /// For how long the server has run.
    pub seconds: f64,
}

/// The text.
///
/// # Errors
/// A view that cannot be read.
pub fn metrics(session: &Session, counts: Counts) -> Result<String, Fault> {
    let mut to = String::new();
    let plain = [
        ("nearside_statements_total", "counter", "Statements that were begun.", counts.statements as f64),
        ("nearside_statements_failed_total", "counter", "Statements that failed.", counts.failed as f64),
        ("nearside_connections", "gauge", "Clients of PostgreSQL's protocol.", counts.connected as f64),
        ("nearside_uptime_seconds", "gauge", "For how long the server has run.", counts.seconds),
    ];
    for (name, kind, help, value) in plain {
        head(name, kind, help, &mut to);
        to.push_str(&format!("{name} {value}\n"));
    }
    for metric in METRICS {
        let mut has_head = false;
        for row in texts(session, metric.sql)? {
            let Some((Some(value), labels)) = row.split_last() else { continue };
            if !std::mem::replace(&mut has_head, true) {
                head(metric.name, metric.kind, metric.help, &mut to);
            }
            to.push_str(metric.name);
            for (place, (name, label)) in metric.labels.iter().zip(labels).enumerate() {
                to.push(if place == 0 { '{' } else { ',' });
                to.push_str(&format!("{name}=\"{}\"", escaped(label.as_deref().unwrap_or_default())));
            }
            to.push_str(if metric.labels.is_empty() { " " } else { "} " });
            to.push_str(value);
            to.push('\n');
        }
    }
    Ok(to)
}

fn head(name: &str, kind: &str, help: &str, to: &mut String) {
    to.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

/// A label, whose text may be a user's.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_board_shows_metrics_that_there_are() {
        let board = include_str!("../../../../packaging/grafana/nearside.json");
        let board: serde_json::Value = serde_json::from_str(board).unwrap();
        let panels = board["panels"].as_array().unwrap();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
        assert!(queries.len() > 10);
        let mut known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        known.extend([
            "nearside_statements_total",
            "nearside_statements_failed_total",
            "nearside_connections",
            "nearside_uptime_seconds",
        ]);
        for query in queries {
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let named: Vec<&str> = words.filter(|word| word.starts_with("nearside_")).collect();
            assert!(!named.is_empty(), "{query}");
            for name in named {
                assert!(known.contains(name), "{name} of {query} is no metric");
            }
        }
    }

    #[test]
    fn all_metrics_are_answered_in_the_format() {
        let database = nearside::Database::builder().threads(2).memory_bytes(1 << 28).build().unwrap();
        let session = database.session();
        session.execute("CREATE TABLE t (a INT); INSERT INTO t SELECT value FROM generate_series(1, 1000)").unwrap();
        let counts = Counts { statements: 3, failed: 1, connected: 2, seconds: 1.5 };
        let text = metrics(&session, counts).unwrap();
        let mut names = BTreeSet::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            names.insert(name.split('{').next().unwrap().to_string());
        }
        assert!(text.contains("nearside_statements_total 3\n"), "{text}");
        assert!(names.contains("nearside_node_memory_bytes") && names.contains("nearside_workers"), "{text}");
        assert_eq!(escaped("a\"b\\\n"), "a\\\"b\\\\\\n");
    }
}
