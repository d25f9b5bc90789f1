//! Claims, templates, classes and slices as the pipeline drives them.

use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::Action;
use crate::kinds::testing::{
    CONTEXT, check_create, check_hostile, check_update, check_update_in, created, updated,
};
use crate::kinds::{Context, Strategy};

fn claim(requests: &Value) -> Value {
    json!({"spec": {"devices": {"requests": requests}}})
}

#[test]
fn requests_ask_for_one_device_by_default() {
    let object = created(
        &ResourceClaim,
        claim(&json!([
            {"name": "r", "exactly": {"deviceClassName": "gpu"}},
            {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "allocationMode": "All"}]},
        ])),
    );
    let requests = &object["spec"]["devices"]["requests"];
    let exact = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    assert_eq!(requests[0]["exactly"], exact);
    assert_eq!(requests[1]["firstAvailable"][0]["count"], Value::Null);
    assert_eq!(object["status"], json!({}));
    check_hostile(&ResourceClaim);
    check_hostile(&ResourceClaimTemplate);
    check_hostile(&DeviceClass);
    check_hostile(&ResourceSlice);
}

#[test]
fn a_claim_refers_to_its_own_requests() {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
    let mut object = claim(&json!([request, request, {"name": "x"}]));
    object["spec"]["devices"]["constraints"] =
        json!([{"requests": ["r", "x/y"], "matchAttribute": "bad"}, {}]);
    object["spec"]["devices"]["config"] = json!([{"requests": ["r", "r"]}]);
    check_create(
        &ResourceClaim,
        object,
        &[
            "spec.devices.requests[2]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            "spec.devices.requests[1]: Duplicate value: \"r\"",
            "spec.devices.constraints[0].requests[1]: Invalid value: \"x/y\": must be the name of a request in the \
             claim or the name of a request and a subrequest separated by '/'",
            "spec.devices.constraints[0].matchAttribute: Invalid value: \"bad\": a fully qualified name must be a \
             domain and a name separated by a slash",
            "spec.devices.constraints[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" \
             is required, but multiple fields are set",
            "spec.devices.config[0].requests[1]: Duplicate value: \"r\"",
            "spec.devices.config[0].opaque: Required value",
        ],
    );
    let many: Value =
        (0..33).map(|at| json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "g"}})).collect();
    check_create(
        &ResourceClaim,
        claim(&many),
        &["spec.devices.requests: Too many: 33: must have at most 32 items"],
    );
}

