//! [`Aggregation`]: GROUP BY with one or several sets of keys, and the functions that are computed per group.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};

use super::predicate::{column_type, same_type};
use super::{Plan, SortKey};
use crate::{ExecError, PlanError};

/// GROUP BY and aggregates. Without keys there is exactly one row, also of an empty input; without calls it is
/// DISTINCT. The output has the keys, then the number of the grouping set where there are some, then a column per
/// call; groups come in no particular order. NULL keys are equal to each other; so are -0.0 and 0.0, and all NaNs.
#[derive(Clone)]
pub struct Aggregation {
    /// Input.
    pub input: Plan,
    /// Input columns to group by.
    pub keys: Vec<usize>,
    /// By which of the keys, where that is not once by all.
    pub sets: Option<GroupingSets>,
    /// What is computed per group.
    pub calls: Vec<AggregateCall>,
}

/// GROUPING SETS: the groups of each set, one after the other. A key that a set leaves out is NULL in its rows.
#[derive(Debug, Clone)]
pub struct GroupingSets {
    /// At least one; two may be equal.
    pub sets: Vec<GroupingSet>,
    /// Name and unsigned integer type of the column that tells the sets apart.
    pub id: FieldRef,
}

/// One of several ways to group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupingSet {
    /// Which of the aggregation's keys, by place, ascending. None is one group, which is there even without a row.
    pub keys: Vec<usize>,
    /// The value of the column that tells the sets apart.
    pub id: u64,
}

/// One aggregate of an [`Aggregation`].
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// Which function.
    pub function: AggregateFunction,
    /// Input columns it reads; none for `count(*)`, one for those built in.
    pub arguments: Vec<usize>,
    /// Each distinct value (row of arguments) of a group once.
    pub distinct: bool,
    /// FILTER: a boolean input column; rows count where it is TRUE.
    pub filter: Option<usize>,
    /// Name and type of the output. Sum, Min, Max and Avg follow it: see [`AggregateFunction`].
    pub field: FieldRef,
    /// The order in which a function sees the rows of its group, where [that matters](AggregateFunction::is_ordered);
    /// rows that it leaves equal come in the order of the input. Of DISTINCT values each is seen in this order, by
    /// itself where the order leaves it open.
    pub order: Vec<SortKey>,
}

/// An aggregate function. NULL arguments are skipped unless it is said otherwise; over no value all but the counts
/// are NULL.
#[derive(Debug, Clone)]
pub enum AggregateFunction {
    /// `count(*)`, Int64.
    CountRows,
    /// Number of values that are not NULL, Int64.
    Count,
    /// Exact sum: computed so that it cannot overflow, checked once against the output's type at the end.
    Sum,
    /// Smallest value, of the argument's type; floats by total order.
    Min,
    /// Largest value.
    Max,
    /// Mean: the exact sum divided once. Of decimals a decimal of the output's scale, of durations one,
    /// both rounded half away from zero; else Float64.
    Avg,
    /// The value of one row: the first where `place` is 1, the last where it is -1.
    Nth {
        /// From the front, or from the end where it is negative; never 0.
        place: i64,
        /// Rows whose value is NULL count.
        nulls: bool,
    },
    /// A list of all values.
    Collect {
        /// Those that are NULL too.
        nulls: bool,
    },
    /// Text, one after the other.
    Join {
        /// What stands between two.
        separator: String,
    },
    /// The value that stands at a share of the way through all values in the order of the call's one key, which is
    /// the argument.
    Quantile {
        /// From 0 to 1.
        share: f64,
        /// Between two values: a mean of both, weighed by distance; Float64, or the decimal type of the argument.
        /// Else the first value that has at least that share of all up to itself.
        continuous: bool,
    },
    /// The most frequent value; of several the first in the order of the call's one key, which is the argument.
    Mode,
    /// Anything else.
    Opaque(Arc<dyn OpaqueAggregate>),
}

impl AggregateFunction {
    /// True where the result depends on the order of rows.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            AggregateFunction::Nth { .. } | AggregateFunction::Collect { .. } | AggregateFunction::Join { .. }
        ) || self.is_ranked()
    }

    /// True where it is the values that are put in order.
    pub fn is_ranked(&self) -> bool {
        matches!(self, AggregateFunction::Quantile { .. } | AggregateFunction::Mode)
    }

    /// True where rows whose argument is NULL do not count.
    pub fn skips_nulls(&self) -> bool {
        match self {
            AggregateFunction::Nth { nulls, .. } | AggregateFunction::Collect { nulls } => !nulls,
            AggregateFunction::Opaque(_) => false,
            _ => true,
        }
    }
}

/// An aggregate function that this crate does not know.
pub trait OpaqueAggregate: Send + Sync + Debug {
    /// Text for EXPLAIN: the function's name.
    fn name(&self) -> String;
    /// Type of the result.
    fn data_type(&self) -> &DataType;
    /// State for groups numbered from 0.
    fn groups(&self) -> Result<Box<dyn OpaqueGroups>, ExecError>;
}

