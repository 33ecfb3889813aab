//! When the longest match and the first one are the same.
//!
//! Shown are five cases. In the first nothing ever has to be tried: which quantifier or alternative a character belongs
//! to is told by the character (as of deterministic content models, Brüggemann-Klein and Wood 1998), so there is one
//! way to match a text, and both engines go it as far as it goes. In the second the end of the match is the end of the
//! text whatever the parts do, and both give parts that stand earlier their choice first. In the third one part takes
//! as much, or as little, as what is fixed behind it allows. In the fourth there are only repetitions of one character
//! each: one that takes less leaves those behind it nothing that they could not have had (`longest_is_first` in the
//! tests compares all this with matching by trial). In the last one the alternatives are the same repetition.

use super::{Node, Set};

/// Most characters that alternatives are compared by.
const LONG: usize = 256;

pub(super) fn finds_the_same(node: &Node) -> bool {
    if forgets(node, false, false) {
        return false;
    }
    if !has_lazy(node) && one_way(node, Set::default()) {
        return true;
    }
    let parts = match node {
        Node::Concat(parts) => parts,
        Node::Alternatives(branches) => return one_run(branches),
        _ => return false,
    };
    to_the_end(parts) || around_one(parts) || runs_and_more(parts)
}

/// Is there a group that some turn of a repetition around it leaves out? PostgreSQL forgets then what it had.
fn forgets(node: &Node, repeated: bool, optional: bool) -> bool {
    match node {
        Node::One(..) | Node::Place(_) => false,
        Node::Group { captures, inner } => (*captures && repeated && optional) || forgets(inner, repeated, optional),
        Node::Concat(parts) => parts.iter().any(|part| forgets(part, repeated, optional)),
        Node::Alternatives(branches) => branches.iter().any(|branch| forgets(branch, repeated, true)),
        Node::Repeat { inner, least, most, .. } => {
            let several = *most != Some(1);
            // Outside of the turns of the inner repetition nothing is optional.
            forgets(inner, repeated || several, if several && !repeated { false } else { optional || *least == 0 })
        }
    }
}

fn has_lazy(node: &Node) -> bool {
    match node {
        Node::One(..) | Node::Place(_) => false,
        Node::Group { inner, .. } => has_lazy(inner),
        Node::Concat(parts) | Node::Alternatives(parts) => parts.iter().any(has_lazy),
        Node::Repeat { inner, lazy, .. } => *lazy || has_lazy(inner),
    }
}

/// What a match of it may begin with.
fn first(node: &Node) -> Set {
    match node {
        Node::One(set, _) => *set,
        Node::Place(_) => Set::default(),
        Node::Group { inner, .. } | Node::Repeat { inner, .. } => first(inner),
        Node::Concat(parts) => first_of(parts, Set::default()),
        Node::Alternatives(branches) => branches.iter().fold(Set::default(), |all, branch| all.or(first(branch))),
    }
}

/// What a match of parts, and of what may follow them, may begin with.
fn first_of(parts: &[Node], follow: Set) -> Set {
    parts.iter().rev().fold(follow, |behind, part| match part.nullable() {
        true => first(part).or(behind),
        false => first(part),
    })
}

/// The characters of what has a fixed number of them.
fn fixed(node: &Node) -> Option<Vec<Set>> {
    match node {
        Node::One(set, _) => Some(vec![*set]),
        Node::Place(_) => Some(Vec::new()),
        Node::Group { inner, .. } => fixed(inner),
        Node::Concat(parts) => {
            let all: Option<Vec<Vec<Set>>> = parts.iter().map(fixed).collect();
            all.map(|all| all.concat()).filter(|all| all.len() <= LONG)
        }
        Node::Alternatives(branches) => {
            let mut all = fixed(branches.first()?)?;
            for branch in &branches[1..] {
                let other = fixed(branch)?;
                (other.len() == all.len()).then_some(())?;
                all.iter_mut().zip(other).for_each(|(set, other)| *set = set.or(other));
            }
            Some(all)
        }
        Node::Repeat { inner, least, most, .. } if *most == Some(*least) => {
            let all = fixed(inner)?.repeat(*least as usize);
            Some(all).filter(|all| all.len() <= LONG)
        }
        Node::Repeat { .. } => None,
    }
}

