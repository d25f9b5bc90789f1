//! Rules that an update need not keep, because the stored definition breaks them.
//!
//! Owns which rules these are and when an old definition breaks one. Such a definition was stored by an earlier version or came
//! with an import; a change of its labels must not be refused for it.

use orch_proto::Brand;
use orch_schema::value::Value;

use super::conversion;
use super::schema::{self, Extensions};
use crate::kinds::definition::conditions::ConditionType;
use crate::validate::tree::Tree;

/// The rules that hold for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requirements {
    /// Every version has a schema.
    pub(super) schemas: bool,
    /// Types are those of the schema language.
    pub(super) known_types: bool,
    /// Schemas are structural, even where neither pruning nor a default or an extension demands it.
    pub(super) structural: bool,
    /// Defaults have no unknown fields.
    pub(super) pruned_defaults: bool,
    /// Items of sets are atomic.
    pub(super) atomic_set_items: bool,
    /// Keys of lists of type map are required or have a default, and items are not nullable.
    pub(super) complete_map_keys: bool,
    /// The review versions have one that the server knows.
    pub(super) known_review_version: bool,
    /// The certificates of the webhook can be read.
    pub(super) readable_ca_bundle: bool,
    /// Scope and kind stay.
    pub(super) immutable_names: bool,
}

impl Requirements {
    /// The rules for a new definition.
    pub(super) const NEW: Requirements = Requirements {
        schemas: true,
        known_types: true,
        structural: true,
        pruned_defaults: true,
        atomic_set_items: true,
        complete_map_keys: true,
        known_review_version: true,
        // Only an established definition is refused for its certificates: another one waits for them.
        readable_ca_bundle: false,
        immutable_names: false,
    };

    /// The rules for a change of `old`, as long as nothing is known of the rules that `old` breaks.
    pub(super) fn strict(old: &Value) -> Requirements {
        let established = ConditionType::Established.is_true(old);
        Requirements { readable_ca_bundle: established, immutable_names: established, ..Requirements::NEW }
    }

    /// The rules for a change of `old`: those that it does not break.
    pub(super) fn ratcheted(brand: &'static Brand, old: &Value) -> Requirements {
        let spec = old.at("spec");
        let extensions = Extensions::of(brand);
        let versions = spec.items("versions");
        let mut held = schema::Breaches::default();
        let mut schemas = true;
        for version in versions {
            match version.at("schema").at("openAPIV3Schema") {
                Value::Null => schemas = false,
                schema => held.add(&schema::Breaches::of(schema, &extensions)),
            }
        }
        let strict = Requirements::strict(old);
        let conversion = spec.at("conversion");
        Requirements {
            schemas,
            known_types: !held.unknown_types,
            structural: !held.not_structural,
            pruned_defaults: !held.unpruned_defaults,
            atomic_set_items: !held.set_items,
            complete_map_keys: !held.map_keys,
            known_review_version: conversion::has_known_review_version_or_none(conversion),
            readable_ca_bundle: strict.readable_ca_bundle
                && conversion::has_readable_ca_bundle_or_none(conversion),
            ..strict
        }
    }
}
