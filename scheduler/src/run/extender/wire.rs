//! The JSON of extenders' calls.
//!
//! Owns the names of its members, which extenders of the ecosystem read and write: those of the fields of Go structs,
//! in which case does not count. Both cases in use are read; the capital ones are written.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An object of the API, as JSON.
pub(super) type Json = Box<RawValue>;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct FilterArgs {
    pub(super) pod: Json,
    pub(super) nodes: Option<Items>,
    pub(super) node_names: Option<Vec<String>>,
}

#[derive(Serialize)]
pub(super) struct Items {
    pub(super) items: Vec<Json>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct FilterResult {
    #[serde(alias = "nodes")]
    pub(super) nodes: Option<NamedItems>,
    #[serde(alias = "nodeNames", alias = "nodenames")]
    pub(super) node_names: Option<Vec<String>>,
    #[serde(alias = "failedNodes")]
    pub(super) failed_nodes: Option<HashMap<String, String>>,
    #[serde(alias = "failedAndUnresolvableNodes")]
    pub(super) failed_and_unresolvable_nodes: Option<HashMap<String, String>>,
    #[serde(alias = "error")]
    pub(super) error: String,
}

#[derive(Deserialize)]
pub(super) struct NamedItems {
    #[serde(default)]
    pub(super) items: Vec<NamedItem>,
}

#[derive(Deserialize)]
pub(super) struct NamedItem {
    pub(super) metadata: ItemName,
}

#[derive(Deserialize)]
pub(super) struct ItemName {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HostPriority {
    #[serde(alias = "host")]
    pub(super) host: String,
    #[serde(alias = "score")]
    pub(super) score: i64,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PreemptionArgs {
    pub(super) pod: Json,
    pub(super) node_name_to_victims: Option<HashMap<String, Victims>>,
    pub(super) node_name_to_meta_victims: Option<HashMap<String, MetaVictims>>,
}

/// The victims on one node, as they are told to an extender.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Victims {
    /// The pods, as JSON.
    pub pods: Vec<Box<RawValue>>,
    /// How many of them break a disruption budget.
    #[serde(rename = "NumPDBViolations")]
    pub num_pdb_violations: i64,
}

/// The victims on one node, by UID.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct MetaVictims {
    #[serde(alias = "pods", default)]
    pods: Vec<MetaPod>,
    /// How many of them break a disruption budget.
    #[serde(rename = "NumPDBViolations", alias = "numPDBViolations", default)]
    pub num_pdb_violations: i64,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
struct MetaPod {
    #[serde(rename = "UID", alias = "uid")]
    uid: String,
}

impl MetaVictims {
    pub(super) fn new(uids: impl Iterator<Item = String>, num_pdb_violations: i64) -> Self {
        Self { pods: uids.map(|uid| MetaPod { uid }).collect(), num_pdb_violations }
    }

    /// The UIDs of the victims.
    pub fn uids(&self) -> impl Iterator<Item = &str> {
        self.pods.iter().map(|pod| pod.uid.as_str())
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct PreemptionResult {
    #[serde(alias = "nodeNameToMetaVictims")]
    pub(super) node_name_to_meta_victims: Option<HashMap<String, MetaVictims>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct BindingArgs {
    pub(super) pod_name: String,
    pub(super) pod_namespace: String,
    #[serde(rename = "PodUID")]
    pub(super) pod_uid: String,
    pub(super) node: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct BindingResult {
    #[serde(alias = "error")]
    pub(super) error: String,
}
