//! FlowSchema: which requests belong to which priority level, and what tells their flows apart.

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use super::{CATCH_ALL, EXEMPT, prepare_update, validate_create, validate_update};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::invalid_each;
use crate::validate::names::{dns1123_label, dns1123_subdomain};
use crate::validate::tree::{Tree, existing_mut, is_unchanged, set_default_int, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Precedence of a schema that names none.
const PRECEDENCE_DEFAULT: i64 = 1000;
const PRECEDENCE_MAX: i64 = 10_000;
const DISTINGUISHERS: [&str; 2] = ["ByNamespace", "ByUser"];
const SUBJECT_KINDS: [&str; 3] = ["Group", "ServiceAccount", "User"];
/// The fields of a subject, each for one kind.
const SUBJECT_FIELDS: [(&str, &str); 3] =
    [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const ALL: &str = "*";

/// The rules of flow schemas.
#[derive(Debug)]
pub struct FlowSchema;

/// The fixed spec of a schema that every cluster has; `None` for other names.
pub fn mandatory_flow_schema(name: &str) -> Option<Value> {
    let everything = json!({
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]},
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    let rule = |groups: &[&str]| {
        let subject = |group: &&str| json!({"kind": "Group", "group": {"name": *group}});
        let subjects = Value::Array(groups.iter().map(subject).collect());
        json!({
            "subjects": subjects,
            "resourceRules": everything.at("resourceRules").clone(),
            "nonResourceRules": everything.at("nonResourceRules").clone(),
        })
    };
    match name {
        EXEMPT => Some(json!({
            "priorityLevelConfiguration": {"name": EXEMPT},
            "matchingPrecedence": 1,
            "rules": [rule(&["system:masters"])],
        })),
        CATCH_ALL => Some(json!({
            "priorityLevelConfiguration": {"name": CATCH_ALL},
            "matchingPrecedence": PRECEDENCE_MAX,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule(&["system:unauthenticated", "system:authenticated"])],
        })),
        _ => None,
    }
}

impl Strategy for FlowSchema {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        if let Some(spec) = existing_mut(new, "spec") {
            set_default_int(spec, "matchingPrecedence", PRECEDENCE_DEFAULT);
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        prepare_update(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        validate_create(context, new, validate_spec)
    }

    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        validate_update(context, new, validate_spec)
    }

    fn table_order(&self, object: &Value) -> Option<i64> {
        Some(object.at("spec").int("matchingPrecedence").unwrap_or(0))
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let distinguisher = match spec.at("distinguisherMethod") {
            Value::Null => "<none>",
            method => method.text("type"),
        };
        let conditions = object.at("status").items("conditions");
        // few: the conditions of one object.
        let dangling = conditions.iter().find(|condition| condition.text("type") == "Dangling");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.at("priorityLevelConfiguration").text("name")),
            json!(spec.int("matchingPrecedence").unwrap_or(0)),
            json!(distinguisher),
            json!(age::age(object, now)),
            json!(dangling.map_or("?", |condition| condition.text("status"))),
        ])
    }
}

/// Rules for the spec of the schema `name`, and its fixed value where it has one.
fn validate_spec(name: &str, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_fields(name, spec, path);
    if mandatory_flow_schema(name).is_some_and(|fixed| !is_unchanged(spec, &fixed)) {
        let detail = format!("spec of '{name}' must equal the fixed value");
        errors.push(FieldError::invalid(path.clone(), &shown(spec), &detail));
    }
    errors
}

