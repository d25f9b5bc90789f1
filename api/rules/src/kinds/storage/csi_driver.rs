//! storage/v1 CSIDriver: how a driver wants to be called, and for which audiences it takes tokens of pods.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::immutable;
use crate::validate::tree::{Tree, child_mut, set, set_default};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

const GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const MODES: [&str; 2] = ["Persistent", "Ephemeral"];

/// Whether tokens of service accounts reach the driver as secrets.
const IN_SECRETS: &str = "serviceAccountTokenInSecrets";
/// Shortest life of a token, in seconds.
const EXPIRATION_S_MIN: i64 = 600;
/// Longest life of a token, in seconds.
const EXPIRATION_S_MAX: i64 = 1 << 32;
/// Shortest time between two updates of a node's limit, in seconds.
const UPDATE_PERIOD_S_MIN: i64 = 10;

/// The rules of CSI drivers.
#[derive(Debug)]
pub struct CsiDriver;

impl Strategy for CsiDriver {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        for (field, value) in [
            ("attachRequired", true),
            ("podInfoOnMount", false),
            ("storageCapacity", false),
            ("requiresRepublish", false),
            ("seLinuxMount", false),
        ] {
            set_default(spec, field, value);
        }
        set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.is_empty_at("volumeLifecycleModes") {
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        let (before, after, path) = (old.at("spec"), new.at("spec"), Path::new("spec"));
        errors.extend(validate_spec(after, &path));
        for (field, shown) in
            [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            errors.extend(immutable(after.at(field), before.at(field), path.child(shown)));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        let spec = new.at("spec");
        let exposes = !spec.items("tokenRequests").is_empty() && !spec.flag(IN_SECRETS);
        let text = "spec.tokenRequests: tokens of service accounts are passed in the volume context, which drivers may \
                    log; set spec.serviceAccountTokenInSecrets to true to pass them as secrets";
        (exposes && context.action == Action::Object).then(|| text.to_owned()).into_iter().collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let requests = spec.items("tokenRequests");
        let audiences: Vec<&str> = requests.iter().map(|request| request.text("audience")).collect();
        let modes = spec.texts("volumeLifecycleModes").join(",");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.at("attachRequired").as_bool().unwrap_or(true)),
            json!(spec.flag("podInfoOnMount")),
            json!(spec.flag("storageCapacity")),
            if requests.is_empty() { json!("<unset>") } else { json!(audiences.join(",")) },
            json!(spec.flag("requiresRepublish")),
            if modes.is_empty() { json!("<none>") } else { json!(modes) },
            json!(age::age(object, now)),
        ])
    }
}

fn validate_spec(spec: &Value, path: &Path) -> FieldErrors {
    // The reference calls the field `attachRequired` so in its errors.
    let required = [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ];
    let missing = required.into_iter().filter(|(field, _)| !spec.has(field));
    let mut errors: FieldErrors =
        missing.map(|(_, shown)| FieldError::required(path.child(shown), "")).collect();
    let policy = spec.at("fsGroupPolicy").as_str();
    // few: three policies.
    if let Some(policy) = policy.filter(|policy| !GROUP_POLICIES.contains(policy)) {
        errors.push(FieldError::not_supported(path.child("fsGroupPolicy"), policy, &GROUP_POLICIES));
    }
    errors.extend(validate_token_requests(spec.items("tokenRequests"), &path.child("tokenRequests")));
    let modes = path.child("volumeLifecycleModes");
    for mode in spec.texts("volumeLifecycleModes") {
        // few: two modes.
        if !MODES.contains(&mode) {
            errors.push(FieldError::not_supported(modes.clone(), mode, &MODES));
        }
    }
    if !spec.has("seLinuxMount") {
        errors.push(FieldError::required(path.child("seLinuxMount"), ""));
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = spec.int(period).filter(|&seconds| seconds < UPDATE_PERIOD_S_MIN) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(FieldError::invalid(path.child(period), &seconds.to_string(), detail));
    }
    if let Some(in_secrets) = spec.at(IN_SECRETS).as_bool().filter(|_| spec.items("tokenRequests").is_empty())
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(path.child(IN_SECRETS), &in_secrets.to_string(), detail));
    }
    errors
}

fn validate_token_requests(requests: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, request) in requests.iter().numbered() {
        let (path, audience) = (path.index(at), request.text("audience"));
        if seen.is_repeated(audience) {
            errors.push(FieldError::duplicate(path.child("audience"), &quoted(audience)));
            continue;
        }
        let Some(seconds) = request.int("expirationSeconds") else { continue };
        let detail = if seconds < EXPIRATION_S_MIN {
            "may not specify a duration less than 10 minutes"
        } else if seconds > EXPIRATION_S_MAX {
            "may not specify a duration larger than 2^32 seconds"
        } else {
            continue;
        };
        errors.push(FieldError::invalid(path.child("expirationSeconds"), &seconds.to_string(), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn a_new_driver_has_all_its_answers() {
        let driver = created(&CsiDriver, json!({"spec": {}}));
        let expected = json!({
            "attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "requiresRepublish": false,
            "seLinuxMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
        });
        assert_eq!(driver["spec"], expected);
        assert_eq!(
            json!(CsiDriver.table_row(&driver, CONTEXT.now)),
            json!(["n", true, false, false, "<unset>", false, "Persistent", "<unknown>"])
        );
        check_hostile(&CsiDriver);
    }

    #[test]
    fn audiences_are_distinct_and_lives_bounded() {
        check_create(
            &CsiDriver,
            json!({"spec": {
                "fsGroupPolicy": "Some", "volumeLifecycleModes": ["Other"], "nodeAllocatableUpdatePeriodSeconds": 9,
                "tokenRequests": [
                    {"audience": "a", "expirationSeconds": 600}, {"audience": "a", "expirationSeconds": 1},
                    {"audience": "b", "expirationSeconds": 599}, {"audience": "c", "expirationSeconds": 4_294_967_297_i64},
                ],
            }}),
            &[
                "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \
                 \"ReadWriteOnceWithFSType\"",
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                "spec.tokenRequests[2].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[3].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than \
                 2^32 seconds",
                "spec.volumeLifecycleModes: Unsupported value: \"Other\": supported values: \"Persistent\", \"Ephemeral\"",
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            ],
        );
    }

    #[test]
    fn tokens_in_secrets_need_tokens_and_others_are_warned_of() {
        for value in [true, false] {
            check_create(
                &CsiDriver,
                json!({"spec": {"serviceAccountTokenInSecrets": value}}),
                &[&format!(
                    "spec.serviceAccountTokenInSecrets: Invalid value: {value}: serviceAccountTokenInSecrets is set but no \
                     tokenRequests are specified"
                )],
            );
        }
        for (in_secrets, warnings) in [(json!(null), 1), (json!(false), 1), (json!(true), 0)] {
            let spec =
                json!({"serviceAccountTokenInSecrets": in_secrets, "tokenRequests": [{"audience": "a"}]});
            let driver = json!({"spec": spec});
            check_create(&CsiDriver, driver.clone(), &[]);
            assert_eq!(CsiDriver.warnings(&CONTEXT, None, &driver).len(), warnings, "{driver}");
        }
        assert!(CsiDriver.warnings(&CONTEXT, None, &json!({"spec": {}})).is_empty());
    }

    #[test]
    fn attachment_and_modes_stay() {
        check_update(
            &CsiDriver,
            json!({"spec": {}}),
            json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": true}}),
            &[
                "spec.attachedRequired: Invalid value: false: field is immutable",
                "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
            ],
        );
    }
}
