//! GRANT and REVOKE of privileges, ALTER DEFAULT PRIVILEGES, ALTER .. OWNER TO, REASSIGN OWNED and DROP OWNED.

use sqlparser::ast::{DataType, Ident, ObjectName, ObjectNamePart};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::solid;
use super::function_statements;
use super::roles::{RoleName, Words, unsupported};
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::Kind;
use crate::error::Result;

/// Whom something is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grantee {
    /// Everybody.
    Public,
    /// A role.
    Role(RoleName),
}

/// A privilege that a statement names, of all or of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// Which; `None` for ALL.
    pub what: Option<(Privileges, &'static str)>,
    /// The columns; none for all of the thing.
    pub columns: Vec<String>,
}

/// What privileges are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Of {
    /// Tables and views.
    Tables(Vec<ObjectName>),
    /// Sequences.
    Sequences(Vec<ObjectName>),
    /// All tables and views, or all sequences, of schemas.
    AllIn(Kind, Vec<String>),
    /// Schemas.
    Schemas(Vec<String>),
    /// The database.
    Database(Vec<String>),
    /// Settings.
    Settings(Vec<String>),
    /// What is made from now on.
    Future(Kind),
}

/// GRANT or REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantStatement {
    /// Whether it takes.
    pub revokes: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub option: bool,
    /// The privileges.
    pub given: Vec<Given>,
    /// What they are of.
    pub of: Of,
    /// Whom they are given or taken from.
    pub grantees: Vec<Grantee>,
    /// CASCADE.
    pub cascade: bool,
}

/// What belongs to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owned {
    /// A table, view, materialized view, sequence or type: the word, whether it may be missing, its name.
    Relation(&'static str, bool, ObjectName),
    /// A function, and the types that it takes where they are told.
    Function(ObjectName, Option<Vec<DataType>>),
    /// A schema.
    Schema(String),
    /// The database.
    Database(String),
}

/// A statement about rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RightsStatement {
    /// `GRANT`, `REVOKE`.
    Grant(GrantStatement),
    /// `ALTER DEFAULT PRIVILEGES`: for what these roles make, in these schemas.
    Defaults { roles: Vec<RoleName>, schemas: Vec<String>, grant: GrantStatement },
    /// `ALTER .. OWNER TO`.
    Owner { of: Owned, to: RoleName },
    /// `REASSIGN OWNED`.
    Reassign { roles: Vec<RoleName>, to: RoleName },
    /// `DROP OWNED`.
    DropOwned { roles: Vec<RoleName>, cascade: bool },
}

/// The statement, if the words are those of one.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<RightsStatement>> {
    if let Some(((name, types), to)) = function_statements::owner(tokens)? {
        return Ok(Some(RightsStatement::Owner { of: Owned::Function(name, types), to }));
    }
    let (_, tokens) = solid(tokens);
    let mut words = Words::of(&tokens);
    let Some(found) = found(&mut words)? else { return Ok(None) };
    match words.is_over() {
        true => Ok(Some(found)),
        false => Err(words.expected("the end of the statement")),
    }
}

fn found(words: &mut Words<'_>) -> Result<Option<RightsStatement>> {
    let is_of_objects = || (0..words.len()).any(|place| words.is_at(place, "on"));
    if words.is_at(0, "grant") && is_of_objects() {
        words.skip(1);
        return grant(words, None).map(RightsStatement::Grant).map(Some);
    }
    if words.is_at(0, "revoke") && is_of_objects() {
        words.skip(1);
        return revoke(words, None).map(RightsStatement::Grant).map(Some);
    }
    if words.is_at(0, "alter") && words.is_at(1, "default") && words.is_at(2, "privileges") {
        words.skip(3);
        return defaults(words).map(Some);
    }
    if words.is_at(0, "reassign") && words.is_at(1, "owned") {
        words.skip(2);
        words.expect("by")?;
        let roles = words.roles()?;
        words.expect("to")?;
        return Ok(Some(RightsStatement::Reassign { roles, to: words.role()? }));
    }
    if words.is_at(0, "drop") && words.is_at(1, "owned") {
        words.skip(2);
        words.expect("by")?;
        let roles = words.roles()?;
        let cascade = words.take("cascade");
        if !cascade {
            words.take("restrict");
        }
        return Ok(Some(RightsStatement::DropOwned { roles, cascade }));
    }
    owner(words)
}

