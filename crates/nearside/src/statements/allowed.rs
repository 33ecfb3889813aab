//! Which statements a role may run that may not do everything: what queries and statements that write touch is looked
//! at when they are planned ([`crate::plan::permission`]), the rest here, before anything of it is done.
//!
//! # Invariants
//! - A statement without a rule is for superusers.

use datafusion_sql::parser::{ResetStatement, Statement};
use sqlparser::ast::{self, AlterTableOperation, ObjectName, ObjectType};

use crate::catalog::made_functions::key;
use crate::catalog::path::is_temporary;
use crate::catalog::privileges::Privileges;
use crate::catalog::rights::{May, Thing};
use crate::catalog::roles::PredefinedRole;
use crate::catalog::{Entry, Name};
use crate::error::Result;
use crate::run::statement::RunningStatement;
use crate::sql::{
    AlterSystem, AnyStatement, Commented, DomainChange, DomainStatement, FunctionStatement, MaterializedStatement,
    SequenceStatement, TypeStatement, normalised, object_reference,
};
use crate::statements::made_functions::function_name;
use crate::statements::roles;

/// Fails where the role that runs a statement may not.
///
/// # Errors
/// So it is, or a name that is none.
pub(crate) fn check(statement: &AnyStatement, running: &RunningStatement) -> Result<()> {
    let may = running.may();
    if may.do_everything() {
        return Ok(());
    }
    let of = Check { may: &may, running };
    match statement {
        AnyStatement::Sql(statement) => of.sql(statement),
        // What they read and write is told of their plans, and of the statements that they run.
        AnyStatement::Locking(_) | AnyStatement::WritingWith(..) | AnyStatement::Cursor(_) => Ok(()),
        AnyStatement::CopyTo(_) => {
            may.need_superuser(Some(PredefinedRole::WriteServerFiles), "COPY to a file of the server's machine")
        }
        AnyStatement::CopyFrom(copy) => {
            may.need_superuser(Some(PredefinedRole::ReadServerFiles), "COPY from a file of the server's machine")?;
            let name = running.named(&copy.table)?;
            of.fill(&name, &copy.columns)
        }
        AnyStatement::AlterPlacement(alter) => match may.act_as_predefined(PredefinedRole::Placement) {
            true => Ok(()),
            false => of.own(&alter.table),
        },
        AnyStatement::RenameConstraint(alter) => of.own(&alter.table),
        AnyStatement::AlterConstraint(alter) => of.own(&alter.table),
        AnyStatement::Comment(comment) => of.comments(&comment.what),
        AnyStatement::AlterSystem(alter) => match alter {
            AlterSystem::Set { name, .. } | AlterSystem::Reset(name) => {
                may.need(&Thing::Setting(name.to_lowercase()), Privileges::ALTER_SYSTEM)
            }
            AlterSystem::UndoPlacement(_) => {
                may.need_superuser(Some(PredefinedRole::Placement), "undo what was placed")
            }
            AlterSystem::ResetAll => may.need_superuser(None, "ALTER SYSTEM RESET ALL"),
        },
        AnyStatement::Checkpoint => may.need_superuser(Some(PredefinedRole::Checkpoint), "CHECKPOINT"),
        AnyStatement::Sequence(sequence) => of.sequence(sequence),
        AnyStatement::Type(of_type) => of.types(of_type),
        AnyStatement::Domain(of_domain) => of.domains(of_domain),
        // Its query is planned as others are, which sees what the role may read.
        AnyStatement::Summarize(_) => Ok(()),
        AnyStatement::Function(statement) => of.functions(statement),
        AnyStatement::Materialized(statement) => of.materialized(statement),
        AnyStatement::Upkeep(upkeep) if upkeep.tables.is_empty() => {
            may.need_superuser(None, "VACUUM or ANALYZE all tables; name your own")
        }
        AnyStatement::Upkeep(upkeep) => upkeep.tables.iter().try_for_each(|(table, _)| of.own(table)),
        AnyStatement::GivenUp(_) | AnyStatement::SetConstraints(_) => Ok(()),
        // They look themselves.
        AnyStatement::Role(_) | AnyStatement::Rights(_) => Ok(()),
        AnyStatement::Export(_) => may.need_superuser(None, "EXPORT DATABASE"),
        AnyStatement::Import(_) => may.need_superuser(None, "IMPORT DATABASE"),
        AnyStatement::Backup(_) => may.need_superuser(None, "BACKUP DATABASE"),
    }
}

