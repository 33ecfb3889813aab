//! One run drawn: throughput over time, with the decisions marked, beside what does not change.

use super::Verdict;
use crate::report::chart::{Chart, Mark};
use crate::result::ResultKind;
use crate::series::Series;

/// The picture; `None` for a run without a piece of time.
pub(super) fn draw(verdict: &Verdict, borders: &[(f64, f64)]) -> Option<String> {
    let ours = line("with the placer", verdict.over_time.iter().copied());
    let best = verdict.best_static();
    let still = |name: String, by_phase: &[f64]| {
        let ends = borders.iter().zip(by_phase).flat_map(|((begin, end), rate)| [(*begin, *rate), (*end, *rate)]);
        line(&name, ends)
    };
    let mut series = vec![ours, still(format!("{} (best that does not change)", best.placement), &best.by_phase)];
    if verdict.best != 0 {
        series.push(still(verdict.tried[0].placement.clone(), &verdict.tried[0].by_phase));
    }
    let mark = |(place, action): (usize, &super::Action)| Mark {
        from: action.at_s,
        to: action.done_s.unwrap_or(action.at_s),
        label: (place + 1).to_string(),
        told: format!(
            "{}: column {} from nodes {:?} to {:?}: {}",
            place + 1,
            action.column,
            action.from,
            action.to,
            action.why
        ),
    };
    let marks: Vec<Mark> = verdict.actions.iter().enumerate().map(mark).collect();
    let title = format!("{} on {}", verdict.workload, verdict.machine);
    let chart = Chart {
        title: &title,
        x: "seconds; numbered: a column on its way",
        y: "throughput, 1/s",
        kind: ResultKind::Simulated,
        log_x: false,
        bars: false,
        series: &series,
        marks: &marks,
    };
    chart.file()
}

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
    let mut series = Series::new(ResultKind::Simulated, name);
    for (x, y) in points {
        let added = series.add(ResultKind::Simulated, x, y, x.to_string());
        assert!(added.is_ok(), "all of it is simulated");
    }
    series
}
