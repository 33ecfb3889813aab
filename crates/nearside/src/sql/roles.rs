//! CREATE, ALTER and DROP ROLE (or USER), GRANT and REVOKE of roles, SET ROLE and SET SESSION AUTHORIZATION.
//!
//! # Invariants
//! - No message has a text of the statement in it: it may be a password.

use std::fmt;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::exclude::{is_word, solid};
use crate::catalog::CATALOG;
use crate::error::codes::SqlState;
use crate::error::{Error, Position, Result};

/// A password as it was written.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A role that a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleName {
    /// By its name.
    Named(String),
    /// `CURRENT_USER`, `CURRENT_ROLE`.
    Own,
    /// `SESSION_USER`.
    OfSession,
}

/// What a statement says of a role; nothing of what it does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RoleOptions {
    /// `SUPERUSER`.
    pub is_superuser: Option<bool>,
    /// `LOGIN`.
    pub can_login: Option<bool>,
    /// `INHERIT`.
    pub inherits: Option<bool>,
    /// `CONNECTION LIMIT`.
    pub connections: Option<i32>,
    /// `PASSWORD`, or none by `PASSWORD NULL`.
    pub password: Option<Option<Password>>,
    /// `VALID UNTIL`.
    pub valid_until: Option<String>,
    /// `IN ROLE`: what it is a member of.
    pub groups: Option<Vec<RoleName>>,
    /// `ROLE`: who is a member of it.
    pub members: Option<Vec<RoleName>>,
    /// `ADMIN`: who is, and may make others members.
    pub admins: Option<Vec<RoleName>>,
}

/// A statement about roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleStatement {
    /// `CREATE ROLE`, and `CREATE USER`, which may log in unless it says otherwise.
    Create { name: String, is_user: bool, options: Box<RoleOptions> },
    /// `ALTER ROLE` with options.
    Alter { role: RoleName, options: Box<RoleOptions> },
    /// `ALTER ROLE .. RENAME TO`.
    Rename { name: String, to: String },
    /// `DROP ROLE`.
    Drop { roles: Vec<RoleName>, if_exists: bool },
    /// `GRANT role TO role`.
    Grant { groups: Vec<RoleName>, members: Vec<RoleName>, with_admin: bool },
    /// `REVOKE role FROM role`.
    Revoke { groups: Vec<RoleName>, members: Vec<RoleName>, admin_alone: bool },
    /// `ALTER ROLE .. SET` and `RESET` of settings.
    Settings { role: RoleName, change: RoleSetting },
    /// `RESET ROLE`, or `RESET SESSION AUTHORIZATION`.
    Reset { of_session: bool },
    /// `SET ROLE`: the role, or the session's own; and whether it is for the transaction alone.
    SetRole(Option<RoleName>, bool),
    /// `SET SESSION AUTHORIZATION`: the role, or the one that has logged in; and whether it is for the transaction
    /// alone.
    SetSession(Option<RoleName>, bool),
}

/// What becomes of a setting that a role's sessions begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RoleSetting {
    /// It has this value.
    Set(String, String),
    /// It is as everywhere.
    Reset(String),
    /// All are.
    ResetAll,
}

/// The statement, if the tokens are one of these.
///
/// # Errors
/// What is wrong with it, and what of it is not done.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<RoleStatement>> {
    let (_, tokens) = solid(tokens);
    let mut words = Words::of(&tokens);
    let of_role =
        |words: &Words<'_>, place: usize| ["role", "user", "group"].into_iter().find(|word| words.is_at(place, word));
    let is_mapping = words.is_at(2, "mapping");
    let statement = match of_role(&words, 1).filter(|_| !is_mapping) {
        Some(kind) if words.is_at(0, "create") => {
            words.at = 2;
            create(kind == "user", &mut words)?
        }
        Some(kind) if words.is_at(0, "alter") => {
            words.at = 2;
            alter(kind, &mut words)?
        }
        Some(_) if words.is_at(0, "drop") => {
            words.at = 2;
            let if_exists = words.take("if");
            if if_exists {
                words.expect("exists")?;
            }
            RoleStatement::Drop { roles: words.roles()?, if_exists }
        }
        _ if words.take("grant") => grant(&mut words)?,
        _ if words.take("revoke") => revoke(&mut words)?,
        _ => match set(&mut words)? {
            Some(set) => set,
            None => return Ok(None),
        },
    };
    match words.is_over() {
        true => Ok(Some(statement)),
        false => Err(words.expected("the end of the statement")),
    }
}

