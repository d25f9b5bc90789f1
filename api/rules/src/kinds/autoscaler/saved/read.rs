//! Reading the values of the annotations. Members count in any case, as for the reference's decoder; a value with a
//! member of another type is refused as a whole.

use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::quantity::canonical;
use orch_schema::value::{Map, Value};
use orch_schema::{Instant, Precision};

use super::{SOURCES, Source, reference};
use crate::validate::tree::set;

/// Metrics of a spec from the value of their annotation.
pub(in super::super) fn read_metrics(text: &str) -> Option<Vec<Value>> {
    read_list(text, |metric| {
        read_metric(metric, |field, source, out| {
            let (value, average, share) = match field {
                "object" => {
                    (Some(amount(source, "targetValue")?), amount_if_given(source, "averageValue")?, None)
                }
                "pods" => (None, Some(amount(source, "targetAverageValue")?), None),
                "external" => (
                    amount_if_given(source, "targetValue")?,
                    amount_if_given(source, "targetAverageValue")?,
                    None,
                ),
                _ => (
                    None,
                    amount_if_given(source, "targetAverageValue")?,
                    number_if_given(source, "targetAverageUtilization")?,
                ),
            };
            let kind = match field {
                "object" if average.is_some() => "AverageValue",
                "object" => "Value",
                "external" if value.is_some() => "Value",
                "resource" | "containerResource" if share.is_some() => "Utilization",
                _ => "AverageValue",
            };
            let mut target = json!({ "type": kind });
            set_amounts(&mut target, value, average, share);
            set(out, "target", target);
            Some(())
        })
    })
}

/// Current metrics of a status from the value of their annotation.
pub(in super::super) fn read_current_metrics(text: &str) -> Option<Vec<Value>> {
    read_list(text, |metric| {
        read_metric(metric, |field, source, out| {
            let (value, average, share) = match field {
                "object" => {
                    (Some(amount(source, "currentValue")?), amount_if_given(source, "averageValue")?, None)
                }
                "pods" => (None, Some(amount(source, "currentAverageValue")?), None),
                "external" => (
                    Some(amount(source, "currentValue")?),
                    amount_if_given(source, "currentAverageValue")?,
                    None,
                ),
                _ => (
                    None,
                    Some(amount(source, "currentAverageValue")?),
                    number_if_given(source, "currentAverageUtilization")?,
                ),
            };
            let mut current = Value::Object(Map::new());
            set_amounts(&mut current, value, average, share);
            set(out, "current", current);
            Some(())
        })
    })
}

fn set_amounts(holder: &mut Value, value: Option<String>, average: Option<String>, share: Option<i64>) {
    if let Some(value) = value {
        set(holder, "value", value.as_str());
    }
    if let Some(average) = average {
        set(holder, "averageValue", average.as_str());
    }
    if let Some(share) = share {
        set(holder, "averageUtilization", share);
    }
}

/// A metric from the form of v1; `amounts` reads what differs between spec and status.
fn read_metric(metric: &Value, amounts: impl Fn(&str, &Value, &mut Value) -> Option<()>) -> Option<Value> {
    let mut out = json!({"type": text_of(metric, "type")?});
    for Source { field, selector } in SOURCES {
        let source = member(metric, field);
        if source.is_null() {
            continue;
        }
        source.as_object()?;
        let mut read = Value::Object(Map::new());
        match selector {
            Some(selector) => {
                let mut identity = json!({"name": text_of(source, "metricName")?});
                if let Some(selector) = read_selector(member(source, selector))? {
                    set(&mut identity, "selector", selector);
                }
                set(&mut read, "metric", identity);
            }
            None => set(&mut read, "name", text_of(source, "name")?.as_str()),
        }
        if field == "object" {
            let target = member(source, "target");
            let texts = json!({
                "kind": text_of(target, "kind")?,
                "name": text_of(target, "name")?,
                "apiVersion": text_of(target, "apiVersion")?,
            });
            set(&mut read, "describedObject", reference(&texts));
        }
        if field == "containerResource" {
            set(&mut read, "container", text_of(source, "container")?.as_str());
        }
        amounts(field, source, &mut read)?;
        set(&mut out, field, read);
    }
    Some(out)
}

