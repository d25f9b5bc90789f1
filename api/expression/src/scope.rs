//! Names of an expression: variables, objects with their members, and functions.
//!
//! Owns [`Scope`], which a place builds once. Objects come from a table ([`Objects`]), so that schemas which are known at
//! run time only can stand behind it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::types::{Branded, Type};
use crate::value::{DURATION, TIMESTAMP};

/// Members of objects.
pub trait Objects: Send + Sync {
    /// The type of `member` of the object type `object`; `None` if it has no such member.
    fn member(&self, object: &str, member: &str) -> Option<Type>;

    /// Whether an expression may make a value of the object type `object`.
    fn may_be_made(&self, object: &str) -> bool {
        let _ = object;
        false
    }
}

/// Members that are known when a program is built.
#[derive(Clone, Debug, Default)]
pub struct ObjectTable(HashMap<(&'static str, &'static str), Type>);

impl ObjectTable {
    /// The table with the members of one more object type.
    #[must_use]
    pub fn with(mut self, object: &'static str, members: &[(&'static str, Type)]) -> ObjectTable {
        self.0.extend(members.iter().map(|(member, member_type)| ((object, *member), member_type.clone())));
        self
    }
}

impl Objects for ObjectTable {
    fn member(&self, object: &str, member: &str) -> Option<Type> {
        self.0.get(&(object, member)).cloned()
    }
}

/// Libraries beyond the standard one, which places have or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// Functions that selectors of devices have: `includes`, and the macro `cel.bind`.
    pub devices: bool,
    /// `jsonpatch.escapeKey`.
    pub mutations: bool,
}

/// The names in messages of an evaluation: variables with their types, in the order in which values are given, and types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) list: Vec<(String, Type)>,
    /// Before the names of the server's own types; empty where there is none.
    pub(crate) brand: &'static str,
}

/// Names that an expression may use.
#[derive(Clone)]
pub struct Scope {
    variables: Arc<Variables>,
    objects: Arc<dyn Objects>,
    libraries: Libraries,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Default for Scope {
    fn default() -> Self {
        Scope {
            variables: Arc::default(),
            objects: Arc::new(ObjectTable::default()),
            libraries: Libraries::default(),
        }
    }
}

impl Scope {
    /// The scope with one more variable. Values are given in the order in which variables were added.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable: Type) -> Scope {
        Arc::make_mut(&mut self.variables).list.push((name.to_owned(), variable));
        self
    }

    /// The scope with these objects.
    #[must_use]
    pub fn with_objects(self, objects: impl Objects + 'static) -> Scope {
        self.with_shared_objects(Arc::new(objects))
    }

    /// The scope with these objects, which other scopes have as well.
    #[must_use]
    pub fn with_shared_objects(mut self, objects: Arc<dyn Objects>) -> Scope {
        self.objects = objects;
        self
    }

    /// The scope of a cluster with the brand of this name, which messages write before the names of the server's own
    /// types.
    #[must_use]
    pub fn with_brand(mut self, brand: &'static str) -> Scope {
        Arc::make_mut(&mut self.variables).brand = brand;
        self
    }

    /// The scope with these libraries.
    #[must_use]
    pub fn with_libraries(mut self, libraries: Libraries) -> Scope {
        self.libraries = libraries;
        self
    }

    /// The place and the type of the variable `name`.
    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        // few: the variables of a place.
        let at = self.variables.list.iter().position(|(known, _)| known == name)?;
        Some((at, &self.variables.list[at].1))
    }

    /// The variables in their order, without what stands behind their types.
    pub(crate) fn variables(&self) -> Arc<Variables> {
        Arc::clone(&self.variables)
    }

    pub(crate) fn may_be_made(&self, object: &str) -> bool {
        self.objects.may_be_made(object)
    }

    pub(crate) fn member(&self, object: &str, member: &str) -> Option<Type> {
        self.objects.member(object, member)
    }

    /// `of` as messages write it.
    pub(crate) fn written<'a>(&self, of: &'a Type) -> Branded<'a> {
        Branded(of, self.variables.brand)
    }

    /// The name that values of the type `of` have for it, as messages write it.
    pub(crate) fn named(&self, of: &Type) -> String {
        match of {
            Type::List(_) => "list".to_owned(),
            Type::Map(_) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            Type::Type(_) => "type".to_owned(),
            Type::Null => "null_type".to_owned(),
            Type::Duration => DURATION.to_owned(),
            Type::Timestamp => TIMESTAMP.to_owned(),
            other => self.written(other).to_string(),
        }
    }

    pub(crate) fn libraries(&self) -> Libraries {
        self.libraries
    }
}
