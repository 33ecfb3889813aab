//! What `nearside tpch` found, for people and as JSON.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;

use super::answers::Check;
use crate::failure::Failure;
use crate::size::{human, thousands};

/// One query's times and check.
#[derive(Debug, Serialize)]
pub struct QueryReport {
    /// 1 to 22.
    pub query: u8,
    /// The fastest run; none where the query failed.
    pub best_s: Option<f64>,
    /// The median of the runs; the mean of the middle two where their number is even.
    pub median_s: Option<f64>,
    /// Rows of the answer.
    pub rows: Option<u64>,
    /// `ok`, `no answer for this scale`, or what is wrong.
    #[serde(serialize_with = "as_text")]
    pub check: Check,
}

fn as_text<S: serde::Serializer>(check: &Check, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(check)
}

impl QueryReport {
    /// The report of timed runs.
    pub fn new(query: u8, mut times: Vec<Duration>, rows: Option<u64>, check: Check) -> QueryReport {
        times.sort();
        let middle = times.len() / 2;
        let median = match times.len() {
            0 => None,
            n if n % 2 == 1 => Some(times[middle].as_secs_f64()),
            _ => Some((times[middle - 1].as_secs_f64() + times[middle].as_secs_f64()) / 2.0),
        };
        QueryReport { query, best_s: times.first().map(Duration::as_secs_f64), median_s: median, rows, check }
    }
}

/// What a table takes.
#[derive(Debug, Default, Serialize)]
pub struct TableReport {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Its bytes in memory.
    pub bytes: u64,
    /// The same per node, by node number.
    pub bytes_per_node: BTreeMap<u32, u64>,
}

/// One run of the benchmark. Everything is measured, nothing simulated; nothing is random.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Processor, packages, nodes, cpus and memory, in one line.
    pub machine: String,
    /// The revision that the program was built from.
    pub revision: &'static str,
    /// Whether the program was built without optimisation: such times say nothing.
    pub debug_build: bool,
    /// TPC-H's scale factor.
    pub scale: f64,
    /// Threads of the scheduler.
    pub threads: usize,
    /// Where the rows came from: `generated` or `parquet`.
    pub source: &'static str,
    /// Whether the tables' primary keys are declared.
    pub keys: bool,
    /// Always true: no figure here is simulated.
    pub measured: bool,
    /// Generating (or reading), encoding and placing all tables.
    pub load_s: f64,
    /// Resident memory of the process after the load.
    pub resident_bytes: u64,
    /// Its highest value up to then.
    pub peak_resident_bytes: u64,
    /// Resident memory after the last query.
    pub end_resident_bytes: u64,
    /// The highest value of the whole run.
    pub end_peak_resident_bytes: u64,
    /// Per table.
    pub tables: Vec<TableReport>,
    /// Per query, in the order of running.
    pub queries: Vec<QueryReport>,
}

impl Report {
    /// Whether every query ran and no answer is wrong.
    pub fn passes(&self) -> bool {
        self.queries.iter().all(|query| query.check.passes())
    }

    /// The sum of the medians, in seconds.
    fn total_of_medians_s(&self) -> f64 {
        self.queries.iter().filter_map(|query| query.median_s).sum()
    }

