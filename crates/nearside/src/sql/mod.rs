//! From text to statements: splitting scripts, our own statements, and DataFusion's parser for the rest.
//!
//! Ours: `ALTER TABLE .. SET PLACEMENT` and `.. NUMA NODE`, `ALTER SYSTEM`, `COPY t FROM 'file'`, `EXPORT DATABASE
//! 'folder'`, `IMPORT DATABASE 'folder'`; `COPY .. TO` is parsed by DataFusion and executed by us. Everything else is
//! SQL as DataFusion (sqlparser's generic dialect) reads it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_expr::planner::ContextProvider;
use datafusion_expr::{LogicalPlan, Volatility};
use datafusion_sql::parser::{CopyToStatement, DFParserBuilder, Statement};
use datafusion_sql::planner::{ParserOptions, SqlToRel, object_name_to_table_reference};
use sqlparser::ast::{self, ObjectName, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::catalog::domains::DomainEntry;
use crate::catalog::lengths::{Length, Lengths};
use crate::catalog::made_functions::MadeFunction;
use crate::catalog::rules::Writable;
use crate::catalog::user_types::EnumType;
use crate::error::codes::SqlState;
use crate::error::names::nearest;
use crate::error::{Error, Position, Result};
pub(crate) use crate::sql::dialect::SqlDialect;
use crate::stack::{deep, deep_by};

mod array_query;
mod asof;
mod bracketed;
mod calls;
mod casts;
mod catalog_types;
mod check_option;
mod comments;
mod complete;
mod composed;
mod conflict;
mod cursors;
mod described;
mod dialect;
mod dimensions;
mod distinct;
mod domain_statements;
mod exclude;
mod fetch;
mod fields;
mod figured;
mod from_values;
mod function_statements;
mod grants;
mod grouping;
mod integers;
mod intervals;
mod json;
mod keys;
mod locking;
mod made_functions;
mod materialized;
mod materialized_views;
mod mend;
mod merge;
mod moment_words;
mod named_arguments;
mod names;
mod nested_sets;
mod nocase;
mod ordered_sets;
mod ordinality;
mod ordinary;
mod outputs;
mod overriding;
mod own;
mod parsed;
mod qualified;
mod recursion;
mod respelled;
mod returning;
mod roles;
mod rows;
mod rules;
mod same_names;
mod scope;
mod select_into;
mod sequences;
mod set_config;
mod shapes;
mod similar;
mod summarized;
mod table_like;
mod table_query;
mod text;
mod text_rows;
mod ties;
mod type_statements;
mod upkeep;
mod user_types;
mod uuids;
mod values;
mod walk;
mod windows;
mod writes;
mod writing_with;
mod written_columns;
mod written_with;

pub(crate) use casts::{CAST, NUMERIC};
pub(crate) use check_option::take_check_option;
pub(crate) use comments::{CommentOn, Commented};
pub(crate) use composed::is_known as is_composed;
#[cfg(test)]
pub(crate) use composed::names as composed_names;
pub(crate) use conflict::{Conflict, Pairs, Target, as_update, take_conflict};
pub(crate) use cursors::{CursorStatement, Declared, Direction};
pub(crate) use domain_statements::{DomainChange, DomainStatement, NewDomain};
pub(crate) use exclude::exclusion_of;
use exclude::without_exclusions;
pub(crate) use function_statements::{FunctionStatement, NewFunction, WrittenBody, WrittenReturns, query_of_text};
pub(crate) use grants::{Given, GrantStatement, Grantee, Of, Owned, RightsStatement};
use locking::without_locking;
pub(crate) use locking::{LockClause, LockingSelect, Wait};
pub(crate) use made_functions::calls_function;
pub(crate) use materialized::Wish;
use materialized::{keep_wishes, put_back, without_words};
pub(crate) use materialized_views::{MaterializedStatement, NewMaterialized};
use mend::mend;
pub(crate) use merge::{MergeStep, merge_steps};
pub(crate) use names::{
    fresh_name, is_made, name_of_text, named_otherwise, object_name, object_reference, parts_of_text, quoted,
    reference_of_text, seen_name,
};
use nested_sets::flattened;
use own::own_statement;
pub(crate) use own::{AlterConstraint, AlterPlacement, AlterSystem, Change, RenameConstraint, SetConstraints};
pub(crate) use qualified::qualify;
pub(crate) use recursion::STEP;
use respelled::respelled;
pub(crate) use returning::{Returning, take_returning};
pub(crate) use roles::{RoleName, RoleOptions, RoleSetting, RoleStatement, without_password};
pub(crate) use rows::gives_rows;
pub(crate) use rules::{Numbered, WrittenCheck, WrittenForeignKey, WrittenRules, deferral, of_column, take_rules};
pub(crate) use scope::without_stars;
pub(crate) use sequences::{ColumnChange, OwnedBy, SequenceStatement};
pub(crate) use set_config::{SetConfig, set_config};
pub(crate) use shapes::Shape;
pub(crate) use table_like::{Including, TableLike, created, like_of};
pub(crate) use text::{Written, check_tokens, statements};
pub use text::{is_complete, split};
pub(crate) use type_statements::{Beside, TypeStatement};
pub(crate) use upkeep::{GivenUp, Upkeep};
pub(crate) use user_types::{base_of, casts_to, data_type_of, may_be_made};
pub(crate) use values::is_real;
use windows::resolve_windows;
pub(crate) use writing_with::WritingStep;
pub(crate) use written_columns::{Inserted, Writes};

/// How deep expressions may nest.
const RECURSION_MAX: usize = 200;

/// One statement of a script and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptPiece {
    /// The text, without the semicolon.
    pub sql: String,
    /// Where it starts in the script.
    pub start: Position,
}

