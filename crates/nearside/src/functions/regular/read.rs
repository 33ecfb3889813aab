//! From PostgreSQL's notation.

use datafusion_common::Result;

use super::{Node, Regular, Set};
use crate::error::value_err;

/// Most times that a bound may say.
const TIMES_MAX: u32 = 255;

/// The pattern; `options` are those of a function's flags that are about the pattern.
///
/// # Errors
/// What is no pattern, and what is not supported, by its name.
pub(in crate::functions) fn read(pattern: &str, options: &str) -> Result<Regular> {
    let mut modes = Modes::default();
    for option in options.chars() {
        modes.set(option, pattern)?;
    }
    let mut rest = pattern;
    if let Some(literal) = pattern.strip_prefix("***=") {
        let parts = literal.chars().map(|c| modes.one(c)).collect();
        return Ok(Regular { node: Node::Concat(parts), any_case: modes.any_case });
    }
    if let Some(behind) = pattern.strip_prefix("***:") {
        rest = behind;
    }
    if let Some((letters, behind)) = rest.strip_prefix("(?").and_then(|options| options.split_once(')'))
        && !letters.is_empty()
        && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
    {
        for option in letters.chars() {
            modes.set(option, pattern)?;
        }
        rest = behind;
    }
    let mut reader = Reader { pattern, chars: rest.chars().collect(), at: 0, modes };
    let node = reader.alternatives()?;
    match reader.peek() {
        None => Ok(Regular { node, any_case: modes.any_case }),
        Some(_) => reader.refused("a bracket is closed that was not opened"),
    }
}

/// What options change.
#[derive(Debug, Clone, Copy, Default)]
struct Modes {
    any_case: bool,
    /// `.` and sets of what is not in them stop at the end of a line.
    stops: bool,
    /// `^` and `$` are about lines.
    lines: bool,
}

impl Modes {
    fn set(&mut self, option: char, pattern: &str) -> Result<()> {
        match option {
            'i' => self.any_case = true,
            'c' => self.any_case = false,
            's' => (self.stops, self.lines) = (false, false),
            'n' | 'm' => (self.stops, self.lines) = (true, true),
            'p' => (self.stops, self.lines) = (true, false),
            'w' => (self.stops, self.lines) = (false, true),
            other => {
                return value_err!(
                    InvalidParameterValue,
                    "regular expression '{pattern}': the option '{other}' is not supported; there are i, c, s, n, m, p \
                     and w"
                );
            }
        }
        Ok(())
    }

    /// A character that stands for itself.
    fn one(&self, c: char) -> Node {
        let mut text = String::new();
        push_literal(&mut text, c);
        self.of(Set::of(c), text)
    }

    fn of(&self, set: Set, text: String) -> Node {
        Node::One(if self.any_case { set.any_case() } else { set }, text)
    }
}

fn push_literal(to: &mut String, c: char) {
    if c.is_ascii() && !c.is_ascii_alphanumeric() {
        to.push_str(&format!("\\x{:02X}", c as u32));
    } else {
        to.push(c);
    }
}

/// A class of characters, and how it is written within brackets.
fn class(name: &str) -> Option<(Set, &'static str)> {
    let of = |is: fn(&char) -> bool| {
        let ascii = (0..128u8).map(char::from).filter(is).fold(0, |all, c| all | 1u128 << (c as u32));
        Set { ascii, others: true }
    };
    let ascii_only = |set: Set| Set { others: false, ..set };
    Some(match name {
        "alpha" => (of(char::is_ascii_alphabetic), r"\p{Alphabetic}"),
        "digit" => (ascii_only(of(char::is_ascii_digit)), "0-9"),
        "alnum" => (of(char::is_ascii_alphanumeric), r"\p{Alphabetic}\p{Nd}"),
        "word" => (of(|c| c.is_ascii_alphanumeric() || *c == '_'), r"\p{Alphabetic}\p{Nd}_"),
        "space" => (of(|c| c.is_ascii_whitespace() || *c == '\x0B'), r"\s"),
        "blank" => (ascii_only(of(|c| matches!(c, ' ' | '\t'))), r"\x20\x09"),
        "upper" => (of(char::is_ascii_uppercase), r"\p{Uppercase}"),
        "lower" => (of(char::is_ascii_lowercase), r"\p{Lowercase}"),
        "punct" => (of(char::is_ascii_punctuation), r"[:punct:]\p{P}\p{S}"),
        "cntrl" => (of(char::is_ascii_control), r"\p{Cc}"),
        "xdigit" => (ascii_only(of(char::is_ascii_hexdigit)), "0-9A-Fa-f"),
        _ => return None,
    })
}

