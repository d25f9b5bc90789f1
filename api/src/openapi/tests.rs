//! Documents compared with the registry that they describe.

mod declared;

use std::collections::BTreeSet;

use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use orch_schema::value::{Map, Value};

use super::*;

/// The document at `path`.
fn find(registry: &Registry, path: &str, form: Form) -> Option<Arc<Document>> {
    super::document(registry, &NodePages::new(TokenKeys::Served), path, form).unwrap()
}

/// The document at `path`, parsed.
fn document(registry: &Registry, path: &str) -> Value {
    let found = find(registry, path, Form::Json);
    let found = found.unwrap_or_else(|| panic!("{path}"));
    serde_json::from_slice(&found.text().unwrap()).unwrap()
}

/// All documents of the brand by path, version 2 first.
fn all(brand: &'static Brand) -> Vec<(String, Value)> {
    let registry = Registry::builtin(brand);
    let index = document(&registry, VERSION_3);
    let sections = index["paths"].as_object().unwrap().keys().map(|section| format!("{VERSION_3}/{section}"));
    let paths = std::iter::once(VERSION_2.to_owned()).chain(sections);
    paths.map(|path| (path.clone(), document(&registry, &path))).collect()
}

fn each(value: &Value, seen: &mut impl FnMut(&Map)) {
    match value {
        Value::Object(members) => {
            seen(members);
            members.values().for_each(|member| each(member, seen));
        }
        Value::Array(items) => items.iter().for_each(|item| each(item, seen)),
        _ => {}
    }
}

/// `schema` without descriptions, and without the `allOf` that holds a reference beside one.
fn plain(schema: &Value) -> Value {
    let Value::Object(members) = schema else { return schema.clone() };
    let rest: Map = members
        .iter()
        .filter(|(name, value)| *name != "description" || !value.is_string())
        .map(|(name, value)| (name.to_string(), plain(value)))
        .collect();
    match rest.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([reference]) if rest.len() == 1 => reference.clone(),
        _ => Value::Object(rest),
    }
}

#[test]
fn every_reference_leads_to_a_definition_and_every_definition_is_referred_to() {
    for (path, document) in all(&KUBERNETES) {
        let mut referred = BTreeSet::new();
        each(&document, &mut |members| {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let steps = reference.strip_prefix("#/").unwrap().split('/');
                assert!(!steps.fold(&document, |value, step| &value[step]).is_null(), "{path}: {reference}");
                referred.insert(reference.rsplit('/').next().unwrap().to_owned());
            }
        });
        let definitions = [&document["components"]["schemas"], &document["definitions"]]
            .into_iter()
            .find(|all| all.is_object());
        let defined: BTreeSet<String> =
            definitions.and_then(Value::as_object).unwrap().keys().map(ToString::to_string).collect();
        assert!(defined.is_subset(&referred), "{path}: {:?}", defined.difference(&referred));
        let is_text_alone = path.ends_with("/openid-configuration") || path.ends_with("/jwks");
        assert_eq!(defined.is_empty(), is_text_alone, "{path}");
    }
}

#[test]
fn every_served_kind_is_described_with_its_group_version_and_kind() {
    let registry = Registry::builtin(&KUBERNETES);
    let extension = format!("{}group-version-kind", KUBERNETES.extension_prefix);
    for resource in registry.resources() {
        let root = if resource.group.is_empty() { "api" } else { "apis" };
        let document = document(&registry, &format!("{VERSION_3}/{root}/{}", resource.api_version()));
        let kind = json!({"group": resource.group, "kind": resource.kind, "version": resource.version});
        let described = document["components"]["schemas"].as_object().unwrap().values();
        let is_it = |schema: &Value| schema[&extension].as_array().is_some_and(|kinds| kinds.contains(&kind));
        assert_eq!(described.filter(|schema| is_it(schema)).count(), 1, "{resource:?}");
        let mut acting = false;
        each(&document["paths"], &mut |members| acting |= members.get(&extension) == Some(&kind));
        assert!(acting, "{resource:?} has no operation");
    }
}

#[test]
fn operations_are_named_once() {
    for (path, document) in all(&KUBERNETES) {
        let mut ids = BTreeSet::new();
        each(&document["paths"], &mut |members| {
            if let Some(Value::String(id)) = members.get("operationId") {
                assert!(ids.insert(id.clone()), "{path}: {id} twice");
            }
        });
        assert!(!ids.is_empty(), "{path}");
    }
}

