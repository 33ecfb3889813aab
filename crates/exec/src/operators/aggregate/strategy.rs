//! Which way groups are found: a pure function of what is known.

/// Keys so few that an array by key is always right.
const SMALL_DOMAIN: u64 = 1 << 12;
/// Keys so few that an array by key is taken without looking at keys first.
const MIDDLE_DOMAIN: u64 = 1 << 16;
/// Groups are numbers of 32 bits.
const DOMAIN_MAX: u64 = 1 << 31;
/// Most keys per row of the input for an array by key.
const KEYS_PER_ROW: u64 = 4;
/// An array takes over from a table once this share of its entries is in use.
const ENTRIES_PER_GROUP: u64 = 16;

/// What is known before the first row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Different keys that there may be, where that is a number of 64 bits.
    pub(super) domain: Option<u64>,
    /// Rows of the input, about.
    pub(super) rows: u64,
    /// Bytes of a group's states.
    pub(super) group_bytes: u64,
    /// Workers, each with states of its own.
    pub(super) threads: u64,
    /// What the statement may still reserve, if there is a limit.
    pub(super) available_bytes: Option<u64>,
    /// Some state is large, or knows no empty groups: an entry only for groups that there are.
    pub(super) dense_only: bool,
}

/// How a worker finds the group of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// No keys: one group.
    One,
    /// An array of `n` entries by key, from the start.
    Direct { domain: usize },
    /// A table of keys; an array of `domain` entries once it has `from` groups and keys came out of order.
    TableThenDirect { domain: usize, from: usize },
    /// A table of keys.
    Table,
}

/// The strategy for keys.
pub(super) fn choose(facts: &Facts) -> Strategy {
    let Some(domain) = facts.domain.filter(|&d| d <= DOMAIN_MAX && !facts.dense_only) else {
        return Strategy::Table;
    };
    let entries = domain as usize;
    if domain <= SMALL_DOMAIN {
        return Strategy::Direct { domain: entries };
    }
    let bytes = (facts.group_bytes + 1).saturating_mul(domain).saturating_mul(facts.threads);
    let affordable = facts.available_bytes.is_none_or(|available| bytes <= available / 2);
    if !affordable || domain > facts.rows.saturating_mul(KEYS_PER_ROW) {
        return Strategy::Table;
    }
    match domain <= MIDDLE_DOMAIN {
        true => Strategy::Direct { domain: entries },
        false => Strategy::TableThenDirect { domain: entries, from: (domain / ENTRIES_PER_GROUP) as usize },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        domain: Some(100),
        rows: 1_000_000,
        group_bytes: 16,
        threads: 2,
        available_bytes: None,
        dense_only: false,
    };

    #[test]
    fn few_keys_are_an_array() {
        assert_eq!(choose(&FACTS), Strategy::Direct { domain: 100 });
        assert_eq!(choose(&Facts { rows: 1, ..FACTS }), Strategy::Direct { domain: 100 });
        assert_eq!(choose(&Facts { domain: Some(60_000), ..FACTS }), Strategy::Direct { domain: 60_000 });
        assert_eq!(choose(&Facts { domain: Some(60_000), rows: 100, ..FACTS }), Strategy::Table);
    }

    #[test]
    fn many_keys_are_an_array_once_they_are_in_use() {
        let many = Facts { domain: Some(1 << 20), ..FACTS };
        assert_eq!(choose(&many), Strategy::TableThenDirect { domain: 1 << 20, from: 1 << 16 });
        assert_eq!(choose(&Facts { domain: Some(1 << 40), ..FACTS }), Strategy::Table);
        assert_eq!(choose(&Facts { domain: None, ..FACTS }), Strategy::Table);
    }

    #[test]
    fn an_array_needs_half_of_what_is_left_at_most() {
        let many = Facts { domain: Some(1 << 20), ..FACTS };
        let bytes = 17 * (2 << 20);
        assert_eq!(choose(&Facts { available_bytes: Some(2 * bytes - 2), ..many }), Strategy::Table);
        assert_ne!(choose(&Facts { available_bytes: Some(2 * bytes), ..many }), Strategy::Table);
    }

    #[test]
    fn large_states_are_kept_for_groups_only() {
        assert_eq!(choose(&Facts { dense_only: true, ..FACTS }), Strategy::Table);
    }
}
