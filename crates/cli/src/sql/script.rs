//! Splitting text into SQL statements and backslash commands, as the text arrives.
//!
//! A statement ends at a `;` that stands outside strings, quoted names and comments. A backslash command (`\d`) starts
//! where a statement could start and ends with its line. Each piece knows the line on which it starts, so that an error
//! in a script can say where.
//!
//! Text is pushed in whole lines (the last may lack its line feed): two-character tokens never straddle two pushes.
//!
//! # Limits
//! The splitter knows the quoting of SQL (`'it''s'`, `E'it\'s'`, `"name"`, `$$text$$`, `--`, nested `/* */`), not its
//! grammar.

/// One piece of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What to run: SQL without its `;`, or a backslash command without its line feed. Never blank.
    pub text: String,
    /// The line on which `text` starts, from 1.
    pub line: usize,
    /// The character of that line at which it starts, from 1.
    pub column: usize,
    /// A backslash command rather than SQL.
    pub command: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A quoted string; `true` where a backslash escapes (`E'..'`).
    String(bool),
    Name,
    LineComment,
    BlockComment(usize),
    /// A dollar-quoted string with its delimiter, such as `$body$`.
    Dollar(String),
}

/// Takes text, gives statements.
#[derive(Debug)]
pub struct Splitter {
    text: String,
    /// Everything before this byte has been looked at.
    at: usize,
    /// Line and character of `text`'s first byte, from 1.
    line: usize,
    column: usize,
    /// The first byte of the statement that is not blank or comment, once one was seen.
    start: Option<usize>,
    inside: Inside,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter { text: String::new(), at: 0, line: 1, column: 1, start: None, inside: Inside::Nothing }
    }
}