/// A statement of ours or of DataFusion's.
#[derive(Debug, Clone)]
pub(crate) enum AnyStatement {
    /// DataFusion's parser took it.
    Sql(Box<Statement>),
    /// `SELECT .. FOR UPDATE` and its like.
    Locking(Box<LockingSelect>),
    /// A statement whose WITH writes: what is run before it, the tables that it reads if it writes, and itself.
    WritingWith(Vec<WritingStep>, Vec<ObjectName>, Box<Statement>),
    /// `COPY t | (query) TO 'file'`.
    CopyTo(CopyToStatement),
    /// `COPY t FROM 'file'`.
    CopyFrom(CopyFrom),
    /// `ALTER TABLE t SET PLACEMENT ..` and `.. NUMA NODE ..`.
    AlterPlacement(AlterPlacement),
    /// `ALTER TABLE .. RENAME CONSTRAINT ..`, which the other parser does not read.
    RenameConstraint(RenameConstraint),
    /// `ALTER TABLE .. ALTER CONSTRAINT ..`, which the other parser does not read either.
    AlterConstraint(AlterConstraint),
    /// `SET CONSTRAINTS ..`.
    SetConstraints(SetConstraints),
    /// `COMMENT ON ..`.
    Comment(CommentOn),
    /// `ALTER SYSTEM SET ..` and `.. RESET ..`.
    AlterSystem(AlterSystem),
    /// `EXPORT DATABASE 'folder'`.
    Export(String),
    /// `IMPORT DATABASE 'folder'`.
    Import(String),
    /// `CHECKPOINT`.
    Checkpoint,
    /// `BACKUP DATABASE TO 'folder'`.
    Backup(String),
    /// `CREATE SEQUENCE` and its like.
    Sequence(SequenceStatement),
    /// `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.
    Cursor(CursorStatement),
    /// `VACUUM`, `ANALYZE`.
    Upkeep(Upkeep),
    /// `DISCARD`, `RESET ALL` and their like.
    GivenUp(GivenUp),
    /// `CREATE ROLE` and its like.
    Role(RoleStatement),
    /// `GRANT` and its like.
    Rights(RightsStatement),
    /// `CREATE TYPE` and its like.
    Type(TypeStatement),
    /// `CREATE DOMAIN` and its like.
    Domain(DomainStatement),
    /// `SUMMARIZE`, of a query.
    Summarize(Box<Statement>),
    /// `CREATE FUNCTION` and its like.
    Function(FunctionStatement),
    /// `CREATE MATERIALIZED VIEW` and its like.
    Materialized(MaterializedStatement),
}

