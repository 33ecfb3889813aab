//! The text of scripts: where a statement ends, and what is refused before it is parsed.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::ScriptPiece;
use crate::error::{Error, Position, Result};
use crate::sql::dialect::SqlDialect;

/// How many operators may follow each other in one expression.
const OPERATORS_MAX: usize = 2000;

/// Refuses what would be ignored, or would exhaust the stack of the threads that plan and evaluate it.
pub(crate) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<()> {
    check_neighbours(tokens)?;
    let mut levels = vec![Level::default()];
    let mut before = None;
    for token in tokens {
        let between = before == Some(Keyword::BETWEEN);
        if let Token::Word(w) = &token.token {
            before = Some(w.keyword);
        } else if !matches!(token.token, Token::Whitespace(_)) {
            before = None;
        }
        let position = Some(Position { line: token.span.start.line, column: token.span.start.column });
        match &token.token {
            Token::LParen | Token::LBracket => levels.push(Level::default()),
            Token::RParen | Token::RBracket if levels.len() > 1 => {
                let inner = levels.pop().unwrap_or_default().depth();
                if let Some(level) = levels.last_mut() {
                    level.inner = level.inner.max(inner + 1);
                }
            }
            Token::Comma | Token::SemiColon => {
                if let Some(level) = levels.last_mut() {
                    level.next();
                }
            }
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("symmetric") && between => {
                let message = "BETWEEN SYMMETRIC is not supported; use BETWEEN least(a, b) AND greatest(a, b)";
                return Err(Error::Syntax { message: message.into(), position });
            }
            Token::Placeholder(name) if name == "$0" => {
                return Err(Error::Syntax { message: "$0 is no parameter; the first one is $1".into(), position });
            }
            Token::Word(w) if matches!(w.keyword, Keyword::SELECT | Keyword::FROM | Keyword::WHERE) => {
                if let Some(level) = levels.last_mut() {
                    level.next();
                }
            }
            Token::Word(w) if !matches!(w.keyword, Keyword::AND | Keyword::OR) => {}
            Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) | Token::Period => {}
            _ => {
                if let Some(level) = levels.last_mut() {
                    level.operators += 1;
                }
            }
        }
        if levels.last().is_some_and(|level| level.operators + level.inner > OPERATORS_MAX) {
            let message = format!(
                "an expression has more than {OPERATORS_MAX} operators in a row or within each other; use IN, a join \
                 with VALUES, or several statements"
            );
            return Err(Error::Syntax { message, position });
        }
    }
    Ok(())
}

/// Refuses what the parser reads otherwise than SQL has it, by what stands behind what.
fn check_neighbours(tokens: &[TokenWithSpan]) -> Result<()> {
    // Settings have sizes and times (`64MB`), and their own words for what they are not.
    let is_setting = matches!(
        tokens.first().map(|first| &first.token),
        Some(Token::Word(w)) if matches!(w.keyword, Keyword::SET | Keyword::ALTER | Keyword::RESET)
    );
    let selects = tokens.iter().any(|t| matches!(&t.token, Token::Word(word) if word.keyword == Keyword::SELECT));
    let mut before: Option<&TokenWithSpan> = None;
    for token in tokens.iter().filter(|t| !matches!(t.token, Token::Whitespace(_))) {
        let refused = |message: String| {
            let position = Some(Position { line: token.span.start.line, column: token.span.start.column });
            Err(Error::Syntax { message, position })
        };
        match (before.map(|before| &before.token), &token.token) {
            // Behind the last output a comma may stand, as in DuckDB; the parser refuses it in other lists.
            (Some(Token::Comma), Token::Word(word)) if word.keyword == Keyword::FROM && selects => {}
            (Some(Token::Comma), found) if ends_list(found) => {
                return refused(format!("a value or a name is expected after the comma, found {found}"));
            }
            // On two lines they are one.
            (Some(Token::SingleQuotedString(_)), Token::SingleQuotedString(_))
                if !is_setting && before.is_some_and(|before| before.span.end.line == token.span.start.line) =>
            {
                return refused("two texts stand one after the other; put || or a comma between them".into());
            }
            (Some(Token::Number(number, false)), Token::Word(word))
                if before.is_some_and(|before| before.span.end == token.span.start) && !is_setting =>
            {
                return refused(format!("{number}{word} is no number; put a blank or AS between the two"));
            }
            (_, Token::Number(number, true)) if !is_setting => {
                return refused(format!("{number}L is no number; take the L away"));
            }
            // X'1F' has two quotes more.
            (_, Token::HexStringLiteral(digits))
                if token.span.end.column - token.span.start.column == digits.len() as u64 + 2 =>
            {
                return refused(format!("0x{digits} is not supported; write the number in decimal, or bytes as X'00'"));
            }
            _ => {}
        }
        before = Some(token);
    }
    match before {
        Some(TokenWithSpan { token: Token::Comma, span }) => {
            let position = Some(Position { line: span.end.line, column: span.end.column });
            Err(Error::Syntax { message: "a value or a name is expected after the comma".into(), position })
        }
        _ => Ok(()),
    }
}

