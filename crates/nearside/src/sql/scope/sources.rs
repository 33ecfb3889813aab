//! What stands in FROM: its sources with their columns, and the columns that `*` shows. Joins by NATURAL and USING
//! become joins by ON.
//!
//! As in PostgreSQL, `*` shows the columns that a join merges first (USING: as they are listed; NATURAL: as the left
//! side has them), then what is left of the left side, then of the right one. A merged column is the left side's value,
//! the right side's for RIGHT JOIN, and the one that is not NULL for FULL JOIN.
//!
//! Which columns a query gives is said by its names alone, with those of the tables that it reads.
//!
//! # Limits
//! Where a source's columns are not known, nothing
//! is known of the whole: USING of INNER and LEFT JOIN is left to the planner, which takes the left side's column too;
//! other joins that merge are refused.

use std::rc::Rc;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, Cte, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetQuantifier, Statement, TableAlias, TableFactor,
    TableWithJoins, Value, With,
};
use sqlparser::parser::Parser;

use super::super::calls::call;
use super::super::figured::figured;
use super::super::normalised;
use super::names::{Tables, alias_columns, quoted, renamed};
use super::stars::{each_column, has_columns, shown};
use crate::error::codes::SqlState;
use crate::error::{Error, Result};
use crate::functions::whole_rows::WHOLE_ROW;
use crate::sql::dialect::SqlDialect;
use crate::sql::{fresh_name, seen_name};

/// How deep common table expressions may name each other.
const DEPTH_MAX: usize = 64;

/// The planner's name of the column of a function in FROM.
pub(super) const VALUE: &str = "value";

/// The schema that a source without one is named by from below, where its name alone is a column's.
const AROUND: &str = "\0around";

/// What stands before a join's condition until its names have been looked at.
const CONDITION: &str = "\0condition";

/// A table, query or function in FROM.
#[derive(Clone)]
struct FromSource {
    /// What stands before the names of its columns.
    qualifier: Vec<Ident>,
    columns: Vec<String>,
    /// A function of one column, which may be named as the function is.
    series: bool,
}

fn is_outer(join: &JoinOperator) -> bool {
    use JoinOperator as J;
    matches!(
        join,
        J::Left(_)
            | J::LeftOuter(_)
            | J::Right(_)
            | J::RightOuter(_)
            | J::FullOuter(_)
            | J::OuterApply
            | J::AsOf { .. }
    )
}

/// A column that `*` shows.
#[derive(Clone)]
pub(super) struct ShownColumn {
    /// Its name; empty where it has none.
    pub(super) name: String,
    /// The column itself.
    pub(super) expr: Expr,
    /// Which source has it; none has what a join merged.
    pub(super) source: Option<usize>,
}

/// The sources of one SELECT.
pub(super) struct Scope {
    sources: Vec<FromSource>,
    /// What `*` shows; `None` where nobody knows.
    pub(super) shown: Option<Vec<ShownColumn>>,
    /// Whether a join merges columns.
    pub(super) merges: bool,
    /// What each join with ON sees: its own two sides.
    joins: Vec<Option<Vec<ShownColumn>>>,
    /// A table is named that there is not, which the planner says.
    missing: bool,
    /// A join has rows of which a side is not there.
    outer: bool,
}

/// Which side of a join a merged column comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    /// Whichever is not NULL.
    Both,
    /// A semi or anti join shows one side's rows.
    LeftAlone,
    RightAlone,
}

impl Scope {
    /// Reads a FROM, and writes NATURAL and USING out where the columns are known.
    ///
    /// # Errors
    /// Columns of USING that a side does not have, or has twice.
    pub(super) fn read(from: &mut [TableWithJoins], names: &Names<'_>) -> Result<Scope> {
        let mut scope =
            Scope { sources: Vec::new(), shown: None, merges: false, joins: Vec::new(), missing: false, outer: false };
        let mut shown = Some(Vec::new());
        for source in from {
            let further = scope.with_joins(source, names)?;
            shown = shown.zip(further).map(|(mut all, further)| {
                all.extend(further);
                all
            });
        }
        scope.shown = shown;
        Ok(scope)
    }

