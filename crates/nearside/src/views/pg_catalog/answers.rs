//! What functions that ask the catalog are answered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::numbers::Numbers;
use super::relations::index_definition;
use super::world::{Of, Relation, World};
use super::{comments, constraints};
use super::{made_functions, made_types, types};
use crate::catalog::privileges::{PUBLIC, Privileges};
use crate::catalog::rights::Thing;
use crate::catalog::roles::Role;
use crate::catalog::{CATALOG, CatalogState, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA, report};
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Result};
use crate::functions::catalog_asked::{Answers, Fact, NAME_OF, NUMBER_OF};
use crate::functions::quoting::ident;
use crate::sql::parts_of_text;

/// The catalog as a statement sees it, for its functions.
#[derive(Debug)]
pub(super) struct OfCatalog {
    pub state: Arc<CatalogState>,
    /// Where names without a schema are looked up.
    pub path: Vec<String>,
    /// The number of the role that asks.
    pub user: u32,
    /// Names of the system's views.
    pub system: Vec<&'static str>,
    /// Names of functions.
    pub functions: Vec<String>,
    /// What is asked for again and again, once it was.
    pub known: OnceLock<Known>,
}

/// Numbers, and what they are of.
#[derive(Debug)]
pub(super) struct Known {
    numbers: Arc<Numbers>,
    /// Schema and name of relations by their numbers.
    names: HashMap<i64, (String, String)>,
    /// The number of what a name without a schema stands for.
    bare: HashMap<String, i64>,
}

impl OfCatalog {
    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            let functions = self.functions.iter().map(String::as_str);
            let numbers = Arc::new(Numbers::new(&self.state, self.system.iter().copied(), functions));
            let world = World::new(&self.state, &self.path, &self.system, Arc::clone(&numbers));
            let mut names = HashMap::new();
            let mut bare: HashMap<String, (usize, i64)> = HashMap::new();
            for of in world.relations() {
                let oid = i64::from(of.oid);
                names.insert(oid, (of.schema.to_string(), of.name.to_string()));
                // What comes first in the path hides what has its name further on.
                let place = match of.schema {
                    PG_CATALOG => Some(0),
                    schema => self.path.iter().position(|known| known == schema).map(|place| place + 1),
                };
                if let Some(place) = place
                    && bare.get(of.name).is_none_or(|(known, _)| place < *known)
                {
                    bare.insert(of.name.to_string(), (place, oid));
                }
            }
            let bare = bare.into_iter().map(|(name, (_, oid))| (name, oid)).collect();
            Known { numbers, names, bare }
        })
    }

    fn world(&self) -> World<'_> {
        World::new(&self.state, &self.path, &self.system, Arc::clone(&self.known().numbers))
    }

    /// Whether a relation is found by its name alone; `None` where there is none of the number.
    fn is_visible(&self, oid: i64) -> Option<bool> {
        let known = self.known();
        let (_, name) = known.names.get(&oid)?;
        Some(known.bare.get(name) == Some(&oid))
    }
}

