//! The rows of the claims: what the papers found, as facts. `data/claims.csv` is the list.

use serde::{Deserialize, Serialize};

/// The list, as text.
const CLAIMS: &str = include_str!("../../data/claims.csv");

/// A row of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its number, e.g. `V1`.
    pub id: String,
    /// The paper, by its public name.
    pub source: String,
    /// Section and figure. The list calls it `where`.
    #[serde(rename = "where")]
    pub place: String,
    /// The machine.
    pub machine: String,
    /// What was run.
    pub setup: String,
    /// What was looked at.
    pub metric: String,
    /// What was published.
    pub published: String,
    /// What else must be known of it.
    pub note: String,
}

/// All rows, in the order of the list.
///
/// # Errors
/// The list in the program is broken: a test sees to it that it is not.
pub fn claims() -> Result<Vec<Claim>, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(CLAIMS.as_bytes());
    reader.deserialize().collect::<Result<Vec<Claim>, csv::Error>>().map_err(|e| e.to_string())
}
