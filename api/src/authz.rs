//! Who may do what.
//!
//! Owns the decision and its message. For now one rule: members of `system:masters` may do everything, others
//! nothing; roles decide once that part is built.

use crate::authn::{GROUP_MASTERS, User};
use crate::error::{ApiError, Subject};
use crate::request::{Target, Verb};
use crate::validate::shown::{part, quoted};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    /// An action on a resource.
    Resource {
        /// The action.
        verb: Verb,
        /// The resource.
        target: &'a Target,
    },
    /// An action on another path.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// Decides whether `user` may do what `attributes` say.
///
/// # Errors
/// `Forbidden` with the complete text.
pub fn authorize(user: &User, attributes: Attributes<'_>) -> Result<(), ApiError> {
    if user.is_in_group(GROUP_MASTERS) {
        return Ok(());
    }
    Err(forbidden(user, attributes))
}

fn forbidden(user: &User, attributes: Attributes<'_>) -> ApiError {
    let (subject, message) = match attributes {
        Attributes::Path { verb, path } => {
            let (name, path) = (quoted(&user.name), quoted(path));
            let message = format!("forbidden: User {name} cannot {} path {path}", part(verb));
            (Subject::default(), message)
        }
        Attributes::Resource { verb, target } => {
            let subject = Subject {
                group: target.group.clone(),
                kind: target.resource.clone(),
                name: target.name.clone(),
            };
            let message = resource_message(user, verb, target, &subject);
            (subject, message)
        }
    };
    ApiError::Forbidden { subject, message, cause: None }
}

fn resource_message(user: &User, verb: Verb, target: &Target, subject: &Subject) -> String {
    let named = if target.name.is_empty() { String::new() } else { format!(" {}", quoted(&target.name)) };
    let scope = match target.namespace_of_rules() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", quoted(namespace)),
    };
    let mut resource = target.resource.clone();
    if !target.subresource.is_empty() {
        resource = format!("{resource}/{}", target.subresource);
    }
    format!(
        "{}{named} is forbidden: User {} cannot {} resource {} in API group {} {scope}",
        part(&subject.qualified()),
        quoted(&user.name),
        verb.as_str(),
        quoted(&resource),
        quoted(&target.group)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alice() -> User {
        User { name: "alice".to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
    }

    fn refused(verb: Verb, target: &Target) -> String {
        authorize(&alice(), Attributes::Resource { verb, target }).unwrap_err().to_string()
    }

    #[test]
    fn others_are_refused_in_the_reference_words() {
        let mut target =
            Target { resource: "configmaps".to_owned(), namespace: "ns".to_owned(), ..Target::default() };
        let group = r#"in API group "" in the namespace "ns""#;
        let told =
            format!("configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" {group}");
        assert_eq!(refused(Verb::List, &target), told);
        target.name = "x".to_owned();
        let told = format!(
            "configmaps \"x\" is forbidden: User \"alice\" cannot get resource \"configmaps\" {group}"
        );
        assert_eq!(refused(Verb::Get, &target), told);
        let mut target = Target { resource: "namespaces".to_owned(), ..Target::default() };
        let cluster = r#"resource "namespaces" in API group "" at the cluster scope"#;
        assert_eq!(
            refused(Verb::List, &target),
            format!("namespaces is forbidden: User \"alice\" cannot list {cluster}")
        );
        target.name = "x".to_owned();
        let itself = r#"resource "namespaces" in API group "" in the namespace "x""#;
        assert_eq!(
            refused(Verb::Get, &target),
            format!("namespaces \"x\" is forbidden: User \"alice\" cannot get {itself}")
        );
        let path = authorize(&alice(), Attributes::Path { verb: "get", path: "/metrics" });
        assert_eq!(path.unwrap_err().to_string(), r#"forbidden: User "alice" cannot get path "/metrics""#);
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = User { groups: vec![GROUP_MASTERS.to_owned()], ..alice() };
        assert!(authorize(&admin, Attributes::Path { verb: "get", path: "/" }).is_ok());
    }
}
