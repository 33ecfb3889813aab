//! The settings of units that balance themselves while what is looked up changes (Kissinger et al., ADMS 2014, section
//! 4.3).
//!
//! Invariants: as in `families.rs`.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use sim::workload::shifting::Algorithm;

/// How ranges move between units, as the product's settings name it: `off`, `one_shot`, `ma(8)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Balancer(pub Algorithm);

impl TryFrom<String> for Balancer {
    type Error = String;

    fn try_from(text: String) -> Result<Balancer, String> {
        text.parse().map(Balancer)
    }
}

impl From<Balancer> for String {
    fn from(balancer: Balancer) -> String {
        balancer.0.to_string()
    }
}

/// Which transfers of a cycle run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfers {
    /// Each unit takes what it is to get, all units at once, as in the paper.
    AtOnce,
    /// One after the other, as the product moves them.
    InTurn,
}

/// Keys that are looked up at random: all of them, then the middle half, then that half moving to the left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shifting {
    /// Keys, in equal ranges at the beginning.
    pub keys: u64,
    /// How ranges move.
    pub balancer: Balancer,
    /// Which of them at the same time.
    pub transfers: Transfers,
    /// How often the balancer looks.
    pub period_ms: u32,
    /// How long all keys are looked up.
    pub all_seconds: f64,
    /// How long each half of them is.
    pub each_seconds: f64,
    /// KiB of the pages that the index lies on, where it is simulated.
    pub page_kib: u32,
    /// Keys of a statement, when measured. Simulated units send what a round of theirs has.
    pub batch: u32,
}

impl Default for Shifting {
    fn default() -> Shifting {
        Shifting {
            keys: 512_000_000,
            balancer: Balancer::default(),
            transfers: Transfers::AtOnce,
            period_ms: 100,
            all_seconds: 10.0,
            each_seconds: 20.0,
            page_kib: 2048,
            batch: 128,
        }
    }
}

/// What makes no sense.
pub(super) fn check(s: &Shifting) -> Result<(), String> {
    if s.keys < KEYS_MIN {
        return Err(format!("keys = {}: give at least {KEYS_MIN}, so that each unit has some", s.keys));
    }
    if s.period_ms == 0 || s.batch == 0 || s.page_kib == 0 {
        return Err("period_ms, batch and page_kib must be above 0".to_string());
    }
    if !(LENGTHS.contains(&s.all_seconds) && LENGTHS.contains(&s.each_seconds)) {
        return Err(format!(
            "all_seconds = {} and each_seconds = {}: both must lie between a millisecond and {} seconds",
            s.all_seconds,
            s.each_seconds,
            LENGTHS.end()
        ));
    }
    Ok(())
}

/// Seconds between changes.
const LENGTHS: RangeInclusive<f64> = 1e-3..=1e6;
/// Fewer keys cannot be halved and moved by sixty-fourths among many units.
const KEYS_MIN: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use crate::declaration::Experiment;

    #[test]
    fn balancers_have_the_products_names_and_the_rest_is_checked() {
        let experiment = Experiment::find("eris2014/fig13").unwrap();
        let told = |set: &str| {
            let set = experiment.read_settings(&[set.to_string()]).unwrap();
            experiment.grid_with(&set).map(|points| points.len()).map_err(|error| error.to_string())
        };
        assert!(told("balancer=ma(3)").is_ok());
        assert!(told("balancer=twice").unwrap_err().contains("off, one_shot, or ma(n)"));
        assert!(told("keys=1000").unwrap_err().contains("at least 65536"));
        assert!(told("period_ms=0").unwrap_err().contains("above 0"));
        for seconds in ["-1.0", "0.0", "1e-10", "1e20"] {
            let error = told(&format!("each_seconds={seconds}")).unwrap_err();
            assert!(error.contains("between a millisecond and"), "{error}");
        }
    }
}