fn validate_fields(name: &str, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let precedence = spec.int("matchingPrecedence").unwrap_or(0);
    let mut misplaced = |detail: &str| {
        let path = path.child("matchingPrecedence");
        errors.push(FieldError::invalid(path, &precedence.to_string(), detail));
    };
    if precedence <= 0 {
        misplaced("must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        misplaced(&format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != EXEMPT {
        misplaced("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = spec.at("distinguisherMethod");
    if !method.is_null() && !DISTINGUISHERS.contains(&method.text("type")) {
        let path = path.child("distinguisherMethod").child("type");
        errors.push(FieldError::not_supported_value(path, &shown(method), &DISTINGUISHERS));
    }
    let level = spec.at("priorityLevelConfiguration").text("name");
    let level_path = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        errors.push(FieldError::required(level_path, "must reference a priority level"));
    } else {
        errors.extend(invalid_each(&level_path, level, dns1123_subdomain(level)));
    }
    for (at, rule) in spec.items("rules").iter().numbered() {
        errors.extend(validate_rule(rule, &path.child("rules").index(at)));
    }
    errors
}

fn validate_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let subjects = rule.items("subjects");
    if subjects.is_empty() {
        let detail = "subjects must contain at least one value";
        errors.push(FieldError::required(path.child("subjects"), detail));
    }
    for (at, subject) in subjects.iter().numbered() {
        errors.extend(validate_subject(subject, &path.child("subjects").index(at)));
    }
    let (resources, urls) = (rule.items("resourceRules"), rule.items("nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path.clone(), detail));
    }
    for (at, rule) in resources.iter().numbered() {
        errors.extend(validate_resource_rule(rule, &path.child("resourceRules").index(at)));
    }
    for (at, rule) in urls.iter().numbered() {
        errors.extend(validate_url_rule(rule, &path.child("nonResourceRules").index(at)));
    }
    errors
}

fn validate_subject(subject: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let kind = subject.text("kind");
    // few: the kinds of subjects.
    if !SUBJECT_KINDS.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("kind"), kind, &SUBJECT_KINDS));
        return errors;
    }
    for (field, of) in SUBJECT_FIELDS {
        let (value, path) = (subject.at(field), path.child(field));
        match (of == kind, value.is_null()) {
            (true, true) => {
                let detail = format!("{field} is required when subject kind is '{of}'");
                errors.push(FieldError::required(path, &detail));
            }
            (true, false) if kind == "ServiceAccount" => {
                errors.extend(validate_service_account(value, &path));
            }
            (true, false) if value.text("name").is_empty() => {
                errors.push(FieldError::required(path.child("name"), ""));
            }
            (false, false) => {
                let detail = format!("{field} is forbidden when subject kind is not '{of}'");
                errors.push(FieldError::forbidden(path, &detail));
            }
            (true | false, _) => {}
        }
    }
    errors
}

fn validate_service_account(subject: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (name, namespace) = (subject.text("name"), subject.text("namespace"));
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else if name != ALL {
        errors.extend(invalid_each(&path.child("name"), name, dns1123_subdomain(name)));
    }
    let path = path.child("namespace");
    if namespace.is_empty() {
        errors.push(FieldError::required(path, "must specify namespace for service account"));
    } else {
        errors.extend(invalid_each(&path, namespace, dns1123_label(namespace)));
    }
    errors
}

fn validate_verbs(rule: &Value, path: &Path) -> Option<FieldError> {
    let (verbs, path) = (rule.items("verbs"), path.child("verbs"));
    let given = shown(rule.at("verbs"));
    if verbs.is_empty() {
        return Some(FieldError::required(path, "verbs must contain at least one value"));
    }
    if has_all(verbs) {
        let detail = "if '*' is present, must not specify other verbs";
        return (verbs.len() > 1).then(|| FieldError::invalid(path, &given, detail));
    }
    // few: the verbs that there are.
    let is_known = |verb: &Value| VERBS.contains(&verb.as_str().unwrap_or_default());
    (!verbs.iter().all(is_known)).then(|| FieldError::not_supported_value(path, &given, &VERBS))
}

fn validate_resource_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_verbs(rule, path));
    for (field, one, others) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let (values, path) = (rule.items(field), path.child(field));
        if values.is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(path, &detail));
        } else if values.len() > 1 && has_all(values) {
            let detail = format!("if '*' is present, must not specify other {others}");
            errors.push(FieldError::invalid(path, &shown(rule.at(field)), &detail));
        }
    }
    let (namespaces, path) = (rule.items("namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(path, detail));
    } else if has_all(namespaces) {
        if namespaces.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errors.push(FieldError::invalid(path, &shown(rule.at("namespaces")), detail));
        }
    } else {
        for (at, namespace) in namespaces.iter().numbered() {
            let namespace = namespace.as_str().unwrap_or_default();
            let introduce =
                |message| format!("each member of this list must be '*' or a DNS-1123 label; {message}");
            let messages = dns1123_label(namespace).into_iter().map(introduce).collect();
            errors.extend(invalid_each(&path.index(at), namespace, messages));
        }
    }
    errors
}