fn create(is_user: bool, words: &mut Words<'_>) -> Result<RoleStatement> {
    let name = words.new_name()?;
    words.take("with");
    let options = options(words, true)?;
    Ok(RoleStatement::Create { name, is_user, options: Box::new(options) })
}

fn alter(kind: &str, words: &mut Words<'_>) -> Result<RoleStatement> {
    if words.is_at(words.at, "all") {
        return Err(unsupported("ALTER ROLE ALL", "settings are a session's (SET) or the database's (ALTER SYSTEM)"));
    }
    let role = words.role()?;
    if words.take("rename") {
        let RoleName::Named(name) = role else {
            return Err(unsupported("RENAME of CURRENT_USER", "name the role, as another one"));
        };
        words.expect("to")?;
        return Ok(RoleStatement::Rename { name, to: words.new_name()? });
    }
    if kind == "group" {
        return Err(unsupported("ALTER GROUP", "write GRANT role TO role, or REVOKE role FROM role"));
    }
    if ["set", "reset", "in"].iter().any(|word| words.is_at(words.at, word)) {
        return setting(role, words);
    }
    words.take("with");
    Ok(RoleStatement::Alter { role, options: Box::new(options(words, false)?) })
}

/// `[IN DATABASE nearside] SET name = value | TO value | RESET name | RESET ALL`
fn setting(role: RoleName, words: &mut Words<'_>) -> Result<RoleStatement> {
    if words.take("in") {
        words.expect("database")?;
        let database = words.name()?;
        if database != CATALOG {
            return Err(Error::NotFound { kind: "database", name: database, nearest: Some(CATALOG.into()) });
        }
    }
    let resets = words.take("reset");
    if !resets {
        words.expect("set")?;
    }
    if resets && words.take("all") {
        return Ok(RoleStatement::Settings { role, change: RoleSetting::ResetAll });
    }
    let mut name = words.name()?;
    while words.take_token(&Token::Period) {
        name = format!("{name}.{}", words.name()?);
    }
    if name == "time" && words.take("zone") {
        name = "timezone".into();
    } else if !resets && !words.take("to") && !words.take_token(&Token::Eq) {
        return Err(words.expected("TO or '='"));
    }
    if resets || words.take("default") {
        return Ok(RoleStatement::Settings { role, change: RoleSetting::Reset(name) });
    }
    if words.is_over() {
        return Err(words.expected("a value"));
    }
    let values = std::iter::from_fn(|| {
        let token = words.tokens.get(words.at)?;
        words.at += 1;
        Some(match &token.token {
            Token::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        })
    });
    let value = values.collect::<Vec<_>>().join("");
    Ok(RoleStatement::Settings { role, change: RoleSetting::Set(name, value) })
}

/// Options up to the end of the statement.
fn options(words: &mut Words<'_>, is_new: bool) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    while !words.is_over() {
        let place = words.at;
        let word = words.word().unwrap_or_default();
        words.at += 1;
        let is_new_alone = matches!(word.as_str(), "in" | "role" | "user" | "admin" | "sysid");
        let is_first = match word.as_str() {
            "superuser" | "nosuperuser" => options.is_superuser.replace(word == "superuser").is_none(),
            "login" | "nologin" => options.can_login.replace(word == "login").is_none(),
            "inherit" | "noinherit" => options.inherits.replace(word == "inherit").is_none(),
            "encrypted" | "password" => {
                if word == "encrypted" {
                    words.expect("password")?;
                }
                let password = match word == "password" && words.take("null") {
                    true => None,
                    false => Some(Password(words.text()?)),
                };
                options.password.replace(password).is_none()
            }
            "connection" => {
                words.expect("limit")?;
                options.connections.replace(words.limit()?).is_none()
            }
            "valid" => {
                words.expect("until")?;
                options.valid_until.replace(words.text()?).is_none()
            }
            // Of what nobody may beside superusers, nobody is given it.
            "nocreatedb" | "nocreaterole" | "noreplication" | "nobypassrls" => true,
            "createrole" | "createdb" | "replication" | "bypassrls" => {
                let option = word.to_uppercase();
                return Err(unsupported(
                    &format!("{option} of a role"),
                    "only superusers may do that; write SUPERUSER",
                ));
            }
            "unencrypted" => return Err(unsupported("UNENCRYPTED PASSWORD", "passwords are never kept as they are")),
            "in" if is_new => {
                if !words.take("role") {
                    words.expect("group")?;
                }
                options.groups.replace(words.roles()?).is_none()
            }
            "role" | "user" if is_new => options.members.replace(words.roles()?).is_none(),
            "admin" if is_new => options.admins.replace(words.roles()?).is_none(),
            "sysid" => return Err(unsupported("SYSID", "numbers of roles are given; leave it out")),
            _ => {
                words.at = place;
                let hint = if is_new_alone { "; memberships of one that there is are changed by GRANT" } else { "" };
                return Err(words.expected(&format!("an option of a role, like LOGIN or PASSWORD 'text'{hint}")));
            }
        };
        if !is_first {
            words.at = place;
            return Err(words.error("conflicting or redundant options"));
        }
    }
    Ok(options)
}