    /// The one column of that name.
    pub(super) fn find(&self, name: &str) -> FoundColumn<'_> {
        let Some(shown) = &self.shown else { return FoundColumn::Unknown };
        let mut of_name = shown.iter().filter(|shown| shown.name == name);
        match (of_name.next(), of_name.next()) {
            (Some(one), None) => FoundColumn::One(one),
            (Some(_), Some(_)) => FoundColumn::Several,
            (None, _) => FoundColumn::No,
        }
    }

    /// Whether two columns of one source have that name.
    pub(super) fn has_twice(&self, name: &str) -> bool {
        let of_name = self.shown.iter().flatten().filter(|shown| shown.name == name);
        let mut places: Vec<usize> = of_name.filter_map(|shown| shown.source).collect();
        let all = places.len();
        places.dedup();
        places.len() < all
    }

    /// How many columns of that name the source of that name has; `None` where there is no such source.
    pub(super) fn times(&self, table: &[Ident], name: &str) -> Option<usize> {
        Some(self.source_of(table)?.columns.iter().filter(|column| *column == name).count())
    }

    /// Whether a source has a column of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source.columns.iter().any(|column| column == name))
    }

    /// The column behind a schema, so that nothing but a column of this source is meant by it. A source that stands
    /// without one is found behind any.
    pub(super) fn column_around(&self, table: &[Ident], name: &str) -> Option<Expr> {
        let source = self.source_of(table)?;
        let mut parts = source.qualifier.clone();
        if parts.len() == 1 {
            parts.insert(0, Ident::with_quote('"', AROUND));
        }
        parts.push(quoted(name));
        Some(Expr::CompoundIdentifier(parts))
    }

    /// What the condition of a join sees, if the expression is one.
    pub(super) fn at_join(&self, expr: &Expr) -> Option<Scope> {
        let place: usize = marked(expr)?.parse().ok()?;
        let shown = self.joins.get(place)?.clone();
        let joins = Vec::new();
        let merges = self.merges;
        let (missing, outer) = (self.missing, self.outer);
        Some(Scope { sources: self.sources.clone(), shown, merges, joins, missing, outer })
    }

    /// The column of a function in FROM that is named as the function is; or `value`, which is another name of it.
    pub(super) fn series(&self, name: &str) -> Option<Expr> {
        let is_named = |source: &FromSource| match (&source.qualifier[..], &source.columns[..]) {
            ([q], [column]) => q.value == name || (name == VALUE && *column == q.value),
            _ => false,
        };
        let mut of_name = self.sources.iter().filter(|source| source.series && is_named(source));
        let source = of_name.next().filter(|_| of_name.next().is_none())?;
        Some(source.column(source.columns.first()?))
    }

    /// What `function.value` stands for, if the function's column has another name.
    pub(super) fn series_of(&self, table: &[Ident], name: &str) -> Option<Expr> {
        let source = self.source_of(table).filter(|source| source.series && name == VALUE)?;
        match (&source.qualifier[..], &source.columns[..]) {
            ([q], [column]) if *column == q.value => Some(source.column(column)),
            _ => None,
        }
    }

    /// The columns of the source of that name.
    pub(super) fn columns_of(&self, table: &ObjectName) -> Option<Vec<String>> {
        let parts: Vec<Ident> = table.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        self.source_of(&parts).map(|source| source.columns.clone())
    }

    /// What `table.*` shows.
    pub(super) fn shown_of(&self, table: &ObjectName) -> Option<Vec<ShownColumn>> {
        let parts: Vec<Ident> = table.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        let source = self.source_of(&parts)?;
        let shown = |name: &String| ShownColumn { name: name.clone(), expr: source.column(name), source: None };
        Some(source.columns.iter().map(shown).collect())
    }

    /// The column of that name of the source of that name.
    pub(super) fn column_of(&self, table: &[Ident], name: &str) -> Option<Expr> {
        let source = self.source_of(table)?;
        source.columns.iter().any(|column| column == name).then(|| source.column(name))
    }

    /// The row of the source of that name as one value, which is NULL where an outer join has none: told by all of its
    /// columns. `None` where there is no such source, and of functions in FROM.
    pub(super) fn row_of(&self, table: &[Ident]) -> Option<Expr> {
        let source = self.source_of(table).filter(|source| !source.series && !source.qualifier.is_empty())?;
        if source.columns.is_empty() || source.columns.iter().any(String::is_empty) || repeats(&source.columns) {
            return None;
        }
        let fields = source.columns.iter().flat_map(|name| {
            let word = Expr::Value(Value::SingleQuotedString(name.clone()).into());
            [word, source.column(name)]
        });
        let row = call(WHOLE_ROW, fields.collect());
        if !self.outer {
            return Some(row);
        }
        let is_null = |name: &String| Expr::IsNull(Box::new(source.column(name)));
        let none = source.columns.iter().map(is_null).reduce(|left, right| binary(left, BinaryOperator::And, right))?;
        Some(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition: none, result: Expr::Value(Value::Null.into()) }],
            else_result: Some(Box::new(row)),
        })
    }

    fn source_of(&self, table: &[Ident]) -> Option<&FromSource> {
        let is = |source: &&FromSource| {
            let parts = table.iter().cloned().map(normalised);
            source.qualifier.iter().map(|q| &q.value).rev().zip(parts.rev()).all(|(a, b)| *a == b)
        };
        self.sources.iter().find(is)
    }

    /// How a source is named, and all of its columns.
    pub(super) fn source(&self, place: usize) -> (&[Ident], &[String]) {
        (&self.sources[place].qualifier, &self.sources[place].columns)
    }

    /// Whether each column of a source has a name that no other column of it has.
    pub(super) fn names_all(&self, place: usize) -> bool {
        let columns = &self.sources[place].columns;
        columns.iter().enumerate().all(|(at, name)| !name.is_empty() && !columns[..at].contains(name))
    }

    fn with_joins(&mut self, from: &mut TableWithJoins, names: &Names<'_>) -> Result<Option<Vec<ShownColumn>>> {
        let merging = from.joins.iter().any(|join| merged_by(&join.join_operator).is_some());
        let merges_before = std::mem::take(&mut self.merges);
        let mut shown = self.factor(&mut from.relation, names, merging)?;
        for join in &mut from.joins {
            let right = self.factor(&mut join.relation, names, merging)?;
            self.outer |= is_outer(&join.join_operator);
            self.mark_condition(&mut join.join_operator, shown.as_deref().zip(right.as_deref()));
            shown = match (shown, right) {
                (Some(left), Some(right)) => Some(self.joined(join, left, right)?),
                _ if self.missing => None,
                _ => refused_unknown(&join.join_operator, self.merges)?,
            };
        }
        self.merges |= merges_before;
        Ok(shown)
    }

    /// Marks the condition of a join with ON as one that sees the join's two sides alone.
    fn mark_condition(&mut self, operator: &mut JoinOperator, sides: Option<(&[ShownColumn], &[ShownColumn])>) {
        let Some(JoinConstraint::On(condition)) = constraint(operator) else { return };
        let prefix = Ident::new(format!("{CONDITION}{}", self.joins.len()));
        let marked = Expr::Prefixed { prefix, value: Box::new(condition.clone()) };
        set_condition(operator, marked);
        self.joins.push(sides.map(|(left, right)| [left, right].concat()));
    }

    fn joined(&mut self, join: &mut Join, left: Vec<ShownColumn>, right: Vec<ShownColumn>) -> Result<Vec<ShownColumn>> {
        let side = side_of(&join.join_operator);
        let common = match merged_by(&join.join_operator) {
            None => Vec::new(),
            Some(JoinConstraint::Using(columns)) => columns.iter().map(using_name).collect::<Result<Vec<_>>>()?,
            Some(_) => {
                left.iter().chain(&right).try_for_each(must_have_name)?;
                let is_common = |name: &&String| !name.is_empty() && right.iter().any(|column| column.name == **name);
                left.iter().map(|column| &column.name).filter(is_common).cloned().collect()
            }
        };
        let mut condition: Option<Expr> = None;
        let mut merged = Vec::with_capacity(common.len());
        for name in &common {
            let of_left = one_of(&left, name, "left")?.expr.clone();
            let of_right = one_of(&right, name, "right")?.expr.clone();
            let equal = binary(of_left.clone(), BinaryOperator::Eq, of_right.clone());
            condition = Some(match condition {
                Some(before) => binary(before, BinaryOperator::And, equal),
                None => equal,
            });
            let expr = match side {
                Side::Left | Side::LeftAlone => of_left,
                Side::Right | Side::RightAlone => of_right,
                Side::Both => call("coalesce", vec![of_left, of_right]),
            };
            merged.push(ShownColumn { name: name.clone(), expr, source: None });
        }
        if merged_by(&join.join_operator).is_some() {
            self.merges = true;
            let always = || Expr::Value(Value::Boolean(true).into());
            set_condition(&mut join.join_operator, condition.unwrap_or_else(always));
        }
        let rest = |columns: Vec<ShownColumn>| columns.into_iter().filter(|column| !common.contains(&column.name));
        Ok(match side {
            Side::LeftAlone => left,
            Side::RightAlone => right,
            _ => {
                let left: Vec<_> = rest(left).collect();
                let right: Vec<_> = rest(right).collect();
                merged.into_iter().chain(left).chain(right).collect()
            }
        })
    }

    /// `merging`: it is joined by NATURAL or USING, so its columns must be nameable.
    fn factor(
        &mut self,
        factor: &mut TableFactor,
        names: &Names<'_>,
        merging: bool,
    ) -> Result<Option<Vec<ShownColumn>>> {
        as_query(factor);
        let (qualifier, columns, series) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let columns = names.of_table(name);
                self.missing |= columns.is_none() && !names.is_cte(name);
                let plain = || name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
                let qualifier = alias.as_ref().map_or_else(plain, |alias| vec![folded(&alias.name)]);
                (qualifier, columns.and_then(|columns| under(columns, alias.as_ref())), false)
            }
            TableFactor::Table { name, alias, args: Some(_), .. } => {
                let function = name.to_string().to_lowercase();
                let alias = alias.get_or_insert_with(|| named(&function));
                (vec![folded(&alias.name)], under(vec![VALUE.into()], Some(alias)), true)
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = names.of_query(subquery);
                let repeats = columns.as_ref().is_some_and(|columns| repeats(columns));
                if (merging || repeats) && alias.is_none() {
                    *alias = Some(named(&fresh_name("from")));
                }
                let qualifier = alias.iter().map(|alias| folded(&alias.name)).collect();
                (qualifier, columns.and_then(|columns| under(columns, alias.as_ref())), false)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.with_joins(table_with_joins, names);
            }
            TableFactor::UNNEST { alias: Some(alias), .. } if !alias.columns.is_empty() => {
                (vec![folded(&alias.name)], Some(alias_columns(alias)), true)
            }
            _ => return Ok(None),
        };
        let Some(columns) = columns.filter(|_| !qualifier.is_empty()) else { return Ok(None) };
        let source = FromSource { qualifier, columns, series };
        let place = Some(self.sources.len());
        let shown = |name: &String| ShownColumn { name: name.clone(), expr: source.column(name), source: place };
        let all = source.columns.iter().map(shown).collect();
        self.sources.push(source);
        Ok(Some(all))
    }
}