/// Of alternatives of which none begins another with another length: at most one length matches at a place.
fn none_begins_another(branches: &[Node]) -> bool {
    let all: Option<Vec<Vec<Set>>> = branches.iter().map(fixed).collect();
    let Some(all) = all else { return false };
    let begins = |a: &[Set], b: &[Set]| a.len() < b.len() && a.iter().zip(b).all(|(a, b)| a.meets(*b));
    !all.iter().any(|a| all.iter().any(|b| begins(a, b)))
}

/// Is there one way to match a text, told by its characters, where `follow` may come behind?
fn one_way(node: &Node, follow: Set) -> bool {
    match node {
        Node::One(..) | Node::Place(_) => true,
        Node::Group { inner, .. } => one_way(inner, follow),
        Node::Concat(parts) => {
            (0..parts.len()).all(|place| one_way(&parts[place], first_of(&parts[place + 1..], follow)))
        }
        Node::Alternatives(branches) => {
            if none_begins_another(branches) {
                return true;
            }
            let apart = branches.iter().enumerate().all(|(place, branch)| {
                !branch.nullable() && branches[place + 1..].iter().all(|other| !first(branch).meets(first(other)))
            });
            apart && branches.iter().all(|branch| one_way(branch, follow))
        }
        Node::Repeat { inner, least, most, .. } => {
            let goes_on = *most != Some(*least);
            let told = !goes_on || !first(inner).meets(follow);
            let follow = if *most == Some(1) { follow } else { follow.or(first(inner)) };
            told && (!inner.nullable() || *most == Some(1) && fixed(inner).is_some()) && one_way(inner, follow)
        }
    }
}

/// A repetition of one character, in brackets or not, and whether it is lazy.
fn run(node: &Node) -> Option<(Set, bool)> {
    match node {
        Node::Group { inner, .. } => run(inner),
        Node::Concat(parts) => match &parts[..] {
            [part] => run(part),
            _ => None,
        },
        Node::Repeat { inner, lazy, .. } => match inner.as_ref() {
            Node::One(set, _) => Some((*set, *lazy)),
            _ => None,
        },
        _ => None,
    }
}

/// Has it, by itself, one way to match each length, and are longer ones tried first?
fn alone(node: &Node) -> bool {
    fixed(node).is_some() || (!has_lazy(node) && one_way(node, Set::default()))
}

/// Does a match of these parts end where the text does?
fn to_the_end(parts: &[Node]) -> bool {
    let Some((last, before)) = parts.split_last() else { return false };
    if matches!(last, Node::Place("$" | r"\z")) {
        return before.iter().all(|part| alone(part) || run(part).is_some());
    }
    takes_all(last) && before.iter().all(alone)
}

/// Is it `.*`?
fn takes_all(node: &Node) -> bool {
    match node {
        Node::Group { inner, .. } => takes_all(inner),
        Node::Concat(parts) => matches!(&parts[..], [part] if takes_all(part)),
        Node::Repeat { inner, most: None, lazy: false, .. } => {
            matches!(inner.as_ref(), Node::One(set, text) if *set == Set::ALL && text == ".")
        }
        _ => false,
    }
}

/// Are they one repetition of one character, which has no most, at several places (`^\s+|\s+$`)? From where it begins
/// each of them goes as far.
fn one_run(branches: &[Node]) -> bool {
    let of = |branch: &Node| {
        let Node::Concat(parts) = branch else { return None };
        let behind = parts.iter().position(|part| !matches!(part, Node::Place(_)))?;
        let (part, rest) = parts[behind..].split_first()?;
        let ends = matches!(rest, [] | [Node::Place("$" | r"\z")]);
        match part {
            Node::Repeat { inner, least, most: None, lazy: false } if ends => match inner.as_ref() {
                Node::One(_, text) => Some((text.clone(), *least)),
                _ => None,
            },
            _ => None,
        }
    };
    let first = branches.first().and_then(of);
    first.is_some() && branches.iter().all(|branch| of(branch) == first)
}

