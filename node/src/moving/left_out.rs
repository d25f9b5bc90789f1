//! The kinds and objects that do not move, and those whose namesakes at the target give way.
//!
//! Owns both lists, which docs/guides/move-in.md repeats. What stays behind tells who is alive or in which way the source is reached, or
//! the target writes it itself; what gives way every server makes at its start, with a uid of its own.

use orch_proto::Brand;
use serde_json::Value;

use super::kinds::Kind;

/// The reason why no object of `kind` moves.
pub(super) fn of_kind(brand: &Brand, kind: &Kind, with_events: bool) -> Option<&'static str> {
    let stem = stem(brand, kind);
    match (stem, kind.plural.as_str()) {
        ("coordination", "leases" | "leasecandidates") => {
            Some("leases are held by those who run now, and are taken again")
        }
        ("", "events") if !with_events => Some("events end by themselves (--with-events copies them)"),
        // The same objects as those of core.
        ("events", "events") => Some("they are the events of core"),
        ("certificates", "certificatesigningrequests") => {
            Some("certificates are signed by the authority of the source")
        }
        ("networking", "ipaddresses") => Some("each is written with its service"),
        ("internal.apiserver", _) => Some("they tell of the servers of the source"),
        _ => None,
    }
}

/// The reason why `object` of `kind` does not move, though others of its kind do.
pub(super) fn of_object(brand: &Brand, kind: &Kind, object: &Value) -> Option<&'static str> {
    const OWN: &str = "the target has its own";
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let is_api = namespace == "default" && name == brand.api_service;
    match (stem(brand, kind), kind.plural.as_str()) {
        ("", "services" | "endpoints") | ("discovery", "endpointslices") if is_api => Some(OWN),
        ("", "configmaps") if name == format!("{}-root-ca.crt", brand.component_prefix) => Some(OWN),
        ("", "configmaps") if namespace == brand.system_namespace && is_own_map(brand, name) => Some(OWN),
        ("networking", "servicecidrs") if name == brand.api_service => Some(OWN),
        ("apiregistration", "apiservices") if !object["spec"]["service"].is_object() => Some(OWN),
        ("", "namespaces") if object["metadata"]["deletionTimestamp"].is_string() => {
            Some("it is being deleted at the source")
        }
        _ => None,
    }
}

/// Whether the servers of a cluster keep the config map `name` of the system's namespace for themselves.
fn is_own_map(brand: &Brand, name: &str) -> bool {
    let tracking = format!("{}-apiserver-legacy-service-account-token-tracking", brand.component_prefix);
    name == "extension-apiserver-authentication" || name == tracking
}

/// Whether a target makes an object of this name by itself, so that its own gives way to that of the source.
pub(super) fn gives_way(brand: &Brand, kind: &Kind, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let own_namespaces =
        ["default", brand.system_namespace, brand.public_namespace, brand.node_lease_namespace];
    match (stem(brand, kind), kind.plural.as_str()) {
        // few: four names.
        ("", "namespaces") => own_namespaces.contains(&name),
        ("", "serviceaccounts") => name == "default",
        ("rbac.authorization", _) => metadata["labels"][brand.label("bootstrapping")].is_string(),
        ("flowcontrol.apiserver", _) => true,
        ("scheduling", "priorityclasses") => name.starts_with("system-"),
        _ => false,
    }
}

/// The finalizers that keep `object`, which is being deleted or goes with its namespace, at the source; `None`: nothing outside the
/// servers holds it.
pub(super) fn finalizers(brand: &Brand, object: &Value) -> Option<String> {
    let own = ["foregroundDeletion", "orphan", brand.namespace_finalizer];
    let parts = ["metadata", "spec"].into_iter();
    let names = parts.flat_map(|part| object[part]["finalizers"].as_array().into_iter().flatten());
    // few: three names.
    let names: Vec<&str> = names.filter_map(Value::as_str).filter(|name| !own.contains(name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Whether `object` is a secret with a token that the source has signed.
pub(super) fn is_token(brand: &Brand, kind: &Kind, object: &Value) -> bool {
    let is_secret = kind.group.is_empty() && kind.plural == "secrets";
    is_secret && object["type"] == brand.label("service-account-token").as_str()
}

/// The group of `kind` without the domain of built-in groups; empty for core, and the whole name for groups of definitions.
pub(super) fn stem<'a>(brand: &Brand, kind: &'a Kind) -> &'a str {
    let stem = kind.group.strip_suffix(brand.group_domain).and_then(|stem| stem.strip_suffix('.'));
    stem.unwrap_or(&kind.group)
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};
    use serde_json::json;

    use super::*;

    fn kind(group: &str, plural: &str) -> Kind {
        let text = |text: &str| text.to_owned();
        Kind {
            group: text(group),
            version: text("v1"),
            plural: text(plural),
            kind: text("K"),
            namespaced: true,
        }
    }

    #[test]
    fn leases_events_and_what_the_target_has_itself_stay_behind() {
        let leases = kind("coordination.k8s.io", "leases");
        assert!(of_kind(&KUBERNETES, &leases, false).is_some());
        assert!(of_kind(&ORCH, &leases, false).is_none(), "a group of a definition there");
        let events = kind("", "events");
        assert!(of_kind(&ORCH, &events, false).is_some() && of_kind(&ORCH, &events, true).is_none());
        let named = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        let services = kind("", "services");
        assert!(of_object(&KUBERNETES, &services, &named("default", "kubernetes")).is_some());
        assert!(of_object(&KUBERNETES, &services, &named("shop", "kubernetes")).is_none());
        let maps = kind("", "configmaps");
        assert!(of_object(&KUBERNETES, &maps, &named("shop", "kube-root-ca.crt")).is_some());
        let local = json!({"metadata": {"name": "v1."}, "spec": {}});
        assert!(of_object(&ORCH, &kind("apiregistration.orch.io", "apiservices"), &local).is_some());
    }

    #[test]
    fn finalizers_of_others_are_named_and_those_of_servers_are_not() {
        let held = json!({"metadata": {"finalizers": ["example.com/a", "orphan"]}, "spec": {"finalizers": ["orch"]}});
        assert_eq!(finalizers(&ORCH, &held).as_deref(), Some("example.com/a"));
        assert_eq!(finalizers(&ORCH, &json!({"spec": {"finalizers": ["orch"]}})), None);
    }

    #[test]
    fn objects_that_every_server_makes_give_way() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        let namespaces = kind("", "namespaces");
        assert!(gives_way(&KUBERNETES, &namespaces, &named("kube-system")));
        assert!(!gives_way(&KUBERNETES, &namespaces, &named("shop")));
        assert!(gives_way(&ORCH, &kind("", "serviceaccounts"), &named("default")));
        let roles = kind("rbac.authorization.orch.io", "clusterroles");
        let bootstrapped =
            json!({"metadata": {"name": "r", "labels": {"orch.io/bootstrapping": "rbac-defaults"}}});
        assert!(gives_way(&ORCH, &roles, &bootstrapped) && !gives_way(&ORCH, &roles, &named("r")));
    }
}
