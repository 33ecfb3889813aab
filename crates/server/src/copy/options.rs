//! `COPY t FROM STDIN` and `COPY t | (query) TO STDOUT`, with what PostgreSQL lets one say of the data.

use nearside::TableName;

use crate::fault::{Fault, codes};
use crate::tokens::{Placed, Token, Tokens};

/// How data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// A line per row, with backslashes before what would be taken for something else.
    Text,
    /// Values with commas between them, in quotes where they need some.
    Csv,
    /// As PostgreSQL's send functions write values.
    Binary,
}

/// What stands in the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A row.
    None,
    /// Names of columns.
    Names,
    /// Names of columns, which have to be those of the table.
    Match,
}

/// How data is written, and what stands for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// Which format.
    pub format: CopyFormat,
    /// What stands between values.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// What stands in the first line.
    pub header: Header,
    /// What stands around a value of CSV.
    pub quote: u8,
    /// What stands before a quote within one.
    pub escape: u8,
}

/// What is copied to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyWhat {
    /// Rows of the client, for these columns of a table; for all where none are named.
    From(TableName, Vec<String>),
    /// The rows of a query.
    To(String),
    /// All rows of a table, in the columns that rows of a client would go to.
    Whole(TableName),
}

/// COPY with the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStatement {
    /// What goes where.
    pub what: CopyWhat,
    /// How.
    pub options: CopyOptions,
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(codes::SYNTAX_ERROR, message))
}

fn refused<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::new(codes::FEATURE_NOT_SUPPORTED, message))
}

/// The statement of a text that begins with COPY; `None` where it is not one with the client.
///
/// # Errors
/// What is wrong with it, or not supported.
pub fn copy_statement(sql: &str) -> Result<Option<CopyStatement>, Fault> {
    let tokens: Vec<Placed> = Tokens::new(sql).filter(|placed| placed.token != Token::Sign(';')).collect();
    let mut cursor = Cursor { tokens: &tokens, at: 1 };
    let is_binary = cursor.word("binary");
    // What is copied ends before FROM or TO that stands in no brackets.
    let start = cursor.at;
    let mut depth = 0_usize;
    while let Some(token) = cursor.peek() {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 && (word == "from" || word == "to") => break,
            _ => {}
        }
        cursor.at += 1;
    }
    let what = &tokens[start.min(cursor.at)..cursor.at];
    let is_from = cursor.word("from");
    if !is_from && !cursor.word("to") {
        return Ok(None);
    }
    if !cursor.word(if is_from { "stdin" } else { "stdout" }) {
        return Ok(None);
    }
    let options = options(&mut cursor, is_binary)?;
    let what = match what.first().map(|placed| &placed.token) {
        Some(Token::Sign('(')) if is_from => return wrong("COPY .. FROM takes a table, not a query"),
        Some(Token::Sign('(')) => {
            let (first, last) = (&what[0], &what[what.len() - 1]);
            if last.token != Token::Sign(')') {
                return wrong("a bracket is missing behind the query of COPY");
            }
            CopyWhat::To(sql[first.end..last.start].to_string())
        }
        _ => {
            let mut cursor = Cursor { tokens: what, at: 0 };
            let (table, columns) = table(&mut cursor)?;
            match is_from {
                true => CopyWhat::From(table, columns),
                false if columns.is_empty() => CopyWhat::Whole(table),
                false => CopyWhat::To(query_of(&table, &columns)),
            }
        }
    };
    Ok(Some(CopyStatement { what, options }))
}

/// `[schema.]table [(columns)]`.
fn table(cursor: &mut Cursor<'_>) -> Result<(TableName, Vec<String>), Fault> {
    let first = cursor.name()?;
    let table = match cursor.sign('.') {
        true => TableName { schema: Some(first), table: cursor.name()? },
        false => TableName { schema: None, table: first },
    };
    let mut columns = Vec::new();
    if cursor.sign('(') {
        loop {
            columns.push(cursor.name()?);
            if !cursor.sign(',') {
                break;
            }
        }
        if !cursor.sign(')') {
            return wrong("a bracket is missing behind the columns of COPY");
        }
    }
    match cursor.peek() {
        None => Ok((table, columns)),
        Some(_) => wrong("FROM or TO is expected behind the table of COPY"),
    }
}

