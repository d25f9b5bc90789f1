//! Replacing objects without saying which version: the kinds of which that is refused, and what is answered.

use std::collections::BTreeSet;

use super::*;

/// Resources of which the reference replaces no object without its version (`AllowUnconditionalUpdate` of their strategies).
const CONDITIONAL: [&str; 15] = [
    "apiservices.apiregistration.orch.io",
    "csidrivers.storage.orch.io",
    "csinodes.storage.orch.io",
    "csistoragecapacities.storage.orch.io",
    "customresourcedefinitions.apiextensions.orch.io",
    "leases.coordination.orch.io",
    "mutatingadmissionpolicies.admissionregistration.orch.io",
    "mutatingadmissionpolicybindings.admissionregistration.orch.io",
    "mutatingwebhookconfigurations.admissionregistration.orch.io",
    "poddisruptionbudgets.policy",
    "runtimeclasses.node.orch.io",
    "validatingadmissionpolicies.admissionregistration.orch.io",
    "validatingadmissionpolicybindings.admissionregistration.orch.io",
    "validatingwebhookconfigurations.admissionregistration.orch.io",
    "volumeattachments.storage.orch.io",
];

/// Resources of which a PUT of an absent name creates the object (`AllowCreateOnUpdate`).
const CREATED_BY_PUT: [&str; 11] = [
    "clusterrolebindings.rbac.authorization.orch.io",
    "clusterroles.rbac.authorization.orch.io",
    "endpoints",
    "events",
    "events.events.orch.io",
    "leases.coordination.orch.io",
    "limitranges",
    "rolebindings.rbac.authorization.orch.io",
    "roles.rbac.authorization.orch.io",
    "runtimeclasses.node.orch.io",
    "services",
];

#[test]
fn the_kinds_that_are_replaced_by_version_and_created_by_put_are_those_of_the_reference() {
    let registry = Registry::builtin(&ORCH);
    let named = |is: fn(&orch_schema::resource::Rules) -> bool| -> BTreeSet<String> {
        let found = registry.resources().filter(|resource| is(&resource.rules));
        let name = |plural: &str, group: &str| match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        found.map(|resource| name(&resource.plural, &resource.group)).collect()
    };
    let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    assert_eq!(named(|rules| rules.conditional_update), set(&CONDITIONAL));
    assert_eq!(named(|rules| rules.create_on_update), set(&CREATED_BY_PUT));
}

#[tokio::test(start_paused = true)]
async fn an_object_of_such_a_kind_is_replaced_by_those_who_say_which_version() {
    let server = Server::new().await;
    let put = async |path: &str, object: &Value| {
        server.send(Method::PUT, path, &[], Body::from(object.to_string())).await
    };
    let path = "/apis/node.orch.io/v1/runtimeclasses/sandbox";
    let class = json!({"metadata": {"name": "sandbox"}, "handler": "runsc"});
    let created = put(path, &class).await;
    assert_eq!(created.code, StatusCode::CREATED, "{}", created.text);
    for version in [json!(null), json!("0")] {
        let mut again = class.clone();
        again["metadata"]["resourceVersion"] = version;
        let refused = put(path, &again).await;
        let told = r#"runtimeclasses.node.orch.io "sandbox" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"#;
        assert_eq!((refused.code.as_u16(), &refused.json()["message"]), (422, &json!(told)));
    }
    let mut named = class.clone();
    named["metadata"]["resourceVersion"] = created.json()["metadata"]["resourceVersion"].clone();
    named["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(put(path, &named).await.code, StatusCode::OK);
    assert_eq!(put(path, &named).await.code, StatusCode::CONFLICT, "of another version");

    let path = "/apis/scheduling.orch.io/v1/priorityclasses/high";
    let class = json!({"metadata": {"name": "high"}, "value": 7});
    assert_eq!(put(path, &class).await.code, StatusCode::NOT_FOUND);
    server.create("/apis/scheduling.orch.io/v1/priorityclasses", class.clone()).await;
    assert_eq!(put(path, &class).await.code, StatusCode::OK, "without a version");
}
