//! `median`, `percentile_cont`, `percentile_disc` and `mode` as the planner sees them; `exec` computes them.
//!
//! Types are PostgreSQL's: means between two values are DOUBLE, of whatever numbers; `percentile_disc` and `mode`
//! give one of the values, of any type that can be sorted. `median` is `percentile_cont(0.5)`, but that of decimals
//! is a decimal, as in DuckDB.
//!
//! # Limits
//! One share at a time, as a literal. `percentile_disc` and `mode` are no window functions.

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result as DfResult, ScalarValue, not_impl_err};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};
use datafusion_functions_aggregate::median::Median;
use datafusion_functions_aggregate::percentile_cont::PercentileCont;
use exec::AggregateFunction;

use crate::error::codes::SqlState;
use crate::error::statement_err;
use crate::error::{Error, Result};

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    Median,
    Continuous,
    Discrete,
    Mode,
}

/// An aggregate function of values in order.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrderedSet {
    function: Function,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions, to be registered in the place of DataFusion's.
pub(crate) fn aggregate_functions() -> Vec<AggregateUDF> {
    let function = |function, aliases: &[&str]| {
        let aliases = aliases.iter().map(|a| a.to_string()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::new_from_impl(OrderedSet { function, aliases, signature })
    };
    vec![
        function(Function::Median, &[]),
        function(Function::Continuous, &["quantile_cont"]),
        function(Function::Discrete, &["quantile_disc"]),
        function(Function::Mode, &[]),
    ]
}

impl OrderedSet {
    /// What `exec` computes for these arguments.
    pub(crate) fn function(&self, args: &[Expr]) -> Result<AggregateFunction> {
        Ok(match self.function {
            Function::Median => AggregateFunction::Quantile { share: 0.5, continuous: true },
            Function::Mode => AggregateFunction::Mode,
            Function::Continuous => AggregateFunction::Quantile { share: self.share(args)?, continuous: true },
            Function::Discrete => AggregateFunction::Quantile { share: self.share(args)?, continuous: false },
        })
    }

    fn share(&self, args: &[Expr]) -> Result<f64> {
        let share = match args.get(1) {
            Some(Expr::Literal(value, _)) => value.cast_to(&DataType::Float64).ok(),
            _ => None,
        };
        match share {
            Some(ScalarValue::Float64(Some(share))) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => {
                let message = format!("{} takes a share from 0 to 1, as a literal", self.name());
                Err(Error::plan(SqlState::DataException, message))
            }
        }
    }

    fn is_mean(&self) -> bool {
        matches!(self.function, Function::Median | Function::Continuous)
    }

    fn value_type(&self, given: &DataType) -> DfResult<DataType> {
        match given {
            any if !self.is_mean() => Ok(any.clone()),
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s)
                if self.function == Function::Median =>
            {
                Ok(DataType::Decimal128(*p, *s))
            }
            number if number.is_numeric() || number.is_null() => Ok(DataType::Float64),
            other => statement_err!(UndefinedFunction, "{} takes numbers, not {other}; cast the argument", self.name()),
        }
    }
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.function {
            Function::Median => "median",
            Function::Continuous => "percentile_cont",
            Function::Discrete => "percentile_disc",
            Function::Mode => "mode",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        match (self.function, types) {
            (Function::Median | Function::Mode, [value]) => Ok(vec![self.value_type(value)?]),
            (Function::Median | Function::Mode, _) => {
                statement_err!(UndefinedFunction, "{} takes one argument", self.name())
            }
            (_, [value, share]) if share.is_numeric() || share.is_null() => {
                Ok(vec![self.value_type(value)?, DataType::Float64])
            }
            _ => statement_err!(UndefinedFunction, "{} takes a value and a share from 0 to 1", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        match self.function {
            Function::Median => Median::new().accumulator(args),
            Function::Continuous => PercentileCont::new().accumulator(args),
            _ => not_impl_err!("{} as a window function", self.name()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        match self.function {
            Function::Median => Median::new().state_fields(args),
            Function::Continuous => PercentileCont::new().state_fields(args),
            _ => not_impl_err!("{} as a window function", self.name()),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        self.function != Function::Median
    }

    fn supports_null_handling_clause(&self) -> bool {
        false
    }
}
