//! Functions that SQL has a syntax of its own for, by the names that they have there: `substring(s FROM 2)` is
//! DataFusion's `substr`, `position(a IN b)` its `strpos`, `extract(year FROM d)` its `date_part`. Columns are named
//! after functions, so each of these is one that has its own name and does what the other does.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_expr::planner::{ExprPlanner, PlannerResult};
use datafusion_expr::preimage::PreimageResult;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion_functions::{datetime, math, unicode};

use crate::functions::{matches, parts};

static SUBSTRING: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| spelled("substring", unicode::substr()));
static MATCHED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(matches::substring);
static POSITION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| spelled("position", unicode::strpos()));
static EXTRACT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| spelled("extract", Arc::new(parts::function())));

/// A function by another name. It is in no registry.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spelled {
    name: &'static str,
    plain: Arc<ScalarUDF>,
}

fn spelled(name: &'static str, plain: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Spelled { name, plain }))
}

/// The function that does what this one does.
pub(crate) fn plain(function: &ScalarUDF) -> &ScalarUDF {
    function.inner().downcast_ref::<Spelled>().map_or(function, |spelled| spelled.plain.as_ref())
}

impl ScalarUDFImpl for Spelled {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.plain.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.plain.is_strict()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.plain.simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.plain.preimage(args, literal, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.plain.invoke_with_args(args)
    }
}

/// Functions that PostgreSQL has under a name that DataFusion has not, or under that of another one.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![spelled("ceiling", math::ceil()), spelled("sign", math::signum()), spelled("strftime", datetime::to_char())]
}

/// What plans these forms.
#[derive(Debug)]
struct Forms;

impl ExprPlanner for Forms {
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        // The part that a regular expression matches.
        let is_pattern = matches!(args.as_slice(), [_, Expr::Literal(value, _)] if value.data_type().is_string());
        Ok(PlannerResult::Planned(if is_pattern { MATCHED.call(args) } else { SUBSTRING.call(args) }))
    }

    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(POSITION.call(args)))
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(EXTRACT.call(args)))
    }
}

/// The planner of these forms.
pub(crate) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(Forms)
}
