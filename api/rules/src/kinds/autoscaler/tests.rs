//! Rules of the stored form, defaults of both versions, and the way from one to the other and back.

use orch_proto::brand::ORCH;

use super::*;
use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

const V2: Context<'static> = Context { version: "v2", ..CONTEXT };

fn autoscaler(mut spec: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    crate::validate::tree::set_default(&mut spec, "scaleTargetRef", target);
    crate::validate::tree::set_default(&mut spec, "maxReplicas", 5);
    json!({"metadata": {"name": "n"}, "spec": spec})
}

fn defaulted(context: &Context<'_>, mut object: Value) -> Value {
    HorizontalPodAutoscaler.default(context, &mut object);
    object
}

#[test]
fn defaults_are_those_of_the_version() {
    let bare = autoscaler(json!({}));
    assert_eq!(defaulted(&CONTEXT, bare.clone())["spec"]["metrics"], Value::Null);
    let spec =
        defaulted(&V2, autoscaler(json!({"behavior": {"scaleDown": {"policies": []}}})))["spec"].clone();
    assert_eq!(
        spec["metrics"][0]["resource"]["target"],
        json!({"type": "Utilization", "averageUtilization": 80})
    );
    assert_eq!(
        spec["behavior"]["scaleUp"]["policies"][1],
        json!({"type": "Percent", "value": 100, "periodSeconds": 15})
    );
    assert_eq!(spec["behavior"]["scaleDown"], json!({"policies": [], "selectPolicy": "Max"}));
}

#[test]
fn fields_that_v1_lacks_stand_in_annotations() {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
        {"type": "Object", "object": {"metric": {"name": "q"}, "describedObject": {"kind": "S<", "name": "s"},
            "target": {"type": "Value", "value": "10"}}},
        {"type": "Pods", "pods": {"metric": {"name": "r", "selector": {"matchLabels": {"b": "2", "a": "1"}}},
            "target": {"type": "AverageValue", "averageValue": "1k"}}},
    ]);
    let condition =
        json!({"type": "A", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R"});
    let mut stored = defaulted(&V2, autoscaler(json!({"metrics": metrics, "behavior": {}})));
    stored["metadata"]["annotations"] = json!({"own": "x"});
    stored["status"] = json!({
        "currentReplicas": 1, "desiredReplicas": 2, "conditions": [condition],
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}],
    });
    let v1 = to_v1(&ORCH, &stored);
    assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(v1["status"]["currentCPUUtilizationPercentage"], 40);
    let annotation = |name: &str| v1["metadata"]["annotations"][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        annotation("autoscaling.alpha.orch.io/metrics"),
        "[{\"type\":\"Object\",\"object\":{\"target\":{\"kind\":\"S\\u003c\",\"name\":\"s\"},\"metricName\":\"q\",\
         \"targetValue\":\"10\"}},{\"type\":\"Pods\",\"pods\":{\"metricName\":\"r\",\"targetAverageValue\":\"1k\",\
         \"selector\":{\"matchLabels\":{\"a\":\"1\",\"b\":\"2\"}}}}]"
    );
    assert_eq!(
        annotation("autoscaling.alpha.orch.io/current-metrics"),
        "[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"currentAverageUtilization\":40,\
         \"currentAverageValue\":\"0\"}}]"
    );
    assert!(
        annotation("autoscaling.alpha.orch.io/behavior")
            .starts_with("{\"ScaleUp\":{\"StabilizationWindowSeconds\":0")
    );
    assert_eq!(
        annotation("autoscaling.alpha.orch.io/conditions"),
        "[{\"type\":\"A\",\"status\":\"True\",\"lastTransitionTime\":\"2026-01-02T03:04:05Z\",\"reason\":\"R\"}]"
    );
    let back = from_v1(&ORCH, &v1);
    assert_eq!(back["metadata"], stored["metadata"], "no annotation of the conversion is stored");
    assert_eq!(back["spec"]["behavior"], stored["spec"]["behavior"]);
    // The metric that v1 has a field for comes last.
    assert_eq!(back["spec"]["metrics"][2], stored["spec"]["metrics"][0]);
    assert_eq!(back["spec"]["metrics"][0], stored["spec"]["metrics"][1]);
    assert_eq!(back["status"]["conditions"], stored["status"]["conditions"]);
    assert_eq!(to_v1(&ORCH, &back), v1, "converted twice, nothing changes");
}

