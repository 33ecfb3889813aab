//! Which views can be written: those that show columns of one table, or of another such view, and rows of it as they
//! are. It is told of a view's text alone, as PostgreSQL does for views that it calls automatically updatable.

use std::sync::Arc;

use sqlparser::ast::{self, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, TableFactor};

use crate::catalog::check_option::CheckOption;
use crate::catalog::path::SearchPath;
use crate::catalog::{CatalogState, Entry, Name, TableEntry, ViewEntry};
use crate::error::Result;
use crate::plan::planner::Planner;
use crate::sql::{AnyStatement, gives_rows, normalised, object_reference};

/// A view that can be written, one of those that lie between the one that is named and the table.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// Which it is.
    pub name: Name,
    /// For each of its columns, in order, its name and that of the column of what it reads that it is; `None` for one
    /// that is computed.
    pub columns: Vec<(String, Option<String>)>,
    /// Whether it leaves rows out.
    pub has_condition: bool,
    /// What it says of rows that are written through it.
    pub check: Option<CheckOption>,
}

/// A view that can be written.
#[derive(Debug, Clone)]
pub(crate) struct Updatable {
    /// It, then what it reads, up to the one that reads the table.
    pub levels: Vec<Level>,
    /// The table that is written.
    pub table: Arc<TableEntry>,
}

/// Why a view cannot be written, and which: it or one that it reads.
#[derive(Debug, Clone)]
pub(crate) struct WhyNot {
    /// The view.
    pub view: Name,
    /// What its kind is: "views with DISTINCT".
    pub kind: &'static str,
}

/// What is asked about what there is.
pub(crate) struct Known<'a> {
    /// What there is.
    pub catalog: &'a CatalogState,
    /// Where names in the texts of views are looked up.
    pub path: &'a SearchPath,
    /// Which functions there are.
    pub planner: &'a Planner,
    /// The columns of a view.
    pub columns: &'a dyn Fn(&Name, &ViewEntry) -> Option<Vec<String>>,
}

impl Updatable {
    /// What has to be known to write a view.
    ///
    /// # Errors
    /// Texts that cannot be read; why it cannot be written is the other answer.
    pub(crate) fn of(name: &Name, known: &Known<'_>) -> Result<Result<Updatable, WhyNot>> {
        let mut levels: Vec<Level> = Vec::new();
        let mut name = name.clone();
        loop {
            let because = |kind| Ok(Err(WhyNot { view: name.clone(), kind }));
            let Some(Entry::View(view)) = known.catalog.get(&name) else { return because(OF_ONE_TABLE) };
            let query = match AnyStatement::one(&view.sql)? {
                AnyStatement::Sql(statement) => statement,
                _ => return because(OF_ONE_TABLE),
            };
            let select = match selection(&query, known) {
                Ok(select) => select,
                Err(kind) => return because(kind),
            };
            let Some(reads) = relation(select, known)? else { return because(OF_ONE_TABLE) };
            if levels.iter().any(|level| level.name == reads) || name == reads {
                return because(OF_ONE_TABLE);
            }
            let (found, below) = match known.catalog.get(&reads) {
                Some(Entry::Table(table)) if table.materialized.is_none() => {
                    let fields = table.base.schema.fields().iter();
                    (Some(Arc::clone(table)), fields.map(|field| field.name().clone()).collect())
                }
                Some(Entry::View(view)) => match (known.columns)(&reads, view) {
                    Some(columns) => (None, columns),
                    None => return because(OF_ONE_TABLE),
                },
                _ => return because(OF_ONE_TABLE),
            };
            let sources = sources(select, &below);
            let names = match (known.columns)(&name, view) {
                Some(names) if names.len() == sources.len() => names,
                _ => return because(OF_ONE_TABLE),
            };
            let has_condition = select.selection.is_some();
            let check = view.check;
            levels.push(Level { columns: names.into_iter().zip(sources).collect(), has_condition, check, name });
            match found {
                Some(table) => return Ok(Ok(Updatable { levels, table })),
                None => name = reads,
            }
        }
    }

    /// The table's column that a column of the view is.
    pub(crate) fn column(&self, column: &str) -> Option<String> {
        self.levels.iter().try_fold(column.to_string(), |column, level| level.column(&column).cloned())
    }
}

