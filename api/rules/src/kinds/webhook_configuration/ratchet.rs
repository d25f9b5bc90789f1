//! Rules that an update of a configuration need not keep, because the stored one breaks them.

use orch_schema::value::Value;

use super::HARMLESS;
use crate::kinds::webhook_client::review_versions;
use crate::validate::Distinct;
use crate::validate::tree::{Tree, is_unchanged};

/// The rules that hold for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Requirements {
    /// Names of webhooks differ.
    pub(super) unique_names: bool,
    /// Webhooks have no side effects in a dry run.
    pub(super) harmless: bool,
    /// Each webhook understands a version of the review that the server knows.
    pub(super) known_review_versions: bool,
    /// Match conditions are looked at: some of them are new.
    pub(super) conditions: bool,
}

impl Requirements {
    /// The rules for a new configuration.
    pub(super) const NEW: Requirements =
        Requirements { unique_names: true, harmless: true, known_review_versions: true, conditions: true };

    /// The rules for the change of `old` to `new`.
    pub(super) fn of_update(old: &Value, new: &Value) -> Requirements {
        let (before, after) = (old.items("webhooks"), new.items("webhooks"));
        let mut names = Distinct::new();
        let same_conditions = before.len() == after.len()
            && before
                .iter()
                .zip(after)
                .all(|(old, new)| is_unchanged(old.at("matchConditions"), new.at("matchConditions")));
        Requirements {
            unique_names: !before.iter().any(|webhook| names.is_repeated(webhook.text("name"))),
            // few: two values.
            harmless: before.iter().all(|webhook| HARMLESS.contains(&webhook.text("sideEffects"))),
            known_review_versions: before
                .iter()
                .all(|webhook| review_versions::has_known(webhook, "admissionReviewVersions")),
            conditions: !same_conditions,
        }
    }
}
