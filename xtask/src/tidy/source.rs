//! One Rust file as tidy sees it: the text, the text with comments and literals blanked, and the comments alone.
//!
//! Invariant: all three have the same length and the same line breaks, so an offset or a line number found in one is
//! good in the others. Rules that look for code read `code`, so a word inside a string or a comment never counts.
//!
//! # Limits
//! A lexer, not a parser: macros are not expanded, and braces inside macro bodies are taken as they stand.

use std::ops::Range;

/// One `.rs` file of the repository.
pub struct SourceFile {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// As it is on disk.
    pub text: String,
    /// `text` with comments, strings and character literals replaced by spaces (the quotes of strings stay).
    pub code: String,
    /// `text` with everything but comments replaced by spaces.
    pub comments: String,
    /// Byte ranges of modules under `#[cfg(test)]`; the whole file when it is one of tests.
    tests: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, without path.
    pub name: String,
    /// The line of `fn`, counted from 1.
    pub line: usize,
    /// From the line of `fn` to that of the closing brace, both counted.
    pub lines: usize,
    /// Whether it is test code.
    pub is_test: bool,
}

impl SourceFile {
    /// Reads `text` as the file at `path`.
    pub fn new(path: &str, text: &str) -> SourceFile {
        let (code, comments) = mask(text);
        let mut file = SourceFile { path: path.to_owned(), text: text.to_owned(), code, comments, tests: Vec::new() };
        file.tests = if is_test_path(path) { std::iter::once(0..text.len()).collect() } else { test_modules(&file) };
        file
    }

    /// Whether the whole file is tests, by its place: `tests.rs`, `tests/` or `benches/`.
    pub fn is_test_file(&self) -> bool {
        is_test_path(&self.path)
    }

    /// Whether the byte at `offset` is test code.
    pub fn in_tests(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// The line of a byte offset, counted from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Identifiers and keywords of the code, with their offsets.
    pub fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        words(&self.code)
    }

    /// Every function that has a body, in the order of the file.
    pub fn functions(&self) -> Vec<Function> {
        let bytes = self.code.as_bytes();
        let mut functions = Vec::new();
        let mut words = self.words().peekable();
        while let Some((at, word)) = words.next() {
            if word != "fn" {
                continue;
            }
            // `fn(u32)` is a type, not a function: no name follows.
            let Some(&(name_at, name)) = words.peek() else { break };
            if self.code[at + 2..name_at].trim().is_empty()
                && let Some(open) = body_start(bytes, name_at + name.len())
            {
                let line = self.line_of(at);
                let last = self.line_of(matching_brace(bytes, open));
                let is_test = self.in_tests(at);
                functions.push(Function { name: name.to_owned(), line, lines: last - line + 1, is_test });
            }
        }
        functions
    }
}

/// Identifiers, keywords and numbers of `code` with their offsets.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !is_word(bytes[at]) {
            at += 1;
        }
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        (start < at).then(|| (start, &code[start..at]))
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/benches/")
}

/// The modules under `#[cfg(test)]` or the like.
fn test_modules(file: &SourceFile) -> Vec<Range<usize>> {
    let bytes = file.code.as_bytes();
    let mut modules = Vec::new();
    for (at, _) in file.code.match_indices("#[cfg(") {
        let Some(end) = file.code[at..].find(']').map(|length| at + length) else { continue };
        let condition: Vec<&str> = words(&file.code[at..end]).map(|(_, word)| word).collect();
        if !condition.contains(&"test") || condition.contains(&"not") {
            continue;
        }
        if let Some(open) = body_start(bytes, end + 1) {
            modules.push(at..matching_brace(bytes, open) + 1);
        }
    }
    modules
}

/// The `{` that opens the body of an item whose head goes on at `from`, or `None` when the item ends with `;`.
fn body_start(code: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The `}` of the `{` at `open`; the end of the file when it is missing.
pub fn matching_brace(code: &[u8], open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len() - 1
}

/// What a stretch of the text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StretchKind {
    Code,
    Literal,
    Comment,
}

/// Splits `text` into its code and its comments, each as long as `text` and blank where the other stands.
fn mask(text: &str) -> (String, String) {
    let mut code = String::with_capacity(text.len());
    let mut comments = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (kind, end) = next_stretch(text, at);
        let stretch = &text[at..end];
        match kind {
            StretchKind::Code => code.push_str(stretch),
            // The quotes stay, so that `concat!("a")` does not read like `concat!( )`.
            StretchKind::Literal => code.extend(stretch.bytes().map(|byte| blank_but(byte, b'"'))),
            StretchKind::Comment => code.extend(stretch.bytes().map(|byte| blank_but(byte, b'\n'))),
        }
        if kind == StretchKind::Comment {
            comments.push_str(stretch);
        } else {
            comments.extend(stretch.bytes().map(|byte| blank_but(byte, b'\n')));
        }
        at = end;
    }
    (code, comments)
}

