//! Calls: which function a name stands for, and which of its overloads the arguments belong to.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, Expr, operators};
use smallvec::SmallVec;

use super::{Checker, Resolved, undeclared};
use crate::functions::{self, Function, Style};
use crate::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn call(&mut self, id: u64, call: &'a CallExpr) -> Type {
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(id, call);
        }
        let Some(target) = call.target.as_deref() else {
            let arguments: Vec<Type> = call.args.iter().map(|argument| self.check(argument)).collect();
            return self.named(id, call.func_name.trim_start_matches('.'), Style::Global, arguments);
        };
        // A name before the function may be a part of the function's own: `sets.contains`.
        if let Some(function) = self.namespaced(target, &call.func_name) {
            let arguments: Vec<Type> = call.args.iter().map(|argument| self.check(argument)).collect();
            return self.overloads(id, function, Style::Global, arguments);
        }
        let mut arguments = vec![self.check(target)];
        arguments.extend(call.args.iter().map(|argument| self.check(argument)));
        self.named(id, &call.func_name, Style::Method, arguments)
    }

    /// The function `target.name`.
    fn namespaced(&self, target: &cel::IdedExpr, name: &str) -> Option<&'static Function> {
        let Expr::Ident(_) = &target.expr else { return None };
        self.qualified(target, name).and_then(|name| self.function(&name))
    }

    fn function(&self, name: &str) -> Option<&'static Function> {
        functions::find(name).filter(|function| function.places.include(self.scope.libraries()))
    }

    fn named(&mut self, id: u64, name: &str, style: Style, arguments: Vec<Type>) -> Type {
        match self.function(name) {
            Some(function) => self.overloads(id, function, style, arguments),
            None => {
                self.fault(id, undeclared(name));
                Type::Error
            }
        }
    }

    /// The type of the result of `function`, whose overloads for the arguments are remembered.
    fn overloads(
        &mut self,
        id: u64,
        function: &'static Function,
        style: Style,
        arguments: Vec<Type>,
    ) -> Type {
        let mut overloads = SmallVec::new();
        let mut result: Option<Type> = None;
        // few: the overloads of one function.
        for (at, overload) in function.overloads.iter().enumerate() {
            if overload.style != style || overload.parameters.len() != arguments.len() {
                continue;
            }
            let (fits, found) = if overload.is_generic {
                let mut letters = HashMap::new();
                let instances: SmallVec<[Type; 3]> = overload
                    .parameters
                    .iter()
                    .map(|parameter| self.unknowns.instance(parameter, &mut letters))
                    .collect();
                let found = self.unknowns.instance(&overload.result, &mut letters);
                (self.unknowns.assign_all(arguments.iter().zip(instances.iter())), found)
            } else {
                let pairs = arguments.iter().zip(overload.parameters.iter());
                (self.unknowns.assign_all(pairs), overload.result.clone())
            };
            if !fits {
                continue;
            }
            overloads.push(u16::try_from(at).unwrap_or(u16::MAX));
            let found = self.unknowns.known(&found);
            result = Some(match result {
                None => found,
                Some(before) if before.is_dyn() || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            self.fault_of_arguments(id, function.name, style, &arguments);
            return Type::Error;
        };
        self.found.calls.insert(id, Resolved { function, overloads, style });
        result
    }

    fn fault_of_arguments(&mut self, id: u64, name: &str, style: Style, arguments: &[Type]) {
        let name_of = |argument| self.scope.written(&self.unknowns.resolved(argument)).to_string();
        let names: Vec<String> = arguments.iter().map(name_of).collect();
        let applied = match (style, names.as_slice()) {
            (Style::Method, [target, rest @ ..]) => format!("{target}.({})", rest.join(", ")),
            (_, all) => format!("({})", all.join(", ")),
        };
        // Both forms have one name in the reference.
        let name = if matches!(name, "@insert" | "@merge") { "cel.@mapInsert" } else { name };
        self.fault(id, format!("found no matching overload for '{name}' applied to '{applied}'"));
    }
}
