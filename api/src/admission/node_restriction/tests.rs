//! Writes of nodes, with the reference's refusals.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use orch_schema::json;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;
use crate::admission::testing::{Objects, attributes};
use crate::authn::{GROUP_NODES, User};

/// The cluster's objects, and a write to them by node `n1`.
struct Case {
    objects: Objects,
    user: User,
    storage: &'static str,
    operation: Operation,
    action: Action,
    namespace: &'static str,
    name: &'static str,
    old: Option<Value>,
}

impl Case {
    fn new(storage: &'static str, operation: Operation) -> Case {
        let objects = [
            ("nodes", "", "n1", json!({"metadata": {"name": "n1", "uid": "u1"}})),
            ("pods", "ns", "a", pod("n1", "ua")),
            ("pods", "ns", "b", pod("n2", "ub")),
            ("persistentvolumeclaims", "ns", "disk", json!({"spec": {"volumeName": "v"}})),
            ("persistentvolumeclaims", "ns", "free", json!({"spec": {}})),
            ("persistentvolumes", "", "v", json!({"spec": {"csi": {"driver": "d.example.com"}}})),
            (
                "csidrivers.storage",
                "",
                "d.example.com",
                json!({"spec": {"tokenRequests": [{"audience": "store"}]}}),
            ),
        ];
        let at = |(storage, namespace, name, object): (&str, &str, &str, Value)| {
            ((storage.to_owned(), namespace.to_owned(), name.to_owned()), object)
        };
        Case {
            objects: Objects(objects.into_iter().map(at).collect()),
            user: node("n1"),
            storage,
            operation,
            action: Action::Object,
            namespace: "ns",
            name: "n1",
            old: None,
        }
    }

    fn update(storage: &'static str, old: Value) -> Case {
        Case { old: Some(old), ..Case::new(storage, Operation::Update) }
    }

    /// The refusal of writing `object`, or of a deletion.
    fn refusal(&self, object: Option<&Value>) -> Option<String> {
        let attributes = Attributes {
            user: &self.user,
            action: self.action,
            namespace: self.namespace,
            name: self.name,
            old: self.old.as_ref(),
            ..attributes(self.storage, self.operation)
        };
        let view = self.objects.view("ns");
        assert!(NodeRestriction.handles(&attributes));
        let ruling = judge(&attributes, object, &view).now_or_never().expect("nobody else is asked");
        ruling.err().map(|refusal| match refusal {
            Refusal::Forbidden(reason) | Refusal::Awaited(reason) => reason,
            Refusal::Error(error) | Refusal::Final(error) => format!("{error:?}"),
        })
    }

    #[track_caller]
    fn check(&self, object: Value, expected: Option<&str>) {
        assert_eq!(self.refusal(Some(&object)).as_deref(), expected, "{object}");
    }
}

fn node(name: &str) -> User {
    User { name: format!("system:node:{name}"), groups: vec![GROUP_NODES.to_owned()], ..User::default() }
}

fn pod(node: &str, uid: &str) -> Value {
    let source = json!({"serviceAccountToken": {"path": "t", "audience": "shop"}});
    json!({"metadata": {"name": "a", "namespace": "ns", "uid": uid}, "spec": {"nodeName": node, "volumes": [
        {"name": "t", "projected": {"sources": [source]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "disk"}},
    ]}})
}

