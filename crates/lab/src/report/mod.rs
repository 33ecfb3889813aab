//! The report: one HTML page with every experiment's figures beside what was published, the claims, the sensitivity of
//! the conclusions and the facts of the machines.
//!
//! Invariants: nothing is loaded from elsewhere; each chart holds figures of one kind (simulated, modelled or measured)
//! and says which, published values dashed beside them; every section says machine, revision and seed.

pub(crate) mod chart;
mod page;

use std::collections::BTreeMap;
use std::fmt::Write;

use numa::Topology;
use numa::svg::escape;

use self::chart::Chart;
use self::page::{Cell, anchor, page, table};
use crate::claims::{ClaimResult, Evaluation, Verdict, figure};
use crate::declaration::{Draw, Experiment, Figure};
use crate::result::{Metric, OverSeeds, Record, ResultFile, ResultKind, notes, over_seeds, shown};
use crate::sensitivity::Sensitivity;
use crate::series::{Series, series_of, unit_of};
use crate::variation::VariationResult;

/// Kinds that get charts of their own, in this order.
const OURS: [ResultKind; 3] = [ResultKind::Simulated, ResultKind::Modelled, ResultKind::Measured];

/// What a report is made of.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// The experiments, each with its results; those without results are listed as not run.
    pub experiments: Vec<(Experiment, Vec<ResultFile>)>,
    /// The claims, where they were judged.
    pub claims: Option<Evaluation>,
    /// Which conclusions move, where that was looked at.
    pub sensitivity: Option<Sensitivity>,
    /// What varying the reasons of misses gave, where that was done.
    pub variations: Vec<VariationResult>,
    /// The revision of Nearside that writes the page.
    pub revision: String,
}

/// The page.
pub fn report(material: &Material) -> String {
    let mut body = String::new();
    let _ = writeln!(
        body,
        "<p class=\"origin\">Nearside {}. Simulated figures come from virtual machines that are described as the \
         papers print them, modelled ones from the bandwidth-sharing model, measured ones from a machine at hand; each \
         chart says which, and no line joins two kinds. Published values are dashed.</p>",
        escape(&material.revision)
    );
    contents(&mut body, material);
    if let Some(evaluation) = &material.claims {
        claims_section(&mut body, evaluation);
    }
    if let Some(sensitivity) = &material.sensitivity {
        sensitivity_section(&mut body, sensitivity);
    }
    if !material.variations.is_empty() {
        variations_section(&mut body, &material.variations);
    }
    body.push_str("<h2 id=\"experiments\">Experiments</h2>\n");
    for (experiment, results) in &material.experiments {
        experiment_section(&mut body, experiment, results, material.claims.as_ref());
    }
    machines_section(&mut body, material);
    page("Nearside lab: the published experiments, repeated", &body)
}

fn contents(body: &mut String, material: &Material) {
    body.push_str("<nav aria-label=\"Contents\"><ul>\n");
    if material.claims.is_some() {
        body.push_str("<li><a href=\"#claims\">Claims</a></li>\n");
    }
    if material.sensitivity.is_some() {
        body.push_str("<li><a href=\"#sensitivity\">Sensitivity</a></li>\n");
    }
    if !material.variations.is_empty() {
        body.push_str("<li><a href=\"#variations\">Reasons, varied</a></li>\n");
    }
    for (experiment, _) in material.experiments.iter().filter(|(_, results)| !results.is_empty()) {
        let to = anchor(&experiment.id);
        let id = escape(&experiment.id);
        let title = escape(&experiment.title);
        let _ = writeln!(body, "<li><a href=\"#{to}\">{id}</a>: {title}</li>");
    }
    body.push_str("<li><a href=\"#machines\">Machines</a></li>\n</ul></nav>\n");
}

