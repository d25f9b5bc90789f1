//! What a request asks for, taken from its method, path and query before anything else happens.
//!
//! Owns path shapes (spec 4.1), query parameters (4.2) and verbs. Nothing behind it looks at a path or a query again.

mod path;
mod query;

pub use path::{Target, TargetPath, parse_path};
pub use query::Query;
pub(crate) use query::echoed;

/// What authorization and the pipeline call the request.
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
    /// Whether it can change nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The verb as rules and messages spell it.
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

    /// The verb of `method` on a path with or without a name; `None` where there is no such verb.
    pub fn of(method: &http::Method, target: &Target, query: &Query) -> Option<Verb> {
        let named = !target.name.is_empty();
        if target.deprecated_watch && *method != http::Method::GET {
            return None;
        }
        let watching = target.deprecated_watch || query.flag("watch");
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
