//! The requested action, as authorizers see it.
//!
//! Owns how a request's path, method and query become attributes, and the message that refuses them. It decides nothing.

use orch_rules::selector::FieldSelector;
use orch_rules::validate::names;
use orch_schema::excerpt::{part, quoted};

use crate::authn::User;
use crate::authn::impersonate::Question;
use crate::error::{ApiError, Subject};
use crate::request::{Query, Target, Verb};

/// The requested action.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    /// A request for a resource.
    Resource(ResourceAttributes<'a>),
    /// A request to a path that names no resource.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path, undecoded.
        path: &'a str,
    },
}

/// A request for a resource, served or not. Texts are as the client sent them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    /// `get`, `list`, `escalate`: a verb of requests, or one that rules alone know.
    pub verb: &'a str,
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Resource, plural.
    pub resource: &'a str,
    /// Sub-resource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster scope and for all namespaces.
    pub namespace: &'a str,
    /// Name of the object; empty where the request names none.
    pub name: &'a str,
    /// The field selector of a list, watch or deletion of a collection, as sent; else empty.
    pub field_selector: &'a str,
    /// The label selector of the same, as sent; else empty.
    pub label_selector: &'a str,
}

impl<'a> From<&'a Question> for ResourceAttributes<'a> {
    /// The right on an identity that impersonation asks for.
    fn from(question: &'a Question) -> Self {
        ResourceAttributes {
            verb: &question.verb,
            group: &question.group,
            version: question.version,
            resource: question.resource,
            subresource: &question.subresource,
            namespace: &question.namespace,
            name: &question.name,
            ..ResourceAttributes::default()
        }
    }
}

/// A request's verb and the name it is limited to, which [`ResourceAttributes`] borrow.
#[derive(Debug)]
pub struct Asked {
    verb: String,
    name: String,
}

impl Asked {
    /// The verb and the name of a request with `method` on `target`. A list or watch of one name by its field selector is a request for that
    /// name, as in the reference. A method without a verb is asked under its own name, never as a read.
    pub fn of(method: &http::Method, target: &Target, query: &Query) -> Asked {
        let verb = match Verb::asked(method, target, query) {
            Some(verb) => verb.as_str().to_owned(),
            None => method.as_str().to_ascii_lowercase(),
        };
        let is_of_many = target.name.is_empty() && matches!(verb.as_str(), "list" | "watch");
        // As in the reference, selectors of the deprecated paths and what is no name do not count.
        let is_of_many = is_of_many && !target.deprecated_watch;
        let one = is_of_many.then(|| FieldSelector::name_required_by(query.text("fieldSelector"))).flatten();
        let one = one.filter(|name| names::path_segment(name).is_empty());
        Asked { verb, name: one.unwrap_or_else(|| target.name.clone()) }
    }

    /// The attributes of the request.
    pub fn attributes<'a>(&'a self, target: &'a Target, query: &'a Query) -> ResourceAttributes<'a> {
        let selects = matches!(self.verb.as_str(), "list" | "watch" | "deletecollection");
        let selects = selects && !target.deprecated_watch;
        let selector = |name| if selects { query.text(name) } else { "" };
        ResourceAttributes {
            verb: &self.verb,
            group: &target.group,
            version: &target.version,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: target.namespace_of_rules(),
            name: &self.name,
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
        }
    }
}

impl ResourceAttributes<'_> {
    /// Resource and sub-resource as rules spell them: `pods/status`.
    pub fn qualified(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            part => format!("{}/{part}", self.resource),
        }
    }
}

/// The error of a refusal. `reason` follows the message, as in the reference.
pub(crate) fn forbidden(user: &User, attributes: Attributes<'_>, reason: &str) -> ApiError {
    let (subject, mut message) = match attributes {
        Attributes::Path { verb, path } => {
            let (name, path) = (quoted(&user.name), quoted(path));
            let message = escaped(&format!("User {name} cannot {} path {path}", part(verb)));
            (Subject::default(), format!("forbidden: {message}"))
        }
        Attributes::Resource(asked) => {
            let subject = Subject {
                group: asked.group.to_owned(),
                kind: asked.resource.to_owned(),
                name: asked.name.to_owned(),
            };
            let message = resource_message(user, &asked, &subject);
            (subject, message)
        }
    };
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    ApiError::Forbidden { subject, message, cause: None }
}

