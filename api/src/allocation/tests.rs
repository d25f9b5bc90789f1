//! Allotting over views of states.

use orch_proto::brand::ORCH;
use orch_raft::{Operation, Revision, State, Transaction};
use orch_rules::kinds::Context;
use orch_schema::json;

use super::claims::{Holdings, claim};
use super::*;
use crate::admission::Operation as Write;
use crate::admission::testing::{Objects, attributes};

/// A view with the default range, these further ranges, and the claims of these services.
fn view(ranges: &[&str], services: &[Value]) -> View {
    let mut objects = Objects::default();
    let range = json!({"metadata": {"name": "orch"}, "spec": {"cidrs": ranges}});
    objects.0.insert((CIDRS.to_owned(), String::new(), "orch".to_owned()), range);
    let mut state: State = (*objects.view("ns").applied().state).clone();
    let puts = services.iter().flat_map(|service| Holdings::of(service).claims());
    let operations = puts.map(|key| Operation::Put(claim(key, "ns/other"))).collect();
    let revision = Revision(state.applied().0 + 1);
    state.apply(revision, &Transaction { proposed_ms: 0, conditions: Vec::new(), operations });
    View::certain(state)
}

fn defaulted(spec: Value) -> Value {
    let write = attributes(SERVICES, Write::Create);
    let mut service =
        json!({"metadata": {"name": "n", "uid": "0a1b2c3d-0000-1111-2222-0123456789ab"}, "spec": spec});
    let extra = std::collections::BTreeMap::new();
    let user = orch_rules::kinds::Requester { name: "me", uid: "", groups: &[], extra: &extra };
    let context = Context {
        brand: &ORCH,
        group: "",
        version: "v1",
        namespace: "ns",
        action: Action::Object,
        user,
        now: "",
        labels_given: true,
    };
    write.resource.strategy.default(&context, &mut service);
    service
}

fn allot(old: Option<&Value>, spec: Value, view: &View) -> Result<Value, String> {
    let mut service = defaulted(spec);
    let resource = attributes(SERVICES, Write::Create).resource;
    match Allocator::default().allot((&ORCH, resource), old, &mut service, view) {
        Ok(()) => Ok(service),
        Err(Unallotted { error: ApiError::Invalid { errors, .. }, .. }) => Err(errors[0].to_string()),
        Err(other) => Err(other.error.to_string()),
    }
}

#[test]
fn addresses_come_from_the_ranges_of_the_families() {
    let both = view(&["10.0.0.0/24", "2001:db8::/112"], &[]);
    let service = allot(None, json!({"ipFamilyPolicy": "PreferDualStack"}), &both).unwrap();
    let list = service["spec"]["clusterIPs"].as_array().unwrap();
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert!(
        list[0].as_str().unwrap().starts_with("10.0.0.")
            && list[1].as_str().unwrap().starts_with("2001:db8::")
    );
    assert_eq!(service["spec"]["clusterIP"], list[0]);
    let service = allot(None, json!({"ipFamilies": ["IPv6"]}), &both).unwrap();
    assert_eq!(service["spec"]["clusterIPs"].as_array().unwrap().len(), 1);
    let headless = allot(None, json!({"clusterIP": "None", "selector": {"a": "b"}}), &both).unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let external = allot(None, json!({"type": "ExternalName"}), &both).unwrap();
    assert!(external["spec"].get("clusterIP").is_none() && external["spec"].get("ipFamilies").is_none());
}