/// A mirror pod of `n1`; `change` replaces members of its spec.
fn mirror(change: Value) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true});
    let mut pod = json!({
        "metadata": {"name": "m", "annotations": {"orch.io/config.mirror": "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
    });
    for (member, value) in change.as_object().into_iter().flatten() {
        pod["spec"][member.as_str()] = value.clone();
    }
    pod
}

#[test]
fn nodes_write_their_own_object_without_what_draws_pods() {
    let create = Case::new("nodes", Operation::Create);
    let labelled = |key: &str| json!({"metadata": {"name": "n1", "labels": {key: "v"}}});
    create.check(json!({"metadata": {"name": "n1"}}), None);
    create.check(
        json!({"metadata": {"name": "n1"}, "spec": {"configSource": {}}}),
        Some("node \"n1\" is not allowed to create pods with a non-nil configSource"),
    );
    for label in [
        "own",
        "example.com/x",
        "orch.io/hostname",
        "orch.io/os",
        "beta.orch.io/arch",
        "topology.orch.io/zone",
        "failure-domain.beta.orch.io/region",
        "node.orch.io/anything",
        "my.kubelet.orch.io/x",
        "notorch.io/x",
    ] {
        create.check(labelled(label), None);
    }
    for label in [
        "orch.io/x",
        "app.orch.io/name",
        "beta.orch.io/hostname",
        "topology.orch.io/rack",
        "node-restriction.orch.io/x",
        "my.node-restriction.orch.io/x",
        "node-role.orch.io/control-plane",
    ] {
        let told = format!("node \"n1\" is not allowed to set the following labels: {label}");
        create.check(labelled(label), Some(&told));
    }
    let other = "node \"n1\" is not allowed to modify node \"n2\"";
    Case { name: "n2", ..Case::new("nodes", Operation::Create) }
        .check(json!({"metadata": {"name": "n2"}}), Some(other));
    let generated = "node \"n1\" is not allowed to modify node \"\"";
    create.check(json!({"metadata": {"name": "n1abcde", "generateName": "n1"}}), Some(generated));
    let deletion = Case { name: "n2", ..Case::new("nodes", Operation::Delete) };
    assert_eq!(deletion.refusal(None).as_deref(), Some(other));
}

#[test]
fn nodes_change_neither_taints_nor_owners_nor_labels_of_others() {
    let old = json!({
        "metadata": {"name": "n1", "labels": {"orch.io/kept": "v"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    });
    let update = Case::update("nodes", old.clone());
    let with = |of: &str, member: &str, value: Value| {
        let mut new = old.clone();
        new[of][member] = value;
        new
    };
    update.check(with("spec", "unschedulable", json!(true)), None);
    update.check(with("metadata", "labels", json!({"orch.io/kept": "v", "own": "x"})), None);
    update.check(with("spec", "taints", json!([])), Some("node \"n1\" is not allowed to modify taints"));
    update.check(
        with("metadata", "ownerReferences", json!([{"name": "x"}])),
        Some("node \"n1\" is not allowed to modify ownerReferences"),
    );
    update.check(
        with("spec", "configSource", json!({"configMap": {}, "x": 1})),
        Some("node \"n1\" is not allowed to update configSource to a new non-nil configSource"),
    );
    update.check(
        with("metadata", "labels", json!({"orch.io/new": "v", "orch.io/kept": "w"})),
        Some("is not allowed to modify labels: orch.io/kept, orch.io/new"),
    );
    update
        .check(with("metadata", "labels", json!({})), Some("is not allowed to modify labels: orch.io/kept"));
}

#[test]
fn nodes_create_mirror_pods_that_refer_to_nothing() {
    let create = Case { name: "m", ..Case::new("pods", Operation::Create) };
    create.check(mirror(json!({})), None);
    let lacks =
        "pod does not have \"orch.io/config.mirror\" annotation, node \"n1\" can only create mirror pods";
    create.check(json!({"metadata": {"name": "m"}, "spec": {"nodeName": "n1"}}), Some(lacks));
    create.check(
        mirror(json!({"nodeName": "n2"})),
        Some("node \"n1\" can only create pods with spec.nodeName set to itself"),
    );
    let refers = |what: &str| format!("node \"n1\" can not create pods that reference {what}");
    let volume = |source: &str, value: Value| json!({"volumes": [{"name": "v", source: value}]});
    let projected =
        |source: &str| volume("projected", json!({"sources": [{"downwardAPI": {}}, {source: {"name": ""}}]}));
    let from = |source: &str| json!([{"name": "c", "envFrom": [{source: {"name": "x"}}]}]);
    for (change, what) in [
        (json!({"serviceAccountName": "s"}), "serviceaccounts"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "secrets"),
        (json!({"initContainers": from("secretRef")}), "secrets"),
        (json!({"containers": from("configMapRef")}), "configmaps"),
        (json!({"resourceClaims": [{"name": "r"}]}), "resourceclaims"),
        (volume("secret", json!({"secretName": "s"})), "secrets"),
        (volume("secret", json!({})), "secrets (via secret volumes)"),
        (volume("configMap", json!({})), "configmaps (via configmap volumes)"),
        (volume("csi", json!({"driver": "d"})), "csidrivers (via CSI volumes)"),
        (volume("glusterfs", json!({"endpoints": "e"})), "endpoints (via glusterFS volumes)"),
        (volume("persistentVolumeClaim", json!({"claimName": "c"})), "persistentvolumeclaims"),
        (volume("ephemeral", json!({})), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume("azureFile", json!({"shareName": "s"})), "secrets (via azureFile volumes)"),
        (projected("configMap"), "configmaps (via projected volumes)"),
        (projected("secret"), "secrets (via projected volumes)"),
        (projected("serviceAccountToken"), "serviceaccounts (via projected volumes)"),
        (projected("clusterTrustBundle"), "clustertrustbundles"),
        (projected("podCertificate"), "podcertificates"),
    ] {
        create.check(mirror(change), Some(&refers(what)));
    }
    for source in ["emptyDir", "hostPath", "nfs", "downwardAPI"] {
        create.check(mirror(volume(source, json!({}))), None);
    }
    let unknown = "error checking mirror pod for API references: unknown volume type for volume  \"v\"";
    create.check(mirror(volume("tape", json!({}))), Some(unknown));
}

#[test]
fn the_one_owner_of_a_mirror_pod_is_its_node() {
    let create = Case { name: "m", ..Case::new("pods", Operation::Create) };
    let own = json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": true});
    let with = |member: &str, value: Value| {
        let mut owner = own.clone();
        owner[member] = value;
        json!([owner])
    };
    let only = |what: &str| format!("node \"n1\" can only create pods with {what} set to itself");
    for (owners, expected) in [
        (json!([]), only("an owner reference")),
        (json!([own.clone(), own.clone()]), only("a single owner reference")),
        (with("name", json!("n2")), only("an owner reference")),
        (with("kind", json!("Pod")), only("an owner reference")),
        (with("controller", json!(false)), only("a controller owner reference")),
        (
            with("blockOwnerDeletion", json!(true)),
            "node \"n1\" must not set blockOwnerDeletion on an owner reference".to_owned(),
        ),
        (with("uid", json!("old")), "node n1 UID mismatch: expected old got u1".to_owned()),
    ] {
        let mut pod = mirror(json!({}));
        pod["metadata"]["ownerReferences"] = owners;
        create.check(pod, Some(&expected));
    }
    let mut unregistered = Case { name: "m", ..Case::new("pods", Operation::Create) };
    unregistered.objects = Objects::default();
    let told = unregistered.refusal(Some(&mirror(json!({})))).expect("there is no such node");
    assert!(told.starts_with("NotFound(") && told.contains("\"node\""), "{told}");
}

#[test]
fn pods_of_a_node_are_deleted_and_reported_on_by_it_alone() {
    let deletion = |node| Case { old: Some(pod(node, "u")), ..Case::new("pods", Operation::Delete) };
    assert_eq!(deletion("n1").refusal(None), None);
    let told = "node \"n1\" can only delete pods with spec.nodeName set to itself";
    assert_eq!(deletion("n2").refusal(None).as_deref(), Some(told));
    let told = "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods";
    Case::update("pods", pod("n1", "u")).check(pod("n1", "u"), Some(told));

    let status = |node| Case { action: Action::Status, ..Case::update("pods", pod(node, "u")) };
    let with = |of: &str, member: &str, value: Value| {
        let mut pod = pod("n1", "u");
        if of == "status" {
            pod["status"] = json!({});
        }
        pod[of][member] = value;
        pod
    };
    status("n1").check(with("status", "phase", json!("Running")), None);
    let told = "node \"n1\" can only update pod status for pods with spec.nodeName set to itself";
    status("n2").check(pod("n2", "u"), Some(told));
    for (of, member, value, what) in [
        ("metadata", "labels", json!({"a": "b"}), "labels through pod status"),
        ("status", "resourceClaimStatuses", json!([{"name": "r"}]), "resource claim statues"),
        (
            "status",
            "extendedResourceClaimStatus",
            json!({"resourceClaimName": "r"}),
            "extended resource claim status",
        ),
    ] {
        status("n1").check(with(of, member, value), Some(&format!("node \"n1\" cannot update {what}")));
    }
    let other = Case { action: Action::Finalize, ..Case::update("pods", pod("n1", "u")) };
    other.check(
        pod("n1", "u"),
        Some("unexpected pod subresource \"finalize\", only 'status' and 'eviction' are allowed"),
    );
}

#[test]
fn of_a_claim_only_the_progress_of_a_resize_is_written() {
    let claim = json!({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
    let status = Case { action: Action::Status, ..Case::update("persistentvolumeclaims", claim.clone()) };
    let mut resized = claim.clone();
    resized["metadata"] = json!({"name": "c", "managedFields": [{}]});
    resized["status"] = json!({
        "phase": "Bound", "capacity": {"storage": "2Gi"}, "conditions": [{"type": "Resizing"}],
        "allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizeInProgress"},
    });
    status.check(resized, None);
    let mut changed = claim.clone();
    changed["metadata"]["labels"] = json!({"a": "b"});
    changed["status"]["phase"] = json!("Lost");
    status.check(
        changed,
        Some(
            "node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: \
              metadata.labels, status.phase",
        ),
    );
    Case::update("persistentvolumeclaims", claim.clone()).check(claim, Some("may only update PVC status"));
}

#[test]
fn objects_of_a_node_carry_its_name() {
    let lease =
        |namespace, name| Case { namespace, name, ..Case::new("leases.coordination", Operation::Create) };
    let named = |name: &str| json!({"metadata": {"name": name}});
    lease("orch-node-lease", "n1").check(named("n1"), None);
    let told = "can only access node lease with the same name as the requesting node";
    lease("orch-node-lease", "n2").check(named("n2"), Some(told));
    let told = "can only access leases in the \"orch-node-lease\" system namespace";
    lease("ns", "n1").check(named("n1"), Some(told));
    let csi_node = |name| Case { namespace: "", name, ..Case::new("csinodes.storage", Operation::Create) };
    csi_node("n1").check(named("n1"), None);
    let told = "can only access CSINode with the same name as the requesting node";
    csi_node("n2").check(named("n2"), Some(told));
    let deletion = Case { name: "n2", ..Case::new("csinodes.storage", Operation::Delete) };
    assert_eq!(deletion.refusal(None).as_deref(), Some(told));
}

/// A request for a token that is bound to the pod, for these audiences.
fn token(name: &str, uid: &str, audiences: &[&str]) -> Value {
    let audiences: Vec<Value> = audiences.iter().map(|&audience| audience.into()).collect();
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    json!({"spec": {"boundObjectRef": bound, "audiences": audiences}})
}

#[test]
fn tokens_are_bound_to_pods_of_the_node_and_to_what_these_name() {
    let case =
        || Case { action: Action::Token, name: "robot", ..Case::new("serviceaccounts", Operation::Create) };
    let asks = case();
    asks.check(token("a", "ua", &["shop"]), None);
    asks.check(token("a", "ua", &["store"]), None);
    asks.check(json!({"spec": {}}), Some("node requested token not bound to a pod"));
    asks.check(token("a", "", &[]), Some("node requested token with a pod binding without a uid"));
    asks.check(
        token("a", "old", &["shop"]),
        Some("the UID in the bound object reference (old) does not match the UID in record. The object might have been \
              deleted and then recreated"),
    );
    asks.check(
        token("b", "ub", &["shop"]),
        Some("node requested token bound to a pod scheduled on a different node"),
    );
    asks.check(token("a", "ua", &["shop", "bank"]), Some("node may only request 0 or 1 audiences"));
    for audience in ["", "bank"] {
        let audiences: &[&str] = if audience.is_empty() { &[] } else { &["bank"] };
        let told = format!(
            "audience \"{audience}\" not found in pod spec volume, system:node:n1 is not authorized to request tokens \
             for this audience"
        );
        asks.check(token("a", "ua", audiences), Some(&told));
    }
    let told = asks.refusal(Some(&token("none", "u", &[]))).expect("there is no such pod");
    assert!(told.starts_with("NotFound(") && told.contains("\"pod\""), "{told}");
    let mut unbound = case();
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "free"}}, {"name": "e", "persistentVolumeClaim": {"claimName": "none"}}]);
    let at = ("pods".to_owned(), "ns".to_owned(), "a".to_owned());
    unbound.objects.0.get_mut(&at).expect("it is there")["spec"]["volumes"] = volumes;
    unbound.check(
        token("a", "ua", &["store"]),
        Some("error validating audience \"store\": [persistentvolume \"\" not found, persistentvolumeclaim \"none\" not found]"),
    );
}

