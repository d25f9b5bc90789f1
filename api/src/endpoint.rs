//! Endpoints: the resource and the action that a path names, its verbs, and the documents that go in and out.
//!
//! Owns the rules of which path has which verbs, and which types they take and give. Behind it a request has an [`Action`], and no code compares
//! the names of sub-resources.

use std::sync::Arc;

use orch_rules::Action;
use orch_schema::TypeId;

use crate::error::ApiError;
use crate::registry::{Registry, Resource};
use crate::request::{Target, Verb};

/// The resource and the action that a path names.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'r> {
    /// The objects that it is about.
    pub resource: &'r Arc<Resource>,
    /// Action on them.
    pub action: Action,
}

impl Registry {
    /// The resource and the action that `target` names.
    ///
    /// # Errors
    /// `UnknownPath`: a part of the path is not served, `NoPage`: the resource is not.
    pub fn endpoint(&self, target: &Target) -> Result<Endpoint<'_>, ApiError> {
        let resource = self.find(&target.group, &target.version, &target.resource).ok_or(ApiError::NoPage)?;
        let action = resource.action(&target.subresource).ok_or(ApiError::UnknownPath)?;
        let misplaced = !resource.namespaced && !target.namespace.is_empty();
        // One object lies in one namespace: without it there is no such path.
        let lacks_namespace = resource.namespaced && target.namespace.is_empty() && !target.name.is_empty();
        if misplaced || lacks_namespace {
            Err(ApiError::UnknownPath)
        } else {
            Ok(Endpoint { resource, action })
        }
    }
}

impl Endpoint<'_> {
    /// Whether `verb` is served on `target`, which led here.
    ///
    /// # Errors
    /// `MethodNotAllowed`.
    pub fn check_verb(&self, target: &Target, verb: Verb) -> Result<(), ApiError> {
        let is_served = match self.action {
            Action::Object => {
                // The collection of all namespaces is there to be read: what writes names one.
                let is_too_wide = !verb.is_read() && self.resource.namespaced && target.namespace.is_empty();
                // The name of a created object is in its body; collections are not written to by PUT.
                let names_new = verb == Verb::Create && !target.name.is_empty();
                self.resource.allows(verb) && !is_too_wide && !names_new
            }
            Action::Status | Action::Finalize => {
                let verbs = self.resource.subresource(self.action.subresource()).map(|found| &found.verbs);
                verbs.is_some_and(|verbs| verbs.iter().any(|allowed| allowed == verb.as_str()))
            }
        };
        if is_served { Ok(()) } else { Err(ApiError::MethodNotAllowed) }
    }
}

impl Resource {
    /// The type of the document that a request with this verb carries; `None`: it carries none, or a patch.
    pub fn accepted(&self, action: Action, verb: Verb) -> Option<TypeId> {
        match verb {
            Verb::Create | Verb::Update => Some(self.document(action)),
            Verb::Delete | Verb::DeleteCollection => self.schema.named("meta.v1.DeleteOptions"),
            Verb::Get | Verb::List | Verb::Watch | Verb::Patch => None,
        }
    }

    /// The type of the document that answers it, as clients are told. A removed object may be answered instead of the Status.
    pub fn answered(&self, action: Action, verb: Verb) -> Option<TypeId> {
        match verb {
            Verb::Get | Verb::Create | Verb::Update | Verb::Patch => Some(self.document(action)),
            Verb::List => self.schema.named(&format!("{}List", self.schema.get(self.type_id).name)),
            Verb::Watch => self.schema.named("meta.v1.WatchEvent"),
            Verb::Delete | Verb::DeleteCollection => self.schema.named("meta.v1.Status"),
        }
    }

    /// What `action` reads and writes: the object, or what stands for a part of it.
    fn document(&self, action: Action) -> TypeId {
        self.subresource(action.subresource()).map_or(self.type_id, |part| part.type_id)
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::request::{TargetPath, parse_path};

    fn resolved(registry: &Registry, path: &str, verb: Verb) -> Result<Action, ApiError> {
        let TargetPath::Resource(target) = parse_path(path) else { return Err(ApiError::NoPage) };
        let endpoint = registry.endpoint(&target)?;
        endpoint.check_verb(&target, verb).map(|()| endpoint.action)
    }

    #[test]
    fn paths_and_verbs_lead_to_actions() {
        let registry = Registry::builtin(&ORCH);
        let pods = "/api/v1/namespaces/ns/pods";
        for (path, verb, expected) in [
            (pods.to_owned(), Verb::Create, Ok(Action::Object)),
            (format!("{pods}/p"), Verb::Update, Ok(Action::Object)),
            (format!("{pods}/p"), Verb::Create, Err(ApiError::MethodNotAllowed)),
            (format!("{pods}/p/status"), Verb::Patch, Ok(Action::Status)),
            (format!("{pods}/p/status"), Verb::Delete, Err(ApiError::MethodNotAllowed)),
            (format!("{pods}/p/finalize"), Verb::Update, Err(ApiError::UnknownPath)),
            (format!("{pods}/p/nope"), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/pods".to_owned(), Verb::List, Ok(Action::Object)),
            ("/api/v1/pods".to_owned(), Verb::DeleteCollection, Err(ApiError::MethodNotAllowed)),
            ("/api/v1/pods/p".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/namespaces/ns/finalize".to_owned(), Verb::Update, Ok(Action::Finalize)),
            ("/api/v1/namespaces/ns/nodes".to_owned(), Verb::List, Err(ApiError::UnknownPath)),
            ("/api/v1/nopes".to_owned(), Verb::List, Err(ApiError::NoPage)),
        ] {
            assert_eq!(resolved(&registry, &path, verb), expected, "{verb:?} {path}");
        }
    }

    #[test]
    fn a_verb_takes_and_gives_documents_of_its_own() {
        let registry = Registry::builtin(&ORCH);
        let pods = registry.find("", "v1", "pods").unwrap();
        let name = |id: Option<TypeId>| id.map(|id| &*registry.schema.get(id).name);
        let (pod, status) = (Some("core.v1.Pod"), Some("meta.v1.Status"));
        let options = Some("meta.v1.DeleteOptions");
        for (action, verb, accepted, answered) in [
            (Action::Object, Verb::Get, None, pod),
            (Action::Object, Verb::List, None, Some("core.v1.PodList")),
            (Action::Object, Verb::Watch, None, Some("meta.v1.WatchEvent")),
            (Action::Object, Verb::Create, pod, pod),
            (Action::Status, Verb::Update, pod, pod),
            (Action::Status, Verb::Patch, None, pod),
            (Action::Object, Verb::Delete, options, status),
            (Action::Object, Verb::DeleteCollection, options, status),
        ] {
            assert_eq!(name(pods.accepted(action, verb)), accepted, "{action:?} {verb:?}");
            assert_eq!(name(pods.answered(action, verb)), answered, "{action:?} {verb:?}");
        }
    }

    #[test]
    fn every_sub_resource_that_is_served_has_an_action() {
        let registry = Registry::builtin(&ORCH);
        for resource in registry.resources() {
            for subresource in &resource.subresources {
                assert!(resource.action(&subresource.name).is_some(), "{resource:?} {}", subresource.name);
            }
        }
    }
}