impl Answers for OfCatalog {
    fn answer(&self, question: &str, args: &[Fact]) -> Result<Fact> {
        if let Some(of) = question.strip_prefix(NAME_OF) {
            return Ok(number(args).map_or(Fact::Null, |number| self.name_of(of, number).into()));
        }
        if let Some(of) = question.strip_prefix(NUMBER_OF) {
            return self.number_of(of, args.first().unwrap_or(&Fact::Null));
        }
        // All of them are NULL of NULL.
        if args.first() == Some(&Fact::Null) {
            return Ok(Fact::Null);
        }
        if let Some(of) = question.strip_prefix("to_") {
            return Ok(match args.first() {
                Some(Fact::Text(text)) => self.found(of, text)?.into(),
                _ => Fact::Null,
            });
        }
        if question.starts_with("has_") && question.ends_with("_privilege") {
            return self.may(question, args);
        }
        let is_short = matches!(args.last(), Some(Fact::Flag(true)));
        Ok(match question {
            "format_type" => {
                let modifier = match args.get(1) {
                    Some(Fact::Number(modifier)) => Some(*modifier),
                    _ => None,
                };
                number(args).map(|oid| made_types::format_type(oid, modifier, &self.world())).into()
            }
            "pg_get_userbyid" => match number(args) {
                Some(oid) => match self.role_name(oid) {
                    Some(name) => name.into(),
                    None => format!("unknown (OID={oid})").into(),
                },
                None => Fact::Null,
            },
            "pg_table_is_visible" => number(args).and_then(|oid| self.is_visible(oid)).into(),
            "pg_type_is_visible" => number(args).map(|oid| made_types::is_visible(oid, &self.world())).into(),
            question if question.ends_with("_is_visible") => true.into(),
            // Expressions are kept as texts.
            "pg_get_expr" => match args.first() {
                Some(Fact::Text(text)) => text.as_str().into(),
                _ => Fact::Null,
            },
            "pg_get_constraintdef" => {
                let world = self.world();
                number(args).and_then(|oid| constraints::definition(oid, is_short, &world)).into()
            }
            "shobj_description" => match args.get(1) {
                Some(Fact::Text(class)) => {
                    number(args).and_then(|oid| comments::of_shared(oid, class, &self.state)).into()
                }
                _ => Fact::Null,
            },
            "obj_description" => {
                let class = match args.get(1) {
                    Some(Fact::Text(class)) => Some(class.as_str()),
                    _ => None,
                };
                number(args).and_then(|oid| comments::of(oid, class, 0, &self.world())).into()
            }
            "col_description" => match args.get(1) {
                Some(Fact::Number(column)) if *column > 0 => {
                    number(args).and_then(|oid| comments::of(oid, Some("pg_class"), *column, &self.world())).into()
                }
                _ => Fact::Null,
            },
            "pg_get_indexdef" => self.index(args, is_short),
            "pg_get_viewdef" => {
                let world = self.world();
                match self.relation(&args[0], &world)?.map(|of| of.of) {
                    Some(Of::View(view)) => format!(" {};", view.sql).into(),
                    Some(Of::Table(table)) if let Some(of) = &table.materialized => format!(" {};", of.sql).into(),
                    _ => Fact::Null,
                }
            }
            "pg_get_functiondef" => {
                let world = self.world();
                let number = match &args[0] {
                    // What is told as `regproc` is a name here.
                    Fact::Text(name) => made_functions::named(name, &world),
                    _ => number(args),
                };
                number.and_then(|oid| made_functions::statement(oid, &world)).into()
            }
            "pg_get_function_result" | "pg_get_function_arguments" | "pg_get_function_identity_arguments" => {
                number(args).and_then(|oid| made_functions::told(question, oid, &self.world())).into()
            }
            "pg_relation_is_publishable" | "row_security_active" | "pg_is_other_temp_schema" => false.into(),
            "pg_tablespace_location" => "".into(),
            "pg_relation_size" | "pg_table_size" => self.size(args, true, false)?,
            "pg_indexes_size" => self.size(args, false, true)?,
            "pg_total_relation_size" => self.size(args, true, true)?,
            "pg_database_size" => {
                let bytes: u64 = self.bytes(|_, _| true).values().map(|(table, index)| table + index).sum();
                Fact::Number(i64::try_from(bytes).unwrap_or(i64::MAX))
            }
            "pg_encoding_to_char" => match number(args) {
                Some(6) => "UTF8".into(),
                Some(0) => "SQL_ASCII".into(),
                Some(_) => "".into(),
                None => Fact::Null,
            },
            "pg_char_to_encoding" => match &args[0] {
                Fact::Text(name) if ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str()) => {
                    Fact::Number(6)
                }
                _ => Fact::Number(-1),
            },
            "getdatabaseencoding" | "pg_client_encoding" => "UTF8".into(),
            "pg_has_role" => return self.has_role(args),
            "pg_my_temp_schema" => {
                let temporary = self.path.iter().find(|schema| schema.starts_with("pg_temp"));
                Fact::Number(temporary.map_or(0, |schema| self.world().numbers.schema(schema).into()))
            }
            "pg_collation_for" => "\"C\"".into(),
            // Rules, triggers, partitions, signatures of functions, how often indexes were used: there are none, or
            // nothing is told of them.
            _ => Fact::Null,
        })
    }
}

