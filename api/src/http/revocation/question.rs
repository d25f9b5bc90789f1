//! The question whether a watch still has its right: who asks, by which credential, and for what.
//!
//! Owns the few texts of a request that authorizers see, so that the parsed request is freed with its answer. Equal questions
//! have one answer. It asks nothing.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::authn::Credential;
use crate::authz::{Asked, Attributes, ResourceAttributes};
use crate::pipeline::Request;
use crate::registry::Resource;
use crate::request::Verb;

/// The target and the selectors of a watch's request, as the client sent them.
#[derive(Debug)]
pub(super) struct Question {
    /// Shared by the questions of one ledger that have equal ones. `None`: the request passed no gate, and nothing is asked.
    pub(super) credential: Option<Arc<Credential>>,
    resource: Arc<Resource>,
    namespace: Box<str>,
    name: Box<str>,
    field_selector: Box<str>,
    label_selector: Box<str>,
}

impl Question {
    /// That of `request`, which is a watch.
    pub(super) fn of(request: Request<'_>) -> Question {
        let asked = Asked::of(&http::Method::GET, request.target, request.query);
        let ResourceAttributes { namespace, name, field_selector, label_selector, .. } =
            asked.attributes(request.target, request.query);
        Question {
            credential: request.exchange.credential().cloned().map(Arc::new),
            resource: request.resource.clone(),
            namespace: namespace.into(),
            name: name.into(),
            field_selector: field_selector.into(),
            label_selector: label_selector.into(),
        }
    }

    /// The question as authorizers see it. The path of a watch names no sub-resource.
    pub(super) fn attributes(&self) -> Attributes<'_> {
        Attributes::Resource(ResourceAttributes {
            verb: Verb::Watch.as_str(),
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            subresource: "",
            namespace: &self.namespace,
            name: &self.name,
            field_selector: &self.field_selector,
            label_selector: &self.label_selector,
        })
    }

    fn texts(&self) -> [&str; 4] {
        [&self.namespace, &self.name, &self.field_selector, &self.label_selector]
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Question) -> bool {
        let is_same_credential = match (&self.credential, &other.credential) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        is_same_credential && Arc::ptr_eq(&self.resource, &other.resource) && self.texts() == other.texts()
    }
}

impl Eq for Question {}

impl Hash for Question {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.credential.as_ref().map(Arc::as_ptr).hash(state);
        Arc::as_ptr(&self.resource).hash(state);
        self.texts().hash(state);
    }
}
