//! The members of variables that an expression reads.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// Whether `expression` selects `member` of the variable `variable`, or tests for it.
pub(crate) fn reads(expression: &IdedExpr, variable: &str, member: &str) -> bool {
    let inside = |part: &IdedExpr| reads(part, variable, member);
    let is_variable = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == variable);
    let is_member = |part: &IdedExpr| matches!(&part.expr, Expr::Literal(LiteralValue::String(name)) if name.inner() == member);
    match &expression.expr {
        Expr::Select(select) => {
            (is_variable(&select.operand) && select.field == member) || inside(&select.operand)
        }
        Expr::Call(call) => {
            let is_access = matches!(
                call.func_name.as_str(),
                operators::OPT_SELECT | operators::INDEX | operators::OPT_INDEX
            );
            let parts: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
            let is_read = matches!(parts[..], [of, name] if is_access && is_variable(of) && is_member(name));
            is_read || parts.into_iter().any(inside)
        }
        // few: the parts of one node.
        Expr::List(list) => list.elements.iter().any(inside),
        // few: the parts of one node.
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => inside(&entry.key) || inside(&entry.value),
            EntryExpr::StructField(field) => inside(&field.value),
        }),
        Expr::Comprehension(of) => {
            let parts = [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
            parts.into_iter().any(inside)
        }
        // few: the parts of one node.
        Expr::Struct(made) => made.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => inside(&entry.key) || inside(&entry.value),
            EntryExpr::StructField(field) => inside(&field.value),
        }),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => false,
    }
}
