//! Versions in which objects are stored: they stay in the specification until no object is stored in them.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, shown_items};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Rules for `status.storedVersions`.
pub(super) fn validate(definition: &Value) -> FieldErrors {
    let path = Path::new("status").child("storedVersions");
    let (stored, versions) =
        (definition.at("status").items("storedVersions"), definition.at("spec").items("versions"));
    let mut errors = FieldErrors::new();
    if stored.is_empty() {
        errors.push(FieldError::invalid(path.clone(), "null", "must have at least one stored version"));
    }
    let known: Distinct<&str> = stored.iter().filter_map(Value::as_str).collect();
    for (_, version) in versions.iter().numbered() {
        let name = version.text("name");
        if version.flag("storage") && !known.has(&name) {
            let value = if stored.is_empty() { "null".to_owned() } else { shown_items(stored) };
            let detail = format!("must have the storage version {}", part(name));
            errors.push(FieldError::invalid(path.clone(), &value, &detail));
        }
    }
    let offered: Distinct<&str> = versions.iter().map(|version| version.text("name")).collect();
    // A version that is stored twice is reported at its last place.
    let last: HashMap<&str, usize> =
        stored.iter().enumerate().filter_map(|(at, name)| Some((name.as_str()?, at))).collect();
    for (at, name) in stored.iter().numbered() {
        let name = name.as_str().unwrap_or_default();
        if offered.has(&name) || last.get(name) != Some(&at) {
            continue;
        }
        let shown = part(name);
        let detail = format!(
            "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until \
             a storage migration ensures no data remains persisted in {shown} and removes {shown} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid_str(path.index(at), name, &detail));
    }
    errors
}