/// The query of columns of a table; of all where none are named.
pub fn query_of(table: &TableName, columns: &[String]) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = match columns.is_empty() {
        true => "*".to_string(),
        false => columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", "),
    };
    let schema = table.schema.as_ref().map_or_else(String::new, |schema| format!("{}.", quoted(schema)));
    format!("SELECT {columns} FROM {schema}{}", quoted(&table.table))
}

/// What may be said, as it is said.
#[derive(Default)]
struct Said {
    format: Option<CopyFormat>,
    delimiter: Option<String>,
    null: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
}

fn options(cursor: &mut Cursor<'_>, is_binary: bool) -> Result<CopyOptions, Fault> {
    let mut said = Said { format: is_binary.then_some(CopyFormat::Binary), ..Said::default() };
    cursor.word("with");
    match cursor.sign('(') {
        true => {
            loop {
                in_brackets(cursor, &mut said)?;
                if !cursor.sign(',') {
                    break;
                }
            }
            if !cursor.sign(')') {
                return wrong("a bracket is missing behind the options of COPY");
            }
        }
        false => {
            while let Some(Token::Word(_)) = cursor.peek() {
                without_brackets(cursor, &mut said)?;
            }
        }
    }
    match cursor.peek() {
        None => settled(said),
        Some(Token::Word(word)) if word == "where" => refused("COPY .. FROM with WHERE is not supported"),
        Some(_) => wrong("the end of the statement is expected behind the options of COPY"),
    }
}

fn once<T>(slot: &mut Option<T>, value: T, name: &str) -> Result<(), Fault> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => wrong(format!("option {name} of COPY is given twice")),
    }
}

/// `FORMAT csv`, `HEADER true`, ..
fn in_brackets(cursor: &mut Cursor<'_>, said: &mut Said) -> Result<(), Fault> {
    let name = cursor.name()?.to_lowercase();
    match name.as_str() {
        "format" => {
            let format = match cursor.value()?.unwrap_or_default().to_lowercase().as_str() {
                "text" => CopyFormat::Text,
                "csv" => CopyFormat::Csv,
                "binary" => CopyFormat::Binary,
                other => {
                    return Err(Fault::new(
                        codes::INVALID_PARAMETER_VALUE,
                        format!("COPY format \"{other}\" not recognized"),
                    ));
                }
            };
            once(&mut said.format, format, &name)
        }
        // Rows are as good as frozen: there is nothing to be done for those that are old.
        "freeze" => cursor.value().and_then(|value| truth(value.as_deref(), &name)).map(drop),
        "delimiter" => once(&mut said.delimiter, cursor.needed(&name)?, &name),
        "null" => once(&mut said.null, cursor.needed(&name)?, &name),
        "header" => {
            let value = cursor.value()?;
            let header = match value.as_deref().map(str::to_lowercase).as_deref() {
                Some("match") => Header::Match,
                _ if truth(value.as_deref(), &name)? => Header::Names,
                _ => Header::None,
            };
            once(&mut said.header, header, &name)
        }
        "quote" => once(&mut said.quote, cursor.needed(&name)?, &name),
        "escape" => once(&mut said.escape, cursor.needed(&name)?, &name),
        "encoding" => encoding(&cursor.needed(&name)?),
        "force_quote" | "force_not_null" | "force_null" => {
            refused(format!("option {} of COPY is not supported", name.to_uppercase()))
        }
        other => wrong(format!("option \"{other}\" not recognized")),
    }
}