impl Splitter {
    /// Adds text, in whole lines but for the last.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The next complete statement, if the text so far holds one.
    pub fn next_complete(&mut self) -> Option<Statement> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if self.inside == Inside::Nothing && self.start.is_none() && rest.starts_with('\\') {
                let end = rest.find('\n').map(|i| self.at + i)?;
                return Some(self.take(self.at, end, end + 1, true));
            }
            if self.inside == Inside::Nothing && rest.starts_with(';') {
                let start = self.start;
                let end = self.at;
                match start {
                    Some(start) => return Some(self.take(start, end, end + 1, false)),
                    None => self.discard(end + 1),
                }
                continue;
            }
            self.step();
        }
        None
    }

    /// What remains when no more text will come: a last statement without its `;`.
    pub fn finish(&mut self) -> Option<Statement> {
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        if let Some(statement) = self.next_complete() {
            return Some(statement);
        }
        let end = self.text.len();
        let rest = match self.start {
            // An unclosed string or comment goes to the parser, whose error says what is missing.
            Some(start) => Some(self.take(start, end, end, false)),
            None if matches!(self.inside, Inside::BlockComment(_)) => Some(self.take(0, end, end, false)),
            None => None,
        };
        *self = Splitter { line: self.line, column: self.column, ..Splitter::default() };
        rest.filter(|statement| !statement.text.is_empty())
    }

    /// Whether nothing but blanks and comments waits for its end.
    pub fn is_empty(&self) -> bool {
        self.start.is_none() && !matches!(self.inside, Inside::BlockComment(_))
    }

    fn take(&mut self, start: usize, end: usize, next: usize, command: bool) -> Statement {
        let (line, column) = self.place(start);
        let text = self.text[start..end].trim_end().to_string();
        self.discard(next);
        Statement { text, line, column, command }
    }

    fn discard(&mut self, next: usize) {
        let next = next.min(self.text.len());
        (self.line, self.column) = self.place(next);
        self.text.drain(..next);
        self.at = 0;
        self.start = None;
        self.inside = Inside::Nothing;
    }

    /// Line and character of a byte of `text`.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at];
        let line = self.line + before.bytes().filter(|&b| b == b'\n').count();
        match before.rfind('\n') {
            Some(end) => (line, before[end + 1..].chars().count() + 1),
            None => (line, self.column + before.chars().count()),
        }
    }

    /// Looks at the token at `at` and moves behind it.
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let (length, inside) = match &self.inside {
            Inside::Nothing => self.step_outside(rest, first),
            Inside::String(escapes) => match rest.as_bytes() {
                [b'\\', ..] if *escapes => (2, None),
                [b'\'', b'\'', ..] => (2, None),
                [b'\'', ..] => (1, Some(Inside::Nothing)),
                _ => (first, None),
            },
            Inside::Name if rest.starts_with('"') => (1, Some(Inside::Nothing)),
            Inside::LineComment if rest.starts_with('\n') => (1, Some(Inside::Nothing)),
            Inside::Name | Inside::LineComment => (first, None),
            Inside::BlockComment(depth) if rest.starts_with("/*") => (2, Some(Inside::BlockComment(depth + 1))),
            Inside::BlockComment(1) if rest.starts_with("*/") => (2, Some(Inside::Nothing)),
            Inside::BlockComment(depth) if rest.starts_with("*/") => (2, Some(Inside::BlockComment(depth - 1))),
            Inside::BlockComment(_) => (first, None),
            Inside::Dollar(tag) if rest.starts_with(tag.as_str()) => (tag.len(), Some(Inside::Nothing)),
            Inside::Dollar(_) => (first, None),
        };
        let blank = rest.starts_with(char::is_whitespace);
        let comment = |inside: &Inside| matches!(inside, Inside::LineComment | Inside::BlockComment(_));
        let in_comment = comment(&self.inside) || inside.as_ref().is_some_and(comment);
        if self.start.is_none() && !blank && !in_comment {
            self.start = Some(self.at);
        }
        if let Some(inside) = inside {
            self.inside = inside;
        }
        // An escape at the end of the text may ask for one byte too many, or stand before a wide character.
        let mut next = (self.at + length).min(self.text.len());
        while !self.text.is_char_boundary(next) {
            next += 1;
        }
        self.at = next;
    }

    fn step_outside(&self, rest: &str, first: usize) -> (usize, Option<Inside>) {
        let before = self.text[..self.at].chars().next_back();
        let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
        match rest.as_bytes() {
            [b'\'', ..] => {
                let word = self.text[..self.at].strip_suffix(['e', 'E']);
                let escapes = word.is_some_and(|word| !in_word(word.chars().next_back()));
                (1, Some(Inside::String(escapes)))
            }
            [b'"', ..] => (1, Some(Inside::Name)),
            [b'-', b'-', ..] => (2, Some(Inside::LineComment)),
            [b'/', b'*', ..] => (2, Some(Inside::BlockComment(1))),
            [b'$', ..] if !in_word(before) => match dollar_tag(rest) {
                Some(tag) => (tag.len(), Some(Inside::Dollar(tag.to_string()))),
                None => (1, None),
            },
            _ => (first, None),
        }
    }
}

/// `$$` or `$tag$` at the start of `rest`; not `$1`, which is a parameter.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = 1 + rest[1..].find('$')?;
    let tag = &rest[1..end];
    let word = tag.chars().all(|c| c.is_alphanumeric() || c == '_') && !tag.starts_with(|c: char| c.is_ascii_digit());
    word.then(|| &rest[..=end])
}

/// Every statement of a whole text.
pub fn split(text: &str) -> Vec<Statement> {
    let mut splitter = Splitter::default();
    splitter.push(text);
    let mut statements: Vec<Statement> = std::iter::from_fn(|| splitter.next_complete()).collect();
    while let Some(statement) = splitter.finish() {
        statements.push(statement);
    }
    statements
}