fn number(args: &[Fact]) -> Option<i64> {
    match args.first()? {
        Fact::Number(number) => Some(*number),
        Fact::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn unknown_privilege(name: &str) -> Error {
    Error::plan(SqlState::InvalidParameterValue, format!("unrecognized privilege type: \"{}\"", name.trim()))
}

fn no_such(kind: &'static str, name: &str) -> Error {
    Error::NotFound { kind, name: name.into(), nearest: None }
}

impl OfCatalog {
    /// What a number or a name of a relation stands for.
    fn relation<'w>(&self, given: &Fact, world: &'w World<'_>) -> Result<Option<Relation<'w>>> {
        Ok(match given {
            Fact::Number(oid) => world.relation(*oid),
            Fact::Text(text) => match text.trim().parse::<i64>() {
                Ok(oid) => world.relation(oid),
                Err(_) => {
                    let (schema, name) = parts(text)?;
                    Some(world.named(schema.as_deref(), &name).ok_or_else(|| self.no_relation(text))?)
                }
            },
            _ => None,
        })
    }

    fn no_relation(&self, name: &str) -> Error {
        let names = self.state.entries().map(|(name, _)| name.table.as_str());
        Error::NotFound { kind: "table", name: name.into(), nearest: nearest(name, names) }
    }

    /// The number of what a text names; `None` where it names nothing.
    fn found(&self, of: &str, text: &str) -> Result<Option<u32>> {
        let world = self.world();
        Ok(match of {
            "regclass" => {
                let (schema, name) = parts(text)?;
                world.named(schema.as_deref(), &name).map(|of| of.oid)
            }
            "regtype" => match types::by_name(text) {
                Some(oid) => Some(oid),
                None => {
                    let (schema, name) = parts(text)?;
                    made_types::named(schema.as_deref(), &name, &world)
                }
            },
            "regnamespace" => Some(world.numbers.schema(&parts(text)?.1)).filter(|number| *number != 0),
            _ => self.state.roles().get(&parts(text)?.1).map(|role| role.id),
        })
    }

    /// `x::regclass` and its like.
    fn number_of(&self, of: &str, given: &Fact) -> Result<Fact> {
        if of == "regproc" {
            return self.function_name(given);
        }
        let text = match given {
            Fact::Number(number) => return Ok(Fact::Number(*number)),
            Fact::Text(text) => text.trim(),
            _ => return Ok(Fact::Null),
        };
        if text == "-" {
            return Ok(Fact::Number(0));
        }
        if let Ok(number) = text.parse() {
            return Ok(Fact::Number(number));
        }
        let found = self.found(of, text)?.ok_or_else(|| match of {
            "regclass" => self.no_relation(text),
            "regtype" => no_such("type", text),
            "regnamespace" => no_such("schema", text),
            _ => no_such("role", text),
        })?;
        Ok(Fact::Number(found.into()))
    }

    /// `x::regproc`, which is the name itself.
    fn function_name(&self, given: &Fact) -> Result<Fact> {
        let world = self.world();
        let made = match given {
            Fact::Text(text) => made_functions::named(text, &world),
            Fact::Number(number) => Some(*number),
            _ => None,
        };
        if let Some(shown) = made.and_then(|number| made_functions::shown(number, &world)) {
            return Ok(shown.into());
        }
        Ok(match given {
            Fact::Text(text) => {
                let name = text.strip_prefix("pg_catalog.").unwrap_or(text);
                let is_of_type = types::pg_type().iter().flatten().any(|(column, value)| {
                    matches!(*column, "typinput" | "typoutput" | "typreceive" | "typsend")
                        && matches!(value, super::layout::Value::Text(known) if known == name)
                });
                match name == "-" || is_of_type || world.numbers.function(name) != 0 {
                    true => name.into(),
                    false => return Err(no_such("function", name)),
                }
            }
            Fact::Number(0) => "-".into(),
            Fact::Number(number) => {
                let is_it = |name: &&String| i64::from(world.numbers.function(name)) == *number;
                self.functions.iter().find(is_it).map_or_else(|| number.to_string(), String::clone).into()
            }
            _ => Fact::Null,
        })
    }

    /// What a number is shown as.
    fn name_of(&self, of: &str, number: i64) -> String {
        let world = self.world();
        if number == 0 {
            return "-".into();
        }
        let name = match of {
            "regclass" => self.known().names.get(&number).map(|(schema, name)| match self.is_visible(number) {
                Some(true) => ident(name),
                _ => format!("{}.{}", ident(schema), ident(name)),
            }),
            "regtype" => made_types::is_known(number, &world).then(|| made_types::format_type(number, None, &world)),
            "regnamespace" => {
                let all = self.state.schemas().chain([PG_CATALOG, INFORMATION_SCHEMA, SYSTEM_SCHEMA]);
                all.map(|schema| (schema, world.numbers.schema(schema)))
                    .find(|(_, known)| i64::from(*known) == number)
                    .map(|(schema, _)| ident(schema))
            }
            _ => self.role_name(number).map(ident),
        };
        name.unwrap_or_else(|| number.to_string())
    }

    fn role_name(&self, number: i64) -> Option<&str> {
        u32::try_from(number).ok().and_then(|id| self.state.roles().by_id(id)).map(|(name, _)| name)
    }

    /// The role that an argument names, by its name or its number.
    fn role(&self, given: &Fact) -> Result<Option<&Role>> {
        match given {
            Fact::Text(name) => self.state.roles().found(name).map(Some),
            Fact::Number(number) => {
                Ok(u32::try_from(*number).ok().and_then(|id| self.state.roles().by_id(id)).map(|(_, role)| role))
            }
            _ => Ok(None),
        }
    }

    /// `pg_has_role([user,] role, what)`.
    fn has_role(&self, args: &[Fact]) -> Result<Fact> {
        if args.contains(&Fact::Null) {
            return Ok(Fact::Null);
        }
        let with_user = args.len() == 3;
        let user = match with_user {
            true => self.role(&args[0])?.map(|role| role.id),
            false => Some(self.user),
        };
        let of = self.role(&args[usize::from(with_user)])?.map(|role| role.id);
        let (Some(user), Some(of)) = (user, of) else { return Ok(false.into()) };
        let roles = self.state.roles();
        let Some(Fact::Text(what)) = args.last() else { return Ok(Fact::Null) };
        let asked = what.split(',').map(|one| match one.trim().to_lowercase().as_str() {
            "usage" => Ok(self.state.may(user).act_as(of)),
            "member" => Ok(roles.is_superuser(user) || roles.is_member(user, of)),
            "member with admin option"
            | "member with grant option"
            | "usage with admin option"
            | "usage with grant option" => Ok(roles.may_admin(user, of)),
            _ => Err(unknown_privilege(one)),
        });
        Ok(asked.collect::<Result<Vec<bool>>>()?.contains(&true).into())
    }

    /// `has_table_privilege([user,] table, what)` and its like.
    fn may(&self, question: &str, args: &[Fact]) -> Result<Fact> {
        if args.contains(&Fact::Null) {
            return Ok(Fact::Null);
        }
        let of_column = question == "has_column_privilege";
        let with_user = args.len() == if of_column { 4 } else { 3 };
        let user = match with_user {
            true if args[0] == Fact::Text("public".into()) => Some(PUBLIC),
            true => self.role(&args[0])?.map(|role| role.id),
            false => Some(self.user),
        };
        let Some(user) = user else { return Ok(false.into()) };
        let what = &args[usize::from(with_user)];
        let Some(Fact::Text(wanted)) = args.last() else { return Ok(Fact::Null) };
        let world = self.world();
        let all = match question {
            "has_schema_privilege" => Privileges::OF_SCHEMA,
            "has_database_privilege" => Privileges::OF_DATABASE,
            "has_sequence_privilege" => Privileges::OF_SEQUENCE,
            "has_column_privilege" | "has_any_column_privilege" => Privileges::OF_COLUMN,
            "has_table_privilege" => Privileges::OF_TABLE,
            // Everybody may use functions, types, languages and tablespaces.
            _ => return Ok(true.into()),
        };
        let thing = match question {
            "has_schema_privilege" => {
                let known = self.state.schemas().chain([PG_CATALOG, INFORMATION_SCHEMA, SYSTEM_SCHEMA]);
                let is_it = |schema: &&str| match what {
                    Fact::Text(name) => *schema == name,
                    Fact::Number(oid) => i64::from(world.numbers.schema(schema)) == *oid,
                    _ => false,
                };
                match (known.into_iter().find(is_it), what) {
                    (Some(schema), _) => Thing::Schema(schema.into()),
                    (None, Fact::Text(name)) => return Err(no_such("schema", name)),
                    (None, _) => return Ok(Fact::Null),
                }
            }
            "has_database_privilege" => match what {
                Fact::Text(name) if name != CATALOG => return Err(no_such("database", name)),
                _ => Thing::Database,
            },
            _ => {
                let Some(found) = self.relation(what, &world)? else { return Ok(Fact::Null) };
                if [PG_CATALOG, INFORMATION_SCHEMA, SYSTEM_SCHEMA].contains(&found.schema) {
                    let is_secret = ["pg_authid", "pg_shadow", "pg_statistic"].contains(&found.name);
                    let reads = wanted.split(',').any(|one| one.trim().eq_ignore_ascii_case("select"));
                    let is_superuser = self.state.roles().is_superuser(user);
                    return Ok((is_superuser || reads && !is_secret && found.schema != SYSTEM_SCHEMA).into());
                }
                Thing::Relation(found.schema.into(), found.name.into())
            }
        };
        let column = match (of_column, args.get(usize::from(with_user) + 1)) {
            (true, Some(Fact::Text(name))) => Some(name.clone()),
            (true, Some(Fact::Number(place))) => self.column_at(&thing, *place),
            _ => None,
        };
        let may = self.state.may(user);
        let has = |wanted: Privileges| match question {
            "has_column_privilege" => {
                let own = column.as_deref().map_or(Privileges::NONE, |column| may.with_column(&thing, column));
                may.with(&thing).and(own).has(wanted)
            }
            "has_any_column_privilege" => may.with_columns(&thing, wanted, &BTreeSet::new()),
            _ => may.with(&thing).has(wanted),
        };
        for one in wanted.split(',') {
            let one = one.trim().to_lowercase();
            let (name, grants) = match one.strip_suffix(" with grant option") {
                Some(name) => (name, true),
                None => (one.as_str(), false),
            };
            let Some(privilege) = Privileges::of(name).filter(|of| all.has(*of)) else {
                return Err(unknown_privilege(name));
            };
            let answer = match grants {
                true => may.grantor(&thing, &self.state.acl_of(&thing), privilege).1.has(privilege),
                false => has(privilege),
            };
            if answer {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }

    fn column_at(&self, thing: &Thing, place: i64) -> Option<String> {
        let name = thing.name()?;
        let table = self.state.table(&name).ok()?;
        let place = usize::try_from(place - 1).ok()?;
        table.base.schema.fields().get(place).map(|field| field.name().clone())
    }

    /// `pg_get_indexdef(index, column, is short)`: the statement, or the column.
    fn index(&self, args: &[Fact], is_short: bool) -> Fact {
        let world = self.world();
        let Some(Of::Index(table, index)) = number(args).and_then(|oid| world.relation(oid)).map(|of| of.of) else {
            return Fact::Null;
        };
        match args.get(1) {
            Some(Fact::Number(place)) if *place > 0 => {
                let column = usize::try_from(*place - 1).ok().and_then(|place| index.columns.get(place));
                column.map_or_else(String::new, |column| ident(column)).into()
            }
            _ => index_definition(table, index, &world, is_short).into(),
        }
    }

    /// Bytes of tables and of their indexes, by schema and name.
    fn bytes(&self, is_wanted: impl Fn(&str, &str) -> bool) -> BTreeMap<(String, String), (u64, u64)> {
        let mut bytes: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for column in report::columns(&self.state) {
            if is_wanted(&column.schema, &column.table) {
                let of = bytes.entry((column.schema, column.table)).or_default();
                of.0 += column.codes_bytes + column.dictionary_bytes;
                of.1 += column.index_bytes;
            }
        }
        bytes
    }

    fn size(&self, args: &[Fact], of_table: bool, of_indexes: bool) -> Result<Fact> {
        let world = self.world();
        let Some(of) = self.relation(&args[0], &world)? else { return Ok(Fact::Null) };
        let (table, is_index) = match of.of {
            Of::Table(table) => (table, false),
            Of::Index(table, _) => (table, true),
            _ => return Ok(Fact::Number(0)),
        };
        let all = self.bytes(|schema, name| schema == table.name.schema && name == table.name.table);
        let (rows, indexes) = all.values().next().copied().unwrap_or_default();
        let bytes = match is_index {
            true => indexes,
            false => u64::from(of_table) * rows + u64::from(of_indexes) * indexes,
        };
        Ok(Fact::Number(i64::try_from(bytes).unwrap_or(i64::MAX)))
    }
}

/// A name as SQL writes it, as its schema, if it has one, and itself.
fn parts(text: &str) -> Result<(Option<String>, String)> {
    let mut parts = parts_of_text(text)?;
    let name = parts.pop().unwrap_or_default();
    Ok((parts.pop(), name))
}
