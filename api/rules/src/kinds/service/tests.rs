//! Rules of services.

use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::kinds::testing::{
    CONTEXT, check_create, check_hostile, check_update, created, defaulted, updated,
};
use crate::validate::address::Family;

fn service(spec: Value) -> Value {
    json!({"spec": spec})
}

fn ports(ports: Value) -> Value {
    service(json!({"ports": ports}))
}

#[test]
fn defaults_depend_on_the_type() {
    let of = |spec: Value| defaulted(&Service, service(spec))["spec"].clone();
    let plain = of(json!({"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]}));
    assert_eq!(
        plain,
        json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80},
            {"port": 81, "targetPort": "http", "protocol": "TCP"}],
            "sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"})
    );
    let sticky = of(json!({"sessionAffinity": "ClientIP"}));
    assert_eq!(sticky["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10_800}}));
    let balanced = of(json!({"type": "LoadBalancer"}));
    assert_eq!(
        (&balanced["allocateLoadBalancerNodePorts"], &balanced["externalTrafficPolicy"]),
        (&json!(true), &json!("Cluster"))
    );
    let external = of(json!({"type": "ExternalName", "sessionAffinityConfig": {}}));
    assert_eq!(external, json!({"type": "ExternalName", "sessionAffinity": "None"}));
    assert_eq!(of(json!({"externalIPs": ["192.0.2.1"]}))["externalTrafficPolicy"], "Cluster");
}

#[test]
fn types_and_ports() {
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                 with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    for (object, expected) in [
        (ports(json!([{"port": 80}])), vec![]),
        (service(json!({})), vec!["spec.ports: Required value".to_owned()]),
        (
            service(json!({"type": "Odd", "ports": [{"port": 80}]})),
            vec![
                "spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \
                 \"NodePort\""
                    .to_owned(),
            ],
        ),
        (
            ports(json!([{"port": 0}, {"name": "A", "port": 1, "protocol": "ICMP", "targetPort": 70_000}])),
            vec![
                "spec.ports[0].name: Required value".to_owned(),
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive".to_owned(),
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive".to_owned(),
                format!("spec.ports[1].name: Invalid value: \"A\": {label}"),
                "spec.ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\""
                    .to_owned(),
                "spec.ports[1].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive".to_owned(),
            ],
        ),
        (
            ports(json!([{"name": "a", "port": 1, "nodePort": 2}, {"name": "a", "port": 1, "nodePort": 2}])),
            vec![
                "spec.ports[1].name: Duplicate value: \"a\"".to_owned(),
                "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'".to_owned(),
                "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'".to_owned(),
                "spec.ports[1].nodePort: Duplicate value: 2".to_owned(),
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":1,\
                 \"TargetPort\":0,\"NodePort\":0}"
                    .to_owned(),
            ],
        ),
        (
            service(json!({"type": "LoadBalancer", "clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 10_250}]})),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services".to_owned(),
            ],
        ),
    ] {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_create(&Service, object, &expected);
    }
    check_hostile(&Service);
}

#[test]
fn values_of_other_fields() {
    let with = |field: &str, value: Value| {
        let mut object = ports(json!([{"port": 80}]));
        object["spec"][field] = value;
        object
    };
    for (object, expected) in [
        (
            with("sessionAffinity", json!("Odd")),
            "spec.sessionAffinity: Unsupported value: \"Odd\": supported values: \"ClientIP\", \"None\"",
        ),
        (
            with("externalIPs", json!(["127.0.0.1"])),
            "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (with("clusterIP", json!("10.0.0.1")), "spec.clusterIPs: Required value"),
        (
            with("clusterIPs", json!(["10.0.0.1"])),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified",
        ),
        (with("ipFamilies", json!(["IPv4", "IPv4"])), "spec.ipFamilies[1]: Duplicate value: \"IPv4\""),
    ] {
        check_create(&Service, object, &[expected]);
    }
    let mut sticky = with("sessionAffinity", json!("ClientIP"));
    sticky["spec"]["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 90_000}});
    check_create(
        &Service,
        sticky,
        &[
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than \
           86400",
        ],
    );
    let annotated = json!({"metadata": {"annotations": {"service.orch.io/topology-mode": "Auto",
        "service.orch.io/topology-aware-hints": "Disabled"}}, "spec": {"ports": [{"port": 80}]}});
    check_create(
        &Service,
        annotated,
        &["metadata.annotations[service.orch.io/topology-mode]: Invalid value: \"Auto\": must match \
           annotations[service.orch.io/topology-aware-hints] when both are specified"],
    );
}

#[test]
fn a_class_is_checked_with_a_change_and_with_the_whole_service() {
    let with = |kind: &str, class: &str| {
        service(json!({"type": kind, "ports": [{"port": 80}], "loadBalancerClass": class}))
    };
    let plain = || service(json!({"ports": [{"port": 80}]}));
    let forbidden = "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'";
    check_create(&Service, with("ClusterIP", "a/b"), &[forbidden]);
    check_update(&Service, plain(), with("ClusterIP", "a/b"), &[forbidden, forbidden]);
    let mut stored = with("LoadBalancer", "a/b");
    stored["spec"]["ports"][0]["port"] = json!(10_250);
    check_create(&Service, stored, &[]);
}

#[test]
fn addresses_do_not_change() {
    let holding = |addresses: Value| {
        service(
            json!({"ports": [{"port": 80}], "clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack"}),
        )
    };
    let old = || holding(json!(["10.0.0.1"]));
    check_update(&Service, old(), old(), &[]);
    check_update(
        &Service,
        old(),
        holding(json!(["10.0.0.2"])),
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
    );
    let mut two = holding(json!(["10.0.0.1", "2001:db8::1"]));
    two["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    two["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    check_update(&Service, old(), two.clone(), &[]);
    check_update(&Service, two.clone(), old(), &[]);
    let mut one = old();
    one["spec"]["ipFamilyPolicy"] = json!("PreferDualStack");
    check_update(
        &Service,
        two,
        one,
        &[
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the \
             secondary clusterIP",
            "spec.ipFamilyPolicy: Invalid value: \"PreferDualStack\": must be set to 'SingleStack' when releasing the \
             secondary ipFamily",
        ],
    );
}

#[test]
fn a_new_type_drops_what_it_has_not() {
    let old = created(
        &Service,
        service(
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_001,
            "loadBalancerClass": "a/b", "ports": [{"port": 80, "nodePort": 30_000}], "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
        ),
    );
    let to = |kind: &str| {
        let mut new = old.clone();
        new["spec"]["type"] = json!(kind);
        new["spec"]["externalName"] = json!("a.example.com");
        updated(&Service, Action::Object, &old, new)["spec"].clone()
    };
    let inner = to("ClusterIP");
    for field in
        ["externalTrafficPolicy", "healthCheckNodePort", "loadBalancerClass", "allocateLoadBalancerNodePorts"]
    {
        assert!(inner.get(field).is_none(), "{field}");
    }
    assert!(inner["ports"][0].get("nodePort").is_none() && inner["clusterIP"] == "10.0.0.1");
    assert_eq!(to("NodePort")["ports"][0]["nodePort"], 30_000);
    let external = to("ExternalName");
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        assert!(external.get(field).is_none(), "{field}");
    }
}

#[test]
fn clients_may_leave_out_what_was_allotted() {
    let old = service(
        json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "2001:db8::1"],
        "ports": [{"name": "a", "port": 1, "nodePort": 30_001}, {"name": "b", "port": 2, "nodePort": 30_002}]}),
    );
    let completed = |spec: Value| {
        let mut new = service(spec);
        complete(Some(&old), &mut new);
        new["spec"].clone()
    };
    let plain =
        completed(json!({"type": "NodePort", "ports": [{"name": "b", "port": 2}, {"name": "c", "port": 3}]}));
    assert_eq!(plain["clusterIPs"], old["spec"]["clusterIPs"]);
    assert_eq!((&plain["ports"][0]["nodePort"], plain["ports"][1].get("nodePort")), (&json!(30_002), None));
    let moved = completed(
        json!({"type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "nodePort": 30_001}]}),
    );
    assert!(moved["ports"][0].get("nodePort").is_none(), "another port has it now");
    let given_up = completed(
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"name": "a", "port": 1}]}),
    );
    assert!(given_up["ports"][0].get("nodePort").is_none(), "a balancer that asks for none");
    let changed = completed(
        json!({"type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1", "2001:db8::1"]}),
    );
    assert_eq!(changed["clusterIPs"], json!(["10.0.0.2"]));
    let external = completed(json!({"type": "ExternalName"}));
    assert!(external.get("clusterIP").is_none());
}

