//! Documents of kinds that a definition declares, which are made without their type tables.

use orch_raft::{Revision, WrittenAs};
use orch_rules::kinds::defined::described::{Types, deprecation, resource_type, served_versions};

use super::*;
use crate::conversion::testing::Renaming;
use crate::follow::Builder;
use crate::registry::{DeclaredKind, DeclaredVersion, End, Published, Stage, Tables};

fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": {
                "size": {"x-kubernetes-int-or-string": true, "nullable": true},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "bounded": {"type": "object", "title": "t", "externalDocs": {"url": "u"}, "additionalProperties": true,
                    "not": {"required": ["x"]}, "anyOf": [{"minProperties": 1.0}, {"maxProperties": 3}],
                    "properties": {
                        "number": {"type": "number", "maximum": 2.5, "exclusiveMaximum": true, "minimum": -1,
                            "multipleOf": 0.5, "default": 1},
                        "text": {"type": "string", "pattern": "^a$", "minLength": 1, "maxLength": 9, "enum": ["a"]},
                        "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
                    }},
            }},
            "status": {"type": "object"},
        },
    });
    json!({
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabs",
                "shortNames": ["ct"], "categories": ["all"]},
            "versions": [
                {"name": "v1beta1", "served": true, "deprecated": true, "schema": {"openAPIV3Schema": schema}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                    "selectableFields": [{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.bounded.text"}],
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size"}}},
            ],
        },
        "status": {"acceptedNames": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab",
            "listKind": "CronTabs", "shortNames": ["ct"], "categories": ["all"]}},
    })
}

/// The built-in kinds with the declared one, whose tables cannot be made.
fn registry() -> Arc<Registry> {
    serving(&definition())
}

/// The same with the kind that `definition` declares.
fn serving(definition: &Value) -> Arc<Registry> {
    let builtin = Registry::builtin(&KUBERNETES);
    let object = builtin.schema.find_type("core.v1.ConfigMap").unwrap();
    let types = Types { object, scale: builtin.schema.find_type("autoscaling.v1.Scale").unwrap() };
    let json = bytes::Bytes::from(definition.to_string());
    let tables = Tables::later(Builder::default(), || panic!("no document needs the tables"));
    let version = |version: &Value| DeclaredVersion {
        definition: resource_type(definition, version, types),
        schema: tables.clone(),
        since: Revision(7),
        deprecation: deprecation(definition, version),
        end: End::default(),
        published: Some(Published::new(json.clone(), version["name"].as_str().unwrap())),
        constraints: None,
    };
    let kind = DeclaredKind {
        versions: served_versions(definition).map(version).collect(),
        stored: Arc::new(WrittenAs { version: "v1".into(), definition: Revision(7) }),
        stored_type: object,
        stored_schema: tables.clone(),
        converter: Arc::new(Renaming::ready()),
        record: None,
        stage: Stage::Established,
    };
    builtin.with(kind.kinds()).unwrap()
}

const GROUP: &str = "/openapi/v3/apis/stable.example.com";

