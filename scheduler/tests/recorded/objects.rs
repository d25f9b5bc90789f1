//! Objects of a recorded case as the API server would serve them: decoded by the schema, with defaults, and with what
//! admission adds to pods (priority, runtime class, ports of the host's network, `matchLabelKeys`).

use orch_proto::brand::ORCH;
use orch_scheduler::plan::{Change, Cluster, Object};
use orch_schema::{Limits, ResourceType, Schema, apply_defaults, decode_json, encode_protobuf};
use serde_json::{Map, Value, json};

fn schema() -> &'static Schema {
    orch_schema::testing::orch()
}

fn resource(kind: &str, api_version: &str) -> &'static ResourceType {
    let group_of = |resource: &ResourceType| match resource.group.as_str() {
        "" => resource.version.clone(),
        group => format!("{group}/{}", resource.version),
    };
    let found = schema().resources().iter().find(|r| r.kind == kind && group_of(r) == api_version);
    found.unwrap_or_else(|| panic!("no resource {api_version} {kind}"))
}

/// Decodes an object from its JSON.
pub(crate) fn decode<M: prost::Message + Default>(object: &Value) -> M {
    let text = |name: &str| object[name].as_str().unwrap();
    let type_id = resource(text("kind"), text("apiVersion")).type_id;
    let json = serde_json::to_vec(object).unwrap();
    let mut decoded = decode_json(schema(), type_id, &json, Limits::default()).unwrap();
    apply_defaults(schema(), type_id, &mut decoded.value);
    let mut bytes = Vec::new();
    encode_protobuf(schema(), type_id, &decoded.value, &mut bytes);
    M::decode(bytes.as_slice()).unwrap()
}

/// What admission knows of a case.
pub(crate) struct Admitted {
    priorities: Map<String, Value>,
    runtimes: Map<String, Value>,
}

