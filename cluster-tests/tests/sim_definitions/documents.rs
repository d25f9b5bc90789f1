//! The definitions and objects of a run, and their paths.

use orch_proto::brand::ORCH;
use serde_json::{Value, json};

/// The group of the kinds.
const GROUP: &str = "sim.example.com";

/// Versions that every edition serves.
pub(crate) const VERSIONS: [&str; 2] = ["v1", "v2"];

/// A custom kind of a run, by its plural.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Custom(pub(crate) &'static str);

/// The kinds that clients define, change and delete.
pub(crate) const KINDS: [Custom; 2] = [Custom("widgets"), Custom("gears")];

/// The kind that comes when nothing is wrong any more.
pub(crate) const LATE: Custom = Custom("bolts");

/// The shade of an object that some informers select.
const SELECTED: &str = "dark";

/// The field selector of those.
pub(crate) const SELECTOR: &str = "fieldSelector=spec.shade%3Ddark";

/// Config maps that own objects.
pub(crate) const OWNERS: &str = "/api/v1/namespaces/default/configmaps";

impl Custom {
    /// The name of the definition.
    pub(crate) fn definition(self) -> String {
        format!("{}.{GROUP}", self.0)
    }

    /// Name in the store of the objects.
    pub(crate) fn storage(self) -> String {
        format!("{}.{GROUP}.", self.0)
    }

    /// The path of the objects in the namespace.
    pub(crate) fn objects(self, version: &str) -> String {
        format!("/apis/{GROUP}/{version}/namespaces/default/{}", self.0)
    }

    /// The path of the objects in all namespaces.
    pub(crate) fn everywhere(self, version: &str) -> String {
        format!("/apis/{GROUP}/{version}/{}", self.0)
    }

    fn kind(self) -> String {
        let mut kind = self.0.trim_end_matches('s').to_owned();
        kind[..1].make_ascii_uppercase();
        kind
    }

    /// The definition in its `edition`, which stores objects in `storage`.
    pub(crate) fn document(self, edition: u64, storage: &str) -> Value {
        let names = json!({"plural": self.0, "kind": self.kind()});
        let versions = versions(edition, storage);
        let spec = json!({"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions});
        json!({"metadata": {"name": self.definition()}, "spec": spec})
    }

    /// An object that says nothing about its edition.
    pub(crate) fn object(self, version: &str, name: &str, size: u64) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/{version}"),
            "kind": self.kind(),
            "metadata": {"name": name},
            "spec": spec(size),
        })
    }
}

/// The spec of an object of this size, without its edition. Two of three sizes are of the shade that is selected.
pub(crate) fn spec(size: u64) -> Value {
    json!({"size": size, "shade": if size.is_multiple_of(3) { "light" } else { SELECTED }})
}

/// Whether informers that select see the object.
pub(crate) fn is_selected(object: &Value) -> bool {
    object["spec"]["shade"] == SELECTED
}

/// The versions of an edition: their schemas have it as a default. In every other edition the edition is a selectable field, too, before
/// the shade: objects that were written before have the shade at another place than the definition says.
pub(crate) fn versions(edition: u64, storage: &str) -> Value {
    let fields = json!({
        "edition": {"type": "integer", "default": edition},
        "size": {"type": "integer"},
        "shade": {"type": "string"},
    });
    let declared: &[&str] = if edition.is_multiple_of(2) { &["shade"] } else { &["edition", "shade"] };
    let selectable: Vec<Value> =
        declared.iter().map(|field| json!({"jsonPath": format!(".spec.{field}")})).collect();
    let spec = json!({"type": "object", "properties": fields});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage, "schema": schema,
            "selectableFields": selectable,
        })
    };
    VERSIONS.map(version).to_vec().into()
}

/// The path of all definitions.
pub(crate) fn definitions() -> String {
    format!("/apis/{}/v1/customresourcedefinitions", ORCH.group("apiextensions"))
}

/// The edition that the first version of a definition has, or an object.
pub(crate) fn edition_of_definition(definition: &Value) -> Option<u64> {
    definition
        .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/edition/default")?
        .as_u64()
}

/// The edition of the schema that an object was judged by.
pub(crate) fn edition_of(object: &Value) -> Option<u64> {
    object["spec"]["edition"].as_u64()
}

/// The `resourceVersion` of an object or a list.
pub(crate) fn revision_of(document: &Value) -> Option<u64> {
    document["metadata"]["resourceVersion"].as_str()?.parse().ok()
}
