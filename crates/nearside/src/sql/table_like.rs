//! `CREATE TABLE .. (LIKE t INCLUDING .., ..)`, which the parser reads a part of: each LIKE becomes a column whose type
//! says it, which the catalog's columns then stand in the place of.

use datafusion_sql::parser::Statement;
use sqlparser::ast::{self, ColumnDef, DataType, ObjectName};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use super::{normalised, text};
use crate::error::{Error, Result};

/// What the name of such a column begins with.
const MARK: &str = "__nearside_like_";

/// What of a table another one is made with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Including {
    /// Comments.
    pub comments: bool,
    /// CHECK.
    pub constraints: bool,
    /// Defaults.
    pub defaults: bool,
    /// What columns are computed of.
    pub generated: bool,
    /// Identities, each with a sequence of its own.
    pub identity: bool,
    /// Keys and indexes.
    pub indexes: bool,
}

/// The LIKE that a column's definition stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableLike {
    /// The table.
    pub table: ObjectName,
    /// What of it, beside its columns.
    pub including: Including,
}

impl Including {
    /// Says yes or no to what a word names; whether there is such a word. How values are stored and what is known of
    /// them is no table's affair here.
    fn set(&mut self, word: &str, value: bool) -> bool {
        match word {
            "comments" => self.comments = value,
            "constraints" => self.constraints = value,
            "defaults" => self.defaults = value,
            "generated" => self.generated = value,
            "identity" => self.identity = value,
            "indexes" => self.indexes = value,
            "statistics" | "storage" | "compression" => {}
            "all" => {
                *self = Including {
                    comments: value,
                    constraints: value,
                    defaults: value,
                    generated: value,
                    identity: value,
                    indexes: value,
                };
            }
            _ => return false,
        }
        true
    }

    fn words(self) -> String {
        let all = [
            ("comments", self.comments),
            ("constraints", self.constraints),
            ("defaults", self.defaults),
            ("generated", self.generated),
            ("identity", self.identity),
            ("indexes", self.indexes),
        ];
        let said: Vec<&str> = all.iter().filter(|(_, is_said)| *is_said).map(|(word, _)| *word).collect();
        if said.is_empty() { "nothing".into() } else { said.join(", ") }
    }
}

/// The tokens of a CREATE TABLE with columns in the place of LIKE.
///
/// # Errors
/// What is wrong with a LIKE.
pub(super) fn with_marks(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let (places, words) = solid(&tokens);
    let Some(open) = columns_of_table(&words) else { return Ok(tokens) };
    let mut depth = 1;
    let mut begins = true;
    let mut marks: Vec<(usize, usize, String)> = Vec::new();
    let mut at = open + 1;
    while depth > 0 {
        let Some(word) = words.get(at) else { break };
        if begins && depth == 1 && is_word(word, "LIKE") {
            let (end, text) = mark(&words, at, marks.len())?;
            marks.push((places[at], places[end - 1], text));
            at = end;
            begins = false;
            continue;
        }
        match word.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        begins = depth == 1 && word.token == Token::Comma;
        at += 1;
    }
    if marks.is_empty() {
        return Ok(tokens);
    }
    let mut all = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.iter().enumerate() {
        match marks.iter().find(|(from, to, _)| (*from..=*to).contains(&place)) {
            None => all.push(token.clone()),
            Some((from, _, mark)) if *from == place => {
                let made = text::tokens(mark)?.into_iter().filter(|token| token.token != Token::EOF);
                all.extend(made.map(|made| TokenWithSpan { span: token.span, ..made }));
            }
            Some(_) => {}
        }
    }
    Ok(all)
}

/// The place of the bracket that a CREATE TABLE's columns stand in.
fn columns_of_table(words: &[&TokenWithSpan]) -> Option<usize> {
    let is = |at: usize, word: &str| words.get(at).is_some_and(|token| is_word(token, word));
    if !is(0, "CREATE") {
        return None;
    }
    let table = (1..6).find(|at| is(*at, "TABLE"))?;
    let open = (table + 1..words.len()).find(|at| words[*at].token == Token::LParen)?;
    // Behind AS it is a query's.
    (table + 1..open).all(|at| !is(at, "AS")).then_some(open)
}

/// The column that a LIKE becomes, and where it ends.
fn mark(words: &[&TokenWithSpan], like: usize, number: usize) -> Result<(usize, String)> {
    let mut at = like + 1;
    let mut name = String::new();
    loop {
        let Some(Token::Word(part)) = words.get(at).map(|word| &word.token) else {
            return Err(Error::syntax("LIKE takes the name of a table: (LIKE t INCLUDING ALL)"));
        };
        let ident = ast::Ident { value: part.value.clone(), quote_style: part.quote_style, span: words[at].span };
        name.push_str(&format!("\"{}\"", normalised(ident).replace('"', "\"\"")));
        at += 1;
        match words.get(at).map(|word| &word.token) {
            Some(Token::Period) => {
                name.push('.');
                at += 1;
            }
            _ => break,
        }
    }
    let mut including = Including::default();
    while let Some(word) = words.get(at) {
        let value = match (is_word(word, "INCLUDING"), is_word(word, "EXCLUDING")) {
            (true, _) => true,
            (_, true) => false,
            _ => break,
        };
        let what = words.get(at + 1).map(|word| word.token.to_string().to_lowercase()).unwrap_or_default();
        if !including.set(&what, value) {
            return Err(Error::syntax(format!(
                "LIKE .. INCLUDING {what} says nothing; there are ALL, COMMENTS, COMPRESSION, CONSTRAINTS, DEFAULTS, \
                 GENERATED, IDENTITY, INDEXES, STATISTICS and STORAGE"
            )));
        }
        at += 2;
    }
    Ok((at, format!("\"{MARK}{number}\" {name}({})", including.words())))
}

/// Whether a column's definition stands for a LIKE.
pub(super) fn is_mark(column: &ColumnDef) -> bool {
    column.name.value.starts_with(MARK)
}

/// The LIKE that a column's definition stands for, if it does.
pub(crate) fn like_of(column: &ColumnDef) -> Option<TableLike> {
    let DataType::Custom(table, words) = &column.data_type else { return None };
    if !is_mark(column) {
        return None;
    }
    let mut including = Including::default();
    for word in words {
        including.set(word, true);
    }
    Some(TableLike { table: table.clone(), including })
}

/// The CREATE TABLE that a statement is.
pub(crate) fn created(statement: &mut Statement) -> Option<&mut ast::CreateTable> {
    let Statement::Statement(inner) = statement else { return None };
    match inner.as_mut() {
        ast::Statement::CreateTable(create) => Some(create),
        _ => None,
    }
}