/// The class that `\d` and its like mean, and whether it is turned round.
fn shorthand(letter: char) -> Option<(&'static str, bool)> {
    Some(match letter {
        'd' => ("digit", false),
        's' => ("space", false),
        'w' => ("word", false),
        'D' => ("digit", true),
        'S' => ("space", true),
        'W' => ("word", true),
        _ => return None,
    })
}

struct Reader<'a> {
    pattern: &'a str,
    chars: Vec<char>,
    at: usize,
    modes: Modes,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    /// Goes on behind a text if it stands here.
    fn skip(&mut self, text: &str) -> bool {
        let stands = text.chars().enumerate().all(|(place, c)| self.chars.get(self.at + place) == Some(&c));
        self.at += if stands { text.chars().count() } else { 0 };
        stands
    }

    fn refused<T>(&self, why: &str) -> Result<T> {
        value_err!(InvalidRegularExpression, "regular expression '{}': {why}", self.pattern)
    }

    fn alternatives(&mut self) -> Result<Node> {
        let mut branches = vec![self.branch()?];
        while self.skip("|") {
            branches.push(self.branch()?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternatives(branches) })
    }

    fn branch(&mut self) -> Result<Node> {
        let mut parts = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            if matches!(c, '*' | '+' | '?') || self.bound_begins() {
                return self.refused("a quantifier has nothing to repeat");
            }
            let atom = self.atom()?;
            parts.push(self.repeated(atom)?);
        }
        Ok(Node::Concat(parts))
    }

    /// Does a `{` with a number behind it stand here? Any other is a character.
    fn bound_begins(&self) -> bool {
        self.peek() == Some('{') && self.chars.get(self.at + 1).is_some_and(char::is_ascii_digit)
    }

    fn repeated(&mut self, atom: Node) -> Result<Node> {
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') if self.bound_begins() => {
                self.at += 1;
                let least = self.number()?;
                let most = match self.skip(",") {
                    true if self.peek() == Some('}') => None,
                    true => Some(self.number()?),
                    false => Some(least),
                };
                if self.peek() != Some('}') || most.is_some_and(|most| most < least) {
                    return self.refused("the bounds of a repetition are {m}, {m,} or {m,n} with m <= n <= 255");
                }
                (least, most)
            }
            _ => return Ok(atom),
        };
        self.at += 1;
        if matches!(atom, Node::Place(_)) {
            return self.refused("a quantifier has nothing to repeat");
        }
        // Of a fixed number of times there is no more and no less.
        let lazy = self.skip("?") && most != Some(least);
        if matches!(self.peek(), Some('*' | '+' | '?')) || self.bound_begins() {
            return self.refused("a quantifier follows another; put the first into brackets");
        }
        Ok(Node::Repeat { inner: Box::new(atom), least, most, lazy })
    }

    fn number(&mut self) -> Result<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.at += 1;
        }
        match digits.parse::<u32>() {
            Ok(number) if number <= TIMES_MAX => Ok(number),
            _ => self.refused("the bounds of a repetition are {m}, {m,} or {m,n} with m <= n <= 255"),
        }
    }

    fn atom(&mut self) -> Result<Node> {
        let Some(c) = self.next() else { return self.refused("it ends too early") };
        Ok(match c {
            '.' if self.modes.stops => self.modes.of(Set::of('\n').not(), r"[^\n]".into()),
            '.' => self.modes.of(Set::ALL, ".".into()),
            '^' => Node::Place(if self.modes.lines { "(?m:^)" } else { "^" }),
            '$' => Node::Place(if self.modes.lines { "(?m:$)" } else { "$" }),
            '[' => self.brackets()?,
            '(' => self.group()?,
            '\\' => self.escape()?,
            c => self.modes.one(c),
        })
    }

    fn group(&mut self) -> Result<Node> {
        let mut captures = true;
        if self.skip("?") {
            captures = false;
            match self.next() {
                Some(':') => {}
                Some('=' | '!' | '<') => return self.refused("look-around, (?=..) and the like, is not supported"),
                _ => return self.refused("(? begins nothing that is supported but (?:..) and, in front, options"),
            }
        }
        let inner = Box::new(self.alternatives()?);
        match self.next() {
            Some(')') => Ok(Node::Group { captures, inner }),
            _ => self.refused("a bracket is opened that is not closed"),
        }
    }

    /// Behind a backslash.
    fn escape(&mut self) -> Result<Node> {
        let Some(c) = self.next() else { return self.refused("it ends with a backslash") };
        if let Some((name, negated)) = shorthand(c) {
            let Some((set, text)) = class(name) else { return self.refused("unknown class") };
            let line = if negated && self.modes.stops { r"\n" } else { "" };
            let set = if negated { set.not() } else { set };
            return Ok(self.modes.of(set, format!("[{}{text}{line}]", if negated { "^" } else { "" })));
        }
        Ok(match c {
            'A' => Node::Place(r"\A"),
            'Z' => Node::Place(r"\z"),
            'm' => Node::Place(r"\b{start}"),
            'M' => Node::Place(r"\b{end}"),
            'y' => Node::Place(r"\b"),
            'Y' => Node::Place(r"\B"),
            '1'..='9' => return self.refused("back references, \\1 and the like, are not supported"),
            c => {
                let c = self.character(c)?;
                self.modes.one(c)
            }
        })
    }

    /// The one character that a backslash and what is behind it mean.
    fn character(&mut self, c: char) -> Result<char> {
        Ok(match c {
            'a' => '\x07',
            'b' => '\x08',
            'B' => '\\',
            'e' => '\x1B',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0B',
            'c' => match self.next() {
                Some(c) => char::from_u32(c as u32 & 0x1F).unwrap_or(c),
                None => return self.refused("it ends with \\c"),
            },
            'u' => self.coded(4)?,
            'U' => self.coded(8)?,
            'x' => self.coded(usize::MAX)?,
            '0' => {
                let mut code = 0;
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.at += 1;
                }
                char::from_u32(code).unwrap_or('\0')
            }
            c if c.is_ascii_alphanumeric() => return self.refused(&format!("\\{c} means nothing")),
            c => c,
        })
    }

    /// A character by its number, in `digits` hexadecimal digits or as many as there are.
    fn coded(&mut self, digits: usize) -> Result<char> {
        let mut code: u32 = 0;
        let mut read = 0;
        while read < digits
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(16))
        {
            code = code.saturating_mul(16).saturating_add(digit);
            read += 1;
            self.at += 1;
        }
        let all = if digits == usize::MAX { read > 0 } else { read == digits };
        match char::from_u32(code).filter(|_| all) {
            Some(c) => Ok(c),
            None => self.refused("\\x, \\u and \\U take the number of a character in hexadecimal digits"),
        }
    }

    /// Behind a `[`.
    fn brackets(&mut self) -> Result<Node> {
        let negated = self.skip("^");
        let mut set = Set::default();
        let mut text = String::new();
        let mut first = true;
        loop {
            let Some(c) = self.next() else { return self.refused("a [ is not closed") };
            if c == ']' && !first {
                break;
            }
            first = false;
            if c == '[' && matches!(self.peek(), Some('.' | '=')) {
                return self.refused("[. .] and [= =] within brackets are not supported");
            }
            if c == '[' && self.peek() == Some(':') {
                self.at += 1;
                let rest: String = self.chars[self.at..].iter().collect();
                let Some((name, _)) = rest.split_once(":]") else { return self.refused("a [: is not closed") };
                let Some((class, written)) = class(name) else {
                    return self.refused(&format!("the class [:{name}:] is not supported"));
                };
                self.at += name.chars().count() + 2;
                set = set.or(class);
                text.push_str(written);
                continue;
            }
            if c == '\\' {
                let Some(letter) = self.peek() else { return self.refused("it ends with a backslash") };
                if let Some((name, turned)) = shorthand(letter) {
                    let Some((class, written)) = class(name) else { return self.refused("unknown class") };
                    self.at += 1;
                    set = set.or(if turned { class.not() } else { class });
                    text.push_str(&if turned { format!("[^{written}]") } else { written.to_string() });
                    continue;
                }
            }
            let low = self.bracket_character(c)?;
            let is_range = self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']');
            if !is_range {
                set = set.or(Set::of(low));
                push_literal(&mut text, low);
                continue;
            }
            self.at += 1;
            let Some(c) = self.next() else { return self.refused("a [ is not closed") };
            let high = self.bracket_character(c)?;
            if high < low {
                return self.refused("a range within brackets ends before it begins");
            }
            set =
                (0..128u8).map(char::from).filter(|c| (low..=high).contains(c)).fold(set, |set, c| set.or(Set::of(c)));
            set.others |= !high.is_ascii();
            push_literal(&mut text, low);
            text.push('-');
            push_literal(&mut text, high);
        }
        let line = if negated && self.modes.stops { r"\n" } else { "" };
        let set = if self.modes.any_case { set.any_case() } else { set };
        let set = if negated { set.not() } else { set };
        Ok(Node::One(set, format!("[{}{text}{line}]", if negated { "^" } else { "" })))
    }

    fn bracket_character(&mut self, c: char) -> Result<char> {
        if c != '\\' {
            return Ok(c);
        }
        match self.next() {
            Some(escaped) => self.character(escaped),
            None => self.refused("it ends with a backslash"),
        }
    }
}
