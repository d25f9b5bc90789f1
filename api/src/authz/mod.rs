//! Authorization.
//!
//! Owns the chain of authorizers and the message of a refusal. Each authorizer allows, denies, or has no opinion. The
//! first opinion decides; without one the request is forbidden. The only built-in authorizer lets members of
//! `system:masters` do everything.

use std::fmt;

use orch_schema::excerpt::{part, quoted};

use crate::authn::{GROUP_MASTERS, User};
use crate::error::{ApiError, Subject};
use crate::request::{Target, Verb};

/// The decision of one authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The user may, and no later authorizer is asked.
    Allow,
    /// The user may not, and no later authorizer is asked. Holds the reason, possibly empty.
    Deny(String),
    /// The next authorizer decides.
    NoOpinion,
}

/// Decides on requests.
pub trait Authorizer: Send + Sync {
    /// The authorizer's name in logs.
    fn name(&self) -> &'static str;

    /// Whether `user` may do what `attributes` describe.
    fn decide(&self, user: &User, attributes: Attributes<'_>) -> Decision;
}

/// The ruling of the whole chain, with the authorizer that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The user may.
    Allowed {
        /// Name of the authorizer that allows it.
        by: &'static str,
    },
    /// The user may not.
    Denied {
        /// Name of the authorizer that denies it.
        by: &'static str,
        /// The reason, possibly empty.
        reason: String,
    },
    /// No authorizer has an opinion, so the user may not.
    NoOpinion,
}

impl Ruling {
    /// Turns the ruling on the request of `user` into a result.
    ///
    /// # Errors
    /// `Forbidden` with the complete message.
    pub fn check(&self, user: &User, attributes: Attributes<'_>) -> Result<(), ApiError> {
        match self {
            Ruling::Allowed { .. } => Ok(()),
            Ruling::Denied { reason, .. } => Err(forbidden(user, attributes, reason)),
            Ruling::NoOpinion => Err(forbidden(user, attributes, "")),
        }
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ruling::Allowed { by } => write!(f, "allowed by {by}"),
            Ruling::Denied { by, reason } => write!(f, "denied by {by}: {reason}"),
            Ruling::NoOpinion => f.write_str("allowed by nobody"),
        }
    }
}

/// The chain of authorizers, in the order in which they are asked.
pub struct Authorizers(Vec<Box<dyn Authorizer>>);

impl Authorizers {
    /// A chain of these authorizers, asked in this order.
    pub fn new(authorizers: Vec<Box<dyn Authorizer>>) -> Self {
        Authorizers(authorizers)
    }

    /// The built-in authorizers.
    pub fn builtin() -> Self {
        Authorizers::new(vec![Box::new(Masters)])
    }

    /// Rules whether `user` may do what `attributes` describe.
    pub fn rule(&self, user: &User, attributes: Attributes<'_>) -> Ruling {
        for authorizer in &self.0 {
            let by = authorizer.name();
            match authorizer.decide(user, attributes) {
                Decision::Allow => return Ruling::Allowed { by },
                Decision::Deny(reason) => return Ruling::Denied { by, reason },
                Decision::NoOpinion => {}
            }
        }
        Ruling::NoOpinion
    }
}

/// Members of `system:masters` may do everything, so that administrators keep access when rules have shut out every
/// user.
struct Masters;

impl Authorizer for Masters {
    fn name(&self) -> &'static str {
        "masters"
    }

    fn decide(&self, user: &User, _attributes: Attributes<'_>) -> Decision {
        if user.is_in_group(GROUP_MASTERS) { Decision::Allow } else { Decision::NoOpinion }
    }
}

/// The requested action, as authorizers see it.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    /// A request for a resource.
    Resource {
        /// The requested verb.
        verb: Verb,
        /// The requested object or collection.
        target: &'a Target,
    },
    /// A request to a path that names no resource.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path, undecoded.
        path: &'a str,
    },
}

/// The error for a refusal. `reason` follows the message, as in the reference.
fn forbidden(user: &User, attributes: Attributes<'_>, reason: &str) -> ApiError {
    let (subject, mut message) = match attributes {
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
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
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
        let attributes = Attributes::Resource { verb, target };
        let ruling = Authorizers::builtin().rule(&alice(), attributes);
        ruling.check(&alice(), attributes).unwrap_err().to_string()
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
        let path = Attributes::Path { verb: "get", path: "/metrics" };
        let ruled = Authorizers::builtin().rule(&alice(), path).check(&alice(), path);
        assert_eq!(ruled.unwrap_err().to_string(), r#"forbidden: User "alice" cannot get path "/metrics""#);
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = User { groups: vec![GROUP_MASTERS.to_owned()], ..alice() };
        let path = Attributes::Path { verb: "get", path: "/" };
        let ruling = Authorizers::builtin().rule(&admin, path);
        assert_eq!(ruling.check(&admin, path), Ok(()));
        assert_eq!(ruling.to_string(), "allowed by masters");
    }

    /// Decides every request alike.
    struct Always(Decision);

    impl Authorizer for Always {
        fn name(&self) -> &'static str {
            "always"
        }

        fn decide(&self, _user: &User, _attributes: Attributes<'_>) -> Decision {
            self.0.clone()
        }
    }

    #[test]
    fn the_first_opinion_decides_and_without_one_it_is_forbidden() {
        let denied = || Decision::Deny("not today".to_owned());
        for (decisions, expected) in [
            (vec![], Err("")),
            (vec![Decision::NoOpinion, Decision::Allow, denied()], Ok(())),
            (vec![Decision::NoOpinion, denied(), Decision::Allow], Err(": not today")),
            (vec![Decision::NoOpinion, Decision::NoOpinion], Err("")),
        ] {
            let boxed = |decision: &Decision| Box::new(Always(decision.clone())) as Box<dyn Authorizer>;
            let chain = Authorizers::new(decisions.iter().map(boxed).collect());
            let path = Attributes::Path { verb: "get", path: "/x" };
            let said = chain.rule(&alice(), path).check(&alice(), path).map_err(|error| error.to_string());
            let refused = |end| format!(r#"forbidden: User "alice" cannot get path "/x"{end}"#);
            assert_eq!(said, expected.map_err(refused), "{decisions:?}");
        }
    }
}