/// What a name means in a scope.
pub(super) enum FoundColumn<'a> {
    /// This column.
    One(&'a ShownColumn),
    /// One of several: the planner says so.
    Several,
    /// None.
    No,
    /// Nobody knows the columns.
    Unknown,
}

impl FromSource {
    fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(self.qualifier.iter().cloned().chain([quoted(name)]).collect())
    }
}

/// The common table expressions that a name may mean, the last one first.
#[derive(Clone, Default)]
struct Ctes(Option<Rc<KnownCte>>);

struct KnownCte {
    name: String,
    columns: Vec<String>,
    query: Query,
    /// Which ones the query itself may name, where it may not name itself.
    before: Ctes,
    names_itself: bool,
}

impl KnownCte {
    /// Whether a name means it; one of several of a name, one within another, is named otherwise.
    fn is(&self, wanted: &str) -> bool {
        self.name == wanted || seen_name(&self.name) == Some(wanted)
    }
}

/// What names mean at some place of a statement.
#[derive(Clone)]
pub(super) struct Names<'a> {
    tables: Tables<'a>,
    ctes: Ctes,
    depth: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new(tables: Tables<'a>) -> Names<'a> {
        Names { tables, ctes: Ctes::default(), depth: 0 }
    }

    /// With the common table expressions of a query.
    pub(super) fn within(&self, with: Option<&With>) -> Names<'a> {
        let mut names = self.clone();
        let Some(with) = with else { return names };
        for cte in &with.cte_tables {
            names = names.with(cte, with.recursive);
        }
        names
    }

    /// With one more common table expression.
    pub(super) fn with(&self, Cte { alias, query, .. }: &Cte, names_itself: bool) -> Names<'a> {
        let known = KnownCte {
            name: normalised(alias.name.clone()),
            columns: alias_columns(alias),
            query: query.as_ref().clone(),
            before: self.ctes.clone(),
            names_itself,
        };
        Names { ctes: Ctes(Some(Rc::new(known))), ..self.clone() }
    }

    /// Whether a name is that of a common table expression.
    fn is_cte(&self, table: &ObjectName) -> bool {
        let [part] = table.0.as_slice() else { return false };
        part.as_ident().cloned().map(normalised).is_some_and(|wanted| self.cte(&wanted).is_some())
    }

    /// The name that the common table expression has which a name means: another where it was renamed.
    pub(super) fn cte(&self, wanted: &str) -> Option<&str> {
        let mut at = &self.ctes;
        while let Some(known) = &at.0 {
            if known.is(wanted) {
                return Some(&known.name);
            }
            at = &known.before;
        }
        None
    }

    /// The columns of a table, a view or a common table expression.
    pub(super) fn of_table(&self, table: &ObjectName) -> Option<Vec<String>> {
        if let [part] = table.0.as_slice()
            && let Some(ident) = part.as_ident()
        {
            let wanted = normalised(ident.clone());
            let mut at = &self.ctes;
            while let Some(known) = &at.0 {
                if known.is(&wanted) {
                    return self.of_known(known, at);
                }
                at = &known.before;
            }
        }
        (self.tables)(table)
    }

    fn of_known(&self, known: &KnownCte, at: &Ctes) -> Option<Vec<String>> {
        if self.depth > DEPTH_MAX {
            return None;
        }
        let ctes = if known.names_itself { at.clone() } else { known.before.clone() };
        let names = Names { tables: self.tables, ctes, depth: self.depth + 1 };
        renamed(names.of_query(&known.query)?, &known.columns)
    }

    /// The columns of a query.
    pub(super) fn of_query(&self, query: &Query) -> Option<Vec<String>> {
        if !query.pipe_operators.is_empty() {
            return None;
        }
        self.within(query.with.as_ref()).of_body(&query.body)
    }

    /// The columns of a query's body.
    pub(super) fn of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::SetOperation { set_quantifier, .. } if is_by_name(*set_quantifier) => None,
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Values(values) => {
                let columns = values.rows.first()?.content.len();
                Some((1..=columns).map(|number| format!("column{number}")).collect())
            }
            _ => None,
        }
    }

    /// The name of an output without AS; of a query as a value, that of its column.
    fn of_output(&self, expr: &Expr) -> String {
        match expr {
            Expr::Nested(inner) => self.of_output(inner),
            Expr::Subquery(query) => {
                self.of_query(query).and_then(|columns| columns.into_iter().next()).unwrap_or_else(|| figured(expr))
            }
            other => figured(other),
        }
    }

    fn of_select(&self, select: &Select) -> Option<Vec<String>> {
        let mut scope = None;
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                item if has_columns(item) => {
                    if scope.is_none() {
                        scope = Some(Scope::read(&mut select.from.clone(), self).ok()?);
                    }
                    let shown = scope.as_ref()?.shown.as_ref()?.iter();
                    let all: Vec<(String, Expr)> =
                        shown.map(|column| (column.name.clone(), column.expr.clone())).collect();
                    for one in each_column(item, &all).ok()? {
                        match one {
                            SelectItem::ExprWithAlias { alias, .. } => columns.push(normalised(alias)),
                            SelectItem::UnnamedExpr(expr) => columns.push(self.of_output(&expr)),
                            _ => return None,
                        }
                    }
                }
                SelectItem::UnnamedExpr(expr) => columns.push(self.of_output(expr)),
                SelectItem::ExprWithAlias { alias, .. } => columns.push(normalised(alias.clone())),
                SelectItem::ExprWithAliases { .. } => return None,
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    if scope.is_none() {
                        scope = Some(Scope::read(&mut select.from.clone(), self).ok()?);
                    }
                    let scope = scope.as_ref()?;
                    let all = match item {
                        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                            scope.columns_of(table)?
                        }
                        _ => scope.shown.as_ref()?.iter().map(|shown| shown.name.clone()).collect(),
                    };
                    columns.extend(shown(options, &all).ok()?.into_iter().map(|(_, name)| name));
                }
            }
        }
        Some(columns)
    }
}

