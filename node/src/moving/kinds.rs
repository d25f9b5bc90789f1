//! Discovery: the kinds that a server keeps objects of.
//!
//! Owns the choice of one version for each resource, the order of kinds, and paths. Objects of a definition are copied in the version in which
//! the source stores them: in another one the target would have to ask a conversion webhook, which does not run yet. Kinds that cannot be listed and created, such as
//! reviews, and those that other servers answer for it (APIService), are none that a server keeps.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use serde_json::Value;

use super::servers::{Cursor, Pool};
use crate::admin::escaped;

/// A kind, in the version in which its objects are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Empty for core.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
}

impl Kind {
    /// `GROUP/PLURAL`, by which people and the state file name it.
    pub(super) fn id(&self) -> String {
        match self.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Whether its objects are of `kind` in `group`.
    pub(super) fn is_of(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub(super) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Path of the list of all namespaces.
    pub(super) fn list(&self) -> String {
        format!("{}/{}", self.root(), self.plural)
    }

    /// Path of the object called `place` (`NAMESPACE/NAME`, or `NAME`).
    pub(super) fn path_of(&self, place: &str) -> String {
        match place.split_once('/') {
            Some((namespace, name)) if self.namespaced => {
                let (namespace, name) = (escaped(namespace), escaped(name));
                format!("{}/namespaces/{namespace}/{}/{name}", self.root(), self.plural)
            }
            _ => format!("{}/{}", self.list(), escaped(place)),
        }
    }

    fn root(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}

/// Whether `id` is that of the kind of definitions.
pub(super) fn is_definitions_id(id: &str) -> bool {
    id.starts_with("customresourcedefinitions.apiextensions.")
}

/// The place of `object`: `NAMESPACE/NAME`, or `NAME`.
pub(super) fn place_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

/// What a server serves.
pub(super) struct Served {
    pub(super) brand: &'static Brand,
    /// The kinds that it keeps objects of, in the order in which they are copied.
    kinds: Vec<Kind>,
    /// All versions of each resource that it serves, by group and plural, the one first in which objects are copied.
    versions: BTreeMap<(String, String), Vec<String>>,
    /// The groups of which other servers answer for it.
    pub(super) elsewhere: BTreeSet<String>,
}

/// The kinds that have a definition: the version in which objects are stored, by the id of the kind.
pub(super) type Declared = BTreeMap<String, String>;

impl Served {
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// `kind` in a version that this server serves, too; `None`: it serves none of those that `other` does.
    pub(super) fn shared(&self, kind: &Kind, other: &Served) -> Option<Kind> {
        let of = (kind.group.clone(), kind.plural.clone());
        let own = self.versions.get(&of)?;
        let theirs = other.versions.get(&of)?;
        // few: versions of one kind.
        let version = theirs.iter().find(|version| own.contains(version))?;
        Some(Kind { version: version.clone(), ..kind.clone() })
    }

    /// Whether `kind` is that of definitions.
    pub(super) fn is_definition(&self, kind: &Kind) -> bool {
        kind.id() == definitions_id(self.brand)
    }

    /// Takes in which kinds have a definition: their version, and their place in the order.
    pub(super) fn declare(&mut self, declared: &Declared) {
        for kind in &mut self.kinds {
            let Some(stored) = declared.get(&kind.id()) else { continue };
            let of = (kind.group.clone(), kind.plural.clone());
            let versions = self.versions.entry(of).or_default();
            // few: versions of one kind.
            if let Some(at) = versions.iter().position(|version| version == stored) {
                versions[..=at].rotate_right(1);
                kind.version.clone_from(stored);
            }
        }
        let brand = self.brand;
        self.kinds.sort_by_cached_key(|kind| rank(brand, declared, kind));
    }

    /// A name of the cluster behind `pool` that no copy changes: the uid of the service of its own API.
    ///
    /// # Errors
    /// It cannot be read, or there is no such service.
    pub(super) async fn identity(&self, pool: &Pool<'_>) -> anyhow::Result<String> {
        let path = format!("/api/v1/namespaces/default/services/{}", self.brand.api_service);
        let service = pool.document(&path).await?;
        let uid = service.as_ref().and_then(|service| service["metadata"]["uid"].as_str());
        uid.map(str::to_owned).with_context(|| format!("there is no {path}, by which a cluster is known"))
    }
}

/// Asks the server behind `pool` what it serves. [`Served::declare`] completes the answer.
///
/// # Errors
/// It gives no answer, or is no server of the API.
pub(super) async fn discover(pool: &Pool<'_>) -> anyhow::Result<Served> {
    let groups = pool.document("/apis").await?.context("it serves no /apis")?;
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let names: BTreeSet<&str> = groups.iter().filter_map(|group| group["name"].as_str()).collect();
    let brand = [&ORCH, &KUBERNETES]
        .into_iter()
        .find(|brand| names.contains(&*brand.group("apiextensions")))
        .context("it serves no definitions of kinds")?;
    let elsewhere = aggregated(pool, brand).await?;
    let groups_elsewhere = elsewhere.iter().map(|(group, _)| group.clone()).collect();
    let mut served =
        Served { brand, kinds: Vec::new(), versions: BTreeMap::new(), elsewhere: groups_elsewhere };
    add_version(pool, "", "v1", &mut served).await?;
    for group in &groups {
        let name = group["name"].as_str().unwrap_or_default();
        let preferred = group["preferredVersion"]["version"].as_str();
        let all = group["versions"].as_array().into_iter().flatten();
        let others = all.filter_map(|version| version["version"].as_str());
        let others = others.filter(|version| Some(*version) != preferred);
        for version in preferred.into_iter().chain(others) {
            if !elsewhere.contains(&(name.to_owned(), version.to_owned())) {
                add_version(pool, name, version, &mut served).await?;
            }
        }
    }
    Ok(served)
}

/// The id of the kind of definitions.
pub(super) fn definitions_id(brand: &Brand) -> String {
    format!("customresourcedefinitions.{}", brand.group("apiextensions"))
}

/// The definitions of the server behind `pool`, which serves `served`.
///
/// # Errors
/// They cannot be listed.
pub(super) async fn declared(pool: &Pool<'_>, served: &Served) -> anyhow::Result<Declared> {
    let mut declared = Declared::new();
    let Some(kind) = served.kinds().iter().find(|kind| served.is_definition(kind)) else {
        return Ok(declared);
    };
    let mut cursor = Cursor::default();
    while let Some(page) = pool.page(&kind.list(), &mut cursor).await? {
        declared.extend(page.items.iter().filter_map(stored_version));
        if page.next.is_empty() {
            break;
        }
    }
    Ok(declared)
}

/// The id of the kind that `definition` declares, and the version in which its objects are stored.
pub(super) fn stored_version(definition: &Value) -> Option<(String, String)> {
    let versions = definition["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    let name = definition["metadata"]["name"].as_str()?;
    Some((name.to_owned(), stored["name"].as_str()?.to_owned()))
}

/// The groups and versions that other servers answer.
async fn aggregated(pool: &Pool<'_>, brand: &Brand) -> anyhow::Result<BTreeSet<(String, String)>> {
    let path = format!("/apis/{}/v1/apiservices", brand.group("apiregistration"));
    let (mut found, mut cursor) = (BTreeSet::new(), Cursor::default());
    while let Some(page) = pool.page(&path, &mut cursor).await? {
        let remote = page.items.iter().filter(|service| service["spec"]["service"].is_object());
        found.extend(remote.filter_map(|service| {
            let text = |field: &str| service["spec"][field].as_str().map(str::to_owned);
            Some((text("group")?, text("version")?))
        }));
        if page.next.is_empty() {
            break;
        }
    }
    Ok(found)
}

async fn add_version(pool: &Pool<'_>, group: &str, version: &str, served: &mut Served) -> anyhow::Result<()> {
    let path = match group {
        "" => format!("/api/{version}"),
        _ => format!("/apis/{group}/{version}"),
    };
    let list = pool.document(&path).await?.unwrap_or_default();
    for resource in list["resources"].as_array().into_iter().flatten() {
        let text = |field: &str| resource[field].as_str().unwrap_or_default().to_owned();
        let plural = text("name");
        let verbs = resource["verbs"].as_array().into_iter().flatten();
        let verbs: BTreeSet<&str> = verbs.filter_map(Value::as_str).collect();
        // set: three of them.
        let is_kept = ["list", "get", "create"].iter().all(|verb| verbs.contains(verb));
        if plural.contains('/') || !is_kept {
            continue;
        }
        let versions = served.versions.entry((group.to_owned(), plural.clone())).or_default();
        versions.push(version.to_owned());
        if versions.len() == 1 {
            served.kinds.push(Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                plural,
                kind: text("kind"),
                namespaced: resource["namespaced"] == true,
            });
        }
    }
    Ok(())
}

/// The place of a kind in the order of copying: definitions and namespaces, on which all others depend, kinds of definitions,
/// whose objects often own built-in ones, then those with the parts that they own behind them.
fn rank(brand: &Brand, declared: &Declared, kind: &Kind) -> (u8, String) {
    let id = kind.id();
    let rank = match (kind.group.as_str(), kind.plural.as_str()) {
        _ if id == definitions_id(brand) => 0,
        ("", "namespaces") => 1,
        _ if declared.contains_key(&id) => 2,
        (_, "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" | "apiservices") => 8,
        ("apps", "controllerrevisions") => 4,
        // Accounts come before the secrets that keep their tokens.
        ("", "nodes" | "serviceaccounts") => 3,
        ("", "pods") => 6,
        ("", _) => 5,
        _ => 3,
    };
    (rank, id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(group: &str, plural: &str, namespaced: bool) -> Kind {
        let (group, plural) = (group.to_owned(), plural.to_owned());
        Kind { group, version: "v1".to_owned(), plural, kind: "K".to_owned(), namespaced }
    }

    #[test]
    fn paths_are_those_of_group_and_scope() {
        let maps = kind("", "configmaps", true);
        assert_eq!(maps.path_of("ns/a"), "/api/v1/namespaces/ns/configmaps/a");
        let classes = kind("storage.example.io", "storageclasses", false);
        assert_eq!(classes.path_of("a"), "/apis/storage.example.io/v1/storageclasses/a");
        assert_eq!(
            (classes.list(), classes.id()),
            (
                "/apis/storage.example.io/v1/storageclasses".to_owned(),
                "storageclasses.storage.example.io".to_owned()
            )
        );
        assert_eq!(place_of(&json!({"metadata": {"name": "a", "namespace": "n"}})), "n/a");
    }

    /// A server of `kinds`, all in the versions `v1` and `v2`.
    fn served(kinds: &[(&str, &str)], brand: &'static Brand) -> Served {
        let kinds: Vec<Kind> = kinds.iter().map(|(group, plural)| kind(group, plural, true)).collect();
        let of = |kind: &Kind| (kind.group.clone(), kind.plural.clone());
        let versions = kinds.iter().map(|kind| (of(kind), vec!["v1".to_owned(), "v2".to_owned()])).collect();
        Served { brand, kinds, versions, elsewhere: BTreeSet::new() }
    }

    #[test]
    fn definitions_and_owners_are_copied_before_their_dependents() {
        let groups = [
            ("", "secrets"),
            ("", "pods"),
            ("apps", "replicasets"),
            ("gateway.networking.k8s.io", "gateways"),
            ("example.com", "widgets"),
            ("", "namespaces"),
            ("", "serviceaccounts"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("", "configmaps"),
        ];
        let mut served = served(&groups, &KUBERNETES);
        let declared = ["widgets.example.com", "gateways.gateway.networking.k8s.io"];
        served.declare(&declared.iter().map(|id| ((*id).to_owned(), "v1".to_owned())).collect());
        let order: Vec<&str> = served.kinds.iter().map(|kind| kind.plural.as_str()).collect();
        let parts = ["replicasets", "serviceaccounts", "configmaps", "secrets", "pods"];
        assert_eq!(order[..4], ["customresourcedefinitions", "namespaces", "gateways", "widgets"]);
        assert_eq!(order[4..], parts);
    }

    #[test]
    fn objects_are_copied_in_the_version_in_which_they_are_stored() {
        let mut source = served(&[("example.com", "widgets"), ("example.com", "gadgets")], &ORCH);
        let target = served(&[("example.com", "widgets"), ("example.com", "gadgets")], &ORCH);
        let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"versions": [
            {"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": true, "storage": true},
        ]}});
        source.declare(&stored_version(&definition).into_iter().collect());
        let copied: BTreeMap<String, String> = source
            .kinds()
            .iter()
            .map(|kind| (kind.plural.clone(), target.shared(kind, &source).unwrap().version))
            .collect();
        assert_eq!((copied["widgets"].as_str(), copied["gadgets"].as_str()), ("v2", "v1"));
    }
}
