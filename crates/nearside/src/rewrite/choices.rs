//! Functions that choose among their arguments, or compare two: texts as they are written take the type of what they
//! meet. The planner's would refuse a text beside a UUID, a truth value or an interval before any rule gives it a type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::Result;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use datafusion_functions::core;

use super::kinds::same_kind;
use crate::functions::uuids::UUID;

/// The functions, in the place of the planner's of the same names.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let known = [core::coalesce(), core::nullif(), core::greatest(), core::least()];
    let choice = |known| ScalarUDF::from(Choice { known, signature: Signature::user_defined(Volatility::Immutable) });
    known.into_iter().map(|known| Arc::new(choice(known))).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Choice {
    known: Arc<ScalarUDF>,
    signature: Signature,
}

impl Choice {
    fn known_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if matches!(self.known.signature().type_signature, TypeSignature::UserDefined) {
            return self.known.coerce_types(types);
        }
        let fields: Vec<FieldRef> = types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
        let found = fields_with_udf(&fields, self.known.as_ref())?;
        Ok(found.iter().map(|field| field.data_type().clone()).collect())
    }
}

impl ScalarUDFImpl for Choice {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn aliases(&self) -> &[String] {
        self.known.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.contains(&UUID) {
            true => Ok(UUID),
            false => self.known.return_type(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.iter().any(|field| *field.data_type() == UUID) {
            true => Ok(Arc::new(Field::new(self.name(), UUID, true))),
            false => self.known.return_field_from_args(args),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.known.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.known.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.known.inner().conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.known.short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.known.documentation()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| same_kind(of, &DataType::Utf8);
        let others: Vec<DataType> = types.iter().filter(|of| !is_text(of)).cloned().collect();
        let are_alike = others.windows(2).all(|pair| same_kind(&pair[0], &pair[1]));
        // What are strangers is refused by `kinds`, in SQL's words; no cast of Arrow's makes UUIDs of texts, which
        // `kinds` gives their type.
        if !are_alike || (others.contains(&UUID) && others.len() < types.len()) {
            return Ok(types.to_vec());
        }
        if others.is_empty() || others.len() == types.len() {
            return self.known_types(types);
        }
        // Two are asked for, as most of these take no single one.
        let mut pair = others.clone();
        pair.resize(others.len().max(2), others[0].clone());
        let to = self.known_types(&pair)?;
        Ok(vec![to.first().cloned().unwrap_or(DataType::Null); types.len()])
    }
}