fn is_by_name(quantifier: SetQuantifier) -> bool {
    matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName)
}

/// A join in brackets with an alias is a query of all of its columns.
fn as_query(factor: &mut TableFactor) {
    if !matches!(factor, TableFactor::NestedJoin { alias: Some(_), .. }) {
        return;
    }
    let Ok(mut statements) = Parser::parse_sql(&SqlDialect, "SELECT * FROM x") else { return };
    let Some(Statement::Query(mut query)) = statements.pop() else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if let TableFactor::NestedJoin { table_with_joins, alias } = factor {
        select.from = vec![table_with_joins.as_ref().clone()];
        let alias = alias.take();
        *factor = TableFactor::Derived { lateral: false, subquery: query, alias, sample: None };
    }
}

/// What is known of a join of which a side's columns are not: nothing.
///
/// # Errors
/// Joins by names that the planner does not read as SQL has them.
fn refused_unknown(operator: &JoinOperator, merged_before: bool) -> Result<Option<Vec<ShownColumn>>> {
    let how = match merged_by(operator) {
        None => return Ok(None),
        Some(JoinConstraint::Natural) => "NATURAL JOIN",
        Some(_) if side_of(operator) == Side::Left && !merged_before => return Ok(None),
        Some(_) => "JOIN .. USING",
    };
    Err(Error::plan(
        SqlState::FeatureNotSupported,
        format!("{how}: the columns of one of its sides are not known before it is planned; use ON"),
    ))
}