/// `COPY t [(columns)] FROM 'path' [STORED AS format] [[WITH | OPTIONS] (key value, ..)]`.
#[derive(Debug, Clone)]
pub(crate) struct CopyFrom {
    /// The table.
    pub table: ObjectName,
    /// The columns that the file's columns go to, in order; all when empty.
    pub columns: Vec<String>,
    /// File, folder or glob.
    pub path: String,
    /// Options, keys in lower case, `format` among them.
    pub options: Vec<(String, String)>,
}

impl AnyStatement {
    /// Parses a text that holds exactly one statement.
    pub(crate) fn one(sql: &str) -> Result<AnyStatement> {
        AnyStatement::of(only(sql)?)
    }

    /// Parses a statement of a script; what is wrong with it is told where it stands in the script.
    pub(crate) fn of(written: Written) -> Result<AnyStatement> {
        if let Some(query) = summarized::query(&written.tokens) {
            return summarized::statement(Written { piece: written.piece, tokens: query });
        }
        let tokens = respelled(with_formats(written.tokens));
        if let Some(of) = function_statements::statement(&tokens)? {
            return Ok(AnyStatement::Function(of));
        }
        let tokens = fetch::with_offsets_first(bracketed::with_selects(table_query::with_selects(tokens)));
        let length = tokens.len();
        let composes = composed::may_be_called(&tokens);
        check_tokens(&tokens)?;
        refuse_by_word(&tokens)?;
        match upkeep::statement(&tokens)? {
            Some(upkeep::Kept::Upkeep(upkeep)) => return Ok(AnyStatement::Upkeep(upkeep)),
            Some(upkeep::Kept::GivenUp(given_up)) => return Ok(AnyStatement::GivenUp(given_up)),
            None => {}
        }
        if let Some(rights) = grants::statement(&tokens)? {
            return Ok(AnyStatement::Rights(rights));
        }
        if let Some(role) = roles::statement(&tokens)? {
            return Ok(AnyStatement::Role(role));
        }
        if let Some(cursor) = cursors::statement(&tokens)? {
            return Ok(AnyStatement::Cursor(cursor));
        }
        if let Some(sequence) = sequences::statement(&tokens)? {
            return Ok(AnyStatement::Sequence(sequence));
        }
        if let Some(of) = type_statements::statement(&tokens)? {
            return Ok(AnyStatement::Type(of));
        }
        if let Some(of) = domain_statements::statement(&tokens)? {
            return Ok(AnyStatement::Domain(of));
        }
        if let Some(of) = materialized_views::statement(&tokens)? {
            return Ok(AnyStatement::Materialized(of));
        }
        if let Some(comment) = comments::statement(&tokens)? {
            return Ok(AnyStatement::Comment(comment));
        }
        if let Some(own) = own_statement(&tokens)? {
            return Ok(own);
        }
        let tokens = sequences::with_options_in_order(table_like::with_marks(tokens)?)?;
        let (tokens, check_option) = check_option::without_words(tokens);
        let (tokens, overriding) = overriding::without_words(tokens)?;
        conflict::check_target(&tokens)?;
        let (tokens, locks) = without_locking(asof::with_marks(tokens)?)?;
        let (tokens, alias) = conflict::without_alias(tokens);
        let (tokens, said) = without_words(without_exclusions(flattened(merge::with_actions(tokens)?))?);
        let mut parser = DFParserBuilder::new(tokens)
            .with_dialect(&SqlDialect)
            .with_recursion_limit(RECURSION_MAX)
            .build()
            .map_err(Error::from)?;
        let mut statements = parser.parse_statements().map_err(Error::from)?;
        let mut steps = Vec::new();
        let mut reads = Vec::new();
        let mut found = Vec::new();
        deep_by(length, || {
            if let [statement] = statements.make_contiguous() {
                found = writing_with::taken_off(statement, &mut steps)?;
                reads = writing_with::read_by_rest(statement);
            }
            statements.extend(steps.drain(..));
            statements.iter_mut().try_for_each(select_into::write_out)?;
            statements.iter_mut().try_for_each(written_with::write_out)?;
            statements.iter_mut().for_each(|statement| put_back(statement, &said));
            statements.iter_mut().for_each(|statement| conflict::put_alias(statement, &alias));
            statements.iter_mut().try_for_each(|statement| overriding::put(statement, overriding))?;
            statements.iter_mut().try_for_each(|statement| check_option::put(statement, check_option))?;
            statements.iter_mut().for_each(distinct::bind);
            statements.iter_mut().try_for_each(resolve_windows)?;
            statements.iter_mut().try_for_each(asof::write_out)?;
            statements.iter_mut().try_for_each(catalog_types::without_schema)?;
            statements.iter_mut().try_for_each(nocase::write_out)?;
            statements.iter_mut().try_for_each(described::write_out)?;
            statements.iter_mut().try_for_each(ordered_sets::write_out)?;
            statements.iter_mut().try_for_each(ordinality::write_out)?;
            if composes {
                statements.iter_mut().try_for_each(composed::write_out)?;
            }
            statements.iter_mut().try_for_each(ordinary::write_out)?;
            statements.iter_mut().try_for_each(catalog_types::write_out)?;
            statements.iter().try_for_each(complete::check)
        })?;
        if !found.is_empty() {
            return writing(statements, found, reads, locks.is_empty());
        }
        match (statements.pop_front(), statements.is_empty()) {
            (Some(statement), true) if !locks.is_empty() => {
                Ok(AnyStatement::Locking(Box::new(LockingSelect::of(statement, locks)?)))
            }
            (Some(Statement::CopyTo(copy)), true) => Ok(AnyStatement::CopyTo(copy)),
            (Some(statement), true) => Ok(AnyStatement::Sql(Box::new(statement))),
            _ => Err(Error::syntax("one statement is expected here")),
        }
    }

