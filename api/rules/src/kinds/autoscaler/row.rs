//! The row of an autoscaler in a table, with its first two metrics.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, age};
use crate::validate::tree::Tree;

/// Metrics that a row shows.
const SHOWN_METRICS: usize = 2;
const UNKNOWN: &str = "<unknown>";

/// The cells of the row of `object`.
pub(super) fn autoscaler_row(object: &Value, now: &str) -> Vec<Cell> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let target = spec.at("scaleTargetRef");
    let low = spec.int("minReplicas").map_or("<unset>".to_owned(), |low| low.to_string());
    vec![
        object.at("metadata").at("name").clone(),
        json!(format!("{}/{}", target.text("kind"), target.text("name"))),
        json!(format_metrics(spec.items("metrics"), status.items("currentMetrics"))),
        json!(low),
        json!(spec.int("maxReplicas").unwrap_or(0)),
        json!(status.int("currentReplicas").unwrap_or(0)),
        json!(age::age(object, now)),
    ]
}

fn format_metrics(metrics: &[Value], current: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> = metrics
        .iter()
        .take(SHOWN_METRICS)
        .enumerate()
        .map(|(at, metric)| format_metric(metric, current.get(at).unwrap_or(&Value::Null)))
        .collect();
    let shown = shown.join(", ");
    match metrics.len().checked_sub(SHOWN_METRICS) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

/// `current/target`, with the resource's name before it.
fn format_metric(metric: &Value, current: &Value) -> String {
    let field = match metric.text("type") {
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (metric.at(field).at("target"), current.at(field).at("current"));
    let amount = |holder: &Value, name: &str| holder.at(name).as_str().unwrap_or("<nil>").to_owned();
    let is_known = current.has(field);
    let known = |name: &str| if is_known { amount(now, name) } else { UNKNOWN.to_owned() };
    let named = |name: &str| now.at(name).as_str().unwrap_or(UNKNOWN).to_owned();
    match field {
        "pods" => format!("{}/{}", known("averageValue"), amount(target, "averageValue")),
        "external" | "object" if target.has("averageValue") => {
            format!("{}/{} (avg)", named("averageValue"), amount(target, "averageValue"))
        }
        "external" | "object" => format!("{}/{}", known("value"), amount(target, "value")),
        _ => {
            let name = metric.at(field).text("name");
            if target.has("averageValue") {
                return format!("{name}: {}/{}", known("averageValue"), amount(target, "averageValue"));
            }
            let percent = |holder: &Value, absent: &str| {
                holder.int("averageUtilization").map_or(absent.to_owned(), |share| format!("{share}%"))
            };
            format!("{name}: {}/{}", percent(now, UNKNOWN), percent(target, "<auto>"))
        }
    }
}
