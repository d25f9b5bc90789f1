//! Defaults of a definition, and the fields that the server sets on a write.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{object_meta, webhook_client};
use crate::validate::tree::{Tree, carry, child_mut, existing_mut, is_unchanged, set, set_default_text};

/// Fills in what a client left out.
pub(super) fn fill(new: &mut Value) {
    let spec = child_mut(new, "spec");
    let names = child_mut(spec, "names");
    let kind = names.text("kind").to_owned();
    if !kind.is_empty() {
        set_default_text(names, "singular", &kind.to_lowercase());
        set_default_text(names, "listKind", &format!("{kind}List"));
    }
    if !spec.has("conversion") {
        set(spec, "conversion", json!({"strategy": "None"}));
    }
    let conversion = existing_mut(spec, "conversion");
    if let Some(webhook) = conversion.and_then(|conversion| existing_mut(conversion, "webhook")) {
        webhook_client::default_port(webhook);
    }
    if new.at("status").items("storedVersions").is_empty() {
        store_storage_version(new);
    }
}

/// A new definition has no status but the version in which its objects will be stored.
pub(super) fn prepare_for_create(new: &mut Value) {
    set(new, "status", json!({}));
    store_storage_version(new);
    object_meta::start_generation(new);
}

/// An update keeps the status, to which a new storage version is added.
pub(super) fn prepare_for_update(old: &Value, new: &mut Value) {
    carry(old, new, "status");
    store_storage_version(new);
    if !is_unchanged(old.at("spec"), new.at("spec")) {
        object_meta::next_generation(old, new);
    }
}

/// Adds the storage version to the stored ones, where it is not among them.
fn store_storage_version(definition: &mut Value) {
    let versions = definition.at("spec").items("versions");
    // once: one version is looked for.
    let Some(storage) = versions.iter().find(|version| version.flag("storage")) else { return };
    let name = storage.at("name").clone();
    let status = child_mut(definition, "status");
    let mut stored = status.items("storedVersions").to_vec();
    // once: one version is looked for.
    if !stored.contains(&name) {
        stored.push(name);
        set(status, "storedVersions", stored);
    }
}
