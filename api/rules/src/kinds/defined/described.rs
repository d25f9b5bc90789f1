//! The resource that a definition describes in one of its versions: names, verbs, sub-resources, columns, selectable fields.
//!
//! Owns which fields of a CustomResourceDefinition the interface is made of. It checks nothing: the rules of that
//! kind do, and malformed members of a definition from before a rule read as absent. Types are the caller's, so that names are known before any schema is
//! compiled.

use orch_schema::value::Value;
use orch_schema::{Column, ResourceType, Rules, ScalePaths, Selectable, Subresource, TypeId};

use super::columns::table_columns;
use super::version_order::version_order;
use crate::validate::tree::Tree;

/// Verbs of a declared kind, in the order in which the reference's discovery shows them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Verbs of its sub-resources.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The types of a declared kind in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// Its objects.
    pub object: TypeId,
    /// `autoscaling/v1` Scale.
    pub scale: TypeId,
}

/// The versions of `definition` that are served.
pub fn served_versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.at("spec").items("versions").iter().filter(|version| version.flag("served"))
}

/// The version of `definition` in which objects are stored.
pub fn storage_version(definition: &Value) -> Option<&Value> {
    // once: the versions of one definition.
    definition.at("spec").items("versions").iter().find(|version| version.flag("storage"))
}

/// The resource of `definition` in `version`, an item of its `spec.versions`.
///
/// Names are the accepted ones of the status; where none is accepted yet, those that the definition asks for, but for its short
/// names, which may be those of another kind.
pub fn resource_type(definition: &Value, version: &Value, types: Types) -> ResourceType {
    let spec = definition.at("spec");
    let names = Names { accepted: definition.at("status").at("acceptedNames"), wanted: spec.at("names") };
    let (group, name, kind) = (spec.text("group"), version.text("name"), names.text("kind"));
    let own = Part { group, version: name, kind: &kind, type_id: types.object };
    ResourceType {
        group: group.to_owned(),
        version: name.to_owned(),
        plural: names.text("plural"),
        singular: names.text("singular"),
        list_kind: names.text("listKind"),
        namespaced: spec.text("scope") == "Namespaced",
        verbs: VERBS.map(str::to_owned).to_vec(),
        short_names: texts(names.accepted, "shortNames"),
        categories: texts(names.accepted, "categories"),
        subresources: subresources(version.at("subresources"), own, types.scale),
        columns: columns(version),
        type_id: types.object,
        rules: rules(definition, version),
        kind,
    }
}

/// The warning that requests for `version` get: the definition's own, or the usual one with the best version that is served and
/// not deprecated, if that is a better one.
pub fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if !version.flag("deprecated") {
        return None;
    }
    if let Some(own) = version.at("deprecationWarning").as_str() {
        return Some(own.to_owned());
    }
    let (spec, name) = (definition.at("spec"), version.text("name"));
    let (group, kind) = (spec.text("group"), spec.at("names").text("kind"));
    let others = served_versions(definition).filter(|other| !other.flag("deprecated"));
    let better = others
        .map(|other| other.text("name"))
        .filter(|other| version_order(other) < version_order(name))
        .min_by_key(|other| version_order(other));
    let advice = better.map(|better| format!("; use {group}/{better} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}"))
}

/// The names that a definition asks for, and those that it has been given.
#[derive(Clone, Copy)]
struct Names<'a> {
    accepted: &'a Value,
    wanted: &'a Value,
}

impl Names<'_> {
    fn text(self, name: &str) -> String {
        let accepted = self.accepted.text(name);
        if accepted.is_empty() { self.wanted.text(name) } else { accepted }.to_owned()
    }
}

fn texts(of: &Value, name: &str) -> Vec<String> {
    of.texts(name).into_iter().map(str::to_owned).collect()
}

/// The kind that a sub-resource reads and writes.
#[derive(Clone, Copy)]
struct Part<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    type_id: TypeId,
}

impl Part<'_> {
    fn called(self, name: &str, scale: Option<ScalePaths>) -> Subresource {
        Subresource {
            name: name.to_owned(),
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            type_id: self.type_id,
            verbs: PART_VERBS.map(str::to_owned).to_vec(),
            resets: Vec::new(),
            scale,
        }
    }
}

fn subresources(declared: &Value, own: Part<'_>, scale: TypeId) -> Vec<Subresource> {
    let mut parts = Vec::new();
    if declared.at("status").is_object() {
        parts.push(own.called("status", None));
    }
    if declared.at("scale").is_object() {
        let scale_kind = Part { group: "autoscaling", version: "v1", kind: "Scale", type_id: scale };
        parts.push(scale_kind.called("scale", Some(scale_paths(declared.at("scale")))));
    }
    parts
}

fn scale_paths(declared: &Value) -> ScalePaths {
    let steps = |name: &str| {
        let path = declared.text(name);
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() { Vec::new() } else { path.split('.').map(str::to_owned).collect() }
    };
    ScalePaths {
        spec_replicas: steps("specReplicasPath"),
        status_replicas: steps("statusReplicasPath"),
        selector: steps("labelSelectorPath"),
    }
}