#[test]
fn wanted_addresses_are_free_and_in_range() {
    let taken = json!({"spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.9"]}});
    let view = view(&["10.0.0.0/24"], &[taken]);
    for (address, expected) in [
        ("10.0.0.8", ""),
        ("10.0.0.9", "provided IP is already allocated"),
        ("10.0.0.0", "the provided network does not match the current range"),
        ("10.0.0.255", "the provided network does not match the current range"),
        ("10.1.0.1", "the provided network does not match the current range"),
    ] {
        let found = allot(None, json!({"clusterIP": address}), &view).err().unwrap_or_default();
        let wanted = match expected {
            "" => String::new(),
            reason => format!(
                "spec.clusterIPs: Invalid value: [\"{address}\"]: failed to allocate IP {address}: {reason}"
            ),
        };
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_range_is_used_to_its_end() {
    let mut services: Vec<Value> = Vec::new();
    for _ in 0..14 {
        services.push(allot(None, json!({}), &view(&["10.0.0.0/28"], &services)).unwrap());
    }
    let refused = allot(None, json!({}), &view(&["10.0.0.0/28"], &services));
    assert!(refused.unwrap_err().ends_with("failed to allocate a serviceIP: range is full"));
    let awaited = allot(None, json!({}), &View::certain(State::default()));
    assert!(awaited.unwrap_err().contains("no range of cluster addresses yet"));
}

#[test]
fn node_ports_are_shared_by_the_protocols_of_a_port() {
    let view = view(&["10.0.0.0/24"], &[]);
    let ports = |service: &Value| {
        service["spec"]["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["nodePort"].clone())
            .collect::<Vec<_>>()
    };
    let dns = json!([{"port": 53, "nodePort": 30_026}, {"port": 53, "protocol": "UDP"}, {"port": 80}]);
    let service = allot(None, json!({"type": "NodePort", "ports": dns}), &view).unwrap();
    let given = ports(&service);
    assert_eq!(given[..2], [json!(30_026), json!(30_026)]);
    assert!((30_086..=32_767).contains(&given[2].as_i64().unwrap()), "from the upper part");
    for (spec, expected) in [
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid \
             ports is 30000-32767",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30_000}, {"port": 2, "nodePort": 30_000}]}),
            "spec.ports[1].nodePort: Invalid value: 30000: provided port is already allocated",
        ),
        (
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_001, "ports": [
                {"port": 1, "nodePort": 30_001}
            ]}),
            "spec.healthCheckNodePort: Invalid value: 30001: provided port is already allocated",
        ),
    ] {
        assert_eq!(allot(None, spec, &view).unwrap_err(), expected);
    }
    let spec =
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}]});
    assert_eq!(ports(&allot(None, spec, &view).unwrap()), [Value::Null]);
}

#[test]
fn an_update_keeps_what_the_service_holds() {
    let free = view(&["10.0.0.0/24", "2001:db8::/112"], &[]);
    let old = allot(None, json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}]}), &free).unwrap();
    let view = view(&["10.0.0.0/24", "2001:db8::/112"], std::slice::from_ref(&old));
    let again = json!({"type": "NodePort", "ports": [{"name": "a", "port": 2}, {"name": "b", "port": 3}]});
    let new = allot(Some(&old), again, &view).unwrap();
    assert_eq!(new["spec"]["clusterIPs"], old["spec"]["clusterIPs"]);
    assert_eq!(new["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][0]["nodePort"]);
    assert_ne!(new["spec"]["ports"][1]["nodePort"], old["spec"]["ports"][0]["nodePort"]);
    let dual = json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 1}]});
    let dual = allot(Some(&old), dual, &view).unwrap();
    assert_eq!(dual["spec"]["clusterIPs"][0], old["spec"]["clusterIPs"][0]);
    assert_eq!(dual["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    let mut single = dual["spec"].clone();
    single["ipFamilyPolicy"] = json!("SingleStack");
    let single = allot(Some(&dual), single, &view).unwrap();
    assert_eq!(single["spec"]["clusterIPs"], old["spec"]["clusterIPs"]);
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
}

#[test]
fn ranges_of_ports_are_parsed() {
    assert_eq!("30000-32767".parse(), Ok(NodePorts::default()));
    assert_eq!("30000+2767".parse(), Ok(NodePorts::default()));
    for wrong in ["", "1", "2-1", "0-9", "1-65536", "a-b", "65535+1"] {
        assert!(wrong.parse::<NodePorts>().is_err(), "{wrong}");
    }
}