fn grant(words: &mut Words<'_>) -> Result<RoleStatement> {
    let groups = words.roles()?;
    words.expect("to")?;
    let members = words.roles()?;
    let mut with_admin = false;
    if words.take("with") {
        words.expect("admin")?;
        words.expect("option")?;
        with_admin = true;
    }
    words.no_grantor()?;
    Ok(RoleStatement::Grant { groups, members, with_admin })
}

fn revoke(words: &mut Words<'_>) -> Result<RoleStatement> {
    let admin_alone = words.is_at(words.at, "admin") && words.is_at(words.at + 1, "option");
    if admin_alone {
        words.at += 2;
        words.expect("for")?;
    }
    let groups = words.roles()?;
    words.expect("from")?;
    let members = words.roles()?;
    words.no_grantor()?;
    if words.is_at(words.at, "cascade") {
        return Err(unsupported("REVOKE .. CASCADE of a role", "memberships do not depend on who gave them"));
    }
    words.take("restrict");
    Ok(RoleStatement::Revoke { groups, members, admin_alone })
}

fn set(words: &mut Words<'_>) -> Result<Option<RoleStatement>> {
    let resets = words.is_at(0, "reset");
    if !resets && !words.is_at(0, "set") {
        return Ok(None);
    }
    let is_scoped =
        !resets && (words.is_at(1, "local") || words.is_at(1, "session") && !words.is_at(2, "authorization"));
    let is_local = !resets && words.is_at(1, "local");
    words.at = 1 + usize::from(is_scoped);
    let is_role = words.take("role");
    let is_of_session = words.is_at(words.at, "session") && words.is_at(words.at + 1, "authorization");
    if !is_role && !is_of_session {
        return Ok(None);
    }
    let mut own = resets;
    if is_role {
        if !words.take("to") && words.tokens.get(words.at).is_some_and(|token| token.token == Token::Eq) {
            words.at += 1;
        }
        own |= words.take("none");
    } else {
        words.at += 2;
        own |= words.take("default");
    }
    let role = match own {
        true => None,
        false => match words.tokens.get(words.at).map(|token| &token.token) {
            Some(Token::SingleQuotedString(_)) => Some(RoleName::Named(words.text()?)),
            _ => Some(words.role()?),
        },
    };
    if resets {
        return Ok(Some(RoleStatement::Reset { of_session: !is_role }));
    }
    Ok(Some(match is_role {
        true => RoleStatement::SetRole(role, is_local),
        false => RoleStatement::SetSession(role, is_local),
    }))
}

pub(super) fn unsupported(what: &str, instead: &str) -> Error {
    Error::Unsupported(format!("{what} is not supported: {instead}"))
}

/// The tokens of a statement without blanks, and how far they were read.
pub(super) struct Words<'a> {
    tokens: &'a [&'a TokenWithSpan],
    at: usize,
}

impl<'a> Words<'a> {
    /// Those of a statement, of which none was read.
    pub(super) fn of(tokens: &'a [&'a TokenWithSpan]) -> Words<'a> {
        Words { tokens, at: 0 }
    }
}

