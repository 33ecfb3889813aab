//! A path followed in a value.
//!
//! A fault is *soft* where `silent` and conditions forgive it, as PostgreSQL has it; what else fails always fails.

use super::{Chain, Comparison, Condition, Level, Method, Path, Step};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::json::exact::Exact;
use crate::json::value::{Value, object};
use crate::json::{DEPTH_MAX, fault, number};

/// Numbers of objects begin anew behind so many: those of variables, and those that were made on the way.
const NUMBERS_EACH: u64 = 10_000_000_000;

/// What was found, which is part of the value, of the variables, or was made.
#[derive(Debug, Clone)]
enum Item<'a> {
    Known(&'a Value),
    Made(Value),
}

impl Item<'_> {
    fn value(&self) -> &Value {
        match self {
            Item::Known(value) => value,
            Item::Made(value) => value,
        }
    }

    fn into_value(self) -> Value {
        match self {
            Item::Known(value) => value.clone(),
            Item::Made(value) => value,
        }
    }
}

impl<'a> Item<'a> {
    /// The elements of an array, or the values of an object.
    fn parts(&self) -> Vec<Item<'a>> {
        match self {
            Item::Known(Value::Array(all)) => all.iter().map(Item::Known).collect(),
            Item::Known(Value::Object(all)) => all.iter().map(|(_, value)| Item::Known(value)).collect(),
            Item::Made(Value::Array(all)) => all.iter().cloned().map(Item::Made).collect(),
            Item::Made(Value::Object(all)) => all.iter().map(|(_, value)| Item::Made(value.clone())).collect(),
            _ => Vec::new(),
        }
    }

    fn field(&self, key: &str) -> Option<Item<'a>> {
        match self {
            Item::Known(value) => value.field(key).map(Item::Known),
            Item::Made(value) => value.field(key).cloned().map(Item::Made),
        }
    }
}

/// Why following a path ended.
enum Fault {
    /// `silent` and conditions forgive it.
    Soft(Error),
    Hard(Error),
}

type Followed<T> = std::result::Result<T, Fault>;

fn soft<T>(state: SqlState, message: impl Into<String>) -> Followed<T> {
    Err(Fault::Soft(fault(state, message)))
}

/// Whether there is more to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Stop,
}

/// Where items go.
struct Out<'a> {
    all: Vec<Item<'a>>,
    /// One is enough.
    is_first_enough: bool,
}

impl<'a> Out<'a> {
    fn put(&mut self, item: Item<'a>) -> Flow {
        self.all.push(item);
        if self.is_first_enough { Flow::Stop } else { Flow::On }
    }
}

/// What a condition says; `None` is unknown.
type Truth = Option<bool>;

/// What one evaluation has in hand.
struct Follow<'a> {
    path: &'a Path,
    root: &'a Value,
    variables: &'a Value,
}

/// Where a step is evaluated.
#[derive(Clone)]
struct Place<'a> {
    /// `@`
    current: Item<'a>,
    /// Elements of the array that the innermost subscript is of.
    elements: usize,
    /// What is not there is no error.
    forgives: bool,
    /// A soft fault ends all: neither `silent` nor a condition forgives it.
    throws: bool,
    depth: usize,
}

/// What following a path came to.
pub(crate) struct Found {
    /// What it found, before a fault too.
    pub items: Vec<Value>,
    /// Whether it met a fault that `is_silent` forgives.
    pub has_failed: bool,
}

impl Path {
    /// What it finds in a value, with variables of an object.
    ///
    /// `is_silent`: faults of what is not there, or is of another type, are told and are none.
    ///
    /// # Errors
    /// Variables that there are not; faults, where they are not forgiven.
    pub(crate) fn find(&self, root: &Value, variables: &Value, is_silent: bool) -> Result<Found> {
        self.followed(root, variables, is_silent, false)
    }

