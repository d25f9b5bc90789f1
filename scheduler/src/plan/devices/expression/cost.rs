//! A bound of what an evaluation may cost, computed when an expression is compiled.
//!
//! Owns the bound, which is never too low: an element of a list is a node of the expression, a character of its text, or
//! a value of the device. Loops multiply by the number of elements, and `cel.bind` by the number of uses of what it binds,
//! since a value that is used twice may be twice as large.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::bind::is_binding;

/// Values of a device that a loop may go over: the API's bound of attributes and capacities together, and of the values
/// of one attribute.
const DEVICE_ELEMENTS_MAX: u64 = 64;

/// Upper bound of the steps of an evaluation of `expression`, which was compiled from `bytes` bytes.
pub(super) fn steps(expression: &IdedExpr, bytes: usize) -> u64 {
    let elements = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(DEVICE_ELEMENTS_MAX);
    of_node(expression, elements)
}

fn of_node(expression: &IdedExpr, elements: u64) -> u64 {
    let of_all = |parts: &[&IdedExpr]| {
        parts.iter().fold(1_u64, |sum, part| sum.saturating_add(of_node(part, elements)))
    };
    match &expression.expr {
        Expr::Comprehension(one) if is_binding(one) => {
            let uses = uses(&one.result, &one.accu_var).max(1);
            let bound = of_node(&one.accu_init, elements).saturating_mul(uses);
            bound.saturating_add(of_node(&one.result, elements).saturating_mul(uses))
        }
        Expr::Comprehension(one) => {
            let round = of_all(&[&one.loop_cond, &one.loop_step]);
            of_all(&[&one.iter_range, &one.accu_init, &one.result])
                .saturating_add(round.saturating_mul(elements))
        }
        _ => of_all(&children(expression)),
    }
}

/// How often the variable `name` is read.
fn uses(expression: &IdedExpr, name: &str) -> u64 {
    if matches!(&expression.expr, Expr::Ident(ident) if ident == name) {
        return 1;
    }
    children(expression).into_iter().fold(0, |sum, child| sum.saturating_add(uses(child, name)))
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Struct(made) => made.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Comprehension(one) => {
            vec![&one.iter_range, &one.accu_init, &one.loop_cond, &one.loop_step, &one.result]
        }
    }
}

fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}
