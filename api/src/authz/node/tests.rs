//! Decisions on requests of nodes, with the reference's remarks.

use futures::FutureExt;
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::admission::testing::Objects;
use crate::authn::GROUP_NODES;

fn node(name: &str) -> User {
    User { name: format!("system:node:{name}"), groups: vec![GROUP_NODES.to_owned()], ..User::default() }
}

/// A cluster where node `n1` runs pod `ns/a`, which uses what is called `own`; `n2` runs `ns/b` and uses `other`.
fn cluster() -> Objects {
    let pod = |node: &str, used: &str| {
        json!({"metadata": {"name": "p"}, "spec": {
            "nodeName": node, "serviceAccountName": used, "containers": [],
            "resourceClaims": [{"name": "r", "resourceClaimName": used}],
            "volumes": [
                {"name": "s", "secret": {"secretName": used}},
                {"name": "m", "configMap": {"name": used}},
                {"name": "c", "persistentVolumeClaim": {"claimName": used}},
            ],
        }})
    };
    let volume = |used: &str| {
        json!({"spec": {"claimRef": {"namespace": "ns", "name": used}, "csi": {
            "driver": "d", "nodePublishSecretRef": {"namespace": "vault", "name": used},
        }}})
    };
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    let objects: [(&str, &str, &str, Value); 8] = [
        ("pods", "ns", "a", pod("n1", "own")),
        ("pods", "ns", "b", pod("n2", "other")),
        ("persistentvolumes", "", "own", volume("own")),
        ("persistentvolumes", "", "other", volume("other")),
        ("volumeattachments.storage", "", "own", on("n1")),
        ("volumeattachments.storage", "", "other", on("n2")),
        ("resourceslices.resource", "", "own", on("n1")),
        ("resourceslices.resource", "", "other", on("n2")),
    ];
    let at = |(storage, namespace, name, object): (&str, &str, &str, Value)| {
        ((storage.to_owned(), namespace.to_owned(), name.to_owned()), object)
    };
    Objects(objects.into_iter().map(at).collect())
}

/// `verb group/resource/subresource namespace name`, each part possibly `-` for none.
fn asked(text: &'static str, selector: &'static str) -> ResourceAttributes<'static> {
    let parts: Vec<&str> = text.split(' ').map(|part| if part == "-" { "" } else { part }).collect();
    let [verb, resource, namespace, name] = parts[..] else { panic!("{text}") };
    let (group, resource) = resource.split_once('/').expect("a group, possibly empty");
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let field_selector = selector;
    ResourceAttributes {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
        field_selector,
        ..Default::default()
    }
}

/// The decision, with the graph built on the way.
fn decide(authorizer: &NodeAuthorizer, user: &User, asked: Attributes<'_>, applied: &Applied) -> Decision {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(authorizer.decide(user, asked, applied))
}

fn ask(user: &User, asked: ResourceAttributes<'_>) -> Result<(), String> {
    let view = cluster().view("ns");
    match decide(&NodeAuthorizer::new(&ORCH), user, Attributes::Resource(asked), view.applied()) {
        Decision::Allow(_) => Ok(()),
        Decision::NoOpinion(remark) => Err(remark),
        other => panic!("the authorizer allows or has no opinion: {other:?}"),
    }
}

