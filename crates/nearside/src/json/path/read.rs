//! Paths read: a recursive descent in which what stands in brackets may be a value or a condition.

use super::token::{Token, malformed, tokens};
use super::{Chain, Comparison, Condition, Level, Matcher, Method, Operation, Path, Sign, Step};
use crate::error::{Error, Result};
use crate::json::exact::Exact;
use crate::json::value::Value;
use crate::json::{DEPTH_MAX, fault, too_deep};

use crate::error::codes::SqlState;

/// The path that a text means.
pub(super) fn path(text: &str, matcher: Matcher) -> Result<Path> {
    if text.trim().is_empty() {
        return Err(fault(SqlState::InvalidTextRepresentation, "an empty text is not of type jsonpath"));
    }
    let mut reader = Reader { text, tokens: tokens(text)?, at: 0, depth: 0, subscripts: 0, filters: 0, matcher };
    let is_lax = match reader.word_is("strict") {
        true => false,
        false => {
            reader.word_is("lax");
            true
        }
    };
    let chain = reader.either()?.into_chain();
    match reader.peek() {
        Token::End => Ok(Path { is_lax, chain }),
        _ => reader.wrong(),
    }
}

/// What was read.
enum Read {
    Value(Chain),
    Condition {
        of: Condition,
        /// In brackets, or EXISTS: what may stand behind `!`, and be a value.
        is_closed: bool,
    },
}

