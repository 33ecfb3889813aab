//! CREATE FUNCTION .. LANGUAGE SQL, CREATE MACRO, DROP FUNCTION, DROP MACRO.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::tree_node::TreeNode;
use datafusion_expr::LogicalPlan;
use datafusion_sql::parser::Statement as DfStatement;
use sqlparser::ast::{DataType, ObjectName, SelectItem, SetExpr};

use crate::catalog::lengths::{Length, told};
use crate::catalog::made_functions::{Body, FunctionEntry, MadeFunction, Parameter, Returns, TypeName, called, key};
use crate::catalog::pg_types::of_field;
use crate::catalog::rights::Thing;
use crate::catalog::{CatalogState, Entry, Name};
use crate::error::codes::SqlState;
use crate::error::types::sql_type;
use crate::error::{Error, Result};
use crate::rewrite::argument_types::takes;
use crate::run::outcome::Done;
use crate::run::statement::RunningStatement;
use crate::sql::{
    AnyStatement, FunctionStatement, KnownTables, NewFunction, WrittenBody, WrittenReturns, calls_function,
    is_composed, object_name, object_reference, query_of_text, quoted,
};
use crate::statements::{rules, types, written};

/// Carries out a statement about functions.
///
/// # Errors
/// Names that are taken or that there are not, texts that cannot be planned.
pub(crate) fn run(statement: &FunctionStatement, running: &Arc<RunningStatement>) -> Result<Done> {
    match statement {
        FunctionStatement::Create(new) => create(new, running),
        FunctionStatement::Drop { names, if_exists, cascade, is_macro } => {
            drop_all(names, (*if_exists, *cascade), *is_macro, running)
        }
    }
}

fn create(new: &NewFunction, running: &Arc<RunningStatement>) -> Result<Done> {
    let done = Done::new(if new.is_macro { "CREATE MACRO" } else { "CREATE FUNCTION" });
    let name = running.new_name(&object_reference(&new.name)?, false)?;
    let planner = &running.planner;
    let is_own = planner.scalar_functions().contains_key(&name.table)
        || planner.aggregate_functions().contains_key(&name.table)
        || planner.window_functions().contains_key(&name.table)
        || crate::functions::series::FUNCTIONS.contains(&name.table.as_str())
        || is_composed(&name.table);
    if is_own {
        return Err(Error::plan(
            SqlState::DuplicateFunction,
            format!("function '{}' is one that is always there; use another name", name.table),
        ));
    }
    let key = key(&name);
    let mut made = MadeFunction {
        id: running.home.next_id(),
        parameters: parameters(new, running)?,
        returns: returns(&new.returns, running)?,
        body: body(&new.body)?,
        is_strict: new.is_strict,
        volatility: new.volatility,
    };
    match running.catalog.get(&key) {
        Some(Entry::Function(known)) if new.or_replace => {
            may_replace(&name, &known.of, &made, running)?;
            made.id = known.of.id;
        }
        Some(Entry::Function(_)) if new.if_not_exists => return Ok(done),
        Some(Entry::Function(known)) if !made.is_macro() && oids(&known.of) != oids(&made) => {
            return Err(overloaded(&name));
        }
        Some(taken) => return Err(taken_by(taken, &name)),
        None => {}
    }
    is_sound(&name, &made, running)?;
    let made = Arc::new(made);
    running.home.commit(|state| {
        let mut comments = Arc::default();
        let is_new = match state.get(&key) {
            Some(Entry::Function(known)) if new.or_replace => {
                comments = Arc::clone(&known.comments);
                false
            }
            Some(taken) => return Err(taken_by(taken, &name)),
            None => true,
        };
        state.put_function(key.clone(), Arc::new(FunctionEntry { of: made, comments }))?;
        if is_new {
            state.made_by(running.user, Thing::named(&key));
        }
        Ok(())
    })?;
    Ok(done)
}

fn taken_by(taken: &Entry, name: &Name) -> Error {
    match taken {
        Entry::Function(_) => Error::plan(
            SqlState::DuplicateFunction,
            format!("function '{}' already exists; drop it first, or use OR REPLACE", name.shown()),
        ),
        taken => Error::Exists { kind: taken.kind(), name: format!("{}()", name.shown()) },
    }
}

