//! The chart: its values and templates fit each other, and with its own values it is the manifest beside it.
//!
//! Owns a renderer of the few forms that the templates have: values, required ones too, the release's name, and lines that
//! begin and end a condition. It is no Helm: that tool's checks, and other forms, are not proven here.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{documents, repository, source};

/// The release of the manifest.
const RELEASE: &str = "orch";

/// The templates' texts by name, in the order of names, in which the manifest has them.
fn templates() -> Vec<(String, String)> {
    let folder = repository().join("deploy/chart/templates");
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn values() -> Value {
    documents(&source("deploy/chart/values.yaml")).remove(0)
}

/// The value under a path such as `.Values.image.name`; its name is noted in `used`.
fn value(values: &Value, path: &str, used: &mut BTreeSet<String>) -> Value {
    if path == ".Release.Name" {
        return RELEASE.into();
    }
    let path = path.strip_prefix(".Values.").unwrap_or_else(|| panic!("{path} is no value of the chart"));
    let pointer = format!("/{}", path.replace('.', "/"));
    let found = values.pointer(&pointer).unwrap_or_else(|| panic!("values.yaml has no {path}"));
    used.insert(pointer);
    found.clone()
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value != "" && value != 0
}

/// A line without its expressions.
fn substituted(line: &str, values: &Value, used: &mut BTreeSet<String>) -> String {
    // Braces of a map stand without a space.
    assert_eq!(line.matches("{{ ").count(), line.matches(" }}").count(), "braces do not balance: {line}");
    let (mut text, mut rest) = (String::new(), line);
    while let Some((before, behind)) = rest.split_once("{{") {
        let (path, after) = behind.split_once("}}").unwrap_or_else(|| panic!("an open expression: {line}"));
        text += before;
        // `required "reason" PATH` is an error where the value is empty.
        let required = path.trim().strip_prefix("required \"").and_then(|rest| rest.split_once("\" "));
        match value(values, required.map_or(path.trim(), |(_, path)| path), used) {
            Value::String(found) => text += &found,
            other => text += &other.to_string(),
        }
        rest = after;
    }
    text + rest
}

fn render(template: &str, values: &Value, used: &mut BTreeSet<String>) -> String {
    let (mut text, mut conditions) = (String::new(), Vec::new());
    for line in template.lines() {
        let statement = line.trim().strip_prefix("{{- ").and_then(|rest| rest.strip_suffix(" }}"));
        match statement.map(|statement| statement.strip_prefix("if ").unwrap_or(statement)) {
            Some("end") => drop(conditions.pop().expect("an end without its condition")),
            Some(path) => conditions.push(is_true(&value(values, path, used))),
            None => {
                let line = substituted(line, values, used);
                if conditions.iter().all(|holds| *holds) {
                    text += &line;
                    text.push('\n');
                }
            }
        }
    }
    assert!(conditions.is_empty(), "a condition without its end");
    text
}

/// The pointers of all values that are no maps.
fn leaves(value: &Value, pointer: &str, into: &mut BTreeSet<String>) {
    match value.as_object() {
        Some(fields) => {
            fields.iter().for_each(|(name, field)| leaves(field, &format!("{pointer}/{name}"), into));
        }
        None => drop(into.insert(pointer.to_owned())),
    }
}

#[test]
fn with_its_own_values_it_is_the_manifest() {
    let (values, mut used) = (values(), BTreeSet::new());
    let parts = templates().into_iter().map(|(_, text)| render(&text, &values, &mut used).trim().to_owned());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    let manifest = source("deploy/kubernetes/orch.yaml");
    // Its header is its own.
    let (_, body) = manifest.split_once("\n---\n").unwrap();
    let rendered = parts.join("\n---\n") + "\n";
    let differing = body.lines().zip(rendered.lines()).find(|(found, expected)| found != expected);
    assert_eq!(differing, None, "deploy/kubernetes/orch.yaml is what the chart gives");
    assert_eq!(body, rendered);
    let mut all = BTreeSet::new();
    leaves(&values, "", &mut all);
    assert_eq!(used, all, "every value is used, and every value that is used is there");
}

#[test]
fn with_all_conditions_true_it_is_made_of_whole_objects() {
    let mut values = values();
    values["certificates"]["job"]["enabled"] = true.into();
    assert_eq!(values["certificates"]["job"]["kubectlImage"], "", "an image that sees the keys is chosen");
    values["certificates"]["job"]["kubectlImage"] = "kubectl@sha256:0".into();
    values["members"]["storage"]["className"] = "fast".into();
    let mut kinds = Vec::new();
    for (name, text) in templates() {
        for object in documents(&render(&text, &values, &mut BTreeSet::new())) {
            let kind = object["kind"].as_str().unwrap_or_else(|| panic!("{name}: {object}")).to_owned();
            assert!(object["metadata"]["name"].as_str().unwrap().starts_with(RELEASE), "{name}: {kind}");
            if kind == "StatefulSet" {
                let claim = &object["spec"]["volumeClaimTemplates"][0]["spec"];
                assert_eq!(claim["storageClassName"], "fast");
            }
            let annotations = &object["metadata"]["annotations"];
            if !annotations["helm.sh/hook"].is_null() {
                let policy = &annotations["helm.sh/hook-delete-policy"];
                assert_eq!(policy, "before-hook-creation,hook-succeeded", "{name}: {kind}");
            }
            kinds.push(kind);
        }
    }
    for kind in ["Job", "Role", "RoleBinding", "ServiceAccount", "StatefulSet", "Deployment"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = documents(&source("deploy/chart/Chart.yaml")).remove(0);
    assert_eq!((&chart["apiVersion"], &chart["name"]), (&"v2".into(), &RELEASE.into()));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