    /// The logical plan of a statement that has one.
    pub(crate) fn plan(self, context: &impl KnownTables) -> Result<LogicalPlan> {
        match self {
            AnyStatement::Sql(statement) => plan_statement(*statement, context),
            AnyStatement::Locking(_) => {
                Err(Error::Unsupported("SELECT .. FOR UPDATE within another statement is not supported".into()))
            }
            AnyStatement::WritingWith(..) => Err(Error::Unsupported(
                "INSERT, UPDATE and DELETE within WITH cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Comment(_) => {
                Err(Error::Unsupported("COMMENT ON cannot be prepared or stand inside another statement".into()))
            }
            AnyStatement::SetConstraints(_) => {
                Err(Error::Unsupported("SET CONSTRAINTS cannot be prepared or stand inside another statement".into()))
            }
            AnyStatement::AlterPlacement(_) | AnyStatement::RenameConstraint(_) | AnyStatement::AlterConstraint(_) => {
                Err(Error::Unsupported("ALTER TABLE cannot be prepared or stand inside another statement".into()))
            }
            AnyStatement::AlterSystem(_) => {
                Err(Error::Unsupported("ALTER SYSTEM cannot be prepared or stand inside another statement".into()))
            }
            AnyStatement::Sequence(_) => Err(Error::Unsupported(
                "statements about sequences cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Cursor(_) => Err(Error::Unsupported(
                "DECLARE, FETCH, MOVE and CLOSE cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Upkeep(_) | AnyStatement::GivenUp(_) => Err(Error::Unsupported(
                "VACUUM, ANALYZE, DISCARD and their like cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Summarize(_) => {
                Err(Error::Unsupported("SUMMARIZE cannot be prepared or stand inside another statement".into()))
            }
            AnyStatement::Function(_) => Err(Error::Unsupported(
                "statements about functions cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Materialized(_) => Err(Error::Unsupported(
                "statements about materialized views cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Type(_) => Err(Error::Unsupported(
                "statements about types cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Domain(_) => Err(Error::Unsupported(
                "statements about domains cannot be prepared or stand inside another statement".into(),
            )),
            AnyStatement::Role(_) | AnyStatement::Rights(_) => Err(Error::Unsupported(
                "statements about roles cannot be prepared or stand inside another statement".into(),
            )),
            _ => {
                Err(Error::plan(SqlState::SyntaxError, "COPY, EXPORT and IMPORT cannot stand inside another statement"))
            }
        }
    }
}

/// A statement whose WITH writes: the first of these, behind which stand those that were found in its WITH.
fn writing(
    statements: VecDeque<Statement>,
    found: Vec<writing_with::Found>,
    reads: Vec<ObjectName>,
    is_unlocked: bool,
) -> Result<AnyStatement> {
    if !is_unlocked {
        return Err(Error::Unsupported("FOR UPDATE or its like beside a WITH that writes".into()));
    }
    let mut statements = statements.into_iter();
    let rest = statements.next().ok_or_else(|| Error::syntax("one statement is expected here"))?;
    let steps = statements.zip(found).map(|(statement, found)| WritingStep {
        rows: found.rows,
        statement: Box::new(statement),
        writes: found.writes,
        reads: found.reads,
    });
    Ok(AnyStatement::WritingWith(steps.collect(), reads, Box::new(rest)))
}

/// What a statement's tables are known by before it is planned.
pub(crate) trait KnownTables: ContextProvider {
    /// The columns of a table or view; `None` where there is none, which the planner says.
    fn columns(&self, table: &ObjectName) -> Option<Vec<String>>;

    /// The default of a table's column, as it is written.
    ///
    /// # Errors
    /// Defaults that SQL has no text for.
    fn default_of(&self, table: &ObjectName, column: &str) -> Result<Option<ast::Expr>>;

    /// What a statement may put into a column.
    fn writable(&self, table: &ObjectName, column: &str) -> Writable;

    /// The enum that a name stands for; `None` for names of types that the planner knows.
    ///
    /// # Errors
    /// There is no such type.
    fn made_type(&self, name: &ObjectName) -> Result<Option<Arc<EnumType>>>;

    /// The domain that a name stands for, if it stands for one.
    fn made_domain(&self, name: &ObjectName) -> Option<Arc<DomainEntry>>;

    /// The function that a statement has made under a name.
    ///
    /// # Errors
    /// None that a name has which was parsed.
    fn made_function(&self, name: &ObjectName) -> Result<Option<Arc<MadeFunction>>>;

    /// A plan in which arguments of functions that were made are of types that these take.
    ///
    /// # Errors
    /// One that is not.
    fn with_arguments(&self, plan: LogicalPlan) -> Result<LogicalPlan>;

    /// Whether a name is that of a view that gives something else each time.
    fn is_volatile_view(&self, table: &ObjectName) -> bool;

    /// Keeps a query that is planned by itself, and says by which name the rest of the statement reads it.
    fn give(&self, plan: LogicalPlan) -> String;

    /// A statement's plan, in which values that are put into columns have the columns' types.
    ///
    /// # Errors
    /// A value of a type that its column does not take.
    fn assigned(&self, plan: LogicalPlan) -> Result<LogicalPlan>;

    /// What of a statement is asked for before it is rewritten, so that it can be told what it may do.
    fn writes(&self, statement: &Statement) -> Writes;

    /// Fails where who runs the statement may not do what its plan says.
    ///
    /// # Errors
    /// So it is.
    fn permits(&self, plan: &LogicalPlan, writes: &Writes) -> Result<()>;
}

/// Plans one of DataFusion's statements.
pub(crate) fn plan_statement(mut statement: Statement, context: &impl KnownTables) -> Result<LogicalPlan> {
    let planner = SqlToRel::new_with_options(context, parser_options(context.options()));
    let said = context.writes(&statement);
    deep(|| {
        let columns = |table: &ObjectName| context.columns(table);
        let volatile = |name: &str| {
            let function = context.get_function_meta(name);
            function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
        };
        let known = made_functions::Known {
            made: &|name| context.made_function(name),
            columns: &columns,
            is_volatile: &volatile,
        };
        let mut calls = made_functions::write_out(&mut statement, &known)?;
        let made = |name: &ObjectName| context.made_type(name);
        let domains = |name: &ObjectName| context.made_domain(name);
        user_types::write_out(&mut statement, &made, &domains)?;
        json::write_out(&mut statement)?;
        same_names::tell_apart(&mut statement)?;
        recursion::mark_steps(&mut statement)?;
        let writable = |table: &ObjectName, column: &str| context.writable(table, column);
        let default_of = |table: &ObjectName, column: &str| context.default_of(table, column);
        writes::write_out(&mut statement, &columns, (&default_of, &writable))?;
        // Defaults that stand for DEFAULT may call and cast, too.
        calls |= made_functions::write_out(&mut statement, &known)?;
        let with_arguments = |plan| if calls { context.with_arguments(plan) } else { Ok(plan) };
        user_types::write_out(&mut statement, &made, &domains)?;
        uuids::write_out(&mut statement, &|table| {
            let name = object_name_to_table_reference(table.clone(), true).ok()?;
            Some(context.get_table_source(name).ok()?.schema())
        });
        let gives_value = |name: &str| context.get_function_meta(name).is_some();
        from_values::write_out(&mut statement, &gives_value)?;
        scope::name_sources(&mut statement, &columns)?;
        text_rows::write_out(&mut statement)?;
        rows::write_out(&mut statement)?;
        moment_words::write_out(&mut statement)?;
        casts::write_out(&mut statement);
        scope::write_out(&mut statement, &columns)?;
        mend(&mut statement)?;
        keep_wishes(&mut statement, &volatile, &|table| context.is_volatile_view(table));
        writes::give_values(&mut statement, &mut |query| {
            Ok(context.give(with_arguments(planner.statement_to_plan(query)?)?))
        })?;
        let plan = context.assigned(with_arguments(planner.statement_to_plan(statement)?)?)?;
        context.permits(&plan, &said)?;
        Ok(integers::narrowed(plan)?)
    })
}

/// `EXPLAIN (FORMAT JSON | TEXT)` with the names that the parser has for these.
fn with_formats(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let (places, words) = exclude::solid(&tokens);
    let mut other = None;
    if words.first().is_some_and(|first| exclude::is_word(first, "EXPLAIN"))
        && words.get(1).is_some_and(|word| word.token == Token::LParen)
    {
        let end = words.iter().position(|word| word.token == Token::RParen).unwrap_or(words.len());
        for at in 2..end {
            let names = [("JSON", "pgjson"), ("TEXT", "indent")];
            let name = names.iter().find(|(name, _)| exclude::is_word(words[at], name));
            if let (Some((_, name)), true) = (name, exclude::is_word(words[at - 1], "FORMAT")) {
                other = Some((places[at], *name));
            }
        }
    }
    if let Some((place, name)) = other {
        tokens[place].token = Token::make_word(name, None);
    }
    tokens
}

/// Refuses statements by their words which the parser does not know.
fn refuse_by_word(tokens: &[TokenWithSpan]) -> Result<()> {
    let instead = [
        ("PIVOT", "as a statement; write SELECT * FROM t PIVOT (aggregate FOR column IN (values))"),
        ("UNPIVOT", "as a statement; write SELECT * FROM t UNPIVOT (value FOR name IN (columns))"),
        ("REINDEX", "is not needed: what writes a table keeps its indexes; leave it out"),
        ("DO", "of a block; there is no procedural language: run its statements one by one, or in a function of SQL"),
    ];
    let (_, words) = exclude::solid(tokens);
    let are = |place: usize, all: &[&str]| {
        all.iter()
            .enumerate()
            .all(|(at, word)| words.get(place + at).is_some_and(|found| exclude::is_word(found, word)))
    };
    let has = |all: &[&str]| (2..words.len()).any(|place| are(place, all));
    let altered: [(&[&str], &[&str], &str); 5] = [
        (&["ALTER", "VIEW"], &["RENAME"], "ALTER VIEW .. RENAME; CREATE the view under its new name, and DROP the old"),
        (&["ALTER", "VIEW"], &["SET", "SCHEMA"], "ALTER VIEW .. SET SCHEMA; CREATE the view in the other schema"),
        (&["ALTER", "TABLE"], &["SET", "SCHEMA"], "ALTER TABLE .. SET SCHEMA; CREATE TABLE .. AS in the other schema"),
        (&["ALTER", "INDEX"], &["IF", "EXISTS"], "ALTER INDEX IF EXISTS; leave IF EXISTS out"),
        (&["DROP", "INDEX"], &["CONCURRENTLY", "IF"], "DROP INDEX CONCURRENTLY; leave CONCURRENTLY out"),
    ];
    if let Some((_, _, text)) = altered.into_iter().find(|(begin, part, _)| are(0, begin) && has(part)) {
        return Err(Error::Unsupported(text.into()));
    }
    match words.first().and_then(|first| instead.iter().find(|(word, _)| exclude::is_word(first, word))) {
        Some((word, instead)) => Err(Error::Unsupported(format!("{word} {instead}"))),
        None => Ok(()),
    }
}

/// The one statement of a text.
///
/// # Errors
/// None or several, what does not end.
pub(crate) fn only(sql: &str) -> Result<Written> {
    let mut all = statements(sql)?;
    match (all.pop(), all.len()) {
        (Some(written), 0) => Ok(written),
        (None, _) => Err(Error::syntax("there is no statement in the text")),
        (_, more) => Err(Error::syntax(format!("one statement is expected here, and the text holds {}", more + 1))),
    }
}

/// Takes LOCAL or SESSION off a SET, and RESTRICT and CONTINUE IDENTITY off a TRUNCATE, which is what it does anyway;
/// whether LOCAL was there.
pub(crate) fn take_local(statement: &mut Statement) -> bool {
    let Statement::Statement(inner) = statement else { return false };
    match inner.as_mut() {
        ast::Statement::Set(ast::Set::SingleAssignment { scope, .. }) => {
            scope.take_if(|scope| *scope == ast::ContextModifier::Session);
            scope.take_if(|scope| *scope == ast::ContextModifier::Local).is_some()
        }
        ast::Statement::Set(ast::Set::SetTimeZone { local, .. }) => std::mem::take(local),
        ast::Statement::Truncate(truncate) => {
            truncate.cascade.take_if(|cascade| *cascade == ast::CascadeOption::Restrict);
            truncate.identity.take_if(|identity| *identity == ast::TruncateIdentityOption::Continue);
            false
        }
        _ => false,
    }
}

/// Takes `WITH (placement = '..')` off CREATE TABLE: the planner would refuse it. `units = on` is the placement
/// `units`.
///
/// # Errors
/// Other options, and values that they do not have.
pub(crate) fn take_placement(statement: &mut Statement) -> Result<Option<String>> {
    let Statement::Statement(inner) = statement else { return Ok(None) };
    let ast::Statement::CreateTable(create) = inner.as_mut() else { return Ok(None) };
    let ast::CreateTableOptions::With(options) = &create.table_options else { return Ok(None) };
    let mut placement = None;
    let mut units = None;
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return Err(Error::plan(
                SqlState::SyntaxError,
                format!("WITH ({option}): an option is name = value, as placement = 'ivp'"),
            ));
        };
        let key = key.value.to_lowercase();
        let text = match value {
            ast::Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text.clone(),
            other => other.to_string(),
        };
        let is_again = match key.as_str() {
            "placement" => placement.replace(text).is_some(),
            "units" => units.replace(switch(&key, &text)?).is_some(),
            // What is so: no room is left free.
            "fillfactor" if text == "100" => false,
            "fillfactor" => {
                return Err(Error::Unsupported(format!(
                    "WITH (..): fillfactor is 100, and {text} is not supported: no room is left free in a table"
                )));
            }
            _ => {
                let nearest = nearest(&key, ["placement", "units"].into_iter());
                return Err(Error::NotFound { kind: "table option", name: key, nearest });
            }
        };
        if is_again {
            return Err(Error::plan(SqlState::InvalidParameterValue, format!("WITH (..): {key} stands twice")));
        }
    }
    if units == Some(true) && placement.replace("units".into()).is_some() {
        return Err(Error::plan(
            SqlState::InvalidParameterValue,
            "WITH (..): rows in units lie where the units are; leave the placement out",
        ));
    }
    create.table_options = ast::CreateTableOptions::None;
    Ok(placement)
}

