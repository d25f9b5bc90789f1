//! core/v1 Secret: types with the keys they need, size, immutability, and `stringData`, which is write-only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use crate::kinds::config_map::{decoded_length, validate_immutable};
use crate::kinds::key_pair::fault_of_pair;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::tree::{Tree, child_mut, set, set_default_text, unset};
use crate::validate::{FieldError, FieldErrors, Path, metadata, names};

/// Bytes of all values together.
const SIZE_MAX: usize = 1024 * 1024;
const OPAQUE: &str = "Opaque";

/// The rules of secrets.
#[derive(Debug)]
pub struct Secret;

impl Strategy for Secret {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        set_default_text(new, "type", OPAQUE);
        fold_string_data(new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_content(context.brand, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(metadata::immutable(new.at("type"), old.at("type"), Path::new("type")));
        errors.extend(validate_immutable(old, new, &["data"]));
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors.extend(validate_content(context.brand, new));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        if new.text("type") != context.brand.label("tls") {
            return Vec::new();
        }
        fault_of_pair(new.at("data")).into_iter().collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.text("type")),
            json!(object.entries("data").len()),
            json!(age::age(object, now)),
        ])
    }
}

// `stringData` is a way to write `data` without encoding it; it wins over `data` and is never stored.
fn fold_string_data(secret: &mut Value) {
    let given: Vec<(String, String)> = secret
        .entries("stringData")
        .into_iter()
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value.as_str().unwrap_or_default())))
        .collect();
    unset(secret, "stringData");
    if given.is_empty() {
        return;
    }
    let data = child_mut(secret, "data");
    for (key, value) in given {
        set(data, &key, value);
    }
}

fn validate_content(brand: &Brand, secret: &Value) -> FieldErrors {
    let data = Path::new("data");
    let mut errors = FieldErrors::new();
    let mut size = 0;
    for (key, value) in secret.entries("data").into_iter().take_while(|_| count_step()) {
        errors.extend(metadata::invalid_each(&data.key(key), key, names::config_key(key)));
        size += decoded_length(value);
    }
    if size > SIZE_MAX {
        errors.push(FieldError::too_long(data, SIZE_MAX));
    }
    errors.extend(validate_type(brand, secret));
    errors
}

fn validate_type(brand: &Brand, secret: &Value) -> FieldErrors {
    let data = Path::new("data");
    let name = secret.text("type");
    let Some(kind) = name.strip_prefix(brand.label_domain).and_then(|rest| rest.strip_prefix('/')) else {
        return FieldErrors::new();
    };
    match kind {
        "service-account-token" => validate_token(brand, secret).into_iter().collect(),
        "dockercfg" => validate_document(secret, ".dockercfg").into_iter().collect(),
        "dockerconfigjson" => validate_document(secret, ".dockerconfigjson").into_iter().collect(),
        "basic-auth" => {
            // few: two keys.
            let named = ["username", "password"].iter().any(|key| secret.at("data").get(*key).is_some());
            if named {
                return FieldErrors::new();
            }
            ["username", "password"].iter().map(|key| FieldError::required(data.key(key), "")).collect()
        }
        "ssh-auth" if secret.at("data").is_empty_at("ssh-privatekey") => {
            FieldErrors::from(FieldError::required(data.key("ssh-privatekey"), ""))
        }
        "tls" => {
            let absent = |key: &&&str| secret.at("data").get(**key).is_none();
            let missing = ["tls.crt", "tls.key"];
            missing.iter().filter(absent).map(|key| FieldError::required(data.key(key), "")).collect()
        }
        _ => FieldErrors::new(),
    }
}

fn validate_token(brand: &Brand, secret: &Value) -> Option<FieldError> {
    let annotation = brand.label("service-account.name");
    let named = !secret.at("metadata").at("annotations").text(&annotation).is_empty();
    let path = Path::new("metadata").child("annotations").key(&annotation);
    (!named).then(|| FieldError::required(path, ""))
}

fn validate_document(secret: &Value, key: &str) -> Option<FieldError> {
    let path = Path::new("data").key(key);
    let Some(encoded) = secret.at("data").at(key).as_str() else {
        return Some(FieldError::required(path, ""));
    };
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    match serde_json::from_slice::<Map>(&decoded) {
        Ok(_) => None,
        Err(error) => Some(FieldError::invalid_str(path, "<secret contents redacted>", &error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_update, defaulted};

    #[test]
    fn string_data_is_folded_into_data() {
        let secret = defaulted(&Secret, json!({"stringData": {"a": "1", "b": "2"}, "data": {"a": "AA=="}}));
        assert_eq!(secret["type"], "Opaque");
        assert_eq!(secret["data"], json!({"a": "MQ==", "b": "Mg=="}));
        assert!(secret.get("stringData").is_none());
    }

    #[test]
    fn types_need_their_keys() {
        for (secret, expected) in [
            (json!({"type": "Opaque"}), &[][..]),
            (json!({"type": "example.com/own"}), &[]),
            (
                json!({"type": "orch.io/tls"}),
                &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            ),
            (json!({"type": "orch.io/tls", "data": {"tls.crt": "", "tls.key": ""}}), &[]),
            (
                json!({"type": "orch.io/basic-auth"}),
                &["data[username]: Required value", "data[password]: Required value"],
            ),
            (json!({"type": "orch.io/basic-auth", "data": {"password": ""}}), &[]),
            (json!({"type": "orch.io/ssh-auth"}), &["data[ssh-privatekey]: Required value"]),
            (json!({"type": "orch.io/dockercfg"}), &["data[.dockercfg]: Required value"]),
            (json!({"type": "orch.io/dockercfg", "data": {".dockercfg": "e30="}}), &[]),
            (
                json!({"type": "orch.io/service-account-token"}),
                &["metadata.annotations[orch.io/service-account.name]: Required value"],
            ),
            (
                json!({"data": {"k": "A".repeat(SIZE_MAX * 4 / 3 + 8)}}),
                &["data: Too long: may not be more than 1048576 bytes"],
            ),
        ] {
            check_create(&Secret, secret, expected);
        }
    }

    #[test]
    fn the_type_is_immutable() {
        check_update(
            &Secret,
            json!({"type": "Opaque"}),
            json!({"type": "other"}),
            &["type: Invalid value: \"other\": field is immutable"],
        );
        check_update(
            &Secret,
            json!({"type": "a", "immutable": true, "data": {"a": "AA=="}}),
            json!({"type": "a", "immutable": true}),
            &["data: Forbidden: field is immutable when `immutable` is set"],
        );
    }
}
