//! `information_schema.routines` and `.parameters`: functions, which SHOW FUNCTIONS reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::types::NativeType;
use datafusion_expr::function::WindowUDFFieldArgs;
use datafusion_expr::{Documentation, ReturnFieldArgs, Signature, TypeSignature, Volatility};

use super::rows::Columns;
use crate::catalog::{CATALOG, DEFAULT_SCHEMA};
use crate::functions::series;
use crate::plan::planner::Planner;

/// Types of arguments, and of the result where that is known.
type Types = (Vec<String>, Option<String>);

/// A function.
struct Routine<'a> {
    name: &'a str,
    kind: &'static str,
    signature: &'a Signature,
    documentation: Option<&'a Documentation>,
    /// What it can be called with: examples of types that it takes.
    calls: BTreeSet<Types>,
}

/// Every function that statements can name, by kind and name.
fn all(planner: &Planner) -> Vec<Routine<'_>> {
    let mut all = Vec::new();
    for (name, function) in planner.scalar_functions() {
        let returns = |fields: &[FieldRef]| {
            let arguments = ReturnFieldArgs { arg_fields: fields, scalar_arguments: &vec![None; fields.len()] };
            function.return_field_from_args(arguments).ok()
        };
        let signature = function.signature();
        let documentation = function.documentation();
        all.push(Routine { name, kind: "SCALAR", signature, documentation, calls: calls(signature, &returns) });
    }
    for (name, function) in planner.aggregate_functions() {
        let returns = |fields: &[FieldRef]| function.return_field(fields).ok();
        let signature = function.signature();
        let documentation = function.documentation();
        all.push(Routine { name, kind: "AGGREGATE", signature, documentation, calls: calls(signature, &returns) });
    }
    for (name, function) in planner.window_functions() {
        let returns = |fields: &[FieldRef]| function.field(WindowUDFFieldArgs::new(fields, name)).ok();
        let signature = function.signature();
        let documentation = function.documentation();
        all.push(Routine { name, kind: "WINDOW", signature, documentation, calls: calls(signature, &returns) });
    }
    all.sort_by_key(|routine| (routine.kind, routine.name));
    all
}

fn calls(signature: &Signature, returns: &dyn Fn(&[FieldRef]) -> Option<FieldRef>) -> BTreeSet<Types> {
    let text = |data_type: &DataType| NativeType::from(data_type.clone()).to_string();
    let examples = signature.type_signature.get_example_types();
    if examples.is_empty() {
        return BTreeSet::from([(Vec::new(), None)]);
    }
    let call = |types: Vec<DataType>| {
        let field = |(i, t): (usize, &DataType)| Arc::new(Field::new(format!("arg_{i}"), t.clone(), true));
        let fields: Vec<FieldRef> = types.iter().enumerate().map(field).collect();
        let result = returns(&fields).map(|field| text(field.data_type()));
        (types.iter().map(text).collect(), result)
    };
    examples.into_iter().map(call).collect()
}

/// A row per function and type of its result.
pub(super) fn routines(planner: &Planner) -> Columns {
    struct Row<'a> {
        name: &'a str,
        kind: &'static str,
        stable: bool,
        result: Option<String>,
        documentation: Option<&'a Documentation>,
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    for routine in all(planner) {
        let results: BTreeSet<Option<String>> = routine.calls.into_iter().map(|(_, result)| result).collect();
        let stable = routine.signature.volatility == Volatility::Immutable;
        let name = routine.name;
        let kind = routine.kind;
        let documentation = routine.documentation;
        rows.extend(results.into_iter().map(|result| Row { name, kind, stable, result, documentation }));
    }
    let table = |name| Row { name, kind: "TABLE", stable: false, result: Some("TABLE".into()), documentation: None };
    rows.extend(series::FUNCTIONS.into_iter().map(table));
    let text = |of: fn(&Documentation) -> &str| rows.iter().map(move |row| row.documentation.map(of));
    Columns::default()
        .text("specific_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("specific_schema", rows.iter().map(|_| Some(DEFAULT_SCHEMA)))
        .text("specific_name", rows.iter().map(|row| Some(row.name)))
        .text("routine_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("routine_schema", rows.iter().map(|_| Some(DEFAULT_SCHEMA)))
        .text("routine_name", rows.iter().map(|row| Some(row.name)))
        .text("routine_type", rows.iter().map(|_| Some("FUNCTION")))
        .flag("is_deterministic", rows.iter().map(|row| row.stable))
        .text("data_type", rows.iter().map(|row| row.result.as_deref()))
        .text("function_type", rows.iter().map(|row| Some(row.kind)))
        .text("description", text(|d| &d.description))
        .text("syntax_example", text(|d| &d.syntax_example))
}

/// A row per argument, and one for the result, of every way to call a function.
pub(super) fn parameters(planner: &Planner) -> Columns {
    struct Row<'a> {
        function: &'a str,
        place: u64,
        mode: &'static str,
        name: Option<&'a str>,
        data_type: String,
        variadic: bool,
        call: u64,
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    for routine in all(planner) {
        let names = routine.documentation.and_then(|d| d.arguments.as_ref());
        let signature = &routine.signature.type_signature;
        let variadic = matches!(signature, TypeSignature::Variadic(_) | TypeSignature::VariadicAny);
        let function = routine.name;
        for (call, (arguments, result)) in routine.calls.into_iter().enumerate() {
            let call = call as u64;
            for (i, data_type) in arguments.into_iter().enumerate() {
                let name = names.and_then(|names| names.get(i)).map(|(name, _)| name.as_str());
                rows.push(Row { function, place: i as u64 + 1, mode: "IN", name, data_type, variadic, call });
            }
            if let Some(data_type) = result {
                rows.push(Row { function, place: 1, mode: "OUT", name: None, data_type, variadic: false, call });
            }
        }
    }
    Columns::default()
        .text("specific_catalog", rows.iter().map(|_| Some(CATALOG)))
        .text("specific_schema", rows.iter().map(|_| Some(DEFAULT_SCHEMA)))
        .text("specific_name", rows.iter().map(|row| Some(row.function)))
        .number("ordinal_position", rows.iter().map(|row| Some(row.place)))
        .text("parameter_mode", rows.iter().map(|row| Some(row.mode)))
        .text("parameter_name", rows.iter().map(|row| row.name))
        .text("data_type", rows.iter().map(|row| Some(&row.data_type)))
        .text("parameter_default", rows.iter().map(|_| None::<&str>))
        .flag("is_variadic", rows.iter().map(|row| row.variadic))
        .number("rid", rows.iter().map(|row| Some(row.call)))
}