/// The value of an option that is on or off.
fn switch(option: &str, text: &str) -> Result<bool> {
    match text.to_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(Error::plan(
            SqlState::InvalidParameterValue,
            format!("WITH ({option} = {text}): {option} is on or off"),
        )),
    }
}

/// The lengths of a CREATE TABLE's columns; `None` where it names none of its columns.
///
/// # Errors
/// As [`Length::of_column`].
pub(crate) fn lengths(statement: &Statement, context: &impl KnownTables) -> Result<Option<Lengths>> {
    let Statement::Statement(inner) = statement else { return Ok(None) };
    let ast::Statement::CreateTable(create) = inner.as_ref() else { return Ok(None) };
    if create.columns.is_empty() {
        return Ok(None);
    }
    let mut lengths = HashMap::new();
    for column in &create.columns {
        let name = normalised(column.name.clone());
        let (data_type, _) = base_of(&column.data_type, context)?;
        if let Some(length) = Length::of_column(&name, &data_type, &|name| context.made_type(name))? {
            lengths.insert(name, length);
        }
    }
    Ok(Some(Arc::new(lengths)))
}

/// The domains of a CREATE TABLE's columns.
///
/// # Errors
/// None that a domain has which was made.
pub(crate) fn domains(statement: &Statement, context: &impl KnownTables) -> Result<Vec<(String, Arc<DomainEntry>)>> {
    let mut found = Vec::new();
    for column in columns_of(statement) {
        if let (_, Some(domain)) = base_of(&column.data_type, context)? {
            found.push((normalised(column.name.clone()), domain));
        }
    }
    Ok(found)
}

