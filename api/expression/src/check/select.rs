//! Members: `a.b`, `has(a.b)` and `a.?b`, and qualified names.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::Checker;
use crate::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn select(&mut self, id: u64, select: &'a SelectExpr) -> Type {
        if !select.test
            && let Some(name) = self.qualified(&select.operand, &select.field)
            && let Some(found) = self.global(id, &name)
        {
            return found;
        }
        let operand = self.check(&select.operand);
        let member = self.member(id, &operand, &select.field, false);
        if select.test { Type::Bool } else { member }
    }

    /// `operand.field` as one name, if it is written as names and its first part is no local variable.
    pub(super) fn qualified(&self, operand: &IdedExpr, field: &str) -> Option<String> {
        let mut parts = vec![field];
        let mut node = operand;
        loop {
            match &node.expr {
                Expr::Ident(name) => {
                    let is_global = name.starts_with('.');
                    let name = name.trim_start_matches('.');
                    // few: as for names.
                    let is_local = !is_global && self.locals.iter().any(|(local, _)| *local == name);
                    // A member of a variable is not looked for among names, unless a variable's name has a dot.
                    if is_local {
                        return None;
                    }
                    parts.push(name);
                    parts.reverse();
                    return Some(parts.join("."));
                }
                // The longest name has three parts.
                Expr::Select(select) if !select.test && parts.len() < 3 => {
                    parts.push(&select.field);
                    node = &select.operand;
                }
                _ => return None,
            }
        }
    }

    /// The type of `field` of a value of the type `operand`.
    fn member(&mut self, id: u64, operand: &Type, field: &str, is_optional: bool) -> Type {
        let operand = self.unknowns.known(operand);
        let (target, is_wrapped) = match &operand {
            Type::Optional(value) => ((**value).clone(), true),
            other => (other.clone(), false),
        };
        let member = match &target {
            Type::Map(types) => types.1.clone(),
            Type::Object(name) => match self.scope.member(name, field) {
                Some(member) => member,
                None => {
                    self.fault(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Unknown(_) => {
                self.unknowns.assign(&target, &Type::Dyn);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() && !is_optional {
                    let named = self.unknowns.resolved(other);
                    let named = self.scope.written(&named);
                    self.fault(id, format!("type '{named}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if is_wrapped || is_optional { Type::optional(member) } else { member }
    }

    /// `a.?b`, which the parser writes as a call.
    pub(super) fn optional_select(&mut self, id: u64, call: &'a CallExpr) -> Type {
        let [operand, field] = call.args.as_slice() else { return Type::Error };
        let of = self.check(operand);
        match &field.expr {
            Expr::Literal(LiteralValue::String(name)) => self.member(id, &of, name.inner(), true),
            _ => {
                self.fault(field.id, "unsupported optional field selection".to_owned());
                Type::Error
            }
        }
    }
}
