//! The tables of one version of a definition, which are made when they are first needed.
//!
//! Owns the bytes that they are made from, until they are made: those of the newest definition with the same schema, so that no
//! older one is kept in memory for it.

use std::sync::{Arc, OnceLock};

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_rules::kinds::defined::schema::{Compiled, root_of};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{Schema, TypeId};
use parking_lot::Mutex;

use super::compile::compiled;
use crate::follow::Builder;
use crate::registry::{MakeConstraints, Tables};

/// The compiled tables of a version. Clones share them.
#[derive(Clone)]
pub(super) struct VersionTables {
    shared: Arc<Shared>,
    tables: Tables,
}

struct Shared {
    version: String,
    base: Arc<Schema>,
    brand: &'static Brand,
    /// The definition; `None` once it was compiled.
    source: Mutex<Option<SharedObject>>,
    made: OnceLock<Arc<Compiled>>,
}

impl VersionTables {
    /// The tables of `version` of `definition`, over the types of `base`, which `builder` makes. Nothing is compiled yet.
    pub(super) fn new(
        definition: &SharedObject,
        version: &str,
        base: Arc<Schema>,
        brand: &'static Brand,
        builder: Builder,
    ) -> VersionTables {
        let shared = Arc::new(Shared {
            version: version.to_owned(),
            base,
            brand,
            source: Mutex::new(Some(definition.clone())),
            made: OnceLock::new(),
        });
        let own = shared.clone();
        VersionTables { tables: Tables::later(builder, move || own.made().schema.clone()), shared }
    }

    /// The type of the version's objects, which is known before anything is compiled: the first own one.
    pub(super) fn root(base: &Schema) -> TypeId {
        root_of(base)
    }

    /// The tables, as resources have them.
    pub(super) fn tables(&self) -> Tables {
        self.tables.clone()
    }

    /// Gives the rules for values. They are compiled where that has not been done.
    pub(super) fn constraints(&self) -> MakeConstraints {
        let own = self.shared.clone();
        Arc::new(move || own.made().constraints.clone())
    }

    /// Takes `definition`, in which the schema of the version is the same, in the place of the earlier one.
    pub(super) fn renew(&self, definition: &SharedObject) {
        let mut source = self.shared.source.lock();
        if source.is_some() {
            *source = Some(definition.clone());
        }
    }
}

impl Shared {
    fn made(&self) -> &Arc<Compiled> {
        self.made.get_or_init(|| {
            let source = self.source.lock().take();
            let json = source.as_ref().map_or(&b""[..], |definition| &definition.json);
            let definition: Value = serde_json::from_slice(json).unwrap_or_default();
            let versions = definition.at("spec").items("versions");
            // few: a definition has a bounded number of versions, and each is compiled once.
            let version = versions.iter().find(|found| found.text("name") == self.version);
            Arc::new(compiled(&definition, version.unwrap_or(&Value::Null), &self.base, self.brand))
        })
    }
}
