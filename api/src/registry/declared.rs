//! Resources of kinds that a definition declares.
//!
//! Owns how a declared version becomes a [`Resource`]: the strategy made of data, and the conversion stage. It reads no
//! definition object: whoever does hands in names, rules, columns and types.

use std::sync::Arc;

use orch_raft::{Revision, WrittenAs};
use orch_rules::kinds::defined::DefinedKind;
use orch_schema::{ResourceType, Schema, TypeId};

use super::{Registry, Resource, assembled, others};
use crate::conversion::{Conversion, Converter, Staged};

/// One version of a declared kind.
#[derive(Clone, Debug)]
pub struct DeclaredVersion {
    /// Names, verbs, rules, sub-resources and columns of the tables.
    pub definition: ResourceType,
    /// The revision of the kind's definition from which on the schema of this version is as it is.
    pub since: Revision,
    /// The warning that requests for this version get.
    pub deprecation: Option<String>,
}

/// A declared kind: its versions, of which one is stored.
#[derive(Clone, Debug)]
pub struct DeclaredKind {
    /// The schema that holds the types of all versions.
    pub schema: Arc<Schema>,
    /// The versions that are served.
    pub versions: Vec<DeclaredVersion>,
    /// The form in which objects are written, which need not be served.
    pub stored: Arc<WrittenAs>,
    /// The type of that form.
    pub stored_type: TypeId,
    /// Converts between the versions.
    pub converter: Arc<dyn Converter>,
}

impl DeclaredKind {
    /// The resources of the served versions.
    fn resources(&self) -> Vec<Resource> {
        let mut resources: Vec<Resource> =
            self.versions.iter().map(|version| self.resource(version)).collect();
        for at in 0..resources.len() {
            resources[at].others = others(&resources, at);
        }
        resources
    }

    fn resource(&self, version: &DeclaredVersion) -> Resource {
        let DeclaredVersion { definition, since, deprecation } = version;
        let strategy = Arc::new(DefinedKind::new(definition, deprecation.clone()));
        let storage = format!("{}.{}", definition.plural, definition.group);
        let staged = Staged {
            shown: Arc::new(WrittenAs { version: definition.version.as_str().into(), definition: *since }),
            stored: self.stored.clone(),
            stored_type: self.stored_type,
            converter: self.converter.clone(),
        };
        let conversion = Some(Conversion::Staged(staged));
        assembled(&self.schema, definition.clone(), strategy, storage.into(), conversion)
    }
}

impl Registry {
    /// This registry with `kinds` beside its own resources.
    pub fn with_declared(&self, kinds: &[DeclaredKind]) -> Arc<Registry> {
        let declared = kinds.iter().flat_map(DeclaredKind::resources).map(Arc::new);
        let resources = self.resources.iter().cloned().chain(declared).collect();
        Arc::new(Registry::of(self.schema.clone(), self.brand, resources))
    }
}