/// The definitions of columns of a CREATE TABLE.
pub(crate) fn columns_of(statement: &Statement) -> &[ast::ColumnDef] {
    let Statement::Statement(inner) = statement else { return &[] };
    match inner.as_ref() {
        ast::Statement::CreateTable(create) => &create.columns,
        _ => &[],
    }
}

/// The planner's options as the session's settings say.
fn parser_options(options: &ConfigOptions) -> ParserOptions {
    let sql = &options.sql_parser;
    ParserOptions {
        parse_float_as_decimal: sql.parse_float_as_decimal,
        enable_ident_normalization: sql.enable_ident_normalization,
        support_varchar_with_length: sql.support_varchar_with_length,
        enable_options_value_normalization: sql.enable_options_value_normalization,
        collect_spans: sql.collect_spans,
        map_string_types_to_utf8view: sql.map_string_types_to_utf8view,
        default_null_ordering: sql.default_null_ordering.as_str().into(),
    }
}

/// The options of DataFusion's statements in the same shape: keys in lower case, without a `format.` before them, and
/// the format among them.
pub(crate) fn option_pairs(options: &[(String, Value)], format: Option<&str>) -> Vec<(String, String)> {
    let pair = |(key, value): &(String, Value)| {
        let key = key.to_lowercase();
        let key = key.rsplit('.').next().unwrap_or(&key).to_string();
        let text = match value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            Value::Number(n, _) => n.to_string(),
            Value::Boolean(b) => b.to_string(),
            other => other.to_string(),
        };
        (key, text)
    };
    let format = format.map(|f| ("format".to_string(), f.to_string()));
    options.iter().map(pair).chain(format).collect()
}

/// SQL folds unquoted names to lower case.
pub(crate) fn normalised(name: sqlparser::ast::Ident) -> String {
    if name.quote_style.is_some() { name.value } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests;