#[test]
fn a_pod_is_described_as_clients_read_it() {
    let registry = Registry::builtin(&KUBERNETES);
    let core = document(&registry, "/openapi/v3/api/v1");
    let schemas = &core["components"]["schemas"];
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(
        plain(&spec["properties"]["containers"]),
        json!({
            "type": "array",
            "items": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}], "default": {}},
            "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map",
            "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
        })
    );
    assert_eq!(spec["properties"]["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(spec["required"], json!(["containers"]));
    let meta = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"];
    let time = json!({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time"});
    assert_eq!(plain(&meta["creationTimestamp"]), time);
    assert_eq!(
        plain(&schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]),
        json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
    );
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    let patch = &core["paths"][pod]["patch"];
    assert_eq!(patch["operationId"], "patchCoreV1NamespacedPod");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let names: Vec<&Value> = patch["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert_eq!(core["paths"][pod]["get"]["operationId"], "readCoreV1NamespacedPod");
    assert_eq!(core["paths"]["/api/v1/pods"]["get"]["operationId"], "listCoreV1PodForAllNamespaces");
    assert_eq!(
        core["paths"]["/api/v1/namespaces/{namespace}/pods"]["delete"]["operationId"],
        "deleteCoreV1CollectionNamespacedPod"
    );
    assert_eq!(
        core["paths"]["/api/v1/namespaces/{name}/finalize"]["put"]["operationId"],
        "replaceCoreV1NamespaceFinalize"
    );
}

#[test]
fn version_2_says_the_same_in_its_own_words() {
    let document = document(&Registry::builtin(&KUBERNETES), VERSION_2);
    let definitions = &document["definitions"];
    let containers = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["items"], json!({"$ref": "#/definitions/io.k8s.api.core.v1.Container"}));
    let quantity = &definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(plain(quantity), json!({"type": "string"}));
    let mut defaults = 0;
    each(definitions, &mut |members| {
        defaults +=
            usize::from(members.contains_key("default") && members.get("type").is_some_and(Value::is_string));
    });
    assert_eq!(defaults, 0);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert!(
        patch["parameters"].as_array().unwrap().contains(&json!({"$ref": "#/parameters/fieldValidation"}))
    );
}

/// The definitions that come with the kind `core.v1.ConfigMapList`, where descriptions are these.
fn described_as(dialect: dialect::Dialect, texts: &[(&str, &str)]) -> BTreeMap<String, Value> {
    let registry = Registry::builtin(&KUBERNETES);
    let names = names::Names::of(&registry);
    let descriptions = Descriptions::of(texts);
    let mut definitions = definitions::Definitions::new(&names, &descriptions, dialect);
    definitions.reference(registry.schema.find_type("core.v1.ConfigMapList").unwrap());
    let parse = |(name, text): (String, String)| (name, serde_json::from_str(&text).unwrap());
    definitions.finish().unwrap().into_iter().map(parse).collect()
}

#[test]
fn descriptions_stand_in_definitions_and_beside_references() {
    let texts = [
        ("core.v1.ConfigMapList", "A list of config maps."),
        ("core.v1.ConfigMapList/1", "The revision of the list."),
        ("core.v1.ConfigMapList/2", "The config maps."),
        ("core.v1.ConfigMap", "Settings."),
        ("core.v1.ConfigMap/2", "Texts by name."),
        ("meta.v1.Time", "A time."),
        ("meta.v1.ObjectMeta/8", "When the object was created."),
        ("meta.v1.FieldsV1", "A set of fields."),
    ];
    for (dialect, prefix) in
        [(dialect::Dialect::V2, "#/definitions/"), (dialect::Dialect::V3, "#/components/schemas/")]
    {
        let all = described_as(dialect, &texts);
        let list = &all["io.k8s.api.core.v1.ConfigMapList"];
        assert_eq!(list["description"], "A list of config maps.");
        for head in ["apiVersion", "kind"] {
            let text = list["properties"][head]["description"].as_str();
            assert!(text.is_some_and(|text| text.ends_with('.')), "{head}");
        }
        assert_eq!(list["properties"]["items"]["description"], "The config maps.");
        let data = &all["io.k8s.api.core.v1.ConfigMap"]["properties"]["data"];
        assert_eq!(data["description"], "Texts by name.");
        let time = format!("{prefix}io.k8s.apimachinery.pkg.apis.meta.v1.Time");
        let created =
            &all["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["creationTimestamp"];
        let meta = format!("{prefix}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta");
        let expected = match dialect {
            dialect::Dialect::V2 => [
                json!({"$ref": time, "description": "When the object was created."}),
                json!({"$ref": meta, "description": "The revision of the list."}),
            ],
            dialect::Dialect::V3 => [
                json!({"allOf": [{"$ref": time}], "description": "When the object was created."}),
                json!({"allOf": [{"$ref": meta}], "default": {}, "description": "The revision of the list."}),
            ],
        };
        assert_eq!([created, &list["properties"]["metadata"]], [&expected[0], &expected[1]]);
        let of_time = &all["io.k8s.apimachinery.pkg.apis.meta.v1.Time"];
        assert_eq!(*of_time, json!({"description": "A time.", "format": "date-time", "type": "string"}));
        let fields = &all["io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"];
        assert_eq!(*fields, json!({"description": "A set of fields.", "type": "object"}));
    }
}

#[test]
fn every_description_is_published_in_both_versions() {
    let registry = Registry::builtin(&KUBERNETES);
    let (names, descriptions) = (names::Names::of(&registry), Descriptions::open().unwrap());
    let version2 = document(&registry, VERSION_2);
    let core = document(&registry, "/openapi/v3/api/v1");
    for definitions in [&version2["definitions"], &core["components"]["schemas"]] {
        let tables = (0..u32::try_from(registry.schema.len()).unwrap())
            .map(|id| registry.schema.get(orch_schema::TypeId(id)));
        for table in tables {
            let definition = &definitions[&names.definition(&table.name)];
            if definition.is_null() {
                continue;
            }
            assert_eq!(
                definition["description"].as_str(),
                descriptions.of_type(&table.name),
                "{}",
                table.name
            );
            for field in &table.fields {
                let published = definition["properties"][field.name.as_str()]["description"].as_str();
                let own = descriptions.of_field(&table.name, field);
                assert_eq!(published, own, "{}.{}", table.name, field.name);
            }
        }
    }
}

#[test]
fn a_document_of_one_brand_names_no_other() {
    for (path, document) in all(&ORCH) {
        let text = document.to_string();
        for word in ["kubernetes", "k8s", "kube-"] {
            assert!(
                !text.contains(word),
                "{path}: {word} {:?}",
                text.find(word).map(|at| &text[at - 60..at + 20])
            );
        }
    }
}

#[test]
fn the_index_names_each_document_by_its_hash_and_nothing_else_is_found() {
    let registry = Registry::builtin(&KUBERNETES);
    let index = document(&registry, VERSION_3);
    let apps = find(&registry, "/openapi/v3/apis/apps/v1", Form::Json).unwrap();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={}", apps.hash));
    assert_eq!(apps.hash.len(), 128);
    for path in ["/openapi", "/openapi/v4", "/openapi/v3x", "/openapi/v3/apis/nope/v1", "/openapi/v2/x"] {
        assert!(find(&registry, path, Form::Json).is_none(), "{path}");
    }
}

/// Fields of a message: number and content of each that is not a varint.
fn fields(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (tag, wire) = prost::encoding::decode_key(&mut bytes).unwrap();
        if wire == prost::encoding::WireType::Varint {
            prost::encoding::decode_varint(&mut bytes).unwrap();
            continue;
        }
        let length = usize::try_from(prost::encoding::decode_varint(&mut bytes).unwrap()).unwrap();
        let (content, rest) = bytes.split_at(length);
        found.push((tag, content));
        bytes = rest;
    }
    found
}

/// The content at `path`, a list of field numbers: at each step the first field whose name (its field 1) matches, or the
/// first one for an empty name.
fn below<'a>(bytes: &'a [u8], path: &[(u32, &str)]) -> &'a [u8] {
    path.iter().fold(bytes, |bytes, (number, name)| {
        let mut found =
            fields(bytes).into_iter().filter(|(known, _)| known == number).map(|(_, content)| content);
        let is_named = |content: &&[u8]| name.is_empty() || fields(content)[0].1 == name.as_bytes();
        found.find(is_named).unwrap_or_else(|| panic!("no {number} {name}"))
    })
}

