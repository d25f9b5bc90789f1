//! PriorityLevelConfiguration: how many seats requests of a level get, and what becomes of those that find none.

use orch_schema::json;
use orch_schema::value::Value;

use super::{CATCH_ALL, EXEMPT, prepare_update, validate_create, validate_update};
use crate::Action;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::tree::{Tree, existing_mut, is_unchanged, set, set_default, set_default_int, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Shares of a limited level that names none.
const SHARES_DEFAULT: i64 = 30;
const QUEUES_DEFAULT: i64 = 64;
const HAND_SIZE_DEFAULT: i64 = 8;
const QUEUE_LENGTH_DEFAULT: i64 = 50;
const QUEUES_MAX: i64 = 10_000_000;
/// Bits of a flow's hash that choose its queues.
const HASH_BITS: u32 = 60;
const TYPES: [&str; 2] = ["Exempt", "Limited"];
const RESPONSES: [&str; 2] = ["Queue", "Reject"];

/// The rules of priority levels.
#[derive(Debug)]
pub struct PriorityLevelConfiguration;

/// The fixed spec of a level that every cluster has; `None` for other names. Of the exempt level, `exempt` may change.
pub fn mandatory_priority_level(name: &str) -> Option<Value> {
    match name {
        EXEMPT => {
            let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
            Some(json!({"type": "Exempt", "exempt": exempt}))
        }
        CATCH_ALL => Some(json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0,
            },
        })),
        _ => None,
    }
}

impl Strategy for PriorityLevelConfiguration {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let Some(spec) = existing_mut(new, "spec") else { return };
        if let Some(exempt) = existing_mut(spec, "exempt") {
            set_default(exempt, "nominalConcurrencyShares", 0);
            set_default(exempt, "lendablePercent", 0);
        }
        let Some(limited) = existing_mut(spec, "limited") else { return };
        set_default(limited, "nominalConcurrencyShares", SHARES_DEFAULT);
        set_default(limited, "lendablePercent", 0);
        let response = existing_mut(limited, "limitResponse");
        if let Some(queuing) = response.and_then(|response| existing_mut(response, "queuing")) {
            set_default_int(queuing, "queues", QUEUES_DEFAULT);
            set_default_int(queuing, "handSize", HAND_SIZE_DEFAULT);
            set_default_int(queuing, "queueLengthLimit", QUEUE_LENGTH_DEFAULT);
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        prepare_update(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors: FieldErrors = refuse_annotation(context, new).into_iter().collect();
        errors.extend(validate_create(context, new, validate_spec));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        let refused = refuse_annotation(context, new).filter(|_| context.action != Action::Status);
        let mut errors: FieldErrors = refused.into_iter().collect();
        errors.extend(validate_update(context, new, validate_spec));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let (limited, queuing) = (spec.at("limited"), spec.at("limited").at("limitResponse").at("queuing"));
        let number = |of: &Value, field: &str| match of {
            Value::Null => json!("<none>"),
            of => json!(of.int(field).unwrap_or(0)),
        };
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("type")),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            json!(age::age(object, now)),
        ])
    }
}

/// Refuses the annotation in which an earlier version of the interface keeps shares of zero.
fn refuse_annotation(context: &Context<'_>, level: &Value) -> Option<FieldError> {
    let key = format!("{}/v1beta3-preserve-zero-concurrency-shares", context.brand.group("flowcontrol"));
    let path = Path::new("metadata").child("annotations");
    let is_given = level.at("metadata").at("annotations").has(&key);
    is_given.then(|| FieldError::forbidden(path, &format!("annotation '{key}' is forbidden")))
}

/// Rules for the spec of the level `name`, and its fixed value where it has one.
fn validate_spec(name: &str, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_fields(name, spec, path);
    errors.extend(validate_fixed(name, spec, path.clone()));
    errors
}

fn validate_fixed(name: &str, spec: &Value, path: Path) -> Option<FieldError> {
    let mut fixed = mandatory_priority_level(name)?;
    let mut exception = "";
    if name == EXEMPT {
        exception = " except the 'spec.exempt' field";
        set(&mut fixed, "exempt", spec.at("exempt").clone());
    }
    let detail = format!("spec of '{name}'{exception} must equal the fixed value");
    (!is_unchanged(spec, &fixed)).then(|| FieldError::invalid(path, &shown(spec), &detail))
}

fn validate_fields(name: &str, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (kind, limited, exempt) = (spec.text("type"), spec.at("limited"), spec.at("exempt"));
    if (name == EXEMPT) != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid_str(path.child("type"), kind, detail));
    }
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(path.child("limited"), detail));
            }
            errors.extend(validate_shares(exempt, &path.child("exempt")));
        }
        "Limited" => {
            if !exempt.is_null() {
                let detail = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden(path.child("exempt"), detail));
            }
            if limited.is_null() {
                let detail = "must not be empty when type is Limited";
                errors.push(FieldError::required(path.child("limited"), detail));
            } else {
                errors.extend(validate_limited(limited, &path.child("limited")));
            }
        }
        _ => errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES)),
    }
    errors
}

