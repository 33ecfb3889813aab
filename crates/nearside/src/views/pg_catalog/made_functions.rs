//! Functions that statements have made, in `pg_proc` and by their numbers.

use super::layout::{Row, Value};
use super::made_types::format_type;
use super::world::World;
use crate::catalog::made_functions::{MadeFunction, Parameter, Returns, TypeName, called};
use crate::catalog::pg_types::RECORD;
use crate::catalog::rights::Thing;
use crate::functions::quoting::ident;
use crate::sql::parts_of_text;

/// PostgreSQL's number of LANGUAGE SQL.
const LANGUAGE: u32 = 14;
/// That of `anyelement`: what macros take and give.
const ANY: u32 = 2283;

fn oid(of: Option<&TypeName>) -> u32 {
    of.map_or(ANY, |of| of.oid)
}

fn result(of: &MadeFunction) -> u32 {
    match &of.returns {
        Returns::Any => ANY,
        Returns::Value(of) | Returns::Values(of) => of.oid,
        Returns::AnyRows => RECORD,
        Returns::Rows(columns) => match columns.as_slice() {
            [(_, of)] => of.oid,
            _ => RECORD,
        },
    }
}

/// The rows of `pg_proc` with those of functions that statements have made.
pub(super) fn pg_proc(mut rows: Vec<Row>, world: &World<'_>) -> Vec<Row> {
    for (key, entry) in world.state.made_functions() {
        let of = &entry.of;
        let mut types: Vec<i64> = of.parameters.iter().map(|one| i64::from(oid(one.of.as_ref()))).collect();
        let mut names: Vec<String> = of.parameters.iter().map(|one| one.name.clone().unwrap_or_default()).collect();
        let mut modes = vec!["i".to_string(); types.len()];
        let arguments = types.clone();
        let mut row: Row = vec![
            ("oid", of.oid().into()),
            ("proname", called(key).into()),
            ("pronamespace", world.numbers.schema(&key.schema).into()),
            ("proowner", world.state.owner_of(&Thing::named(key)).into()),
            ("prolang", LANGUAGE.into()),
            ("prokind", "f".into()),
            ("prosecdef", false.into()),
            ("proleakproof", false.into()),
            ("proisstrict", of.is_strict.into()),
            ("proretset", of.gives_rows().into()),
            ("provolatile", of.volatility.to_string().into()),
            ("proparallel", "u".into()),
            ("pronargs", (arguments.len() as i64).into()),
            ("pronargdefaults", (of.parameters.iter().filter(|one| one.default.is_some()).count() as i64).into()),
            ("prorettype", result(of).into()),
            ("proargtypes", Value::Numbers(arguments)),
            ("prosrc", of.source().into()),
        ];
        if let Returns::Rows(columns) = &of.returns {
            types.extend(columns.iter().map(|(_, of)| i64::from(of.oid)));
            names.extend(columns.iter().map(|(name, _)| name.clone()));
            modes.extend(columns.iter().map(|_| "t".to_string()));
            row.push(("proallargtypes", Value::Numbers(types)));
            row.push(("proargmodes", Value::Texts(modes)));
        }
        if names.iter().any(|name| !name.is_empty()) {
            row.push(("proargnames", Value::Texts(names)));
        }
        rows.push(row);
    }
    rows
}

/// The number of one, by its name as a statement writes it.
pub(super) fn named(name: &str, world: &World<'_>) -> Option<i64> {
    let parts = parts_of_text(name).ok()?;
    let (schemas, name) = match parts.as_slice() {
        [name] => (world.path(), name),
        [schema, name] => (std::slice::from_ref(schema), name),
        _ => return None,
    };
    let within = |schema: &String| {
        let of = world.state.made_functions().find(|(key, _)| key.schema == *schema && called(key) == name)?;
        Some(i64::from(of.1.of.oid()))
    };
    schemas.iter().find_map(within)
}

/// How one is named, with its schema where its name alone would not find it.
pub(super) fn shown(number: i64, world: &World<'_>) -> Option<String> {
    let (key, _) = world.state.made_functions().find(|(_, entry)| i64::from(entry.of.oid()) == number)?;
    let name = ident(called(key));
    match named(&name, world) == Some(number) {
        true => Some(name),
        false => Some(format!("{}.{name}", ident(&key.schema))),
    }
}

/// The statement that makes one, as PostgreSQL writes it.
pub(super) fn statement(number: i64, world: &World<'_>) -> Option<String> {
    let (key, entry) = world.state.made_functions().find(|(_, entry)| i64::from(entry.of.oid()) == number)?;
    let of = &entry.of;
    let arguments = told("pg_get_function_arguments", number, world)?;
    let result = told("pg_get_function_result", number, world)?;
    let volatility = match of.volatility {
        'i' => " IMMUTABLE",
        's' => " STABLE",
        _ => "",
    };
    let strict = if of.is_strict { " STRICT" } else { "" };
    let words = format!("{volatility}{strict}");
    let words = if words.is_empty() { words } else { format!("{words}\n") };
    // A tag that does not stand in the text.
    let mut tag = "$function$".to_string();
    while of.source().contains(&tag) {
        tag.insert(tag.len() - 1, 'x');
    }
    Some(format!(
        "CREATE OR REPLACE FUNCTION {}.{}({arguments})\n RETURNS {result}\n LANGUAGE sql\n{words}AS {tag}{}{tag}\n",
        ident(&key.schema),
        ident(called(key)),
        of.source()
    ))
}

/// What a function of `pg_catalog` says of one.
pub(super) fn told(question: &str, number: i64, world: &World<'_>) -> Option<String> {
    let (_, entry) = world.state.made_functions().find(|(_, entry)| i64::from(entry.of.oid()) == number)?;
    let of = &entry.of;
    let shown = |of: Option<&TypeName>| format_type(i64::from(oid(of)), None, world);
    if question == "pg_get_function_result" {
        return Some(match &of.returns {
            Returns::Any => shown(None),
            Returns::AnyRows => "SETOF record".into(),
            Returns::Value(of) => shown(Some(of)),
            Returns::Values(of) => format!("SETOF {}", shown(Some(of))),
            Returns::Rows(columns) => {
                let column = |(name, of): &(String, TypeName)| format!("{} {}", ident(name), shown(Some(of)));
                format!("TABLE({})", columns.iter().map(column).collect::<Vec<_>>().join(", "))
            }
        });
    }
    let has_defaults = question == "pg_get_function_arguments";
    let parameter = |one: &Parameter| {
        let name = one.name.as_deref().map(|name| format!("{} ", ident(name))).unwrap_or_default();
        let default = one.default.as_ref().filter(|_| has_defaults);
        let default = default.map(|default| format!(" DEFAULT {default}")).unwrap_or_default();
        format!("{name}{}{default}", shown(one.of.as_ref()))
    };
    Some(of.parameters.iter().map(parameter).collect::<Vec<_>>().join(", "))
}