#[test]
fn the_binary_form_of_version_2_says_what_its_json_says() {
    let registry = Registry::builtin(&KUBERNETES);
    let found = find(&registry, VERSION_2, Form::Protobuf).unwrap();
    let binary = found.text().unwrap();
    let json = document(&registry, VERSION_2);
    assert_eq!(below(&binary, &[(1, "")]), b"2.0");
    for (member, path) in [("paths", (8, 2)), ("definitions", (9, 1)), ("parameters", (10, 1))] {
        let names: Vec<&str> = fields(below(&binary, &[(path.0, "")]))
            .into_iter()
            .map(|(_, entry)| std::str::from_utf8(fields(entry)[0].1).unwrap())
            .collect();
        let expected: Vec<&str> = json[member].as_object().unwrap().keys().map(|key| key.as_str()).collect();
        assert_eq!(names, expected, "{member}");
    }
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    let patch = below(&binary, &[(8, ""), (2, pod), (2, ""), (8, "")]);
    assert_eq!(below(patch, &[(5, "")]), b"patchCoreV1NamespacedPod");
    assert_eq!(below(patch, &[(8, ""), (2, ""), (1, "")]), b"#/parameters/dryRun");
    assert_eq!(below(patch, &[(13, "x-kubernetes-action"), (2, ""), (2, "")]), b"\"patch\"\n");
    let spec = [(9, ""), (1, "io.k8s.api.core.v1.PodSpec"), (2, ""), (25, ""), (1, "containers"), (2, "")];
    let containers = below(&binary, &spec);
    assert_eq!(below(containers, &[(22, ""), (1, "")]), b"array");
    let item = below(containers, &[(23, ""), (1, ""), (1, "")]);
    assert_eq!(item, b"#/definitions/io.k8s.api.core.v1.Container");
}

