//! Whole tables of a paper, held against the model entry by entry.

use std::collections::BTreeMap;

use model::thesis::{System, gains};

use super::{ClaimResult, PublishedTable, Verdict};
use crate::result::ResultKind;

/// Holds the model against a published table, entry by entry, within so many percentage points of what the paper's
/// model gives. How often that is below what the paper measured is told beside it.
pub(super) fn judge_table(result: &mut ClaimResult, table: PublishedTable, within: f64) {
    let PublishedTable::NbbPairs = table;
    result.kind = Some(ResultKind::Modelled);
    let mut entries = BTreeMap::new();
    for system in System::ALL {
        match gains(system) {
            Ok(found) => {
                let name = if system == System::Xeon { "Xeon" } else { "Opteron" };
                entries.extend(found.into_iter().map(|gain| ((name, gain.queries), gain)));
            }
            Err(error) => {
                result.reason = error.to_string();
                return;
            }
        }
    }
    let off = |gain: &model::thesis::Gain| (gain.computed - gain.published).abs() * 100.0;
    let worst = entries.iter().max_by(|a, b| off(a.1).total_cmp(&off(b.1)));
    let Some((((system, queries), gain), all)) = worst.map(|worst| (worst, entries.len())) else { return };
    let close = entries.values().filter(|gain| off(gain) <= within).count();
    let below = entries.values().filter(|gain| gain.computed < gain.measured).count();
    result.obtained = format!(
        "{close} of {all} rho_model within {within} percentage points; the farthest, queries {} and {} on the \
         {system}, is off by {:.4}; {below} are below the measured rho",
        queries.0,
        queries.1,
        off(gain)
    );
    result.values.push(("rho_model as published".to_string(), close as f64 / all as f64));
    result.values.push(("rho_model below rho".to_string(), below as f64 / all as f64));
    result.verdict = if close == all { Verdict::Holds } else { Verdict::Misses };
    if result.verdict == Verdict::Misses {
        result.missed = format!("{} of {all} differ from rho_model", all - close);
        result.reason = result.missed.clone();
    }
}
