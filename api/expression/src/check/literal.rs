//! Types of literals of lists and maps. Parts of different types make `dyn`; where that is refused, [`super::literals`] does it.

use cel::common::ast::{EntryExpr, IdedExpr, ListExpr, MapExpr, StructExpr};

use super::Checker;
use crate::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn list(&mut self, _id: u64, list: &'a ListExpr) -> Type {
        let mut common = None;
        let mut optional = list.optional_indices.iter().copied().peekable();
        for (at, element) in list.elements.iter().enumerate() {
            let mut found = self.check(element);
            if optional.next_if_eq(&at).is_some() {
                found = self.unwrapped(element, found);
            }
            common = Some(self.joined(common, found));
        }
        Type::list(common.unwrap_or_else(|| self.unknowns.add()))
    }

    pub(super) fn map(&mut self, map: &'a MapExpr) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.check(&entry.key);
            keys = Some(self.joined(keys, key));
            let mut value = self.check(&entry.value);
            if entry.optional {
                value = self.unwrapped(&entry.value, value);
            }
            values = Some(self.joined(values, value));
        }
        let keys = keys.unwrap_or_else(|| self.unknowns.add());
        Type::map(keys, values.unwrap_or_else(|| self.unknowns.add()))
    }

    /// The type of `Name{field: value}`.
    pub(super) fn object(&mut self, id: u64, made: &'a StructExpr) -> Type {
        let name = made.type_name.trim_start_matches('.');
        let is_known = self.scope.may_be_made(name);
        if !is_known {
            self.fault(id, super::undeclared(name));
        }
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let mut found = self.check(&field.value);
            if field.optional {
                found = self.unwrapped(&field.value, found);
            }
            match self.scope.member(name, &field.field) {
                _ if !is_known => {}
                None => self.fault(entry.id, format!("undefined field '{}'", field.field)),
                Some(expected) if self.unknowns.assign(&expected, &found) => {}
                Some(expected) => {
                    let found = self.unknowns.resolved(&found);
                    let (expected, found) = (self.scope.written(&expected), self.scope.written(&found));
                    let fault = format!(
                        "expected type of field '{}' is '{expected}' but provided type is '{found}'",
                        field.field
                    );
                    self.fault(entry.id, fault);
                }
            }
        }
        if is_known { Type::object(name) } else { Type::Error }
    }

    /// The type inside of an optional one, for `[?a]` and `{?k: a}`.
    fn unwrapped(&mut self, node: &IdedExpr, found: Type) -> Type {
        match self.unknowns.known(&found) {
            Type::Optional(value) => (*value).clone(),
            other if other.is_dyn_or_error() => other,
            other => {
                let expected = Type::optional(other.clone());
                self.mismatch(node.id, &expected, &other);
                Type::Error
            }
        }
    }

    /// The common type of the parts of a literal so far, and of the next one; `dyn` if there is none.
    fn joined(&mut self, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if self.unknowns.assign(&next, &before) {
            return self.unknowns.more_general(before, next);
        }
        Type::Dyn
    }
}
