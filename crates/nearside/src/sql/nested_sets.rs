//! `GROUPING SETS (GROUPING SETS ((a), ()), b)` is `GROUPING SETS ((a), (), b)`: the parser does not read the former.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};

/// The statement's tokens with the sets of grouping sets within grouping sets in the place of these.
pub(super) fn flattened(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if tokens.iter().filter(|token| is_word(token, "GROUPING")).count() < 2 {
        return tokens;
    }
    let mut left_out = vec![false; tokens.len()];
    let (places, solid) = solid(&tokens);
    // Of each open bracket: whether grouping sets stand in it, and whether it goes.
    let mut open: Vec<(bool, bool)> = Vec::new();
    for (at, token) in solid.iter().enumerate() {
        match &token.token {
            Token::LParen => {
                let sets = at > 1 && is_word(solid[at - 2], "GROUPING") && is_word(solid[at - 1], "SETS");
                let nested = sets && open.last().is_some_and(|(sets, _)| *sets);
                if nested {
                    places[at - 2..=at].iter().for_each(|place| left_out[*place] = true);
                }
                open.push((sets, nested));
            }
            Token::RParen => {
                if let Some((_, true)) = open.pop() {
                    left_out[places[at]] = true;
                }
            }
            _ => {}
        }
    }
    tokens.into_iter().zip(left_out).filter(|(_, left_out)| !left_out).map(|(token, _)| token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::text;

    #[test]
    fn sets_within_sets_are_sets() {
        let flat = |sql: &str| {
            let tokens = flattened(text::tokens(sql).unwrap());
            let shown = tokens.iter().map(|token| token.token.to_string());
            shown.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (nested, expected) in [
            ("grouping sets (grouping sets ((a), ()), b)", "grouping sets ( (a), (), b)"),
            ("GROUPING SETS (GROUPING SETS (GROUPING SETS (a, b)), CUBE (a))", "GROUPING SETS ( a, b, CUBE (a))"),
            ("GROUPING SETS (a), GROUPING SETS (b)", "GROUPING SETS (a), GROUPING SETS (b)"),
            ("GROUPING SETS ((a, (grouping sets)))", "GROUPING SETS ((a, (grouping sets)))"),
        ] {
            assert_eq!(flat(nested), expected, "{nested}");
        }
    }
}
