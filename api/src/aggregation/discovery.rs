//! Documents of discovery over the groups of this server and of aggregated ones.
//!
//! Owns how the two are merged: a version that both tell of is told as the aggregated server says, unless it is built in; groups
//! stand by their ranks, versions of a group by theirs, built-in ones first. Versions whose server does not answer are told of, as
//! stale in the aggregated form. Each document is made once for a registry and what is known of the servers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use orch_rules::kinds::defined::version_order;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::described::{Description, Descriptions};
use super::remote::Remote;
use crate::registry::discovery::{Aggregated, Item, Plain, VERSIONS};
use crate::registry::{Priority, Registry};

/// The merged documents.
pub(crate) struct Merged {
    /// At `/apis`.
    pub(crate) groups: Plain,
    /// At the paths of groups that an aggregated server has a version of, by name.
    by_group: HashMap<String, Plain>,
    /// Aggregated documents, in the order of [`VERSIONS`].
    aggregated: Vec<Aggregated>,
}

impl Merged {
    /// The plain document of the group called `name`; `None`: the registry's own is right.
    pub(crate) fn group(&self, name: &str) -> Option<&Plain> {
        self.by_group.get(name)
    }

    /// The aggregated document in number `version` of [`VERSIONS`].
    pub(crate) fn aggregated(&self, version: usize) -> Option<&Aggregated> {
        self.aggregated.get(version)
    }
}

/// A version of a group.
struct Version {
    is_built_in: bool,
    rank: i64,
    name: String,
    /// Its item in aggregated discovery, where it is an aggregated server's.
    item: Option<Value>,
}

/// A group with its versions.
#[derive(Default)]
struct Group {
    rank: i64,
    /// Its item in aggregated discovery as far as this server has the group.
    own: Option<Arc<Item>>,
    has_remote: bool,
    versions: Vec<Version>,
}

impl Group {
    /// The item of the group called `name`. A group that no other server has a version of keeps its bytes.
    fn item(&self, name: &str) -> Arc<Item> {
        match &self.own {
            Some(own) if !self.has_remote => own.clone(),
            own => {
                let own = own.as_ref().map(|own| own.value()).unwrap_or_default();
                let told = own.items("versions");
                let of = |version: &Version| {
                    // few: the versions of one group.
                    let found = || told.iter().find(|of| of.text("version") == version.name).cloned();
                    version.item.clone().or_else(found)
                };
                let versions: Vec<Value> = self.versions.iter().filter_map(of).collect();
                Arc::new(Item::of(&json!({"metadata": {"name": name}, "versions": versions})))
            }
        }
    }
}

/// The documents of `registry` with those of `remotes`.
pub(crate) fn merge(registry: &Registry, remotes: &[Arc<Remote>], descriptions: &Descriptions) -> Merged {
    let mut groups = own_groups(registry);
    for remote in remotes {
        let group = groups.entry(remote.group.clone()).or_default();
        // few: the versions of one group.
        let own = group.versions.iter().position(|version| version.name == remote.version);
        if own.is_some_and(|own| group.versions[own].is_built_in) {
            continue;
        }
        if let Some(own) = own {
            group.versions.remove(own);
        }
        group.has_remote = true;
        group.rank = group.rank.max(remote.priority.group);
        group.versions.push(Version {
            is_built_in: false,
            rank: remote.priority.version,
            name: remote.version.clone(),
            item: Some(item(remote, descriptions.find(&remote.name))),
        });
    }
    documents(registry, groups)
}

/// The named groups of this server.
fn own_groups(registry: &Registry) -> BTreeMap<String, Group> {
    let mut groups = BTreeMap::new();
    for group in registry.groups().filter(|group| !group.name.is_empty()) {
        let versions = group.versions.iter().map(|version| {
            let is_built_in = !version.is_declared();
            let rank = if is_built_in {
                registry.priority(&group.name, &version.version).version
            } else {
                Priority::DECLARED.version
            };
            Version { is_built_in, rank, name: version.version.clone(), item: None }
        });
        let rank = match group.is_declared() {
            true => Priority::DECLARED.group,
            false => registry.priority(&group.name, "").group,
        };
        let own = Some(registry.aggregated_item(group).clone());
        groups
            .insert(group.name.clone(), Group { rank, own, has_remote: false, versions: versions.collect() });
    }
    groups
}

/// The item of a version that an aggregated server has.
fn item(remote: &Remote, description: Option<Description>) -> Value {
    match description {
        Some(Description::Current(resources)) => {
            json!({"version": remote.version, "resources": resources.to_vec(), "freshness": "Current"})
        }
        Some(Description::Stale) | None => json!({"version": remote.version, "freshness": "Stale"}),
    }
}

fn documents(registry: &Registry, groups: BTreeMap<String, Group>) -> Merged {
    let mut groups: Vec<(String, Group)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.rank));
    let (mut listed, mut items) = (Vec::new(), Vec::new());
    let mut by_group = HashMap::new();
    for (name, mut group) in groups {
        group.versions.sort_by(|one, other| {
            let key = |of: &Version| (Reverse(of.is_built_in), Reverse(of.rank));
            let order = key(one).cmp(&key(other));
            order.then_with(|| version_order(&one.name).cmp(&version_order(&other.name)))
        });
        let told = |version: &Version| json!({"groupVersion": format!("{name}/{}", version.name), "version": version.name});
        let versions: Vec<Value> = group.versions.iter().map(told).collect();
        let preferred = versions.first().cloned().unwrap_or_default();
        let entry = json!({"name": name, "versions": versions, "preferredVersion": preferred});
        if group.has_remote {
            by_group.insert(name.clone(), Plain::new("APIGroup", &entry));
        }
        listed.push(entry);
        items.push(group.item(&name));
    }
    let aggregated = VERSIONS.iter().map(|version| Aggregated::of(registry.brand, version, &items));
    let groups = Plain::new("APIGroupList", &json!({"groups": listed}));
    Merged { groups, by_group, aggregated: aggregated.collect() }
}
