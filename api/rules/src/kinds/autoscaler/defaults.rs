//! Defaults of both versions. Those of v1 concern one field; its metrics get theirs from the conversion.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::validate::tree::{Tree, child_mut, existing_mut, set, set_default};

/// Share of the requested CPU time that autoscalers without metrics aim at, in percent.
pub(super) const CPU_PERCENT: i64 = 80;

/// The metrics of an autoscaler that names none: the use of CPU time, in percent of what is requested.
pub(super) fn cpu_metrics(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
}

/// Sets the defaults of the version of the request.
pub(super) fn set_defaults(context: &Context<'_>, new: &mut Value) {
    let spec = child_mut(new, "spec");
    set_default(spec, "minReplicas", 1);
    if context.version == "v1" {
        return;
    }
    if spec.is_empty_at("metrics") {
        set(spec, "metrics", cpu_metrics(CPU_PERCENT));
    }
    if let Some(behavior) = existing_mut(spec, "behavior") {
        complete_up(behavior);
        complete_down(behavior);
    }
}

/// Fills in a direction of `behavior` that is absent. A direction that v1 has saved stays as it is.
pub(super) fn add_directions(behavior: &mut Value) {
    if !behavior.has("scaleUp") {
        complete_up(behavior);
    }
    if !behavior.has("scaleDown") {
        complete_down(behavior);
    }
}

fn complete_up(behavior: &mut Value) {
    let up = child_mut(behavior, "scaleUp");
    set_default(up, "stabilizationWindowSeconds", 0);
    set_default(up, "selectPolicy", "Max");
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    set_default(up, "policies", json!([pods, all_of_them()]));
}

fn complete_down(behavior: &mut Value) {
    let down = child_mut(behavior, "scaleDown");
    set_default(down, "selectPolicy", "Max");
    set_default(down, "policies", json!([all_of_them()]));
}

/// The policy by which the number of pods may double, or fall to nothing, within fifteen seconds.
fn all_of_them() -> Value {
    json!({"type": "Percent", "value": 100, "periodSeconds": 15})
}