impl Admitted {
    /// Reads the classes of a case.
    pub(crate) fn new(case: &Value) -> Admitted {
        let of_kind = |kind: &str| {
            let objects = case["objects"].as_array().unwrap().iter().map(|entry| &entry["object"]);
            let objects = objects.filter(|object| object["kind"] == kind);
            objects
                .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object.clone()))
                .collect()
        };
        Admitted { priorities: of_kind("PriorityClass"), runtimes: of_kind("RuntimeClass") }
    }

    /// Puts the nodes, namespaces and objects of a case into the cluster.
    pub(crate) fn apply_objects(&self, case: &Value, cluster: &mut Cluster) {
        for node in case["nodes"].as_array().unwrap() {
            let object = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": node["name"], "labels": node["labels"] },
                "spec": { "taints": node.get("taints").unwrap_or(&json!([])),
                          "unschedulable": node.get("unschedulable").unwrap_or(&json!(false)) },
                "status": { "allocatable": node["allocatable"], "images": node.get("images").unwrap_or(&json!([])) },
            });
            cluster.apply(Change::Upsert(Object::Node(&decode(&object))));
        }
        let pods = ["existing", "pending"].iter().flat_map(|list| case[list].as_array().unwrap());
        for pod in pods {
            apply_namespace(cluster, &json!({ "metadata": { "name": pod["namespace"] } }));
        }
        for entry in case["objects"].as_array().unwrap() {
            let mut object = entry["object"].clone();
            if let Some((_, rest)) = entry["path"].as_str().unwrap().split_once("/namespaces/") {
                object["metadata"]["namespace"] = json!(rest.split('/').next().unwrap());
            }
            let name = object["metadata"]["name"].as_str().unwrap();
            object["metadata"]["uid"] = json!(format!("uid-{}-{name}", object["kind"].as_str().unwrap()));
            apply_object(cluster, &object);
        }
    }

    /// A pod as the API server would store it.
    pub(crate) fn pod(&self, pod: &Value) -> orch_scheduler::api::core::v1::Pod {
        let mut spec = pod["spec"].clone();
        self.admit_priority(&mut spec);
        self.admit_runtime(&mut spec);
        if spec.get("schedulerName").is_none() {
            spec["schedulerName"] = json!("default-scheduler");
        }
        if spec["hostNetwork"] == true {
            let containers = spec["containers"].as_array_mut().unwrap().iter_mut();
            for port in
                containers.filter_map(|c| c.get_mut("ports")).flat_map(|ports| ports.as_array_mut().unwrap())
            {
                port["hostPort"] = port["containerPort"].clone();
            }
        }
        merge_label_keys(&mut spec, &pod["labels"]);
        let name = pod["name"].as_str().unwrap();
        decode(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": pod["namespace"], "labels": pod["labels"],
                          "uid": format!("uid-{}-{name}", pod["namespace"].as_str().unwrap()) },
            "spec": spec,
            "status": { "phase": pod.get("phase").unwrap_or(&json!("Pending")) },
        }))
    }

    fn admit_priority(&self, spec: &mut Value) {
        let class = match spec.get("priorityClassName").and_then(Value::as_str) {
            Some(name) => self.priorities.get(name),
            None => self.priorities.values().find(|class| class["globalDefault"] == true),
        };
        if let Some(class) = class {
            spec["priority"] = class["value"].clone();
            if spec.get("preemptionPolicy").is_none() {
                let policy = class.get("preemptionPolicy").cloned();
                spec["preemptionPolicy"] = policy.unwrap_or_else(|| json!("PreemptLowerPriority"));
            }
        }
    }

    fn admit_runtime(&self, spec: &mut Value) {
        let Some(class) = spec.get("runtimeClassName").and_then(|name| self.runtimes.get(name.as_str()?))
        else {
            return;
        };
        if let Some(overhead) = class.pointer("/overhead/podFixed") {
            spec["overhead"] = overhead.clone();
        }
        if let Some(selector) = class.pointer("/scheduling/nodeSelector") {
            spec["nodeSelector"] = selector.clone();
        }
        if let Some(tolerations) = class.pointer("/scheduling/tolerations") {
            spec["tolerations"] = tolerations.clone();
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` of terms between pods become expressions.
fn merge_label_keys(spec: &mut Value, labels: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) else { continue };
        let lists = affinity.as_object_mut().unwrap().values_mut();
        for entry in lists.flat_map(|list| list.as_array_mut().unwrap()) {
            let term =
                if entry.get("podAffinityTerm").is_some() { &mut entry["podAffinityTerm"] } else { entry };
            for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
                for key in term.get(field).and_then(Value::as_array).cloned().unwrap_or_default() {
                    let Some(value) = labels.get(key.as_str().unwrap()) else { continue };
                    let selector = &mut term["labelSelector"];
                    let mut expressions =
                        selector["matchExpressions"].as_array().cloned().unwrap_or_default();
                    expressions.push(json!({ "key": key, "operator": operator, "values": [value] }));
                    selector["matchExpressions"] = json!(expressions);
                }
            }
        }
    }
}

fn apply_namespace(cluster: &mut Cluster, object: &Value) {
    let mut object = object.clone();
    let name = object["metadata"]["name"].clone();
    object["metadata"]["labels"][ORCH.label("metadata.name")] = name;
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Namespace");
    cluster.apply(Change::Upsert(Object::Namespace(&decode(&object))));
}

fn apply_object(cluster: &mut Cluster, object: &Value) {
    macro_rules! apply {
        ($($kind:ident => $variant:ident),+ $(,)?) => {
            match object["kind"].as_str().unwrap() {
                "Namespace" => apply_namespace(cluster, object),
                // Admission looks at these, the planner does not.
                "PriorityClass" | "RuntimeClass" => {}
                $(stringify!($kind) => cluster.apply(Change::Upsert(Object::$variant(&decode(object)))),)+
                kind => panic!("the cases have a kind that this test does not know: {kind}"),
            }
        };
    }
    apply! {
        PersistentVolume => PersistentVolume, PersistentVolumeClaim => PersistentVolumeClaim,
        StorageClass => StorageClass, CSINode => CsiNode, CSIDriver => CsiDriver,
        CSIStorageCapacity => CsiStorageCapacity, VolumeAttachment => VolumeAttachment,
        Service => Service, ReplicationController => ReplicationController, ReplicaSet => ReplicaSet,
        StatefulSet => StatefulSet, PodDisruptionBudget => PodDisruptionBudget,
        ResourceClaim => ResourceClaim, ResourceSlice => ResourceSlice, DeviceClass => DeviceClass,
    }
}
