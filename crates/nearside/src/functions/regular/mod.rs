//! PostgreSQL's regular expressions (its "advanced" ones), read and written anew in the notation of the engine that
//! runs them, and whether both find the same text.
//!
//! *Whether* a text matches is the same question in both. *What* is matched is not: PostgreSQL takes the longest match
//! at the leftmost place (the shortest, if the first quantifier is lazy), the engine the first that its alternatives
//! and quantifiers come to. [`Regular::finds_the_same`] says when these cannot differ; all else is refused where the
//! matched text is asked for. Source: PostgreSQL's manual, 9.7.3, above all 9.7.3.5.
//!
//! # Limits
//! Back references, look-around, `(?#..)`, collating elements, `[[:graph:]]` and options but `(?i)`, `(?c)`, `(?s)`,
//! `(?n)`, `(?m)`, `(?p)` and `(?w)` are refused. Letters without regard to case are those of Unicode.

mod read;
mod same;

pub(super) use read::read;

/// What every pattern begins with that was written anew, and none that PostgreSQL reads.
pub(super) const WRITTEN: &str = "(?s-x)";

/// A pattern.
#[derive(Debug)]
pub(super) struct Regular {
    node: Node,
    /// Letters are equal whatever their case.
    any_case: bool,
}

/// Which characters; those beyond ASCII are told apart by nobody here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Set {
    ascii: u128,
    others: bool,
}

impl Set {
    const ALL: Set = Set { ascii: u128::MAX, others: true };

    fn of(c: char) -> Set {
        if c.is_ascii() { Set { ascii: 1 << (c as u32), others: false } } else { Set { ascii: 0, others: true } }
    }

    fn or(self, other: Set) -> Set {
        Set { ascii: self.ascii | other.ascii, others: self.others | other.others }
    }

    /// What is not in it; something beyond ASCII always is.
    fn not(self) -> Set {
        Set { ascii: !self.ascii, others: true }
    }

    fn meets(self, other: Set) -> bool {
        self.ascii & other.ascii != 0 || (self.others && other.others)
    }

    /// With both cases of its letters.
    fn any_case(self) -> Set {
        let mut all = self;
        for letter in 'a'..='z' {
            let both = Set::of(letter).or(Set::of(letter.to_ascii_uppercase()));
            if self.meets(both) {
                // A few letters beyond ASCII are lower or upper case of one in it.
                all = all.or(both).or(Set { ascii: 0, others: true });
            }
        }
        all
    }
}

/// A part of a pattern.
#[derive(Debug)]
enum Node {
    /// One character, and how it is written.
    One(Set, String),
    /// A place between characters, and how it is written.
    Place(&'static str),
    /// In brackets.
    Group { captures: bool, inner: Box<Node> },
    /// One after the other.
    Concat(Vec<Node>),
    /// One of several.
    Alternatives(Vec<Node>),
    /// Several times.
    Repeat { inner: Box<Node>, least: u32, most: Option<u32>, lazy: bool },
}

impl Regular {
    /// The pattern in the engine's notation.
    pub(super) fn written(&self) -> String {
        let mut text = WRITTEN.to_string();
        if self.any_case {
            text.push_str("(?i)");
        }
        self.node.write(&mut text);
        text
    }

    /// Whether it matches where there is nothing.
    pub(super) fn matches_nothing(&self) -> bool {
        self.node.nullable()
    }

    /// Whether both engines find the same text, and the same groups in it, in every text.
    pub(super) fn finds_the_same(&self) -> bool {
        same::finds_the_same(&self.node)
    }
}

impl Node {
    fn write(&self, to: &mut String) {
        match self {
            Node::One(_, text) => to.push_str(text),
            Node::Place(text) => to.push_str(text),
            Node::Group { captures, inner } => {
                to.push_str(if *captures { "(" } else { "(?:" });
                inner.write(to);
                to.push(')');
            }
            Node::Concat(parts) => parts.iter().for_each(|part| part.write(to)),
            Node::Alternatives(branches) => {
                for (place, branch) in branches.iter().enumerate() {
                    if place > 0 {
                        to.push('|');
                    }
                    branch.write(to);
                }
            }
            Node::Repeat { inner, least, most, lazy } => {
                inner.write(to);
                match (least, most) {
                    (0, None) => to.push('*'),
                    (1, None) => to.push('+'),
                    (0, Some(1)) => to.push('?'),
                    (least, None) => to.push_str(&format!("{{{least},}}")),
                    (least, Some(most)) => to.push_str(&format!("{{{least},{most}}}")),
                }
                if *lazy {
                    to.push('?');
                }
            }
        }
    }

    fn nullable(&self) -> bool {
        match self {
            Node::One(..) => false,
            Node::Place(_) => true,
            Node::Group { inner, .. } => inner.nullable(),
            Node::Concat(parts) => parts.iter().all(Node::nullable),
            Node::Alternatives(branches) => branches.iter().any(Node::nullable),
            Node::Repeat { inner, least, .. } => *least == 0 || inner.nullable(),
        }
    }
}
