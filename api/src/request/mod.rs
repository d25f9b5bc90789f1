//! The parsed request: verb, target and query, taken from method, path and query string before anything else happens.
//!
//! Owns path shapes, query parameters and verbs. Later stages never parse a path or a query.

mod path;
mod query;

pub(crate) use path::SEGMENTS_MAX;
pub use path::{Target, TargetPath, parse_path, without_trailing_slash};
pub use query::Query;
pub(crate) use query::quote_shortened;

/// The verb of a request, for authorization and the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection or one object.
    Watch,
    /// POST to a collection or a sub-resource.
    Create,
    /// PUT.
    Update,
    /// PATCH, server-side apply included.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// Whether the verb is read-only.
    pub fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The verb's spelling in rules and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// The verb to authorize, also where the path does not take the method. HEAD asks for a read of the path. `None`:
    /// the method has no verb (OPTIONS, TRACE and methods of extensions).
    pub fn asked(method: &http::Method, target: &Target, query: &Query) -> Option<Verb> {
        let reads = || Verb::of(&http::Method::GET, target, query);
        match *method {
            _ if target.deprecated_watch => Some(Verb::Watch),
            http::Method::PUT => Some(Verb::Update),
            http::Method::PATCH => Some(Verb::Patch),
            http::Method::HEAD => reads(),
            _ => Verb::of(method, target, query),
        }
    }

    /// The verb of `method` on `target`; `None` where the combination has none.
    pub fn of(method: &http::Method, target: &Target, query: &Query) -> Option<Verb> {
        let named = !target.name.is_empty();
        let is_watched = *method == http::Method::GET && target.subresource.is_empty();
        if target.deprecated_watch && !is_watched {
            return None;
        }
        // As in the reference, one object is watched by a field selector; its own path is a plain read.
        let watching = target.deprecated_watch || !named && query.flag("watch");
        match *method {
            http::Method::GET if watching && target.subresource.is_empty() => Some(Verb::Watch),
            http::Method::GET if named => Some(Verb::Get),
            http::Method::GET => Some(Verb::List),
            http::Method::POST => Some(Verb::Create),
            http::Method::PUT if named => Some(Verb::Update),
            http::Method::PATCH if named => Some(Verb::Patch),
            http::Method::DELETE if named => Some(Verb::Delete),
            http::Method::DELETE => Some(Verb::DeleteCollection),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn the_verb_asked_for_follows_from_the_method_also_where_the_path_does_not_take_it() {
        let collection = Target { resource: "configmaps".to_owned(), ..Target::default() };
        let object = Target { name: "a".to_owned(), ..collection.clone() };
        let query = Query::default();
        for (method, of_collection, of_object) in [
            (Method::GET, Verb::List, Verb::Get),
            (Method::HEAD, Verb::List, Verb::Get),
            (Method::POST, Verb::Create, Verb::Create),
            (Method::PUT, Verb::Update, Verb::Update),
            (Method::PATCH, Verb::Patch, Verb::Patch),
            (Method::DELETE, Verb::DeleteCollection, Verb::Delete),
        ] {
            assert_eq!(Verb::asked(&method, &collection, &query), Some(of_collection), "{method}");
            assert_eq!(Verb::asked(&method, &object, &query), Some(of_object), "{method}");
        }
        for method in [Method::OPTIONS, Method::TRACE, Method::from_bytes(b"PURGE").unwrap()] {
            assert_eq!(Verb::asked(&method, &object, &query), None, "{method} is no read");
        }
        let watched = Target { deprecated_watch: true, ..collection };
        assert_eq!(Verb::asked(&Method::POST, &watched, &query), Some(Verb::Watch));
        assert_eq!(Verb::of(&Method::PUT, &watched, &query), None, "it is asked for, and not taken");
    }

    /// A request that is authorized as one verb and served as another has a right that nobody gave.
    #[test]
    fn the_verb_served_is_the_verb_asked_for() {
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"];
        let methods = methods.map(|method| Method::from_bytes(method.as_bytes()).unwrap());
        for (deprecated_watch, name, subresource, query) in [false, true].into_iter().flat_map(|watch| {
            ["", "a"].into_iter().flat_map(move |name| {
                ["", "status", "proxy"]
                    .into_iter()
                    .flat_map(move |part| ["", "watch=true"].map(|query| (watch, name, part, query)))
            })
        }) {
            let (name, subresource) = (name.to_owned(), subresource.to_owned());
            let target = Target { deprecated_watch, name, subresource, ..Target::default() };
            let query = Query::parse(query);
            for method in &methods {
                if let Some(served) = Verb::of(method, &target, &query) {
                    assert_eq!(Verb::asked(method, &target, &query), Some(served), "{method} {target:?}");
                }
            }
        }
    }
}
