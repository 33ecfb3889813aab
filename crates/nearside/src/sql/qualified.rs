//! Names with their schemas, in texts that outlive what names mean to the session that writes them: queries of views,
//! defaults.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, TableAlias, TableFactor,
    Value, VisitMut, VisitorMut,
};

use super::{normalised, quoted};
use crate::catalog::Name;

/// What a table's or a sequence's name without a schema stands for; `None` where it stands for nothing.
pub(crate) type Meant<'a> = &'a dyn Fn(&str) -> Option<Name>;

/// Gives the tables and sequences that a query names their schemas; names of its WITH stay as they are.
pub(crate) fn qualify<N: VisitMut>(node: &mut N, meant: Meant<'_>) {
    let _ = node.visit(&mut Qualified { frames: Vec::new(), meant });
}

/// A query that is being visited.
struct Frame {
    /// What its WITH names, in order.
    with: Vec<String>,
    recursive: bool,
    /// How many queries of its WITH have been visited.
    visited: usize,
    /// Names of queries around it that it may read.
    around: Vec<String>,
}

struct Qualified<'a> {
    frames: Vec<Frame>,
    meant: Meant<'a>,
}

impl Qualified<'_> {
    fn is_of_with(&self, name: &str) -> bool {
        self.frames.last().is_some_and(|frame| frame.around.iter().chain(&frame.with).any(|known| known == name))
    }
}

impl VisitorMut for Qualified<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let around = match self.frames.last_mut() {
            None => Vec::new(),
            Some(outer) => {
                // The queries of WITH come first; each may read those before it.
                let known = match outer.visited < outer.with.len() {
                    true if !outer.recursive => outer.visited,
                    _ => outer.with.len(),
                };
                outer.visited += 1;
                outer.around.iter().chain(&outer.with[..known]).cloned().collect()
            }
        };
        let with = query.with.iter().flat_map(|with| &with.cte_tables).map(|of| normalised(of.alias.name.clone()));
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.frames.push(Frame { with: with.collect(), recursive, visited: 0, around });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident().cloned()
        {
            let own = normalised(ident.clone());
            if !self.is_of_with(&own)
                && let Some(found) = (self.meant)(&own)
            {
                *name = full(&found);
                alias.get_or_insert_with(|| TableAlias { explicit: true, name: ident, columns: Vec::new(), at: None });
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr
            && let Some(called) = name.0.last().and_then(|part| part.as_ident())
            && ["nextval", "currval", "setval"].iter().any(|known| called.value.eq_ignore_ascii_case(known))
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = list.args.first_mut()
            && let Value::SingleQuotedString(text) = &mut value.value
            && let Ok([sequence]) = super::parts_of_text(text).as_deref()
            && let Some(found) = (self.meant)(sequence)
        {
            *text = format!("{}.{}", quoted(&found.schema), quoted(&found.table));
        }
        ControlFlow::Continue(())
    }
}

fn full(name: &Name) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', &name.schema), Ident::with_quote('"', &name.table)])
}

#[cfg(test)]
mod tests {
    use sqlparser::parser::Parser;

    use super::*;
    use crate::sql::SqlDialect;

    #[test]
    fn names_of_with_stay_as_they_are() {
        let meant = |name: &str| (name != "nothing").then(|| Name { schema: "s".into(), table: name.into() });
        for (text, wanted) in [
            ("SELECT t.a FROM t", "SELECT t.a FROM \"s\".\"t\" AS t"),
            ("SELECT 1 FROM p.t, u AS x", "SELECT 1 FROM p.t, \"s\".\"u\" AS x"),
            ("SELECT 1 FROM nothing", "SELECT 1 FROM nothing"),
            (
                "WITH t AS (SELECT 1 FROM t) SELECT 1 FROM t",
                "WITH t AS (SELECT 1 FROM \"s\".\"t\" AS t) SELECT 1 FROM t",
            ),
            (
                "WITH a AS (SELECT 1), b AS (SELECT 1 FROM a) SELECT (SELECT 1 FROM b) FROM c",
                "WITH a AS (SELECT 1), b AS (SELECT 1 FROM a) SELECT (SELECT 1 FROM b) FROM \"s\".\"c\" AS c",
            ),
            (
                "WITH RECURSIVE t AS (SELECT 1 UNION SELECT 1 FROM t) SELECT 1 FROM t",
                "WITH RECURSIVE t AS (SELECT 1 UNION SELECT 1 FROM t) SELECT 1 FROM t",
            ),
            ("SELECT nextval('q')", "SELECT nextval('\"s\".\"q\"')"),
        ] {
            let mut query = Parser::new(&SqlDialect).try_with_sql(text).unwrap().parse_query().unwrap();
            qualify(&mut *query, &meant);
            assert_eq!(query.to_string(), wanted);
        }
    }
}
