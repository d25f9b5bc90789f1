//! Comprehensions: the loops that macros become.

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr};

use super::Checker;
use crate::types::Type;

/// Whether the comprehension is a binding: a loop over the empty list, whose variable cannot be spelled.
pub(crate) fn is_binding(one: &ComprehensionExpr) -> bool {
    let is_empty = matches!(&one.iter_range.expr, Expr::List(list) if list.elements.is_empty());
    is_empty && one.iter_var.starts_with('#')
}

impl<'a> Checker<'a> {
    pub(super) fn comprehension(&mut self, one: &'a ComprehensionExpr) -> Type {
        let range = self.check(&one.iter_range);
        let start = self.check(&one.accu_init);
        let around = self.locals.len();
        self.declare(&one.accu_var, start.clone());
        if !is_binding(one) {
            let (first, second) = self.variables(&one.iter_range, &range, one.iter_var2.is_some());
            self.declare(&one.iter_var, first);
            if let Some(name) = &one.iter_var2 {
                self.declare(name, second);
            }
            let condition = self.check(&one.loop_cond);
            self.expect(&one.loop_cond, &Type::Bool, &condition);
            let step = self.check(&one.loop_step);
            self.expect(&one.loop_step, &start, &step);
            self.locals.truncate(around + 1);
        }
        let result = self.check(&one.result);
        self.locals.truncate(around);
        self.unknowns.known(&result)
    }

    fn declare(&mut self, name: &'a str, variable: Type) {
        self.locals.push((name, variable));
        self.found.locals_max = self.found.locals_max.max(self.locals.len());
    }

    /// The types of the variables of a loop over `range`.
    fn variables(&mut self, node: &IdedExpr, range: &Type, are_two: bool) -> (Type, Type) {
        match self.unknowns.known(range) {
            Type::List(item) if are_two => (Type::Int, (*item).clone()),
            Type::List(item) => ((*item).clone(), Type::Error),
            Type::Map(types) => (types.0.clone(), types.1.clone()),
            Type::Dyn | Type::Any | Type::Error => (Type::Dyn, Type::Dyn),
            unknown @ Type::Unknown(_) => {
                self.unknowns.assign(&unknown, &Type::Dyn);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let other = self.unknowns.resolved(&other);
                let fault = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    self.scope.written(&other)
                );
                self.fault(node.id, fault);
                (Type::Error, Type::Error)
            }
        }
    }
}