fn claims_section(body: &mut String, evaluation: &Evaluation) {
    body.push_str("<h2 id=\"claims\">Claims</h2>\n");
    let counts = Verdict::ALL.map(|verdict| format!("{} {}", evaluation.count(verdict), verdict.word()));
    let length = if evaluation.full { "full runs" } else { "shortened runs" };
    let _ = writeln!(
        body,
        "<p>{} rows: {}. {length}, {}. A ratio holds within 10% of the published value; ranges and orders have rules \
         of their own.</p>",
        evaluation.claims.len(),
        counts.join(", "),
        seeds(&evaluation.seeds)
    );
    let rows: Vec<Vec<Cell>> = evaluation.claims.iter().map(claim_row).collect();
    body.push_str(&table("Every published claim against what was obtained", &CLAIM_HEADS, &rows));
}

/// What [`claim_row`] has.
const CLAIM_HEADS: [&str; 6] = ["claim", "what", "published", "obtained", "error", "verdict and why"];

/// `seed 1`, or `seeds 1, 2`.
fn seeds(seeds: &[u64]) -> String {
    let all: Vec<String> = seeds.iter().map(u64::to_string).collect();
    format!("seed{} {}", if seeds.len() == 1 { "" } else { "s" }, all.join(", "))
}

/// What several seeds say of a claim; nothing where there was one.
fn over_the_seeds(result: &ClaimResult) -> Vec<String> {
    if result.by_seed.is_empty() {
        return Vec::new();
    }
    let spread = |(what, mean, deviation): (&str, f64, f64)| {
        format!("{what}: {} \u{b1} {} over {} seeds", figure(mean), figure(deviation), result.by_seed.len())
    };
    let mut told: Vec<String> = result.deviations().into_iter().map(spread).collect();
    let each: Vec<String> = result.by_seed.iter().map(|of| format!("{} {}", of.seed, of.verdict.word())).collect();
    told.push(match result.same_for_all_seeds() {
        true => "the same verdict with every seed".to_string(),
        false => format!("by seed: {}", each.join(", ")),
    });
    told
}

fn claim_row(result: &ClaimResult) -> Vec<Cell> {
    let claim = &result.claim;
    let obtained = match result.kind {
        Some(kind) => format!("{} ({kind})", result.obtained),
        None => result.obtained.clone(),
    };
    let error = result.error.map_or(String::new(), |error| format!("{:+.0}%", error * 100.0));
    let class = format!("verdict {}", result.verdict.word().replace(' ', "-"));
    vec![
        Cell::text(&claim.id),
        Cell::text(&claim.metric)
            .and("small", &claim.setup)
            .and("small", &format!("{}, {}, {}", claim.machine, claim.source, claim.place)),
        Cell::text(&claim.published),
        over_the_seeds(result)
            .iter()
            .fold(obtained.split("; ").fold(Cell::text(""), |cell, part| cell.and("part", part)), |cell, told| {
                cell.and("small", told)
            }),
        Cell::number(&error),
        Cell::text("").and(&class, result.verdict.word()).and("small", &result.reason),
    ]
}

fn sensitivity_section(body: &mut String, sensitivity: &Sensitivity) {
    body.push_str("<h2 id=\"sensitivity\">Sensitivity</h2>\n");
    let _ = writeln!(
        body,
        "<p>Each constant of the simulator that no table of a paper gives, changed by {:.0}% up and down, one at a \
         time: which verdicts move. Simulated, seed {}.</p>",
        sensitivity.share * 100.0,
        sensitivity.seed
    );
    let rows: Vec<Vec<Cell>> = sensitivity
        .rows
        .iter()
        .map(|row| {
            let moved: Vec<String> =
                row.moved.iter().map(|m| format!("{}: {} to {}", m.claim, m.from.word(), m.to.word())).collect();
            let moved = if moved.is_empty() { "none".to_string() } else { moved.join("; ") };
            vec![
                Cell::text(&row.constant),
                Cell::number(&format!("{:+.0}%", (row.factor - 1.0) * 100.0)),
                Cell::number(&figure(row.value)),
                Cell::number(&row.touched.len().to_string()),
                Cell::text(&moved),
            ]
        })
        .collect();
    body.push_str(&table(
        "Verdicts that move",
        &["constant", "change", "value", "claims that read it", "moved"],
        &rows,
    ));
}