fn overloaded(name: &Name) -> Error {
    Error::Unsupported(format!(
        "there is a function '{}' with other parameters, and a second one of the name is not supported; use another \
         name, or drop it first",
        name.shown()
    ))
}

fn oids(of: &MadeFunction) -> Vec<Option<u32>> {
    of.parameters.iter().map(|parameter| parameter.of.as_ref().map(|of| of.oid)).collect()
}

/// As in PostgreSQL, what takes the place of a function takes and gives the same.
fn may_replace(name: &Name, known: &MadeFunction, made: &MadeFunction, running: &RunningStatement) -> Result<()> {
    let is_kept_by_table = users(name, running)?.into_iter().find(|(_, is_view)| !is_view);
    if let Some((table, _)) = is_kept_by_table {
        return Err(Error::Unsupported(format!(
            "function '{}' is called by a default or a condition of table '{}', so it is not replaced; drop that first",
            name.shown(),
            table.shown()
        )));
    }
    if made.is_macro() && known.is_macro() {
        return Ok(());
    }
    if oids(known) != oids(made) {
        return Err(overloaded(name));
    }
    let wrong = |what: &str| {
        Err(Error::plan(
            SqlState::InvalidFunctionDefinition,
            format!("{what} of function '{}' cannot be changed; drop it first", name.shown()),
        ))
    };
    if known.returns != made.returns {
        return wrong("what is returned");
    }
    let is_renamed = known
        .parameters
        .iter()
        .zip(&made.parameters)
        .any(|(known, made)| known.name.is_some() && known.name != made.name);
    match is_renamed {
        true => wrong("the name of a parameter"),
        false => Ok(()),
    }
}

fn parameters(new: &NewFunction, running: &Arc<RunningStatement>) -> Result<Vec<Parameter>> {
    let mut parameters: Vec<Parameter> = Vec::new();
    for (name, of, default) in &new.parameters {
        if name.is_some() && parameters.iter().any(|known| known.name == *name) {
            return Err(Error::plan(
                SqlState::InvalidFunctionDefinition,
                format!("parameter '{}' stands twice; give one of them another name", name.as_deref().unwrap_or("")),
            ));
        }
        if default.is_none() && parameters.iter().any(|known| known.default.is_some()) {
            return Err(Error::plan(
                SqlState::InvalidFunctionDefinition,
                "parameters behind one with a default need a default too",
            ));
        }
        let of = of.as_ref().map(|of| type_name(of, running)).transpose()?;
        parameters.push(Parameter { name: name.clone(), of, default: default.as_ref().map(ToString::to_string) });
    }
    Ok(parameters)
}

/// A type as it is kept. As in PostgreSQL, how long its values may be is not told to functions.
fn type_name(of: &DataType, running: &Arc<RunningStatement>) -> Result<TypeName> {
    let of = match of {
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => DataType::Varchar(None),
        DataType::Char(_) | DataType::Character(_) => DataType::Text,
        other => other.clone(),
    };
    let context = running.plan_context();
    let made = |name: &ObjectName| context.made_type(name);
    if let DataType::Custom(name, modifiers) = &of
        && modifiers.is_empty()
        && let Some(of_enum) = context.made_type(name)?
    {
        let name = Name { schema: of_enum.schema.clone(), table: of_enum.name.clone() };
        return Ok(TypeName { text: written::name(&name), oid: of_enum.oid() });
    }
    let text = of.to_string();
    let data_type = types::parse(&text, running)?;
    let field = arrow::datatypes::Field::new("c", data_type, true);
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
    let length = Length::of_column("c", &of, &made)?;
    let lengths: HashMap<String, Length> = length.into_iter().map(|length| ("c".to_string(), length)).collect();
    let schema = told(&schema, &Arc::new(lengths));
    Ok(TypeName { text, oid: of_field(&schema.fields()[0]).oid })
}