#[test]
fn the_spec_of_a_claim_stays_and_its_allocation_too() {
    let old = claim(&json!([{"name": "r", "exactly": {"deviceClassName": "gpu"}}]));
    let context = Context { action: Action::Status, ..CONTEXT };
    let result = json!({"request": "r", "driver": "d.io", "pool": "p", "device": "d"});
    let status = |status: Value| {
        let mut object = old.clone();
        object["status"] = status;
        object
    };
    let user = json!({"resource": "pods", "name": "p", "uid": "u"});
    check_update_in(
        &context,
        &ResourceClaim,
        old.clone(),
        status(json!({"reservedFor": [user]})),
        &["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
    );
    let allocated = json!({"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]});
    check_update_in(&context, &ResourceClaim, old.clone(), status(allocated.clone()), &[]);
    let mut before = created(&ResourceClaim, old.clone());
    before["status"] = allocated;
    let mut after = before.clone();
    after["status"]["allocation"]["devices"]["results"][0]["device"] = json!("other");
    let errors = ResourceClaim.validate_update(&context, &before, &after);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].to_string().ends_with("field is immutable"), "{errors:?}");
    let mut changed = old.clone();
    changed["spec"]["devices"]["requests"][0]["name"] = json!("s");
    let errors = ResourceClaim.validate_update(
        &CONTEXT,
        &before,
        &updated(&ResourceClaim, Action::Object, &before, changed),
    );
    assert!(errors.iter().any(|error| error.path.as_str() == "spec"), "{errors:?}");
}

#[test]
fn administrators_access_needs_a_label_of_the_namespace() {
    let object = claim(&json!([{"name": "r", "exactly": {"deviceClassName": "g", "adminAccess": true}}]));
    let required = ResourceClaim.namespace_requirement(&CONTEXT, None, &object).unwrap();
    assert_eq!((required.label.as_str(), required.value), ("resource.orch.io/admin-access", "true"));
    assert_eq!(required.error.path.as_str(), "spec.devices.requests[0].adminAccess");
    assert!(ResourceClaim.namespace_requirement(&CONTEXT, Some(&object), &object).is_none());
    assert!(ResourceClaim.namespace_requirement(&CONTEXT, None, &claim(&json!([]))).is_none());
}

#[test]
fn reports_about_devices_go_with_their_allocation() {
    let device = json!({"driver": "d.io", "pool": "p", "device": "d"});
    let mut old =
        created(&ResourceClaim, claim(&json!([{"name": "r", "exactly": {"deviceClassName": "g"}}])));
    let mut result = device.clone();
    result["request"] = json!("r");
    old["status"] = json!({"allocation": {"devices": {"results": [result]}}, "devices": [device]});
    let mut new = old.clone();
    new["status"] = json!({"devices": [device]});
    let new = updated(&ResourceClaim, Action::Status, &old, new);
    assert_eq!(new["status"], json!({}));
}

#[test]
fn a_class_checks_its_selectors_once() {
    let class = |expression: &str| json!({"metadata": {"namespace": ""}, "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    check_create(&DeviceClass, class("device.driver == 'd'"), &[]);
    check_create(
        &DeviceClass,
        class("device.driver"),
        &[
            "spec.selectors[0].cel.expression: Invalid value: \"device.driver\": must evaluate to bool or the unknown \
           type, not string",
        ],
    );
    check_update(&DeviceClass, class("device.driver"), class("device.driver"), &[]);
    check_create(
        &DeviceClass,
        json!({"spec": {"extendedResourceName": "cpu", "config": [{"opaque": {"driver": "d.io", "parameters": [1]}}]}}),
        &[
            "spec.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name",
        ],
    );
}

fn slice(devices: &Value) -> Value {
    let pool = json!({"name": "p", "resourceSliceCount": 1, "generation": 0});
    json!({"spec": {"driver": "d.io", "pool": pool, "nodeName": "n", "devices": devices}})
}

#[test]
fn a_slice_offers_devices_in_one_place() {
    check_create(&ResourceSlice, slice(&json!([{"name": "d"}])), &[]);
    let mut nowhere = slice(&json!([]));
    nowhere["spec"]["nodeName"] = Value::Null;
    nowhere["spec"]["pool"]["resourceSliceCount"] = json!(0);
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    check_create(
        &ResourceSlice,
        nowhere,
        &[
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            &format!("spec: Required value: {ONE}"),
        ],
    );
    let mut twice = slice(&json!([]));
    twice["spec"]["allNodes"] = json!(true);
    check_create(
        &ResourceSlice,
        twice,
        &[&format!(
            "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {ONE}, but multiple fields are set"
        )],
    );
    let mut moved = slice(&json!([]));
    moved["spec"]["nodeName"] = json!("m");
    check_update(
        &ResourceSlice,
        slice(&json!([])),
        moved,
        &["spec.nodeName: Invalid value: \"m\": field is immutable"],
    );
    let mut both = slice(&json!([]));
    both["spec"]["sharedCounters"] = json!([{"name": "c", "counters": {"a": {"value": "1"}}}]);
    check_create(
        &ResourceSlice,
        both,
        &["spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"],
    );
    let object =
        created(&ResourceSlice, slice(&json!([{"name": "d", "taints": [{"key": "k", "effect": "None"}]}])));
    assert_eq!(object["spec"]["devices"][0]["taints"][0]["timeAdded"], CONTEXT.now);
    assert_eq!(
        json!(ResourceSlice.table_row(&object, CONTEXT.now)),
        json!(["n", "n", "d.io", "p", "<unknown>"])
    );
    let values = ["spec.nodeName", "spec.driver"].map(|name| ResourceSlice.field_value(&object, name));
    assert_eq!(values, ["n", "d.io"]);
}

#[test]
fn devices_are_described_within_bounds() {
    check_create(
        &ResourceSlice,
        slice(&json!([{
            "name": "d",
            "attributes": {"a b": {"int": 1}, "none": {}, "v": {"version": "1"}},
            "capacity": {"c": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1"]}}},
            "taints": [{"key": "k"}],
            "consumesCounters": [{"counterSet": "s"}],
            "bindingConditions": ["x"],
            "allNodes": true,
        }])),
        &[
            "spec.devices[0].attributes: Invalid value: \"a b\": a valid C identifier must start with alphabetic \
             character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or \
             'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
            "spec.devices[0].attributes[none]: Invalid value: \"\": exactly one value must be specified",
            "spec.devices[0].attributes[v].version: Invalid value: \"1\": must be a string compatible with \
             semver.org spec 2.0.0",
            "spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true",
            "spec.devices[0].taints[0].effect: Required value",
            "spec.devices[0].consumesCounters[0].counters: Required value",
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if \
             `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to \
             use bindingConditions",
        ],
    );
}

#[test]
fn parts_of_a_capacity_are_asked_for_as_its_policy_says() {
    let policy = |policy: Value| {
        slice(&json!([{"name": "d", "allowMultipleAllocations": true,
            "capacity": {"c": {"value": "10", "requestPolicy": policy}}}]))
    };
    let path = "spec.devices[0].capacity[c].requestPolicy";
    check_create(
        &ResourceSlice,
        policy(json!({"default": "2", "validRange": {"min": "1", "max": "9", "step": "2"}})),
        &[&format!(
            "{path}.validRange.step: Invalid value: \"2\": value is not a multiple of a given step (2) from (1)"
        )],
    );
    check_create(
        &ResourceSlice,
        policy(json!({"default": "3", "validValues": ["2", "1", "20"]})),
        &[
            &format!("{path}.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order"),
            &format!(
                "{path}.validValues[2]: Invalid value: \"20\": option is larger than capacity value: 10"
            ),
            &format!(
                "{path}.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy"
            ),
        ],
    );
    check_create(
        &ResourceSlice,
        policy(json!({"validValues": ["1"]})),
        &[&format!("{path}.default: Required value: required when validValues is defined")],
    );
    check_create(&ResourceSlice, policy(json!({"default": "1", "validRange": {"min": "1"}})), &[]);
}