    /// What is known once the tables are loaded.
    pub fn write_load(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "machine   {}", self.machine)?;
        let build = if self.debug_build { ", built without optimisation" } else { "" };
        writeln!(out, "revision  {}{build}", self.revision)?;
        let rows: u64 = self.tables.iter().map(|table| table.rows).sum();
        let threads = self.threads;
        let load_s = self.load_s;
        let plural = if threads == 1 { "" } else { "s" };
        let rows = thousands(rows);
        let source = self.source;
        let keys = if self.keys { ", primary keys declared" } else { "" };
        writeln!(
            out,
            "load      {load_s:.2} s: scale {}, {rows} rows, {source}{keys}, {threads} thread{plural}",
            self.scale
        )?;
        writeln!(
            out,
            "memory    {} resident after the load, {} at its peak\n",
            human(self.resident_bytes),
            human(self.peak_resident_bytes)
        )?;
        self.write_tables(out)
    }

    fn write_tables(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut nodes: Vec<u32> = self.tables.iter().flat_map(|t| t.bytes_per_node.keys().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        write!(out, "{:<10} {:>13} {:>11}", "table", "rows", "bytes")?;
        for node in &nodes {
            write!(out, " {:>11}", format!("node {node}"))?;
        }
        writeln!(out)?;
        let mut total = TableReport { table: "total".into(), ..TableReport::default() };
        for table in &self.tables {
            total.rows += table.rows;
            total.bytes += table.bytes;
            for (node, bytes) in &table.bytes_per_node {
                *total.bytes_per_node.entry(*node).or_default() += bytes;
            }
        }
        for table in self.tables.iter().chain([&total]) {
            write!(out, "{:<10} {:>13} {:>11}", table.table, thousands(table.rows), human(table.bytes))?;
            for node in &nodes {
                write!(out, " {:>11}", human(table.bytes_per_node.get(node).copied().unwrap_or(0)))?;
            }
            writeln!(out)?;
        }
        writeln!(out)?;
        Ok(())
    }

    /// The header of the lines of [`Report::write_query`].
    pub fn write_query_header(out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{:>5} {:>10} {:>10} {:>8}  check", "query", "best s", "median s", "rows")?;
        Ok(())
    }

    /// A query, as soon as it is done.
    pub fn write_query(out: &mut dyn Write, query: &QueryReport) -> Result<(), Failure> {
        let seconds = |s: Option<f64>| s.map_or_else(|| "-".to_string(), |s| format!("{s:.4}"));
        let rows = query.rows.map_or_else(|| "-".to_string(), thousands);
        let best = seconds(query.best_s);
        let median = seconds(query.median_s);
        writeln!(out, "{:>5} {best:>10} {median:>10} {rows:>8}  {}", query.query, query.check)?;
        out.flush()?;
        Ok(())
    }

    /// The lines below the queries.
    pub fn write_end(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{:>5} {:>10} {:>10.4}", "total", "", self.total_of_medians_s())?;
        writeln!(
            out,
            "\nmemory    {} resident at the end, {} at its peak",
            human(self.end_resident_bytes),
            human(self.end_peak_resident_bytes)
        )?;
        let wrong = self.queries.iter().filter(|query| !query.check.passes()).count();
        let unknown = self.queries.iter().filter(|query| !query.check.was_compared()).count();
        let checked = self.queries.len() - unknown;
        match (wrong, checked) {
            (0, 0) => writeln!(out, "checks    none: there are reference answers for the scales 0.01, 0.1 and 1")?,
            (0, _) => writeln!(out, "checks    all {checked} ok")?,
            _ => writeln!(out, "checks    {wrong} of {checked} failed")?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(queries: Vec<QueryReport>) -> Report {
        let table = TableReport {
            table: "orders".into(),
            rows: 15_000,
            bytes: 3 << 20,
            bytes_per_node: BTreeMap::from([(0, 1 << 20), (2, 2 << 20)]),
        };
        Report {
            machine: "a machine".into(),
            revision: "abc",
            debug_build: false,
            scale: 0.01,
            threads: 2,
            source: "generated",
            keys: true,
            measured: true,
            load_s: 1.5,
            resident_bytes: 1 << 30,
            peak_resident_bytes: 2 << 30,
            end_resident_bytes: 1 << 30,
            end_peak_resident_bytes: 2 << 30,
            tables: vec![table],
            queries,
        }
    }

    #[test]
    fn medians_are_of_the_middle() {
        let times = |ms: &[u64]| ms.iter().map(|&ms| Duration::from_millis(ms)).collect();
        let odd = QueryReport::new(1, times(&[30, 10, 20]), Some(4), Check::Ok);
        assert_eq!((odd.best_s, odd.median_s), (Some(0.01), Some(0.02)));
        let even = QueryReport::new(1, times(&[40, 10, 20, 30]), Some(4), Check::Ok);
        assert_eq!(even.median_s, Some(0.025));
        assert_eq!(QueryReport::new(1, vec![], None, Check::Failed("x".into())).median_s, None);
    }

    #[test]
    fn the_text_names_what_matters() {
        let good = QueryReport::new(6, vec![Duration::from_millis(2)], Some(1), Check::Ok);
        let bad = QueryReport::new(7, vec![], None, Check::Failed("out of memory".into()));
        let report = report(vec![good, bad]);
        assert!(!report.passes());
        let mut out = Vec::new();
        report.write_load(&mut out).unwrap();
        Report::write_query_header(&mut out).unwrap();
        report.queries.iter().try_for_each(|query| Report::write_query(&mut out, query)).unwrap();
        report.write_end(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for piece in [
            "a machine",
            "15,000",
            "node 2",
            "2.0 MiB",
            "primary keys",
            "0.0020",
            "ok",
            "failed: out of memory",
            "1 of 2",
        ] {
            assert!(text.contains(piece), "{piece} in\n{text}");
        }
    }

    #[test]
    fn the_json_has_the_promised_fields() {
        let good = QueryReport::new(6, vec![Duration::from_millis(2)], Some(1), Check::Ok);
        let json = serde_json::to_value(report(vec![good])).unwrap();
        for field in ["machine", "scale", "threads", "load_s", "resident_bytes", "peak_resident_bytes", "revision"] {
            assert!(!json[field].is_null(), "{field}");
        }
        assert_eq!(json["keys"], true);
        assert_eq!(json["queries"][0]["query"], 6);
        assert_eq!(json["queries"][0]["check"], "ok");
        assert_eq!(json["queries"][0]["median_s"], 0.002);
        assert_eq!(json["tables"][0]["bytes_per_node"]["2"], 2 << 20);
    }
}