impl Level {
    /// The column of what it reads that one of its own is.
    pub(crate) fn column(&self, column: &str) -> Option<&String> {
        self.columns.iter().find(|(name, _)| name == column)?.1.as_ref()
    }
}

const OF_ONE_TABLE: &str = "views that do not select from a single table or view";

/// The SELECT of a view that may be written.
fn selection<'a>(
    statement: &'a datafusion_sql::parser::Statement,
    known: &Known<'_>,
) -> Result<&'a Select, &'static str> {
    let datafusion_sql::parser::Statement::Statement(inner) = statement else { return Err(OF_ONE_TABLE) };
    let ast::Statement::Query(query) = inner.as_ref() else { return Err(OF_ONE_TABLE) };
    let Query { with, body, limit_clause, fetch, .. } = query.as_ref();
    let select = match body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => return Err("views with UNION, INTERSECT or EXCEPT"),
        _ => return Err(OF_ONE_TABLE),
    };
    if select.distinct.is_some() {
        return Err("views with DISTINCT");
    }
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
    };
    if is_grouped {
        return Err("views with GROUP BY");
    }
    if select.having.is_some() {
        return Err("views with HAVING");
    }
    if with.is_some() {
        return Err("views with WITH");
    }
    if limit_clause.is_some() || fetch.is_some() || select.top.is_some() {
        return Err("views with LIMIT or OFFSET");
    }
    let outputs = || {
        select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        })
    };
    let called = |is: &dyn Fn(&ast::Function) -> bool| outputs().any(|expr| calls(expr, is));
    if called(&|function| function.over.is_some()) || select.qualify.is_some() {
        return Err("views that return window functions");
    }
    let aggregates = known.planner.aggregate_functions();
    if called(&|function| name_of(function).is_some_and(|name| aggregates.contains_key(&name))) {
        return Err("views that return aggregates");
    }
    if called(&|function| name_of(function).is_some_and(|name| gives_rows(&name))) {
        return Err("views that return functions that give rows");
    }
    Ok(select)
}

/// Whether an expression calls such a function itself: not in a query within it.
fn calls(expr: &Expr, is: &dyn Fn(&ast::Function) -> bool) -> bool {
    struct Calls<'a> {
        is: &'a dyn Fn(&ast::Function) -> bool,
        depth: usize,
    }

    impl ast::Visitor for Calls<'_> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> std::ops::ControlFlow<()> {
            self.depth += 1;
            std::ops::ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> std::ops::ControlFlow<()> {
            self.depth -= 1;
            std::ops::ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> std::ops::ControlFlow<()> {
            match expr {
                Expr::Function(function) if self.depth == 0 && (self.is)(function) => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            }
        }
    }

    ast::Visit::visit(expr, &mut Calls { is, depth: 0 }).is_break()
}

fn name_of(function: &ast::Function) -> Option<String> {
    function.name.0.last().and_then(|part| part.as_ident()).cloned().map(normalised)
}

/// The one table or view that a SELECT reads.
fn relation(select: &Select, known: &Known<'_>) -> Result<Option<Name>> {
    let [from] = select.from.as_slice() else { return Ok(None) };
    let TableFactor::Table { name, args: None, sample: None, alias, .. } = &from.relation else { return Ok(None) };
    let renames = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
    if !from.joins.is_empty() || !select.lateral_views.is_empty() || renames {
        return Ok(None);
    }
    Ok(known.path.resolve(&object_reference(name)?, known.catalog).ok())
}

/// For each output of a SELECT of a relation with these columns, which of them it is.
fn sources(select: &Select, columns: &[String]) -> Vec<Option<String>> {
    let column = |ident: &ast::Ident| {
        let name = normalised(ident.clone());
        columns.contains(&name).then_some(name)
    };
    let source = |expr: &Expr| {
        let mut expr = expr;
        while let Expr::Nested(inner) = expr {
            expr = inner;
        }
        match expr {
            Expr::Identifier(ident) => column(ident),
            Expr::CompoundIdentifier(parts) => column(parts.last()?),
            _ => None,
        }
    };
    let mut all = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => all.push(source(expr)),
            _ => all.extend(columns.iter().cloned().map(Some)),
        }
    }
    all
}
