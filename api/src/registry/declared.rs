//! Resources of kinds that a definition declares.
//!
//! Owns how a declared version becomes a [`Resource`]: the strategy made of data, and the conversion stage. It reads no
//! definition object: whoever does hands in names, rules, columns and types.

use std::sync::Arc;

use orch_raft::{Revision, WrittenAs};
use orch_rules::kinds::defined::DefinedKind;
use orch_rules::kinds::defined::schema::Constraints;
use orch_schema::{ResourceType, TypeId};

use super::{End, Kind, Published, Record, Stage, Tables};
use crate::conversion::{Conversion, Converter, Staged};
use crate::expression_times::within_evaluation;

/// Gives the rules of a version's schema, the same at each call. They are made when they are first needed.
pub type MakeConstraints = Arc<dyn Fn() -> Arc<Constraints> + Send + Sync>;

/// One version of a declared kind.
#[derive(Clone)]
pub struct DeclaredVersion {
    /// Names, verbs, rules, sub-resources and columns of the tables.
    pub definition: ResourceType,
    /// The schema that holds its types.
    pub schema: Tables,
    /// The revision of the kind's definition from which on the schema of this version is as it is.
    pub since: Revision,
    /// The warning that requests for this version get.
    pub deprecation: Option<String>,
    /// When the version is taken away or served in another form.
    pub end: End,
    /// The schema that OpenAPI publishes; `None`: that of the types.
    pub published: Option<Published>,
    /// Gives the rules for values; `None`: there are none beside the types.
    pub constraints: Option<MakeConstraints>,
}

/// A declared kind: its versions, of which one is stored.
#[derive(Clone)]
pub struct DeclaredKind {
    /// The versions that are served.
    pub versions: Vec<DeclaredVersion>,
    /// The form in which objects are written, which need not be served.
    pub stored: Arc<WrittenAs>,
    /// The type of that form.
    pub stored_type: TypeId,
    /// The schema that holds that type.
    pub stored_schema: Tables,
    /// Converts between the versions.
    pub converter: Arc<dyn Converter>,
    /// The record of the definition. Writes of the kind depend on it.
    pub record: Option<Record>,
    /// How far the definition has come.
    pub stage: Stage,
}

/// Name in the store of the objects that a definition of this plural name and group declares. It ends in a dot, which no name
/// of a built-in resource does: a group may be called as the stem of a built-in one (`rbac.authorization`).
pub fn storage_of(plural: &str, group: &str) -> Arc<str> {
    format!("{plural}.{group}.").into()
}

impl DeclaredKind {
    /// The kind in each served version, for [`Registry::with`](super::Registry::with).
    pub fn kinds(&self) -> Vec<Kind> {
        self.versions.iter().map(|version| self.kind(version)).collect()
    }

    fn kind(&self, version: &DeclaredVersion) -> Kind {
        let DeclaredVersion { definition, schema, since, deprecation, end, published, constraints } = version;
        let strategy = DefinedKind::new(definition, deprecation.clone()).evaluated_within(within_evaluation);
        let strategy = Arc::new(match constraints {
            Some(make) => strategy.with_constraints(make.clone()),
            None => strategy,
        });
        let staged = Staged {
            shown: Arc::new(WrittenAs { version: definition.version.as_str().into(), definition: *since }),
            stored: self.stored.clone(),
            stored_type: self.stored_type,
            stored_schema: self.stored_schema.clone(),
            converter: self.converter.clone(),
        };
        Kind {
            definition: definition.clone(),
            schema: schema.clone(),
            storage: storage_of(&definition.plural, &definition.group),
            strategy,
            conversion: Some(Conversion::Staged(staged)),
            review: None,
            record: self.record.clone(),
            stage: self.stage,
            end: Some(end.clone()),
            published: published.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use crate::conversion::testing::{Renaming, widgets};
    use crate::registry::Registry;

    #[test]
    fn a_version_stands_for_the_stored_objects_also_where_the_stored_one_is_not_served() {
        let builtin = Registry::builtin(&ORCH);
        for (stored, stands) in [("v1", "v1"), ("v1beta1", "v1beta1"), ("v1alpha1", "v1")] {
            let kinds = widgets(&builtin, &Renaming::ready(), stored, 7).kinds();
            let registry = builtin.with(kinds).unwrap();
            assert_eq!(registry.stored("widgets.stable.example.com.").unwrap().version, stands, "{stored}");
            let counted = registry.stored_resources().filter(|of| of.plural == "widgets").count();
            assert_eq!(counted, 1, "{stored}");
        }
    }
}
