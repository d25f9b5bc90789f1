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
        let up = child_mut(behavior, "scaleUp");
        set_default(up, "stabilizationWindowSeconds", 0);
        set_default(up, "selectPolicy", "Max");
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        set_default(up, "policies", json!([pods, percent]));
        let down = child_mut(behavior, "scaleDown");
        set_default(down, "selectPolicy", "Max");
        set_default(down, "policies", json!([percent]));
    }
}
