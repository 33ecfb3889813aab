//! What the parser does not read, or of what it reads a part alone, in words that it reads:
//!
//! ```text
//! INTERVAL (2) '1.234'                 INTERVAL '1.234' SECOND (2)
//! ORDER BY a USING <, b USING >        ORDER BY a ASC, b DESC
//! trim(LEADING FROM a)                 trim(LEADING ' ' FROM a)
//! CREATE TABLE t (key INT, index INT)  CREATE TABLE t ("key" INT, "index" INT)
//! ```

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};

/// The statement's tokens in such words.
pub(super) fn respelled(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    name_columns(&mut tokens);
    join_texts(&mut tokens);
    if !tokens.iter().any(|token| ["INTERVAL", "USING", "TRIM", "IN"].iter().any(|word| is_word(token, word))) {
        return tokens;
    }
    // Places of tokens and what stands there from then on.
    let mut edits: Vec<(usize, Vec<Token>)> = Vec::new();
    let (places, words) = solid(&tokens);
    let token_at = |at: usize| words.get(at).map(|word| &word.token);
    for (at, word) in words.iter().enumerate() {
        if is_word(word, "INTERVAL") {
            let (Some(Token::LParen), Some(digits @ Token::Number(..)), Some(Token::RParen), Some(text)) =
                (token_at(at + 1), token_at(at + 2), token_at(at + 3), token_at(at + 4))
            else {
                continue;
            };
            if matches!(text, Token::SingleQuotedString(_)) {
                (1..4).for_each(|offset| edits.push((places[at + offset], Vec::new())));
                let seconds = Token::make_word("SECOND", None);
                let behind = vec![text.clone(), seconds, Token::LParen, digits.clone(), Token::RParen];
                edits.push((places[at + 4], behind));
            }
        } else if is_word(word, "IN") {
            // The parser takes a query that stands first for the only one, so it goes to the end.
            let begins = |word: &&TokenWithSpan| ["SELECT", "WITH", "VALUES"].iter().any(|begin| is_word(word, begin));
            if (1..3).all(|offset| matches!(token_at(at + offset), Some(Token::LParen)))
                && words.get(at + 3).is_some_and(begins)
                && let (Some(end), Some(close)) = (end_of(&words, at + 2), end_of(&words, at + 1))
                && matches!(token_at(end + 1), Some(Token::Comma))
                && !(matches!(token_at(end + 2), Some(Token::LParen)) && words.get(end + 3).is_some_and(begins))
            {
                (at + 2..end + 2).for_each(|place| edits.push((places[place], Vec::new())));
                let query = words[at + 2..=end].iter().map(|word| word.token.clone());
                let behind = std::iter::once(Token::Comma).chain(query).chain([Token::RParen]);
                edits.push((places[close], behind.collect()));
            }
        } else if is_word(word, "USING") {
            let direction = match token_at(at + 1) {
                Some(Token::Lt) => "ASC",
                Some(Token::Gt) => "DESC",
                _ => continue,
            };
            edits.push((places[at], vec![Token::make_word(direction, None)]));
            edits.push((places[at + 1], Vec::new()));
        } else if is_word(word, "TRIM") && matches!(token_at(at + 1), Some(Token::LParen)) {
            let is_side =
                |side: &&TokenWithSpan| ["LEADING", "TRAILING", "BOTH"].iter().any(|word| is_word(side, word));
            if words.get(at + 2).is_some_and(is_side) && words.get(at + 3).is_some_and(|from| is_word(from, "FROM")) {
                let blank = Token::SingleQuotedString(" ".into());
                edits.push((places[at + 3], vec![blank, words[at + 3].token.clone()]));
            }
        }
    }
    // From the last on, so that places stay.
    edits.sort_by_key(|(place, _)| *place);
    for (place, put) in edits.into_iter().rev() {
        let span = tokens[place].span;
        let blank = || Token::Whitespace(sqlparser::tokenizer::Whitespace::Space);
        let put = put.into_iter().flat_map(|token| [blank(), token]).map(|token| TokenWithSpan { token, span });
        tokens.splice(place..=place, put);
    }
    tokens
}