impl Read {
    fn into_chain(self) -> Chain {
        match self {
            Read::Value(chain) => chain,
            Read::Condition { of, .. } => vec![Step::Truth(Box::new(of))],
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// How many subscripts, and filters, are open.
    subscripts: usize,
    filters: usize,
    matcher: Matcher,
}

impl Reader<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn wrong<T>(&self) -> Result<T> {
        let what = match self.peek() {
            Token::End => "it ends too soon".to_string(),
            Token::Sign(sign) => format!("'{sign}' does not belong there"),
            Token::Word(text) | Token::Text(text) | Token::Variable(text) | Token::Number(text) => {
                format!("'{text}' does not belong there")
            }
        };
        Err(malformed(self.text, &what))
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Sign(known) if *known == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { self.wrong() }
    }

    /// Takes a word of the language, of which case is no matter.
    fn word_is(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Word(known) if known.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    fn condition(&mut self) -> Result<Condition> {
        match self.either()? {
            Read::Condition { of, .. } => Ok(of),
            Read::Value(_) => self.wrong(),
        }
    }

    /// A value or a condition.
    fn either(&mut self) -> Result<Read> {
        self.depth += 1;
        if self.depth > DEPTH_MAX / 2 {
            return Err(too_deep());
        }
        let mut left = self.all()?;
        while let Read::Condition { of, .. } = left {
            if !self.takes("||") {
                self.depth -= 1;
                return Ok(Read::Condition { of, is_closed: false });
            }
            let Read::Condition { of: right, .. } = self.all()? else { return self.wrong() };
            left = Read::Condition { of: Condition::Or(Box::new(of), Box::new(right)), is_closed: false };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn all(&mut self) -> Result<Read> {
        let mut left = self.negated()?;
        while matches!(left, Read::Condition { .. }) && self.takes("&&") {
            let Read::Condition { of: right, .. } = self.negated()? else { return self.wrong() };
            if let Read::Condition { of, .. } = left {
                left = Read::Condition { of: Condition::And(Box::new(of), Box::new(right)), is_closed: false };
            }
        }
        Ok(left)
    }

    fn negated(&mut self) -> Result<Read> {
        if !self.takes("!") {
            return self.compared();
        }
        match self.primary()? {
            Read::Condition { of, is_closed: true } => {
                Ok(Read::Condition { of: Condition::Not(Box::new(of)), is_closed: false })
            }
            _ => self.wrong(),
        }
    }

    fn compared(&mut self) -> Result<Read> {
        let left = match self.sum()? {
            Read::Value(left) => left,
            condition => return Ok(condition),
        };
        use Comparison as C;
        const SIGNS: [(&str, Comparison); 7] = [
            ("==", C::Equal),
            ("!=", C::NotEqual),
            ("<>", C::NotEqual),
            ("<=", C::LessOrEqual),
            (">=", C::GreaterOrEqual),
            ("<", C::Less),
            (">", C::Greater),
        ];
        for (sign, comparison) in SIGNS {
            if self.takes(sign) {
                let Read::Value(right) = self.sum()? else { return self.wrong() };
                return Ok(open(Condition::Compared(comparison, left, right)));
            }
        }
        if self.word_is("starts") {
            if !self.word_is("with") {
                return self.wrong();
            }
            let with = match self.peek().clone() {
                Token::Text(text) => Step::Literal(Value::Text(text)),
                Token::Variable(name) => Step::Variable(name),
                _ => return self.wrong(),
            };
            self.at += 1;
            return Ok(open(Condition::StartsWith(left, vec![with])));
        }
        if self.word_is("like_regex") {
            let Token::Text(pattern) = self.peek().clone() else { return self.wrong() };
            self.at += 1;
            let flags = match self.word_is("flag") {
                false => String::new(),
                true => {
                    let Token::Text(flags) = self.peek().clone() else { return self.wrong() };
                    self.at += 1;
                    flags
                }
            };
            return self.matching(left, pattern, &flags).map(open);
        }
        Ok(Read::Value(left))
    }

    fn matching(&self, of: Chain, pattern: String, flags: &str) -> Result<Condition> {
        let known = "ismxq";
        if let Some(other) = flags.chars().find(|flag| !known.contains(*flag)) {
            return Err(malformed(self.text, &format!("'{other}' is no flag of LIKE_REGEX")));
        }
        let has = |flag: char| flags.contains(flag);
        if has('x') && !has('q') {
            return Err(Error::Unsupported(
                "the flag \"x\" of LIKE_REGEX is not supported; write the regular expression without blanks".into(),
            ));
        }
        let lines = match (has('s'), has('m')) {
            (false, false) => 'p',
            (false, true) => 'n',
            (true, false) => 's',
            (true, true) => 'w',
        };
        let options = if has('i') { format!("i{lines}") } else { lines.to_string() };
        let regex = match has('q') {
            true => (self.matcher)(&format!("***={pattern}"), if has('i') { "i" } else { "" }),
            false => (self.matcher)(&pattern, &options),
        };
        let flags = known.chars().filter(|flag| has(*flag)).collect();
        Ok(Condition::Matches { of, pattern, flags, regex: regex? })
    }

    fn sum(&mut self) -> Result<Read> {
        let mut left = self.product()?;
        loop {
            let operation = match self.peek() {
                Token::Sign("+") => Operation::Plus,
                Token::Sign("-") => Operation::Minus,
                _ => return Ok(left),
            };
            left = self.computed(left, operation, Reader::product)?;
        }
    }

    fn product(&mut self) -> Result<Read> {
        let mut left = self.signed()?;
        loop {
            let operation = match self.peek() {
                Token::Sign("*") => Operation::Times,
                Token::Sign("/") => Operation::Over,
                Token::Sign("%") => Operation::Rest,
                _ => return Ok(left),
            };
            left = self.computed(left, operation, Reader::signed)?;
        }
    }

    fn computed(&mut self, left: Read, operation: Operation, right: fn(&mut Self) -> Result<Read>) -> Result<Read> {
        let Read::Value(left) = left else { return self.wrong() };
        self.at += 1;
        let Read::Value(right) = right(self)? else { return self.wrong() };
        Ok(Read::Value(vec![Step::Computed(operation, left, right)]))
    }

    fn signed(&mut self) -> Result<Read> {
        let sign = match self.peek() {
            Token::Sign("+") => Sign::Plus,
            Token::Sign("-") => Sign::Minus,
            _ => return self.primary(),
        };
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX / 2 {
            return Err(too_deep());
        }
        let Read::Value(of) = self.signed()? else { return self.wrong() };
        self.depth -= 1;
        // The sign of a number is part of it.
        Ok(Read::Value(match (&of[..], sign) {
            ([Step::Literal(Value::Number(_))], Sign::Plus) => of,
            ([Step::Literal(Value::Number(number))], Sign::Minus) => {
                vec![Step::Literal(Value::Number(Exact::of(number).negated().normal()?))]
            }
            _ => vec![Step::Signed(sign, of)],
        }))
    }

    /// Where a path begins, with its steps; or a condition that is closed.
    fn primary(&mut self) -> Result<Read> {
        if self.takes("(") {
            let inner = self.either()?;
            self.expect(")")?;
            if matches!(inner, Read::Condition { .. }) && self.word_is("is") {
                let Read::Condition { of, .. } = inner else { return self.wrong() };
                if !self.word_is("unknown") {
                    return self.wrong();
                }
                return Ok(open(Condition::IsUnknown(Box::new(of))));
            }
            if !matches!(self.peek(), Token::Sign("." | "[" | "?" | "**")) {
                return Ok(match inner {
                    Read::Condition { of, .. } => Read::Condition { of, is_closed: true },
                    value => value,
                });
            }
            return self.steps(inner.into_chain()).map(Read::Value);
        }
        let first = match self.peek().clone() {
            Token::Sign("$") => Step::Root,
            Token::Sign("@") if self.filters > 0 => Step::Current,
            Token::Sign("@") => return Err(malformed(self.text, "@ is for conditions of filters")),
            Token::Text(text) => Step::Literal(Value::Text(text)),
            Token::Number(number) => Step::Literal(Value::Number(number)),
            Token::Variable(name) => Step::Variable(name),
            Token::Word(word) => match word.as_str() {
                "null" => Step::Literal(Value::Null),
                "true" => Step::Literal(Value::Truth(true)),
                "false" => Step::Literal(Value::Truth(false)),
                word if word.eq_ignore_ascii_case("last") && self.subscripts > 0 => Step::Last,
                word if word.eq_ignore_ascii_case("last") => {
                    return Err(malformed(self.text, "LAST is for subscripts"));
                }
                word if word.eq_ignore_ascii_case("exists") => {
                    self.at += 1;
                    self.expect("(")?;
                    let Read::Value(of) = self.either()? else { return self.wrong() };
                    self.expect(")")?;
                    return Ok(Read::Condition { of: Condition::Exists(of), is_closed: true });
                }
                _ => return self.wrong(),
            },
            _ => return self.wrong(),
        };
        self.at += 1;
        self.steps(vec![first]).map(Read::Value)
    }

    fn steps(&mut self, mut chain: Chain) -> Result<Chain> {
        loop {
            if self.takes("?") {
                self.expect("(")?;
                self.filters += 1;
                let condition = self.condition()?;
                self.filters -= 1;
                self.expect(")")?;
                chain.push(Step::Filter(Box::new(condition)));
            } else if self.takes("[") {
                chain.push(self.subscript()?);
            } else if self.takes(".") {
                chain.push(self.member()?);
            } else {
                return Ok(chain);
            }
        }
    }

    fn subscript(&mut self) -> Result<Step> {
        if self.takes("*") {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut all = Vec::new();
        loop {
            let Read::Value(from) = self.sum()? else { return self.wrong() };
            let to = match self.word_is("to") {
                false => None,
                true => match self.sum()? {
                    Read::Value(to) => Some(to),
                    Read::Condition { .. } => return self.wrong(),
                },
            };
            all.push((from, to));
            if !self.takes(",") {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Step::Elements(all))
    }

    fn member(&mut self) -> Result<Step> {
        if self.takes("**") {
            if !self.takes("{") {
                return Ok(Step::Any(Level::At(0), Level::Last));
            }
            let first = self.level()?;
            let last = if self.word_is("to") { self.level()? } else { first };
            self.expect("}")?;
            return Ok(Step::Any(first, last));
        }
        if self.takes("*") {
            return Ok(Step::AnyKey);
        }
        let step = match self.peek().clone() {
            Token::Text(key) => Step::Key(key),
            Token::Word(word) => {
                let is_call = matches!(self.tokens.get(self.at + 1), Some(Token::Sign("(")));
                let method = Method::ALL.into_iter().find(|of| is_call && word.eq_ignore_ascii_case(of.name()));
                match method {
                    Some(method) => {
                        self.at += 2;
                        return self.expect(")").map(|()| Step::Method(method));
                    }
                    None if is_call && word.eq_ignore_ascii_case("datetime") => {
                        return Err(Error::Unsupported(
                            "the method .datetime() of a path is not supported; cast the text that ->> gives".into(),
                        ));
                    }
                    None => Step::Key(word),
                }
            }
            _ => return self.wrong(),
        };
        self.at += 1;
        Ok(step)
    }

    fn level(&mut self) -> Result<Level> {
        if self.word_is("last") {
            return Ok(Level::Last);
        }
        let Token::Number(number) = self.peek() else { return self.wrong() };
        match number.parse::<i32>() {
            Ok(level) if level >= 0 => {
                self.at += 1;
                Ok(Level::At(level.unsigned_abs()))
            }
            _ => self.wrong(),
        }
    }
}

fn open(of: Condition) -> Read {
    Read::Condition { of, is_closed: false }
}