#[track_caller]
fn check(requests: &[(&'static str, Result<(), &str>)]) {
    for (text, expected) in requests {
        let decided = ask(&node("n1"), asked(text, ""));
        assert_eq!(decided, expected.map_err(str::to_owned), "{text}");
    }
}

const UNRELATED: Result<(), &str> = Err("no relationship found between node 'n1' and this object");

#[test]
fn objects_are_read_by_the_nodes_whose_pods_use_them() {
    let only_get = Err("can only get individual resources of this type");
    check(&[
        ("get /secrets ns own", Ok(())),
        ("list /secrets ns own", Ok(())),
        ("watch /configmaps ns own", Ok(())),
        ("get /secrets ns other", UNRELATED),
        ("get /secrets vault own", Ok(())),
        ("get /secrets vault other", UNRELATED),
        ("get /secrets m own", UNRELATED),
        ("get /configmaps ns none", UNRELATED),
        ("list /secrets ns -", Err("No Object name found")),
        ("list /secrets - -", Err("can only read namespaced object of this type")),
        ("get /secrets/x ns own", Err("cannot read subresource")),
        ("patch /secrets ns own", Err("can only read resources of this type")),
        ("get /persistentvolumeclaims ns own", Ok(())),
        ("get /persistentvolumeclaims ns other", UNRELATED),
        ("list /persistentvolumeclaims ns own", only_get),
        ("update /persistentvolumeclaims/status ns own", Ok(())),
        ("patch /persistentvolumeclaims/status ns other", UNRELATED),
        ("get /persistentvolumeclaims/status ns own", Err("can only get/update/patch this type")),
        ("get /persistentvolumes - own", Ok(())),
        ("get /persistentvolumes - other", UNRELATED),
        ("get /persistentvolumes/status - own", Err("cannot get subresource")),
        ("get resource.orch.io/resourceclaims ns own", Ok(())),
        ("get resource.orch.io/resourceclaims ns other", UNRELATED),
        ("get storage.orch.io/volumeattachments - own", Ok(())),
        ("get storage.orch.io/volumeattachments - other", UNRELATED),
        ("list storage.orch.io/volumeattachments - -", only_get),
    ]);
}

#[test]
fn a_node_asks_for_tokens_of_the_accounts_of_its_pods() {
    let only_tokens = Err("can only create tokens for individual service accounts");
    check(&[
        ("get /serviceaccounts ns own", Ok(())),
        ("get /serviceaccounts ns other", UNRELATED),
        ("list /serviceaccounts ns -", only_tokens),
        ("create /serviceaccounts ns -", only_tokens),
        ("create /serviceaccounts ns own", Err("can only create token subresource of serviceaccount")),
        ("create /serviceaccounts/token ns own", Ok(())),
        ("create /serviceaccounts/token ns other", UNRELATED),
    ]);
}

#[test]
fn nodes_and_pods_are_read_and_written_as_the_reference_allows() {
    let all = Err("node 'n1' cannot read all nodes, only its own Node object");
    let other = Err("node 'n1' cannot read 'n2', only its own Node object");
    let list = Err("can only list/watch pods with spec.nodeName field selector");
    check(&[
        ("get /nodes - n1", Ok(())),
        ("watch /nodes - n1", Ok(())),
        ("get /nodes - n2", other),
        ("list /nodes - -", all),
        ("create /nodes - -", Ok(())),
        ("patch /nodes - n2", Ok(())),
        ("update /nodes/status - n1", Ok(())),
        ("get /nodes/status - n1", Err("")),
        ("delete /nodes - n1", Err("")),
        ("get /pods ns a", Ok(())),
        ("get /pods ns b", UNRELATED),
        ("list /pods ns a", Ok(())),
        ("list /pods - -", list),
        ("create /pods ns -", Ok(())),
        ("delete /pods ns b", Ok(())),
        ("patch /pods ns a", Err("")),
        ("patch /pods/status ns a", Ok(())),
        ("create /pods/eviction ns a", Ok(())),
        ("create /pods/binding ns a", Err("")),
    ]);
    for (selector, expected) in [
        ("spec.nodeName=n1", Ok(())),
        ("status.phase!=Failed,spec.nodeName=n1", Ok(())),
        ("spec.nodeName=n2", list),
        ("spec.nodeName!=n1", list),
    ] {
        let decided = ask(&node("n1"), asked("list /pods - -", selector));
        assert_eq!(decided, expected.map_err(str::to_owned), "{selector}");
    }
}

#[test]
fn objects_with_the_name_of_a_node_are_its_own() {
    let lease = Err("can only access node lease with the same name as the requesting node");
    let verbs = Err("can only get, create, update, patch, or delete a node lease");
    let csi_node = Err("can only access CSINode with the same name as the requesting node");
    check(&[
        ("create coordination.orch.io/leases orch-node-lease -", Ok(())),
        ("update coordination.orch.io/leases orch-node-lease n1", Ok(())),
        ("get coordination.orch.io/leases orch-node-lease n2", lease),
        ("list coordination.orch.io/leases orch-node-lease n1", verbs),
        (
            "get coordination.orch.io/leases ns n1",
            Err("can only access leases in the \"orch-node-lease\" system namespace"),
        ),
        ("create storage.orch.io/csinodes - -", Ok(())),
        ("get storage.orch.io/csinodes - n1", Ok(())),
        ("get storage.orch.io/csinodes - n2", csi_node),
        (
            "watch storage.orch.io/csinodes - n1",
            Err("can only get, create, update, patch, or delete a CSINode"),
        ),
        ("get storage.orch.io/csinodes/status - n1", Err("cannot authorize CSINode subresources")),
        ("create resource.orch.io/resourceslices - -", Ok(())),
        ("delete resource.orch.io/resourceslices - own", Ok(())),
        ("get resource.orch.io/resourceslices - other", UNRELATED),
        (
            "deletecollection resource.orch.io/resourceslices - -",
            Err("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        ),
        (
            "escalate resource.orch.io/resourceslices - own",
            Err(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        ),
        ("get resource.orch.io/resourceslices/x - own", Err("cannot authorize ResourceSlice subresources")),
    ]);
    let selected = asked("list resource.orch.io/resourceslices - -", "spec.nodeName=n1");
    assert_eq!(ask(&node("n1"), selected), Ok(()));
}

#[test]
fn the_rest_is_decided_by_the_rules_of_all_nodes() {
    check(&[
        ("list /services - -", Ok(())),
        ("create events.orch.io/events ns -", Ok(())),
        ("create certificates.orch.io/certificatesigningrequests - -", Ok(())),
        ("list storage.orch.io/csidrivers - -", Ok(())),
        ("list rbac.authorization.orch.io/roles ns -", Err("")),
        ("get coordination/leases orch-node-lease n1", Err("")),
        ("create certificates.orch.io/podcertificaterequests ns -", Err("")),
    ]);
    let path = Attributes::Path { verb: "get", path: "/metrics" };
    let view = cluster().view("ns");
    let decided = decide(&NodeAuthorizer::new(&ORCH), &node("n1"), path, view.applied());
    assert!(matches!(&decided, Decision::NoOpinion(remark) if remark.is_empty()), "{decided:?}");
}

#[test]
fn a_node_is_who_has_the_name_and_the_group() {
    let own = asked("get /nodes - n1", "");
    let named = |name: &str, group: &str| User {
        name: name.to_owned(),
        groups: vec![group.to_owned()],
        ..User::default()
    };
    assert_eq!(ask(&named("system:node:n1", "devs"), own), Err(String::new()));
    assert_eq!(ask(&named("n1", GROUP_NODES), own), Err(String::new()));
    let unknown = Err("unknown node for user \"system:node:\"".to_owned());
    assert_eq!(ask(&named("system:node:", GROUP_NODES), own), unknown);
    let (authorizer, view) = (NodeAuthorizer::new(&ORCH), cluster().view("ns"));
    let asker = node("n1");
    let rules = authorizer.rules_of(&asker, "", view.applied()).now_or_never();
    assert!(rules.is_some_and(|rules| rules.is_incomplete));
}

#[test]
fn mirror_pods_grant_nothing_but_themselves() {
    let Objects(mut objects) = cluster();
    let pod = objects.get_mut(&("pods".to_owned(), "ns".to_owned(), "a".to_owned())).expect("it is there");
    pod["metadata"] = json!({"annotations": {"orch.io/config.mirror": ""}});
    let view = Objects(objects).view("ns");
    let authorizer = NodeAuthorizer::new(&ORCH);
    for (text, expected) in
        [("get /pods ns a", true), ("get /secrets ns own", false), ("get /persistentvolumes - own", false)]
    {
        let decided = decide(&authorizer, &node("n1"), Attributes::Resource(asked(text, "")), view.applied());
        assert_eq!(matches!(decided, Decision::Allow(_)), expected, "{text}");
    }
}
