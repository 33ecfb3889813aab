//! `nearside lab interference`: how the queries of TPC-H slow each other down on this machine, measured, fitted and
//! predicted.
//!
//! Each query runs alone and beside hogs; both bandwidth models are fitted to those runs and predict every pair; then
//! pairs run beside each other, both again and again, and predictions stand beside what was measured. Settings change
//! in the outer loop and queries in the inner one, so that a slow minute of the machine touches all queries.
//!
//! Invariants: pairs are never fitted; a time counts only while whatever should be beside it is there.
//!
//! # Limits
//! Queries get cpus by `nearside.parallelism`, which holds per operation. Where they lie is up to the kernel.
//!
//! Source: Seidel 2011, sections 5.3 and 5.4; docs/design/model.md.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use model::curve::{Curve, CurveSpec, Interpolation, Outside};
use model::fit::{PlainFit, Residuals, Trial};
use model::interference::{Input, MeasuredPair, Miss, QueryTrials, Report, analyse};
use model::machine::{DemandRule, Machine};
use nearside::{Database, Session};
use numa::Topology;
use numa::probe::{HogKind, Hogs};
use serde_json::{Value, json};

use crate::bench::report::{Output, median, report, write_head};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::tpch::{self, queries};

/// A query runs so often and so long at least in each setting.
const RUNS_MIN: usize = 3;
const TIME_MIN: Duration = Duration::from_millis(60);
/// Hogs by themselves are watched so long for a point of the bandwidth curve.
const CURVE_TIME: Duration = Duration::from_millis(400);
/// The most cpus per node for which overlaps are reckoned thread by thread.
const OVERLAP_CPUS: f64 = 16.0;

/// Arguments of `nearside lab interference`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  nearside lab interference                          all 22 queries at scale 1, all 253 pairs: about two minutes on \
    two cpus
  nearside lab interference --queries 1,6,18 --rounds 5 --json pairs.json
  nearside lab interference --data sf1/

Wants an idle machine with at least two cpus per node. docs/design/model.md says what the figures mean.")]
pub struct Arguments {
    /// Scale of the generated data [default: 1]
    #[arg(long, value_name = "F", value_parser = tpch::parse_scale, conflicts_with = "data")]
    scale: Option<f64>,
    /// A folder of TPC-H's tables as Parquet, as `nearside tpch --save` writes
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only these queries
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=22))]
    queries: Vec<u8>,
    /// How often each setting is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Also write what was measured, fitted and predicted to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What runs beside a query, per node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    cpus: usize,
    memory: f64,
    computing: usize,
}

/// Measures, fits, predicts, prints; ends early with an error once `stop` is set.
pub fn run(arguments: &Arguments, stop: &AtomicBool) -> Result<ExitCode, Failure> {
    let json = Output::open(arguments.json.as_deref())?;
    let database = Database::new()?;
    let topology = database.topology();
    let threads = database.scheduler().threads();
    let nodes = topology.nodes().iter().filter(|node| !node.cpus.is_empty()).count().max(1);
    let cpus = threads / nodes;
    if cpus < 2 {
        return Err(Failure::new(format!(
            "each node needs two cpus, one for each query of a pair; this machine has {threads} usable on {nodes} nodes"
        )));
    }
    let mut out = io::stdout();
    write_head(&mut out, topology, threads)?;
    let scale = tpch::load_tables(&database, arguments.scale, arguments.data.as_deref())?;
    let bench = Bench { database: &database, topology, nodes, unit: 0.0, stop };
    let (machine, unit) = bench.machine(cpus)?;
    let bench = Bench { unit, ..bench };
    let numbers: Vec<u8> =
        if arguments.queries.is_empty() { (1..=22).collect() } else { deduplicated(&arguments.queries) };
    let queries = bench.trials(&numbers, &settings(cpus), arguments.rounds)?;
    let pairs = bench.pairs(&numbers, cpus / 2)?;
    let input = Input { machine, queries, pairs, residuals: Residuals::Relative, noise: 0.01 };
    let found = analyse(&input).map_err(|error| Failure::new(error.to_string()))?;
    write(&mut out, &found)?;
    if let Some(json) = json {
        let given = json!({"scale": scale, "queries": numbers, "rounds": arguments.rounds});
        let mut value = report("interference", topology, threads, given, &[]);
        value["unit_bytes_per_second"] = json!(unit);
        value["input"] = json!(input);
        value["report"] = report_json(&found);
        json.write(&value)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn deduplicated(numbers: &[u8]) -> Vec<u8> {
    let mut once = numbers.to_vec();
    once.sort_unstable();
    once.dedup();
    once
}

/// What each query is measured beside on nodes of `cpus` cpus: see [`model::interference`].
fn settings(cpus: usize) -> Vec<Setting> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|c| *c < cpus).collect();
    counts.push(cpus);
    let mut settings: Vec<Setting> = counts.iter().map(|&cpus| Setting { cpus, memory: 0.0, computing: 0 }).collect();
    for &count in counts.iter().filter(|count| **count < cpus) {
        let left = cpus - count;
        let mut memory = vec![0.5, 1.0, left as f64];
        memory.dedup();
        settings.extend(memory.into_iter().map(|memory| Setting { cpus: count, memory, computing: 0 }));
        settings.push(Setting { cpus: count, memory: 0.0, computing: left });
    }
    settings
}

