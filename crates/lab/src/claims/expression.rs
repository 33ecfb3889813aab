//! What a claim is about, as an expression over named points: `bound.throughput / os.throughput`.
//!
//! ```text
//! comparison := sum ( ">" | ">=" | "~" ) sum
//! sum        := product ( ("+" | "-") product )*
//! product    := factor ( ("*" | "/") factor )*
//! factor     := number | point "." metric | "(" sum ")"
//! ```
//!
//! Invariants: an expression that names a point or metric that is not there is refused when it is read; a figure that a
//! point does not have makes the whole expression unknown, never zero.
//!
//! # Limits
//! Metrics are named with their hyphens, so a minus stands between spaces.

use std::fmt;

use serde::Deserialize;

use crate::result::Metric;

/// What seeds and lengths of runs move a throughput by: `>` must exceed it, `>=` may fall behind by it.
const NOISE: f64 = 0.02;
/// What counts as equal: as for ratio claims.
pub(super) const CLOSE: f64 = 0.10;

/// An arithmetic expression over the figures of points.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Expression {
    text: String,
    root: Term,
}

/// A comparison of two expressions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Comparison {
    text: String,
    left: Term,
    relation: Relation,
    right: Term,
}

/// How two figures must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The left one is larger, by more than the noise of runs (2%).
    Above,
    /// The left one is larger, or smaller by no more than the noise of runs (2%).
    NotBelow,
    /// They differ by at most 10%.
    Close,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    Figure(String, Metric),
    Binary(Box<Term>, char, Box<Term>),
}

/// Gives the figures of points by name.
pub(super) type Lookup<'a> = &'a dyn Fn(&str, Metric) -> Option<f64>;

impl Expression {
    /// Its value; `None` where a figure is missing or something is divided by zero.
    pub(super) fn value(&self, figures: Lookup<'_>) -> Option<f64> {
        self.root.value(figures)
    }

    /// The points that it names.
    pub(super) fn points(&self) -> Vec<&str> {
        let mut all = Vec::new();
        self.root.points(&mut all);
        all
    }
}

impl Comparison {
    /// Both sides and whether it holds; `None` where a figure is missing.
    pub(super) fn judge(&self, figures: Lookup<'_>) -> Option<(f64, f64, bool)> {
        let left = self.left.value(figures)?;
        let right = self.right.value(figures)?;
        let holds = match self.relation {
            Relation::Above => left > right + NOISE * right.abs(),
            Relation::NotBelow => left >= right * (1.0 - NOISE),
            Relation::Close => (left - right).abs() <= CLOSE * left.abs().max(right.abs()),
        };
        Some((left, right, holds))
    }

    /// The points that it names.
    pub(super) fn points(&self) -> Vec<&str> {
        let mut all = Vec::new();
        self.left.points(&mut all);
        self.right.points(&mut all);
        all
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Expression, String> {
        let mut reader = Reader::new(&text);
        let root = reader.sum()?;
        reader.end()?;
        Ok(Expression { text, root })
    }
}

impl TryFrom<String> for Comparison {
    type Error = String;

    fn try_from(text: String) -> Result<Comparison, String> {
        let mut reader = Reader::new(&text);
        let left = reader.sum()?;
        let relation = match reader.next() {
            Some(">") => Relation::Above,
            Some(">=") => Relation::NotBelow,
            Some("~") => Relation::Close,
            other => return Err(format!("'{text}': expected '>', '>=' or '~', not '{}'", other.unwrap_or("the end"))),
        };
        let right = reader.sum()?;
        reader.end()?;
        Ok(Comparison { text, left, relation, right })
    }
}

impl Term {
    fn value(&self, figures: Lookup<'_>) -> Option<f64> {
        let value = match self {
            Term::Number(number) => *number,
            Term::Figure(point, metric) => figures(point, *metric)?,
            Term::Binary(left, sign, right) => {
                let left = left.value(figures)?;
                let right = right.value(figures)?;
                match sign {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        };
        value.is_finite().then_some(value)
    }

    fn points<'a>(&'a self, all: &mut Vec<&'a str>) {
        match self {
            Term::Number(_) => {}
            Term::Figure(point, _) => all.push(point),
            Term::Binary(left, _, right) => {
                left.points(all);
                right.points(all);
            }
        }
    }
}

/// Reads words one after the other.
struct Reader<'a> {
    text: &'a str,
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(inner) = rest.strip_prefix('(') {
                words.push("(");
                rest = inner;
            }
            let inner = rest.trim_end_matches(')');
            if !inner.is_empty() {
                words.push(inner);
            }
            words.extend(std::iter::repeat_n(")", rest.len() - inner.len()));
        }
        Reader { text, words: words.into_iter().peekable() }
    }

    fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    fn sum(&mut self) -> Result<Term, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&["+", "-"]) {
            left = Term::Binary(Box::new(left), sign, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Term, String> {
        let mut left = self.factor()?;
        while let Some(sign) = self.sign(&["*", "/"]) {
            left = Term::Binary(Box::new(left), sign, Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn sign(&mut self, of: &[&str]) -> Option<char> {
        let word = *self.words.peek()?;
        if !of.contains(&word) {
            return None;
        }
        self.words.next();
        word.chars().next()
    }

    fn factor(&mut self) -> Result<Term, String> {
        let wrong = |what: &str| format!("'{}': {what}", self.text);
        let Some(word) = self.words.next() else { return Err(wrong("ends where a figure is expected")) };
        if word == "(" {
            let inner = self.sum()?;
            return match self.words.next() {
                Some(")") => Ok(inner),
                _ => Err(format!("'{}': a bracket is not closed", self.text)),
            };
        }
        if let Ok(number) = word.parse::<f64>() {
            return Ok(Term::Number(number));
        }
        let Some((point, metric)) = word.split_once('.') else {
            return Err(wrong(&format!("'{word}' is neither a number nor point.metric")));
        };
        let metric = Metric::named(metric).ok_or_else(|| wrong(&format!("there is no metric '{metric}'")))?;
        Ok(Term::Figure(point.to_string(), metric))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(format!("'{}': '{word}' is too much", self.text)),
        }
    }
}
