//! Names of tables and columns: the nearest one to a name that does not exist.

/// The candidate nearest to `name` by edit distance, ignoring case; `None` when nothing is near.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    let most = (name.chars().count() / 3).max(1);
    candidates
        .map(|c| (distance(&name, &c.to_lowercase()), c))
        .filter(|(d, _)| *d <= most)
        .min()
        .map(|(_, c)| c.to_string())
}

/// Levenshtein's distance with neighbouring swaps counted as one, in characters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = vec![];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let swap = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + swap);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
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
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("ab", "ba"), 1);
    }
}