/// `CSV HEADER`, `DELIMITER AS ','`, ..
fn without_brackets(cursor: &mut Cursor<'_>, said: &mut Said) -> Result<(), Fault> {
    let name = cursor.name()?;
    if name == "where" {
        return refused("COPY .. FROM with WHERE is not supported");
    }
    let mut value = || {
        cursor.word("as");
        cursor.needed(&name)
    };
    match name.as_str() {
        "binary" => once(&mut said.format, CopyFormat::Binary, &name),
        "csv" => once(&mut said.format, CopyFormat::Csv, &name),
        "freeze" => Ok(()),
        "header" => once(&mut said.header, Header::Names, &name),
        "delimiter" => once(&mut said.delimiter, value()?, &name),
        "null" => once(&mut said.null, value()?, &name),
        "quote" => once(&mut said.quote, value()?, &name),
        "escape" => once(&mut said.escape, value()?, &name),
        "encoding" => encoding(&value()?),
        "force" => refused("FORCE QUOTE, FORCE NULL and FORCE NOT NULL of COPY are not supported"),
        other => wrong(format!("syntax error at or near \"{other}\"")),
    }
}

fn truth(value: Option<&str>, name: &str) -> Result<bool, Fault> {
    match value.map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => wrong(format!("{name} requires a Boolean value")),
    }
}

fn encoding(name: &str) -> Result<(), Fault> {
    match ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str()) {
        true => Ok(()),
        false => refused(format!("data of COPY is UTF8 alone, not {name}")),
    }
}

fn settled(said: Said) -> Result<CopyOptions, Fault> {
    let invalid = |message: String| Err(Fault::new(codes::INVALID_PARAMETER_VALUE, message));
    let format = said.format.unwrap_or(CopyFormat::Text);
    let is_csv = format == CopyFormat::Csv;
    let byte = |text: Option<String>, default: u8, name: &str| match text {
        None => Ok(default),
        Some(text) if text.len() == 1 && !matches!(text.as_bytes()[0], b'\n' | b'\r') => Ok(text.as_bytes()[0]),
        Some(_) => {
            Err(Fault::new(codes::INVALID_PARAMETER_VALUE, format!("COPY {name} must be a single one-byte character")))
        }
    };
    if format == CopyFormat::Binary {
        let others = said.delimiter.is_some() || said.null.is_some() || said.header.is_some();
        if others || said.quote.is_some() || said.escape.is_some() {
            return wrong("cannot specify DELIMITER, NULL, HEADER, QUOTE or ESCAPE in BINARY mode");
        }
    }
    if !is_csv && (said.quote.is_some() || said.escape.is_some()) {
        return wrong("COPY quote and escape available only in CSV mode");
    }
    let delimiter = byte(said.delimiter, if is_csv { b',' } else { b'\t' }, "delimiter")?;
    let null = said.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".into() });
    let quote = byte(said.quote, b'"', "quote")?;
    let escape = byte(said.escape, quote, "escape")?;
    if null.contains(['\r', '\n']) {
        return invalid("COPY null representation cannot use newline or carriage return".into());
    }
    if !is_csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
        return invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)));
    }
    if is_csv && delimiter == quote {
        return invalid("COPY delimiter and quote must be different".into());
    }
    if null.as_bytes().contains(&delimiter) || is_csv && null.as_bytes().contains(&quote) {
        return invalid("COPY delimiter or quote character must not appear in the NULL specification".into());
    }
    Ok(CopyOptions { format, delimiter, null, header: said.header.unwrap_or(Header::None), quote, escape })
}

