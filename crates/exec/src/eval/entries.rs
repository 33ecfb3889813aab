//! [`Site`]: where an expression is compiled; and expressions of one column that are evaluated once per value it can
//! have.
//!
//! Whatever an expression computes of a column of vids is computed for each entry of the dictionary, if that has few
//! entries for the rows that are expected, and looked up from then on; so is what it computes of integers of few
//! values. Strings become vids of a new dictionary of the results, so what groups or compares them goes on over codes.
//!
//! An entry that no row holds may make the expression fail; then nothing is reported and the expression is evaluated
//! over rows instead. So it is where there is no room for the results.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::DataType;
use numa::{Allocator, Policy, Reservation};
use storage::Dictionary;

use super::interval::Interval;
use super::node::{BoolNode, IntNode, Key, Table, VidNode};
use super::schema_of;
use super::typed::{Node, TypedNode};
use crate::ExecError;
use crate::charge::array_bytes;
use crate::chunk::vector::{ColumnInfo, ColumnKind, Data, Vector, integer_bounds, ints_of_arrow, is_integer};
use crate::plan::expression::{Expression, argument_schema, evaluate_over};
use crate::tasks::run::Run;
use crate::tasks::traffic::{TouchPhase, note_values};

/// Values that one task evaluates.
const PIECE: usize = 65_536;
/// Most values of an integer column for which an expression is evaluated beforehand.
const INTEGERS_MAX: u64 = 1 << 16;

/// `n` values are evaluated for as many rows; more only for several times as many.
const FEW: u64 = 4096;

/// Where an expression is compiled: what its columns are, how many rows are to come, and the threads to prepare with.
pub(super) struct Site<'a> {
    pub(super) infos: &'a [ColumnInfo],
    run: Option<&'a Run<'a>>,
    rows: u64,
    /// Of the tables made so far.
    reservations: RefCell<Vec<Reservation>>,
}

impl<'a> Site<'a> {
    /// For about `rows` rows; without a run nothing is evaluated beforehand.
    pub(super) fn new(infos: &'a [ColumnInfo], run: Option<&'a Run<'a>>, rows: u64) -> Site<'a> {
        Site { infos, run, rows, reservations: RefCell::default() }
    }

    /// The threads to prepare with.
    pub(super) fn run(&self) -> Option<&'a Run<'a>> {
        self.run
    }

    /// What the tables made here are charged to.
    pub(super) fn reservations(&self) -> Vec<Reservation> {
        self.reservations.take()
    }

    /// The expression as a table over the values of its column, if that is cheaper.
    pub(super) fn by_entries(&self, expression: &Arc<dyn Expression>) -> Option<TypedNode> {
        let [column] = *expression.columns() else { return None };
        if expression.volatile() {
            return None;
        }
        let schema = argument_schema(expression.as_ref(), &schema_of(self.infos));
        self.table(column, expression.data_type(), &|values| {
            let rows = values.len();
            evaluate_over(expression.as_ref(), &schema, vec![values], rows)
        })
    }

    /// `function` of a column as a table over its values; the results have type `data_type`.
    pub(super) fn table(
        &self,
        column: usize,
        data_type: &DataType,
        function: &(dyn Fn(ArrayRef) -> Result<ArrayRef, ExecError> + Sync),
    ) -> Option<TypedNode> {
        let (run, info) = (self.run?, &self.infos[column]);
        let wanted = is_text(data_type) || is_integer(data_type);
        let (values, domain) = match &info.kind {
            ColumnKind::Vid(dictionary) => (dictionary.len() as u64, Domain::Vids(dictionary)),
            ColumnKind::Int { low, high } => (high.abs_diff(*low).saturating_add(1), Domain::Integers(*low, info)),
            ColumnKind::Float | ColumnKind::Arrow => return None,
        };
        let most = if matches!(domain, Domain::Vids(_)) { u64::from(u32::MAX) } else { INTEGERS_MAX };
        // Not every value need occur, and filters and joins may leave fewer rows than are expected.
        let cost = if values <= FEW { values } else { values.saturating_mul(4) };
        if !wanted || values == 0 || values > most || cost > self.rows {
            return None;
        }
        let values = values as usize;
        let evaluated = run.map(values.div_ceil(PIECE), &|piece| {
            let first = piece * PIECE;
            function(domain.values(first..(first + PIECE).min(values)))
        });
        let of_null = match info.nullable {
            true => Some(function(new_null_array(info.data_type(), 1)).ok()?),
            false => None,
        };
        let mut pieces = evaluated.ok()?;
        pieces.extend(of_null.clone());
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        let results = concat(&pieces).ok()?;
        let reservation = run.reserve(array_bytes(results.as_ref())).ok()?;
        let key = |column| match domain {
            Domain::Vids(_) => Key::Vid(VidNode::Column(column)),
            Domain::Integers(low, _) => Key::Int(Box::new(IntNode::Column(column)), low),
        };
        let typed = looked_up(key(column), &results, values, run)?;
        self.reservations.borrow_mut().push(reservation);
        Some(typed)
    }

    /// CASE over strings: vids of one dictionary and constants that it has, or nothing but constants.
    pub(super) fn strings(
        &self,
        whens: Vec<(BoolNode, TypedNode)>,
        otherwise: TypedNode,
        data_type: &DataType,
        nullable: bool,
    ) -> Option<TypedNode> {
        let results = || whens.iter().map(|(_, then)| then).chain([&otherwise]);
        let dictionary = match one_dictionary(results())? {
            Some(dictionary) => dictionary,
            None => {
                let texts = results().filter_map(|r| match &r.node {
                    Node::Text(text) => Some(cast(text, &DataType::Utf8View)),
                    _ => None,
                });
                let texts = texts.collect::<Result<Vec<ArrayRef>, _>>().ok()?;
                let texts: Vec<&dyn Array> = texts.iter().map(AsRef::as_ref).collect();
                Arc::new(encoded(&concat(&texts).ok()?, self.run?)?.0)
            }
        };
        let vid = |result: TypedNode| -> Option<VidNode> {
            Some(match result.node {
                Node::Vid(node, _) => node,
                Node::Null => VidNode::Null,
                Node::Text(text) => {
                    let text = cast(&text, &DataType::Utf8View).ok()?;
                    let vid = dictionary.lower_bound(&text).ok()?;
                    if dictionary.upper_bound(&text).ok()? == vid {
                        return None;
                    }
                    VidNode::Const(vid)
                }
                _ => return None,
            })
        };
        let whens: Option<Vec<_>> = whens.into_iter().map(|(when, then)| Some((when, vid(then)?))).collect();
        let node = VidNode::Case(whens?, Box::new(vid(otherwise)?));
        Some(TypedNode::new(Node::Vid(node, dictionary.clone()), data_type.clone(), nullable))
    }
}

/// Is it a type of text?
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The dictionary that all vids are of, if it is one.
fn one_dictionary<'t>(results: impl Iterator<Item = &'t TypedNode>) -> Option<Option<Arc<Dictionary>>> {
    let mut known: Option<Arc<Dictionary>> = None;
    for result in results {
        if let Node::Vid(_, dictionary) = &result.node {
            match &known {
                Some(known) if !Arc::ptr_eq(known, dictionary) => return None,
                Some(_) => {}
                None => known = Some(dictionary.clone()),
            }
        }
    }
    Some(known)
}

