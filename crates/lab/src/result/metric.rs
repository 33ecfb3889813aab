//! What is looked at, with its unit and what an axis is called.

use serde::{Deserialize, Serialize};

/// A figure that a point gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Statements or commands that ended, per minute.
    Throughput,
    /// Mean latency of a statement.
    LatencyMean,
    /// Latency that 5 of 100 statements stay below.
    LatencyP05,
    /// Latency that half of the statements stay below.
    LatencyP50,
    /// Latency that 95 of 100 statements stay below.
    LatencyP95,
    /// The spread of latencies: standard deviation over mean.
    LatencySpread,
    /// Bytes that all memory controllers moved.
    MemoryTraffic,
    /// Bytes over all links, coherence included.
    LinkTraffic,
    /// Bytes of data over all links.
    LinkData,
    /// Share of bytes that came from another node.
    RemoteShare,
    /// Share of the cpus' time that they worked.
    CpuLoad,
    /// Share of that time in which they computed, and did not wait for memory.
    Computing,
    /// Tasks that ended.
    Tasks,
    /// Tasks taken by a worker of another node.
    Stolen,
    /// Share of a statement's time in index lookups.
    LookupShare,
    /// Share of a statement's time in scans.
    ScanShare,
    /// Share of a statement's time in materialisation.
    OutputShare,
    /// Bytes scanned, rows or commands counted as their papers do.
    ScanRate,
    /// Share of cache accesses that missed.
    MissRatio,
    /// Share of cache hits on lines that another cache has too.
    SharedHits,
    /// How long it took.
    RunTime,
    /// The slowest of several runs over the fastest, minus 1.
    RunSpread,
    /// Bytes in memory.
    MemoryUsed,
    /// Share of a job's time that it waits for memory, the model's q.
    MemoryShare,
    /// Available bandwidth in that of one thread.
    Bandwidth,
    /// Efficiency gained by running two jobs side by side.
    Gain,
    /// The lowest throughput after a change of what is done, the mean over the changes.
    Lowest,
    /// How long after a change throughput was back at the highest before the next one, the mean over the changes.
    Recovery,
    /// That highest throughput, in what there was before the first change, the mean over the changes.
    Regained,
    /// Pairs of keys and values that got another owner.
    MovedPairs,
}

/// All of them, in the order above.
pub const METRICS: [Metric; 30] = [
    Metric::Throughput,
    Metric::LatencyMean,
    Metric::LatencyP05,
    Metric::LatencyP50,
    Metric::LatencyP95,
    Metric::LatencySpread,
    Metric::MemoryTraffic,
    Metric::LinkTraffic,
    Metric::LinkData,
    Metric::RemoteShare,
    Metric::CpuLoad,
    Metric::Computing,
    Metric::Tasks,
    Metric::Stolen,
    Metric::LookupShare,
    Metric::ScanShare,
    Metric::OutputShare,
    Metric::ScanRate,
    Metric::MissRatio,
    Metric::SharedHits,
    Metric::RunTime,
    Metric::RunSpread,
    Metric::MemoryUsed,
    Metric::MemoryShare,
    Metric::Bandwidth,
    Metric::Gain,
    Metric::Lowest,
    Metric::Recovery,
    Metric::Regained,
    Metric::MovedPairs,
];

impl Metric {
    /// The name that declarations and result files use.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// What an axis is called.
    pub fn title(self) -> &'static str {
        self.facts().1
    }

    /// Its unit, in the numbers of a result.
    pub fn unit(self) -> &'static str {
        self.facts().2
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Metric> {
        METRICS.into_iter().find(|metric| metric.name() == name)
    }

    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Metric::Throughput => ("throughput", "throughput", "1/min"),
            Metric::LatencyMean => ("latency-mean", "mean latency", "s"),
            Metric::LatencyP05 => ("latency-p05", "latency, 5th percentile", "s"),
            Metric::LatencyP50 => ("latency-p50", "latency, median", "s"),
            Metric::LatencyP95 => ("latency-p95", "latency, 95th percentile", "s"),
            Metric::LatencySpread => ("latency-spread", "latency, deviation over mean", "1"),
            Metric::MemoryTraffic => ("memory-traffic", "memory throughput", "GB/s"),
            Metric::LinkTraffic => ("link-traffic", "link traffic", "GB/s"),
            Metric::LinkData => ("link-data", "data over links", "GB/s"),
            Metric::RemoteShare => ("remote-share", "bytes from other nodes", "share"),
            Metric::CpuLoad => ("cpu-load", "cpu load", "share"),
            Metric::Computing => ("computing", "computing, of the busy time", "share"),
            Metric::Tasks => ("tasks", "tasks", "1/s"),
            Metric::Stolen => ("stolen", "tasks stolen by other nodes", "1/s"),
            Metric::LookupShare => ("lookup-share", "time in index lookups", "share"),
            Metric::ScanShare => ("scan-share", "time in scans", "share"),
            Metric::OutputShare => ("output-share", "time in materialisation", "share"),
            Metric::ScanRate => ("scan-rate", "bytes scanned", "GB/s"),
            Metric::MissRatio => ("miss-ratio", "last-level cache misses", "share"),
            Metric::SharedHits => ("shared-hits", "hits on shared lines", "share"),
            Metric::RunTime => ("run-time", "run time", "s"),
            Metric::RunSpread => ("run-spread", "slowest over fastest run, minus 1", "1"),
            Metric::MemoryUsed => ("memory-used", "memory used", "GB"),
            Metric::MemoryShare => ("memory-share", "share of memory waits", "share"),
            Metric::Bandwidth => ("bandwidth", "available bandwidth", "of one thread"),
            Metric::Gain => ("gain", "efficiency gained", "share"),
            Metric::Lowest => ("lowest", "lowest throughput after a change", "1/min"),
            Metric::Recovery => ("recovery", "time until the highest throughput is back", "s"),
            Metric::Regained => ("regained", "highest throughput after a change, of that before", "share"),
            Metric::MovedPairs => ("moved-pairs", "pairs moved", "1"),
        }
    }
}
