//! `ServiceAccount`: pods run as a service account of their namespace, which must exist, and mount a token of it.
//!
//! Owns the default account, the mounted volume, pull secrets of the account, and the secrets that mirror pods and accounts
//! with mountable secrets may refer to. The loops `service_accounts` and `root_ca` make the account and the config map that
//! pods depend on; a pod that comes before its namespace's default account waits for it.

use std::sync::Arc;

use orch_proto::Brand;
use orch_rules::Action;
use orch_rules::validate::tree::{Tree, child_mut, items_mut, object_mut, set};
use orch_schema::json;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::ambient::{Ambient, suffix_text};

/// Name of the plugin.
pub(crate) const NAME: &str = "ServiceAccount";

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// Life in seconds of mounted tokens: the reference's hour, and seven seconds by which the token request recognizes them.
const MOUNTED_LIFE_S: i64 = 60 * 60 + 7;

/// Mode of the mounted files: 0644.
const FILE_MODE: i64 = 0o644;

/// The word for ephemeral containers in refusals.
const EPHEMERAL: &str = "ephemeral container";

/// Name of the config map that every namespace has, with the authority of the servers: `orch-root-ca.crt`.
pub(crate) fn root_ca_config_map(brand: &Brand) -> String {
    format!("{}-root-ca.crt", brand.component_prefix)
}

