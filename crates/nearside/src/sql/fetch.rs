//! `FETCH FIRST n ROWS ONLY OFFSET m ROWS`: the parser reads OFFSET before FETCH alone, PostgreSQL either order.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};

/// The tokens of a statement in which each OFFSET behind a FETCH stands before it.
pub(super) fn with_offsets_first(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    while let Some((fetch, offset, end)) = found(&tokens) {
        tokens[fetch..end].rotate_left(offset - fetch);
    }
    tokens
}

/// Where a FETCH, the OFFSET behind it and what comes behind that begin.
fn found(tokens: &[TokenWithSpan]) -> Option<(usize, usize, usize)> {
    if !tokens.iter().any(|token| is_word(token, "FETCH")) {
        return None;
    }
    let (places, words) = solid(tokens);
    let is = |at: usize, all: &[&str]| words.get(at).is_some_and(|token| all.iter().any(|word| is_word(token, word)));
    for fetch in (0..words.len()).filter(|at| is(*at, &["FETCH"]) && is(*at + 1, &["FIRST", "NEXT"])) {
        // One number or parameter, or none for one row.
        let rows = if is(fetch + 2, &["ROW", "ROWS"]) { fetch + 2 } else { fetch + 3 };
        let has_ties = is(rows + 1, &["WITH"]) && is(rows + 2, &["TIES"]);
        let offset = if has_ties { rows + 3 } else { rows + 2 };
        if !is(rows, &["ROW", "ROWS"]) || !(has_ties || is(rows + 1, &["ONLY"])) || !is(offset, &["OFFSET"]) {
            continue;
        }
        let mut depth = 0;
        let end = (offset + 1..words.len()).find(|at| {
            match words[*at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth < 0 || depth == 0 && is(*at, &["FOR", "UNION", "INTERSECT", "EXCEPT"])
        });
        let end = end.map_or(tokens.len(), |at| places[at]);
        return Some((places[fetch], places[offset], end));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::only;
    use super::*;

    #[test]
    fn an_offset_goes_before_its_fetch() {
        let rewritten = |sql: &str| -> Vec<String> {
            let tokens = with_offsets_first(only(sql).unwrap().tokens);
            let solid = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
            solid.map(|token| token.token.to_string()).collect()
        };
        let plain = |sql: &str| sql.split(' ').map(str::to_string).collect::<Vec<_>>();
        for (sql, wanted) in [
            ("TABLE t FETCH FIRST 2 ROWS ONLY OFFSET 1 ROWS", "TABLE t OFFSET 1 ROWS FETCH FIRST 2 ROWS ONLY"),
            ("( TABLE t FETCH NEXT ROW ONLY OFFSET 1 )", "( TABLE t OFFSET 1 FETCH NEXT ROW ONLY )"),
            ("TABLE t FETCH NEXT ROW WITH TIES OFFSET 1", "TABLE t OFFSET 1 FETCH NEXT ROW WITH TIES"),
            ("TABLE t OFFSET 1 FETCH NEXT ROW ONLY", "TABLE t OFFSET 1 FETCH NEXT ROW ONLY"),
        ] {
            assert_eq!(rewritten(sql), plain(wanted));
        }
    }
}
