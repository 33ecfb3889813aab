//! [`Window`]: functions over the rows around each row.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::predicate::{column_type, same_type};
use super::relational::SortKey;
use super::{AggregateCall, AggregateFunction, Plan};
use crate::PlanError;

/// Rows with the values of functions over their partition: the input's columns, then one per call. Rows of a partition
/// are equal in all
/// of its columns (NULLs are equal to each other; so are -0.0 and 0.0, and all NaNs) and come in an order; those that
/// are equal in all
/// keys of the order are peers. Rows come out in no particular order.
#[derive(Clone)]
pub struct Window {
    /// Input.
    pub input: Plan,
    /// Input columns that tell partitions apart; without one all rows are one partition.
    pub partition: Vec<usize>,
    /// The order within a partition; without one all its rows are peers.
    pub order: Vec<SortKey>,
    /// What is computed per row.
    pub calls: Vec<WindowCall>,
}

/// One function of a [`Window`].
#[derive(Debug, Clone)]
pub struct WindowCall {
    /// Which function.
    pub function: WindowFunction,
    /// Input columns it reads: those of an aggregate, or the one whose value is given.
    pub arguments: Vec<usize>,
    /// FILTER of an aggregate: a boolean input column; rows count where it is TRUE.
    pub filter: Option<usize>,
    /// Rows whose argument is NULL are passed over by functions that give the value of a row.
    pub ignore_nulls: bool,
    /// The rows that aggregates and first, last and nth values are over; the others are over the partition.
    pub frame: Frame,
    /// Name and type of the output.
    pub field: FieldRef,
}

/// A function of a row and its partition.
#[derive(Debug, Clone)]
pub enum WindowFunction {
    /// The row's number in its partition, from 1; an integer.
    RowNumber,
    /// The number of the first of its peers; an integer.
    Rank,
    /// How many groups of peers there are up to its own; an integer.
    DenseRank,
    /// `(rank - 1) / (rows - 1)`, 0 for a row alone; Float64.
    PercentRank,
    /// The share of rows up to its last peer; Float64.
    CumeDist,
    /// The partition cut into `n` parts that differ by one row at most, the larger ones first: which one; an
    /// integer. NULL where
    /// the number is; below 1 is an error.
    Ntile(Option<i64>),
    /// The argument's value `n` rows before this one; of `default`, a column of that type, or NULL where there is
    /// no such row.
    /// NULL where the number is.
    Lag {
        /// How many rows.
        offset: Amount,
        /// The column whose value is given instead.
        default: Option<usize>,
    },
    /// As [`Lag`](Self::Lag), behind this row.
    Lead {
        /// How many rows.
        offset: Amount,
        /// The column whose value is given instead.
        default: Option<usize>,
    },
    /// The argument's value in the frame's first row; NULL where the frame is empty.
    FirstValue,
    /// In its last row.
    LastValue,
    /// In the row of this number, from 1; NULL where there are fewer, or the number is NULL. Below 1 is an error.
    NthValue(Amount),
    /// An aggregate over the frame.
    Aggregate {
        /// Which one.
        function: AggregateFunction,
        /// Each distinct value of the frame once; not of [`AggregateFunction::Opaque`].
        distinct: bool,
    },
}

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// The same for every row; `None` is NULL.
    Constant(Option<i64>),
    /// An input column of type Int64.
    Column(usize),
}

/// What a frame's offsets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameUnits {
    /// Rows.
    Rows,
    /// Distance in the only key of the order.
    Range,
    /// Groups of peers.
    Groups,
}

/// Where a frame begins or ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameBound {
    /// With the partition's first row.
    UnboundedPreceding,
    /// So far before the row.
    Preceding(FrameOffset),
    /// At the row itself; with its peers, unless rows are counted.
    CurrentRow,
    /// So far behind it.
    Following(FrameOffset),
    /// With the partition's last row.
    UnboundedFollowing,
}