struct Bench<'a> {
    database: &'a Database,
    topology: &'a Topology,
    nodes: usize,
    /// Bytes per second that one memory hog moves alone.
    unit: f64,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    fn check(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Failure::new("interrupted; nothing was written".to_string())),
            false => Ok(()),
        }
    }

    fn hogs(&self, memory: f64, computing: usize) -> Result<Hogs, Failure> {
        let mut kinds = vec![HogKind::Memory(1.0); memory as usize];
        if memory.fract() > 0.0 {
            kinds.push(HogKind::Memory(memory.fract()));
        }
        kinds.extend(vec![HogKind::Computing; computing]);
        Hogs::start(self.topology, &kinds).map_err(|error| Failure::new(format!("no memory for hogs: {error}")))
    }

    /// The machine with the curve that hogs alone have measured, and what one of them moves.
    fn machine(&self, cpus: usize) -> Result<(Machine, f64), Failure> {
        let mut points = Vec::new();
        for count in 1..=cpus {
            let hogs = self.hogs(count as f64, 0)?;
            std::thread::sleep(CURVE_TIME / 4);
            let before = hogs.moved_bytes();
            let started = Instant::now();
            std::thread::sleep(CURVE_TIME);
            let moved = (hogs.moved_bytes() - before) as f64 / started.elapsed().as_secs_f64();
            points.push([count as f64, moved / self.nodes as f64]);
        }
        let unit = points[0][1];
        let spec = CurveSpec { points, unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold };
        let local = Curve::new(spec).map_err(|error| Failure::new(format!("the measured bandwidth: {error}")))?;
        let rule = if cpus as f64 <= OVERLAP_CPUS { DemandRule::Overlap } else { DemandRule::Waiting };
        let mut on_nodes = 0;
        let mut cores = 0;
        for core in self.topology.cores() {
            let usable = core.cpus.iter().filter(|cpu| self.topology.usable_cpus().contains(cpu)).count();
            on_nodes += usable;
            cores += usize::from(usable > 0);
        }
        let per_cpu = cores as f64 / on_nodes.max(1) as f64;
        let cores = (cpus as f64 * per_cpu).clamp(1.0, cpus as f64);
        Ok((Machine { local, remote: Vec::new(), cpus: cpus as f64, cores, rule }, unit))
    }

    fn session(&self, cpus: usize) -> Result<Session, Failure> {
        let session = self.database.session();
        session.execute(&format!("SET nearside.parallelism = {}", cpus * self.nodes))?;
        Ok(session)
    }

    fn trials(&self, numbers: &[u8], settings: &[Setting], rounds: u16) -> Result<Vec<QueryTrials>, Failure> {
        let named = |number: &u8| QueryTrials { name: number.to_string(), trials: Vec::new(), remote: Vec::new() };
        let mut queries: Vec<QueryTrials> = numbers.iter().map(named).collect();
        let steps = usize::from(rounds) * settings.len();
        let bar = Progress::new(Some((steps * numbers.len()) as u64), "queries beside hogs");
        let warm = self.session(1)?;
        numbers.iter().try_for_each(|number| once(&warm, *number).map(|_| ()))?;
        for _ in 0..rounds {
            for setting in settings {
                let session = self.session(setting.cpus)?;
                let hogs = self.hogs(setting.memory, setting.computing)?;
                for (number, query) in numbers.iter().zip(&mut queries) {
                    self.check()?;
                    query.trials.push(self.trial(&session, *number, *setting, &hogs)?);
                    bar.advance(1);
                }
            }
        }
        bar.clear();
        Ok(queries)
    }

    fn trial(&self, session: &Session, number: u8, setting: Setting, hogs: &Hogs) -> Result<Trial, Failure> {
        let before = hogs.moved_bytes();
        let started = Instant::now();
        let mut times = Vec::new();
        while times.len() < RUNS_MIN || started.elapsed() < TIME_MIN {
            times.push(once(session, number)?);
        }
        let moved = (hogs.moved_bytes() - before) as f64 / started.elapsed().as_secs_f64() / self.nodes as f64;
        Ok(Trial {
            cpus: setting.cpus as f64,
            memory_hogs: setting.memory,
            computing_hogs: setting.computing as f64,
            time_s: median(&times),
            traffic_unit_s: None,
            hogs_got: (setting.memory > 0.0).then(|| moved / self.unit),
        })
    }

    /// Every two queries beside each other, a query beside itself too, each on `n` cpus per node.
    fn pairs(&self, numbers: &[u8], cpus: usize) -> Result<Vec<MeasuredPair>, Failure> {
        let wanted: Vec<[u8; 2]> =
            (0..numbers.len()).flat_map(|i| numbers[i..].iter().map(move |second| [numbers[i], *second])).collect();
        let bar = Progress::new(Some(wanted.len() as u64), "pairs");
        let sessions = [self.session(cpus)?, self.session(cpus)?];
        let mut pairs = Vec::with_capacity(wanted.len());
        for [first, second] in wanted {
            self.check()?;
            let done = AtomicUsize::new(0);
            let beside = |session: &Session, number: u8| repeat(session, number, &done);
            let (one, two) = std::thread::scope(|scope| {
                let other = scope.spawn(|| beside(&sessions[1], second));
                let one = beside(&sessions[0], first);
                (one, other.join())
            });
            let two = two.map_err(|_| Failure::new("a query's thread panicked".to_string()))??;
            pairs.push(MeasuredPair {
                first: first.to_string(),
                second: second.to_string(),
                cpus: [cpus as f64; 2],
                time_s: [one?, two],
            });
            bar.advance(1);
        }
        bar.clear();
        Ok(pairs)
    }
}

