//! What the placer decided, for `nearside.placement_log` and `nearside.advice`.

use std::collections::VecDeque;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use placer::ItemId;

use crate::catalog::Name;
use crate::catalog::placement::spec::ColumnSpec;

/// Entries that are remembered.
const REMEMBERED: usize = 1000;

/// A decision about a column.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub item: ItemId,
    pub table: Arc<Name>,
    pub column: String,
    /// What the column had of its own before.
    pub from: Option<ColumnSpec>,
    /// How it lay, as a user would write it.
    pub from_text: String,
    pub to: Option<ColumnSpec>,
    /// The nodes that it goes to, as the placer counts them.
    pub to_places: Vec<usize>,
    pub why: String,
    pub bytes: u64,
    /// How much less the hottest node gives then, as a factor.
    pub predicted: f64,
}

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is only said.
    Advised,
    /// The column is being moved.
    Moving,
    /// The column lies there.
    Done,
    /// It was moved back for a user.
    Undone,
    /// It could not be done or was stopped, for this reason: the column belongs where it did, and segments that were
    /// moved by then lie where they are.
    Failed(String),
}

impl Outcome {
    /// As the view has it.
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Outcome::Advised => "advised",
            Outcome::Moving => "moving",
            Outcome::Done => "done",
            Outcome::Undone => "undone",
            Outcome::Failed(_) => "failed",
        }
    }

    /// Why it failed.
    pub(crate) fn error(&self) -> Option<&String> {
        match self {
            Outcome::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub number: u64,
    pub at: DateTime<Utc>,
    /// `None` where the placer began anew.
    pub entry: Option<Entry>,
    pub why: String,
    pub outcome: Outcome,
    /// What was read per second afterwards, of what was read before.
    pub achieved: Option<f64>,
}

/// The last lines.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    last: u64,
    lines: VecDeque<Line>,
}

impl Lines {
    fn push(&mut self, entry: Option<Entry>, why: String, outcome: Outcome) -> u64 {
        self.last += 1;
        if self.lines.len() == REMEMBERED {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { number: self.last, at: Utc::now(), entry, why, outcome, achieved: None });
        self.last
    }

    fn line(&mut self, number: u64) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.number == number)
    }
}

impl Log {
    /// Adds a decision that nothing was done about yet; its number.
    pub(crate) fn push(&self, entry: Entry) -> u64 {
        let why = entry.why.clone();
        self.0.lock().push(Some(entry), why, Outcome::Advised)
    }

    /// Whether the last thing that was said about a column is just that, and nothing came of it.
    pub(crate) fn is_said(&self, entry: &Entry) -> bool {
        let lines = self.0.lock();
        let of_item = |line: &&Line| line.entry.as_ref().is_some_and(|of| of.item == entry.item);
        let last = lines.lines.iter().rev().find(of_item);
        last.is_some_and(|line| {
            line.outcome == Outcome::Advised && line.entry.as_ref().is_some_and(|of| of.to == entry.to)
        })
    }

    /// The placer failed and began anew.
    pub(crate) fn restarted(&self, why: &str) {
        let text = "the placer failed and began anew".to_string();
        let mut lines = self.0.lock();
        let moving = lines.lines.iter_mut().filter(|line| line.outcome == Outcome::Moving);
        moving.for_each(|line| line.outcome = Outcome::Failed(why.to_string()));
        lines.push(None, text, Outcome::Failed(why.to_string()));
    }

    /// What became of a decision.
    pub(crate) fn ended(&self, number: u64, outcome: Outcome) {
        if let Some(line) = self.0.lock().line(number) {
            line.outcome = outcome;
        }
    }

    /// What a decision achieved.
    pub(crate) fn achieved(&self, number: u64, gain: f64) {
        if let Some(line) = self.0.lock().line(number) {
            line.achieved = Some(gain);
        }
    }

    /// The decision of this number, for who wants it undone.
    ///
    /// # Errors
    /// Why it cannot be undone.
    pub(crate) fn to_undo(&self, number: u64) -> Result<Entry, String> {
        let mut lines = self.0.lock();
        let known = lines.line(number).map(|line| (line.entry.clone(), line.outcome.clone()));
        let (entry, outcome) = match known {
            Some((Some(entry), outcome)) => (entry, outcome),
            _ => return Err(format!("there is no decision {number}; nearside.placement_log has those that there are")),
        };
        if outcome != Outcome::Done {
            return Err(format!("decision {number} is {}, so there is nothing to undo", outcome.text()));
        }
        let is_later = |line: &&Line| {
            let is_same = line.entry.as_ref().is_some_and(|of| of.item == entry.item);
            line.number > number && is_same && line.outcome == Outcome::Done
        };
        match lines.lines.iter().find(is_later) {
            Some(later) => Err(format!("decision {} about the same column came later; undo that first", later.number)),
            None => Ok(entry),
        }
    }

    /// All lines, oldest first.
    pub(crate) fn all(&self) -> Vec<Line> {
        self.0.lock().lines.iter().cloned().collect()
    }
}
