//! Domains: types of columns that are others with a default, NOT NULL and conditions.
//!
//! A domain is kept as a table of one column, [`VALUE`], whose type, default and conditions are its own: what is known
//! of columns is so known of it, too. Values of it are values of that type everywhere; what it says is looked at where
//! a value is cast to it or written to a column of it. Which domain a column is of stands in the rules of its table,
//! with all that the domain says.
//!
//! # Invariants
//! The rules of all columns of a domain say what the catalog does: who changes one changes the others.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use crate::catalog::comments::Comments;
use crate::catalog::defaults::ColumnDefault;
use crate::catalog::lengths::Length;
use crate::catalog::rules::{DomainLayer, DomainRules, VALUE};
use crate::catalog::user_types::FIRST;
use crate::catalog::{CatalogState, Entry, Name, TableEntry};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};

/// A domain.
#[derive(Debug, Clone)]
pub(crate) struct DomainEntry {
    /// As a table of one column.
    pub of: Arc<TableEntry>,
    /// The type that it is over, as SQL writes it: a domain's, too.
    pub base: String,
    /// The domain that it is over.
    pub over: Option<u64>,
    /// What was said of it.
    pub comments: Arc<Comments>,
}

impl DomainEntry {
    /// Unique for the life of the database.
    pub(crate) fn id(&self) -> u64 {
        self.of.id
    }

    /// Its number in `pg_type`.
    pub(crate) fn oid(&self) -> u32 {
        u32::try_from(u64::from(FIRST) + self.id()).unwrap_or(u32::MAX)
    }

    /// The column that it is kept as.
    pub(crate) fn field(&self) -> &Field {
        self.of.base.schema.field(0)
    }

    /// Which texts its values are.
    pub(crate) fn length(&self) -> Option<&Length> {
        self.of.lengths.get(VALUE)
    }

    /// Its default.
    pub(crate) fn default(&self) -> Option<&ColumnDefault> {
        self.of.defaults.get(VALUE)
    }

    /// Whether it allows no NULL.
    pub(crate) fn is_required(&self) -> bool {
        !self.field().is_nullable()
    }
}

impl CatalogState {
    /// A domain by name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn domain(&self, name: &Name) -> Result<&Arc<DomainEntry>> {
        match self.get(name) {
            Some(Entry::Domain(found)) => Ok(found),
            Some(Entry::Type(_)) => {
                Err(Error::plan(SqlState::WrongObjectType, format!("type '{}' is no domain", name.shown())))
            }
            _ => Err(Error::plan(
                SqlState::UndefinedObject,
                format!("domain '{}' does not exist; CREATE DOMAIN makes one", name.shown()),
            )),
        }
    }

    /// All domains.
    pub(crate) fn domains(&self) -> impl Iterator<Item = (&Name, &Arc<DomainEntry>)> {
        self.entries().filter_map(|(name, entry)| match entry {
            Entry::Domain(found) => Some((name, found)),
            _ => None,
        })
    }

    /// A domain by its number.
    pub(crate) fn domain_of(&self, id: u64) -> Option<(&Name, &Arc<DomainEntry>)> {
        self.domains().find(|(_, found)| found.id() == id)
    }

    /// Puts a domain under a name, in place of what stood there; the rules of its columns say what it does.
    ///
    /// # Errors
    /// As [`CatalogState::put_view`].
    pub(crate) fn put_domain(&mut self, name: Name, of: Arc<DomainEntry>) -> Result<()> {
        let id = of.id();
        self.insert(name, Entry::Domain(of))?;
        let has = |table: &&Arc<TableEntry>| table.rules.domains.values().any(|rules| rules.is_of(id));
        let tables: Vec<Arc<TableEntry>> = self.tables().filter(has).cloned().collect();
        for table in tables {
            let mut table = TableEntry::clone(&table);
            self.refresh_domains(&mut table);
            let id = table.id;
            *self.existing(id)? = Arc::new(table);
        }
        Ok(())
    }

    /// Has the rules of a table say what the domains of its columns do.
    pub(super) fn refresh_domains(&self, table: &mut TableEntry) {
        for (column, rules) in table.rules.domains.clone() {
            if let Some((_, domain)) = self.domain_of(rules.id) {
                let now = self.rules_of_domain(domain);
                if now != *rules {
                    Arc::make_mut(&mut table.rules).domains.insert(column, Arc::new(now));
                }
            }
        }
    }

    /// Fails where a table has a column of a domain that is not there any more.
    ///
    /// # Errors
    /// It was dropped meanwhile.
    pub(crate) fn has_domains_of(&self, table: &TableEntry) -> Result<()> {
        match table.rules.domains.iter().find(|(_, rules)| self.domain_of(rules.id).is_none()) {
            Some((column, _)) => Err(Error::execution(
                SqlState::UndefinedObject,
                format!("the domain of column '{column}' was dropped meanwhile"),
            )),
            None => Ok(()),
        }
    }

    /// A column outside of a schema, or a domain, that is of a domain within it.
    pub(super) fn user_of_domains_in(&self, schema: &str) -> Option<String> {
        let is_within = |id: u64| self.domain_of(id).is_some_and(|(name, _)| name.schema == schema);
        let tables = self.tables().filter(|table| table.name.schema != schema);
        let column = |table: &Arc<TableEntry>| {
            let (column, _) = table.rules.domains.iter().find(|(_, rules)| is_within(rules.id))?;
            Some(format!("column '{column}' of table '{}'", table.name.shown()))
        };
        let mut others = self.domains().filter(|(name, _)| name.schema != schema);
        let mut over = || others.find(|(_, domain)| domain.over.is_some_and(is_within));
        let mut columns = tables.filter_map(column);
        columns.next().or_else(|| over().map(|(name, _)| format!("domain '{}'", name.shown())))
    }

    /// What a domain says, and those that it is over.
    pub(crate) fn rules_of_domain(&self, domain: &DomainEntry) -> DomainRules {
        let mut layers = Vec::new();
        let mut default = None;
        let mut at = Some(domain);
        while let Some(of) = at {
            default = default.or_else(|| of.default().cloned());
            layers.push(DomainLayer {
                id: of.id(),
                name: Name::clone(&of.of.name),
                is_required: of.is_required(),
                checks: of.of.rules.checks.clone(),
            });
            at = of.over.and_then(|id| self.domain_of(id)).map(|(_, found)| found.as_ref());
        }
        layers.reverse();
        DomainRules::new(domain.id(), default, domain.length().cloned(), layers)
    }

    /// Names of the tables that have columns of a domain, or of one over it, and of these columns.
    pub(crate) fn columns_of_domain(&self, id: u64) -> Vec<(Name, Vec<String>)> {
        let of = |table: &Arc<TableEntry>| {
            let columns = table.rules.domains.iter().filter(|(_, rules)| rules.is_of(id));
            let columns: Vec<String> = columns.map(|(column, _)| column.clone()).collect();
            (!columns.is_empty()).then(|| (Name::clone(&table.name), columns))
        };
        self.tables().filter_map(of).collect()
    }
}

impl TableEntry {
    /// What a column gets that is given no value: its default, or that of its domain.
    pub(crate) fn default_of(&self, column: &str) -> Option<&ColumnDefault> {
        let of_domain = || self.rules.domains.get(column).and_then(|rules| rules.default.as_ref());
        self.defaults.get(column).or_else(of_domain)
    }
}

/// Whether values of a type may be those of a domain as it is kept.
pub(crate) fn is_plain(data_type: &DataType) -> bool {
    !data_type.is_nested()
}