/// How far; never negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameOffset {
    /// Rows or groups.
    Count(u64),
    /// RANGE over integers, decimals (unscaled) and what else is one number.
    Integer(i128),
    /// RANGE over floats.
    Float(f64),
    /// RANGE over dates, times and timestamps.
    Interval {
        /// Calendar months.
        months: i32,
        /// Calendar days.
        days: i32,
        /// The rest.
        nanoseconds: i64,
    },
}

/// Rows of the frame that do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameExclusion {
    /// None.
    NoOthers,
    /// The row itself.
    CurrentRow,
    /// The row and its peers.
    Group,
    /// Its peers, but not the row.
    Ties,
}

/// The rows of a partition that a function is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Frame {
    /// What offsets count.
    pub units: FrameUnits,
    /// Where it begins.
    pub start: FrameBound,
    /// Where it ends.
    pub end: FrameBound,
    /// What is left out of it.
    pub exclusion: FrameExclusion,
}

impl Frame {
    /// The whole partition.
    pub const WHOLE: Frame = Frame {
        units: FrameUnits::Rows,
        start: FrameBound::UnboundedPreceding,
        end: FrameBound::UnboundedFollowing,
        exclusion: FrameExclusion::NoOthers,
    };

    /// The offsets of both ends.
    pub fn offsets(&self) -> impl Iterator<Item = FrameOffset> {
        [self.start, self.end].into_iter().filter_map(|bound| match bound {
            FrameBound::Preceding(offset) | FrameBound::Following(offset) => Some(offset),
            _ => None,
        })
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match self.units {
            FrameUnits::Rows => "rows",
            FrameUnits::Range => "range",
            FrameUnits::Groups => "groups",
        };
        write!(f, "{units} {} to {}", self.start, self.end)?;
        match self.exclusion {
            FrameExclusion::NoOthers => Ok(()),
            FrameExclusion::CurrentRow => f.write_str(" without current row"),
            FrameExclusion::Group => f.write_str(" without group"),
            FrameExclusion::Ties => f.write_str(" without ties"),
        }
    }
}

impl fmt::Display for FrameBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameBound::UnboundedPreceding => f.write_str("first"),
            FrameBound::Preceding(offset) => write!(f, "-{offset}"),
            FrameBound::CurrentRow => f.write_str("current"),
            FrameBound::Following(offset) => write!(f, "+{offset}"),
            FrameBound::UnboundedFollowing => f.write_str("last"),
        }
    }
}

impl fmt::Display for FrameOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameOffset::Count(count) => write!(f, "{count}"),
            FrameOffset::Integer(distance) => write!(f, "{distance}"),
            FrameOffset::Float(distance) => write!(f, "{distance}"),
            FrameOffset::Interval { months, days, nanoseconds } => {
                write!(f, "({months} mon {days} d {nanoseconds} ns)")
            }
        }
    }
}