fn returns(written: &WrittenReturns, running: &Arc<RunningStatement>) -> Result<Returns> {
    Ok(match written {
        WrittenReturns::Any => Returns::Any,
        WrittenReturns::AnyRows => Returns::AnyRows,
        WrittenReturns::Value(of) => Returns::Value(type_name(of, running)?),
        WrittenReturns::SetOf(DataType::Custom(name, modifiers))
            if modifiers.is_empty() && is_table(name, running)? =>
        {
            Returns::Rows(columns_of(&running.named(name)?, running)?)
        }
        WrittenReturns::SetOf(of) => Returns::Values(type_name(of, running)?),
        WrittenReturns::Table(columns) => {
            let column = |(name, of): &(String, DataType)| Ok((name.clone(), type_name(of, running)?));
            Returns::Rows(columns.iter().map(column).collect::<Result<_>>()?)
        }
    })
}

fn is_table(name: &ObjectName, running: &RunningStatement) -> Result<bool> {
    let name = running.named(name)?;
    Ok(matches!(running.catalog.get(&name), Some(Entry::Table(_) | Entry::View(_) | Entry::External(_))))
}

fn columns_of(name: &Name, running: &Arc<RunningStatement>) -> Result<Vec<(String, TypeName)>> {
    let plan = AnyStatement::one(&format!("SELECT * FROM {}", written::name(name)))?.plan(&running.plan_context())?;
    let column = |field: &arrow::datatypes::FieldRef| {
        let oid = of_field(field).oid;
        let text = match crate::catalog::user_types::EnumType::of_field(field) {
            Some(of) => written::name(&Name { schema: of.schema, table: of.name }),
            None => sql_type(&storage::surface_type(field.data_type())),
        };
        (field.name().clone(), TypeName { text, oid })
    };
    Ok(plan.schema().fields().iter().map(column).collect())
}

/// The text of a function as it is kept: that of a value, where that is all of its query.
fn body(written: &WrittenBody) -> Result<Body> {
    let text = match written {
        WrittenBody::Expression(expr) => return Ok(Body::Expression(expr.to_string())),
        WrittenBody::Query(text) => return Ok(Body::Query(text.clone())),
        WrittenBody::Text(text) => text.trim().trim_end_matches(';').trim_end(),
    };
    let query = query_of_text(text)?;
    if let SetExpr::Select(select) = query.body.as_ref()
        && let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_slice()
        && query.to_string() == format!("SELECT {}", select.projection[0])
    {
        return Ok(Body::Expression(expr.to_string()));
    }
    Ok(Body::Query(text.to_string()))
}

/// Fails where a function cannot be called: its text is planned once with NULL for each argument.
fn is_sound(name: &Name, made: &MadeFunction, running: &Arc<RunningStatement>) -> Result<()> {
    if made.is_macro() {
        // What it takes is not known.
        return Ok(());
    }
    // Without its types, so that those of its text are seen.
    let (returns, wanted): (_, Vec<&TypeName>) = match &made.returns {
        // Whether its query gives one column is seen of all that it gives.
        Returns::Value(of) if matches!(made.body, Body::Query(_)) => (Returns::AnyRows, vec![of]),
        Returns::Value(of) => (Returns::Any, vec![of]),
        Returns::Values(of) => (Returns::AnyRows, vec![of]),
        Returns::Rows(columns) => (Returns::AnyRows, columns.iter().map(|(_, of)| of).collect()),
        Returns::Any | Returns::AnyRows => return Ok(()),
    };
    for returns in [returns, made.returns.clone()] {
        let is_bare = matches!(returns, Returns::Any | Returns::AnyRows);
        let tried = MadeFunction { returns, ..made.clone() };
        let gives_rows = tried.gives_rows();
        let mut state = CatalogState::clone(running.catalog.state());
        let entry = FunctionEntry { of: Arc::new(tried), comments: Arc::default() };
        state.put_function(key(name), Arc::new(entry))?;
        let over = Arc::new(running.over(running.catalog.over(Arc::new(state))));
        let nulls = made.parameters.iter().flat_map(|parameter| &parameter.of);
        let nulls: Vec<String> = nulls.map(|of| format!("CAST(NULL AS {})", of.text)).collect();
        let call = format!("{}({})", written::name(name), nulls.join(", "));
        let sql = match gives_rows {
            true => format!("SELECT * FROM {call} AS f"),
            false => format!("SELECT {call} AS f"),
        };
        let plan = AnyStatement::one(&sql)?.plan(&over.own_context())?;
        if !gives_rows && gathers(&plan)? {
            return Err(Error::Unsupported(format!(
                "function '{}' has an aggregate, a window or a set of rows without FROM, which is not supported; write \
                 FROM (SELECT ..) in it",
                name.shown()
            )));
        }
        if is_bare {
            has_types(name, &plan, &wanted, running)?;
        }
    }
    Ok(())
}