struct Cursor<'a> {
    tokens: &'a [Placed],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn take(&mut self, is_so: impl Fn(&Token) -> bool) -> bool {
        let found = self.peek().is_some_and(is_so);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str) -> bool {
        self.take(|token| token.is(word))
    }

    fn sign(&mut self, sign: char) -> bool {
        self.take(|token| *token == Token::Sign(sign))
    }

    fn name(&mut self) -> Result<String, Fault> {
        match self.peek() {
            Some(Token::Word(name) | Token::Quoted(name)) => {
                self.at += 1;
                Ok(name.clone())
            }
            _ => wrong("a name is expected in COPY"),
        }
    }

    /// What stands behind the name of an option, if anything does.
    fn value(&mut self) -> Result<Option<String>, Fault> {
        match self.peek() {
            None | Some(Token::Sign(',' | ')')) => Ok(None),
            Some(Token::Word(value) | Token::Quoted(value) | Token::Text(value)) => {
                self.at += 1;
                Ok(Some(value.clone()))
            }
            Some(Token::Sign(sign)) if sign.is_ascii_digit() => {
                self.at += 1;
                Ok(Some(sign.to_string()))
            }
            Some(_) => wrong("the value of an option is expected in COPY"),
        }
    }

    fn needed(&mut self, name: &str) -> Result<String, Fault> {
        match self.value()? {
            Some(value) => Ok(value),
            None => wrong(format!("option {name} of COPY needs a value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> CopyStatement {
        copy_statement(sql).unwrap().unwrap()
    }

    #[test]
    fn both_ways_of_writing_options_are_read() {
        let table =
            |schema: Option<&str>, table: &str| TableName { schema: schema.map(Into::into), table: table.into() };
        let copy = of("copy pgbench_accounts from stdin with (freeze on)");
        assert_eq!(copy.what, CopyWhat::From(table(None, "pgbench_accounts"), vec![]));
        assert_eq!(
            (copy.options.format, copy.options.delimiter, copy.options.null.as_str()),
            (CopyFormat::Text, b'\t', "\\N")
        );
        let copy = of("COPY \"S\".t (a, \"B\") FROM STDIN CSV HEADER DELIMITER AS ';' NULL 'x';");
        assert_eq!(copy.what, CopyWhat::From(table(Some("S"), "t"), vec!["a".into(), "B".into()]));
        let CopyOptions { format, delimiter, null, header, quote, escape } = copy.options;
        assert_eq!(
            (format, delimiter, null.as_str(), header, quote, escape),
            (CopyFormat::Csv, b';', "x", Header::Names, b'"', b'"')
        );
        let copy = of("COPY (SELECT ')' FROM t) TO STDOUT (FORMAT binary)");
        assert_eq!(copy.what, CopyWhat::To("SELECT ')' FROM t".into()));
        let copy = of("COPY t (a) TO STDOUT WITH (FORMAT CSV, HEADER, ESCAPE E'\\\\', FREEZE 0)");
        assert_eq!(copy.what, CopyWhat::To("SELECT \"a\" FROM \"t\"".into()));
        assert_eq!(copy.options.escape, b'\\');
    }

    #[test]
    fn what_is_no_copy_with_the_client_is_left_to_the_session() {
        for sql in ["COPY t FROM 'stdin'", "COPY t TO 'a.csv' (FORMAT csv)", "COPY t", "COPY", "COPY (SELECT 1"] {
            assert_eq!(copy_statement(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for sql in [
            "COPY t FROM STDIN (FORCE_NULL (a))",
            "COPY t FROM STDIN WHERE a > 1",
            "COPY t FROM STDIN (FORMAT xml)",
            "COPY t FROM STDIN (HEADER maybe)",
            "COPY t FROM STDIN (FORMAT csv, FORMAT csv)",
            "COPY t FROM STDIN (FORMAT binary, NULL 'x')",
            "COPY t FROM STDIN (QUOTE 'x')",
            "COPY t FROM STDIN (DELIMITER 'ab')",
            "COPY t FROM STDIN (DELIMITER 'a')",
            "COPY t FROM STDIN (ENCODING 'latin1')",
            "COPY t FROM STDIN (FORMAT csv",
            "COPY (SELECT 1) FROM STDIN",
            "COPY t x FROM STDIN",
        ] {
            assert!(copy_statement(sql).is_err(), "{sql}");
        }
    }
}