/// Some rows of an aggregation, and the groups that they are of.
#[derive(Clone, Copy, Debug)]
pub struct GroupedRows<'a> {
    /// The group of each row, below `total`.
    pub groups: &'a [usize],
    /// Rows where this is not TRUE do not count.
    pub filter: Option<&'a BooleanArray>,
    /// How many groups there are, also without a row.
    pub total: usize,
}

impl GroupedRows<'_> {
    /// No row, of `total` groups: they are there even if none ever has one.
    pub fn none(total: usize) -> GroupedRows<'static> {
        GroupedRows { groups: &[], filter: None, total }
    }

    /// The rows that count, each with its group.
    pub fn counted(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let counts = |row: usize| self.filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        self.groups.iter().copied().enumerate().filter(move |(row, _)| counts(*row))
    }
}

/// The state of an [`OpaqueAggregate`] for some groups.
pub trait OpaqueGroups: Send {
    /// Takes rows: `arguments` has one array per argument.
    fn update(&mut self, arguments: &[ArrayRef], rows: GroupedRows<'_>) -> Result<(), ExecError>;
    /// Takes another state of the same function, as [`state`](Self::state) gave it: its group `i` is `groups[i]` here.
    fn merge(&mut self, state: &[ArrayRef], groups: &[usize], total: usize) -> Result<(), ExecError>;
    /// The state of all groups, to be merged elsewhere; it is empty afterwards.
    fn state(&mut self) -> Result<Vec<ArrayRef>, ExecError>;
    /// The results of all groups, in order.
    fn finish(&mut self) -> Result<ArrayRef, ExecError>;
    /// Bytes that it holds.
    fn bytes(&self) -> usize;
}

impl GroupingSets {
    /// The keys, by place, that every set has.
    fn common_keys(&self) -> Vec<usize> {
        let first = self.sets.first().map_or(&[][..], |set| &set.keys);
        first.iter().copied().filter(|key| self.sets.iter().all(|set| set.keys.contains(key))).collect()
    }

    /// Is there a row even without one of the input?
    pub fn has_grand_total(&self) -> bool {
        self.sets.iter().any(|set| set.keys.is_empty())
    }

    fn validate(&self, keys: usize) -> Result<(), PlanError> {
        let problem = |problem: String| PlanError::BadLiteral { context: "GROUPING SETS".into(), problem };
        if self.sets.is_empty() {
            return Err(problem("there is no set".into()));
        }
        for set in &self.sets {
            if !set.keys.is_sorted_by(|a, b| a < b) || set.keys.last().is_some_and(|&last| last >= keys) {
                return Err(problem(format!("a set has the keys {:?} of {keys}", set.keys)));
            }
        }
        match self.id.data_type() {
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 | DataType::Int64 => Ok(()),
            other => Err(problem(format!("the number of a set is {other}"))),
        }
    }
}

impl AggregateCall {
    /// Input columns that it reads.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.arguments.iter().copied().chain(self.filter).chain(self.order.iter().map(|key| key.column))
    }

    /// The same call over an input whose columns stand elsewhere.
    pub fn map_columns(mut self, place: &dyn Fn(usize) -> usize) -> AggregateCall {
        self.arguments.iter_mut().for_each(|a| *a = place(*a));
        self.filter = self.filter.map(place);
        self.order.iter_mut().for_each(|key| key.column = place(key.column));
        self
    }

    fn validate(&self, input: &Schema) -> Result<(), PlanError> {
        let context = || format!("aggregate {}", self.field.name());
        let problem = |problem: String| Err(PlanError::BadLiteral { context: context(), problem });
        for column in self.columns() {
            column_type(column, input, &context)?;
        }
        if let Some(filter) = self.filter {
            same_type(&DataType::Boolean, column_type(filter, input, &context)?, &context)?;
        }
        let one = || match self.arguments.len() {
            1 => column_type(self.arguments[0], input, &context),
            _ => Err(PlanError::BadLiteral { context: context(), problem: "it has one argument".into() }),
        };
        let output = self.field.data_type();
        match &self.function {
            AggregateFunction::CountRows | AggregateFunction::Count => same_type(&DataType::Int64, output, &context)?,
            AggregateFunction::Min | AggregateFunction::Max | AggregateFunction::Mode => {
                same_type(one()?, output, &context)?;
            }
            AggregateFunction::Sum | AggregateFunction::Avg => {
                one()?;
            }
            AggregateFunction::Nth { place, .. } => {
                same_type(one()?, output, &context)?;
                if *place == 0 {
                    return problem("there is no row 0".into());
                }
            }
            AggregateFunction::Collect { .. } => match output {
                DataType::List(item) => same_type(one()?, item.data_type(), &context)?,
                other => return problem(format!("a list is not {other}")),
            },
            AggregateFunction::Join { .. } => {
                let text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
                if let Some(other) = [one()?, output].into_iter().find(|t| !text(t)) {
                    return problem(format!("{other} is no text"));
                }
            }
            AggregateFunction::Quantile { share, continuous } => {
                let argument = one()?;
                if !(0.0..=1.0).contains(share) {
                    return problem(format!("{share} is no share from 0 to 1"));
                }
                let float = *continuous && *output == DataType::Float64;
                if float && !(argument.is_numeric() || argument.is_null()) {
                    return problem(format!("there is no mean of {argument}"));
                }
                if !float {
                    same_type(argument, output, &context)?;
                }
            }
            AggregateFunction::Opaque(function) => same_type(function.data_type(), output, &context)?,
        }
        if self.function.is_ranked() && (self.order.len() != 1 || self.order[0].column != self.arguments[0]) {
            return problem("it is by the order of its argument".into());
        }
        Ok(())
    }