impl WindowCall {
    /// All input columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.arguments.iter().copied().chain(self.filter).collect();
        match &self.function {
            WindowFunction::NthValue(amount) => columns.extend(amount.column()),
            WindowFunction::Lag { offset, default } | WindowFunction::Lead { offset, default } => {
                columns.extend(offset.column().into_iter().chain(*default));
            }
            _ => {}
        }
        columns
    }

    /// The same over an input whose columns are numbered differently.
    pub fn map_columns(&self, map: &dyn Fn(usize) -> usize) -> WindowCall {
        let mut call = self.clone();
        call.arguments.iter_mut().for_each(|a| *a = map(*a));
        call.filter = call.filter.map(map);
        let mapped = |amount: &mut Amount| {
            if let Amount::Column(column) = amount {
                *column = map(*column);
            }
        };
        match &mut call.function {
            WindowFunction::NthValue(amount) => mapped(amount),
            WindowFunction::Lag { offset, default } | WindowFunction::Lead { offset, default } => {
                mapped(offset);
                *default = default.map(map);
            }
            _ => {}
        }
        call
    }

    /// The aggregate that it is over its frame, if it is one.
    pub(crate) fn aggregate(&self) -> Option<AggregateCall> {
        let WindowFunction::Aggregate { function, distinct } = &self.function else { return None };
        Some(AggregateCall {
            function: function.clone(),
            arguments: self.arguments.clone(),
            distinct: *distinct,
            filter: self.filter,
            field: self.field.clone(),
            order: Vec::new(),
        })
    }

    fn validate(&self, input: &Schema, order: &[SortKey]) -> Result<(), PlanError> {
        let context = || format!("window function {}", self.field.name());
        for column in self.columns() {
            column_type(column, input, &context)?;
        }
        if let Some(filter) = self.filter {
            same_type(&DataType::Boolean, column_type(filter, input, &context)?, &context)?;
        }
        let bad = |problem: &str| Err(PlanError::BadLiteral { context: context(), problem: problem.into() });
        let result = self.field.data_type();
        let amounts = |amount: &Amount| match amount {
            Amount::Column(c) => same_type(&DataType::Int64, column_type(*c, input, &context)?, &context),
            Amount::Constant(_) => Ok(()),
        };
        match &self.function {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank if !result.is_integer() => {
                bad("its result is an integer")
            }
            WindowFunction::PercentRank | WindowFunction::CumeDist => same_type(&DataType::Float64, result, &context),
            WindowFunction::Ntile(_) if !result.is_integer() => bad("its result is an integer"),
            WindowFunction::Lag { offset, default } | WindowFunction::Lead { offset, default } => {
                amounts(offset)?;
                if let Some(default) = default {
                    same_type(result, column_type(*default, input, &context)?, &context)?;
                }
                self.validate_value(input, &context)
            }
            WindowFunction::FirstValue | WindowFunction::LastValue => self.validate_value(input, &context),
            WindowFunction::NthValue(amount) => {
                amounts(amount)?;
                self.validate_value(input, &context)
            }
            WindowFunction::Aggregate { function, .. } if function.is_ordered() => {
                bad("functions of values in an order are no window functions")
            }
            WindowFunction::Aggregate { distinct: true, .. } if self.arguments.len() != 1 => {
                bad("DISTINCT is over one argument")
            }
            WindowFunction::Aggregate { function: AggregateFunction::Opaque(_), distinct: true } => {
                bad("DISTINCT is for counts, sums, averages, smallest and largest values only")
            }
            _ => Ok(()),
        }?;
        self.validate_frame(order, &context)
    }

    fn validate_value(&self, input: &Schema, context: &dyn Fn() -> String) -> Result<(), PlanError> {
        match self.arguments[..] {
            [argument] => same_type(column_type(argument, input, context)?, self.field.data_type(), context),
            _ => Err(PlanError::BadLiteral { context: context(), problem: "it has one argument".into() }),
        }
    }

    fn validate_frame(&self, order: &[SortKey], context: &dyn Fn() -> String) -> Result<(), PlanError> {
        let bad = |problem: &str| Err(PlanError::BadLiteral { context: context(), problem: problem.into() });
        match (self.frame.start, self.frame.end) {
            (FrameBound::UnboundedFollowing, _) => return bad("its frame begins with the last row"),
            (_, FrameBound::UnboundedPreceding) => return bad("its frame ends with the first row"),
            _ => {}
        }
        let counts = self.frame.units != FrameUnits::Range;
        for offset in self.frame.offsets() {
            if counts != matches!(offset, FrameOffset::Count(_)) {
                return bad("its frame's offsets are of another kind than its units");
            }
        }
        if !counts && self.frame.offsets().next().is_some() && order.len() != 1 {
            return bad("its frame is a distance, so its order has one key");
        }
        Ok(())
    }

    fn describe(&self, input: &Schema) -> String {
        let name = |c: usize| input.fields().get(c).map_or("?", |f| f.name().as_str());
        let mut arguments: Vec<String> = self.arguments.iter().map(|&a| name(a).to_string()).collect();
        let amount = |amount: &Amount| match amount {
            Amount::Constant(Some(rows)) => rows.to_string(),
            Amount::Constant(None) => "NULL".into(),
            Amount::Column(column) => name(*column).to_string(),
        };
        let function = match &self.function {
            WindowFunction::RowNumber => "row_number".to_string(),
            WindowFunction::Rank => "rank".into(),
            WindowFunction::DenseRank => "dense_rank".into(),
            WindowFunction::PercentRank => "percent_rank".into(),
            WindowFunction::CumeDist => "cume_dist".into(),
            WindowFunction::Ntile(parts) => {
                arguments.push(amount(&Amount::Constant(*parts)));
                "ntile".into()
            }
            WindowFunction::Lag { offset, default } | WindowFunction::Lead { offset, default } => {
                arguments.push(amount(offset));
                arguments.extend(default.map(|d| name(d).to_string()));
                if matches!(self.function, WindowFunction::Lag { .. }) { "lag".into() } else { "lead".into() }
            }
            WindowFunction::FirstValue => "first_value".into(),
            WindowFunction::LastValue => "last_value".into(),
            WindowFunction::NthValue(number) => {
                arguments.push(amount(number));
                "nth_value".into()
            }
            WindowFunction::Aggregate { function, distinct } => {
                if *distinct && let Some(first) = arguments.first_mut() {
                    first.insert_str(0, "distinct ");
                }
                match function {
                    AggregateFunction::CountRows => "count".into(),
                    AggregateFunction::Opaque(function) => function.name(),
                    known => format!("{known:?}").to_lowercase(),
                }
            }
        };
        if matches!(self.function, WindowFunction::Aggregate { function: AggregateFunction::CountRows, .. }) {
            arguments.push("*".into());
        }
        let filter = self.filter.map_or(String::new(), |f| format!(" filter {}", name(f)));
        let nulls = if self.ignore_nulls { " ignore nulls" } else { "" };
        let frame = if self.has_frame() { format!(" {}", self.frame) } else { String::new() };
        format!("{function}({}){nulls}{filter}{frame}", arguments.join(", "))
    }

    /// Whether the frame says anything.
    pub(crate) fn has_frame(&self) -> bool {
        matches!(
            self.function,
            WindowFunction::FirstValue
                | WindowFunction::LastValue
                | WindowFunction::NthValue(_)
                | WindowFunction::Aggregate { .. }
        )
    }
}

