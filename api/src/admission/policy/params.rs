//! Parameters of policies: objects of any kind, by name or by labels.
//!
//! Owns where they are looked for, and what their absence means. They are shown in the version that the policy names.

use std::sync::Arc;

use orch_raft::Key;
use orch_raft::object::SharedObject;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_spans::ActiveSpan;

use super::prepared::{ParamRef, Which};
use crate::admission::matching::stored_in;
use crate::admission::{Attributes, View};
use crate::registry::Resource;
use crate::selector::StoredLabels;

/// The parameters of one evaluation each; `None` for one without.
pub(super) type Params = Vec<Option<Value>>;

/// The resource of the kind of parameters.
///
/// # Errors
/// There is none, in the words of the reference.
pub(super) fn resource<'a>(
    attributes: &Attributes<'a>,
    (api_version, kind): (&str, &str),
) -> Result<&'a Arc<Resource>, String> {
    attributes.registry.find_named(api_version, kind).ok_or_else(|| {
        let version =
            if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
        format!("failed to find resource referenced by paramKind: '{version}, Kind={kind}'")
    })
}

/// The parameters that `reference` names, of the kind of `resource`, for a write in `namespace`.
///
/// # Errors
/// They cannot be looked for, or there are none and that is an error.
pub(super) async fn collect(
    resource: &Arc<Resource>,
    reference: &ParamRef,
    namespace: &str,
    view: &View,
    trace: Option<&ActiveSpan>,
) -> Result<Params, String> {
    let namespace = match (resource.namespaced, &*reference.namespace) {
        (true, "") if namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            );
        }
        (true, "") => namespace,
        (true, own) => own,
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    let found = find(resource, reference, namespace, view);
    if found.is_empty() && reference.denies_absence {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    let mut params = Params::with_capacity(found.len());
    for object in found {
        params.push(Some(stored_in(resource, &object, trace).await?));
    }
    Ok(params)
}

fn find(resource: &Resource, reference: &ParamRef, namespace: &str, view: &View) -> Vec<SharedObject> {
    let state = &view.applied().state;
    match &reference.which {
        Which::Named(name) => {
            let key = Key::new(&resource.storage, namespace, name).ok();
            key.and_then(|key| state.object(&key).cloned()).into_iter().collect()
        }
        Which::Selected(selector) => {
            let within = state.collection(&resource.storage);
            let objects = within.within(namespace, "").map(|(_, object)| object);
            let selected = objects.filter(|object| selector.matches(&StoredLabels::of(object)));
            selected.cloned().collect()
        }
    }
}

/// The name of a parameter, for the keys of evaluations.
pub(super) fn name_of(param: Option<&Value>) -> String {
    let Some(metadata) = param.map(|param| param.at("metadata")) else { return String::new() };
    format!("{}/{}", metadata.text("namespace"), metadata.text("name"))
}
