//! The type checker: names, members, overloads, and the type of each node.
//!
//! Owns what an expression may say before it is evaluated. It finds all faults of an expression in one walk, in the words
//! of the reference. What it finds out (variables behind names, overloads behind calls, types) is kept by the node's
//! number, for the compiler and for the estimate of costs. [`unify`] looks for types that are not written.

mod call;
mod comprehension;
mod formats;
mod literal;
mod literals;
mod select;
#[cfg(test)]
mod tests;
mod unify;

use std::collections::HashMap;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use smallvec::SmallVec;

pub(crate) use self::comprehension::is_binding;
use self::unify::Unknowns;
use crate::error::CompileError;
use crate::functions::{Function, Style};
use crate::parse::Parsed;
use crate::scope::Scope;
use crate::types::Type;

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A variable of the place, by its place among them.
    Variable(usize),
    /// A variable of a loop or binding, by its number.
    Local(usize),
    /// A type.
    Type(&'static str),
}

/// The function behind a call.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) function: &'static Function,
    /// Places of the overloads that the arguments may belong to.
    pub(crate) overloads: SmallVec<[u16; 4]>,
    pub(crate) style: Style,
}

/// The result of the check of an expression.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    types: HashMap<u64, Type>,
    pub(crate) names: HashMap<u64, Name>,
    pub(crate) calls: HashMap<u64, Resolved>,
    /// The type of the whole.
    pub(crate) result: Option<Type>,
    /// Numbers of local variables that are alive at once, at most.
    pub(crate) locals_max: usize,
}

impl Checked {
    /// The type of the node `id`.
    pub(crate) fn type_of(&self, id: u64) -> Type {
        self.types.get(&id).cloned().unwrap_or(Type::Dyn)
    }
}

/// Checks `parsed` against `scope`.
///
/// # Errors
/// The faults, all that were found.
pub(crate) fn check(parsed: &Parsed, scope: &Scope) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        parsed,
        scope,
        locals: Vec::new(),
        unknowns: Unknowns::default(),
        found: Checked::default(),
        faults: Vec::new(),
    };
    let result = checker.check(&parsed.expression);
    if !checker.faults.is_empty() {
        return Err(CompileError::at_places(parsed.source(), checker.faults));
    }
    let mut found = checker.found;
    found.result = Some(checker.unknowns.resolved(&result));
    for one in found.types.values_mut() {
        *one = checker.unknowns.resolved(one);
    }
    let refused = literals::faults(&parsed.expression, &found, scope).into_iter();
    let refused: Vec<_> = refused.map(|(id, fault)| (parsed.offset(id), fault)).collect();
    if !refused.is_empty() {
        return Err(CompileError::at_places(parsed.source(), refused));
    }
    Ok(found)
}

/// A walk over an expression.
struct Checker<'a> {
    parsed: &'a Parsed,
    scope: &'a Scope,
    /// Variables of loops and bindings around the node, the innermost last.
    locals: Vec<(&'a str, Type)>,
    unknowns: Unknowns,
    found: Checked,
    /// Places and texts.
    faults: Vec<(usize, String)>,
}

impl<'a> Checker<'a> {
    fn fault(&mut self, id: u64, message: String) {
        self.faults.push((self.parsed.offset(id), message));
    }

    /// The type of a node, which is remembered.
    fn check(&mut self, node: &'a IdedExpr) -> Type {
        let checked = match &node.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.ident(node.id, name),
            Expr::Select(select) => self.select(node.id, select),
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => self.list(node.id, list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(made) => self.object(node.id, made),
            Expr::Unspecified => Type::Error,
        };
        self.found.types.insert(node.id, checked.clone());
        checked
    }

    fn ident(&mut self, id: u64, name: &str) -> Type {
        let (name, is_global) = match name.strip_prefix('.') {
            Some(name) => (name, true),
            None => (name, false),
        };
        // few: loops and bindings around one node, which nest as far as expressions may.
        let local = self.locals.iter().rposition(|(local, _)| !is_global && *local == name);
        if let Some(at) = local {
            self.found.names.insert(id, Name::Local(at));
            return self.locals[at].1.clone();
        }
        if let Some(found) = self.global(id, name) {
            return found;
        }
        self.fault(id, undeclared(name));
        Type::Error
    }

    /// The type of a variable or of the name of a type.
    fn global(&mut self, id: u64, name: &str) -> Option<Type> {
        if let Some((at, variable)) = self.scope.variable(name) {
            self.found.names.insert(id, Name::Variable(at));
            return Some(variable.clone());
        }
        let (type_name, named) = named_type(name)?;
        self.found.names.insert(id, Name::Type(type_name));
        Some(Type::Type(named.into()))
    }

    /// Reports a node whose type is `found` instead of `expected`.
    fn mismatch(&mut self, id: u64, expected: &Type, found: &Type) {
        let (expected, found) = (self.unknowns.resolved(expected), self.unknowns.resolved(found));
        let (expected, found) = (self.scope.written(&expected), self.scope.written(&found));
        self.fault(id, format!("expected type '{expected}' but found '{found}'"));
    }

    /// Reports a node whose type is not `expected`.
    fn expect(&mut self, node: &IdedExpr, expected: &Type, found: &Type) {
        if !self.unknowns.assign(expected, found) {
            self.mismatch(node.id, expected, found);
        }
    }
}

/// The text of a name that nothing has.
pub(crate) fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// The type that `name` names, with its name in values.
fn named_type(name: &str) -> Option<(&'static str, Type)> {
    Some(match name {
        "bool" => ("bool", Type::Bool),
        "int" => ("int", Type::Int),
        "uint" => ("uint", Type::Uint),
        "double" => ("double", Type::Double),
        "string" => ("string", Type::String),
        "bytes" => ("bytes", Type::Bytes),
        "list" => ("list", Type::list(Type::Dyn)),
        "map" => ("map", Type::map(Type::Dyn, Type::Dyn)),
        "null_type" => ("null_type", Type::Null),
        "type" => ("type", Type::Type(Type::Dyn.into())),
        "optional_type" => ("optional_type", Type::optional(Type::Dyn)),
        "google.protobuf.Timestamp" => (crate::value::TIMESTAMP, Type::Timestamp),
        "google.protobuf.Duration" => (crate::value::DURATION, Type::Duration),
        "net.IP" => ("net.IP", Type::Opaque("net.IP")),
        "net.CIDR" => ("net.CIDR", Type::Opaque("net.CIDR")),
        _ => return None,
    })
}