/// Fails where the role that runs a statement may not fill columns of a table with rows that a client sends.
///
/// # Errors
/// So it is.
pub(crate) fn check_fill(name: &Name, columns: &[String], running: &RunningStatement) -> Result<()> {
    let may = running.may();
    match may.do_everything() {
        true => Ok(()),
        false => Check { may: &may, running }.fill(name, columns),
    }
}

struct Check<'a> {
    may: &'a May<'a>,
    running: &'a RunningStatement,
}

impl Check<'_> {
    /// INSERT into columns; all where none are named.
    fn fill(&self, name: &Name, columns: &[String]) -> Result<()> {
        let table = self.running.catalog.table(name)?;
        self.may.need(&Thing::Schema(name.schema.clone()), Privileges::USAGE)?;
        let columns = match columns.is_empty() {
            true => table.base.schema.fields().iter().map(|field| field.name().clone()).collect(),
            false => columns.iter().cloned().collect(),
        };
        self.may.need_columns(&Thing::named(name), Privileges::INSERT, &columns)
    }

    /// What a name stands for, if it stands for anything: whoever runs the statement says what is wrong.
    fn found(&self, name: &ObjectName) -> Result<Option<Name>> {
        let name = self.running.named(name)?;
        Ok(self.running.catalog.get(&name).is_some().then_some(name))
    }

    /// It has to be the role's own.
    fn own(&self, name: &ObjectName) -> Result<()> {
        match self.found(name)? {
            Some(name) => self.may.need_own(&Thing::named(&name)),
            None => Ok(()),
        }
    }

    fn comments(&self, what: &Commented) -> Result<()> {
        match what {
            Commented::Relation { name, .. } => self.own(name),
            Commented::Column { table, .. } | Commented::Constraint { table, .. } => self.own(table),
            Commented::Index(index) => self.own_index(index),
            Commented::Schema(schema) => match self.running.catalog.has_schema(schema) {
                true => self.may.need_own(&Thing::Schema(schema.clone())),
                false => Ok(()),
            },
            Commented::Database(_) => self.may.need_own(&Thing::Database),
            Commented::Role(role) => {
                let of = roles::id(role, self.running)?;
                match self.running.catalog.roles().may_admin(self.running.user, of) {
                    true => Ok(()),
                    false => self.may.need_superuser(None, "comment on a role that it has no admin option on"),
                }
            }
            Commented::Function(name, _) => match self.running.catalog.get(&key(&function_name(name, self.running)?)) {
                Some(_) => self.may.need_own(&Thing::named(&key(&function_name(name, self.running)?))),
                None => Ok(()),
            },
        }
    }

    fn functions(&self, statement: &FunctionStatement) -> Result<()> {
        match statement {
            FunctionStatement::Create(new) => {
                self.makes(&new.name, false, false)?;
                let key = key(&function_name(&new.name, self.running)?);
                match new.or_replace && self.running.catalog.get(&key).is_some() {
                    true => self.may.need_own(&Thing::named(&key)),
                    false => Ok(()),
                }
            }
            FunctionStatement::Drop { names, .. } => names.iter().try_for_each(|(name, _)| {
                let key = key(&function_name(name, self.running)?);
                match self.running.catalog.get(&key).is_some() && !self.may.own(&Thing::Schema(key.schema.clone())) {
                    true => self.may.need_own(&Thing::named(&key)),
                    false => Ok(()),
                }
            }),
        }
    }

    fn materialized(&self, statement: &MaterializedStatement) -> Result<()> {
        match statement {
            MaterializedStatement::Create(new) => self.makes(&new.name, false, false),
            MaterializedStatement::Refresh { name, .. } => self.own(name),
            MaterializedStatement::Alter { as_table, .. } => check(as_table, self.running),
            MaterializedStatement::Drop { names, .. } => names.iter().try_for_each(|name| self.drops(name)),
        }
    }

    fn types(&self, statement: &TypeStatement) -> Result<()> {
        match statement {
            TypeStatement::Create { name, .. } => self.makes(name, false, false),
            TypeStatement::AddValue { name, .. }
            | TypeStatement::RenameValue { name, .. }
            | TypeStatement::Rename { name, .. } => self.own(name),
            TypeStatement::Drop { names, .. } => names.iter().try_for_each(|name| self.drops(name)),
        }
    }

    fn domains(&self, statement: &DomainStatement) -> Result<()> {
        match statement {
            DomainStatement::Create(new) => self.makes(&new.name, false, false),
            DomainStatement::Alter { name, change } => {
                self.own(name)?;
                match change.as_ref() {
                    DomainChange::Schema(to) if self.running.catalog.has_schema(to) => {
                        self.may.need(&Thing::Schema(to.clone()), Privileges::CREATE)
                    }
                    _ => Ok(()),
                }
            }
            DomainStatement::Drop { names, .. } => names.iter().try_for_each(|name| self.drops(name)),
        }
    }

    fn own_index(&self, name: &ObjectName) -> Result<()> {
        let running = self.running;
        let name = running.path().resolve_index(&object_reference(name)?, &running.catalog)?;
        match running.catalog.index(&name) {
            Some((table, _)) => self.may.need_own(&Thing::named(&table.name)),
            None => Ok(()),
        }
    }

    /// It, or its schema, has to be the role's own.
    fn drops(&self, name: &ObjectName) -> Result<()> {
        match self.found(name)? {
            Some(name) if self.may.own(&Thing::Schema(name.schema.clone())) => Ok(()),
            Some(name) => self.may.need_own(&Thing::named(&name)),
            None => Ok(()),
        }
    }

    /// Something new is made, in place of what is there where it is said.
    fn makes(&self, name: &ObjectName, is_temporary_one: bool, replaces: bool) -> Result<()> {
        let name = self.running.new_name(&object_reference(name)?, is_temporary_one)?;
        if is_temporary(&name.schema) {
            return self.may.need(&Thing::Database, Privileges::TEMPORARY);
        }
        if !self.running.catalog.has_schema(&name.schema) {
            return Ok(());
        }
        self.may.need(&Thing::Schema(name.schema.clone()), Privileges::CREATE)?;
        match self.running.catalog.get(&name).is_some() && replaces {
            true => self.may.need_own(&Thing::named(&name)),
            false => Ok(()),
        }
    }

    fn sequence(&self, sequence: &SequenceStatement) -> Result<()> {
        match sequence {
            SequenceStatement::Create { name, is_temporary, owned_by, .. } => {
                self.makes(name, *is_temporary, false)?;
                match owned_by.as_ref().and_then(Option::as_ref) {
                    Some(of) => self.own(&of.0),
                    None => Ok(()),
                }
            }
            SequenceStatement::Alter { name, owned_by, .. } => {
                self.own(name)?;
                match owned_by.as_ref().and_then(Option::as_ref) {
                    Some(of) => self.own(&of.0),
                    None => Ok(()),
                }
            }
            SequenceStatement::Rename { name, .. } => self.own(name),
            SequenceStatement::Drop { names, .. } => names.iter().try_for_each(|name| self.drops(name)),
            SequenceStatement::Column { table, .. } => self.own(table),
        }
    }

    fn sql(&self, statement: &Statement) -> Result<()> {
        match statement {
            Statement::Statement(statement) => self.statement(statement),
            Statement::Explain(_) | Statement::Reset(ResetStatement::Variable(_)) => Ok(()),
            Statement::CreateExternalTable(create) => {
                self.may.need_superuser(
                    Some(PredefinedRole::ReadServerFiles),
                    "make a table of files of the server's machine",
                )?;
                self.makes(&create.name, false, create.or_replace)
            }
            Statement::CopyTo(_) => self
                .may
                .need_superuser(Some(PredefinedRole::WriteServerFiles), "COPY to a file of the server's machine"),
        }
    }

    fn statement(&self, statement: &ast::Statement) -> Result<()> {
        match statement {
            // What they touch is told of their plans.
            ast::Statement::Query(_)
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)
            | ast::Statement::Merge(_)
            | ast::Statement::Explain { .. }
            | ast::Statement::Prepare { .. }
            | ast::Statement::Execute { .. }
            | ast::Statement::Deallocate { .. }
            | ast::Statement::ShowVariable { .. }
            | ast::Statement::ShowVariables { .. }
            | ast::Statement::ShowTables { .. }
            | ast::Statement::ShowColumns { .. }
            | ast::Statement::ExplainTable { .. }
            // Settings that are not everybody's are looked at where they are set.
            | ast::Statement::Set(_) => Ok(()),
            ast::Statement::Truncate(truncate) => {
                let restarts = matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart));
                truncate.table_names.iter().try_for_each(|target| match self.found(&target.name)? {
                    Some(name) if restarts => self.may.need_own(&Thing::named(&name)),
                    Some(name) => self.may.need(&Thing::named(&name), Privileges::TRUNCATE),
                    None => Ok(()),
                })
            }
            ast::Statement::Lock(lock) => self.locks(lock),
            ast::Statement::AlterTable(alter) => {
                self.own(&alter.name)?;
                let renames =
                    alter.operations.iter().any(|of| matches!(of, AlterTableOperation::RenameTable { .. }));
                match self.found(&alter.name)?.filter(|_| renames) {
                    Some(name) if !is_temporary(&name.schema) => {
                        self.may.need(&Thing::Schema(name.schema), Privileges::CREATE)
                    }
                    _ => Ok(()),
                }
            }
            ast::Statement::CreateIndex(create) => self.own(&create.table_name),
            ast::Statement::Drop { object_type: ObjectType::Schema, names, .. } => names.iter().try_for_each(|name| {
                let schema = name.0.last().and_then(|part| part.as_ident()).cloned().map(normalised);
                match schema.filter(|schema| self.running.catalog.has_schema(schema)) {
                    Some(schema) => self.may.need_own(&Thing::Schema(schema)),
                    None => Ok(()),
                }
            }),
            ast::Statement::Drop { object_type: ObjectType::Index, names, .. } => {
                names.iter().try_for_each(|name| self.own_index(name))
            }
            ast::Statement::Drop { object_type: ObjectType::Table | ObjectType::View, names, .. } => {
                names.iter().try_for_each(|name| self.drops(name))
            }
            ast::Statement::CreateTable(create) => {
                let is_temporary = create.temporary;
                self.makes(&create.name, is_temporary, create.or_replace)
            }
            ast::Statement::CreateView(create) => self.makes(&create.name, create.temporary, create.or_replace),
            // To whom it is to belong, who makes it looks at.
            ast::Statement::CreateSchema { .. } => self.may.need(&Thing::Database, Privileges::CREATE),
            _ => self.may.need_superuser(None, "run this statement"),
        }
    }

    /// As in PostgreSQL: reading takes the weakest lock, inserting the one of writers, and who may do more with the
    /// table takes any.
    fn locks(&self, lock: &ast::Lock) -> Result<()> {
        let mode = lock.lock_mode.as_ref().unwrap_or(&ast::LockTableMode::AccessExclusive);
        let changes = Privileges::UPDATE.and(Privileges::DELETE).and(Privileges::TRUNCATE);
        let any_of = match mode {
            ast::LockTableMode::AccessShare => changes.and(Privileges::SELECT),
            ast::LockTableMode::RowExclusive => changes.and(Privileges::INSERT),
            _ => changes,
        };
        lock.tables.iter().try_for_each(|target| match self.found(&target.name)? {
            Some(name) => {
                let thing = Thing::named(&name);
                let is_table = matches!(self.running.catalog.get(&name), Some(Entry::Table(_)));
                match self.may.with(&thing).meets(any_of) || !is_table {
                    true => Ok(()),
                    false => Err(self.may.denied(&thing)),
                }
            }
            None => Ok(()),
        })
    }
}
