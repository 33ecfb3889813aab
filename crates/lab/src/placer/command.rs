//! What `nearside lab placer` does: the suite's table, one run's picture, the search.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use sim::{Machine, Options};

use super::suite::{Case, NAMES, TIERED, case, settings_of};
use super::{Verdict, chart, judge, mean, phases, search};
use crate::command::{CommandError, Context, aligned, can_write, write_json, write_text};
use crate::result::ResultKind;
use crate::run::{RunFailure, on_threads};

/// Machines of the suite unless the caller names others.
pub const MACHINES: [&str; 4] = ["ivybridge-ex-4", "westmere-ex-8", "eris-amd-8", "skylake-2-snc-on"];
/// Machines that a workload of the paper was run on, or that it is about: it is run there and nowhere else.
const OWN: [(&str, &str); 5] = [
    ("tiers", TIERED),
    ("v6", "ivybridge-ex-32"),
    ("v12", "ivybridge-ex-4"),
    ("tpch-q1", "ivybridge-ex-16"),
    ("bw-eml", "ivybridge-ex-16"),
];
/// What a statement takes for each node of its tasks in V6 and V8, one statement after the other: with it ranges cost
/// what the paper measured (docs/design/lab.md); it prints no such figure.
const DISPATCH_V6_NS: u64 = 17_000;

/// `lab placer`.
#[derive(Clone, Debug)]
pub struct PlacerArguments {
    /// Of [`NAMES`]; all where it is empty.
    pub workloads: Vec<String>,
    /// Names, files or specifications; [`MACHINES`], or the paper's own, where it is empty.
    pub machines: Vec<String>,
    /// Microseconds that a statement takes for each node of its tasks, one statement after the other: an assumption.
    pub dispatch_us: f64,
    /// How many random workloads are tried besides; 0 for none.
    pub search: u32,
    /// Decides all that is random.
    pub seed: u64,
    /// Writes all verdicts as JSON.
    pub json: Option<PathBuf>,
    /// Draws the run as SVG; takes one workload and one machine.
    pub draw: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The suite's workloads.
    pub suite: Vec<Verdict>,
    /// Random ones that were tried.
    pub tried: u32,
    /// Those of them with which the placer misses something, with what they are.
    pub lost: Vec<(String, Verdict)>,
    /// The seed.
    pub seed: u64,
    /// As in [`PlacerArguments`]: V6 has at least what the paper's figures come to.
    pub dispatch_us: f64,
    /// Always `simulated`.
    pub kind: ResultKind,
    /// The revision that simulated.
    pub revision: String,
}

/// Runs the suite, prints its table, draws, searches.
///
/// # Errors
/// [`CommandError`]: an unknown workload or machine, a file that cannot be written, `stop`. A miss is none.
pub fn placer(arguments: &PlacerArguments, context: &Context<'_>, out: &mut dyn Write) -> Result<Judged, CommandError> {
    for path in arguments.json.iter().chain(&arguments.draw) {
        can_write(path)?;
    }
    let jobs = jobs(arguments)?;
    if arguments.draw.is_some() && jobs.len() != 1 {
        let found = jobs.len();
        return Err(CommandError::Refused(format!("one run is drawn: name one workload and one machine, not {found}")));
    }
    let suite = all(jobs.len(), context, |place| {
        let (case, machine, options) = &jobs[place];
        judge(case, machine, options)
    })?;
    table(out, &suite)?;
    if let (Some(path), [verdict], [(case, ..)]) = (&arguments.draw, &suite[..], &jobs[..]) {
        let picture = chart::draw(verdict, &phases(&case.what));
        let picture = picture.ok_or_else(|| CommandError::Refused("the run has no piece of time to draw".into()))?;
        write_text(path, &picture)?;
        writeln!(out, "{}: the run, with its decisions marked", path.display())?;
    }
    let drawn = all(arguments.search as usize, context, |place| {
        let found = search::draw(arguments.seed.wrapping_add(place as u64));
        judge(&found.case, &found.machine, &found.options).map(|verdict| (found.about, verdict))
    })?;
    let lost: Vec<(String, Verdict)> = drawn.into_iter().filter(|(_, verdict)| !verdict.misses.is_empty()).collect();
    if arguments.search > 0 {
        writeln!(out, "\n{} random workloads, with {} of them something is missed", arguments.search, lost.len())?;
        for (about, verdict) in &lost {
            writeln!(out, "{}: {about}\n  {}", verdict.workload, verdict.misses.join("; "))?;
        }
    }
    let (seed, revision) = (arguments.seed, context.revision.clone());
    let (dispatch_us, kind) = (arguments.dispatch_us, ResultKind::Simulated);
    let judged = Judged { suite, tried: arguments.search, lost, seed, dispatch_us, kind, revision };
    if let Some(path) = &arguments.json {
        write_json(path, &judged)?;
    }
    Ok(judged)
}

