//! Selectors of devices: expressions over a device's driver, attributes and capacities, which the scheduler evaluates.

use orch_schema::value::Value;

use super::{Stored, validate_list};
use crate::expression::{
    DEVICE_SELECTOR_BYTES_MAX, DEVICE_SELECTOR_STEPS_MAX, DeviceSelector, Functions, Scope, Shape,
    check_device_selector,
};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Most selectors of a request or class.
const SELECTORS_MAX: usize = 32;

const DEVICE: Shape = Shape::Object(&[
    ("driver", Shape::Text),
    ("attributes", Shape::Map),
    ("capacity", Shape::Map),
    ("allowMultipleAllocations", Shape::Bool),
]);
const SCOPE: &Scope = &[("device", DEVICE)];

/// Functions over quantities, versions, addresses, times and texts beside those of the language.
const FUNCTIONS: &Functions = &[
    ("add", Shape::Any),
    ("asApproximateFloat", Shape::Number),
    ("asInteger", Shape::Number),
    ("cidr", Shape::Any),
    ("compareTo", Shape::Number),
    ("containsCIDR", Shape::Bool),
    ("containsIP", Shape::Bool),
    ("decode", Shape::Any),
    ("duration", Shape::Any),
    ("encode", Shape::Text),
    ("equivalent", Shape::Bool),
    ("family", Shape::Number),
    ("find", Shape::Text),
    ("findAll", Shape::List),
    ("format", Shape::Text),
    ("getDate", Shape::Number),
    ("getDayOfMonth", Shape::Number),
    ("getDayOfWeek", Shape::Number),
    ("getDayOfYear", Shape::Number),
    ("getEscapedPath", Shape::Text),
    ("getFullYear", Shape::Number),
    ("getHost", Shape::Text),
    ("getHostname", Shape::Text),
    ("getHours", Shape::Number),
    ("getMilliseconds", Shape::Number),
    ("getMinutes", Shape::Number),
    ("getMonth", Shape::Number),
    ("getPort", Shape::Text),
    ("getQuery", Shape::Map),
    ("getScheme", Shape::Text),
    ("getSeconds", Shape::Number),
    ("includes", Shape::Bool),
    ("intersects", Shape::Bool),
    ("ip", Shape::Any),
    ("isCIDR", Shape::Bool),
    ("isCanonical", Shape::Bool),
    ("isGlobalUnicast", Shape::Bool),
    ("isGreaterThan", Shape::Bool),
    ("isIP", Shape::Bool),
    ("isInteger", Shape::Bool),
    ("isLessThan", Shape::Bool),
    ("isLinkLocalMulticast", Shape::Bool),
    ("isLinkLocalUnicast", Shape::Bool),
    ("isLoopback", Shape::Bool),
    ("isQuantity", Shape::Bool),
    ("isSemver", Shape::Bool),
    ("isSorted", Shape::Bool),
    ("isURL", Shape::Bool),
    ("isUnspecified", Shape::Bool),
    ("major", Shape::Number),
    ("masked", Shape::Any),
    ("max", Shape::Any),
    ("min", Shape::Any),
    ("minor", Shape::Number),
    ("named", Shape::Any),
    ("patch", Shape::Number),
    ("prefixLength", Shape::Number),
    ("quantity", Shape::Any),
    ("semver", Shape::Any),
    ("sub", Shape::Any),
    ("sum", Shape::Any),
    ("timestamp", Shape::Any),
    ("url", Shape::Any),
    ("validate", Shape::Any),
];

/// Rules for the selectors of a request or class.
pub(super) fn validate_selectors(selectors: &[Value], stored: Stored, path: &Path) -> FieldErrors {
    validate_list(selectors, SELECTORS_MAX, path, |selector, path| {
        let path = path.child("cel");
        if selector.at("cel").is_null() {
            return FieldError::required(path, "").into();
        }
        // A stored selector was valid when it was written.
        if stored == Stored::Yes {
            return FieldErrors::new();
        }
        let source = selector.at("cel").text("expression");
        validate_expression(source, path.child("expression")).into_iter().collect()
    })
}

fn validate_expression(source: &str, path: Path) -> Option<FieldError> {
    if source.len() > DEVICE_SELECTOR_BYTES_MAX {
        return Some(FieldError::too_long(path, DEVICE_SELECTOR_BYTES_MAX));
    }
    let refused = match check_device_selector(source, SCOPE, FUNCTIONS) {
        Ok(DeviceSelector { shape: Shape::Bool | Shape::Any, steps }) => {
            let is_too_complex = steps > DEVICE_SELECTOR_STEPS_MAX;
            return is_too_complex.then(|| FieldError::forbidden(path, "too complex, exceeds cost limit"));
        }
        Ok(DeviceSelector { shape: other, .. }) => {
            format!("must evaluate to bool or the unknown type, not {}", other.name())
        }
        Err(error) => error.to_string(),
    };
    Some(FieldError::invalid_str(path, source, &refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_conditions_over_devices() {
        for (source, expected) in [
            ("device.driver == \"gpu.example.com\"", None),
            ("device.attributes['d.io'].model == 'x'", None),
            ("device.attributes['d.io'].isShared", None),
            ("device.capacity['d.io'].memory.compareTo(quantity('10Gi')) >= 0", None),
            ("device.attributes['d.io'].version.isGreaterThan(semver('1.0.0'))", None),
            ("cel.bind(d, device.attributes['d.io'], d.a && d.b == 'x')", None),
            ("device.driver", Some("must evaluate to bool or the unknown type, not string")),
            ("", Some("compilation failed: ")),
            ("device.vendor == 'x'", Some("undefined field 'vendor'")),
            ("claim.x", Some("undeclared reference to 'claim'")),
        ] {
            let told = validate_expression(source, Path::new("e")).map(|error| error.message);
            match (told, expected) {
                (None, None) => {}
                (Some(told), Some(expected)) => assert!(told.contains(expected), "{source}: {told}"),
                (told, expected) => panic!("{source}: {told:?}, expected {expected:?}"),
            }
        }
        let long = "x".repeat(DEVICE_SELECTOR_BYTES_MAX + 1);
        let told = validate_expression(&long, Path::new("e")).unwrap();
        assert_eq!(told.message, "Too long: may not be more than 10240 bytes");
    }
    #[test]
    fn selectors_that_cost_too_much_are_forbidden() {
        let hundred = format!("[{}]", vec!["1"; 100].join(","));
        let text = "x".repeat(200);
        let grown = format!("'x'{}", format!(".replace('x','{text}')").repeat(4));
        for source in [
            format!("{hundred}.all(a, {hundred}.all(b, {hundred}.all(c, a + b + c > 0)))"),
            format!("{grown}.size() > 0"),
            format!("{hundred}.all(a, {hundred}.all(b, device.driver.matches('a' + device.driver)))"),
        ] {
            let told = validate_expression(&source, Path::new("e")).map(|error| error.to_string());
            assert_eq!(told.as_deref(), Some("e: Forbidden: too complex, exceeds cost limit"), "{source}");
        }
    }
}
