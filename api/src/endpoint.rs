//! Endpoints: the resource and the action that a path names, its verbs, and the types of its documents.
//!
//! Owns the rules which verbs each path serves, and which document types they take and return. The code behind it works
//! with an [`Action`] and compares no names of sub-resources.

use std::sync::Arc;

use orch_rules::Action;
use orch_schema::TypeId;

use crate::error::{ApiError, Subject};
use crate::registry::{Registry, Resource};
use crate::request::{Target, Verb};

/// The resource and the action that a path names.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'r> {
    /// The resource of the documents that the action reads and writes.
    pub resource: &'r Arc<Resource>,
    /// Action on the objects.
    pub action: Action,
}

impl Registry {
    /// The resource and the action that `target` names.
    ///
    /// # Errors
    /// `NoPage`: the resource is not served. `UnknownPath`: its sub-resource is not, or the path has a namespace too
    /// many or too few. Of a declared kind these are `NotFound` and `NoPage`.
    pub fn endpoint(&self, target: &Target) -> Result<Endpoint<'_>, ApiError> {
        let resource = self.find(&target.group, &target.version, &target.resource).ok_or(ApiError::NoPage)?;
        // Behind a proxy, the rest of the path is another server's.
        let is_whole = |action: &Action| target.subpath.is_empty() || *action == Action::Proxy;
        let action = resource.action(&target.subresource).filter(is_whole);
        let action = action.ok_or_else(|| unknown_part(resource, target))?;
        let misplaced = !resource.namespaced && !target.namespace.is_empty();
        // Below the deprecated prefix, objects are watched, and nothing else: the right that was asked for is `watch`.
        let is_watched_part = target.deprecated_watch && action != Action::Object;
        // A single object of a namespaced resource has no path without its namespace.
        let lacks_namespace = resource.namespaced && target.namespace.is_empty() && !target.name.is_empty();
        if misplaced || lacks_namespace || is_watched_part {
            // Paths that lead to no declared resource are nobody's.
            Err(if resource.is_declared() { ApiError::NoPage } else { ApiError::UnknownPath })
        } else {
            Ok(Endpoint { resource: resource.of_action(action), action })
        }
    }
}

/// The error of a sub-resource that `resource` does not have.
fn unknown_part(resource: &Resource, target: &Target) -> ApiError {
    match resource.is_declared() {
        true => ApiError::NotFound(Subject::resource(resource, &target.name)),
        false => ApiError::UnknownPath,
    }
}

impl Endpoint<'_> {
    /// Checks that `target`, from which this endpoint was resolved, names the namespace that a request for `verb` needs; `None`: the
    /// method has no verb.
    ///
    /// # Errors
    /// `NoPage`: of a declared kind, only lists and watches are of all namespaces. Built-in kinds do not serve other verbs there
    /// ([`Endpoint::check_verb`]).
    pub(crate) fn check_reach(&self, target: &Target, verb: Option<Verb>) -> Result<(), ApiError> {
        let resource = self.resource;
        let is_of_all = resource.is_of_declared() && resource.namespaced && target.namespace.is_empty();
        match verb {
            Some(Verb::List | Verb::Watch) => Ok(()),
            _ if is_of_all => Err(ApiError::NoPage),
            _ => Ok(()),
        }
    }

    /// Checks that `verb` is served on `target`, from which this endpoint was resolved.
    ///
    /// # Errors
    /// `MethodNotAllowed`, `Unserved`: the verb is not served on this path. `UnknownPath`: no verb is, as on the path of a single review.
    pub fn check_verb(&self, target: &Target, verb: Verb) -> Result<(), ApiError> {
        if self.action == Action::Object && !self.serves_any(target) {
            return Err(ApiError::UnknownPath);
        }
        let is_served = match self.action {
            Action::Object => {
                // Collections across all namespaces are read-only: a write names its namespace.
                let is_too_wide = !verb.is_read() && self.resource.namespaced && target.namespace.is_empty();
                // A created object is named by its body, so that POST goes to the collection.
                let names_new = verb == Verb::Create && !target.name.is_empty();
                self.resource.allows(verb) && !is_too_wide && !names_new
            }
            subresource => self.allows_part(subresource, verb),
        };
        if is_served {
            return Ok(());
        }
        match self.resource.is_of_declared() {
            true => {
                Err(ApiError::Unserved { verb: verb.as_str(), subject: Subject::resource(self.resource, "") })
            }
            false => Err(ApiError::MethodNotAllowed),
        }
    }

    /// Whether the path of an object, or of a collection, has any verb.
    fn serves_any(&self, target: &Target) -> bool {
        let verbs: &[Verb] = if target.deprecated_watch {
            &[Verb::Watch]
        } else if !target.name.is_empty() {
            &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete]
        } else if self.resource.namespaced && target.namespace.is_empty() {
            &[Verb::List, Verb::Watch]
        } else {
            &[Verb::List, Verb::Create, Verb::Watch, Verb::DeleteCollection]
        };
        verbs.iter().any(|verb| self.resource.allows(*verb))
    }

    /// Whether the documents can be read again, and therefore have a table. Reviews, bindings, evictions and requests for
    /// tokens are answered once and kept nowhere.
    pub fn is_readable(&self) -> bool {
        match self.action {
            Action::Object => self.resource.allows(Verb::Get),
            subresource => self.allows_part(subresource, Verb::Get),
        }
    }

    fn allows_part(&self, subresource: Action, verb: Verb) -> bool {
        let verbs = self.resource.subresource(subresource.subresource()).map(|found| &found.verbs);
        // few: the verbs of one sub-resource.
        verbs.is_some_and(|verbs| verbs.iter().any(|allowed| allowed == verb.as_str()))
    }
}

