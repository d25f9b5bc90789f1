//! Published names: of definitions, of their kinds, of groups in operation ids.
//!
//! Owns the rule that turns a message name (`core.v1.Pod`) into a definition's name under the brand's reversed domain,
//! and the groups and versions that a definition belongs to as a kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{ObjectType, Schema};

use crate::registry::Registry;

/// Messages that are kinds of every group.
const IN_EVERY_GROUP: [&str; 2] = ["meta.v1.DeleteOptions", "meta.v1.WatchEvent"];

/// Shared messages that are kinds of the core group.
const IN_CORE: [&str; 5] = [
    "meta.v1.APIGroup",
    "meta.v1.APIGroupList",
    "meta.v1.APIResourceList",
    "meta.v1.APIVersions",
    "meta.v1.Status",
];

/// The groups and versions of a schema.
pub(super) struct Names<'a> {
    /// The built-in types.
    pub(super) schema: &'a Arc<Schema>,
    pub(super) brand: &'static Brand,
    /// Group and version by Protobuf package: `rbac.v1`. Of the built-in types.
    packages: BTreeMap<&'a str, (&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    pub(super) fn of(registry: &'a Registry) -> Self {
        let schema = &registry.schema;
        let packages = schema.resources().iter().map(|resource| {
            let package = split(&schema.get(resource.type_id).name).0;
            (package, (resource.group.as_str(), resource.version.as_str()))
        });
        Self { schema, brand: registry.brand, packages: packages.collect() }
    }

    /// The name under which the message `full_name` (`core.v1.Pod`) is published: as in the reference, a declared kind's is
    /// its group reversed, its version and its own.
    pub(super) fn definition(&self, full_name: &str) -> String {
        if let Some((group, rest)) = full_name.split_once('/') {
            // A type of a declared kind: `GROUP/VERSION.KIND`.
            return format!("{}.{rest}", group.rsplit('.').collect::<Vec<_>>().join("."));
        }
        let domain: Vec<&str> = self.brand.group_domain.rsplit('.').collect();
        let (package, name) = split(full_name);
        let (stem, version) = package.split_once('.').unwrap_or((package, ""));
        let place = match (stem, version) {
            ("meta", _) => "apimachinery.pkg.apis.meta".to_owned(),
            ("intstr", _) => "apimachinery.pkg.util.intstr".to_owned(),
            ("version", _) => "apimachinery.pkg.version".to_owned(),
            ("runtime", _) => "apimachinery.pkg.runtime".to_owned(),
            ("resource", "") => "apimachinery.pkg.api.resource".to_owned(),
            ("apiextensions", _) => "apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
            ("apiregistration", _) => {
                format!("{}-aggregator.pkg.apis.apiregistration", self.brand.component_prefix)
            }
            (stem, _) => format!("api.{stem}"),
        };
        let parts = [&domain.join("."), &place, version, name];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// The group-version-kinds of a type of `schema`, for the definition's extension; empty for a type that is no kind.
    pub(super) fn kinds(&self, schema: &Schema, table: &ObjectType) -> Vec<Value> {
        let (package, kind) = split(&table.name);
        if IN_EVERY_GROUP.contains(&&*table.name) {
            let mut all: Vec<_> = self.packages.values().collect();
            all.sort_unstable();
            return all
                .into_iter()
                .map(|(group, version)| group_version_kind(group, version, kind))
                .collect();
        }
        if IN_CORE.contains(&&*table.name) {
            return vec![group_version_kind("", "v1", kind)];
        }
        if !table.head {
            return Vec::new();
        }
        let built_in = self.packages.get(package).copied();
        // few: the versions of one kind, in a schema beside the built-in one.
        let added = || schema.resources().iter().find(|of| split(&schema.get(of.type_id).name).0 == package);
        let found = built_in.or_else(|| added().map(|of| (of.group.as_str(), of.version.as_str())));
        found.map(|(group, version)| group_version_kind(group, version, kind)).into_iter().collect()
    }

    /// `group` in operation ids: `RbacAuthorization` in `readRbacAuthorizationV1Role`; `Core` for the core group.
    pub(super) fn in_operation_ids(&self, group: &str) -> String {
        let domain = format!(".{}", self.brand.group_domain);
        match group.strip_suffix(&domain).unwrap_or(group) {
            "" => "Core".to_owned(),
            stem => stem.split(['.', '-']).map(capitalized).collect(),
        }
    }
}

/// A kind in the form of the extensions.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

/// `word` with a capital first letter.
pub(super) fn capitalized(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Splits `core.v1.Pod` into package and name.
fn split(full_name: &str) -> (&str, &str) {
    full_name.rsplit_once('.').unwrap_or(("", full_name))
}
