//! `TABLE t` where a query may stand: `SELECT * FROM t`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The tokens of a statement with `SELECT * FROM` in the place of each TABLE that begins a query.
pub(super) fn with_selects(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| keyword(token) == Some(Keyword::TABLE)) {
        return tokens;
    }
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_))).collect();
    let begins = |at: usize| {
        keyword(&tokens[solid[at]]) == Some(Keyword::TABLE)
            && solid.get(at + 1).is_some_and(|next| matches!(tokens[*next].token, Token::Word(_)))
            && may_begin(&solid[..at].iter().map(|place| &tokens[*place]).collect::<Vec<_>>())
    };
    let found: Vec<usize> = (0..solid.len()).filter(|at| begins(*at)).map(|at| solid[at]).collect();
    if found.is_empty() {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 5 * found.len());
    for (place, token) in tokens.into_iter().enumerate() {
        if !found.contains(&place) {
            rewritten.push(token);
            continue;
        }
        let space = || Token::Whitespace(sqlparser::tokenizer::Whitespace::Space);
        let words = [word("SELECT", Keyword::SELECT), space(), Token::Mul, space(), word("FROM", Keyword::FROM)];
        rewritten.extend(words.map(|word| TokenWithSpan { token: word, span: token.span }));
    }
    rewritten
}

fn word(value: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: value.into(), quote_style: None, keyword })
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Whether a query may begin behind these tokens.
fn may_begin(before: &[&TokenWithSpan]) -> bool {
    let Some(last) = before.last() else { return true };
    let back = |many: usize| before.len().checked_sub(many).and_then(|place| keyword(before[place]));
    let is_set = |word: Option<Keyword>| matches!(word, Some(Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT));
    match &last.token {
        // That of a WITH, of an INSERT's columns or of a PREPARE's types; or one that is opened for a query.
        Token::LParen | Token::RParen => true,
        Token::Word(_) => match back(1) {
            Some(Keyword::AS) => true,
            Some(Keyword::EXPLAIN) => before.len() == 1,
            Some(Keyword::ANALYZE | Keyword::VERBOSE) => keyword(before[0]) == Some(Keyword::EXPLAIN),
            Some(Keyword::ALL | Keyword::DISTINCT) => is_set(back(2)),
            word if is_set(word) => true,
            _ => is_insert(before),
        },
        _ => false,
    }
}

/// Whether these are `INSERT INTO name`.
fn is_insert(before: &[&TokenWithSpan]) -> bool {
    let into = before.iter().rposition(|token| keyword(token) == Some(Keyword::INTO));
    let Some(into) = into.filter(|into| *into > 0 && keyword(before[into - 1]) == Some(Keyword::INSERT)) else {
        return false;
    };
    let name = &before[into + 1..];
    let is_part = |(place, token): (usize, &&TokenWithSpan)| match place % 2 {
        0 => matches!(token.token, Token::Word(_)),
        _ => matches!(token.token, Token::Period),
    };
    name.len() % 2 == 1 && name.iter().enumerate().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::super::only;
    use super::*;

    fn rewritten(sql: &str) -> String {
        with_selects(only(sql).unwrap().tokens).iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn a_table_is_a_query_where_one_may_stand() {
        for (sql, query) in [
            ("TABLE t", "SELECT * FROM t"),
            ("table \"T\" ORDER BY 1", "SELECT * FROM \"T\" ORDER BY 1"),
            ("TABLE a UNION ALL TABLE b", "SELECT * FROM a UNION ALL SELECT * FROM b"),
            ("INSERT INTO s.t TABLE u", "INSERT INTO s.t SELECT * FROM u"),
            ("INSERT INTO t (a) TABLE u", "INSERT INTO t (a) SELECT * FROM u"),
            ("CREATE TABLE x AS TABLE t", "CREATE TABLE x AS SELECT * FROM t"),
            ("EXPLAIN TABLE t", "EXPLAIN SELECT * FROM t"),
        ] {
            assert_eq!(rewritten(sql), query);
        }
        for sql in
            ["DROP TABLE t", "TRUNCATE TABLE t", "LOCK TABLE t", "DESCRIBE TABLE t", "SELECT a AS \"table\" FROM t"]
        {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