#[test]
fn families_follow_policy_and_cluster() {
    let (one, both) = ([Family::V4], [Family::V6, Family::V4]);
    let families = |available: &[Family], spec: Value| {
        let mut new = service(spec);
        let settled = settle_families(None, &mut new, available);
        settled.map(|()| new["spec"].clone()).map_err(|errors| errors[0].to_string())
    };
    for (available, spec, policy, list) in [
        (&one[..], json!({}), "SingleStack", json!(["IPv4"])),
        (&one, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack", json!(["IPv4"])),
        (&both, json!({}), "SingleStack", json!(["IPv6"])),
        (&both, json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack", json!(["IPv6", "IPv4"])),
        (
            &one,
            json!({"clusterIP": "None", "clusterIPs": ["None"]}),
            "RequireDualStack",
            json!(["IPv4", "IPv6"]),
        ),
        (&both, json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}), "SingleStack", json!(["IPv4"])),
    ] {
        let settled = families(available, spec.clone()).unwrap();
        assert_eq!((&settled["ipFamilyPolicy"], &settled["ipFamilies"]), (&json!(policy), &list), "{spec}");
    }
    for (spec, expected) in [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when \
             multiple IP families are specified",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
    ] {
        assert_eq!(families(&one, spec).unwrap_err(), expected);
    }
}

