//! The chart: its values and templates fit each other, and with its own values it is the manifest beside it.
//!
//! Owns a renderer of the few forms that the templates have: values, required ones too, the release's name, and lines that
//! begin and end a condition. It is no Helm: that tool's checks, and other forms, are not proven here. The job that makes the
//! certificates is started as a process; the other pods are in `manifests`.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::containers;
use super::flags::assert_flags_exist;
use super::root::{Job, Root, Volume};
use super::{documents, repository, source, texts};

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
    assert_eq!(values()["certificates"]["job"]["kubectlImage"], "", "an image that sees the keys is chosen");
    let mut values = values_with_job();
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

/// Every object that the chart makes of `values`.
fn objects(values: &Value) -> Vec<Value> {
    let texts = templates().into_iter().map(|(_, text)| render(&text, values, &mut BTreeSet::new()));
    texts.flat_map(|text| documents(&text)).collect()
}

/// The chart's values with the job that makes certificates.
fn values_with_job() -> Value {
    let mut values = values();
    values["certificates"]["job"]["enabled"] = true.into();
    values["certificates"]["job"]["kubectlImage"] = "kubectl@sha256:0".into();
    values
}

/// The command of a container of this image.
fn command(container: &Value) -> Vec<String> {
    let mut command = match &container["command"] {
        Value::Null => containers::words("ENTRYPOINT"),
        own => texts(own),
    };
    command.extend(texts(&container["args"]));
    command
}

#[test]
fn under_the_other_brand_every_flag_exists() {
    let mut values = values_with_job();
    values["brand"] = "kubernetes".into();
    values["schedulers"]["configFlag"] = "kubeconfig".into();
    let image = &values["image"]["name"];
    let mut count = 0;
    for object in objects(&values) {
        let pod = &object["spec"]["template"]["spec"];
        let containers = ["initContainers", "containers"].map(|list| pod[list].as_array().cloned());
        for container in containers.into_iter().flatten().flatten() {
            if container["image"] == *image {
                assert_flags_exist(&command(&container));
                count += 1;
            }
        }
    }
    assert_eq!(count, 4, "members, founding, schedulers and the job of certificates");
}

/// The keys of the Secret that the pods of `objects` take.
fn keys_taken(objects: &[Value]) -> BTreeSet<String> {
    let volumes =
        objects.iter().filter_map(|object| object["spec"]["template"]["spec"]["volumes"].as_array());
    let items = volumes.flatten().filter_map(|volume| volume["secret"]["items"].as_array()).flatten();
    items.map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_job_makes_every_file_that_the_pods_take() {
    let objects = objects(&values_with_job());
    let is_job =
        |object: &&Value| object["kind"] == "Job" && object["metadata"]["name"] == "orch-certificates";
    let job = objects.iter().find(is_job).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let (maker, kubectl) = (&pod["initContainers"][0], &pod["containers"][0]);
    let root = Root::new(&[]);
    let work = root.directory("work", 0o2770);
    let volume = Volume { from: work.clone(), to: "/work".to_owned(), is_writable: true };
    let made =
        Job { name: "made".to_owned(), command: command(maker), volumes: vec![volume], ..Job::default() };
    let mut made = root.start(&made);
    assert!(made.wait().await.success(), "{}", made.log());
    let mut keys = BTreeSet::new();
    for word in texts(&kubectl["args"]) {
        let Some(file) = word.strip_prefix("--from-file=") else { continue };
        let (key, path) = match file.split_once('=') {
            Some((key, path)) => (key, path),
            None => (file.rsplit_once('/').unwrap().1, file),
        };
        let there = work.join(path.strip_prefix("/work/").unwrap());
        assert!(fs::metadata(&there).is_ok_and(|found| found.len() > 0), "{word}: {}", there.display());
        keys.insert(key.to_owned());
    }
    let missing: Vec<String> = keys_taken(&objects).difference(&keys).cloned().collect();
    assert!(!keys.is_empty() && missing.is_empty(), "{missing:?} of {keys:?}");
}

#[test]
fn the_chart_is_of_this_version() {
    let chart = documents(&source("deploy/chart/Chart.yaml")).remove(0);
    assert_eq!((&chart["apiVersion"], &chart["name"]), (&"v2".into(), &RELEASE.into()));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
