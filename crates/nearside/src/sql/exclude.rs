//! `EXCLUDE CURRENT ROW`, `EXCLUDE GROUP`, `EXCLUDE TIES` and `EXCLUDE NO OTHERS` of window frames, which neither the
//! parser nor the planner knows.
//!
//! The words are taken out of the tokens, and the window gets a PARTITION BY of a constant that stands for them. A
//! constant tells no rows apart, so it changes nothing
//! until [`exclusion_of`] reads it when the window is bound.

use datafusion_common::ScalarValue;
use exec::FrameExclusion;
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::text;
use crate::error::Result;

/// Ends the constants: a character that no text has a use for.
const MARK: char = '\u{E000}';

const EXCLUSIONS: [(&[&str], FrameExclusion); 4] = [
    (&["NO", "OTHERS"], FrameExclusion::NoOthers),
    (&["CURRENT", "ROW"], FrameExclusion::CurrentRow),
    (&["GROUP"], FrameExclusion::Group),
    (&["TIES"], FrameExclusion::Ties),
];

/// The statement's tokens with constants in the place of what its frames exclude.
///
/// # Errors
/// None that a constant has.
pub(super) fn without_exclusions(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    if !tokens.iter().any(|token| is_word(token, "EXCLUDE")) {
        return Ok(tokens);
    }
    let (places, solid) = solid(&tokens);
    // Places among the tokens with what stands there from then on; the former are cut out up to the latter.
    let mut edits: Vec<(usize, usize, Vec<TokenWithSpan>)> = Vec::new();
    let mut open = Vec::new();
    for (at, token) in solid.iter().enumerate() {
        match &token.token {
            Token::LParen => open.push(at),
            Token::RParen => drop(open.pop()),
            Token::Word(_) if is_word(token, "EXCLUDE") && at > 0 && ends_bound(solid[at - 1]) => {
                let Some((words, _)) = EXCLUSIONS.iter().find(|(words, _)| follow(&solid[at + 1..], words)) else {
                    continue;
                };
                let Some(&bracket) = open.last() else { continue };
                let end = places.get(at + 1 + words.len()).copied().unwrap_or(tokens.len());
                edits.push((places[at], end, Vec::new()));
                let constant = format!("CAST('EXCLUDE {}{MARK}' AS VARCHAR)", words.join(" "));
                let (before, key) = partition(&solid, bracket, &constant);
                let key = text::tokens(&key)?.into_iter().map(|t| TokenWithSpan { span: token.span, ..t }).collect();
                edits.push((places[before], places[before], key));
            }
            _ => {}
        }
    }
    edits.sort_by_key(|(from, to, _)| (*from, *to));
    let mut all = Vec::with_capacity(tokens.len() + 16 * edits.len());
    let mut done = 0;
    for (from, to, instead) in edits {
        all.extend_from_slice(&tokens[done..from]);
        all.extend(instead);
        done = to;
    }
    all.extend_from_slice(&tokens[done..]);
    Ok(all)
}

/// The tokens that are no blanks and comments, behind their places.
pub(super) fn solid(tokens: &[TokenWithSpan]) -> (Vec<usize>, Vec<&TokenWithSpan>) {
    tokens.iter().enumerate().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_))).unzip()
}

/// A key for the PARTITION BY of the window that begins with a bracket, and before which token it goes.
fn partition(solid: &[&TokenWithSpan], bracket: usize, key: &str) -> (usize, String) {
    let begins = |place: usize, words: &[&str]| solid.get(place..).is_some_and(|rest| follow(rest, words));
    let mut place = bracket + 1;
    let named = !["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"].iter().any(|word| begins(place, &[word]));
    if named {
        place += 1;
    }
    if begins(place, &["PARTITION", "BY"]) {
        return (place + 2, format!("{key}, "));
    }
    (place, format!("PARTITION BY {key} "))
}

pub(super) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// True for the last word of a bound of a frame.
fn ends_bound(token: &TokenWithSpan) -> bool {
    let keyword = match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => return false,
    };
    matches!(keyword, Keyword::PRECEDING | Keyword::FOLLOWING | Keyword::ROW)
}

fn follow(tokens: &[&TokenWithSpan], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| is_word(token, word))
}

/// What a constant of a PARTITION BY says of the frame, if it is one of ours.
pub(crate) fn exclusion_of(value: &ScalarValue) -> Option<FrameExclusion> {
    let text = value.try_as_str().flatten()?.strip_prefix("EXCLUDE ")?.strip_suffix(MARK)?;
    EXCLUSIONS.iter().find(|(words, _)| words.join(" ") == text).map(|(_, exclusion)| *exclusion)
}

/// True for a key of a PARTITION BY that is one of ours.
pub(super) fn is_exclusion(key: &ast::Expr) -> bool {
    matches!(key, ast::Expr::Cast { expr, .. } if matches!(expr.as_ref(), ast::Expr::Value(value)
        if matches!(&value.value, ast::Value::SingleQuotedString(text) if text.ends_with(MARK))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(sql: &str) -> String {
        let tokens = without_exclusions(text::tokens(sql).unwrap()).unwrap();
        tokens.iter().map(|token| token.token.to_string()).collect::<String>().replace(MARK, "")
    }

    #[test]
    fn exclusions_become_keys() {
        for (sql, expected) in [
            (
                "sum(a) OVER (ORDER BY b ROWS 1 PRECEDING EXCLUDE TIES)",
                "sum(a) OVER (PARTITION BY CAST('EXCLUDE TIES' AS VARCHAR) ORDER BY b ROWS 1 PRECEDING )",
            ),
            (
                "sum(a) OVER (partition by (c), d rows between 1 preceding and current row exclude current row)",
                "sum(a) OVER (partition by CAST('EXCLUDE CURRENT ROW' AS VARCHAR), (c), d rows between 1 preceding \
                 and current row )",
            ),
            (
                "sum(a) OVER (w GROUPS 1 PRECEDING EXCLUDE NO OTHERS), 'ä EXCLUDE TIES'",
                "sum(a) OVER (w PARTITION BY CAST('EXCLUDE NO OTHERS' AS VARCHAR) GROUPS 1 PRECEDING ), 'ä EXCLUDE \
                 TIES'",
            ),
            ("SELECT * EXCLUDE (a) FROM t", "SELECT * EXCLUDE (a) FROM t"),
            ("SELECT exclude, \"EXCLUDE\" FROM t", "SELECT exclude, \"EXCLUDE\" FROM t"),
        ] {
            assert_eq!(taken(sql), expected);
        }
    }

    #[test]
    fn keys_are_read_again() {
        for (words, exclusion) in EXCLUSIONS {
            let text = ScalarValue::Utf8View(Some(format!("EXCLUDE {}{MARK}", words.join(" "))));
            assert_eq!(exclusion_of(&text), Some(exclusion));
        }
        assert_eq!(exclusion_of(&ScalarValue::Utf8(Some("EXCLUDE TIES".into()))), None);
        assert_eq!(exclusion_of(&ScalarValue::Int64(Some(1))), None);
    }
}