fn gathers(plan: &LogicalPlan) -> Result<bool> {
    Ok(plan.exists(|node| {
        Ok(matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Unnest(_)))
    })?)
}

fn has_types(name: &Name, plan: &LogicalPlan, wanted: &[&TypeName], running: &Arc<RunningStatement>) -> Result<()> {
    let wrong = |text: String| Err(Error::plan(SqlState::InvalidFunctionDefinition, text));
    let fields = plan.schema().fields();
    if fields.len() != wanted.len() {
        return wrong(format!(
            "function '{}' returns {} columns, and its query gives {}",
            name.shown(),
            wanted.len(),
            fields.len()
        ));
    }
    for (field, wanted) in fields.iter().zip(wanted) {
        // Enums are texts here.
        let Ok(to) = types::parse(&wanted.text, running) else { continue };
        let from = storage::surface_type(field.data_type());
        if !(takes(&to, &from) || to.is_numeric() && from.is_numeric()) {
            return wrong(format!(
                "function '{}' returns {}, and its text gives {}; write CAST(.. AS {})",
                name.shown(),
                wanted.text,
                sql_type(&from),
                wanted.text
            ));
        }
    }
    Ok(())
}

fn drop_all(
    names: &[(ObjectName, Option<Vec<DataType>>)],
    (if_exists, cascade): (bool, bool),
    is_macro: bool,
    running: &Arc<RunningStatement>,
) -> Result<Done> {
    let word = if is_macro { "macro" } else { "function" };
    let mut going: Vec<Name> = Vec::new();
    for (name, types) in names {
        let name = function_name(name, running)?;
        match is_there(&name, types.as_deref(), running)? {
            true => going.push(key(&name)),
            false if if_exists => continue,
            false => return Err(none(word, &name)),
        }
        for (user, is_view) in users(&name, running)? {
            match is_view && cascade {
                true => going.push(user),
                false => {
                    let what = if is_view { "view" } else { "a default or a condition of table" };
                    return Err(Error::plan(
                        SqlState::DependentObjectsStillExist,
                        format!(
                            "{what} '{}' calls {word} '{}'; drop it first{}",
                            user.shown(),
                            name.shown(),
                            if cascade { "" } else { ", or use CASCADE" }
                        ),
                    ));
                }
            }
        }
    }
    running.home.commit(|state| {
        going.iter().for_each(|name| drop(state.remove(name)));
        Ok(())
    })?;
    Ok(Done::new(if is_macro { "DROP MACRO" } else { "DROP FUNCTION" }))
}

fn none(word: &str, name: &Name) -> Error {
    let text = format!("{word} '{}' with these parameters does not exist", name.shown());
    Error::plan(SqlState::UndefinedFunction, text)
}

/// Whether there is a function of a name, which takes such types where these are told.
fn is_there(name: &Name, types: Option<&[DataType]>, running: &Arc<RunningStatement>) -> Result<bool> {
    let Some(Entry::Function(found)) = running.catalog.get(&key(name)) else { return Ok(false) };
    let Some(types) = types else { return Ok(true) };
    let given = types.iter().map(|of| type_name(of, running).map(|of| Some(of.oid)));
    Ok(given.collect::<Result<Vec<_>>>()? == oids(&found.of))
}

/// The key of the function that a name stands for, which takes such types where these are told.
///
/// # Errors
/// There is none.
pub(crate) fn found(name: &ObjectName, types: Option<&[DataType]>, running: &Arc<RunningStatement>) -> Result<Name> {
    let name = function_name(name, running)?;
    match is_there(&name, types, running)? {
        true => Ok(key(&name)),
        false => Err(none("function", &name)),
    }
}

