//! Queries in brackets that the parser does not take for such: `IN (VALUES ..)`, and `ANY ((query) UNION (query))`.
//!
//! ```text
//! x IN (VALUES (1), (2))              x IN (SELECT * FROM (VALUES (1), (2)))
//! x = ANY ((SELECT ..) UNION ..)      x = ANY (SELECT * FROM ((SELECT ..) UNION ..))
//! ```
//! `ANY ((SELECT ..))` is a query of one list, and stays.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use super::text;

/// The tokens of a statement with `SELECT * FROM (..)` around such queries.
pub(super) fn with_selects(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let (places, words) = solid(&tokens);
    let mut opened = Vec::new();
    let mut closed = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is = |offset: usize, text: &str| words.get(at + offset).is_some_and(|word| is_word(word, text));
        let is_bracket = |offset: usize| words.get(at + offset).is_some_and(|word| word.token == Token::LParen);
        let quantified = is_word(word, "ANY") || is_word(word, "SOME") || is_word(word, "ALL");
        let of_set = at > 0 && ["UNION", "INTERSECT", "EXCEPT", "SELECT"].iter().any(|op| is_word(words[at - 1], op));
        if !(is_word(word, "IN") || quantified && !of_set) || !is_bracket(1) {
            continue;
        }
        let Some(end) = closing(&words, at + 1) else { continue };
        let is_set = quantified && is_bracket(2) && closing(&words, at + 2).is_some_and(|inner| inner + 1 < end);
        let is_query = is_set && {
            let first = words[at + 2..].iter().find(|word| word.token != Token::LParen);
            let behind = closing(&words, at + 2).and_then(|inner| words.get(inner + 1));
            first.is_some_and(|word| ["SELECT", "WITH", "VALUES"].iter().any(|begin| is_word(word, begin)))
                && behind.is_some_and(|word| {
                    ["UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET"].iter().any(|op| is_word(word, op))
                })
        };
        if is(2, "VALUES") || is_query {
            opened.push(places[at + 1]);
            closed.push(places[end]);
        }
    }
    if opened.is_empty() {
        return tokens;
    }
    let made = [text::tokens("SELECT * FROM ("), text::tokens(" AS \"__nearside_rows\"")];
    let [Ok(mut before), Ok(mut behind)] = made else { return tokens };
    before.retain(|token| token.token != Token::EOF);
    behind.retain(|token| token.token != Token::EOF);
    let mut all = Vec::with_capacity(tokens.len() + 8 * opened.len());
    for (place, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        if closed.contains(&place) {
            all.push(token.clone());
            all.extend(behind.iter().cloned().map(|token| TokenWithSpan { span, ..token }));
        }
        all.push(token);
        if opened.contains(&place) {
            all.extend(before.iter().cloned().map(|token| TokenWithSpan { span, ..token }));
        }
    }
    all
}

/// The place of the bracket that closes the one at a place.
fn closing(words: &[&TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, word) in words.iter().enumerate().skip(open) {
        match word.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::only;
    use super::*;

    fn rewritten(sql: &str) -> String {
        with_selects(only(sql).unwrap().tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn queries_in_brackets_are_queries() {
        for (sql, query) in [
            ("SELECT a IN (VALUES (1), (2))", "SELECT a IN (SELECT * FROM (VALUES (1), (2)) AS \"__nearside_rows\")"),
            (
                "SELECT a = ANY ((SELECT 1) UNION (SELECT 2))",
                "SELECT a = ANY (SELECT * FROM ((SELECT 1) UNION (SELECT 2)) AS \"__nearside_rows\")",
            ),
        ] {
            assert_eq!(rewritten(sql), query);
        }
        for sql in ["SELECT a = ANY ((SELECT l FROM t))", "SELECT 1 UNION ALL ((SELECT 1) UNION (SELECT 2))"] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