#[test]
fn a_node_without_a_name_writes_nothing() {
    let mut case = Case::new("configmaps", Operation::Create);
    case.user = node("");
    case.check(json!({}), Some("could not determine node from user \"system:node:\""));
    case.user = node("n1");
    case.check(json!({}), None);
    let admin = User::local_admin();
    assert!(!NodeRestriction.handles(&Attributes { user: &admin, ..attributes("nodes", Operation::Create) }));
}

/// A request to `signer` for a certificate of this common name.
fn certificate_request(signer: &str, common_name: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    let request = params.serialize_request(&KeyPair::generate().expect("a key")).expect("a request");
    let request = STANDARD.encode(request.pem().expect("it is encoded"));
    json!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": request}})
}

#[test]
fn certificates_of_kubelets_are_those_of_the_own_node() {
    let create = Case { namespace: "", name: "r", ..Case::new(REQUESTS, Operation::Create) };
    let told = "can only create a node CSR with CN=system:node:n1";
    for signer in ["orch.io/kubelet-serving", "orch.io/kube-apiserver-client-kubelet"] {
        create.check(certificate_request(signer, "system:node:n1"), None);
        create.check(certificate_request(signer, "system:node:n2"), Some(told));
        create.check(certificate_request(signer, "n1"), Some(told));
    }
    create.check(certificate_request("example.com/own", "anyone"), None);
    let broken = json!({"spec": {"signerName": "orch.io/kubelet-serving", "request": "bm8="}});
    create.check(broken, Some("unable to parse csr: PEM block type must be CERTIFICATE REQUEST"));
}
