//! What an expression may name: variables, objects with their members, and functions.
//!
//! Owns [`Scope`], which a place builds once. Objects come from a table ([`Objects`]), so that schemas which are known at
//! run time only can stand behind it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::types::Type;

/// Members of objects.
pub trait Objects: Send + Sync {
    /// The type of `member` of the object type `object`; `None` if it has no such member.
    fn member(&self, object: &str, member: &str) -> Option<Type>;
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
}

/// Names that an expression may use.
#[derive(Clone)]
pub struct Scope {
    variables: Vec<(String, Type)>,
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
            variables: Vec::new(),
            objects: Arc::new(ObjectTable::default()),
            libraries: Libraries::default(),
        }
    }
}

impl Scope {
    /// The scope with one more variable. Values are given in the order in which variables were added.
    #[must_use]
    pub fn with_variable(mut self, name: &str, variable: Type) -> Scope {
        self.variables.push((name.to_owned(), variable));
        self
    }

    /// The scope with these objects.
    #[must_use]
    pub fn with_objects(mut self, objects: impl Objects + 'static) -> Scope {
        self.objects = Arc::new(objects);
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
        let at = self.variables.iter().position(|(known, _)| known == name)?;
        Some((at, &self.variables[at].1))
    }

    /// The name of the variable at `at`.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.variables.get(at).map_or("", |(name, _)| name)
    }

    pub(crate) fn member(&self, object: &str, member: &str) -> Option<Type> {
        self.objects.member(object, member)
    }

    pub(crate) fn libraries(&self) -> Libraries {
        self.libraries
    }
}
