//! Extended resources that devices stand for, in the whole process: no device is held twice, and no claim is left over.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::node_of;
use super::whole::{options, start};
use crate::client::testing::{FakeApi, Fault, eventually, pod};

/// A node with devices, of which it offers nothing itself.
fn put_node(api: &FakeApi, name: &str, devices: usize) {
    let room = json!({ "cpu": "64", "memory": "64Gi", "pods": "110" });
    let status = json!({ "allocatable": room, "capacity": room });
    api.store().put("nodes", json!({ "metadata": { "name": name }, "status": status }));
    let devices: Vec<Value> = (0..devices).map(|index| json!({ "name": format!("d{index}") })).collect();
    let pool = json!({ "name": name, "generation": 1, "resourceSliceCount": 1 });
    let spec = json!({ "driver": "d.io", "nodeName": name, "pool": pool, "devices": devices });
    api.store().put("resourceslices", json!({ "metadata": { "name": name }, "spec": spec }));
}

fn put_class(api: &FakeApi) {
    let spec = json!({ "extendedResourceName": "x.com/gpu" });
    api.store().put("deviceclasses", json!({ "metadata": { "name": "c" }, "spec": spec }));
}

fn put_pod(api: &FakeApi, name: &str) {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "x.com/gpu": "1" } });
    api.store().put("pods", pod);
}

fn claims(api: &FakeApi) -> Vec<Value> {
    api.store().list("resourceclaims").1.into_iter().map(|(_, claim)| claim).collect()
}

/// Checks that each pod has a claim with a device of its node, and nobody else has the device.
fn check(api: &FakeApi, pods: &[String]) {
    let mut devices = BTreeSet::new();
    let mut claims: BTreeMap<String, Value> = claims(api)
        .into_iter()
        .map(|claim| (claim["metadata"]["name"].as_str().unwrap().to_owned(), claim))
        .collect();
    for name in pods {
        let pod = api.store().get("pods", "default", name).unwrap();
        let status = &pod["status"]["extendedResourceClaimStatus"];
        let claim = claims.remove(status["resourceClaimName"].as_str().unwrap()).unwrap();
        let owner = &claim["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Pod"), &pod["metadata"]["uid"]));
        assert_eq!(claim["status"]["reservedFor"][0]["uid"], pod["metadata"]["uid"]);
        let result = &claim["status"]["allocation"]["devices"]["results"][0];
        assert_eq!(result["pool"], pod["spec"]["nodeName"], "the device is one of the node");
        assert_eq!(result["request"], status["requestMappings"][0]["requestName"]);
        assert!(devices.insert(format!("{} {}", result["pool"], result["device"])), "{result} is held twice");
    }
    assert_eq!(claims, BTreeMap::new(), "no claim is left over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_get_devices_for_the_extended_resources_that_they_ask_for() {
    let api = FakeApi::start().await;
    put_node(&api, "a", 2);
    let running = start(options(&api, "one"));
    put_pod(&api, "p0");
    let message = |name: &str| {
        let pod = api.store().get("pods", "default", name).unwrap();
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    eventually("nobody offers it", || message("p0").contains("Insufficient x.com/gpu")).await;
    put_class(&api);
    eventually("the class wakes it", || node_of(&api, "p0").is_some()).await;
    put_pod(&api, "p1");
    eventually("the second is bound", || node_of(&api, "p1").is_some()).await;
    put_pod(&api, "p2");
    eventually("the third is refused", || message("p2").contains("cannot allocate all claims")).await;
    check(&api, &["p0".to_owned(), "p1".to_owned()]);
    let gone = api.store().remove("pods", "default", "p0").unwrap();
    let claim = gone["status"]["extendedResourceClaimStatus"]["resourceClaimName"].as_str().unwrap();
    api.store().remove("resourceclaims", "default", claim).unwrap();
    eventually("the third has the device of the first", || node_of(&api, "p2").is_some()).await;
    check(&api, &["p1".to_owned(), "p2".to_owned()]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_the_api_hand_out_every_device_once_and_leave_no_claim() {
    let api = FakeApi::start().await;
    put_class(&api);
    for index in 0..5 {
        put_node(&api, &format!("n{index}"), 4);
    }
    let running = start(options(&api, "one"));
    let pods: Vec<String> = (0..20).map(|index| format!("p{index}")).collect();
    for (index, name) in pods.iter().enumerate() {
        match index {
            1 | 7 => api.plant("POST", "/binding", 1, Fault::Status(403, 0)),
            3 => api.plant("POST", "/resourceclaims", 1, Fault::LostAfter),
            4 => api.plant("POST", "/resourceclaims", 1, Fault::Status(403, 0)),
            6 => api.plant("PUT", "/resourceclaims", 2, Fault::Status(409, 0)),
            9 => api.plant("PUT", "/status", 1, Fault::LostAfter),
            10 => api.plant("DELETE", "/resourceclaims", 1, Fault::Status(403, 0)),
            11 => api.plant("POST", "/binding", 1, Fault::Status(403, 0)),
            13 => api.plant("PATCH", "/status", 1, Fault::Status(403, 0)),
            15 => api.store().break_watches(),
            _ => {}
        }
        put_pod(&api, name);
    }
    let is_bound = |name: &String| node_of(&api, name).is_some();
    eventually("every pod has a node", || pods.iter().all(is_bound)).await;
    check(&api, &pods);
    running.stop().await;
}
