//! Rights that a policy needs of its writer: whose parameters it reads.
//!
//! Owns that refusal: expressions show what they read in messages, so that a policy must not read for its writer what the
//! writer may not. Members of `system:masters` are not asked. As in the reference this is no plugin and cannot be turned off.

use orch_rules::validate::tree::Tree;
use orch_rules::validate::{FieldError, Path};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::UNJUDGED;
use crate::admission::{Attributes, Operation, Refusal, View};
use crate::authn::GROUP_MASTERS;
use crate::authz::{Attributes as Wanted, ResourceAttributes};
use crate::error::{ApiError, Subject};

const ALL: &str = "*";

/// A kind of parameters as authorizers are asked about it; stars where it is not known.
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

/// Refuses a policy or binding, as mutating admission left it, by which its writer would read parameters without the right
/// to. An update that names the same ones is not asked about.
///
/// # Errors
/// The refusal.
pub(in crate::admission) async fn confirm_params(
    attributes: &Attributes<'_>,
    object: &Value,
    view: &View,
) -> Result<(), Refusal> {
    let writes = [Operation::Create, Operation::Update];
    // few: four kinds.
    if !UNJUDGED.into_iter().any(|kind| attributes.is(kind, &writes)) {
        return Ok(());
    }
    let is_binding = attributes.resource.plural.ends_with("bindings");
    let field = if is_binding { "paramRef" } else { "paramKind" };
    let given = object.at("spec").at(field);
    let is_known = attributes.old.is_some_and(|old| old.at("spec").at(field) == given);
    if given.is_null() || is_known || attributes.user.is_in_group(GROUP_MASTERS) {
        return Ok(());
    }
    let name = object.at("metadata").text("name");
    let reason = match is_binding {
        true => refused_binding(attributes, object.at("spec"), view).await,
        false => refused_policy(attributes, given, view).await,
    };
    let Some(reason) = reason else { return Ok(()) };
    let errors = FieldError::forbidden(Path::new("spec").child(field), &reason).into();
    Err(Refusal::Error(ApiError::Invalid { subject: Subject::kind(attributes.resource, name), errors }))
}

async fn refused_policy(attributes: &Attributes<'_>, kind: &Value, view: &View) -> Option<String> {
    let of = named(attributes, kind);
    let asked = asked(&of, "get", ALL, ALL);
    if may(attributes, asked, view).await {
        return None;
    }
    Some(format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        quoted(&attributes.user.name),
        kind.text("kind"),
        kind.text("apiVersion")
    ))
}

async fn refused_binding(attributes: &Attributes<'_>, spec: &Value, view: &View) -> Option<String> {
    // The policies of a kind stand under the name of their bindings' kind.
    let policies = attributes.resource.storage.replace("policybindings.", "policies.");
    let policy = view.find(&policies, "", spec.text("policyName"));
    let kind = policy.as_ref().map(|policy| policy.at("spec").at("paramKind")).filter(|kind| !kind.is_null());
    let of = kind.map_or(Kind { group: ALL, version: ALL, resource: ALL }, |kind| named(attributes, kind));
    let reference = spec.at("paramRef");
    let (verb, name) = match reference.text("name") {
        "" => ("list", ALL),
        name => ("get", name),
    };
    let namespace = if reference.text("namespace").is_empty() { ALL } else { reference.text("namespace") };
    if may(attributes, asked(&of, verb, namespace, name), view).await {
        return None;
    }
    let user = quoted(&attributes.user.name);
    Some(format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"))
}

fn named<'a>(attributes: &Attributes<'a>, kind: &'a Value) -> Kind<'a> {
    let api_version = kind.text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = attributes.registry.find_kind(group, version, kind.text("kind"));
    Kind { group, version, resource: resource.map_or(ALL, |resource| &resource.plural) }
}

fn asked<'a>(of: &Kind<'a>, verb: &'a str, namespace: &'a str, name: &'a str) -> ResourceAttributes<'a> {
    let Kind { group, version, resource } = *of;
    ResourceAttributes { verb, group, version, resource, namespace, name, ..ResourceAttributes::default() }
}

async fn may(attributes: &Attributes<'_>, asked: ResourceAttributes<'_>, view: &View) -> bool {
    let ruling = attributes.gate.rule(attributes.user, Wanted::Resource(asked), view.applied()).await;
    ruling.is_allowed()
}