fn resource_message(user: &User, asked: &ResourceAttributes<'_>, subject: &Subject) -> String {
    let named = if asked.name.is_empty() { String::new() } else { format!(" {}", quoted(asked.name)) };
    let scope = match asked.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quoted(namespace)),
    };
    let what = format!(
        "User {} cannot {} resource {} in API group {} {scope}",
        quoted(&user.name),
        part(asked.verb),
        quoted(&asked.qualified()),
        quoted(asked.group)
    );
    format!("{}{named} is forbidden: {}", part(&subject.qualified()), escaped(&what))
}

/// `text` without signs that a browser could take for markup, as in the reference.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn target(resource: &str, namespace: &str, name: &str) -> Target {
        Target {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Target::default()
        }
    }

    fn refused(target: &Target, method: &Method) -> String {
        let alice = User { name: "alice".to_owned(), ..User::default() };
        let query = Query::parse("");
        let asked = Asked::of(method, target, &query);
        forbidden(&alice, Attributes::Resource(asked.attributes(target, &query)), "").to_string()
    }

    #[test]
    fn users_are_refused_in_the_reference_words() {
        let group = r#"in API group "" in the namespace "ns""#;
        let told =
            format!("configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" {group}");
        assert_eq!(refused(&target("configmaps", "ns", ""), &Method::GET), told);
        let told = format!(
            "configmaps \"x\" is forbidden: User \"alice\" cannot get resource \"configmaps\" {group}"
        );
        assert_eq!(refused(&target("configmaps", "ns", "x"), &Method::GET), told);
        let cluster = r#"resource "namespaces" in API group "" at the cluster scope"#;
        assert_eq!(
            refused(&target("namespaces", "", ""), &Method::GET),
            format!("namespaces is forbidden: User \"alice\" cannot list {cluster}")
        );
        let itself = r#"resource "namespaces" in API group "" in the namespace "x""#;
        assert_eq!(
            refused(&target("namespaces", "", "x"), &Method::GET),
            format!("namespaces \"x\" is forbidden: User \"alice\" cannot get {itself}")
        );
        let path = Attributes::Path { verb: "get", path: "/metrics" };
        let alice = User { name: "alice".to_owned(), ..User::default() };
        let told = forbidden(&alice, path, "because").to_string();
        assert_eq!(told, r#"forbidden: User "alice" cannot get path "/metrics": because"#);
        let path = Attributes::Path { verb: "get", path: "/<a>&b" };
        let told = forbidden(&User { name: "<b>".to_owned(), ..User::default() }, path, "<c>").to_string();
        assert_eq!(told, r#"forbidden: User "&lt;b&gt;" cannot get path "/&lt;a&gt;&amp;b": <c>"#);
    }

    #[test]
    fn attributes_are_those_of_the_request() {
        let (one, all) = (target("pods", "ns", "p"), target("pods", "ns", ""));
        let old = Target { deprecated_watch: true, ..all.clone() };
        for (method, target, query, verb, name, fields) in [
            (Method::GET, &one, "", "get", "p", ""),
            (Method::GET, &all, "fieldSelector=metadata.name%3Dx", "list", "x", "metadata.name=x"),
            (Method::GET, &all, "watch=1&fieldSelector=metadata.name%3Dx", "watch", "x", "metadata.name=x"),
            (Method::GET, &all, "fieldSelector=metadata.name%3Dx%2Fy", "list", "", "metadata.name=x/y"),
            (Method::GET, &old, "fieldSelector=metadata.name%3Dx", "watch", "", ""),
            (Method::GET, &all, "fieldSelector=metadata.name!%3Dx", "list", "", "metadata.name!=x"),
            (
                Method::DELETE,
                &all,
                "fieldSelector=metadata.name%3Dx",
                "deletecollection",
                "",
                "metadata.name=x",
            ),
            (Method::PUT, &one, "fieldSelector=a%3Db", "update", "p", ""),
            (Method::HEAD, &one, "", "get", "p", ""),
            (Method::OPTIONS, &all, "", "options", "", ""),
        ] {
            let query = Query::parse(query);
            let asked = Asked::of(&method, target, &query);
            let attributes = asked.attributes(target, &query);
            let found = (attributes.verb, attributes.name, attributes.field_selector);
            assert_eq!(found, (verb, name, fields), "{method}");
        }
    }
}