fn owner(words: &mut Words<'_>) -> Result<Option<RightsStatement>> {
    const KINDS: [&str; 8] = ["table", "view", "sequence", "type", "domain", "materialized view", "schema", "database"];
    let is_of = |kind: &&str| kind.split(' ').enumerate().all(|(place, word)| words.is_at(place + 1, word));
    let Some(kind) = KINDS.into_iter().find(|kind| words.is_at(0, "alter") && is_of(kind)) else {
        return Ok(None);
    };
    let Some(place) = words.len().checked_sub(3).filter(|place| *place > 2) else { return Ok(None) };
    let says = words.is_at(place, "owner") && words.is_at(place + 1, "to");
    // A column may be called owner.
    let renames = words.is_at(place - 1, "rename") || words.is_at(place - 1, "column");
    if !says || renames {
        return Ok(None);
    }
    words.skip(1 + kind.split(' ').count());
    let if_exists = words.is_at(words.at(), "if") && words.is_at(words.at() + 1, "exists");
    if if_exists {
        words.skip(2);
    }
    words.take("only");
    let of = match kind {
        "schema" => Owned::Schema(words.name()?),
        "database" => Owned::Database(words.name()?),
        _ => Owned::Relation(kind, if_exists, name(words)?),
    };
    words.expect("owner")?;
    words.expect("to")?;
    Ok(Some(RightsStatement::Owner { of, to: words.role()? }))
}

fn defaults(words: &mut Words<'_>) -> Result<RightsStatement> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if words.take("for") {
            if !words.take("role") {
                words.expect("user")?;
            }
            roles = words.roles()?;
        } else if words.take("in") {
            words.expect("schema")?;
            schemas = names(words)?;
        } else {
            break;
        }
    }
    let kind = |words: &mut Words<'_>| {
        for (word, kind) in [("tables", Kind::Tables), ("sequences", Kind::Sequences), ("schemas", Kind::Schemas)] {
            if words.take(word) {
                return Ok(Of::Future(kind));
            }
        }
        if ["functions", "routines", "types"].iter().any(|word| words.is_at(words.at(), word)) {
            return Err(unsupported(
                "ALTER DEFAULT PRIVILEGES of functions and types",
                "there are TABLES, SEQUENCES and SCHEMAS; everybody may use functions and types",
            ));
        }
        Err(words.expected("TABLES, SEQUENCES or SCHEMAS"))
    };
    let grant = if words.take("revoke") {
        revoke(words, Some(&kind))?
    } else {
        words.expect("grant")?;
        grant(words, Some(&kind))?
    };
    Ok(RightsStatement::Defaults { roles, schemas, grant })
}

