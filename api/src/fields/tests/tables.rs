//! The compiled tables, once for all tests.

use std::sync::LazyLock;

use super::*;
use orch_proto::brand::ORCH;

/// The tables of all built-in kinds.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::builtin(&ORCH));
    &SCHEMA
}

/// The type of a kind.
pub(crate) fn root(kind: &str) -> TypeId {
    schema().resources().iter().find(|resource| *resource.kind == *kind).unwrap().type_id
}

/// The type of a kind in a version (`apps/v1`); `None` for kinds without a resource.
pub(crate) fn root_of(api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_it =
        |r: &&orch_schema::ResourceType| *r.group == *group && *r.version == *version && *r.kind == *kind;
    schema().resources().iter().find(is_it).map(|resource| resource.type_id)
}