/// Is there one part that takes as much as fixed ones behind it allow, or as little, and nothing else that could take
/// more?
fn around_one(parts: &[Node]) -> bool {
    (0..parts.len()).any(|place| {
        let Some((set, lazy)) = run(&parts[place]) else { return false };
        let (before, behind) = (&parts[..place], &parts[place + 1..]);
        if !behind.iter().all(|part| fixed(part).is_some()) {
            return false;
        }
        if lazy {
            return before.iter().all(|part| fixed(part).is_some());
        }
        let follow = first_of(behind, Set::default()).or(set);
        let told = (0..before.len()).all(|part| one_way(&before[part], first_of(&before[part + 1..], follow)));
        !before.iter().any(has_lazy) && (told || (takes_all(&parts[place]) && before.iter().all(alone)))
    })
}

/// Are there repetitions of single characters, and behind them something else that begins with none of these?
fn runs_and_more(parts: &[Node]) -> bool {
    let parts = match parts {
        [Node::Place(_), rest @ ..] => rest,
        all => all,
    };
    let parts = match parts {
        [rest @ .., Node::Place(_)] => rest,
        all => all,
    };
    let mut taken = Set::default();
    for place in 0..=parts.len() {
        let rest = &parts[place..];
        let told = !first_of(rest, Set::default()).meets(taken) && !rest.iter().any(has_lazy);
        if told && (0..rest.len()).all(|part| one_way(&rest[part], first_of(&rest[part + 1..], Set::default()))) {
            return true;
        }
        match parts.get(place).and_then(runs) {
            Some(set) => taken = taken.or(set),
            None => return false,
        }
    }
    false
}