/// What is named as the reason of a miss, varied: does the claim then come out?
fn variations_section(body: &mut String, variations: &[VariationResult]) {
    body.push_str("<h2 id=\"variations\">Reasons, varied</h2>\n");
    body.push_str(
        "<p>For claims that miss: what is thought to be the reason is varied in the simulator, constants by a factor, \
         settings to a value, and the claim judged again. That it then holds says that the cause is enough, not that \
         it was the paper's.</p>\n",
    );
    let row = |varied: &VariationResult| -> Vec<Cell> {
        let steps = varied.steps.iter().fold(Cell::text(""), |cell, step| {
            cell.and("part", &format!("{}: {} ({})", step.changed, step.obtained, step.verdict.word()))
        });
        let variation = &varied.variation;
        let found = Cell::text("").and("verdict", variation.finding.word()).and("small", &variation.found);
        vec![Cell::text(&variation.claim), Cell::text(&variation.reason), steps, found]
    };
    let rows: Vec<Vec<Cell>> = variations.iter().map(row).collect();
    body.push_str(&table("Reasons of misses, varied", &["claim", "reason", "varied and obtained", "finding"], &rows));
}

fn experiment_section(body: &mut String, experiment: &Experiment, results: &[ResultFile], claims: Option<&Evaluation>) {
    let source = &experiment.source;
    let _ = writeln!(
        body,
        "<h3 id=\"{}\">{}: {}</h3>",
        anchor(&experiment.id),
        escape(&experiment.id),
        escape(&experiment.title)
    );
    let _ = writeln!(
        body,
        "<p class=\"small\">{}, section {}, {}</p>\n<p>The paper found: {}</p>",
        escape(&source.paper),
        escape(&source.section),
        escape(&source.figures.join(", ")),
        escape(&experiment.found)
    );
    if results.is_empty() {
        let _ = writeln!(
            body,
            "<p class=\"small\">Not run yet: <code>nearside lab run {}</code></p>",
            escape(&experiment.id)
        );
        return;
    }
    for (head, records) in results {
        let machines: Vec<&str> = head.machines.keys().map(String::as_str).collect();
        let seeds: std::collections::BTreeSet<u64> = records.iter().map(|r| r.seed).collect();
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let _ = writeln!(
            body,
            "<p class=\"origin\">{}: {} points on {}, revision {}, seed {}</p>",
            head.kind,
            records.len(),
            escape(&machines.join(", ")),
            escape(&head.revision),
            seeds.join(", ")
        );
        // The simulator's notes are of its rules; those of a measurement say what was not as the settings ask.
        for (note, points) in if head.kind == ResultKind::Measured { notes(records) } else { Vec::new() } {
            let _ = writeln!(body, "<p class=\"small\">{}: {} ({points} points)</p>", head.kind, escape(&note));
        }
    }
    let records: Vec<Record> = results.iter().flat_map(|(_, records)| records.iter().cloned()).collect();
    let folded = over_seeds(&records);
    let records: Vec<Record> = folded.iter().map(|folded| folded.mean.clone()).collect();
    body.push_str("<div class=\"figures\">\n");
    for (at, figure) in experiment.figures.iter().enumerate() {
        for kind in OURS {
            draw(body, experiment, at, figure, kind, &records);
        }
    }
    body.push_str("</div>\n");
    if let Some(evaluation) = claims {
        let own: Vec<Vec<Cell>> =
            evaluation.claims.iter().filter(|claim| claim.experiment == experiment.id).map(claim_row).collect();
        if !own.is_empty() {
            body.push_str(&table("What the paper says in numbers, and what was obtained", &CLAIM_HEADS, &own));
        }
    }
    figures_table(body, experiment, &records, &folded);
}