/// What is run, in order.
fn jobs(arguments: &PlacerArguments) -> Result<Vec<(Case, Machine, Options)>, CommandError> {
    let refused = |text: String| CommandError::Refused(text);
    let names: Vec<&str> = match arguments.workloads.is_empty() {
        true => NAMES.to_vec(),
        false => arguments.workloads.iter().map(String::as_str).collect(),
    };
    let mut jobs = Vec::new();
    for name in names {
        let own = OWN.iter().find(|(other, _)| *other == name).map(|(_, machine)| vec![machine.to_string()]);
        let usual = || own.unwrap_or_else(|| MACHINES.map(String::from).to_vec());
        let machines = if arguments.machines.is_empty() { usual() } else { arguments.machines.clone() };
        for machine in machines {
            let machine = Machine::parse(&machine).map_err(|error| refused(error.to_string()))?;
            let options = options_of(name, arguments, &machine);
            let of = case(name, &machine, &options.constants);
            let of =
                of.ok_or_else(|| refused(format!("there is no workload '{name}'; choose of {}", NAMES.join(", "))))?;
            jobs.push((of, machine, options));
        }
    }
    Ok(jobs)
}

fn options_of(name: &str, arguments: &PlacerArguments, machine: &Machine) -> Options {
    let least = if name == "v6" { DISPATCH_V6_NS } else { 0 };
    let dispatch_ns = ((arguments.dispatch_us * 1e3) as u64).max(least);
    Options { seed: arguments.seed, dispatch_ns, settings: settings_of(machine), ..Options::default() }.on(machine)
}

/// Runs on as many threads as the context has; results by place.
fn all<T: Send>(
    count: usize,
    context: &Context<'_>,
    work: impl Fn(usize) -> Result<T, sim::SimError> + Sync,
) -> Result<Vec<T>, CommandError> {
    let done: Vec<_> = on_threads(context.threads, count, context.stop, |place| Some(work(place)));
    let are_done = done.iter().flatten().count();
    let done = done.into_iter().collect::<Option<Vec<_>>>();
    let done = done.ok_or(CommandError::Run(RunFailure::Stopped { done: are_done, all: count }))?;
    done.into_iter().map(|of| of.map_err(|error| CommandError::Refused(error.to_string()))).collect()
}

fn table(out: &mut dyn Write, suite: &[Verdict]) -> Result<(), CommandError> {
    let head = [
        "workload",
        "machine",
        "best static",
        "1/s",
        "rr 1/s",
        "placer 1/s",
        "of best",
        "worst phase",
        "to 95% s",
        "moved GB",
        "actions",
        "misses",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for of in suite {
        let best = of.best_static();
        rows.push(vec![
            of.workload.clone(),
            of.machine.clone(),
            best.placement.clone(),
            format!("{:.0}", mean(&best.by_phase)),
            format!("{:.0}", mean(&of.tried[0].by_phase)),
            format!("{:.0}", mean(&of.by_phase)),
            format!("{:.3}", of.of_best),
            format!("{:.3}", of.worst_phase),
            of.to_near_s.map_or("-".to_string(), |seconds| format!("{seconds:.1}")),
            format!("{:.1}", of.moved_bytes / 1e9),
            of.actions.len().to_string(),
            if of.misses.is_empty() { "none".to_string() } else { of.misses.join("; ") },
        ]);
    }
    aligned(out, &rows)?;
    let missed = suite.iter().filter(|verdict| !verdict.misses.is_empty()).count();
    writeln!(out, "\n{} runs, simulated; {missed} miss something", suite.len())?;
    Ok(())
}