/// What repetitions of single characters, none of them lazy, take.
fn runs(node: &Node) -> Option<Set> {
    match node {
        Node::One(set, _) => Some(*set),
        Node::Group { inner, .. } => runs(inner),
        Node::Concat(parts) => parts.iter().try_fold(Set::default(), |all, part| Some(all.or(runs(part)?))),
        Node::Repeat { inner, lazy: false, .. } => match inner.as_ref() {
            Node::One(set, _) => Some(*set),
            _ => None,
        },
        Node::Place(_) | Node::Alternatives(_) | Node::Repeat { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Node, read};

    /// Where a match of the part that begins at a place may end: by trial, over texts of ASCII.
    fn ends(node: &Node, text: &[u8], at: usize) -> BTreeSet<usize> {
        match node {
            Node::One(set, _) => {
                let fits = text.get(at).is_some_and(|c| set.ascii & 1 << *c != 0);
                if fits { BTreeSet::from([at + 1]) } else { BTreeSet::new() }
            }
            Node::Place("^") => {
                if at == 0 {
                    BTreeSet::from([at])
                } else {
                    BTreeSet::new()
                }
            }
            Node::Place("$") => {
                if at == text.len() {
                    BTreeSet::from([at])
                } else {
                    BTreeSet::new()
                }
            }
            Node::Place(other) => panic!("{other} is not in the test"),
            Node::Group { inner, .. } => ends(inner, text, at),
            Node::Concat(parts) => parts.iter().fold(BTreeSet::from([at]), |places, part| {
                places.into_iter().flat_map(|place| ends(part, text, place)).collect()
            }),
            Node::Alternatives(branches) => branches.iter().flat_map(|branch| ends(branch, text, at)).collect(),
            Node::Repeat { inner, least, most, .. } => {
                let mut all = BTreeSet::new();
                let mut places = BTreeSet::from([at]);
                for turn in 0..=most.unwrap_or(12) {
                    if turn >= *least {
                        all.extend(&places);
                    }
                    places = places.into_iter().flat_map(|place| ends(inner, text, place)).collect();
                }
                all
            }
        }
    }

    /// The match that a backtracking engine comes to first: by trial, in its order.
    fn tried(node: &Node, text: &[u8], at: usize, then: &mut dyn FnMut(usize) -> Option<usize>) -> Option<usize> {
        match node {
            Node::One(..) | Node::Place(_) => ends(node, text, at).into_iter().next().and_then(then),
            Node::Group { inner, .. } => tried(inner, text, at, then),
            Node::Concat(parts) => match parts.split_first() {
                None => then(at),
                Some((first, rest)) => tried(first, text, at, &mut |place| all_of(rest, text, place, then)),
            },
            Node::Alternatives(branches) => branches.iter().find_map(|branch| tried(branch, text, at, then)),
            Node::Repeat { inner, least, most, lazy } => turns(inner, (*least, *most, *lazy), text, at, then),
        }
    }

    fn all_of(parts: &[Node], text: &[u8], at: usize, then: &mut dyn FnMut(usize) -> Option<usize>) -> Option<usize> {
        match parts.split_first() {
            None => then(at),
            Some((first, rest)) => tried(first, text, at, &mut |place| all_of(rest, text, place, then)),
        }
    }

    fn turns(
        inner: &Node,
        (least, most, lazy): (u32, Option<u32>, bool),
        text: &[u8],
        at: usize,
        then: &mut dyn FnMut(usize) -> Option<usize>,
    ) -> Option<usize> {
        if lazy
            && least == 0
            && let Some(end) = then(at)
        {
            return Some(end);
        }
        if most != Some(0) {
            let fewer = (least.saturating_sub(1), most.map(|most| most - 1), lazy);
            let found = tried(inner, text, at, &mut |place| match place > at {
                true => turns(inner, fewer, text, place, then),
                false => None,
            });
            if found.is_some() {
                return found;
            }
        }
        if !lazy && least == 0 { then(at) } else { None }
    }

    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }
    }

    fn pattern(dice: &mut Dice, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..1 + dice.below(4) {
            match dice.below(if depth == 0 { 3 } else { 6 }) {
                0 | 1 => text.push(char::from(b"abc"[dice.below(3)])),
                2 => text.push_str(["[ab]", "[bc]", "[^a]", "."][dice.below(4)]),
                3 => text.push_str(&format!("({})", pattern(dice, depth - 1))),
                _ => text.push_str(&format!("({}|{})", pattern(dice, depth - 1), pattern(dice, depth - 1))),
            }
            text.push_str(["", "", "", "?", "*", "+", "{2}", "{1,2}", "*?"][dice.below(9)]);
        }
        text
    }

    /// What is taken for the same has the longest match first, or with a lazy quantifier in front the shortest.
    #[test]
    fn longest_is_first() {
        let mut dice = Dice(7);
        let mut accepted = 0;
        for _ in 0..4000 {
            let mut text = pattern(&mut dice, 2);
            if dice.below(4) == 0 {
                text.push('$');
            }
            let read = read(&text, "").unwrap();
            if !read.finds_the_same() {
                continue;
            }
            accepted += 1;
            for _ in 0..30 {
                let length = dice.below(8);
                let subject: Vec<u8> = (0..length).map(|_| b"abc"[dice.below(3)]).collect();
                let Some(start) = (0..=length).find(|at| !ends(&read.node, &subject, *at).is_empty()) else { continue };
                let all = ends(&read.node, &subject, start);
                let first = tried(&read.node, &subject, start, &mut Some);
                let lazy = text.contains("*?");
                let wanted = if lazy && !text.ends_with('$') { all.first() } else { all.last() };
                assert_eq!(first.as_ref(), wanted, "{text} over {:?}", String::from_utf8_lossy(&subject));
            }
        }
        assert!(accepted > 300, "{accepted}");
    }

    #[test]
    fn common_patterns_are_accepted() {
        for pattern in [
            r"^https?://(?:www\.)?([^/]+)/.*$",
            r"(\w+) (\w+)",
            r"\d+\.?\d*(?:[eE][+-]?\d+)?",
            r"^\s+|\s+$",
            r"<.*?>",
            r#""([^"]*)""#,
            r"(.*)-(.*)",
            r"^(.*?)\s*=\s*(.*)$",
            r"[a-z]+@[a-z]+\.com",
            r"(\d{4})-(\d{2})-(\d{2})",
            r"jpg|jpeg|png",
            r"foo.*bar",
        ] {
            assert!(read(pattern, "").unwrap().finds_the_same(), "{pattern}");
        }
        for pattern in ["ab|abcd", "a?(ab)?", "(.*?)(.*)", "a*?(b+)", "(a|ab)(c|bcd)", "((a)|b)*"] {
            assert!(!read(pattern, "").unwrap().finds_the_same(), "{pattern}");
        }
    }
}