/// What ends a list, so that no comma stands before it.
fn ends_list(token: &Token) -> bool {
    use Keyword as K;
    match token {
        Token::RParen | Token::RBracket | Token::EOF => true,
        Token::Word(w) if w.quote_style.is_none() => matches!(
            w.keyword,
            K::FROM
                | K::WHERE
                | K::GROUP
                | K::HAVING
                | K::ORDER
                | K::LIMIT
                | K::OFFSET
                | K::FETCH
                | K::UNION
                | K::EXCEPT
                | K::INTERSECT
                | K::INTO
                | K::RETURNING
        ),
        _ => false,
    }
}

/// What stands between two brackets, for how deep its expressions are.
#[derive(Default)]
struct Level {
    /// Operators of the expression that is being read: each is a level of the tree.
    operators: usize,
    /// The deepest brackets within it.
    inner: usize,
    /// The deepest expression before it.
    before: usize,
}

impl Level {
    /// Another expression begins.
    fn next(&mut self) {
        *self = Level { before: self.depth(), ..Level::default() };
    }

    fn depth(&self) -> usize {
        self.before.max(self.operators + self.inner)
    }
}

/// The tokens of a text.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    Tokenizer::new(&SqlDialect, sql).tokenize_with_location().map_err(|e| Error::Syntax {
        message: e.message,
        position: Some(Position { line: e.location.line, column: e.location.column }),
    })
}

/// A statement of a script with its tokens, which say where they stand in the script.
pub(crate) struct Written {
    /// Its text.
    pub piece: ScriptPiece,
    /// Its tokens, blanks and comments among them.
    pub tokens: Vec<TokenWithSpan>,
}

/// The statements of a script, cut at its semicolons; those in strings, quoted names and comments do not count. Empty
/// statements are left out.
///
/// # Errors
/// A string, quoted name or comment that does not end.
pub(crate) fn statements(script: &str) -> Result<Vec<Written>> {
    let mut cursor = Cursor::new(script);
    let mut all = Vec::new();
    let mut start: Option<(usize, Position)> = None;
    let mut own = Vec::new();
    for token in tokens(script)? {
        match token.token {
            Token::Whitespace(_) | Token::EOF if start.is_none() => {}
            Token::SemiColon => {
                let end = cursor.byte_at(token.span.start);
                if let Some((from, start)) = start.take() {
                    let piece = ScriptPiece { sql: script[from..end].to_string(), start };
                    all.push(Written { piece, tokens: std::mem::take(&mut own) });
                }
            }
            _ => {
                if start.is_none() {
                    let at = token.span.start;
                    start = Some((cursor.byte_at(at), Position { line: at.line, column: at.column }));
                }
                own.push(token);
            }
        }
    }
    if let Some((from, start)) = start {
        let piece = ScriptPiece { sql: script[from..].trim_end().to_string(), start };
        all.push(Written { piece, tokens: own });
    }
    Ok(all)
}

/// Splits a script into the texts of its statements, as [`statements`] does.
///
/// # Errors
/// As [`statements`].
pub fn split(script: &str) -> Result<Vec<ScriptPiece>> {
    Ok(statements(script)?.into_iter().map(|written| written.piece).collect())
}

/// True when a prompt need not wait for more: the text is empty or its last statement ends in a semicolon.
pub fn is_complete(text: &str) -> bool {
    let Ok(tokens) = tokens(text) else { return false };
    let last = tokens.iter().rev().find(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    last.is_none_or(|t| t.token == Token::SemiColon)
}

/// Turns ascending line and column places into byte offsets.
struct Cursor<'a> {
    rest: std::str::CharIndices<'a>,
    len: usize,
    line: u64,
    column: u64,
}

impl<'a> Cursor<'a> {
    /// At the start of a text.
    fn new(text: &'a str) -> Cursor<'a> {
        Cursor { rest: text.char_indices(), len: text.len(), line: 1, column: 1 }
    }

    /// Where a place is that is not before the last one asked for.
    fn byte_at(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.rest.next() {
                Some((_, '\n')) => {
                    self.line += 1;
                    self.column = 1;
                }
                Some(_) => self.column += 1,
                None => return self.len,
            }
        }
        self.rest.clone().next().map_or(self.len, |(i, _)| i)
    }
}