/// The values that a column can have.
enum Domain<'a> {
    Vids(&'a Arc<Dictionary>),
    Integers(i64, &'a ColumnInfo),
}

impl Domain<'_> {
    fn values(&self, range: std::ops::Range<usize>) -> ArrayRef {
        match self {
            Domain::Vids(dictionary) => {
                note_values(dictionary.id(), TouchPhase::Materialize, range.len());
                dictionary.values(range.start as u32..range.end as u32)
            }
            Domain::Integers(low, info) => {
                let values = range.map(|i| low + i as i64).collect();
                info.to_arrow(&Vector { data: Data::Int(values), valid: None })
            }
        }
    }
}

/// A table of `results`: one for each of `values` values, and one more for NULL if there is any.
fn looked_up(key: Key, results: &ArrayRef, values: usize, run: &Run<'_>) -> Option<TypedNode> {
    let data_type = results.data_type().clone();
    let (of_values, nullable) = (results.slice(0, values), results.null_count() > 0);
    let null_known = results.len() > values && results.is_valid(values);
    let valid = || -> Option<Arc<[bool]>> {
        let nulls = of_values.nulls().filter(|n| n.null_count() > 0)?;
        Some(nulls.iter().collect())
    };
    let node = match &data_type {
        DataType::Boolean => {
            let bools = results.as_boolean();
            let of_null = null_known.then(|| bools.value(values));
            let results = bools.values().iter().take(values).collect();
            Node::Bool(BoolNode::Table(Table { key, results, valid: valid(), of_null }))
        }
        text if is_text(text) => {
            let (dictionary, vids) = encoded(&cast(results, &DataType::Utf8View).ok()?, run)?;
            let of_null = null_known.then(|| vids[values]);
            let table = Table { key, results: vids[..values].into(), valid: valid(), of_null };
            Node::Vid(VidNode::Table(Box::new(table)), Arc::new(dictionary))
        }
        _ => {
            let (low, high) = integer_bounds(results.as_ref())?;
            let ints = ints_of_arrow(results.as_ref());
            let of_null = null_known.then(|| ints[values]);
            let table = Table { key, results: ints[..values].into(), valid: valid(), of_null };
            Node::Int(IntNode::Table(table), Interval::of(low, high))
        }
    };
    Some(TypedNode::new(node, data_type, nullable))
}

/// Strings as vids of a dictionary of their own; 0 for NULL.
pub(super) fn encoded(strings: &ArrayRef, run: &Run<'_>) -> Option<(Dictionary, Vec<u32>)> {
    let view = strings.as_string_view();
    let mut distinct: Vec<&str> = view.iter().flatten().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let allocator = Allocator::new(Policy::Local, run.statement.budget().clone());
    let dictionary = Dictionary::of_strings(&distinct, &allocator).ok()?;
    let vids = view.iter().map(|s| s.and_then(|s| distinct.binary_search(&s).ok()).unwrap_or(0) as u32);
    Some((dictionary, vids.collect()))
}