#[test]
fn unreadable_annotations_count_as_absent() {
    for text in
        ["", "[", "{}", "[1]", "[{\"type\":1}]", "[{\"type\":\"Object\",\"object\":{\"targetValue\":\"x\"}}]"]
    {
        let mut v1 = autoscaler(json!({"targetCPUUtilizationPercentage": 7}));
        v1["metadata"]["annotations"] = json!({"autoscaling.alpha.orch.io/metrics": text});
        let stored = from_v1(&ORCH, &v1);
        assert_eq!(stored["spec"]["metrics"].as_array().unwrap().len(), 1, "{text}");
        assert_eq!(stored["metadata"], json!({"name": "n"}), "{text}");
    }
    let bare = from_v1(&ORCH, &autoscaler(json!({})));
    assert_eq!(bare["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
}

#[test]
fn a_saved_behavior_gets_the_direction_that_it_lacks() {
    let text = "{\"ScaleUp\":{\"Policies\":[{\"Type\":\"Pods\",\"Value\":1,\"PeriodSeconds\":9}]}}";
    let mut v1 = autoscaler(json!({}));
    v1["metadata"]["annotations"] = json!({"autoscaling.alpha.orch.io/behavior": text});
    let up = json!({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 9}]});
    let down =
        json!({"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    assert_eq!(from_v1(&ORCH, &v1)["spec"]["behavior"], json!({"scaleUp": up, "scaleDown": down}));
}

#[test]
fn hostile_forms_are_converted() {
    check_hostile(&HorizontalPodAutoscaler);
    for hostile in [json!(null), json!([]), json!({"metadata": 1, "spec": [], "status": "x"})] {
        from_v1(&ORCH, &to_v1(&ORCH, &hostile));
    }
}

#[test]
fn targets_have_a_group_and_counts_an_order() {
    check_create(
        &HorizontalPodAutoscaler,
        autoscaler(json!({"minReplicas": -1, "maxReplicas": 0, "scaleTargetRef": {"name": "a/b"}})),
        &[
            "spec.minReplicas: Invalid value: -1: must be greater than or equal to 1",
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
        ],
    );
    let core = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "r"});
    check_create(&HorizontalPodAutoscaler, autoscaler(json!({"scaleTargetRef": core})), &[]);
    let bad = json!({"apiVersion": "a/b/c", "kind": "K", "name": "r"});
    check_create(
        &HorizontalPodAutoscaler,
        autoscaler(json!({"scaleTargetRef": bad})),
        &["spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"],
    );
    check_update(
        &HorizontalPodAutoscaler,
        autoscaler(json!({"scaleTargetRef": bad})),
        autoscaler(json!({"scaleTargetRef": bad, "maxReplicas": 6})),
        &[],
    );
    check_create(
        &HorizontalPodAutoscaler,
        autoscaler(json!({"minReplicas": 9})),
        &["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
    );
}

#[test]
fn a_metric_has_one_source_of_its_type() {
    let metric = |metric: Value| autoscaler(json!({ "metrics": [metric] }));
    let pods = json!({"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}});
    check_create(&HorizontalPodAutoscaler, metric(json!({"type": "Pods", "pods": pods})), &[]);
    let unknown = "spec.metrics[0].type: Unsupported value: \"Odd\": supported values: \"ContainerResource\", \
                   \"External\", \"Object\", \"Pods\", \"Resource\"";
    check_create(&HorizontalPodAutoscaler, metric(json!({"type": "Odd", "pods": pods})), &[unknown, unknown]);
    check_create(
        &HorizontalPodAutoscaler,
        metric(json!({"type": "Pods", "pods": pods, "resource": {"name": "cpu"}})),
        &["spec.metrics[0].resource: Forbidden: must populate the given metric source only"],
    );
    check_create(
        &HorizontalPodAutoscaler,
        metric(json!({"type": "Resource", "pods": pods})),
        &["spec.metrics[0].resource: Required value: must populate information for the given metric source"],
    );
    check_create(
        &HorizontalPodAutoscaler,
        metric(
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 0}}}),
        ),
        &["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
    );
}

#[test]
fn a_row_shows_two_metrics() {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "AverageValue", "averageValue": "3"}}},
        {"type": "Pods"},
    ]);
    let mut object = created(&HorizontalPodAutoscaler, autoscaler(json!({"metrics": metrics})));
    let row = |object: &Value| json!(HorizontalPodAutoscaler.table_row(object, CONTEXT.now));
    assert_eq!(
        row(&object),
        json!([
            "n",
            "Deployment/d",
            "memory: <unknown>/1Gi, <unknown>/3 (avg) + 1 more...",
            "1",
            5,
            0,
            "<unknown>"
        ])
    );
    object["spec"]["metrics"] = defaults::cpu_metrics(50);
    object["status"] = json!({"currentReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}
    ]});
    assert_eq!(row(&object)[2], "cpu: 40%/50%");
}
