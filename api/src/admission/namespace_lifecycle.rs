//! `NamespaceLifecycle`: refuses creates in a namespace that is absent or terminating, and the deletion of system
//! namespaces.
//!
//! Invariant: the namespace of a stored object was active when the object's creation was applied.

use orch_raft::Condition;
use orch_raft::state::NAMESPACES;
use orch_schema::excerpt::part;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::{ApiError, Subject};

#[derive(Debug)]
pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // Answering that there is no such namespace would tell more than the review's answer does.
        let is_create = attributes.operation == Operation::Create && attributes.resource.review.is_none();
        (is_create && !attributes.namespace.is_empty()) || attributes.is(NAMESPACES, &[Operation::Delete])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        if attributes.operation != Operation::Create {
            return rule(Ok(()));
        }
        additions.require(Condition::NamespaceActive(attributes.namespace.into()));
        rule(match view.is_terminating(attributes.namespace) {
            Some(false) => Ok(()),
            found => Err(refusal(attributes, found.is_some())),
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let brand = attributes.brand;
        let immortal = ["default", brand.system_namespace, brand.public_namespace];
        // few: the namespaces of the system.
        rule(match object.is_none() && immortal.contains(&attributes.name) {
            true => Err(Refusal::Forbidden("this namespace may not be deleted".to_owned())),
            false => Ok(()),
        })
    }

    fn broken_condition(&self, attributes: &Attributes<'_>, found: bool) -> Option<Refusal> {
        Some(refusal(attributes, found))
    }
}

/// The refusal of a create. `exists`: the namespace is stored, but terminating.
fn refusal(attributes: &Attributes<'_>, exists: bool) -> Refusal {
    if !exists {
        let (kind, name) = (NAMESPACES.to_owned(), attributes.namespace.to_owned());
        return Refusal::Error(ApiError::NotFound(Subject { group: String::new(), kind, name }));
    }
    let subject = attributes.subject();
    let namespace = part(attributes.namespace);
    let reason =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let message = format!("{} {} is forbidden: {reason}", subject.qualified(), quoted(attributes.name));
    let cause =
        ("NamespaceTerminating", format!("namespace {namespace} is being terminated"), "metadata.namespace");
    Refusal::Error(ApiError::Forbidden { subject, message, cause: Some(cause) })
}