impl Words<'_> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Which is next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes on by so many.
    pub(super) fn skip(&mut self, count: usize) {
        self.at += count;
    }

    /// Takes a sign, if it is next.
    pub(super) fn take_token(&mut self, sign: &Token) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|token| token.token == *sign);
        self.at += usize::from(is);
        is
    }

    /// Whether there is a word or a name.
    pub(super) fn is_word_at(&self, place: usize) -> bool {
        self.tokens.get(place).is_some_and(|token| {
            matches!(&token.token, Token::Word(word) if word.quote_style.is_some()
                || !["to", "from"].contains(&word.value.to_lowercase().as_str()))
        })
    }

    /// Refuses GRANTED BY.
    pub(super) fn no_grantor(&self) -> Result<()> {
        match self.is_at(self.at, "granted") {
            true => Err(unsupported("GRANTED BY", "who grants is who runs the statement; leave it out")),
            false => Ok(()),
        }
    }

    /// Whether all were read.
    pub(super) fn is_over(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Whether a word is at a place.
    pub(super) fn is_at(&self, place: usize, word: &str) -> bool {
        self.tokens.get(place).is_some_and(|token| is_word(token, word))
    }

    /// The word that is next, in lower case.
    pub(super) fn word(&self) -> Option<String> {
        match &self.tokens.get(self.at)?.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
            _ => None,
        }
    }

    /// Takes a word, if it is next.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let is = self.is_at(self.at, word);
        self.at += usize::from(is);
        is
    }

    /// Takes a word that has to be next.
    pub(super) fn expect(&mut self, word: &str) -> Result<()> {
        match self.take(word) {
            true => Ok(()),
            false => Err(self.expected(&word.to_uppercase())),
        }
    }

    /// What is wrong with what is next.
    fn error(&self, message: &str) -> Error {
        let at = self.tokens.get(self.at).map(|token| token.span.start);
        let position = at.map(|at| Position { line: at.line, column: at.column });
        Error::Syntax { message: message.into(), position }
    }

    /// The error where something else is next.
    pub(super) fn expected(&self, what: &str) -> Error {
        let found = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::Word(word)) => word.to_string(),
            Some(Token::Number(..)) => "a number".into(),
            Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_)) => {
                "a text".into()
            }
            Some(other) => format!("'{other}'").chars().take(3).collect(),
            None => "the end of the statement".into(),
        };
        self.error(&format!("Expected: {what}, found: {found}"))
    }

    /// A name of a role, as it is.
    pub(super) fn name(&mut self) -> Result<String> {
        let name = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::Word(word)) if word.quote_style.is_some() => word.value.clone(),
            Some(Token::Word(word)) => word.value.to_lowercase(),
            _ => return Err(self.expected("the name of a role")),
        };
        self.at += 1;
        Ok(name)
    }

    /// The name of a role that there is to be.
    fn new_name(&mut self) -> Result<String> {
        if self.own().is_some() {
            let message = "CURRENT_USER, CURRENT_ROLE and SESSION_USER are no names for a role";
            return Err(Error::plan(SqlState::ReservedName, message));
        }
        let name = self.name()?;
        let reserved = |why: &str| Err(Error::plan(SqlState::ReservedName, format!("role name '{name}' {why}")));
        match name.as_str() {
            "" => Err(self.error("a role needs a name")),
            "public" | "none" => reserved("is reserved"),
            _ if name.starts_with("pg_") => reserved("is reserved: names that begin with pg_ are the system's"),
            _ if name.contains('\0') => reserved("has a character that names cannot have"),
            _ => Ok(name),
        }
    }

    fn own(&self) -> Option<RoleName> {
        let is = |word: &str| self.is_at(self.at, word);
        match (is("current_user") || is("current_role"), is("session_user")) {
            (true, _) => Some(RoleName::Own),
            (_, true) => Some(RoleName::OfSession),
            _ => None,
        }
    }

    /// A role.
    pub(super) fn role(&mut self) -> Result<RoleName> {
        match self.own() {
            Some(own) => {
                self.at += 1;
                Ok(own)
            }
            None => self.name().map(RoleName::Named),
        }
    }

    /// `a, b`
    pub(super) fn roles(&mut self) -> Result<Vec<RoleName>> {
        let mut roles = vec![self.role()?];
        while self.tokens.get(self.at).is_some_and(|token| token.token == Token::Comma) {
            self.at += 1;
            roles.push(self.role()?);
        }
        Ok(roles)
    }

    /// The text that is next.
    pub(super) fn text(&mut self) -> Result<String> {
        let text = match self.tokens.get(self.at).map(|token| &token.token) {
            Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.expected("a text")),
        };
        self.at += 1;
        Ok(text)
    }

    /// The number behind CONNECTION LIMIT; -1 for none.
    fn limit(&mut self) -> Result<i32> {
        let is_negative = self.tokens.get(self.at).is_some_and(|token| token.token == Token::Minus);
        self.at += usize::from(is_negative);
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at).map(|token| &token.token) else {
            return Err(self.expected("a number"));
        };
        let sign = if is_negative { "-" } else { "" };
        let Ok(limit) = format!("{sign}{digits}").parse::<i32>() else { return Err(self.expected("a whole number")) };
        self.at += 1;
        match limit < -1 {
            true => Err(Error::plan(SqlState::InvalidParameterValue, format!("invalid connection limit: {limit}"))),
            false => Ok(limit),
        }
    }
}