/// Seconds of a run of a query.
fn once(session: &Session, number: u8) -> Result<f64, Failure> {
    let query = queries::query(number).ok_or_else(|| Failure::new(format!("there is no query {number}")))?;
    let started = Instant::now();
    for batch in session.query(query.sql)? {
        batch?;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// The mean time of a query that repeats beside another one, which does the same, until both have run often and long
/// enough. Runs that ended after the other one had stopped do not count.
fn repeat(session: &Session, number: u8, done: &AtomicUsize) -> Result<f64, Failure> {
    /// Counts itself when it goes, whatever happened, so that the other one ends.
    struct Done<'a>(&'a AtomicUsize, bool);
    impl Done<'_> {
        fn tell(&mut self) {
            if !std::mem::replace(&mut self.1, true) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.tell();
        }
    }
    let mut own = Done(done, false);
    let started = Instant::now();
    let mut times = Vec::new();
    loop {
        times.push(once(session, number)?);
        if times.len() > RUNS_MIN && started.elapsed() >= TIME_MIN {
            own.tell();
            if done.load(Ordering::SeqCst) == 2 {
                break;
            }
        }
    }
    // The first run may have begun alone, and the last one may have ended so.
    let inner = if times.len() > 2 { &times[1..times.len() - 1] } else { &times[..] };
    Ok(inner.iter().sum::<f64>() / inner.len() as f64)
}

/// The standard error of a share above which it could as well be any share.
const Q_ERROR_MAX: f64 = 1.0;

