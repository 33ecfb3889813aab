//! [`Pattern`]: a pattern of LIKE, cut into stretches, and how one text is matched.

use memchr::memmem::Finder;

/// What stands between two `%`.
#[derive(Debug, Clone, Default)]
struct Stretch {
    parts: Vec<PatternPart>,
}

#[derive(Debug, Clone)]
enum PatternPart {
    /// These bytes.
    Literal(Box<Finder<'static>>),
    /// `n` characters, any.
    Characters(usize),
}

/// A pattern of LIKE.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// What a text begins with; all of it, where `whole`.
    first: Stretch,
    /// In this order between the first and the last.
    middle: Vec<Stretch>,
    /// What a text ends with.
    last: Stretch,
    /// There is no `%`.
    whole: bool,
    /// Bytes that a text has at least.
    bytes_min: usize,
}

impl Pattern {
    /// As `LIKE` has it: `%`, `_`, and a backslash before what means itself; one at the end means itself.
    pub(super) fn new(pattern: &str) -> Pattern {
        let mut stretches = vec![Stretch::default()];
        let (mut literal, mut bytes_min) = (String::new(), 0);
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            match character {
                '%' | '_' => {
                    let stretch = stretches.last_mut().expect("begins with one");
                    stretch.end_literal(&mut literal);
                    match (character, stretch.parts.last_mut()) {
                        ('%', _) => stretches.push(Stretch::default()),
                        (_, Some(PatternPart::Characters(count))) => *count += 1,
                        _ => stretch.parts.push(PatternPart::Characters(1)),
                    }
                    bytes_min += usize::from(character == '_');
                    continue;
                }
                '\\' => literal.push(characters.next().unwrap_or('\\')),
                other => literal.push(other),
            }
            bytes_min += literal.chars().next_back().map_or(0, char::len_utf8);
        }
        stretches.last_mut().expect("begins with one").end_literal(&mut literal);
        let whole = stretches.len() == 1;
        let last = if whole { Stretch::default() } else { stretches.pop().expect("two at least") };
        let first = stretches.remove(0);
        stretches.retain(|stretch| !stretch.parts.is_empty());
        Pattern { first, middle: stretches, last, whole, bytes_min }
    }

    /// Bytes that a text has at least.
    pub(super) fn bytes_min(&self) -> usize {
        self.bytes_min
    }

    /// Does it pay to look for its literals in many texts at once? Not where their starts or ends tell.
    pub(super) fn searched(&self) -> bool {
        let literal = |part: Option<&PatternPart>| matches!(part, Some(PatternPart::Literal(_)));
        !self.whole
            && !literal(self.first.parts.first())
            && !literal(self.last.parts.last())
            && self.literals().next().is_some()
    }

    /// The literals, in the order of the pattern.
    pub(super) fn literals(&self) -> impl Iterator<Item = &Finder<'static>> {
        let stretches = std::iter::once(&self.first).chain(&self.middle).chain(std::iter::once(&self.last));
        stretches.flat_map(|stretch| &stretch.parts).filter_map(|part| match part {
            PatternPart::Literal(finder) => Some(finder.as_ref()),
            PatternPart::Characters(_) => None,
        })
    }

    /// For `'abc%'`: `abc`.
    pub(super) fn only_prefix(&self) -> Option<&str> {
        match &self.first.parts[..] {
            [PatternPart::Literal(prefix)] if !self.whole && self.middle.is_empty() && self.last.parts.is_empty() => {
                std::str::from_utf8(prefix.needle()).ok()
            }
            _ => None,
        }
    }

    /// Is this one of [`literals`](Self::literals) all of the stretch that comes first in a text, anywhere?
    pub(super) fn leads(&self, literal: usize) -> bool {
        let leading = self.middle.first().map(|stretch| &stretch.parts[..]);
        let alone = matches!(leading, Some([PatternPart::Literal(_)]));
        literal == 0 && alone && self.first.parts.is_empty() && !self.whole
    }

    /// Does a text match of which this is what comes behind the leftmost place of the literal that leads?
    pub(super) fn matches_behind(&self, rest: &[u8]) -> bool {
        self.matches_between(rest, 0, &self.middle[1..])
    }

    /// Does a text (UTF-8) match?
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        if text.len() < self.bytes_min {
            return false;
        }
        let Some(at) = self.first.end_at(text, 0) else { return false };
        if self.whole {
            return at == text.len();
        }
        self.matches_between(text, at, &self.middle)
    }

    /// Do these stretches follow each other from `at` on, before the last one?
    fn matches_between(&self, text: &[u8], mut at: usize, stretches: &[Stretch]) -> bool {
        let Some(end) = self.last.start_before(text) else { return false };
        for stretch in stretches {
            match stretch.find(&text[..end.max(at)], at) {
                Some(end) => at = end,
                None => return false,
            }
        }
        at <= end
    }
}

impl Stretch {
    fn end_literal(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.parts.push(PatternPart::Literal(Box::new(Finder::new(literal.as_bytes()).into_owned())));
            literal.clear();
        }
    }

    /// Where it ends if it stands at `at`.
    fn end_at(&self, text: &[u8], mut at: usize) -> Option<usize> {
        for part in &self.parts {
            match part {
                PatternPart::Literal(literal) => {
                    let needle = literal.needle();
                    (text.get(at..at + needle.len())? == needle).then_some(())?;
                    at += needle.len();
                }
                PatternPart::Characters(count) => {
                    for _ in 0..*count {
                        at += bytes_of_character(*text.get(at)?);
                    }
                }
            }
        }
        Some(at)
    }

    /// Where it begins if it stands at the end.
    fn start_before(&self, text: &[u8]) -> Option<usize> {
        let mut at = text.len();
        for part in self.parts.iter().rev() {
            match part {
                PatternPart::Literal(literal) => {
                    let from = at.checked_sub(literal.needle().len())?;
                    (&text[from..at] == literal.needle()).then_some(())?;
                    at = from;
                }
                PatternPart::Characters(count) => {
                    for _ in 0..*count {
                        at = at.checked_sub(1)?;
                        while is_continuation(text[at]) {
                            at = at.checked_sub(1)?;
                        }
                    }
                }
            }
        }
        Some(at)
    }

    /// Where its leftmost place from `at` on ends.
    fn find(&self, text: &[u8], at: usize) -> Option<usize> {
        match &self.parts[..] {
            [PatternPart::Literal(literal)] => Some(at + literal.find(&text[at..])? + literal.needle().len()),
            [PatternPart::Literal(literal), ..] => {
                let mut from = at;
                loop {
                    from += literal.find(text.get(from..)?)?;
                    match self.end_at(text, from) {
                        Some(end) => return Some(end),
                        None => from += 1,
                    }
                }
            }
            _ => {
                let mut from = at;
                while from <= text.len() {
                    if let Some(end) = self.end_at(text, from) {
                        return Some(end);
                    }
                    from += text.get(from).map_or(1, |&byte| bytes_of_character(byte));
                }
                None
            }
        }
    }
}

/// Bytes of the character that begins with `first`.
fn bytes_of_character(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}
