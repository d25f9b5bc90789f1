//! Endpoints: the resource and the action that a path names, and its verbs.
//!
//! Owns the rules of which path has which verbs. Behind it a request has an [`Action`], and no code compares
//! the names of sub-resources.

use std::sync::Arc;

use orch_rules::Action;

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
    fn every_sub_resource_that_is_served_has_an_action() {
        let registry = Registry::builtin(&ORCH);
        for resource in registry.resources() {
            for subresource in &resource.subresources {
                assert!(resource.action(&subresource.name).is_some(), "{resource:?} {}", subresource.name);
            }
        }
    }
}