#[test]
fn the_status_is_that_of_a_balancer() {
    let status = |kind: &str, points: Value| {
        let mut object = service(json!({"type": kind, "ports": [{"port": 80}]}));
        object["status"] = json!({"loadBalancer": {"ingress": points}});
        let errors = status::validate_balancer(&defaulted(&Service, object));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(status("LoadBalancer", json!([{"ip": "192.0.2.1"}, {"hostname": "a.example.com"}])), [""; 0]);
    assert_eq!(
        status("ClusterIP", json!([{"ip": "192.0.2.1"}])),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
    assert_eq!(
        status(
            "LoadBalancer",
            json!([{"ip": "x", "ipMode": "Odd"}, {"hostname": "192.0.2.1", "ipMode": "VIP"}])
        ),
        [
            "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or \
             2001:db8::ffff)",
            "status.loadBalancer.ingress[0].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
            "status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
            "status.loadBalancer.ingress[1].hostname: Invalid value: \"192.0.2.1\": must be a DNS name, not an IP address",
        ]
    );
}

#[test]
fn rows_show_addresses_inside_and_outside() {
    let row = |spec: Value, points: Value| {
        let mut object = created(&Service, service(spec));
        object["status"] = json!({"loadBalancer": {"ingress": points}});
        json!(Service.table_row(&object, CONTEXT.now).unwrap())
    };
    assert_eq!(
        row(
            json!({"clusterIPs": ["10.0.0.1"], "ports": [{"port": 80}], "selector": {"a": "2", "a-b": "1"}}),
            json!([])
        ),
        json!(["n", "ClusterIP", "10.0.0.1", "<none>", "80/TCP", "<unknown>", "a-b=1,a=2"])
    );
    assert_eq!(
        row(
            json!({"type": "LoadBalancer", "externalIPs": ["192.0.2.9"], "ports": [{"port": 80, "nodePort": 30_000}]}),
            json!([{"ip": "192.0.2.2"}, {"hostname": "a.example.com"}])
        ),
        json!([
            "n",
            "LoadBalancer",
            "<none>",
            "192.0.2.2,a.example.com,192.0.2.9",
            "80:30000/TCP",
            "<unknown>",
            "<none>"
        ])
    );
    assert_eq!(row(json!({"type": "LoadBalancer"}), json!([]))[3], "<pending>");
    assert_eq!(row(json!({"type": "ExternalName", "externalName": "a.b"}), json!([]))[3], "a.b");
}

#[test]
fn doubtful_fields_are_mentioned() {
    let warnings = |spec: Value| Service.warnings(&CONTEXT, None, &defaulted(&Service, service(spec)));
    assert!(warnings(json!({})).is_empty());
    assert_eq!(
        warnings(
            json!({"externalIPs": ["192.0.2.1"], "externalName": "a.b", "trafficDistribution": "PreferClose"})
        ),
        [
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
    assert_eq!(
        warnings(json!({"clusterIP": "None", "loadBalancerIP": "192.0.2.1", "sessionAffinity": "ClientIP"})),
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services"
        ]
    );
}
