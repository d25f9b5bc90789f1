//! Compiling one version of a definition.
//!
//! Owns which parts of a definition its tables depend on. A schema that cannot be compiled, which no accepted definition has, is
//! served without rules rather than not at all: objects are stored, and their owners must reach them.

use std::sync::Arc;

use orch_proto::Brand;
use orch_rules::kinds::defined::schema::{Compiled, Input, compile, preserving};
use orch_rules::validate::tree::Tree;
use orch_schema::Schema;
use orch_schema::value::Value;

/// Compiles `version`, an item of the `spec.versions` of `definition`, over the types of `base`.
pub(super) fn compiled(
    definition: &Value,
    version: &Value,
    base: &Arc<Schema>,
    brand: &'static Brand,
) -> Compiled {
    let (spec, accepted) = (definition.at("spec"), definition.at("status").at("acceptedNames"));
    let kind = accepted.text("kind");
    let input = Input {
        brand,
        group: spec.text("group"),
        version: version.text("name"),
        kind: if kind.is_empty() { spec.at("names").text("kind") } else { kind },
        schema: version.at("schema").at("openAPIV3Schema"),
        preserve_unknown_fields: spec.flag("preserveUnknownFields"),
    };
    if !version.is_object() {
        return preserving(&input, base);
    }
    compile(&input, base).unwrap_or_else(|error| {
        let (group, version) = (input.group, input.version);
        tracing::error!(%error, group, version, "a stored schema cannot be compiled: its objects are not checked");
        preserving(&input, base)
    })
}
