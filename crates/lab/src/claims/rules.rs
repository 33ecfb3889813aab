//! How each claim is judged: data, read from `data/rules.toml`, not code of its own.
//!
//! Invariants: every row of the claims has a rule, and every rule a row; a rule names only points that it declares, and
//! each point is one of a declared experiment.
//!
//! The kinds of rules:
//! - `values`: each expression lies within 10% of what was published, and, where `side_of` is given, on the published
//!   side of it (a gain of 3% is not repeated by a loss of 3%).
//! - `ranges`: the value lies within the published range, widened by 10% at both ends, and on its side of 1 where the
//!   whole range lies on one side.
//! - `order`: every comparison is true.
//! - `table`: the model's values equal a published table, entry by entry, within `within`.
//! - `input`: the row is a figure of a machine, which the simulator reads; it is reported, not judged.
//! - `not-yet`: what is missing is named.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::expression::{Comparison, Expression};

/// The rules, as text.
const RULES: &str = include_str!("../../data/rules.toml");

/// How one claim is judged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
pub struct ClaimRule {
    /// What must be so.
    pub rule: Rule,
    /// Which points it speaks of, and what must be known of it.
    pub about: About,
}

/// What a rule has beside its conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct About {
    /// The experiment that its points belong to; a point may name another one as its `experiment`.
    pub experiment: String,
    /// The points by name: settings in place of the experiment's defaults.
    pub points: BTreeMap<String, Table>,
    /// Why it is missed, as far as that is known.
    pub if_missed: String,
    /// What is judged, and how it differs from the paper's words.
    pub note: String,
    /// Why the simulator could not come out otherwise, where that is so: then it does not count as holding.
    pub by_construction: String,
}

/// The names of [`About`].
const ABOUT: [&str; 5] = ["experiment", "points", "if_missed", "note", "by_construction"];

impl TryFrom<Table> for ClaimRule {
    type Error = String;

    fn try_from(mut table: Table) -> Result<ClaimRule, String> {
        let about: Table = ABOUT.iter().filter_map(|key| table.remove_entry(*key)).collect();
        let about = About::deserialize(Value::Table(about)).map_err(|e| e.to_string())?;
        let rule = Rule::deserialize(Value::Table(table)).map_err(|e| e.to_string())?;
        Ok(ClaimRule { rule, about })
    }
}

/// What must be so.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// Values within 10% of published ones.
    Values {
        /// Each of them.
        expect: Vec<Expectation>,
        /// Comparisons that must be true as well.
        #[serde(default)]
        holds: Vec<Comparison>,
    },
    /// Values within published ranges.
    Ranges {
        /// Each of them.
        expect: Vec<InRange>,
        /// Comparisons that must be true as well.
        #[serde(default)]
        holds: Vec<Comparison>,
    },
    /// Comparisons that must be true.
    Order {
        /// Each of them.
        holds: Vec<Comparison>,
    },
    /// A published table.
    Table {
        /// Which.
        table: PublishedTable,
        /// By how much an entry may differ, in the unit of the table.
        within: f64,
    },
    /// A figure of a machine.
    Input {
        /// The figures that are compared: machine, initiator, target; the first over the second, minus 1.
        of: [MachineFigure; 2],
    },
    /// What is needed is not built.
    NotYet {
        /// What is missing.
        missing: String,
    },
}

/// A value and what was published of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// What it is.
    pub what: String,
    /// How it is computed.
    pub value: Expression,
    /// What was published.
    pub published: f64,
    /// Both must lie on the same side of this.
    #[serde(default)]
    pub side_of: Option<f64>,
    /// The simulator could not give another one; the claim holds by the others.
    #[serde(default)]
    pub by_construction: bool,
}

/// A value and the range that was published of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InRange {
    /// What it is.
    pub what: String,
    /// How it is computed.
    pub value: Expression,
    /// The lowest published value.
    pub low: f64,
    /// The highest published value.
    pub high: f64,
}

/// Tables that the lab has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublishedTable {
    /// Seidel 2011, Table 5.2: the efficiency that the model predicts for pairs of queries.
    NbbPairs,
}

/// A latency of a published machine: its local one, averaged over its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFigure {
    /// The machine.
    pub machine: String,
}

/// The rules by claim.
///
/// # Errors
/// The text in the program is wrong: a test sees to it that it is not.
pub fn rules() -> Result<BTreeMap<String, ClaimRule>, String> {
    parse(RULES)
}

/// Reads rules, and sees that each names only its own points.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, ClaimRule>, String> {
    let rules: BTreeMap<String, ClaimRule> = toml::from_str(text).map_err(|e| e.to_string())?;
    for (id, rule) in &rules {
        let named = rule.rule.points();
        if let Some(point) = named.iter().find(|point| !rule.about.points.contains_key(**point)) {
            return Err(format!("{id}: '{point}' is not among its points"));
        }
        if let Some(point) = rule.about.points.keys().find(|point| !named.contains(&point.as_str())) {
            return Err(format!("{id}: nothing speaks of the point '{point}'"));
        }
    }
    Ok(rules)
}

impl Rule {
    /// The points that its expressions name.
    pub(super) fn points(&self) -> Vec<&str> {
        match self {
            Rule::Values { expect, holds } => {
                expect.iter().flat_map(|e| e.value.points()).chain(holds.iter().flat_map(Comparison::points)).collect()
            }
            Rule::Ranges { expect, holds } => {
                expect.iter().flat_map(|e| e.value.points()).chain(holds.iter().flat_map(Comparison::points)).collect()
            }
            Rule::Order { holds } => holds.iter().flat_map(Comparison::points).collect(),
            Rule::Table { .. } | Rule::Input { .. } | Rule::NotYet { .. } => Vec::new(),
        }
    }
}