    fn describe(&self, name: &dyn Fn(usize) -> String) -> String {
        let mut inside: Vec<String> = self.arguments.iter().map(|&a| name(a)).collect();
        let function = match &self.function {
            AggregateFunction::CountRows => {
                inside = vec!["*".into()];
                "count".to_string()
            }
            AggregateFunction::Opaque(f) => f.name(),
            AggregateFunction::Nth { place: 1, nulls: true } => "first_value".into(),
            AggregateFunction::Nth { place: 1, nulls: false } => "any_value".into(),
            AggregateFunction::Nth { place: -1, nulls: true } => "last_value".into(),
            AggregateFunction::Nth { place, nulls } => {
                inside.push(format!("{place}{}", if *nulls { "" } else { " ignore nulls" }));
                "nth_value".into()
            }
            AggregateFunction::Collect { .. } => "array_agg".into(),
            AggregateFunction::Join { separator } => {
                inside.push(format!("'{separator}'"));
                "string_agg".into()
            }
            AggregateFunction::Quantile { share, continuous } => {
                inside.push(share.to_string());
                if *continuous { "percentile_cont" } else { "percentile_disc" }.into()
            }
            known => format!("{known:?}").to_lowercase(),
        };
        let distinct = if self.distinct { "distinct " } else { "" };
        let filter = self.filter.map_or(String::new(), |f| format!(" filter {}", name(f)));
        let keys: Vec<String> = self.order.iter().map(|key| key.describe(&name(key.column))).collect();
        let order = if keys.is_empty() { String::new() } else { format!(" order by {}", keys.join(", ")) };
        format!("{function}({distinct}{}{order}){filter}", inside.join(", "))
    }
}

impl Aggregation {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let input = self.input.schema();
        for &key in &self.keys {
            column_type(key, &input, &|| "GROUP BY".into())?;
        }
        if let Some(sets) = &self.sets {
            sets.validate(self.keys.len())?;
        }
        self.calls.iter().try_for_each(|call| call.validate(&input))
    }

    /// Columns of the output before those of the calls.
    pub fn key_columns(&self) -> usize {
        self.keys.len() + usize::from(self.sets.is_some())
    }

    /// Is there a row even without one of the input?
    pub fn has_grand_total(&self) -> bool {
        self.sets.as_ref().map_or(self.keys.is_empty(), GroupingSets::has_grand_total)
    }

    /// The input column behind an output column that is a key of every group.
    pub(crate) fn key_of(&self, column: usize) -> Option<usize> {
        let key = *self.keys.get(column)?;
        let everywhere = self.sets.as_ref().is_none_or(|sets| sets.sets.iter().all(|set| set.keys.contains(&column)));
        everywhere.then_some(key)
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let input = self.input.schema();
        let key = |(place, &column): (usize, &usize)| {
            let field = &input.fields()[column];
            match &self.sets {
                Some(sets) if !sets.common_keys().contains(&place) => {
                    Arc::new(field.as_ref().clone().with_nullable(true))
                }
                _ => field.clone(),
            }
        };
        let keys = self.keys.iter().enumerate().map(key);
        let id = self.sets.iter().map(|sets| sets.id.clone());
        Arc::new(Schema::new(keys.chain(id).chain(self.calls.iter().map(|c| c.field.clone())).collect::<Vec<_>>()))
    }

    pub(super) fn describe(&self) -> String {
        let input = self.input.schema();
        let name = |c: usize| input.fields().get(c).map_or("?".to_string(), |f| f.name().clone());
        let names = |columns: &mut dyn Iterator<Item = usize>| columns.map(name).collect::<Vec<_>>().join(", ");
        let calls: Vec<String> = self.calls.iter().map(|call| call.describe(&name)).collect();
        let by = match &self.sets {
            None => names(&mut self.keys.iter().copied()),
            Some(sets) => {
                let set = |set: &GroupingSet| {
                    format!(
                        "({})",
                        names(&mut set.keys.iter().map(|&key| self.keys.get(key).copied().unwrap_or(usize::MAX)))
                    )
                };
                format!("sets {}", sets.sets.iter().map(set).collect::<Vec<_>>().join(", "))
            }
        };
        format!("Aggregate: by [{by}] [{}]", calls.join(", "))
    }
}
