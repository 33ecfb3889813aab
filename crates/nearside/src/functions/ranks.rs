//! `row_number`, `rank`, `dense_rank` and `ntile` count in BIGINT and INTEGER, as in PostgreSQL. The planner's give
//! numbers without a sign, which clients are shown as NUMERIC.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::window_state::WindowAggState;
use datafusion_expr::{Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;

/// The functions, and what they count in.
const RANKS: [(&str, DataType); 4] = [
    ("row_number", DataType::Int64),
    ("rank", DataType::Int64),
    ("dense_rank", DataType::Int64),
    ("ntile", DataType::Int32),
];

/// A window function as SQL has it.
pub(crate) fn counting(known: Arc<WindowUDF>) -> Arc<WindowUDF> {
    match RANKS.iter().find(|(name, _)| *name == known.name()) {
        Some((_, to)) => Arc::new(WindowUDF::from(Rank { known, to: to.clone() })),
        None => known,
    }
}

/// A function of DataFusion's that gives numbers of another type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rank {
    known: Arc<WindowUDF>,
    to: DataType,
}

impl WindowUDFImpl for Rank {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        self.known.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.known.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let known = self.known.inner().partition_evaluator(args)?;
        Ok(Box::new(Ranks { known, to: self.to.clone() }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.known.field(args)?;
        // NULL parts are made of NULL.
        let is_nullable = field.is_nullable() || self.name() == "ntile";
        Ok(Arc::new(Field::new(field.name(), self.to.clone(), is_nullable)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.known.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.known.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.known.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Ranks {
    known: Box<dyn PartitionEvaluator>,
    to: DataType,
}

impl PartitionEvaluator for Ranks {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.known.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.known.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.known.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.known.evaluate_all(values, rows)?, &self.to)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.known.evaluate(values, range)?.cast_to(&self.to)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.known.evaluate_all_with_rank(rows, ranks)?, &self.to)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.known.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.known.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.known.include_rank()
    }
}
