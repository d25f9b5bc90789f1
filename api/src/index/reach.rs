//! The part of a collection that a list, or the initial events of a watch, look at.
//!
//! Owns what the request narrows without an index: to the object under one path, or to the paths of a namespace. What is in
//! reach is still to be matched against the selectors.

use crate::registry::Resource;
use crate::request::Target;
use crate::selector::Selector;

/// The part of a collection that a request looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach<'a> {
    /// The object under a path.
    One(String),
    /// The objects of a namespace; of all if it is empty.
    Namespace(&'a str),
}

impl<'a> Reach<'a> {
    /// Of a request for `target` with `selector`. A name and a namespace in the field selector are as good as in the path.
    pub(crate) fn of(resource: &Resource, target: &'a Target, selector: &'a Selector) -> Self {
        let named = Some(target.name.as_str()).filter(|name| !name.is_empty());
        let name = named.or_else(|| selector.only_name());
        if !resource.namespaced {
            return name.map_or(Reach::Namespace(""), |name| Reach::One(name.to_owned()));
        }
        let asked = Some(target.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let namespace = asked.or_else(|| selector.only_namespace()).unwrap_or_default();
        match name.filter(|_| !namespace.is_empty()) {
            Some(name) => Reach::One(format!("{namespace}/{name}")),
            None => Reach::Namespace(namespace),
        }
    }
}