fn blank_but(byte: u8, kept: u8) -> char {
    if byte == kept || byte == b'\n' { char::from(byte) } else { ' ' }
}

/// What begins at `at`, and where it ends. Both are character boundaries.
fn next_stretch(text: &str, at: usize) -> (StretchKind, usize) {
    let bytes = text.as_bytes();
    let rest = &text[at..];
    if rest.starts_with("//") {
        return (StretchKind::Comment, at + rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (StretchKind::Comment, block_comment_end(bytes, at));
    }
    if bytes[at] == b'"' {
        return (StretchKind::Literal, string_end(bytes, at));
    }
    if bytes[at] == b'\'' {
        return character(text, at);
    }
    if is_word(bytes[at]) {
        let end = bytes[at..].iter().position(|&byte| !is_word(byte)).map_or(bytes.len(), |length| at + length);
        if matches!(&text[at..end], "r" | "br" | "cr")
            && let Some(string_end) = raw_string_end(bytes, end)
        {
            return (StretchKind::Literal, string_end);
        }
        return (StretchKind::Code, end);
    }
    (StretchKind::Code, at + 1)
}

/// The end of the block comment at `at`; they nest.
fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The end of the string whose opening quote is at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while next < bytes.len() {
        match bytes[next] {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// The end of a raw string whose prefix (`r`, `br`) ended at `at`, or `None` when it is a raw identifier such as
/// `r#type`.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at..].iter().take_while(|&&byte| byte == b'#').count();
    if bytes.get(at + hashes) != Some(&b'"') {
        return None;
    }
    let close = [&b"\""[..], &vec![b'#'; hashes]].concat();
    let body = at + hashes + 1;
    let length = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(length.map_or(bytes.len(), |length| body + length + close.len()))
}

/// A character literal, or the `'` of a lifetime.
fn character(text: &str, at: usize) -> (StretchKind, usize) {
    let mut following = text[at + 1..].char_indices();
    match following.next() {
        Some((_, '\\')) => {
            // The escaped character may itself be a quote: `'\''`.
            let close = text.get(at + 3..).and_then(|rest| rest.find('\''));
            (StretchKind::Literal, close.map_or(text.len(), |length| at + length + 4))
        }
        Some((_, first)) if text[at + 1 + first.len_utf8()..].starts_with('\'') => {
            (StretchKind::Literal, at + first.len_utf8() + 2)
        }
        _ => (StretchKind::Code, at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_no_code() {
        let text = r####"
            let a = "unsafe \" // x"; // unsafe "
            let b = r##"unsafe "# "##; /* unsafe /* nested */ unsafe */ let c = '"'; let d = '\'';
            let e: &'static str = b"unsafe";
            let r#type = 'ü'; fn f<'a>(x: &'a str) {}
        "####;
        let file = SourceFile::new("a.rs", text);
        assert_eq!(file.code.len(), text.len());
        assert_eq!(file.comments.len(), text.len());
        assert_eq!(file.words().filter(|(_, word)| *word == "unsafe").count(), 0, "{}", file.code);
        for word in ["let", "static", "type", "fn", "str"] {
            assert!(file.words().any(|(_, found)| found == word), "{word} is code: {}", file.code);
        }
        assert_eq!(file.comments.matches("unsafe").count(), 3);
        assert_eq!(file.code.lines().count(), text.lines().count());
    }

    #[test]
    fn functions_are_measured_with_their_signatures() {
        let text = "trait T {\n    fn declared(&self);\n}\nfn long(\n    a: [u8; 2],\n) -> u8 {\n    a[0]\n}\ntype F = \
                    fn(u8);\n\
                    #[cfg(test)]\nmod tests {\n    fn inside() {}\n}\n";
        let functions = SourceFile::new("crates/a/src/lib.rs", text).functions();
        let expected = [
            Function { name: "long".into(), line: 4, lines: 5, is_test: false },
            Function { name: "inside".into(), line: 12, lines: 1, is_test: true },
        ];
        assert_eq!(functions, expected);
    }

    #[test]
    fn tests_are_known_by_place_and_by_attribute() {
        let file = SourceFile::new(
            "a.rs",
            "fn a() {}\n#[cfg(all(test, unix))]\nmod t { fn b() {} }\n#[cfg(not(test))]\nfn c() {}\n",
        );
        let at = |needle: &str| file.text.find(needle).unwrap();
        assert!(!file.in_tests(at("fn a")));
        assert!(file.in_tests(at("fn b")));
        assert!(!file.in_tests(at("fn c")));
        assert!(SourceFile::new("crates/a/tests/it/main.rs", "fn a() {}").in_tests(3));
        assert!(SourceFile::new("crates/a/src/queue/tests.rs", "").is_test_file());
    }
}
