//! Tests of the rules of nodes.

use super::*;
use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created, updated};

#[test]
fn a_new_node_has_its_ranges_and_what_can_be_allocated() {
    let node =
        created(&Node, json!({"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "4"}}}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
}

#[test]
fn taints_and_amounts() {
    for (node, expected) in [
        (json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}), &[][..]),
        (
            json!({"spec": {"taints": [{"key": "k", "effect": "Nope"}]}}),
            &["metadata.taints[0].effect: Unsupported value: \"Nope\": supported values: \"NoSchedule\", \
               \"PreferNoSchedule\", \"NoExecute\""],
        ),
        (
            json!({"spec": {"taints": [{"key": "k"}, {"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]}}),
            &[
                "metadata.taints[0].effect: Required value",
                "metadata.taints[2]: Duplicate value: {\"key\":\"k\",\"effect\":\"NoExecute\"}: taints must be \
                 unique by key and effect pair",
            ],
        ),
        (
            json!({"status": {"capacity": {"pods": "1500m"}, "allocatable": {"pods": "1"}}}),
            &["status.capacity.pods: Invalid value: \"1500m\": must be an integer"],
        ),
        (
            json!({"spec": {"podCIDRs": ["10.0.0.0/33"]}}),
            &[
                "spec.podCIDRs[0]: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or \
               2001:db8::/64)",
            ],
        ),
        (
            json!({"spec": {"podCIDRs": ["10.0.0.1/24"]}}),
            &[
                "spec.podCIDRs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
            ],
        ),
    ] {
        check_create(&Node, node, expected);
    }
    check_hostile(&Node);
    let stored =
        json!({"metadata": {"name": "n", "resourceVersion": "5"}, "spec": {"podCIDRs": ["010.0.0.0/24"]}});
    assert!(Node.validate_update(&CONTEXT, &stored, &stored).is_empty());
}

#[test]
fn the_single_range_wins_over_the_list() {
    let ranges = |spec: Value| {
        let node = created(&Node, json!({"spec": spec}));
        (node["spec"]["podCIDR"].clone(), node["spec"]["podCIDRs"].clone())
    };
    let one = json!("10.0.0.0/24");
    assert_eq!(
        ranges(json!({"podCIDRs": ["10.0.0.0/24", "fd00::/64"]})),
        (one.clone(), json!(["10.0.0.0/24", "fd00::/64"]))
    );
    let moved = json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]});
    assert_eq!(ranges(moved), (one, json!(["10.0.0.0/24"])));
    assert_eq!(ranges(json!({})), (Value::Null, Value::Null));
}

#[test]
fn a_range_does_not_change_through_either_field() {
    let old = json!({"metadata": {"name": "n", "resourceVersion": "5"},
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}});
    let mut new = old.clone();
    new["spec"]["podCIDR"] = json!("10.9.0.0/24");
    Node.default(&CONTEXT, &mut new);
    let texts: Vec<String> =
        Node.validate_update(&CONTEXT, &old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"]
    );
}

#[test]
fn ranges_and_provider_stay() {
    let old = json!({"metadata": {"name": "n", "resourceVersion": "5"}, "spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}});
    let new = json!({"metadata": {"name": "n", "resourceVersion": "5"}, "spec": {"providerID": "b"}});
    let texts: Vec<String> =
        Node.validate_update(&CONTEXT, &old, &new).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
        ]
    );
}

#[test]
fn status_and_spec_are_written_apart() {
    let old = created(&Node, json!({"spec": {"unschedulable": true}, "status": {"phase": "A"}}));
    let new = json!({"spec": {"unschedulable": false}, "status": {"phase": "B"}});
    let main = updated(&Node, Action::Object, &old, new.clone());
    assert_eq!((&main["spec"], &main["status"]), (&json!({"unschedulable": false}), &old["status"]));
    let status = updated(&Node, Action::Status, &old, new);
    assert_eq!((&status["spec"], &status["status"]), (&old["spec"], &json!({"phase": "B"})));
}

#[test]
fn removed_fields_are_dropped_and_deprecated_ones_warned_of() {
    let given = json!({"spec": {"configSource": {"configMap": {}}, "externalID": "e"}, "status": {"config": {"error": "x"}}});
    let node = created(&Node, given.clone());
    assert_eq!((&node["spec"], &node["status"]), (&json!({"externalID": "e"}), &json!({})));
    for action in [Action::Object, Action::Status] {
        let next = updated(&Node, action, &node, given.clone());
        assert_eq!((&next["spec"], &next["status"]), (&node["spec"], &node["status"]), "{action:?}");
    }
    let deprecated = "spec.externalID: this field is deprecated, and is unused by Orch";
    let removed = "spec.configSource: the feature is removed";
    assert_eq!(Node.warnings(&CONTEXT, None, &node), [deprecated]);
    assert_eq!(Node.warnings(&CONTEXT, None, &given), [removed, deprecated]);
    let of_status = Context { action: Action::Status, ..CONTEXT };
    assert!(Node.warnings(&of_status, Some(&node), &node).is_empty());
}

#[test]
fn a_row_shows_readiness_roles_and_addresses() {
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.orch.io/control": "", "orch.io/role": "worker"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}
    });
    assert_eq!(
        json!(Node.table_row(&node, CONTEXT.now)),
        json!([
            "n",
            "NotReady,SchedulingDisabled",
            "control,worker",
            "<unknown>",
            "",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ])
    );
}
