//! The definition of a custom kind, as a migration needs it.

use anyhow::{Context, ensure};
use orch_proto::brand::{KUBERNETES, ORCH};
use serde_json::Value;

/// Stem of the group of definitions.
const GROUP: &str = "apiextensions";

/// The domain of the built-in groups of a server that lists `groups` (`/apis`); `None`: it has no definitions.
pub(super) fn domain(groups: &Value) -> Option<String> {
    let names: Vec<&str> =
        groups["groups"].as_array()?.iter().filter_map(|group| group["name"].as_str()).collect();
    let brand = [&ORCH, &KUBERNETES].into_iter().find(|brand| names.contains(&&*brand.group(GROUP)))?;
    Some(brand.group_domain.to_owned())
}

/// The path of the definition called `name`.
pub(super) fn path(domain: &str, name: &str) -> String {
    format!("/apis/{GROUP}.{domain}/v1/customresourcedefinitions/{name}")
}

/// A definition that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) uid: String,
    /// Its `resourceVersion`.
    pub(super) revision: String,
    /// Counts the changes of `spec`, and so those of the storage version.
    generation: u64,
    /// The storage version.
    pub(super) storage: String,
    stored_versions: Vec<String>,
    /// Path of all objects, in the storage version where that is served.
    pub(super) path: String,
    /// Number of the connection that it was read over (`Session::turn`).
    pub(super) turn: u64,
}

impl Definition {
    /// The definition in an answer.
    ///
    /// # Errors
    /// It is being deleted, not in force, or serves no version.
    pub(super) fn of(body: &Value, turn: u64) -> anyhow::Result<Definition> {
        let (metadata, spec) = (&body["metadata"], &body["spec"]);
        let name = text(metadata, "name");
        ensure!(metadata["deletionTimestamp"].is_null(), "{name} is being deleted");
        let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is = |version: &&Value, field: &str| version[field].as_bool() == Some(true);
        let storage = versions.iter().find(|version| is(version, "storage"));
        let storage = storage.with_context(|| format!("{name} has no storage version"))?;
        let served = Some(storage).filter(|version| is(version, "served"));
        let served = served.or_else(|| versions.iter().find(|version| is(version, "served")));
        let served = served
            .with_context(|| format!("{name} serves no version, so that no client reaches its objects"))?;
        let stored = body["status"]["storedVersions"].as_array().into_iter().flatten();
        Ok(Definition {
            uid: text(metadata, "uid").to_owned(),
            revision: text(metadata, "resourceVersion").to_owned(),
            generation: metadata["generation"].as_u64().unwrap_or_default(),
            storage: text(storage, "name").to_owned(),
            stored_versions: stored.filter_map(|version| Some(version.as_str()?.to_owned())).collect(),
            path: format!(
                "/apis/{}/{}/{}",
                text(spec, "group"),
                text(served, "name"),
                text(&spec["names"], "plural")
            ),
            turn,
        })
    }

    /// The path of one object; an empty namespace: of a kind without.
    pub(super) fn path_of(&self, namespace: &str, name: &str) -> String {
        if namespace.is_empty() {
            return format!("{}/{name}", self.path);
        }
        let (version, plural) = self.path.rsplit_once('/').unwrap_or_default();
        format!("{version}/namespaces/{namespace}/{plural}/{name}")
    }

    /// Whether no object is stored in another version than the storage version.
    pub(super) fn is_trimmed(&self) -> bool {
        self.stored_versions == [self.storage.as_str()]
    }

    /// Whether `spec` is as it was in `earlier`, and was meanwhile.
    pub(super) fn is_same(&self, earlier: &Definition) -> bool {
        self.uid == earlier.uid && self.generation == earlier.generation
    }

    /// Refuses to go on where objects have to be stored in another version than `earlier` said.
    pub(super) fn check_follows(&self, earlier: &Definition) -> anyhow::Result<()> {
        ensure!(
            self.uid == earlier.uid,
            "the definition was deleted and created again meanwhile: its objects are gone, and nothing was trimmed"
        );
        ensure!(
            self.storage == earlier.storage,
            "the storage version was changed from {} to {} meanwhile, so status.storedVersions stays; give the command again",
            earlier.storage,
            self.storage
        );
        Ok(())
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body() -> Value {
        json!({
            "metadata": {"name": "widgets.example.com", "uid": "u", "resourceVersion": "9", "generation": 2},
            "spec": {
                "group": "example.com",
                "names": {"plural": "widgets"},
                "versions": [
                    {"name": "v1", "served": true, "storage": false},
                    {"name": "v2", "served": true, "storage": true},
                ],
            },
            "status": {"storedVersions": ["v1", "v2"]},
        })
    }

    #[test]
    fn objects_are_reached_in_the_storage_version_where_it_is_served() {
        let mut body = body();
        let definition = Definition::of(&body, 1).unwrap();
        assert_eq!((definition.storage.as_str(), definition.is_trimmed()), ("v2", false));
        assert_eq!(definition.path_of("ns", "a"), "/apis/example.com/v2/namespaces/ns/widgets/a");
        assert_eq!(definition.path_of("", "a"), "/apis/example.com/v2/widgets/a");
        body["spec"]["versions"][1]["served"] = json!(false);
        body["status"]["storedVersions"] = json!(["v2"]);
        let hidden = Definition::of(&body, 1).unwrap();
        assert_eq!((hidden.path.as_str(), hidden.is_trimmed()), ("/apis/example.com/v1/widgets", true));
        body["spec"]["versions"][0]["served"] = json!(false);
        assert!(Definition::of(&body, 1).is_err(), "no version is served");
        body["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(Definition::of(&body, 1).unwrap_err().to_string(), "widgets.example.com is being deleted");
    }

    #[test]
    fn another_storage_version_or_another_definition_ends_a_migration() {
        let first = Definition::of(&body(), 1).unwrap();
        let later = |change: &dyn Fn(&mut Value)| {
            let mut body = body();
            change(&mut body);
            Definition::of(&body, 2).unwrap()
        };
        let status = later(&|body| body["metadata"]["resourceVersion"] = json!("10"));
        assert!(status.is_same(&first) && status.check_follows(&first).is_ok());
        let columns = later(&|body| body["metadata"]["generation"] = json!(3));
        assert!(!columns.is_same(&first) && columns.check_follows(&first).is_ok());
        let again = later(&|body| body["metadata"]["uid"] = json!("other"));
        assert!(!again.is_same(&first) && again.check_follows(&first).is_err());
        let back = later(&|body| {
            body["spec"]["versions"][0]["storage"] = json!(true);
            body["spec"]["versions"][1]["storage"] = json!(false);
        });
        let told = back.check_follows(&first).unwrap_err().to_string();
        assert!(told.contains("from v2 to v1"), "{told}");
    }

    #[test]
    fn the_domain_is_that_of_the_group_of_definitions() {
        let groups = |name: &str| json!({"groups": [{"name": "apps"}, {"name": name}]});
        assert_eq!(domain(&groups(&ORCH.group(GROUP))).as_deref(), Some(ORCH.group_domain));
        assert_eq!(domain(&groups(&KUBERNETES.group(GROUP))).as_deref(), Some(KUBERNETES.group_domain));
        assert_eq!(domain(&groups("apiextensions.example.com")), None);
    }
}