/// Methods without a verb that a proxy passes on, too.
const PROXIED_METHODS: [http::Method; 2] = [http::Method::HEAD, http::Method::OPTIONS];

impl Endpoint<'_> {
    /// Checks that a request of `method`, whose verb is `verb`, is passed on.
    ///
    /// # Errors
    /// `MethodNotAllowed`: this path does not serve the method.
    pub(crate) fn check_method(
        &self,
        target: &Target,
        method: &http::Method,
        verb: Option<Verb>,
    ) -> Result<(), ApiError> {
        // few: the methods.
        if self.action == Action::Proxy && PROXIED_METHODS.contains(method) {
            return Ok(());
        }
        self.check_verb(target, verb.ok_or(ApiError::MethodNotAllowed)?)
    }
}

impl Resource {
    /// The type of the request's body; `None` for verbs without a body, and for patches.
    pub fn request_type(&self, action: Action, verb: Verb) -> Option<TypeId> {
        match verb {
            Verb::Create | Verb::Update => Some(self.document(action)),
            Verb::Delete | Verb::DeleteCollection => self.schema.find_type("meta.v1.DeleteOptions"),
            Verb::Get | Verb::List | Verb::Watch | Verb::Patch => None,
        }
    }

    /// The type of the response's document, as OpenAPI describes it. A delete may answer with the removed object
    /// instead of the Status.
    pub fn response_type(&self, action: Action, verb: Verb) -> Option<TypeId> {
        match verb {
            Verb::Get | Verb::Create | Verb::Update | Verb::Patch => Some(self.document(action)),
            Verb::List => self.schema.find_type(&format!("{}List", self.schema.get(self.type_id).name)),
            Verb::Watch => self.schema.find_type("meta.v1.WatchEvent"),
            Verb::Delete if self.rules.returns_deleted => Some(self.type_id),
            Verb::Delete | Verb::DeleteCollection => self.schema.find_type("meta.v1.Status"),
        }
    }