/// Where the bracket ends that opens at a place.
fn end_of(words: &[&TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    words.iter().enumerate().skip(open).find_map(|(at, word)| {
        match word.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Texts with nothing but the end of a line between them are one.
fn join_texts(tokens: &mut Vec<TokenWithSpan>) {
    let is_text = |token: &TokenWithSpan| matches!(token.token, Token::SingleQuotedString(_));
    let mut first: Option<usize> = None;
    let mut at = 0;
    while at < tokens.len() {
        let joins = first.filter(|first| {
            is_text(&tokens[at])
                && tokens[*first].span.end.line < tokens[at].span.start.line
                && is_text(&tokens[*first])
        });
        if let (Some(first), Token::SingleQuotedString(more)) = (joins, tokens[at].token.clone()) {
            if let Token::SingleQuotedString(text) = &mut tokens[first].token {
                text.push_str(&more);
            }
            tokens[first].span.end = tokens[at].span.end;
            tokens.drain(first + 1..=at);
            at = first + 1;
            continue;
        }
        if !matches!(tokens[at].token, Token::Whitespace(_)) {
            first = Some(at);
        }
        at += 1;
    }
}

/// Quotes names of columns that the parser takes for words that an index begins with.
fn name_columns(tokens: &mut [TokenWithSpan]) {
    let (places, words) = solid(tokens);
    if !words.first().is_some_and(|first| is_word(first, "CREATE"))
        || !words.iter().take(6).any(|word| is_word(word, "TABLE"))
    {
        return;
    }
    let mut depth = 0;
    let mut names = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins = matches!(word.token, Token::LParen | Token::Comma) && depth == 1;
        let is_name = |word: &&TokenWithSpan| ["KEY", "INDEX", "FULLTEXT", "SPATIAL"].iter().any(|w| is_word(word, w));
        if begins
            && words.get(at + 1).is_some_and(is_name)
            && let Some(Token::Word(of_type)) = words.get(at + 2).map(|word| &word.token)
            && !["KEY", "INDEX"].iter().any(|word| of_type.value.eq_ignore_ascii_case(word))
        {
            names.push(places[at + 1]);
        }
    }
    for place in names {
        if let Token::Word(word) = &tokens[place].token {
            tokens[place].token = Token::make_word(&word.value.to_lowercase(), Some('"'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::text;

    #[test]
    fn words_are_those_that_the_parser_reads() {
        for (sql, expected) in [
            ("SELECT interval(2) '1.234', 1", "SELECT interval '1.234' SECOND ( 2 ) , 1"),
            ("SELECT a::interval(2)", "SELECT a :: interval ( 2 )"),
            ("ORDER BY a USING <, b USING >", "ORDER BY a ASC , b DESC"),
            ("FROM a JOIN b USING (c)", "FROM a JOIN b USING ( c )"),
            ("trim(leading from a)", "trim ( leading ' ' from a )"),
            ("trim(both 'x' from a)", "trim ( both 'x' from a )"),
            ("CREATE TABLE t (Key int, a int, index text)", "CREATE TABLE t ( \"key\" int , a int , \"index\" text )"),
            (
                "CREATE TABLE t (a int PRIMARY KEY, PRIMARY KEY (b))",
                "CREATE TABLE t ( a int PRIMARY KEY , PRIMARY KEY ( b ) )",
            ),
        ] {
            let tokens = respelled(text::tokens(sql).unwrap());
            let (_, solid) = solid(&tokens);
            let shown: Vec<String> = solid.iter().map(|token| token.token.to_string()).collect();
            assert_eq!(shown.join(" ").trim_end().trim_end_matches("EOF").trim_end(), expected);
        }
    }
}