/// Whether Enter should run `text` rather than start another line of it: every statement has its `;`.
pub fn is_complete(text: &str) -> bool {
    let mut splitter = Splitter::default();
    splitter.push(text);
    splitter.push("\n");
    while splitter.next_complete().is_some() {}
    splitter.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split(script).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn statements_end_at_semicolons_outside_quotes() {
        assert_eq!(texts("select 1; select 2"), ["select 1", "select 2"]);
        assert_eq!(texts("select ';'; select \";\";"), ["select ';'", "select \";\""]);
        assert_eq!(texts("select 'it''s;'; x"), ["select 'it''s;'", "x"]);
        assert_eq!(texts(r"select E'\';'; x"), [r"select E'\';'", "x"]);
        // Without E a backslash is a character like any other.
        assert_eq!(texts(r"select '\'; x"), [r"select '\'", "x"]);
        assert_eq!(texts("select 'é'='é;'; x"), ["select 'é'='é;'", "x"]);
        assert_eq!(texts("select é'x;'; x"), ["select é'x;'", "x"]);
        // The e ends a word here.
        assert_eq!(texts(r"select date'\'; x"), [r"select date'\'", "x"]);
        assert_eq!(texts("select $$;$$; x"), ["select $$;$$", "x"]);
        assert_eq!(texts("select $a$;$$;$a$; x"), ["select $a$;$$;$a$", "x"]);
        assert_eq!(texts("select $1; x"), ["select $1", "x"]);
        assert_eq!(texts("select $1 + $2; x"), ["select $1 + $2", "x"]);
        assert_eq!(texts("select a -- ; b\n + 1; x"), ["select a -- ; b\n + 1", "x"]);
        assert_eq!(texts("select /* ; /* ; */ ; */ 1; x"), ["select /* ; /* ; */ ; */ 1", "x"]);
    }

    #[test]
    fn blanks_and_comments_alone_are_nothing() {
        for script in ["", " \n", ";;;", "-- hello", "/* x */", "-- a\n;/* b */;", "\n\n;\n"] {
            assert_eq!(split(script), [], "{script:?}");
        }
    }

    #[test]
    fn leading_comments_do_not_move_the_line() {
        let statements = split("-- head\n\nselect 1;\n/* two\nlines */ select\n2; select 3\n;");
        let places: Vec<_> = statements.iter().map(|s| (s.text.as_str(), s.line, s.column)).collect();
        assert_eq!(places, [("select 1", 3, 1), ("select\n2", 5, 10), ("select 3", 6, 4)]);
    }

    #[test]
    fn backslash_commands_end_with_their_line() {
        let statements = split("\\timing\nselect 1\n\\d;\n  \\d t\nselect '\n\\q\n';\n\\q");
        let found: Vec<_> = statements.iter().map(|s| (s.text.as_str(), s.line, s.command)).collect();
        assert_eq!(
            found,
            [
                ("\\timing", 1, true),
                ("select 1\n\\d", 2, false),
                ("\\d t", 4, true),
                ("select '\n\\q\n'", 5, false),
                ("\\q", 8, true)
            ]
        );
    }

    #[test]
    fn unclosed_text_is_handed_on_for_the_parser_to_refuse() {
        assert_eq!(texts("select 'a; b"), ["select 'a; b"]);
        assert_eq!(texts("/* a; b").len(), 1);
        assert_eq!(texts("select \"a"), ["select \"a"]);
        assert_eq!(texts("select E'\\").len(), 1);
        assert_eq!(texts("select E'\\é").len(), 1);
    }

    #[test]
    fn text_may_come_line_by_line() {
        let script = "select 1;\nselect\n 'a\n;b'\n; -- x\n\\d\nselect 3;";
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for line in script.split_inclusive('\n') {
            splitter.push(line);
            while let Some(statement) = splitter.next_complete() {
                found.push(statement);
            }
        }
        found.extend(splitter.finish());
        assert_eq!(found, split(script));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn completeness_is_what_the_prompt_asks() {
        for text in ["select 1;", "\\d", "", "  ", "-- x", "select 1; select 2;", "select ';';"] {
            assert!(is_complete(text), "{text:?}");
        }
        for text in ["select 1", "select 1; select 2", "select ';", "/* x", "select $$;"] {
            assert!(!is_complete(text), "{text:?}");
        }
    }
}
