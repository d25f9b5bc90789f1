//! Bindings: a pod is assigned to a node, through `pods/NAME/binding` or through the collection `bindings`.
//!
//! Owns the way of a binding through the stages: decode, admission, rules, change of the pod, answer. The binding
//! itself is never stored. Admission sees the binding; what it completes there reaches the pod.

use std::sync::Arc;

use orch_raft::Store;
use orch_rules::Action;
use orch_rules::kinds::binding::{bind, obstacle};
use orch_rules::validate::WriteKind;
use orch_rules::validate::tree::Tree;
use orch_schema::apply_defaults;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use super::judged::{Judged, Rejected, Write};
use super::modify::{Attempt, Current};
use super::{Pipeline, Request};
use crate::admission::{Additions, Attributes, Operation, Refused, View};
use crate::error::{ApiError, Subject};
use crate::registry::Resource;
use crate::request::Target;
use crate::status::Status;

/// The collection of bindings, which holds none: a POST to it binds the pod that its body names.
pub(super) const BINDINGS: &str = "bindings";

/// The resource of pods, in the core group.
const PODS: &str = "pods";

impl<S: Store> Pipeline<S> {
    /// POST of a binding.
    pub(super) async fn bind(&self, request: Request<'_>) -> Result<Status, ApiError> {
        let options = self.write_options(request, WriteKind::Plain)?;
        let mut binding = self.incoming(request, options.field_validation)?;
        self.settle_namespace(request, &mut binding)?;
        apply_defaults(&request.resource.schema, request.resource.type_id, &mut binding);
        let name = named_pod(request, &binding)?.to_owned();
        let target = Target { resource: PODS.to_owned(), name, ..request.target.clone() };
        let pod = pod_request(request, &target)?;
        let (mut view, mut additions) = (View::of(&self.store), Additions::default());
        let attributes = Attributes {
            name: &target.name,
            dry_run: options.dry_run,
            ..self.attributes(request, Operation::Create)
        };
        self.mutate(&attributes, Some(&mut binding), &mut view, &mut additions).await?;
        let now = self.ambient.now().seconds_text();
        let errors = request.resource.strategy.validate_create(&self.context(request, &now), &binding);
        let texts: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
        match texts.as_slice() {
            [] => {}
            [text] => return Err(ApiError::Unsupported(text.clone())),
            texts => return Err(ApiError::Unsupported(format!("[{}]", texts.join(", ")))),
        }
        self.validate(&attributes, Some(&binding), &mut view, &mut additions).await?;
        let (binding, additions) = (&binding, &additions);
        let attempt = BindAttempt { pipeline: self, request: pod, binding, attributes, additions };
        let modified = self.modify(pod, &pod.key()?, options.dry_run, attempt).await?;
        match modified {
            Some(_) => Ok(Status::created()),
            None => Err(ApiError::NotFound(pod.subject())),
        }
    }
}

/// The name of the pod that `binding` is for.
fn named_pod<'v>(request: Request<'_>, binding: &'v Value) -> Result<&'v str, ApiError> {
    let name = binding.at("metadata").text("name");
    if request.action == Action::Binding && name != request.target.name {
        let message = "name in URL does not match name in Binding object";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    if name.is_empty() {
        return Err(ApiError::BadRequest("Name parameter required.".to_owned()));
    }
    Ok(name)
}

/// `request` as one for the pod that `target` names.
pub(super) fn pod_request<'a>(request: Request<'a>, target: &'a Target) -> Result<Request<'a>, ApiError> {
    let found: Option<&'a Arc<Resource>> = request.registry.find(&target.group, &target.version, PODS);
    let resource = found.ok_or(ApiError::UnknownPath)?;
    Ok(Request { target, resource, action: Action::Object, ..request })
}

/// A binding of a stored pod.
struct BindAttempt<'a, S> {
    pipeline: &'a Pipeline<S>,
    /// The request for the pod.
    request: Request<'a>,
    binding: &'a Value,
    /// The binding as plugins see it.
    attributes: Attributes<'a>,
    /// The plugins' additions, made once for the binding.
    additions: &'a Additions,
}

impl<S: Store> Attempt for BindAttempt<'_, S> {
    async fn judge(&mut self, current: Current<'_>) -> Result<Judged, Rejected> {
        let BindAttempt { pipeline, request, binding, additions, .. } = *self;
        let Current { value: mut pod, .. } = current;
        check_preconditions(request, binding, &pod)?;
        if let Some(reason) = obstacle(&pod) {
            let kind = format!("{PODS}/{}", Action::Binding.subresource());
            let conflict = ApiError::Conflict { subject: Subject { kind, ..request.subject() }, reason };
            return Err(conflict.into());
        }
        bind(&mut pod, binding, &pipeline.ambient.now().seconds_text());
        let put = pipeline.put(request.resource, request.key()?, &mut pod)?;
        // The plugins are asked about the binding alone.
        Ok(Judged::new(Write::Put(put), Value::Null, None, additions.clone()))
    }

    async fn reserve(&mut self, judged: &mut Judged, view: &View) -> Result<(), Refused> {
        let (attributes, binding) = (&self.attributes, Some(self.binding));
        self.pipeline.admission.reserve(attributes, binding, view, &mut judged.additions)
    }

    fn names_version(&self) -> bool {
        !self.binding.at("metadata").text("resourceVersion").is_empty()
    }
}

/// Refuses a binding whose uid or `resourceVersion` is not that of the pod.
fn check_preconditions(request: Request<'_>, binding: &Value, pod: &Value) -> Result<(), ApiError> {
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (given, found) = (binding.at("metadata").text(field), pod.at("metadata").text(field));
        if given.is_empty() || given == found {
            continue;
        }
        let reason = format!(
            "StorageError: invalid object, Code: 4, Key: {PODS}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {name} in precondition: {}, {name} in object meta: {found}",
            part(&request.target.namespace),
            part(&request.target.name),
            part(given)
        );
        return Err(ApiError::Conflict { subject: request.subject(), reason });
    }
    Ok(())
}