/// The number of a join's condition that was marked.
fn marked(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Prefixed { prefix, .. } => prefix.value.strip_prefix(CONDITION),
        _ => None,
    }
}

/// Takes the mark off a condition; `None` where there is none.
pub(super) fn unmarked(expr: &Expr) -> Option<Expr> {
    marked(expr)?;
    match expr {
        Expr::Prefixed { value, .. } => Some(value.as_ref().clone()),
        _ => None,
    }
}

/// Whether two columns have one name.
pub(super) fn repeats(columns: &[String]) -> bool {
    columns.iter().enumerate().any(|(place, name)| !name.is_empty() && columns[..place].contains(name))
}

fn under(columns: Vec<String>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    match alias {
        Some(alias) => renamed(columns, &alias_columns(alias)),
        None => Some(columns),
    }
}

fn folded(name: &Ident) -> Ident {
    quoted(&normalised(name.clone()))
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

fn using_name(column: &ObjectName) -> Result<String> {
    match column.0.as_slice() {
        [part] => part.as_ident().cloned().map(normalised),
        _ => None,
    }
    .ok_or_else(|| {
        Error::plan(
            SqlState::SyntaxError,
            format!("USING ({column}): a column of both sides, without a table before it"),
        )
    })
}

fn one_of<'s>(side: &'s [ShownColumn], name: &str, which: &str) -> Result<&'s ShownColumn> {
    let mut of_name = side.iter().filter(|column| column.name == name);
    match (of_name.next(), of_name.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Error::plan(
            SqlState::UndefinedColumn,
            format!("USING ({name}): the {which} side of the join has no column '{name}'; use ON"),
        )),
        (Some(_), Some(_)) => Err(Error::plan(
            SqlState::AmbiguousColumn,
            format!(
                "USING or NATURAL: the {which} side of the join has several columns '{name}'; use ON, and name \
                 the tables"
            ),
        )),
    }
}