fn validate_url_rule(rule: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_verbs(rule, path));
    let (urls, path) = (rule.items("nonResourceURLs"), path.child("nonResourceURLs"));
    if urls.is_empty() {
        errors.push(FieldError::required(path, "nonResourceURLs must contain at least one value"));
    } else if has_all(urls) {
        if urls.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errors.push(FieldError::invalid(path, &shown(rule.at("nonResourceURLs")), detail));
        }
    } else {
        for (at, url) in urls.iter().numbered() {
            let url = url.as_str().unwrap_or_default();
            errors.extend(url_fault(url).map(|detail| FieldError::invalid_str(path.index(at), url, detail)));
        }
    }
    errors
}

/// Validates the path of a rule.
fn url_fault(url: &str) -> Option<&'static str> {
    let stars = url.bytes().filter(|byte| *byte == b'*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || stars == 1 && !url.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

fn has_all(values: &[Value]) -> bool {
    // few: a list is read once for each rule, and its length is bounded by the body's.
    values.iter().any(|value| value.as_str() == Some(ALL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::kinds::testing::{check_create, check_hostile, created, updated};

    fn schema(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn with_rule(rule: Value) -> Value {
        schema("a", json!({"priorityLevelConfiguration": {"name": "x"}, "rules": [rule]}))
    }

    #[test]
    fn the_mandatory_schemas_are_valid_and_fixed() {
        for name in [EXEMPT, CATCH_ALL] {
            let fixed = mandatory_flow_schema(name).unwrap();
            check_create(&FlowSchema, schema(name, fixed.clone()), &[]);
            let mut other = fixed;
            crate::validate::tree::set(&mut other, "matchingPrecedence", 7);
            let shown = shown(&other);
            let expected =
                format!("spec: Invalid value: {shown}: spec of '{name}' must equal the fixed value");
            check_create(&FlowSchema, schema(name, other), &[&expected]);
        }
    }

    #[test]
    fn rules_name_subjects_verbs_and_scopes() {
        let subjects = json!([{"kind": "User", "user": {"name": "u"}}]);
        let resource = |rule: Value| json!({"subjects": subjects, "resourceRules": [rule]});
        let url = |urls: Value| json!({"subjects": subjects, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": urls}]});
        for (rule, expected) in [
            (
                resource(
                    json!({"verbs": ["odd"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true}),
                ),
                &[
                    "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"odd\"]: supported values: \"create\", \
                     \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\"",
                ][..],
            ),
            (
                resource(
                    json!({"verbs": ["get"], "apiGroups": ["*", "a"], "resources": ["*", "b"], "namespaces": ["*", "c"]}),
                ),
                &[
                    "spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not \
                     specify other api groups",
                    "spec.rules[0].resourceRules[0].resources: Invalid value: [\"*\",\"b\"]: if '*' is present, must not \
                     specify other resources",
                    "spec.rules[0].resourceRules[0].namespaces: Invalid value: [\"*\",\"c\"]: if '*' is present, must not \
                     specify other namespaces",
                ],
            ),
            (
                url(json!(["x", "/a b", "/a//b", "/*/b", "/a*", "", "/", "/a/*"])),
                &[
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"x\": must start with slash",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/a b\": must not contain \
                     white-space",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: \"/a//b\": must not contain \
                     double slash",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: \"/*/b\": wildcard can only do \
                     suffix matching",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[4]: Invalid value: \"/a*\": wildcard can only do \
                     suffix matching",
                    "spec.rules[0].nonResourceRules[0].nonResourceURLs[5]: Invalid value: \"\": must not be empty",
                ],
            ),
        ] {
            check_create(&FlowSchema, with_rule(rule), expected);
        }
        check_hostile(&FlowSchema);
    }

    #[test]
    fn a_write_of_the_status_changes_nothing_else() {
        let old = created(&FlowSchema, schema("a", json!({"priorityLevelConfiguration": {"name": "x"}})));
        assert_eq!(old["spec"]["matchingPrecedence"], 1000);
        let new = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "status": {"conditions": [{"type": "Dangling"}]}});
        let new = updated(&FlowSchema, Action::Status, &old, new);
        assert_eq!((&new["spec"], &new["metadata"]["labels"]), (&old["spec"], &json!(null)));
        assert_eq!(new["status"]["conditions"][0]["type"], "Dangling");
    }
}
