//! Paths as PostgreSQL writes them.

use super::{Chain, Condition, Level, Operation, Path, Step};
use crate::json::value::write_string;

/// How tightly parts hold together: `||`, `&&`, comparisons, sums, products, signs, what is in brackets anyway.
const OR: u8 = 0;
const AND: u8 = 1;
const COMPARED: u8 = 2;
const SUM: u8 = 3;
const PRODUCT: u8 = 4;
const SIGNED: u8 = 5;
const WHOLE: u8 = 6;

pub(super) fn path(path: &Path) -> String {
    let mut text = String::from(if path.is_lax { "" } else { "strict " });
    chain(&path.chain, WHOLE, &mut text);
    text
}

/// `outer`: how tightly what it is part of holds together; brackets stand where that is not less.
fn chain(of: &Chain, outer: u8, to: &mut String) {
    let Some((first, rest)) = of.split_first() else { return };
    let outer = if rest.is_empty() { outer } else { WHOLE };
    match first {
        Step::Computed(operation, left, right) => {
            let own = match operation {
                Operation::Plus | Operation::Minus => SUM,
                Operation::Times | Operation::Over | Operation::Rest => PRODUCT,
            };
            bracketed(own <= outer, to, |to| {
                chain(left, own, to);
                to.push_str(&format!(" {} ", operation.sql()));
                chain(right, own, to);
            });
        }
        Step::Signed(sign, of) => bracketed(SIGNED <= outer, to, |to| {
            to.push_str(sign.sql());
            chain(of, SIGNED, to);
        }),
        Step::Truth(of) => condition(of, outer, to),
        Step::Root => to.push('$'),
        Step::Current => to.push('@'),
        Step::Last => to.push_str("last"),
        Step::Literal(value) => value.write(to),
        Step::Variable(name) => {
            to.push('$');
            write_string(name, to);
        }
        other => step(other, to),
    }
    rest.iter().for_each(|of| step(of, to));
}

fn bracketed(are_there: bool, to: &mut String, inner: impl FnOnce(&mut String)) {
    to.push_str(if are_there { "(" } else { "" });
    inner(to);
    to.push_str(if are_there { ")" } else { "" });
}

fn step(of: &Step, to: &mut String) {
    match of {
        Step::Key(key) => {
            to.push('.');
            write_string(key, to);
        }
        Step::AnyKey => to.push_str(".*"),
        Step::AnyElement => to.push_str("[*]"),
        Step::Elements(all) => {
            to.push('[');
            for (place, (from, last)) in all.iter().enumerate() {
                to.push_str(if place > 0 { "," } else { "" });
                chain(from, OR, to);
                if let Some(last) = last {
                    to.push_str(" to ");
                    chain(last, OR, to);
                }
            }
            to.push(']');
        }
        Step::Any(first, last) => to.push_str(&match (first, last) {
            (Level::At(0), Level::Last) => ".**".to_string(),
            (Level::Last, Level::Last) => ".**{last}".to_string(),
            (Level::At(first), Level::At(last)) if first == last => format!(".**{{{first}}}"),
            (Level::At(first), Level::At(last)) => format!(".**{{{first} to {last}}}"),
            (Level::At(first), Level::Last) => format!(".**{{{first} to last}}"),
            (Level::Last, Level::At(last)) => format!(".**{{last to {last}}}"),
        }),
        Step::Filter(of) => {
            to.push_str("?(");
            condition(of, OR, to);
            to.push(')');
        }
        Step::Method(method) => to.push_str(&format!(".{}()", method.name())),
        _ => {}
    }
}

fn condition(of: &Condition, outer: u8, to: &mut String) {
    let is_within = outer != OR;
    match of {
        Condition::And(left, right) | Condition::Or(left, right) => {
            let (own, sign) = if matches!(of, Condition::And(..)) { (AND, "&&") } else { (OR, "||") };
            bracketed(is_within && own <= outer, to, |to| {
                condition_within(left, own, to);
                to.push_str(&format!(" {sign} "));
                condition_within(right, own, to);
            });
        }
        Condition::Not(of) => {
            to.push_str("!(");
            condition(of, OR, to);
            to.push(')');
        }
        Condition::IsUnknown(of) => {
            to.push('(');
            condition(of, OR, to);
            to.push_str(") is unknown");
        }
        Condition::Exists(of) => {
            to.push_str("exists (");
            chain(of, OR, to);
            to.push(')');
        }
        Condition::Compared(comparison, left, right) => bracketed(is_within && COMPARED <= outer, to, |to| {
            chain(left, COMPARED, to);
            to.push_str(&format!(" {} ", comparison.sql()));
            chain(right, COMPARED, to);
        }),
        Condition::StartsWith(left, right) => bracketed(is_within && COMPARED <= outer, to, |to| {
            chain(left, COMPARED, to);
            to.push_str(" starts with ");
            chain(right, COMPARED, to);
        }),
        Condition::Matches { of, pattern, flags, .. } => bracketed(is_within && COMPARED <= outer, to, |to| {
            chain(of, WHOLE, to);
            to.push_str(" like_regex ");
            write_string(pattern, to);
            if !flags.is_empty() {
                to.push_str(&format!(" flag \"{flags}\""));
            }
        }),
    }
}

/// Part of another condition, which holds together so tightly.
fn condition_within(of: &Condition, own: u8, to: &mut String) {
    let is_looser = matches!((of, own), (Condition::Or(..), _) | (Condition::And(..), AND));
    bracketed(is_looser, to, |to| condition(of, OR, to));
}