    /// The type that `action` reads and writes: the object's own, or that of the sub-resource.
    fn document(&self, action: Action) -> TypeId {
        self.subresource(action.subresource()).map_or(self.type_id, |part| part.type_id)
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::request::{TargetPath, parse_path};

    const REVIEWS: &str = "/apis/authorization.orch.io/v1";

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
            ("/api/v1/watch/namespaces/ns/pods/p".to_owned(), Verb::Watch, Ok(Action::Object)),
            ("/api/v1/watch/namespaces/ns/pods/p/log".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/watch/namespaces/ns/pods/p/proxy/x".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/watch/nodes/n/proxy/exec".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            (format!("{pods}/p/eviction"), Verb::Create, Ok(Action::Eviction)),
            (format!("{pods}/p/eviction"), Verb::Get, Err(ApiError::MethodNotAllowed)),
            (format!("{pods}/p/binding"), Verb::Create, Ok(Action::Binding)),
            (format!("{pods}/p/ephemeralcontainers"), Verb::Patch, Ok(Action::EphemeralContainers)),
            (format!("{pods}/p/resize"), Verb::Update, Ok(Action::Resize)),
            (format!("{pods}/p/resize"), Verb::Create, Err(ApiError::MethodNotAllowed)),
            ("/api/v1/namespaces/ns/bindings".to_owned(), Verb::Create, Ok(Action::Object)),
            ("/api/v1/namespaces/ns/bindings".to_owned(), Verb::List, Err(ApiError::MethodNotAllowed)),
            ("/api/v1/namespaces/ns/bindings/b".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/bindings".to_owned(), Verb::Create, Err(ApiError::UnknownPath)),
            (format!("{REVIEWS}/subjectaccessreviews"), Verb::Create, Ok(Action::Object)),
            (format!("{REVIEWS}/subjectaccessreviews"), Verb::List, Err(ApiError::MethodNotAllowed)),
            (format!("{REVIEWS}/subjectaccessreviews/x"), Verb::Get, Err(ApiError::UnknownPath)),
            (format!("{REVIEWS}/subjectaccessreviews/x"), Verb::Create, Err(ApiError::UnknownPath)),
            (format!("{REVIEWS}/watch/subjectaccessreviews"), Verb::Watch, Err(ApiError::UnknownPath)),
            (format!("{REVIEWS}/localsubjectaccessreviews"), Verb::Create, Err(ApiError::UnknownPath)),
            ("/api/v1/componentstatuses/x".to_owned(), Verb::Delete, Err(ApiError::MethodNotAllowed)),
            ("/apis/apps/v1/namespaces/ns/deployments/d/scale".to_owned(), Verb::Update, Ok(Action::Scale)),
            (
                "/apis/apps/v1/namespaces/ns/daemonsets/d/scale".to_owned(),
                Verb::Get,
                Err(ApiError::UnknownPath),
            ),
            ("/api/v1/pods".to_owned(), Verb::List, Ok(Action::Object)),
            ("/api/v1/pods".to_owned(), Verb::DeleteCollection, Err(ApiError::MethodNotAllowed)),
            ("/api/v1/pods/p".to_owned(), Verb::Get, Err(ApiError::UnknownPath)),
            ("/api/v1/namespaces/ns/finalize".to_owned(), Verb::Update, Ok(Action::Finalize)),
            (
                "/apis/certificates.orch.io/v1/certificatesigningrequests/c/approval".to_owned(),
                Verb::Patch,
                Ok(Action::Approval),
            ),
            ("/api/v1/namespaces/ns/nodes".to_owned(), Verb::List, Err(ApiError::UnknownPath)),
            (format!("{pods}/p/log"), Verb::Get, Ok(Action::Log)),
            (format!("{pods}/p/log"), Verb::Create, Err(ApiError::MethodNotAllowed)),
            (format!("{pods}/p/log/x"), Verb::Get, Err(ApiError::UnknownPath)),
            (format!("{pods}/p/exec"), Verb::Create, Ok(Action::Exec)),
            (format!("{pods}/p/attach"), Verb::Get, Ok(Action::Attach)),
            (format!("{pods}/p/portforward"), Verb::Update, Err(ApiError::MethodNotAllowed)),
            (format!("{pods}/p/proxy/a//b/"), Verb::Delete, Ok(Action::Proxy)),
            ("/api/v1/nodes/n/proxy".to_owned(), Verb::Patch, Ok(Action::Proxy)),
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
            (Action::Object, Verb::Delete, options, pod),
            (Action::Object, Verb::DeleteCollection, options, status),
        ] {
            assert_eq!(name(pods.request_type(action, verb)), accepted, "{action:?} {verb:?}");
            assert_eq!(name(pods.response_type(action, verb)), answered, "{action:?} {verb:?}");
        }
        let maps = registry.find("", "v1", "configmaps").unwrap();
        assert_eq!(name(maps.response_type(Action::Object, Verb::Delete)), status);
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