type ReadOf<'a> = &'a dyn Fn(&mut Words<'_>) -> Result<Of>;

fn grant(words: &mut Words<'_>, future: Option<ReadOf<'_>>) -> Result<GrantStatement> {
    let given = given(words)?;
    words.expect("on")?;
    let of = of(words, future)?;
    words.expect("to")?;
    let grantees = grantees(words)?;
    let option = words.take("with");
    if option {
        words.expect("grant")?;
        words.expect("option")?;
    }
    words.no_grantor()?;
    Ok(GrantStatement { revokes: false, option, given, of, grantees, cascade: false })
}

fn revoke(words: &mut Words<'_>, future: Option<ReadOf<'_>>) -> Result<GrantStatement> {
    let option = words.is_at(words.at(), "grant") && words.is_at(words.at() + 1, "option");
    if option {
        words.skip(2);
        words.expect("for")?;
    }
    let given = given(words)?;
    words.expect("on")?;
    let of = of(words, future)?;
    words.expect("from")?;
    let grantees = grantees(words)?;
    words.no_grantor()?;
    let cascade = words.take("cascade");
    if !cascade {
        words.take("restrict");
    }
    Ok(GrantStatement { revokes: true, option, given, of, grantees, cascade })
}

fn given(words: &mut Words<'_>) -> Result<Vec<Given>> {
    let mut all = Vec::new();
    loop {
        let what = if words.take("all") {
            words.take("privileges");
            None
        } else if words.take("alter") {
            words.expect("system")?;
            Some((Privileges::ALTER_SYSTEM, "ALTER SYSTEM"))
        } else {
            let known = words.word().and_then(|word| {
                let one = Privileges::of(&word)?;
                one.each().next()
            });
            if known.is_none() && words.is_at(words.at(), "execute") {
                return Err(unsupported("GRANT and REVOKE of EXECUTE", "everybody may call functions"));
            }
            let Some(known) = known else { return Err(words.expected("a privilege, like SELECT, or ALL")) };
            words.skip(1);
            Some(known)
        };
        let mut columns = Vec::new();
        if words.take_token(&Token::LParen) {
            columns = names(words)?;
            if !words.take_token(&Token::RParen) {
                return Err(words.expected("')'"));
            }
        }
        all.push(Given { what, columns });
        if !words.take_token(&Token::Comma) {
            return Ok(all);
        }
    }
}

fn of(words: &mut Words<'_>, future: Option<ReadOf<'_>>) -> Result<Of> {
    if let Some(future) = future {
        return future(words);
    }
    if words.take("all") {
        let kind = if words.take("tables") {
            Kind::Tables
        } else if words.take("sequences") {
            Kind::Sequences
        } else {
            return Err(unsupported(
                "ON ALL of something else than TABLES and SEQUENCES",
                "everybody may use the rest",
            ));
        };
        words.expect("in")?;
        words.expect("schema")?;
        return Ok(Of::AllIn(kind, names(words)?));
    }
    if words.take("sequence") {
        return Ok(Of::Sequences(object_names(words)?));
    }
    if words.take("schema") {
        return Ok(Of::Schemas(names(words)?));
    }
    if words.take("database") {
        return Ok(Of::Database(names(words)?));
    }
    if words.take("parameter") {
        let dotted = |name: &ObjectName| {
            let parts = name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.to_lowercase());
            parts.collect::<Vec<_>>().join(".")
        };
        return Ok(Of::Settings(object_names(words)?.iter().map(dotted).collect()));
    }
    for word in ["function", "procedure", "routine", "language", "type", "domain", "tablespace", "foreign", "large"] {
        if words.is_at(words.at(), word) && words.is_word_at(words.at() + 1) {
            return Err(unsupported(
                &format!("GRANT and REVOKE ON {}", word.to_uppercase()),
                "there are TABLE, SEQUENCE, SCHEMA, DATABASE and PARAMETER; everybody may use functions and types",
            ));
        }
    }
    words.take("table");
    Ok(Of::Tables(object_names(words)?))
}

fn grantees(words: &mut Words<'_>) -> Result<Vec<Grantee>> {
    let mut all = Vec::new();
    loop {
        words.take("group");
        let is_public = words.word().is_some_and(|word| word == "public");
        all.push(if is_public {
            words.skip(1);
            Grantee::Public
        } else {
            Grantee::Role(words.role()?)
        });
        if !words.take_token(&Token::Comma) {
            return Ok(all);
        }
    }
}

/// Names, one after the other.
pub(super) fn names(words: &mut Words<'_>) -> Result<Vec<String>> {
    let mut all = vec![words.name()?];
    while words.take_token(&Token::Comma) {
        all.push(words.name()?);
    }
    Ok(all)
}

/// Names with their schemas, one after the other.
pub(super) fn object_names(words: &mut Words<'_>) -> Result<Vec<ObjectName>> {
    let mut all = vec![name(words)?];
    while words.take_token(&Token::Comma) {
        all.push(name(words)?);
    }
    Ok(all)
}

/// A name with its schema, as it is.
pub(super) fn name(words: &mut Words<'_>) -> Result<ObjectName> {
    let part = |words: &mut Words<'_>| -> Result<ObjectNamePart> {
        Ok(ObjectNamePart::Identifier(Ident::with_quote('"', words.name()?)))
    };
    let mut parts = vec![part(words)?];
    while words.take_token(&Token::Period) {
        parts.push(part(words)?);
    }
    Ok(ObjectName(parts))
}