#[test]
fn the_binary_form_of_version_3_says_what_its_json_says() {
    let registry = Registry::builtin(&KUBERNETES);
    let path = "/openapi/v3/api/v1";
    let found = find(&registry, path, Form::Protobuf).unwrap();
    assert_eq!(found.hash, find(&registry, path, Form::Json).unwrap().hash);
    let binary = found.text().unwrap();
    let json = document(&registry, path);
    assert_eq!(below(&binary, &[(1, "")]), b"3.0.0");
    assert_eq!(below(&binary, &[(2, ""), (6, "")]), b"v1");
    let names_in = |bytes: &[u8]| -> Vec<String> {
        let entries = fields(bytes).into_iter();
        entries.map(|(_, entry)| String::from_utf8(fields(entry)[0].1.to_vec()).unwrap()).collect()
    };
    let expected = |members: &Value| -> Vec<String> {
        members.as_object().unwrap().keys().map(ToString::to_string).collect()
    };
    assert_eq!(names_in(below(&binary, &[(4, "")])), expected(&json["paths"]));
    assert_eq!(names_in(below(&binary, &[(5, ""), (1, "")])), expected(&json["components"]["schemas"]));
    let pod = "/api/v1/namespaces/{namespace}/pods/{name}";
    let patch = below(&binary, &[(4, ""), (1, pod), (2, ""), (10, "")]);
    assert_eq!(below(patch, &[(5, "")]), b"patchCoreV1NamespacedPod");
    assert_eq!(below(patch, &[(13, "x-kubernetes-action"), (2, ""), (2, "")]), b"\"patch\"\n");
    let apply =
        [(7, ""), (1, ""), (2, ""), (1, "application/apply-patch+yaml"), (2, ""), (1, ""), (2, ""), (1, "")];
    assert_eq!(below(patch, &apply), b"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
    let answer = [(8, ""), (2, "200"), (2, ""), (1, ""), (3, ""), (1, "application/json"), (2, ""), (1, "")];
    assert_eq!(
        below(patch, &[&answer[..], &[(2, ""), (1, "")]].concat()),
        b"#/components/schemas/io.k8s.api.core.v1.Pod"
    );
    let schemas = |name: &'static str| [(5, ""), (1, ""), (1, name), (2, ""), (1, "")];
    let port = below(&binary, &schemas("io.k8s.api.core.v1.ContainerPort"));
    let property = |name: &'static str| [(31, ""), (1, name), (2, ""), (1, "")];
    let protocol = below(port, &property("protocol"));
    assert_eq!(
        (below(protocol, &[(25, "")]), below(protocol, &[(33, ""), (3, "")])),
        (&b"string"[..], &b"TCP"[..])
    );
    // A number: field 1, eight bytes.
    assert_eq!(below(below(port, &property("containerPort")), &[(33, "")]), [9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let spec = below(&binary, &schemas("io.k8s.api.core.v1.PodSpec"));
    let containers = below(spec, &property("containers"));
    let item = below(containers, &[(30, ""), (1, ""), (1, "")]);
    assert_eq!(below(item, &[(33, "")]), b"", "an object that is empty is told of, and has no form");
    assert_eq!(
        below(item, &[(26, ""), (2, ""), (1, "")]),
        b"#/components/schemas/io.k8s.api.core.v1.Container"
    );
    assert!(find(&registry, VERSION_3, Form::Protobuf).is_none());
    assert!(find(&registry, "/openapi/v3/apis/nope/v1", Form::Protobuf).is_none());
}

#[test]
fn every_document_of_version_3_has_a_binary_form() {
    let registry = Registry::builtin(&KUBERNETES);
    for section in document::sections(&registry, TokenKeys::Served).into_keys() {
        let path = format!("{VERSION_3}/{section}");
        let found = find(&registry, &path, Form::Protobuf).unwrap();
        assert!(!fields(&found.text().unwrap()).is_empty(), "{path}");
    }
}

#[test]
fn pages_that_are_no_resources_have_documents_where_they_are_served() {
    let registry = Registry::builtin(&KUBERNETES);
    let info = "io.k8s.apimachinery.pkg.version.Info";
    let (version2, index) = (document(&registry, VERSION_2), document(&registry, VERSION_3));
    for (section, id, media_type, schema) in [
        (
            "version",
            "getCodeVersion",
            "application/json",
            json!({"$ref": format!("#/components/schemas/{info}")}),
        ),
        (
            ".well-known/openid-configuration",
            "getServiceAccountIssuerOpenIDConfiguration",
            "application/json",
            json!({"type": "string"}),
        ),
        (
            "openid/v1/jwks",
            "getServiceAccountIssuerOpenIDKeyset",
            "application/jwk-set+json",
            json!({"type": "string"}),
        ),
    ] {
        assert!(!index["paths"][section].is_null(), "{section}");
        let path = format!("/{section}/");
        let version3 = document(&registry, &format!("{VERSION_3}/{section}"));
        let paths: Vec<_> =
            version3["paths"].as_object().unwrap().keys().map(|path| path.to_string()).collect();
        assert_eq!(paths, [path.as_str()]);
        let get = &version3["paths"][path.as_str()]["get"];
        assert_eq!(get["operationId"], id);
        assert_eq!(
            get["responses"]["200"]["content"],
            json!({(media_type): {"schema": schema}}),
            "{section}"
        );
        let get = &version2["paths"][path.as_str()]["get"];
        assert_eq!((&get["operationId"], &get["produces"]), (&json!(id), &json!([media_type])));
    }
    assert_eq!(version2["definitions"][info]["properties"]["gitVersion"]["type"], "string");
    let absent = |path| super::document(&registry, &NodePages::default(), path, Form::Json).unwrap();
    let index = absent(VERSION_3).unwrap().text().unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let has = |section: &str| !index["paths"][section].is_null();
    assert_eq!(
        ["version", "openid/v1/jwks", ".well-known/openid-configuration"].map(has),
        [true, false, false]
    );
    assert!(absent("/openapi/v3/openid/v1/jwks").is_none());
}

#[test]
fn a_change_makes_the_documents_of_its_own_group_again_and_no_other() {
    let (before, node) = (Registry::builtin(&KUBERNETES), NodePages::default());
    let at = |registry: &Registry, path: &str| super::document(registry, &node, path, Form::Json).unwrap();
    let paths = ["/openapi/v3/apis/apps/v1", "/openapi/v3/apis/batch/v1", "/openapi/v3/apis"];
    let was = paths.map(|path| at(&before, path).unwrap());
    let index = at(&before, VERSION_3).unwrap();
    let after = before.without("deployments.apps");
    let same = paths.map(|path| at(&after, path).unwrap());
    let same: Vec<bool> = was.iter().zip(&same).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
    assert_eq!(same, [false, true, true]);
    assert_ne!(at(&after, VERSION_3).unwrap().hash, index.hash);
    assert!(Arc::ptr_eq(&at(&before, paths[0]).unwrap(), &was[0]), "a request ends with what it began with");
}