#[test]
fn a_declared_kind_is_described_without_its_tables() {
    let registry = registry();
    let found = document(&registry, &format!("{GROUP}/v1"));
    let schemas = found["components"]["schemas"].as_object().unwrap();
    let own: Vec<&str> = schemas.keys().map(|name| &**name).filter(|name| !name.contains(".meta.")).collect();
    assert_eq!(
        own,
        [
            "com.example.stable.v1.CronTab",
            "com.example.stable.v1.CronTabs",
            "io.k8s.api.autoscaling.v1.Scale",
            "io.k8s.api.autoscaling.v1.ScaleSpec",
            "io.k8s.api.autoscaling.v1.ScaleStatus",
        ]
    );
    let size = &schemas[own[0]]["properties"]["spec"]["properties"]["size"];
    assert_eq!(size["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
    assert_eq!(
        schemas[own[1]]["properties"]["items"]["items"],
        json!({"$ref": "#/components/schemas/com.example.stable.v1.CronTab"})
    );
    for name in &own[..2] {
        let fields = json!([{"fieldPath": "spec.size"}, {"fieldPath": "spec.bounded.text"}]);
        assert_eq!(schemas[*name]["x-kubernetes-selectable-fields"], fields, "{name}");
    }
    let paths: Vec<&str> = found["paths"].as_object().unwrap().keys().map(|path| &**path).collect();
    let below = "/apis/stable.example.com/v1/namespaces/{namespace}/crontabs";
    assert_eq!(
        paths,
        [
            below,
            &format!("{below}/{{name}}"),
            &format!("{below}/{{name}}/status"),
            &format!("{below}/{{name}}/scale"),
            "/apis/stable.example.com/v1/crontabs",
        ]
    );
    for path in [paths[1], paths[3]] {
        let of = json!({"group": "stable.example.com", "kind": "CronTab", "version": "v1"});
        assert_eq!(found["paths"][path]["get"]["x-kubernetes-group-version-kind"], of, "{path}");
    }
    let patch = &found["paths"][paths[1]]["patch"];
    assert_eq!(patch["operationId"], "patchStableExampleComV1NamespacedCronTab");
    let types: Vec<&str> =
        patch["requestBody"]["content"].as_object().unwrap().keys().map(|name| &**name).collect();
    assert!(
        types.contains(&"application/apply-patch+yaml")
            && !types.iter().any(|name| name.contains("strategic"))
    );
    let answered = &found["paths"][paths[1]]["get"]["responses"]["200"]["content"];
    let answered: Vec<&str> = answered.as_object().unwrap().keys().map(|name| &**name).collect();
    assert_eq!(answered, ["application/json", "application/yaml"]);
    assert!(find(&registry, GROUP, Form::Json).is_none(), "the group's own path is not described");
    assert!(find(&registry, &format!("{GROUP}/v1"), Form::Protobuf).is_some());
    assert!(find(&registry, &format!("{GROUP}/v1beta1"), Form::Json).is_some());
}

#[test]
fn version_2_says_less_of_a_declared_kind() {
    let registry = registry();
    let found = document(&registry, VERSION_2);
    let kind = &found["definitions"]["com.example.stable.v1.CronTab"];
    let spec = json!({"type": "object", "properties": {
        "size": {"x-kubernetes-int-or-string": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
    }});
    let mut found_spec = kind["properties"]["spec"].clone();
    let bounded = found_spec["properties"].as_object_mut().unwrap().shift_remove("bounded").unwrap();
    assert_eq!((&bounded["additionalProperties"], bounded.get("not")), (&json!(true), None));
    assert_eq!(found_spec, spec);
    assert!(find(&registry, VERSION_2, Form::Protobuf).is_some());
    assert!(kind["properties"]["metadata"].get("$ref").is_some());
    let consumed =
        &found["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"]["post"]["consumes"];
    assert_eq!(consumed, &json!(["application/json", "application/yaml"]));
}

#[test]
fn discovery_shows_a_declared_kind_as_recorded() {
    let registry = registry();
    let group = registry.discovery("/apis/stable.example.com").unwrap();
    assert_eq!(group.value["preferredVersion"]["version"], "v1");
    let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let parts = ["get", "patch", "update"];
    let list = registry.discovery("/apis/stable.example.com/v1").unwrap();
    let mut found = list.value["resources"].clone();
    let hash = found[0].as_object_mut().unwrap().shift_remove("storageVersionHash").unwrap();
    let of_other = registry.discovery("/apis/stable.example.com/v1beta1").unwrap();
    assert_eq!(
        hash, of_other.value["resources"][0]["storageVersionHash"],
        "it is that of the stored version"
    );
    assert_eq!(
        found,
        json!([
            {"name": "crontabs", "singularName": "crontab", "namespaced": true, "kind": "CronTab", "verbs": verbs,
                "shortNames": ["ct"], "categories": ["all"]},
            {"name": "crontabs/status", "singularName": "", "namespaced": true, "kind": "CronTab", "verbs": parts},
            {"name": "crontabs/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                "version": "v1", "kind": "Scale", "verbs": parts},
        ])
    );
}

#[test]
fn a_stored_version_that_is_not_served_has_no_hash_in_discovery() {
    let mut definition = definition();
    definition["spec"]["versions"][1]["served"] = json!(false);
    let registry = serving(&definition);
    let list = registry.discovery("/apis/stable.example.com/v1beta1").unwrap();
    let entry = &list.value["resources"][0];
    assert_eq!((&entry["name"], entry.get("storageVersionHash")), (&json!("crontabs"), None));
}

#[test]
fn aggregated_discovery_names_group_and_version_of_declared_kinds() {
    let registry = registry();
    let value = registry.aggregated_discovery(false, 0).unwrap().value();
    let entry = |group: &str, version: &str, resource: &str| {
        let item = value["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == group);
        let versions = item.unwrap()["versions"].as_array().unwrap();
        let of = versions.iter().find(|of| of["version"] == version).unwrap();
        of["resources"].as_array().unwrap().iter().find(|of| of["resource"] == resource).unwrap().clone()
    };
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = entry("stable.example.com", "v1", "crontabs");
    let expected = kind("stable.example.com", "v1", "CronTab");
    assert_eq!((&own["responseKind"], &own["subresources"][0]["responseKind"]), (&expected, &expected));
    let parts = own["subresources"].as_array().unwrap().iter().map(|part| part["subresource"].clone());
    assert_eq!(parts.collect::<Vec<_>>(), ["status", "scale"]);
    assert_eq!(own["subresources"][1]["responseKind"], kind("autoscaling", "v1", "Scale"));
    let built_in = entry("apps", "v1", "deployments");
    assert_eq!(built_in["responseKind"], kind("", "", "Deployment"));
}

#[test]
fn groups_of_declared_kinds_follow_the_built_in_ones_whatever_they_are_called() {
    for group in ["apps.k8s.io", "rbac.authorization", "events.example.com"] {
        let mut definition = definition();
        definition["spec"]["group"] = json!(group);
        let registry = serving(&definition);
        let names: Vec<&str> = registry.groups().map(|group| group.name.as_str()).collect();
        assert_eq!(names.last(), Some(&group), "{names:?}");
    }
}
