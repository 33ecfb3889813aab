//! The language of paths into JSON (`jsonpath`): read, written anew, and followed in a value of `JSONB`.
//!
//! Source: PostgreSQL's manual, 9.16.2, and what PostgreSQL 15 answers. Regular expressions are made by who asks
//! ([`Matcher`]), since JSON knows none.
//!
//! # Limits
//! `.datetime()` is refused. The `id` of `.keyvalue()` numbers arrays and objects in the order in which they stand.

pub(crate) mod find;
mod read;
mod token;
mod write;

use regex::Regex;

use super::exact::Exact;
use super::value::Value;
use crate::error::Result;

/// Makes a regular expression of a pattern and its options, in PostgreSQL's letters.
pub(crate) type Matcher = fn(&str, &str) -> Result<Regex>;

/// A path.
#[derive(Debug)]
pub(crate) struct Path {
    /// Arrays are taken apart and made where a step wants so, and what is not there is no error.
    is_lax: bool,
    chain: Chain,
}

impl Path {
    /// The path that a text means.
    ///
    /// # Errors
    /// A text that is no path, or one that is not supported.
    pub(crate) fn read(text: &str, matcher: Matcher) -> Result<Path> {
        read::path(text, matcher)
    }

    /// As PostgreSQL writes it.
    pub(crate) fn text(&self) -> String {
        write::path(self)
    }
}

/// Where it begins, and the steps from there.
type Chain = Vec<Step>;

#[derive(Debug)]
enum Step {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    Literal(Value),
    /// `$name`
    Variable(String),
    /// `+`, `-`, `*`, `/`, `%`
    Computed(Operation, Chain, Chain),
    Signed(Sign, Chain),
    /// What a condition gives.
    Truth(Box<Condition>),
    /// `.key`
    Key(String),
    /// `.*`
    AnyKey,
    /// `[a, b to c]`
    Elements(Vec<(Chain, Option<Chain>)>),
    /// `[*]`
    AnyElement,
    /// `.**{a to b}`
    Any(Level, Level),
    /// `?(..)`
    Filter(Box<Condition>),
    Method(Method),
}

/// How deep something lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    At(u32),
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Plus,
    Minus,
    Times,
    Over,
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Type,
    Size,
    Double,
    Ceiling,
    Floor,
    Abs,
    KeyValue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
enum Condition {
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    IsUnknown(Box<Condition>),
    Compared(Comparison, Chain, Chain),
    Exists(Chain),
    StartsWith(Chain, Chain),
    Matches { of: Chain, pattern: String, flags: String, regex: Regex },
}

impl Operation {
    fn sql(self) -> &'static str {
        match self {
            Operation::Plus => "+",
            Operation::Minus => "-",
            Operation::Times => "*",
            Operation::Over => "/",
            Operation::Rest => "%",
        }
    }

    fn of(self, left: &Exact, right: &Exact) -> Result<Exact> {
        match self {
            Operation::Plus => Ok(left.plus(right)),
            Operation::Minus => Ok(left.plus(&right.negated())),
            Operation::Times => Ok(left.times(right)),
            Operation::Over => left.over(right),
            Operation::Rest => left.rest(right),
        }
    }
}

impl Sign {
    fn sql(self) -> &'static str {
        match self {
            Sign::Plus => "+",
            Sign::Minus => "-",
        }
    }
}

impl Method {
    const ALL: [Method; 7] =
        [Method::Type, Method::Size, Method::Double, Method::Ceiling, Method::Floor, Method::Abs, Method::KeyValue];

    fn name(self) -> &'static str {
        match self {
            Method::Type => "type",
            Method::Size => "size",
            Method::Double => "double",
            Method::Ceiling => "ceiling",
            Method::Floor => "floor",
            Method::Abs => "abs",
            Method::KeyValue => "keyvalue",
        }
    }
}

impl Comparison {
    fn sql(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}