/// Why the plain model's `q` of a query is not known; `None` where it is.
fn untold(plain: &PlainFit) -> Option<&'static str> {
    match plain.q_error {
        Some(error) if error <= Q_ERROR_MAX => None,
        Some(_) => Some("times beside hogs do not tell it from other shares: its standard error is above 1"),
        None => Some("too few runs, or hogs that take nothing from each other, leave every share as good as another"),
    }
}

/// What helps.
const UNTOLD_ADVICE: &str =
    "measure with more cpus per node, so that hogs meet the limit of the memory, or with more --rounds";

/// The report with `null` for what is not known, and why.
fn report_json(found: &Report) -> Value {
    let mut value = json!(found);
    for (place, query) in found.queries.iter().enumerate() {
        if let Some(reason) = untold(&query.plain) {
            let plain = &mut value["queries"][place]["plain"];
            plain["job"]["q"] = Value::Null;
            plain["q_untold"] = json!(format!("{reason}; {UNTOLD_ADVICE}"));
        }
    }
    value
}

/// Which queries' plain `q` is not known, and what to do.
fn write_untold(out: &mut impl Write, found: &Report) -> Result<(), Failure> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for query in &found.queries {
        let Some(reason) = untold(&query.plain) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&query.name),
            None => reasons.push((reason, vec![&query.name])),
        }
    }
    for (reason, names) in reasons {
        let of = if names.len() == 1 { "query" } else { "queries" };
        writeln!(out, "note: plain q of {of} {} is untold: {reason}; {UNTOLD_ADVICE}", names.join(", "))?;
    }
    Ok(())
}

