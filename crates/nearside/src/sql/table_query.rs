//! Queries without SELECT, and tables without what inherits from them, which nothing does:
//!
//! ```text
//! TABLE t              SELECT * FROM t
//! FROM t WHERE a       SELECT * FROM t WHERE a       (FROM t SELECT a is for the parser)
//! ONLY t, ONLY (t)     t
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The tokens of a statement with `SELECT * FROM` in the place of each TABLE that begins a query, and of each FROM that
/// does and has no SELECT behind it.
pub(super) fn with_selects(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let tokens = without_only(tokens);
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_))).collect();
    let words: Vec<&TokenWithSpan> = solid.iter().map(|place| &tokens[*place]).collect();
    let begins = |at: usize| match keyword(words[at]) {
        Some(Keyword::TABLE) => {
            words.get(at + 1).is_some_and(|next| matches!(next.token, Token::Word(_))) && may_begin(&words[..at])
        }
        Some(Keyword::FROM) => {
            may_begin(&words[..at]) && begins_by_from(&words[..at]) && !selects_behind(&words[at + 1..])
        }
        _ => false,
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

/// Takes ONLY off tables: no table has others that inherit from it.
fn without_only(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_only = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("only"),
        _ => false,
    };
    if !tokens.iter().any(is_only) {
        return tokens;
    }
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place].token, Token::Whitespace(_))).collect();
    let mut gone = Vec::new();
    for (at, place) in solid.iter().enumerate().skip(1) {
        let before = &tokens[solid[at - 1]];
        let stands = matches!(
            keyword(before),
            Some(Keyword::UPDATE | Keyword::FROM | Keyword::JOIN | Keyword::USING | Keyword::TABLE | Keyword::TRUNCATE)
        ) || matches!(before.token, Token::Comma);
        if !is_only(&tokens[*place]) || !stands {
            continue;
        }
        match solid.get(at + 1).map(|next| &tokens[*next].token) {
            Some(Token::Word(word)) if !matches!(word.keyword, Keyword::SET | Keyword::AS | Keyword::WHERE) => {
                gone.push(*place);
            }
            Some(Token::LParen) => {
                let closing = solid[at + 1..].iter().find(|place| matches!(tokens[**place].token, Token::RParen));
                gone.extend([*place, solid[at + 1]]);
                gone.extend(closing);
            }
            _ => {}
        }
    }
    let mut place = 0;
    tokens.retain(|_| {
        place += 1;
        !gone.contains(&(place - 1))
    });
    tokens
}

/// Whether a FROM behind these tokens, behind which a query may begin, begins one.
fn begins_by_from(before: &[&TokenWithSpan]) -> bool {
    match before.last().map(|last| &last.token) {
        None => true,
        // `trim(FROM s)`; else a bracket that is opened for a query.
        Some(Token::LParen) => before.len().checked_sub(2).is_none_or(
            |place| !matches!(&before[place].token, Token::Word(word) if word.value.eq_ignore_ascii_case("trim")),
        ),
        Some(Token::RParen) => {
            let mut depth = 0;
            for (place, token) in before.iter().enumerate().rev() {
                match token.token {
                    Token::RParen => depth += 1,
                    Token::LParen if depth == 0 => return keyword(before[place + 1]) == Some(Keyword::WITH),
                    Token::LParen => depth -= 1,
                    _ if depth > 0 => {}
                    _ if matches!(keyword(token), Some(Keyword::SELECT | Keyword::FROM | Keyword::UPDATE)) => {
                        return false;
                    }
                    _ => {}
                }
            }
            matches!(keyword(before[0]), Some(Keyword::WITH | Keyword::INSERT))
        }
        Some(_) => true,
    }
}

/// Whether a SELECT belongs to the FROM before these tokens.
fn selects_behind(behind: &[&TokenWithSpan]) -> bool {
    let mut depth = 0;
    for token in behind {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return false,
            Token::RParen => depth -= 1,
            _ if depth > 0 => {}
            _ => match keyword(token) {
                Some(Keyword::SELECT) => return true,
                Some(Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT) => return false,
                _ => {}
            },
        }
    }
    false
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
            ("FROM t WHERE a > 1", "SELECT * FROM t WHERE a > 1"),
            ("FROM t UNION ALL FROM u", "SELECT * FROM t UNION ALL SELECT * FROM u"),
            ("SELECT * FROM (FROM t) x", "SELECT * FROM (SELECT * FROM t) x"),
            ("WITH x AS (FROM t) FROM x", "WITH x AS (SELECT * FROM t) SELECT * FROM x"),
            ("INSERT INTO t (a) FROM u", "INSERT INTO t (a) SELECT * FROM u"),
            ("UPDATE ONLY t SET a = 1", "UPDATE  t SET a = 1"),
            ("SELECT a FROM ONLY (t), ONLY u", "SELECT a FROM  t,  u"),
        ] {
            assert_eq!(rewritten(sql), query);
        }
        for sql in [
            "DROP TABLE t",
            "TRUNCATE TABLE t",
            "LOCK TABLE t",
            "DESCRIBE TABLE t",
            "SELECT a AS \"table\" FROM t",
            "FROM t SELECT a",
            "SELECT max(a) FROM t",
            "SELECT (SELECT 1) FROM t",
            "SELECT a IS DISTINCT FROM b",
            "SELECT extract(year FROM d), trim(FROM s) FROM t",
            "DELETE FROM t",
            "COPY t (a) FROM 'x'",
            "SELECT a FROM t FETCH FIRST 1 ROWS ONLY",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