/// NATURAL goes by names, and `l.id + Int64(1)` is one that the planner made for a column of a view or a table.
///
/// # Errors
/// Columns without a name of their own.
fn must_have_name(column: &ShownColumn) -> Result<()> {
    if column.name.is_empty() {
        return Err(Error::plan(
            SqlState::SyntaxError,
            "NATURAL JOIN: a column of a side has no name; give it one with AS",
        ));
    }
    if column.name.contains(['.', '(']) {
        return Err(Error::plan(
            SqlState::SyntaxError,
            format!(
                "NATURAL JOIN: the column '{}' of a side has no name of its own; give it one with AS, or use USING",
                column.name
            ),
        ));
    }
    Ok(())
}

pub(in crate::sql) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// The constraint of a join that merges columns.
pub(super) fn merged_by(operator: &JoinOperator) -> Option<&JoinConstraint> {
    constraint(operator).filter(|on| matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(on) | J::Inner(on) | J::Left(on) | J::LeftOuter(on) | J::Right(on) | J::RightOuter(on) => Some(on),
        J::FullOuter(on) | J::Semi(on) | J::LeftSemi(on) | J::RightSemi(on) => Some(on),
        J::Anti(on) | J::LeftAnti(on) | J::RightAnti(on) => Some(on),
        _ => None,
    }
}

fn set_condition(operator: &mut JoinOperator, condition: Expr) {
    use JoinOperator as J;
    match operator {
        J::Join(on) | J::Inner(on) | J::Left(on) | J::LeftOuter(on) | J::Right(on) | J::RightOuter(on) => {
            *on = JoinConstraint::On(condition);
        }
        J::FullOuter(on) | J::Semi(on) | J::LeftSemi(on) | J::RightSemi(on) => *on = JoinConstraint::On(condition),
        J::Anti(on) | J::LeftAnti(on) | J::RightAnti(on) => *on = JoinConstraint::On(condition),
        _ => {}
    }
}

fn side_of(operator: &JoinOperator) -> Side {
    use JoinOperator as J;
    match operator {
        J::Right(_) | J::RightOuter(_) => Side::Right,
        J::FullOuter(_) => Side::Both,
        J::Semi(_) | J::LeftSemi(_) | J::Anti(_) | J::LeftAnti(_) => Side::LeftAlone,
        J::RightSemi(_) | J::RightAnti(_) => Side::RightAlone,
        _ => Side::Left,
    }
}
