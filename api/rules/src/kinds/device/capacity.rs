//! Capacities of devices, and which parts of one a request may ask for.

use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use super::validate_set;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Most amounts of a policy that lists them.
const OPTIONS_MAX: usize = 10;

/// Rules for a capacity. Only devices that are allocated to several claims have a policy.
pub(super) fn validate_capacity(capacity: &Value, is_shared: bool, path: &Path) -> FieldErrors {
    let (policy, path) = (capacity.at("requestPolicy"), path.child("requestPolicy"));
    if policy.is_null() {
        return FieldErrors::new();
    }
    if !is_shared {
        return FieldError::forbidden(path, "allowMultipleAllocations must be true").into();
    }
    let whole = capacity.text("value");
    let has_options = !policy.items("validValues").is_empty();
    if has_options && policy.has("validRange") {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                      same time";
        return FieldError::forbidden(path, detail).into();
    }
    let field = match (has_options, policy.has("validRange")) {
        (true, _) => "validValues",
        (false, true) => "validRange",
        (false, false) => return FieldErrors::new(),
    };
    if !policy.has("default") {
        let detail = format!("required when {field} is defined");
        return FieldError::required(path.child("default"), &detail).into();
    }
    let (default, path) = (policy.text("default"), path.child(field));
    if has_options {
        validate_options(default, whole, policy.items("validValues"), &path)
    } else {
        validate_range(default, whole, policy.at("validRange"), &path)
    }
}

fn amount(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_default()
}

fn validate_options(default: &str, whole: &str, options: &[Value], path: &Path) -> FieldErrors {
    let text = |option: &Value| option.as_str().unwrap_or_default().to_owned();
    let mut errors = FieldErrors::new();
    for (at, pair) in options.windows(2).enumerate().take(OPTIONS_MAX) {
        let (before, after) = (text(&pair[0]), text(&pair[1]));
        if amount(&before) > amount(&after) {
            let detail = "values must be sorted in ascending order";
            errors.push(FieldError::invalid_str(path.index(at + 1), &after, detail));
        }
    }
    errors.extend(validate_set(
        options,
        OPTIONS_MAX,
        path,
        |option, path| {
            let option = text(option);
            let detail = format!("option is larger than capacity value: {whole}");
            let is_large = amount(&option) > amount(whole);
            is_large.then(|| FieldError::invalid_str(path.clone(), &option, &detail)).into_iter().collect()
        },
        |option| amount(option.as_str().unwrap_or_default()).units(),
        |option| {
            let units = amount(option.as_str().unwrap_or_default()).units().unwrap_or(i64::MAX);
            format!("\"{units}\"")
        },
    ));
    // few: at most ten options, or the list was refused above.
    if !options.iter().take(OPTIONS_MAX).any(|option| amount(&text(option)) == amount(default)) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(FieldError::invalid_str(path.clone(), default, detail));
    }
    errors
}

fn validate_range(default: &str, whole: &str, range: &Value, path: &Path) -> FieldErrors {
    let Some(low) = range.at("min").as_str() else {
        return FieldError::required(path.child("min"), "required when validRange is defined").into();
    };
    let mut errors = FieldErrors::new();
    let mut refuse = |is_refused: bool, field: &str, value: &str, detail: String| {
        if is_refused {
            errors.push(FieldError::invalid_str(path.child(field), value, &detail));
        }
    };
    let over = |name: &str| format!("{name} is larger than capacity value: {whole}");
    refuse(amount(low) > amount(whole), "min", low, over("min"));
    refuse(amount(default) < amount(low), "default", default, format!("default is less than min: {low}"));
    let high = range.at("max").as_str();
    if let Some(high) = high {
        refuse(amount(low) > amount(high), "max", low, format!("min is larger than max: {high}"));
        refuse(amount(high) > amount(whole), "max", high, over("max"));
        refuse(
            amount(default) > amount(high),
            "default",
            default,
            format!("default is more than max: {high}"),
        );
    }
    if let Some(step) = range.at("step").as_str() {
        let is_positive = amount(step) > Quantity::ZERO;
        refuse(!is_positive, "step", step, "must be greater than zero".to_owned());
        if is_positive {
            let first = amount(low).plus(amount(step));
            let detail = format!("one step {first} is larger than capacity value: {whole}");
            refuse(first > amount(whole), "step", step, detail);
            for value in [Some(default), high].into_iter().flatten() {
                let detail = format!("value is not a multiple of a given step ({step}) from ({low})");
                refuse(!is_reached(value, low, step), "step", value, detail);
            }
        }
    }
    errors
}

/// Whether whole steps lead from `low` to `value`.
fn is_reached(value: &str, low: &str, step: &str) -> bool {
    let units = |text: &str| amount(text).units().unwrap_or(i64::MAX);
    let distance = units(value).saturating_sub(units(low));
    distance.checked_rem(units(step)).unwrap_or(0) == 0
}