/// One chart of one kind, the published values of the figure beside it.
fn draw(body: &mut String, experiment: &Experiment, at: usize, figure: &Figure, kind: ResultKind, records: &[Record]) {
    let own: Vec<Record> = records.iter().filter(|record| record.kind == kind).cloned().collect();
    let mut series = series_of(figure, &own);
    if series.iter().all(|series| series.points().is_empty()) {
        return;
    }
    for published in experiment.published.iter().filter(|published| published.figure == at) {
        let mut of_paper = Series::new(ResultKind::Published, published.series.clone());
        for (x, y) in published.x.iter().zip(&published.y) {
            let added = of_paper.add(ResultKind::Published, *x, *y, x.to_string());
            assert!(added.is_ok(), "a published series takes published points");
        }
        series.push(of_paper);
    }
    let x = match figure.draw {
        Draw::Nodes => "node".to_string(),
        Draw::Time => "seconds".to_string(),
        Draw::Lines | Draw::Bars => figure.x.replace('_', " "),
    };
    let y = format!("{}, {}", figure.y.title(), unit_of(figure));
    let bars = matches!(figure.draw, Draw::Bars | Draw::Nodes);
    let chart =
        Chart { title: &figure.title, x: &x, y: &y, kind, log_x: figure.log_x, bars, series: &series, marks: &[] };
    if let Some(svg) = chart.draw() {
        body.push_str("<figure>\n");
        body.push_str(&svg);
        body.push_str("</figure>\n");
    }
}

/// All figures as a table, for those who do not see charts: what varies, then the metrics.
fn figures_table(body: &mut String, experiment: &Experiment, records: &[Record], folded: &[OverSeeds]) {
    let mut varied: BTreeMap<&String, bool> = BTreeMap::new();
    if let Some(first) = records.first() {
        for record in records {
            for (key, value) in &record.settings {
                *varied.entry(key).or_insert(false) |= first.settings.get(key) != Some(value);
            }
        }
    }
    let keys: Vec<&String> = varied.into_iter().filter(|(_, varies)| *varies).map(|(key, _)| key).collect();
    let there = |m: &Metric| records.iter().any(|record| record.get(*m).is_some());
    let metrics: Vec<Metric> = experiment.metrics.iter().copied().filter(there).collect();
    let mut heads: Vec<String> = vec!["kind".to_string()];
    heads.extend(keys.iter().map(|key| key.replace('_', " ")));
    heads.extend(metrics.iter().map(|m| format!("{}, {}", m.title(), m.unit())));
    let rows: Vec<Vec<Cell>> = folded
        .iter()
        .map(|folded| {
            let record = &folded.mean;
            let told = |metric: &Metric| match (record.get(*metric), folded.deviation.get(metric)) {
                (None, _) => String::new(),
                (Some(value), None) => figure(value),
                (Some(value), Some(deviation)) => format!("{} \u{b1} {}", figure(value), figure(*deviation)),
            };
            let mut row = vec![Cell::text(record.kind.word())];
            row.extend(keys.iter().map(|key| Cell::text(&record.settings.get(*key).map_or(String::new(), shown))));
            row.extend(metrics.iter().map(|metric| Cell::number(&told(metric))));
            row
        })
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let _ = writeln!(body, "<details><summary>All figures of {}</summary>", escape(&experiment.id));
    body.push_str(&table("Each point that was run", &heads, &rows));
    body.push_str("</details>\n");
}

fn machines_section(body: &mut String, material: &Material) {
    let mut machines: BTreeMap<&str, (&Topology, ResultKind)> = BTreeMap::new();
    for (head, _) in material.experiments.iter().flat_map(|(_, results)| results) {
        for (name, topology) in &head.machines {
            machines.entry(name).or_insert((topology, head.kind));
        }
    }
    body.push_str("<h2 id=\"machines\">Machines</h2>\n");
    let rows: Vec<Vec<Cell>> = machines
        .iter()
        .map(|(name, (topology, kind))| {
            let cores = topology.cores().len();
            let how = if *kind == ResultKind::Measured { "at hand" } else { "as published" };
            vec![
                Cell::text(name),
                Cell::text(how),
                Cell::number(&topology.packages().len().to_string()),
                Cell::number(&topology.nodes().len().to_string()),
                Cell::number(&cores.to_string()),
                Cell::number(&topology.usable_cpus().len().to_string()),
            ]
        })
        .collect();
    body.push_str(&table("What was run on", &["machine", "how", "packages", "nodes", "cores", "cpus"], &rows));
}

#[cfg(test)]
mod tests;
