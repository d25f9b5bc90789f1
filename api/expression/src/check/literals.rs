//! Literals that are refused in an expression that has no other fault.
//!
//! Owns the walk over an expression whose types are known, and two rules of the reference. Parts of a list or map have one type: a part
//! that is `dyn` differs from one that is not, and all that stands in a call of `format` is exempt. The text of a duration or time is
//! one. Texts with clauses are [`formats`]'s. Patterns are compiled, and refused, later.

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};

use super::{Checked, formats};
use crate::library::times;
use crate::scope::Scope;
use crate::types::Type;

/// The faults of all literals of `node`, as numbers of nodes and texts. Its types are known.
pub(super) fn faults(node: &IdedExpr, checked: &Checked, scope: &Scope) -> Vec<(u64, String)> {
    let mut walk = Walk { checked, scope, faults: Vec::new() };
    walk.visit(node, false);
    walk.faults
}

struct Walk<'c> {
    checked: &'c Checked,
    scope: &'c Scope,
    faults: Vec<(u64, String)>,
}

impl Walk<'_> {
    /// Looks at `node` and all below it. `is_exempt`: it stands in a call of `format`.
    fn visit(&mut self, node: &IdedExpr, is_exempt: bool) {
        match &node.expr {
            Expr::Select(select) => self.visit(&select.operand, is_exempt),
            Expr::Call(call) => {
                self.faults.extend(conversion(call));
                self.faults.extend(formats::fault(node.id, call, self.checked, self.scope));
                let is_exempt = is_exempt || call.func_name == "format";
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    self.visit(part, is_exempt);
                }
            }
            Expr::List(list) => self.list(list, is_exempt),
            Expr::Map(map) => self.map(map, is_exempt),
            Expr::Comprehension(one) => {
                let parts = [&one.iter_range, &one.accu_init, &one.loop_cond, &one.loop_step, &one.result];
                parts.into_iter().for_each(|part| self.visit(part, is_exempt));
            }
            Expr::Struct(made) => {
                for entry in &made.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        self.visit(&field.value, is_exempt);
                    }
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    /// Only the first part that differs is a fault.
    fn list(&mut self, list: &ListExpr, is_exempt: bool) {
        let mut optional = list.optional_indices.iter().copied().peekable();
        let mut first = None;
        let mut is_mixed = is_exempt;
        for (at, element) in list.elements.iter().enumerate() {
            self.visit(element, is_exempt);
            let found = self.type_of(element, optional.next_if_eq(&at).is_some());
            if !is_mixed {
                is_mixed = self.differs(element, &mut first, found);
            }
        }
    }

    fn map(&mut self, map: &MapExpr, is_exempt: bool) {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            self.visit(&entry.key, is_exempt);
            self.visit(&entry.value, is_exempt);
            if !is_exempt {
                let key = self.type_of(&entry.key, false);
                self.differs(&entry.key, &mut keys, key);
                let value = self.type_of(&entry.value, entry.optional);
                self.differs(&entry.value, &mut values, value);
            }
        }
    }

    /// The type of a part of a literal: of an optional one, that of its value.
    fn type_of(&self, node: &IdedExpr, is_optional: bool) -> Type {
        match self.checked.type_of(node.id) {
            Type::Optional(value) if is_optional => (*value).clone(),
            found => found,
        }
    }

    /// Whether `found` is another type than that of the first part, which is a fault.
    fn differs(&mut self, node: &IdedExpr, first: &mut Option<Type>, found: Type) -> bool {
        let expected = first.get_or_insert_with(|| found.clone());
        if *expected == found {
            return false;
        }
        let (expected, found) = (self.scope.written(expected), self.scope.written(&found));
        self.faults.push((node.id, format!("expected type '{expected}' but found '{found}'")));
        true
    }
}

/// The fault of a literal that a conversion to a duration or time would fail for in each evaluation.
fn conversion(call: &CallExpr) -> Option<(u64, String)> {
    let (None, [argument]) = (&call.target, call.args.as_slice()) else { return None };
    let Expr::Literal(literal) = &argument.expr else { return None };
    let is_read = match (call.func_name.trim_start_matches('.'), literal) {
        ("duration", LiteralValue::String(text)) => times::parse_duration(text.inner()).is_some(),
        // There is no such conversion.
        ("duration", LiteralValue::Int(_)) => false,
        ("timestamp", LiteralValue::String(text)) => times::parse_timestamp(text.inner()).is_some(),
        ("timestamp", LiteralValue::Int(seconds)) => times::of_seconds(*seconds.inner()).is_some(),
        _ => true,
    };
    (!is_read).then(|| (argument.id, format!("invalid {} argument", call.func_name.trim_start_matches('.'))))
}
