//! Answers to questions about rights that expressions ask.
//!
//! Owns what was answered in one request: each question is asked once, as in the reference. An evaluation that meets an
//! unanswered question ends; it is made again with the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use orch_rules::expression::policy::{Decision, Decisions, Question, ResourceTarget, Target};
use orch_rules::selector::LabelSelector;

use super::asked::Asked;
use crate::admission::{Attributes, View};
use crate::authn::User;
use crate::authn::service_account_name::ServiceAccountName;
use crate::authz::{Attributes as Wanted, ResourceAttributes};

/// Questions of one request with their answers.
#[derive(Debug, Default)]
pub(in crate::admission) struct Rights(Mutex<HashMap<Question, Arc<Decision>>>);

impl Decisions for Rights {
    fn answer(&self, question: &Question) -> Option<Arc<Decision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(question).cloned()
    }
}

impl Rights {
    /// Asks the authorizers of `attributes` about `question`, and keeps the answer.
    pub(in crate::admission) async fn ask(
        &self,
        question: Question,
        attributes: &Attributes<'_>,
        view: &View,
    ) {
        let account = question.service_account.as_ref().map(|(namespace, name)| {
            let account = ServiceAccountName { namespace, name };
            User { name: account.user_name(), groups: account.groups().into(), ..User::default() }
        });
        let user = account.as_ref().unwrap_or(attributes.user);
        let wanted = wanted(&question);
        let ruling = attributes.gate.rule(user, wanted, view.applied()).await;
        let decision = Decision {
            allowed: ruling.is_allowed(),
            reason: ruling.reason(),
            error: ruling.error().unwrap_or_default().to_owned(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(question, Arc::new(decision));
    }
}

/// The question as authorizers are asked it.
fn wanted(question: &Question) -> Wanted<'_> {
    let verb = &*question.verb;
    match &question.target {
        Target::Path(path) => Wanted::Path { verb, path },
        Target::Resource(of) => Wanted::Resource(ResourceAttributes {
            verb,
            group: &of.group,
            version: "*",
            resource: &of.resource,
            subresource: &of.subresource,
            namespace: &of.namespace,
            name: &of.name,
            field_selector: of.field_selector.as_deref().unwrap_or_default(),
            label_selector: labels(of),
        }),
    }
}

/// The label selector, unless it cannot be parsed: then the question has none, as in the reference.
fn labels(of: &ResourceTarget) -> &str {
    let text = of.label_selector.as_deref().unwrap_or_default();
    if LabelSelector::parse(text).is_ok() { text } else { "" }
}

/// The resource of the request, which `authorizer.requestResource` asks about.
pub(in crate::admission) fn request_resource(asked: &Asked<'_>) -> ResourceTarget {
    ResourceTarget {
        group: asked.group.into(),
        resource: asked.resource.into(),
        subresource: asked.subresource.into(),
        namespace: asked.namespace.into(),
        name: asked.name.into(),
        field_selector: None,
        label_selector: None,
    }
}
