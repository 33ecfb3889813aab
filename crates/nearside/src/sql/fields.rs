//! Fields of rows, which stand behind a value.

use sqlparser::ast::{self, Value};

use super::normalised;

/// `(row).field` is `(row)['field']`, which `table.column[1]` is not.
pub(super) fn name_fields(expr: &mut ast::Expr) {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut is_value = !matches!(root.as_ref(), ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_));
    for access in access_chain {
        match access {
            ast::AccessExpr::Dot(ast::Expr::Identifier(name)) if is_value => {
                let index = ast::Expr::value(Value::SingleQuotedString(normalised(name.clone())));
                *access = ast::AccessExpr::Subscript(ast::Subscript::Index { index });
            }
            ast::AccessExpr::Dot(_) => {}
            ast::AccessExpr::Subscript(_) => is_value = true,
        }
    }
}