    /// Whether it finds anything; `None` where that is not known for a fault.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub(crate) fn finds(&self, root: &Value, variables: &Value, is_silent: bool) -> Result<Option<bool>> {
        let found = self.followed(root, variables, is_silent, self.is_lax)?;
        Ok((!found.has_failed).then_some(!found.items.is_empty()))
    }

    fn followed(&self, root: &Value, variables: &Value, is_silent: bool, is_first_enough: bool) -> Result<Found> {
        if !matches!(variables, Value::Object(_)) {
            return Err(fault(SqlState::InvalidParameterValue, "the variables of a path are an object of JSON"));
        }
        let follow = Follow { path: self, root, variables };
        let mut out = Out { all: Vec::new(), is_first_enough };
        let place =
            Place { current: Item::Known(root), elements: 0, forgives: self.is_lax, throws: !is_silent, depth: 0 };
        let done = follow.step(&self.chain, Item::Known(root), &place, self.is_lax, &mut out);
        let has_failed = match done {
            Ok(_) => false,
            Err(Fault::Soft(_)) if is_silent => true,
            Err(Fault::Soft(error) | Fault::Hard(error)) => return Err(error),
        };
        Ok(Found { items: out.all.into_iter().map(Item::into_value).collect(), has_failed })
    }
}

impl<'a> Follow<'a> {
    fn is_lax(&self) -> bool {
        self.path.is_lax
    }

    /// What comes behind a step.
    fn next(&self, chain: &'a [Step], item: Item<'a>, place: &Place<'a>, out: &mut Out<'a>) -> Followed<Flow> {
        match chain.split_first() {
            Some((_, [])) | None => Ok(out.put(item)),
            Some((_, rest)) => self.step(rest, item, place, self.is_lax(), out),
        }
    }

    /// The first step of a chain and those behind it; `unwraps`: arrays are taken apart for steps that want no array.
    fn step(
        &self,
        chain: &'a [Step],
        item: Item<'a>,
        place: &Place<'a>,
        unwraps: bool,
        out: &mut Out<'a>,
    ) -> Followed<Flow> {
        let Some(step) = chain.first() else { return Ok(out.put(item)) };
        if place.depth > 2 * DEPTH_MAX {
            return Err(Fault::Hard(crate::json::too_deep()));
        }
        let place = &Place { depth: place.depth + 1, ..place.clone() };
        let is_array = matches!(item.value(), Value::Array(_));
        match step {
            Step::Root => self.next(chain, Item::Known(self.root), place, out),
            Step::Current => self.next(chain, place.current.clone(), place, out),
            Step::Last => {
                let last = Value::Number((place.elements as i64 - 1).to_string());
                self.next(chain, Item::Made(last), place, out)
            }
            Step::Literal(value) => self.next(chain, Item::Known(value), place, out),
            Step::Variable(name) => match self.variables.field(name) {
                Some(value) => self.next(chain, Item::Known(value), place, out),
                None => Err(Fault::Hard(fault(
                    SqlState::UndefinedObject,
                    format!("the variables of the path have none of the name \"{name}\""),
                ))),
            },
            Step::Computed(operation, left, right) => {
                let (left, right) =
                    (self.values(left, item.clone(), place, true)?, self.values(right, item, place, true)?);
                let number = |all: &[Item<'a>], side: &str| match all {
                    [one] if matches!(one.value(), Value::Number(_)) => Ok(exact(one.value())),
                    _ => soft(
                        SqlState::SingletonSqlJsonItemRequired,
                        format!("what stands {side} of {} in a path is not one number", operation.sql()),
                    ),
                };
                let (left, right) = (number(&left, "left")?, number(&right, "right")?);
                let made = operation.of(&left, &right).and_then(|made| made.normal()).map_err(Fault::Soft)?;
                self.next(chain, Item::Made(Value::Number(made)), place, out)
            }
            Step::Signed(sign, of) => {
                for value in self.values(of, item, place, true)? {
                    let Value::Number(_) = value.value() else {
                        // Where it is asked alone whether there is one, others are passed over, as in PostgreSQL.
                        if out.is_first_enough && chain.len() == 1 {
                            continue;
                        }
                        return soft(
                            SqlState::SqlJsonNumberNotFound,
                            format!("what stands behind the sign {} in a path is no number", sign.sql()),
                        );
                    };
                    let made = match sign {
                        super::Sign::Plus => value,
                        super::Sign::Minus => made(exact(value.value()).negated())?,
                    };
                    if self.next(chain, made, place, out)? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                }
                Ok(Flow::On)
            }
            Step::Truth(condition) => {
                let made = self.truth(condition, &item, place)?.map_or(Value::Null, Value::Truth);
                self.next(chain, Item::Made(made), place, out)
            }
            Step::Key(key) => match item.value() {
                Value::Object(_) => match item.field(key) {
                    Some(value) => self.next(chain, value, place, out),
                    None if place.forgives => Ok(Flow::On),
                    None => soft(SqlState::SqlJsonMemberNotFound, format!("an object of JSON has no key \"{key}\"")),
                },
                Value::Array(_) if unwraps => self.each(chain, &item, place, out),
                _ if place.forgives => Ok(Flow::On),
                _ => soft(SqlState::SqlJsonMemberNotFound, "a key in a path is of objects only"),
            },
            Step::AnyKey => match item.value() {
                Value::Object(_) => self.all_next(chain, item.parts(), place, out),
                Value::Array(_) if unwraps => self.each(chain, &item, place, out),
                _ if place.forgives => Ok(Flow::On),
                _ => soft(SqlState::SqlJsonObjectNotFound, "all keys in a path are of objects only"),
            },
            Step::AnyElement => match is_array {
                true => self.all_next(chain, item.parts(), place, out),
                false if self.is_lax() => self.next(chain, item, place, out),
                false if place.forgives => Ok(Flow::On),
                false => soft(SqlState::SqlJsonArrayNotFound, "all elements in a path are of arrays only"),
            },
            Step::Elements(all) => self.elements(chain, all, &item, place, out),
            Step::Any(first, last) => {
                let forgiving = Place { forgives: true, ..place.clone() };
                if *first == Level::At(0) {
                    match self.next(chain, item.clone(), &forgiving, out) {
                        Ok(Flow::On) => {}
                        // As in PostgreSQL, what is below is looked at all the same.
                        Err(Fault::Soft(_)) if !place.throws && !item.value().is_scalar() => {}
                        ended => return ended,
                    }
                }
                self.descend(chain, (&item, 1), (*first, *last), &forgiving, out)
            }
            Step::Filter(_) if unwraps && is_array => self.each(chain, &item, place, out),
            Step::Filter(condition) => {
                let within = Place { current: item.clone(), ..place.clone() };
                match self.truth(condition, &item, &within)? {
                    Some(true) => self.next(chain, item, place, out),
                    _ => Ok(Flow::On),
                }
            }
            Step::Method(Method::Type) => {
                self.next(chain, Item::Made(Value::Text(item.value().kind().into())), place, out)
            }
            Step::Method(Method::Size) => {
                let size = match item.value() {
                    Value::Array(all) => all.len(),
                    _ if self.is_lax() => 1,
                    _ if place.forgives => return Ok(Flow::On),
                    _ => return soft(SqlState::SqlJsonArrayNotFound, "the method .size() of a path is of arrays only"),
                };
                self.next(chain, Item::Made(Value::Number(size.to_string())), place, out)
            }
            Step::Method(_) if unwraps && is_array => self.each(chain, &item, place, out),
            Step::Method(Method::KeyValue) => self.key_values(chain, &item, place, out),
            Step::Method(Method::Double) => {
                let made = double(&item)?;
                self.next(chain, made, place, out)
            }
            Step::Method(method @ (Method::Abs | Method::Floor | Method::Ceiling)) => {
                let Value::Number(_) = item.value() else {
                    return soft(
                        SqlState::NonNumericSqlJsonItem,
                        format!("the method .{}() of a path is of numbers only", method.name()),
                    );
                };
                let of = exact(item.value());
                let of = match method {
                    Method::Abs => of.abs(),
                    Method::Floor => of.floor(),
                    _ => of.ceiling(),
                };
                self.next(chain, made(of)?, place, out)
            }
        }
    }