impl Amount {
    /// The column that it is, if it is one.
    pub(crate) fn column(self) -> Option<usize> {
        match self {
            Amount::Constant(_) => None,
            Amount::Column(column) => Some(column),
        }
    }
}

impl Window {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let input = self.input.schema();
        for &column in &self.partition {
            column_type(column, &input, &|| "PARTITION BY".into())?;
        }
        for key in &self.order {
            column_type(key.column, &input, &|| "ORDER BY of a window".into())?;
        }
        self.calls.iter().try_for_each(|call| call.validate(&input, &self.order))
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let input = self.input.schema();
        let calls = self.calls.iter().map(|c| Arc::new(Field::clone(&c.field)));
        Arc::new(Schema::new(input.fields().iter().cloned().chain(calls).collect::<Vec<_>>()))
    }

    /// What its rows are sorted by: partitions, then their order.
    pub(crate) fn sort_keys(&self) -> Vec<SortKey> {
        let partition = self.partition.iter().map(|&column| SortKey { column, descending: false, nulls_first: false });
        partition.chain(self.order.iter().copied()).collect()
    }

    /// The same over another input with the same columns.
    pub(crate) fn over(&self, input: Plan) -> Window {
        Window { input, partition: self.partition.clone(), order: self.order.clone(), calls: self.calls.clone() }
    }

    pub(super) fn describe(&self) -> String {
        let input = self.input.schema();
        let name = |c: usize| input.fields().get(c).map_or("?", |f| f.name().as_str());
        let partition: Vec<&str> = self.partition.iter().map(|&c| name(c)).collect();
        let order: Vec<String> = self
            .order
            .iter()
            .map(|key| format!("{}{}", name(key.column), if key.descending { " desc" } else { "" }))
            .collect();
        let calls: Vec<String> = self.calls.iter().map(|call| call.describe(&input)).collect();
        format!("Window: by [{}] order [{}] [{}]", partition.join(", "), order.join(", "), calls.join(", "))
    }
}