fn write(out: &mut impl Write, found: &Report) -> Result<(), Failure> {
    writeln!(
        out,
        "\n{:<6} {:>9} {:>8} {:>10} {:>8} {:>8} {:>8} {:>10}",
        "query", "alone ms", "plain q", "extended q", "hidden", "smt", "in turn", "overhead"
    )?;
    for query in &found.queries {
        let job = &query.extended.job;
        let plain_q = match untold(&query.plain) {
            None => format!("{:.3}", query.plain.job.q),
            Some(_) => "untold".to_string(),
        };
        writeln!(
            out,
            "{:<6} {:>9.1} {:>8} {:>10.3} {:>8.3} {:>8.3} {:>8.3} {:>10.4}",
            query.name,
            query.plain.job.t_s * 1e3,
            plain_q,
            job.q,
            job.hidden,
            job.smt,
            job.sequential,
            job.overhead
        )?;
    }
    write_untold(out, found)?;
    writeln!(out, "\n{:<8} {:>17} {:>17} {:>17} {:>17}", "pair", "measured ms", "plain", "extended", "as if alone")?;
    let two = |pair: [f64; 2]| format!("{:.1} {:.1}", pair[0] * 1e3, pair[1] * 1e3);
    for pair in &found.pairs {
        let alone = match pair.alone_s {
            [Some(first), Some(second)] => two([first, second]),
            _ => String::new(),
        };
        let name = format!("{} {}", pair.first, pair.second);
        let measured = pair.measured_s.map(two).unwrap_or_default();
        let plain = two(pair.plain_s);
        let extended = two(pair.extended_s);
        writeln!(out, "{name:<8} {measured:>17} {plain:>17} {extended:>17} {alone:>17}")?;
    }
    if let Some(errors) = &found.errors {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        writeln!(out, "\nerrors over {} pairs: mean (worst)", errors.pairs)?;
        let mut line =
            |name: &str, miss: Miss| writeln!(out, "  {name:<22} {:>7} ({})", percent(miss.mean), percent(miss.worst));
        line("plain model", errors.plain)?;
        line("extended model", errors.extended)?;
        if let Some(alone) = errors.alone {
            line("company changes nothing", alone)?;
        }
        if let Some(ratio) = errors.ratio {
            let verdict = if ratio < 0.5 { "ok" } else { "missed" };
            writeln!(out, "  extended over plain    {ratio:>7.2}, under 0.5 wanted: {verdict}")?;
        }
    }
    for note in &found.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_leave_hogs_their_cpus() {
        let two = settings(2);
        assert_eq!(two.len(), 5);
        for cpus in [2, 3, 8, 14] {
            let all = settings(cpus);
            assert!(all.iter().any(|setting| setting.cpus == cpus && setting.memory == 0.0));
            for (i, setting) in all.iter().enumerate() {
                assert!(setting.cpus + setting.memory.ceil() as usize + setting.computing <= cpus, "{setting:?}");
                assert!(!all[..i].contains(setting), "{setting:?}");
            }
        }
    }

    #[test]
    fn small_data_gives_a_report() {
        let database = Database::new().unwrap();
        let threads = database.scheduler().threads();
        tpch::load_tables(&database, Some(0.01), None).unwrap();
        let stop = AtomicBool::new(false);
        let bench = Bench { database: &database, topology: database.topology(), nodes: 1, unit: 1.0, stop: &stop };
        let (machine, unit) = bench.machine(threads.max(2)).unwrap();
        assert!(unit > 0.0);
        let bench = Bench { unit, ..bench };
        let queries = bench.trials(&[1, 6], &settings(2), 1).unwrap();
        let pairs = bench.pairs(&[1, 6], 1).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(bench.pairs(&[1, 6], 1).is_err() && bench.trials(&[1], &settings(2), 1).is_err());
        assert_eq!((queries.len(), queries[0].trials.len(), pairs.len()), (2, 5, 3));
        let input = Input { machine, queries, pairs, residuals: Residuals::Relative, noise: 0.01 };
        let found = analyse(&input).unwrap();
        let mut text = Vec::new();
        write(&mut text, &found).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("errors over 3 pairs") && text.contains("1 6"), "{text}");
    }

    /// A query of ten seconds on one of two cpus, beside hogs; `slower` is how much two hogs take from each other.
    fn measured(slower: f64, rounds: usize) -> Report {
        let points = vec![[1.0, 1.0], [2.0, 2.0 / slower]];
        let spec = CurveSpec { points, unit: None, interpolation: Interpolation::Linear, outside: Outside::Hold };
        let local = Curve::new(spec).unwrap();
        let machine = Machine { local, remote: Vec::new(), cpus: 2.0, cores: 2.0, rule: DemandRule::Overlap };
        let trial = |cpus: f64, memory_hogs: f64, time_s: f64| Trial {
            cpus,
            memory_hogs,
            computing_hogs: 0.0,
            time_s,
            traffic_unit_s: None,
            hogs_got: None,
        };
        let beside = |share: f64| 10.0 * (1.0 + 0.5 * (slower - 1.0) * share);
        let round = |i: usize| {
            let noise = 1.0 + 1e-3 * i as f64;
            [trial(1.0, 0.0, 10.0 * noise), trial(1.0, 1.0, beside(1.0)), trial(2.0, 0.0, beside(1.0) / 2.0)]
        };
        let trials = (0..rounds).flat_map(round).collect();
        let queries = vec![QueryTrials { name: "7".into(), trials, remote: Vec::new() }];
        let pairs = Vec::new();
        analyse(&Input { machine, queries, pairs, residuals: Residuals::Relative, noise: 0.01 }).unwrap()
    }

    #[test]
    fn a_share_that_runs_do_not_tell_is_untold() {
        let shown = |found: &Report| {
            let mut text = Vec::new();
            write(&mut text, found).unwrap();
            String::from_utf8(text).unwrap()
        };
        // Two hogs get exactly twice what one gets: nobody waits longer beside them, so any share fits.
        let nobody_waits = measured(1.0, 2);
        let text = shown(&nobody_waits);
        assert!(text.contains("untold") && text.contains("plain q of query 7 is untold"), "{text}");
        assert!(text.contains("more cpus per node") && text.contains("--rounds"), "{text}");
        let value = report_json(&nobody_waits);
        assert!(value["queries"][0]["plain"]["job"]["q"].is_null(), "{value}");
        assert!(value["queries"][0]["plain"]["q_untold"].as_str().is_some_and(|reason| reason.contains("rounds")));
        let known = measured(2.0, 3);
        assert!(!shown(&known).contains("untold"), "{}", shown(&known));
        let value = report_json(&known);
        let q = value["queries"][0]["plain"]["job"]["q"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&q), "{q}");
        assert!(value["queries"][0]["plain"].get("q_untold").is_none());
    }
}