    /// The same step for each element of an array, none of which is taken apart.
    fn each(&self, chain: &'a [Step], item: &Item<'a>, place: &Place<'a>, out: &mut Out<'a>) -> Followed<Flow> {
        for part in item.parts() {
            if self.step(chain, part, place, false, out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn all_next(
        &self,
        chain: &'a [Step],
        parts: Vec<Item<'a>>,
        place: &Place<'a>,
        out: &mut Out<'a>,
    ) -> Followed<Flow> {
        for part in parts {
            if self.next(chain, part, place, out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    /// What lies between two levels below an item, each before what it holds.
    fn descend(
        &self,
        chain: &'a [Step],
        (item, level): (&Item<'a>, u32),
        (first, last): (Level, Level),
        place: &Place<'a>,
        out: &mut Out<'a>,
    ) -> Followed<Flow> {
        if Level::At(level) > last {
            return Ok(Flow::On);
        }
        for part in item.parts() {
            let is_leaf = part.value().is_scalar();
            let is_wanted = Level::At(level) >= first || (first, last) == (Level::Last, Level::Last) && is_leaf;
            if is_wanted && self.next(chain, part.clone(), place, out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if !is_leaf && self.descend(chain, (&part, level + 1), (first, last), place, out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn elements(
        &self,
        chain: &'a [Step],
        wanted: &'a [(Chain, Option<Chain>)],
        item: &Item<'a>,
        place: &Place<'a>,
        out: &mut Out<'a>,
    ) -> Followed<Flow> {
        let parts = match item.value() {
            Value::Array(_) => item.parts(),
            _ if self.is_lax() => vec![item.clone()],
            _ if place.forgives => return Ok(Flow::On),
            _ => return soft(SqlState::SqlJsonArrayNotFound, "a subscript in a path is of arrays only"),
        };
        let within = Place { elements: parts.len(), ..place.clone() };
        for (from, to) in wanted {
            let from = self.index(from, item, &within)?;
            let to = to.as_ref().map_or(Ok(from), |to| self.index(to, item, &within))?;
            if !place.forgives && (from < 0 || from > to || to >= parts.len() as i64) {
                return soft(SqlState::InvalidSqlJsonSubscript, "a subscript in a path is out of the array's bounds");
            }
            for at in from.max(0)..=to.min(parts.len() as i64 - 1) {
                let part = parts[at as usize].clone();
                // LAST in what is behind it is that of the subscript around.
                if self.next(chain, part, place, out)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::On)
    }

    fn index(&self, of: &'a Chain, item: &Item<'a>, place: &Place<'a>) -> Followed<i64> {
        let found = self.values(of, item.clone(), place, false)?;
        let [one] = &found[..] else { return self.no_index() };
        let Value::Number(_) = one.value() else { return self.no_index() };
        match exact(one.value()).whole() {
            Some(index) => Ok(index.into()),
            None => soft(SqlState::InvalidSqlJsonSubscript, "a subscript in a path is out of the range of integers"),
        }
    }

    fn no_index<T>(&self) -> Followed<T> {
        soft(SqlState::InvalidSqlJsonSubscript, "a subscript in a path is not one number")
    }

    fn key_values(&self, chain: &'a [Step], item: &Item<'a>, place: &Place<'a>, out: &mut Out<'a>) -> Followed<Flow> {
        let Value::Object(all) = item.value() else {
            return soft(SqlState::SqlJsonObjectNotFound, "the method .keyvalue() of a path is of objects only");
        };
        let id = self.number_of(item.value());
        for (key, value) in all.clone() {
            let pair = object(vec![
                ("key".into(), Value::Text(key)),
                ("value".into(), value),
                ("id".into(), Value::Number(id.to_string())),
            ]);
            if self.next(chain, Item::Made(pair), place, out)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    /// The number of an object, which no other one of the value has.
    fn number_of(&self, of: &Value) -> u64 {
        let place = |root: &Value| place_of(of, root, &mut 0);
        place(self.root).or_else(|| place(self.variables).map(|place| place + NUMBERS_EACH)).unwrap_or(2 * NUMBERS_EACH)
    }

    /// What a chain finds; `unwraps`: in a path that is lax arrays that it finds are taken apart.
    fn values(&self, of: &'a Chain, item: Item<'a>, place: &Place<'a>, unwraps: bool) -> Followed<Vec<Item<'a>>> {
        let mut out = Out { all: Vec::new(), is_first_enough: false };
        self.step(of, item, place, self.is_lax(), &mut out)?;
        if !unwraps || !self.is_lax() {
            return Ok(out.all);
        }
        let mut all = Vec::with_capacity(out.all.len());
        for item in out.all {
            match item.value() {
                Value::Array(_) => all.extend(item.parts()),
                _ => all.push(item),
            }
        }
        Ok(all)
    }

    fn truth(&self, of: &'a Condition, item: &Item<'a>, place: &Place<'a>) -> Followed<Truth> {
        let place = &Place { throws: false, ..place.clone() };
        let of_values = |chain: &'a Chain, unwraps| match self.values(chain, item.clone(), place, unwraps) {
            Ok(all) => Ok(Some(all)),
            Err(Fault::Soft(_)) => Ok(None),
            Err(hard) => Err(hard),
        };
        Ok(match of {
            Condition::And(left, right) => match self.truth(left, item, place)? {
                Some(false) => Some(false),
                left => match self.truth(right, item, place)? {
                    Some(true) => left,
                    right => right,
                },
            },
            Condition::Or(left, right) => match self.truth(left, item, place)? {
                Some(true) => Some(true),
                left => match self.truth(right, item, place)? {
                    Some(false) => left,
                    right => right,
                },
            },
            Condition::Not(of) => self.truth(of, item, place)?.map(|truth| !truth),
            Condition::IsUnknown(of) => Some(self.truth(of, item, place)?.is_none()),
            Condition::Exists(of) => {
                let mut out = Out { all: Vec::new(), is_first_enough: self.is_lax() };
                match self.step(of, item.clone(), place, self.is_lax(), &mut out) {
                    Ok(_) => Some(!out.all.is_empty()),
                    Err(Fault::Soft(_)) => None,
                    Err(hard) => return Err(hard),
                }
            }
            Condition::Compared(comparison, left, right) => {
                let Some(left) = of_values(left, true)? else { return Ok(None) };
                let Some(right) = of_values(right, true)? else { return Ok(None) };
                let all = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
                self.any(all.map(|(left, right)| compared(*comparison, left.value(), right.value())))
            }
            Condition::StartsWith(of, with) => {
                let Some(of) = of_values(of, true)? else { return Ok(None) };
                let Some(with) = of_values(with, false)? else { return Ok(None) };
                let all = of.iter().flat_map(|of| with.iter().map(move |with| (of, with)));
                self.any(all.map(|pair| match (pair.0.value(), pair.1.value()) {
                    (Value::Text(of), Value::Text(with)) => Some(of.starts_with(with.as_str())),
                    _ => None,
                }))
            }
            Condition::Matches { of, regex, .. } => {
                let Some(of) = of_values(of, true)? else { return Ok(None) };
                self.any(of.iter().map(|of| match of.value() {
                    Value::Text(text) => Some(regex.is_match(text)),
                    _ => None,
                }))
            }
        })
    }

    /// Whether one is true; unknown where none is and one is unknown. A strict path looks at all, until one is unknown.
    fn any(&self, all: impl Iterator<Item = Truth>) -> Truth {
        let (mut is_found, mut is_unknown) = (false, false);
        for truth in all {
            match truth {
                None if !self.is_lax() => return None,
                None => is_unknown = true,
                Some(true) if self.is_lax() => return Some(true),
                Some(truth) => is_found |= truth,
            }
        }
        match (is_found, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }
}

/// The number of an array or object among those of a value, in the order in which they stand.
fn place_of(of: &Value, root: &Value, next: &mut u64) -> Option<u64> {
    if root.is_scalar() {
        return None;
    }
    if std::ptr::eq(of, root) {
        return Some(*next);
    }
    *next += 1;
    match root {
        Value::Array(all) => all.iter().find_map(|value| place_of(of, value, next)),
        Value::Object(all) => all.iter().find_map(|(_, value)| place_of(of, value, next)),
        _ => None,
    }
}

fn exact(of: &Value) -> Exact {
    match of {
        Value::Number(number) => Exact::of(number),
        _ => Exact::of("0"),
    }
}

fn made<'a>(of: Exact) -> Followed<Item<'a>> {
    Ok(Item::Made(Value::Number(of.normal().map_err(Fault::Soft)?)))
}

fn compared(comparison: Comparison, left: &Value, right: &Value) -> Truth {
    use std::cmp::Ordering;
    let order = match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Truth(left), Value::Truth(right)) => left.cmp(right),
        (Value::Number(_), Value::Number(_)) => exact(left).cmp(&exact(right)),
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        // Null is none of the others; all else is not comparable.
        (Value::Null, _) | (_, Value::Null) => return Some(comparison == Comparison::NotEqual),
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

fn double<'a>(item: &Item<'a>) -> Followed<Item<'a>> {
    let refused =
        |what: &str| soft(SqlState::NonNumericSqlJsonItem, format!("the method .double() of a path is of {what}"));
    match item.value() {
        Value::Number(number) => match number.parse::<f64>() {
            Ok(double) if double.is_finite() => Ok(item.clone()),
            _ => refused("numbers that a DOUBLE can be"),
        },
        Value::Text(text) => match text.trim().parse::<f64>() {
            Ok(double) if double.is_finite() => {
                // As many digits as a DOUBLE has for sure.
                let rounded = format!("{double:.14e}");
                let text = number::normal(&rounded).map_err(Fault::Soft)?;
                Ok(Item::Made(Value::Number(number::bare(&text).to_string())))
            }
            _ => refused("texts that are numbers that a DOUBLE can be"),
        },
        _ => refused("numbers and texts only"),
    }
}
