//! Writing the values of the annotations.

use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::{SOURCES, Source, reference};
use crate::validate::tree::{Tree, set, sorted_entries};

/// The value for metrics of a spec.
pub(in super::super) fn write_metrics(metrics: &[&Value]) -> String {
    let written = metrics.iter().take_while(|_| count_step()).map(|metric| {
        write_metric(metric, |field, source, out| {
            let target = source.at("target");
            let copy = |out: &mut Value, from: &str, to: &str| {
                if target.has(from) {
                    set(out, to, target.at(from).clone());
                }
            };
            match field {
                "object" => {
                    set(out, "targetValue", amount_or_zero(target.at("value")));
                    write_selector(source, "selector", out);
                    copy(out, "averageValue", "averageValue");
                }
                "pods" => {
                    set(out, "targetAverageValue", amount_or_zero(target.at("averageValue")));
                    write_selector(source, "selector", out);
                }
                "external" => {
                    write_selector(source, "metricSelector", out);
                    copy(out, "value", "targetValue");
                    copy(out, "averageValue", "targetAverageValue");
                }
                _ => {
                    copy(out, "averageUtilization", "targetAverageUtilization");
                    copy(out, "averageValue", "targetAverageValue");
                }
            }
        })
    });
    go_json(&Value::Array(written.collect()))
}

/// The value for the current metrics of a status.
pub(in super::super) fn write_current_metrics(metrics: &[Value]) -> String {
    let written = metrics.iter().take_while(|_| count_step()).map(|metric| {
        write_metric(metric, |field, source, out| {
            let current = source.at("current");
            let copy = |out: &mut Value, from: &str, to: &str| {
                if current.has(from) {
                    set(out, to, current.at(from).clone());
                }
            };
            match field {
                "object" => {
                    set(out, "currentValue", amount_or_zero(current.at("value")));
                    write_selector(source, "selector", out);
                    copy(out, "averageValue", "averageValue");
                }
                "pods" => {
                    set(out, "currentAverageValue", amount_or_zero(current.at("averageValue")));
                    write_selector(source, "selector", out);
                }
                "external" => {
                    write_selector(source, "metricSelector", out);
                    set(out, "currentValue", amount_or_zero(current.at("value")));
                    copy(out, "averageValue", "currentAverageValue");
                }
                _ => {
                    copy(out, "averageUtilization", "currentAverageUtilization");
                    set(out, "currentAverageValue", amount_or_zero(current.at("averageValue")));
                }
            }
        })
    });
    go_json(&Value::Array(written.collect()))
}

/// A metric in the form of v1; `amounts` writes what differs between spec and status.
fn write_metric(metric: &Value, amounts: impl Fn(&str, &Value, &mut Value)) -> Value {
    let mut out = json!({"type": metric.text("type")});
    for Source { field, selector } in SOURCES {
        let source = metric.at(field);
        if source.is_null() {
            continue;
        }
        let mut written = Value::Object(Map::new());
        if field == "object" {
            set(&mut written, "target", reference(source.at("describedObject")));
        }
        match selector {
            Some(_) => set(&mut written, "metricName", source.at("metric").text("name")),
            None => set(&mut written, "name", source.text("name")),
        }
        amounts(field, source, &mut written);
        if field == "containerResource" {
            set(&mut written, "container", source.text("container"));
        }
        set(&mut out, field, written);
    }
    out
}

fn amount_or_zero(amount: &Value) -> Value {
    json!(amount.as_str().unwrap_or("0"))
}

fn write_selector(source: &Value, name: &str, out: &mut Value) {
    let selector = source.at("metric").at("selector");
    if selector.is_null() {
        return;
    }
    let mut written = Value::Object(Map::new());
    let labels = sorted_entries(selector.at("matchLabels"));
    if !labels.is_empty() {
        let labels: Map = labels.into_iter().map(|(key, value)| (key, value.clone())).collect();
        set(&mut written, "matchLabels", Value::Object(labels));
    }
    let requirements = selector.items("matchExpressions").iter().map(|requirement| {
        let mut out = json!({"key": requirement.text("key"), "operator": requirement.text("operator")});
        if !requirement.items("values").is_empty() {
            set(&mut out, "values", requirement.at("values").clone());
        }
        out
    });
    let requirements: Vec<Value> = requirements.collect();
    if !requirements.is_empty() {
        set(&mut written, "matchExpressions", requirements);
    }
    set(out, name, written);
}

/// The value for conditions.
pub(in super::super) fn write_conditions(conditions: &[Value]) -> String {
    let written = conditions.iter().take_while(|_| count_step()).map(|condition| {
        let mut out = json!({"type": condition.text("type"), "status": condition.text("status")});
        set(&mut out, "lastTransitionTime", condition.at("lastTransitionTime").clone());
        for field in ["reason", "message"] {
            if !condition.text(field).is_empty() {
                set(&mut out, field, condition.text(field));
            }
        }
        out
    });
    go_json(&Value::Array(written.collect()))
}

/// The value for a behavior.
pub(in super::super) fn write_behavior(behavior: &Value) -> String {
    let rules = |rules: &Value| {
        if rules.is_null() {
            return Value::Null;
        }
        let policies = rules.at("policies").as_array().map(|policies| {
            let policies = policies.iter().take_while(|_| count_step()).map(|policy| {
                let number = |field: &str| policy.int(field).unwrap_or(0);
                let (value, period) = (number("value"), number("periodSeconds"));
                json!({"Type": policy.text("type"), "Value": value, "PeriodSeconds": period})
            });
            Value::Array(policies.collect())
        });
        json!({
            "StabilizationWindowSeconds": rules.at("stabilizationWindowSeconds").clone(),
            "SelectPolicy": rules.at("selectPolicy").clone(),
            "Policies": policies.unwrap_or_default(),
            "Tolerance": rules.at("tolerance").clone(),
        })
    };
    go_json(&json!({"ScaleUp": rules(behavior.at("scaleUp")), "ScaleDown": rules(behavior.at("scaleDown"))}))
}

/// Compact JSON in which characters that HTML gives a meaning are escaped, as the reference's encoder does.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}