fn validate_limited(limited: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_shares(limited, path);
    errors.extend(validate_response(limited.at("limitResponse"), &path.child("limitResponse")));
    if let Some(percent) = limited.int("borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        let path = path.child("borrowingLimitPercent");
        errors.push(FieldError::invalid(path, &percent.to_string(), detail));
    }
    errors
}

/// Rules for shares and what may be lent of them.
fn validate_shares(level: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(shares) = level.int("nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let detail = "must be a non-negative integer";
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(path, &shares.to_string(), detail));
    }
    if let Some(percent) = level.int("lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let detail = "must be between 0 and 100, inclusive";
        errors.push(FieldError::invalid(path.child("lendablePercent"), &percent.to_string(), detail));
    }
    errors
}

fn validate_response(response: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (kind, queuing) = (response.text("type"), response.at("queuing"));
    match kind {
        "Reject" if queuing.is_null() => {}
        "Reject" => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(path.child("queuing"), detail));
        }
        "Queue" if queuing.is_null() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(path.child("queuing"), detail));
        }
        "Queue" => errors.extend(validate_queuing(queuing, &path.child("queuing"))),
        _ => errors.push(FieldError::not_supported(path.child("type"), kind, &RESPONSES)),
    }
    errors
}

fn validate_queuing(queuing: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let number = |field: &str| queuing.int(field).unwrap_or(0);
    let (queues, hand, length) = (number("queues"), number("handSize"), number("queueLengthLimit"));
    let mut wrong = |field: &str, value: i64, detail: &str| {
        errors.push(FieldError::invalid(path.child(field), &value.to_string(), detail));
    };
    if length <= 0 {
        wrong("queueLengthLimit", length, "must be positive");
    }
    if queues <= 0 {
        wrong("queues", queues, "must be positive");
    } else if queues > QUEUES_MAX {
        wrong("queues", queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        wrong("handSize", hand, "must be positive");
    } else if hand > queues {
        wrong("handSize", hand, &format!("should not be greater than queues ({queues})"));
    } else if needs_more_bits(queues, hand) {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        wrong("handSize", hand, &detail);
    }
    errors
}

/// Whether `hand` independent choices among `queues` take more than [`HASH_BITS`] bits.
fn needs_more_bits(queues: i64, hand: i64) -> bool {
    let (Ok(queues), Ok(hand)) = (u128::try_from(queues), u32::try_from(hand)) else { return true };
    queues.checked_pow(hand).is_none_or(|choices| choices > 1 << HASH_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_hostile, created};

    fn level(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    fn queuing(queuing: Value) -> Value {
        level(
            "a",
            json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}),
        )
    }

    #[test]
    fn the_mandatory_levels_are_valid_and_fixed_but_for_what_is_exempt() {
        for name in [EXEMPT, CATCH_ALL] {
            let fixed = mandatory_priority_level(name).unwrap();
            check_create(&PriorityLevelConfiguration, level(name, fixed), &[]);
        }
        let lent =
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 10, "lendablePercent": 50}});
        check_create(&PriorityLevelConfiguration, level(EXEMPT, lent), &[]);
        let mut noted = level(EXEMPT, mandatory_priority_level(EXEMPT).unwrap());
        noted["metadata"]["annotations"] =
            json!({"flowcontrol.orch.io/v1beta3-preserve-zero-concurrency-shares": ""});
        let refused = "metadata.annotations: Forbidden: annotation \
                       'flowcontrol.orch.io/v1beta3-preserve-zero-concurrency-shares' is forbidden";
        check_create(&PriorityLevelConfiguration, noted, &[refused]);
        let other = created(
            &PriorityLevelConfiguration,
            level(CATCH_ALL, json!({"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}})),
        );
        let shown = shown(&other["spec"]);
        let expected =
            format!("spec: Invalid value: {shown}: spec of 'catch-all' must equal the fixed value");
        check_create(&PriorityLevelConfiguration, other, &[&expected]);
    }

    #[test]
    fn queues_and_hands_have_defaults_and_fit_the_hash() {
        let made = created(&PriorityLevelConfiguration, queuing(json!({})));
        let limited = &made["spec"]["limited"];
        assert_eq!(limited["nominalConcurrencyShares"], 30);
        let expected = json!({"queues": 64, "handSize": 8, "queueLengthLimit": 50});
        assert_eq!(limited["limitResponse"]["queuing"], expected);
        for (given, expected) in [
            (json!({"queues": 1024, "handSize": 6}), &[][..]),
            (
                json!({"queues": 1025, "handSize": 6}),
                &[
                    "spec.limited.limitResponse.queuing.handSize: Invalid value: 6: required entropy bits of deckSize 1025 \
                 and handSize 6 should not be greater than 60",
                ],
            ),
            (
                json!({"queues": 10_000_001, "handSize": 1}),
                &[
                    "spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000",
                ],
            ),
            (
                json!({"queues": -1, "handSize": -1}),
                &[
                    "spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive",
                    "spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive",
                ],
            ),
        ] {
            check_create(&PriorityLevelConfiguration, queuing(given), expected);
        }
        check_hostile(&PriorityLevelConfiguration);
    }
}
