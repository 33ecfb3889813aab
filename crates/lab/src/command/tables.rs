//! The tables that commands print: plain text, one row per line, widths by what is in them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::assumption::assumptions;
use crate::claims::{ClaimResult, Evaluation, Verdict, claims_of, figure};
use crate::declaration::Experiment;
use crate::engine::RunError;
use crate::result::{Metric, Record, ResultKind, notes, over_seeds, shown};
use crate::sensitivity::Sensitivity;
use crate::variation::{Variation, VariationResult};

/// A cell is cut here: terminals are no wider.
const CELL_MAX: usize = 60;

/// `lab list`.
pub(super) fn experiments(out: &mut dyn Write, all: &[Experiment]) -> io::Result<()> {
    let mut rows = vec![["id", "figures", "machine", "run as", "claims", "title"].map(String::from).to_vec()];
    for experiment in all {
        let kinds: Vec<&str> = experiment.kinds.iter().map(|kind| kind.word()).collect();
        let machine = experiment.machine.get("name").and_then(toml::Value::as_str).unwrap_or_default();
        rows.push(vec![
            experiment.id.clone(),
            experiment.source.figures.join(", "),
            machine.to_string(),
            kinds.join(", "),
            claims_of(&experiment.id).join(" "),
            experiment.title.clone(),
        ]);
    }
    aligned(out, &rows)
}

/// `lab run`: a row per point, what varies first.
pub(super) fn results(
    out: &mut dyn Write,
    experiment: &Experiment,
    kind: ResultKind,
    records: &[Record],
    errors: &[&RunError],
) -> io::Result<()> {
    writeln!(out, "{}: {} ({kind})", experiment.id, experiment.title)?;
    writeln!(
        out,
        "{}, section {}, {}",
        experiment.source.paper,
        experiment.source.section,
        experiment.source.figures.join(", ")
    )?;
    writeln!(out, "The paper found: {}", experiment.found)?;
    if let Some(first) = records.first() {
        let varies = |key: &String| records.iter().any(|record| record.settings.get(key) != first.settings.get(key));
        let keys: Vec<&String> = first.settings.keys().filter(|key| varies(key)).collect();
        let there = |metric: &Metric| records.iter().any(|record| record.get(*metric).is_some());
        let metrics: Vec<Metric> = experiment.metrics.iter().copied().filter(there).collect();
        let mut head: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        head.extend(metrics.iter().map(|metric| format!("{} {}", metric.name(), metric.unit())));
        let mut rows = vec![head];
        for folded in over_seeds(records) {
            let record = &folded.mean;
            let mut row: Vec<String> =
                keys.iter().map(|key| record.settings.get(*key).map_or(String::new(), shown)).collect();
            let told = |metric: &Metric| match (record.get(*metric), folded.deviation.get(metric)) {
                (None, _) => "-".to_string(),
                (Some(value), None) => figure(value),
                (Some(value), Some(deviation)) => format!("{} \u{b1} {}", figure(value), figure(*deviation)),
            };
            row.extend(metrics.iter().map(told));
            rows.push(row);
        }
        aligned(out, &rows)?;
    }
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for error in errors {
        *told.entry(error.to_string()).or_insert(0) += 1;
    }
    for (error, points) in told {
        writeln!(out, "{points} of {} points: {error}", records.len() + errors.len())?;
    }
    for (note, points) in notes(records) {
        writeln!(out, "note on {points} of {} points: {note}", records.len())?;
    }
    writeln!(out)
}

/// `lab claims`.
pub(super) fn claims(out: &mut dyn Write, evaluation: &Evaluation) -> io::Result<()> {
    let mut rows = vec![["claim", "verdict", "error", "published", "obtained"].map(String::from).to_vec()];
    for result in &evaluation.claims {
        rows.push(vec![
            result.claim.id.clone(),
            result.verdict.word().to_string(),
            result.error.map_or(String::new(), |error| format!("{:+.0}%", error * 100.0)),
            format!("{}: {}", result.claim.metric, result.claim.published),
            result.obtained.clone(),
        ]);
    }
    aligned(out, &rows)?;
    writeln!(out)?;
    let unmet = |verdict| !matches!(verdict, Verdict::Holds | Verdict::Input);
    let unmet = evaluation.claims.iter().filter(|result| unmet(result.verdict));
    for result in unmet {
        writeln!(out, "{} {}: {}", result.claim.id, result.verdict.word(), result.reason)?;
    }
    assumed(out, evaluation)?;
    let counts = Verdict::ALL.map(|verdict| format!("{} {}", evaluation.count(verdict), verdict.word()));
    let length = if evaluation.full { "full" } else { "shortened" };
    writeln!(
        out,
        "\n{} claims: {} ({length} runs, simulated and modelled, {})",
        evaluation.claims.len(),
        counts.join(", "),
        seeds(&evaluation.seeds)
    )?;
    if evaluation.seeds.len() > 1 { claims_by_seed(out, evaluation) } else { Ok(()) }
}

