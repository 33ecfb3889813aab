//! Operators of a [`Plan`] that look at more than one row: join, sort, union.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use super::Plan;
use super::predicate::{Predicate, column_type, same_type};
use crate::PlanError;

/// Which side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The left input.
    Left,
    /// The right input.
    Right,
}

/// What a join gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match: columns of left, then of right.
    Inner,
    /// Pairs, and each left row without a match with NULLs for right.
    Left,
    /// Pairs, and each right row without a match with NULLs for left.
    Right,
    /// Pairs, and rows of both sides without a match.
    Full,
    /// Rows of one side that have a match: that side's columns, each row once.
    Semi(Side),
    /// Rows of one side that have none: that side's columns.
    Anti(Side),
    /// Every row of one side and a last Boolean column `mark`: has it a match? Never NULL.
    Mark(Side),
}

impl JoinKind {
    /// All kinds, with either side where there is one.
    pub const ALL: [JoinKind; 10] = [
        JoinKind::Inner,
        JoinKind::Left,
        JoinKind::Right,
        JoinKind::Full,
        JoinKind::Semi(Side::Left),
        JoinKind::Semi(Side::Right),
        JoinKind::Anti(Side::Left),
        JoinKind::Anti(Side::Right),
        JoinKind::Mark(Side::Left),
        JoinKind::Mark(Side::Right),
    ];
}

/// Two inputs, row by row. A pair matches if every pair of key columns is equal (and not NULL, unless `nulls_equal`)
/// and the residual is TRUE. Floats: -0.0 equals 0.0, all NaNs are equal. Rows come in no particular order.
#[derive(Clone)]
pub struct Join {
    /// Left input.
    pub left: Plan,
    /// Right input.
    pub right: Plan,
    /// What is given.
    pub kind: JoinKind,
    /// Key columns of left and right, of equal type; none for a cross join or one by inequality.
    pub on: Vec<(usize, usize)>,
    /// NULL keys are equal to each other (IS NOT DISTINCT FROM, INTERSECT, EXCEPT).
    pub nulls_equal: bool,
    /// For `Anti` with one key: NOT IN. A NULL key on the other side lets no row through; a NULL key of the kept side
    /// passes only if the other side is empty.
    pub null_aware: bool,
    /// Over the columns of left, then of right.
    pub residual: Option<Predicate>,
    /// The side that is kept in memory while the other one streams by; a hint.
    pub build: Side,
}

/// A key of a [`Sort`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// Input column.
    pub column: usize,
    /// Largest first.
    pub descending: bool,
    /// NULLs before all values, else behind them.
    pub nulls_first: bool,
}

/// The input in an order. Rows with equal keys come in no particular order.
#[derive(Clone)]
pub struct Sort {
    /// Input.
    pub input: Plan,
    /// By the first, then the second, ..
    pub keys: Vec<SortKey>,
    /// Only the first `n` rows (top-k).
    pub fetch: Option<usize>,
}

/// UNION ALL of inputs whose columns have the same types.
#[derive(Clone)]
pub struct Union {
    /// At least one.
    pub inputs: Vec<Plan>,
    /// Names and nullability of the output.
    pub schema: SchemaRef,
}

impl Join {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let context = || "a join key".to_string();
        for &(l, r) in &self.on {
            same_type(column_type(l, &left, &context)?, column_type(r, &right, &context)?, &context)?;
        }
        if let Some(residual) = &self.residual {
            residual.validate(&self.pair_schema())?;
        }
        Ok(())
    }

    /// Columns of left, then of right: what the residual is over.
    pub fn pair_schema(&self) -> Schema {
        let (left, right) = (self.left.schema(), self.right.schema());
        Schema::new(left.fields().iter().chain(right.fields()).cloned().collect::<Vec<_>>())
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        let side = |side| if side == Side::Left { self.left.schema() } else { self.right.schema() };
        let nullable = |schema: SchemaRef| -> Vec<FieldRef> {
            schema.fields().iter().map(|f| Arc::new(f.as_ref().clone().with_nullable(true))).collect()
        };
        let plain = |schema: SchemaRef| schema.fields().to_vec();
        let (left, right) = (side(Side::Left), side(Side::Right));
        let fields: Vec<FieldRef> = match self.kind {
            JoinKind::Inner => [plain(left), plain(right)].concat(),
            JoinKind::Left => [plain(left), nullable(right)].concat(),
            JoinKind::Right => [nullable(left), plain(right)].concat(),
            JoinKind::Full => [nullable(left), nullable(right)].concat(),
            JoinKind::Semi(s) | JoinKind::Anti(s) => plain(side(s)),
            JoinKind::Mark(s) => {
                [plain(side(s)), vec![Arc::new(Field::new("mark", DataType::Boolean, false))]].concat()
            }
        };
        Arc::new(Schema::new(fields))
    }

    pub(super) fn describe(&self) -> String {
        let (left, right) = (self.left.schema(), self.right.schema());
        let name = |s: &Schema, c: usize| s.fields().get(c).map_or("?".to_string(), |f| f.name().clone());
        let on: Vec<String> =
            self.on.iter().map(|&(l, r)| format!("{} = {}", name(&left, l), name(&right, r))).collect();
        let residual =
            self.residual.as_ref().map_or(String::new(), |r| format!(" where {}", r.describe(&self.pair_schema())));
        let aware = if self.null_aware { " null-aware" } else { "" };
        format!("Join: {:?}{aware} on [{}]{residual} build={:?}", self.kind, on.join(", "), self.build)
    }
}

impl SortKey {
    /// Text for EXPLAIN, over a column of this name.
    pub(super) fn describe(&self, name: &str) -> String {
        let direction = if self.descending { " desc" } else { "" };
        let nulls = if self.nulls_first == self.descending { "" } else { " nulls other end" };
        format!("{name}{direction}{nulls}")
    }
}

impl Sort {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let input = self.input.schema();
        self.keys.iter().try_for_each(|k| column_type(k.column, &input, &|| "ORDER BY".into()).map(|_| ()))
    }

    pub(super) fn describe(&self) -> String {
        let input = self.input.schema();
        let name = |k: &SortKey| input.fields().get(k.column).map_or("?", |f| f.name().as_str());
        let keys: Vec<String> = self.keys.iter().map(|k| k.describe(name(k))).collect();
        let fetch = self.fetch.map_or(String::new(), |f| format!(" fetch={f}"));
        format!("Sort: [{}]{fetch}", keys.join(", "))
    }
}

impl Union {
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        let problem = |problem: String| PlanError::BadLiteral { context: "UNION ALL".into(), problem };
        if self.inputs.is_empty() {
            return Err(problem("it has no input".into()));
        }
        for input in &self.inputs {
            let input = input.schema();
            if input.fields().len() != self.schema.fields().len() {
                return Err(problem(format!(
                    "an input has {} columns, not {}",
                    input.fields().len(),
                    self.schema.fields().len()
                )));
            }
            for (found, expected) in input.fields().iter().zip(self.schema.fields()) {
                same_type(expected.data_type(), found.data_type(), &|| format!("column {}", expected.name()))?;
            }
        }
        Ok(())
    }
}
