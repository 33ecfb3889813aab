//! Names of tables and columns: the nearest one to a name that does not exist.

use strsim::osa_distance;

/// The candidate nearest to `name` by edit distance, neighbouring swaps counted as one, ignoring case; `None` when
/// nothing is near.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    let most = (name.chars().count() / 3).max(1);
    candidates
        .map(|c| (osa_distance(&name, &c.to_lowercase()), c))
        .filter(|(d, _)| *d <= most)
        .min()
        .map(|(_, c)| c.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["lineitem", "orders", "part"];
        assert_eq!(nearest("lineitme", names.into_iter()).as_deref(), Some("lineitem"));
        assert_eq!(nearest("ORDER", names.into_iter()).as_deref(), Some("orders"));
        assert_eq!(nearest("customer", names.into_iter()), None);
        assert_eq!(nearest("aprt", names.into_iter()).as_deref(), Some("part"), "a swap is one edit");
    }
}