pub(super) struct ServiceAccount {
    /// Gives the random part of the volume's name.
    pub(super) ambient: Arc<dyn Ambient>,
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create]) || adds_ephemeral_containers(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        // The account of a stored pod is settled.
        rule(match adds_ephemeral_containers(attributes) {
            true => Ok(()),
            false => complete(attributes, pod, view, || self.ambient.random()),
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(pod.map_or(Ok(()), |pod| match adds_ephemeral_containers(attributes) {
            true => check_ephemeral_containers(attributes, pod, view),
            false => check(attributes, pod, view),
        }))
    }
}

/// Whether the write may only add ephemeral containers to a pod.
fn adds_ephemeral_containers(attributes: &Attributes<'_>) -> bool {
    *attributes.resource.storage == *"pods"
        && attributes.action == Action::EphemeralContainers
        && attributes.operation == Operation::Update
}

/// Completes a new pod from its account. A refusal leaves the pod as it was.
fn complete(
    attributes: &Attributes<'_>,
    pod: &mut Value,
    view: &View,
    random: impl Fn() -> u128,
) -> Result<(), Refusal> {
    let (brand, namespace) = (attributes.brand, attributes.namespace);
    if is_mirror(brand, pod) {
        return check(attributes, pod, view);
    }
    let name = match pod.at("spec").text("serviceAccountName") {
        "" => DEFAULT_ACCOUNT.to_owned(),
        name => name.to_owned(),
    };
    let account = find(view, namespace, &name)?;
    if is_limited(brand, &account) {
        check_references(&account, pod).map_err(Refusal::Forbidden)?;
    }
    let spec = child_mut(pod, "spec");
    for field in ["serviceAccountName", "serviceAccount"] {
        set(spec, field, name.as_str());
    }
    let preferences = [&*spec, &account].map(|of| of.at("automountServiceAccountToken").as_bool());
    if preferences.into_iter().flatten().next().unwrap_or(true) {
        mount_token(brand, spec, random);
    }
    if spec.items("imagePullSecrets").is_empty() && !account.items("imagePullSecrets").is_empty() {
        let names =
            account.items("imagePullSecrets").iter().map(|secret| json!({"name": secret.text("name")}));
        set(spec, "imagePullSecrets", names.collect::<Vec<_>>());
    }
    Ok(())
}

fn check(attributes: &Attributes<'_>, pod: &Value, view: &View) -> Result<(), Refusal> {
    let (brand, namespace) = (attributes.brand, attributes.namespace);
    if is_mirror(brand, pod) {
        return check_mirror(pod).map_err(|reason| Refusal::Forbidden(reason.to_owned()));
    }
    let account = account_of(pod, namespace, view)?;
    if is_limited(brand, &account) {
        check_references(&account, pod).map_err(Refusal::Forbidden)?;
    }
    Ok(())
}

/// Checks the ephemeral containers of a pod. The rest of it was checked when it was made.
fn check_ephemeral_containers(attributes: &Attributes<'_>, pod: &Value, view: &View) -> Result<(), Refusal> {
    let account = account_of(pod, attributes.namespace, view)?;
    if !is_limited(attributes.brand, &account) {
        return Ok(());
    }
    let containers = pod.at("spec").items("ephemeralContainers").iter();
    check_containers(&account, containers.map(|container| (EPHEMERAL, container))).map_err(Refusal::Forbidden)
}

/// The account that a pod names.
fn account_of(pod: &Value, namespace: &str, view: &View) -> Result<Value, Refusal> {
    let name = pod.at("spec").text("serviceAccountName");
    if name.is_empty() {
        let pod = pod.at("metadata").text("name");
        return Err(Refusal::Forbidden(format!("no service account specified for pod {namespace}/{pod}")));
    }
    find(view, namespace, name)
}

/// The service account. The loop that makes default accounts may be about to make one that is absent.
fn find(view: &View, namespace: &str, name: &str) -> Result<Value, Refusal> {
    view.find("serviceaccounts", namespace, name).ok_or_else(|| {
        let reason =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        if name == DEFAULT_ACCOUNT { Refusal::Awaited(reason) } else { Refusal::Forbidden(reason) }
    })
}

/// Whether the pod is the image of a static pod, which a kubelet runs without the API: it depends on no object.
fn is_mirror(brand: &Brand, pod: &Value) -> bool {
    pod.at("metadata").at("annotations").has(&brand.label("config.mirror"))
}

fn check_mirror(pod: &Value) -> Result<(), &'static str> {
    if !pod.at("spec").text("serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if refers_to_secrets(pod.at("spec")) {
        return Err("a mirror pod may not reference secrets");
    }
    let mut sources = volumes(pod.at("spec")).flat_map(|volume| volume.at("projected").items("sources"));
    // once: the sources of a pod.
    if sources.any(|source| source.at("serviceAccountToken").is_object()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn volumes(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.items("volumes").iter()
}

/// The containers of each kind, with the words by which refusals name the kind.
fn containers(spec: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    [("init container", "initContainers"), ("container", "containers"), (EPHEMERAL, "ephemeralContainers")]
        .into_iter()
        .flat_map(|(kind, field)| spec.items(field).iter().map(move |container| (kind, container)))
}

/// Whether the pod refers to a secret anywhere.
fn refers_to_secrets(spec: &Value) -> bool {
    // once: the containers of a mirror pod, and the variables of each.
    let is_by_container = containers(spec).any(|(_, container)| {
        let mut all = container.items("envFrom").iter();
        let mut each = container.items("env").iter();
        // once: see above.
        all.any(|from| from.at("secretRef").is_object())
            // once: see above.
            || each.any(|variable| variable.at("valueFrom").at("secretKeyRef").is_object())
    });
    // once: the volumes of a mirror pod, and the sources of each.
    let is_by_volume = volumes(spec).any(|volume| {
        let of_source = |source: &Value| {
            !source.text("secretName").is_empty()
                || source.at("secretRef").is_object()
                || source.at("nodePublishSecretRef").is_object()
        };
        volume.at("secret").is_object()
            // once: see above.
            || volume.at("projected").items("sources").iter().any(|source| source.at("secret").is_object())
            || volume.as_object().is_some_and(|fields| fields.values().any(of_source))
    });
    is_by_container || is_by_volume || !spec.items("imagePullSecrets").is_empty()
}

/// Whether pods of the account may only refer to the secrets that the account lists.
fn is_limited(brand: &Brand, account: &Value) -> bool {
    let annotation = brand.label("enforce-mountable-secrets");
    let value = account.at("metadata").at("annotations").text(&annotation);
    // few: the spellings of true.
    ["1", "t", "T", "TRUE", "true", "True"].contains(&value)
}

/// Refuses references to secrets that the account does not list. Secrets in projected volumes are not checked, as in the
/// reference.
fn check_references(account: &Value, pod: &Value) -> Result<(), String> {
    let (spec, of) = (pod.at("spec"), account.at("metadata").text("name"));
    let mountable = listed(account, "secrets");
    for source in volumes(spec).map(|volume| volume.at("secret")).filter(|source| source.is_object()) {
        let name = source.text("secretName");
        if !mountable.contains(name) {
            return Err(unlisted(of, &format!("volume with secret.secretName=\"{name}\"")));
        }
    }
    check_containers(account, containers(spec))?;
    let pullable = listed(account, "imagePullSecrets");
    for (at, secret) in spec.items("imagePullSecrets").iter().enumerate() {
        let name = secret.text("name");
        if !pullable.contains(name) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account {of} does not reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

/// Refuses variables from secrets that the account does not list. Each container comes with the word for its kind.
fn check_containers<'a>(
    account: &Value,
    containers: impl Iterator<Item = (&'static str, &'a Value)>,
) -> Result<(), String> {
    let of = account.at("metadata").text("name");
    let mountable = listed(account, "secrets");
    for (kind, container) in containers {
        for variable in container.items("env") {
            let wanted = variable.at("valueFrom").at("secretKeyRef");
            let name = wanted.text("name");
            if wanted.is_object() && !mountable.contains(name) {
                let (container, variable) = (container.text("name"), variable.text("name"));
                let subject = format!(
                    "{kind} {container} with envVar {variable} referencing secret.secretName=\"{name}\""
                );
                return Err(unlisted(of, &subject));
            }
        }
        for from in container.items("envFrom") {
            let wanted = from.at("secretRef");
            let name = wanted.text("name");
            if wanted.is_object() && !mountable.contains(name) {
                let container = container.text("name");
                let subject =
                    format!("{kind} {container} with envFrom referencing secret.secretName=\"{name}\"");
                return Err(unlisted(of, &subject));
            }
        }
    }
    Ok(())
}

/// The names in a list of secrets of the account.
fn listed<'a>(account: &'a Value, list: &str) -> hashbrown::HashSet<&'a str> {
    account.items(list).iter().map(|secret| secret.text("name")).collect()
}

/// The refusal of a reference to a secret that the account `of` does not list.
fn unlisted(of: &str, subject: &str) -> String {
    format!("{subject} is not allowed because service account {of} does not reference that secret")
}

/// Mounts the volume of a token in each container that mounts nothing in its place, and adds the volume if one does.
fn mount_token(brand: &Brand, spec: &mut Value, random: impl Fn() -> u128) {
    let prefix = format!("{}-api-access-", brand.component_prefix);
    let place = format!("/var/run/secrets/{}/serviceaccount", brand.label_domain);
    // once: the volumes of a pod.
    let existing = volumes(spec).map(|volume| volume.text("name")).find(|name| name.starts_with(&prefix));
    let (is_new, name) = (existing.is_none(), existing.map(str::to_owned));
    let name = name.unwrap_or_else(|| format!("{prefix}{}", suffix_text(random())));
    let mut is_mounted = false;
    for field in ["initContainers", "containers"] {
        for container in items_mut(spec, field) {
            let mut mounts = container.items("volumeMounts").iter();
            // few: one pass over the mounts of one container, for one path.
            if mounts.any(|mount| mount.text("mountPath") == place) {
                continue;
            }
            push(
                container,
                "volumeMounts",
                json!({"name": name.as_str(), "readOnly": true, "mountPath": place.as_str()}),
            );
            is_mounted = true;
        }
    }
    if is_new && is_mounted {
        push(spec, "volumes", volume(brand, &name));
    }
}

/// The volume with a token, the authority of the servers, and the namespace.
fn volume(brand: &Brand, name: &str) -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": MOUNTED_LIFE_S, "path": "token"}},
                {"configMap": {"name": root_ca_config_map(brand), "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
            ],
            "defaultMode": FILE_MODE,
        },
    })
}

/// Appends to the list in the field `name`.
fn push(value: &mut Value, name: &str, item: Value) {
    let list = object_mut(value).entry(name).or_insert(Value::Null);
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = Value::Array(vec![item]),
    }
}

#[cfg(test)]
mod tests;