/// The name of the function that a name stands for.
///
/// # Errors
/// As [`RunningStatement::named`].
pub(crate) fn function_name(name: &ObjectName, running: &RunningStatement) -> Result<Name> {
    let mut bracketed = name.clone();
    if let Some(last) = bracketed.0.pop() {
        let last = last.as_ident().cloned().map(crate::sql::normalised).unwrap_or_default();
        bracketed.0.push(sqlparser::ast::ObjectNamePart::Identifier(quoted_ident(&format!("{last}()"))));
    }
    let found = running.named(&bracketed)?;
    let table = called(&found).to_string();
    Ok(Name { table, ..found })
}

fn quoted_ident(name: &str) -> sqlparser::ast::Ident {
    sqlparser::ast::Ident::with_quote('"', name)
}

/// Views, be they materialized, and tables that call a function in texts that are kept; whether each is a view.
fn users(of: &Name, running: &RunningStatement) -> Result<Vec<(Name, bool)>> {
    let is = |name: &ObjectName| object_name(name).is_ok_and(|name| name == *of);
    let mut users = Vec::new();
    for (name, entry) in running.catalog.entries() {
        if let Some(query) = entry.query()
            && let AnyStatement::Sql(statement) = AnyStatement::one(query)?
            && let DfStatement::Statement(statement) = *statement
            && calls_function(statement.as_ref(), &is)
        {
            users.push((name.clone(), true));
        }
        if let Entry::Table(table) = entry {
            let defaults = table.defaults.values().map(|default| &default.text);
            let rules = table.rules.generated.values().chain(table.rules.checks.iter().map(|check| &check.condition));
            let mut texts = defaults.chain(rules.map(|rule| &rule.text));
            if texts.any(|text| rules::parse(text).is_ok_and(|expr| calls_function(&expr, &is))) {
                users.push((name.clone(), false));
            }
        }
    }
    Ok(users)
}

/// Whether the text of a function has a query, so that what it reads has to be there before it.
///
/// # Errors
/// None that a text has which was kept.
pub(crate) fn reads(of: &MadeFunction) -> Result<bool> {
    match &of.body {
        Body::Query(_) => Ok(true),
        Body::Expression(text) => Ok(text.to_lowercase().contains("select")),
    }
}

/// The statement that would make a function again.
pub(crate) fn create_statement(name: &Name, of: &MadeFunction) -> String {
    let parameter = |parameter: &Parameter| {
        let mut text = parameter.name.as_deref().map(quoted).unwrap_or_default();
        if let Some(of) = &parameter.of {
            text = format!("{text} {}", of.text).trim_start().to_string();
        }
        match (&parameter.default, &parameter.of) {
            (Some(default), Some(_)) => format!("{text} DEFAULT {default}"),
            (Some(default), None) => format!("{text} := {default}"),
            (None, _) => text,
        }
    };
    let parameters = of.parameters.iter().map(parameter).collect::<Vec<_>>().join(", ");
    let head = |kind: &str| format!("CREATE {kind} {} ({parameters})", written::name(name));
    let columns = |columns: &[(String, TypeName)]| {
        columns.iter().map(|(name, of)| format!("{} {}", quoted(name), of.text)).collect::<Vec<_>>().join(", ")
    };
    let returns = match &of.returns {
        Returns::Any => return format!("{} AS {}", head("MACRO"), of.text()),
        Returns::AnyRows => return format!("{} AS TABLE {}", head("MACRO"), of.text()),
        Returns::Value(of) => of.text.clone(),
        Returns::Values(of) => format!("SETOF {}", of.text),
        Returns::Rows(all) => format!("TABLE ({})", columns(all)),
    };
    let volatility = match of.volatility {
        'i' => " IMMUTABLE",
        's' => " STABLE",
        _ => " VOLATILE",
    };
    let strict = if of.is_strict { " STRICT" } else { "" };
    let body = match &of.body {
        Body::Expression(text) => format!("RETURN {text}"),
        Body::Query(text) => format!("AS {}", written::text(text)),
    };
    format!("{} RETURNS {returns} LANGUAGE SQL{volatility}{strict} {body}", head("FUNCTION"))
}