/// The columns of the tables.
fn columns(version: &Value) -> Vec<Column> {
    let declared = version.items("additionalPrinterColumns").iter();
    let declared: Vec<Column> = declared
        .map(|column| Column {
            name: column.text("name").to_owned(),
            kind: column.text("type").to_owned(),
            format: column.text("format").to_owned(),
            description: column.text("description").to_owned(),
            priority: column
                .int("priority")
                .and_then(|priority| priority.try_into().ok())
                .unwrap_or_default(),
            path: column.text("jsonPath").to_owned(),
        })
        .collect();
    table_columns(&declared)
}

fn rules(definition: &Value, version: &Value) -> Rules {
    let own = fields(version);
    // Those of the other versions are stored with each object, too, and all versions have them in one order: a selector of any
    // version finds them, and one index serves all.
    let mut all: Vec<String> = definition.at("spec").items("versions").iter().flat_map(fields).collect();
    all.sort();
    all.dedup();
    let selectable = |name: String| Selectable {
        // few: a version has eight selectable fields at most.
        withheld: !own.contains(&name),
        name,
        unindexed: false,
        synonym: None,
        // Whether many objects share a value is not known.
        coarse: true,
    };
    Rules {
        conditional_update: true,
        selectable: all.into_iter().map(selectable).collect(),
        // Members besides spec, metadata and status are put back as well, and are owned by who writes them.
        status_resets: vec!["metadata".to_owned()],
        ..Rules::default()
    }
}

/// The selectable fields of `version` by name, each once: their paths without the dot at the beginning.
fn fields(version: &Value) -> Vec<String> {
    let declared = version.items("selectableFields").iter().map(|field| field.text("jsonPath"));
    let mut fields: Vec<String> = Vec::new();
    for path in declared {
        let name = path.strip_prefix('.').unwrap_or(path);
        // few: a definition has eight selectable fields at most.
        if !name.is_empty() && !fields.iter().any(|known| known == name) {
            fields.push(name.to_owned());
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::testing::orch;

    use super::*;

    fn definition() -> Value {
        json!({
            "spec": {
                "group": "stable.example.com", "scope": "Namespaced",
                "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabs",
                    "shortNames": ["ct", "taken"]},
                "versions": [
                    {"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": {"properties": {"spec": {}, "status": {}, "more": {}}}},
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size.replicas",
                            "statusReplicasPath": ".status.replicas"}},
                        "selectableFields": [{"jsonPath": ".spec.color"}]},
                    {"name": "v1beta1", "served": true, "deprecated": true,
                        "selectableFields": [{"jsonPath": ".spec.size"}],
                        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec["}]},
                    {"name": "v1alpha1", "served": false, "deprecated": true, "deprecationWarning": "gone"},
                ],
            },
            "status": {"acceptedNames": {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"],
                "categories": ["all"]}},
        })
    }

    fn described(at: usize) -> ResourceType {
        let (definition, id) = (definition(), orch().find_type("core.v1.ConfigMap").unwrap());
        let scale = orch().find_type("autoscaling.v1.Scale").unwrap();
        resource_type(&definition, &definition["spec"]["versions"][at], Types { object: id, scale })
    }

    #[test]
    fn names_are_those_that_were_accepted_and_where_none_was_those_that_are_wanted() {
        let found = described(0);
        assert_eq!(
            [&*found.plural, &*found.singular, &*found.kind, &*found.list_kind],
            ["crontabs", "crontab", "CronTab", "CronTabs"]
        );
        assert_eq!((found.short_names, found.categories), (vec!["ct".to_owned()], vec!["all".to_owned()]));
        assert_eq!(found.verbs[0], "delete");
        let parts: Vec<&str> = found.subresources.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(parts, ["status", "scale"]);
        let scale = found.subresources[1].scale.as_ref().unwrap();
        assert_eq!(scale.spec_replicas, ["spec", "size", "replicas"]);
        assert!(scale.selector.is_empty());
        assert_eq!(found.rules.status_resets, ["metadata"], "nothing but that and the spec");
    }

    #[test]
    fn fields_of_other_versions_are_stored_and_cannot_be_selected() {
        let fields = |at: usize| {
            let selectable = described(at).rules.selectable.into_iter();
            selectable.map(|field| (field.name, field.withheld)).collect::<Vec<_>>()
        };
        assert_eq!(fields(0), [("spec.color".to_owned(), false), ("spec.size".to_owned(), true)]);
        assert_eq!(fields(1), [("spec.color".to_owned(), true), ("spec.size".to_owned(), false)]);
    }

    #[test]
    fn a_path_that_cannot_be_parsed_leaves_the_columns_before_it() {
        let names: Vec<String> = described(1).columns.into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name"]);
    }

    #[test]
    fn a_deprecated_version_names_a_better_one_or_says_its_own_words() {
        let definition = definition();
        let told = |at: usize| deprecation(&definition, &definition["spec"]["versions"][at]);
        assert_eq!(told(0), None);
        let wanted = "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab";
        assert_eq!(told(1).as_deref(), Some(wanted));
        assert_eq!(told(2).as_deref(), Some("gone"));
    }
}