fn read_selector(selector: &Value) -> Option<Option<Value>> {
    if selector.is_null() {
        return Some(None);
    }
    selector.as_object()?;
    let mut out = Value::Object(Map::new());
    let labels = member(selector, "matchLabels");
    if !labels.is_null() {
        let labels = labels.as_object()?;
        // once: one pass over the labels.
        if labels.values().any(|value| !value.is_string()) {
            return None;
        }
        if !labels.is_empty() {
            set(&mut out, "matchLabels", Value::Object(labels.clone()));
        }
    }
    let requirements = member(selector, "matchExpressions");
    if !requirements.is_null() {
        let mut read = Vec::new();
        for requirement in requirements.as_array()?.iter().take_while(|_| count_step()) {
            let mut one =
                json!({"key": text_of(requirement, "key")?, "operator": text_of(requirement, "operator")?});
            let values = member(requirement, "values");
            if !values.is_null() {
                let values = values.as_array()?;
                values.iter().all(Value::is_string).then_some(())?;
                if !values.is_empty() {
                    set(&mut one, "values", values.clone());
                }
            }
            read.push(one);
        }
        if !read.is_empty() {
            set(&mut out, "matchExpressions", read);
        }
    }
    Some(Some(out))
}

/// Conditions from the value of their annotation.
pub(in super::super) fn read_conditions(text: &str) -> Option<Vec<Value>> {
    read_list(text, |condition| {
        let mut out = json!({"type": text_of(condition, "type")?, "status": text_of(condition, "status")?});
        let time = text_of(condition, "lastTransitionTime")?;
        let time = match time.as_str() {
            "" => Value::Null,
            time => json!(Instant::parse(time, Precision::Seconds)?.format(Precision::Seconds)?),
        };
        set(&mut out, "lastTransitionTime", time);
        for field in ["reason", "message"] {
            let text = text_of(condition, field)?;
            if !text.is_empty() {
                set(&mut out, field, text.as_str());
            }
        }
        Some(out)
    })
}

/// The behavior from the value of its annotation; `None` for an empty one, too.
pub(in super::super) fn read_behavior(text: &str) -> Option<Value> {
    let saved: Value = serde_json::from_str(text).ok()?;
    saved.as_object()?;
    let mut out = Value::Object(Map::new());
    for (name, field) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        let rules = member(&saved, name);
        if rules.is_null() {
            continue;
        }
        rules.as_object()?;
        let mut read = Value::Object(Map::new());
        if let Some(window) = number_if_given(rules, "StabilizationWindowSeconds")? {
            set(&mut read, "stabilizationWindowSeconds", window);
        }
        if !member(rules, "SelectPolicy").is_null() {
            set(&mut read, "selectPolicy", text_of(rules, "SelectPolicy")?.as_str());
        }
        let policies = member(rules, "Policies");
        if !policies.is_null() {
            let mut all = Vec::new();
            for policy in policies.as_array()?.iter().take_while(|_| count_step()) {
                let number = |field: &str| Some(number_if_given(policy, field)?.unwrap_or(0));
                let (value, period) = (number("Value")?, number("PeriodSeconds")?);
                all.push(json!({"type": text_of(policy, "Type")?, "value": value, "periodSeconds": period}));
            }
            set(&mut read, "policies", all);
        }
        if let Some(tolerance) = amount_if_given(rules, "Tolerance")? {
            set(&mut read, "tolerance", tolerance.as_str());
        }
        set(&mut out, field, read);
    }
    out.as_object().filter(|out| !out.is_empty())?;
    Some(out)
}

fn read_list(text: &str, read: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    let saved: Value = serde_json::from_str(text).ok()?;
    let items = saved.as_array()?.iter().take_while(|_| count_step());
    items.map(|item| if item.is_object() { read(item) } else { None }).collect()
}

/// The member of this name, or of the first that differs in case only; null without one.
fn member<'v>(object: &'v Value, name: &str) -> &'v Value {
    let Some(members) = object.as_object() else { return &Value::Null };
    members.get(name).unwrap_or_else(|| {
        // once: each member is looked for in its own object.
        let found = members.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(&Value::Null, |(_, value)| value)
    })
}

/// The text of a member, empty where there is none; `None` for another type.
fn text_of(object: &Value, name: &str) -> Option<String> {
    match member(object, name) {
        Value::Null => Some(String::new()),
        value => value.as_str().map(str::to_owned),
    }
}

/// A whole number of 32 bits; the inner `None` where there is none.
fn number_if_given(object: &Value, name: &str) -> Option<Option<i64>> {
    match member(object, name) {
        Value::Null => Some(None),
        value => value.as_i64().filter(|number| i32::try_from(*number).is_ok()).map(Some),
    }
}

/// A quantity in canonical text; the inner `None` where there is none.
fn amount_if_given(object: &Value, name: &str) -> Option<Option<String>> {
    match member(object, name) {
        Value::Null => Some(None),
        Value::String(text) => canonical(text).ok().map(Some),
        Value::Number(number) => canonical(&number.to_string()).ok().map(Some),
        _ => None,
    }
}

/// A quantity in canonical text, zero where there is none.
fn amount(object: &Value, name: &str) -> Option<String> {
    Some(amount_if_given(object, name)?.unwrap_or_else(|| "0".to_owned()))
}