/// A statement's text as others may see it: without what follows the first word PASSWORD, where it is about a role.
pub(crate) fn without_password(sql: &str) -> &str {
    const WORD: &str = "password";
    let begins = |word: &str| {
        let text = sql.trim_start();
        text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word))
    };
    // A comment may stand before it.
    if !["create", "alter", "--", "/*"].iter().any(|word| begins(word)) {
        return sql;
    }
    let found = sql.as_bytes().windows(WORD.len()).position(|word| word.eq_ignore_ascii_case(WORD.as_bytes()));
    found.map_or(sql, |at| &sql[..at + WORD.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::AnyStatement;

    fn read(sql: &str) -> Result<RoleStatement> {
        match AnyStatement::one(sql)? {
            AnyStatement::Role(statement) => Ok(statement),
            _ => Err(Error::syntax("another statement")),
        }
    }

    #[test]
    fn options_stand_in_any_order() {
        let of = |sql: &str| match read(sql).unwrap() {
            RoleStatement::Create { name, is_user, options } => (name, is_user, *options),
            other => panic!("{other:?}"),
        };
        let (name, is_user, options) = of(
            "CREATE USER \"A b\" WITH password 'x' Superuser NOCREATEDB CONNECTION LIMIT -1 IN ROLE a, CURRENT_USER",
        );
        assert_eq!((name.as_str(), is_user), ("A b", true));
        assert_eq!(options.password, Some(Some(Password("x".into()))));
        assert_eq!((options.is_superuser, options.can_login, options.connections), (Some(true), None, Some(-1)));
        assert_eq!(options.groups, Some(vec![RoleName::Named("a".into()), RoleName::Own]));
        assert_eq!(of("create role A").0, "a");
        assert_eq!(of("CREATE ROLE a ENCRYPTED PASSWORD $$x'y$$").2.password, Some(Some(Password("x'y".into()))));
    }

    #[test]
    fn what_is_wrong_shows_no_password() {
        for sql in [
            "CREATE ROLE a PASSWORD 'secret' 'secret'",
            "CREATE ROLE a PASSWORD 'a' PASSWORD 'secret'",
            "CREATE ROLE a PASSWORD secret",
            "ALTER ROLE a 'secret'",
            "ALTER ROLE a VALID 'secret'",
            "DROP ROLE 'secret'",
            "CREATE ROLE a UNENCRYPTED PASSWORD 'secret'",
        ] {
            let error = read(sql).unwrap_err().to_string();
            assert!(!error.contains("'secret'"), "{sql}: {error}");
        }
        assert!(!format!("{:?}", read("ALTER ROLE a PASSWORD 'secret'").unwrap()).contains("secret"));
    }

    #[test]
    fn passwords_are_cut_off() {
        assert_eq!(without_password("ALTER ROLE a PASSWORD 'secret'"), "ALTER ROLE a PASSWORD");
        assert_eq!(without_password("/* a */ create user a password/**/'secret'"), "/* a */ create user a password");
        let query = "SELECT password FROM t WHERE a = 'x'";
        assert_eq!(without_password(query), query);
    }
}