/// What was assumed, and which claims rest on it.
fn assumed(out: &mut dyn Write, evaluation: &Evaluation) -> io::Result<()> {
    for one in assumptions() {
        let under =
            |result: &&ClaimResult| result.assumed.contains(&one.name) && !one.fitted.contains(&result.claim.id);
        let under: Vec<&str> = evaluation.claims.iter().filter(under).map(|result| result.claim.id.as_str()).collect();
        if under.is_empty() {
            continue;
        }
        let of = one.machines.iter().chain(&one.systems).cloned().collect::<Vec<_>>().join(", ");
        let fitted =
            if one.fitted.is_empty() { String::new() } else { format!(" Chosen by {}.", one.fitted.join(", ")) };
        writeln!(out, "\nAssumed of {of}: {}. {}{fitted} Run so: {}.", one.told(), one.because, under.join(", "))?;
    }
    Ok(())
}

/// `seed 1`, or `seeds 1, 2`.
fn seeds(seeds: &[u64]) -> String {
    let all: Vec<String> = seeds.iter().map(u64::to_string).collect();
    format!("seed{} {}", if seeds.len() == 1 { "" } else { "s" }, all.join(", "))
}

/// What the seeds say: verdicts that are not the same for all, then how far figures lie apart.
fn claims_by_seed(out: &mut dyn Write, evaluation: &Evaluation) -> io::Result<()> {
    let differ: Vec<_> = evaluation.claims.iter().filter(|result| !result.same_for_all_seeds()).collect();
    let judged = evaluation.claims.iter().filter(|result| !result.by_seed.is_empty()).count();
    writeln!(
        out,
        "Of {judged} that were run with each seed, {} have the same verdict with all",
        judged - differ.len()
    )?;
    for result in differ {
        let each: Vec<String> = result.by_seed.iter().map(|of| format!("{} {}", of.seed, of.verdict.word())).collect();
        writeln!(out, "{} {} by the means; by seed: {}", result.claim.id, result.verdict.word(), each.join(", "))?;
    }
    let mut rows = vec![["claim", "what", "mean", "deviation", "share"].map(String::from).to_vec()];
    for result in &evaluation.claims {
        for (what, mean, deviation) in result.deviations() {
            let share = if mean == 0.0 { "-".to_string() } else { format!("{:.2}%", 100.0 * deviation / mean.abs()) };
            rows.push(vec![result.claim.id.clone(), what.to_string(), figure(mean), figure(deviation), share]);
        }
    }
    writeln!(out)?;
    aligned(out, &rows)
}

/// `lab claims --sensitivity`.
pub(super) fn sensitivity(out: &mut dyn Write, found: &Sensitivity) -> io::Result<()> {
    let mut rows = vec![["constant", "change", "value", "read by", "verdicts that move"].map(String::from).to_vec()];
    for row in &found.rows {
        let moved: Vec<String> =
            row.moved.iter().map(|m| format!("{} {} to {}", m.claim, m.from.word(), m.to.word())).collect();
        rows.push(vec![
            row.constant.clone(),
            format!("{:+.0}%", (row.factor - 1.0) * 100.0),
            figure(row.value),
            format!("{} claims", row.touched.len()),
            if moved.is_empty() { "none".to_string() } else { moved.join(", ") },
        ]);
    }
    writeln!(out)?;
    aligned(out, &rows)
}

/// `lab vary`: a block per reason.
pub(super) fn variations(out: &mut dyn Write, found: &[VariationResult]) -> io::Result<()> {
    for varied in found {
        let Variation { claim, reason, finding, found, .. } = &varied.variation;
        writeln!(out, "{claim}: {reason}")?;
        let mut rows = vec![["  varied", "verdict", "obtained"].map(String::from).to_vec()];
        for step in &varied.steps {
            let verdict = step.verdict.word().to_string();
            rows.push(vec![format!("  {}", step.changed), verdict, step.obtained.clone()]);
        }
        aligned(out, &rows)?;
        writeln!(out, "  {}: {found}\n", finding.word())?;
        if !varied.is_borne_out() {
            writeln!(out, "  no step made it hold, or it held without: 'sufficient' is not what was found\n")?;
        }
    }
    Ok(())
}

/// Rows in columns; the last column is as long as it is.
pub(crate) fn aligned(out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let widths = rows.iter().filter_map(|row| row.get(column)).map(|cell| cut(cell).chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column + 1 == row.len() {
                line.push_str(cell);
            } else {
                line.push_str(&format!("{:width$}  ", cut(cell), width = widths[column]));
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cut(cell: &str) -> String {
    if cell.chars().count() <= CELL_MAX {
        return cell.to_string();
    }
    let mut short: String = cell.chars().take(CELL_MAX - 1).collect();
    short.push('\u{2026}');
    short
}
