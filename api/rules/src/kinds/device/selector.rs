//! Selectors of devices: expressions over a device's driver, attributes and capacities, which the scheduler evaluates.

use std::cell::Cell;

use orch_schema::value::Value;

use super::{Stored, validate_list};
use crate::expression::{
    Allowance, DEVICE_SELECTOR_BYTES_MAX, DEVICE_SELECTOR_STEPS_MAX, DeviceSelector, Exhausted,
    OBJECT_COMPILE_STEPS_MAX, Type, check_device_selector,
};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path};

/// Most selectors of a request or class.
const SELECTORS_MAX: usize = 32;

/// The most that the reference estimates for one evaluation.
const DEVICE_SELECTOR_COST_MAX: u64 = 1_000_000;

/// Told of an expression that takes too long to evaluate, or to compile, alone or with those of its object before it.
const TOO_COMPLEX: &str = "too complex, exceeds cost limit";

/// Steps that compiling the selectors of one object may still take.
pub(super) struct ObjectAllowance(Cell<Allowance>);

impl Default for ObjectAllowance {
    fn default() -> Self {
        ObjectAllowance(Cell::new(Allowance::of(OBJECT_COMPILE_STEPS_MAX)))
    }
}

impl ObjectAllowance {
    /// Checks a selector, and takes what that costs. `None` stands for an expression that does not compile within it.
    fn check(&self, source: &str) -> Option<Result<DeviceSelector, String>> {
        let mut allowance = self.0.get();
        let checked = check_device_selector(source, &mut allowance);
        self.0.set(allowance);
        match checked {
            Ok(checked) => Some(checked.map_err(|error| error.to_string())),
            Err(Exhausted) => None,
        }
    }
}

/// Rules for the selectors of a request or class, compiled within `allowance`.
pub(super) fn validate_selectors(
    selectors: &[Value],
    stored: Stored,
    allowance: &ObjectAllowance,
    path: &Path,
) -> FieldErrors {
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
        validate_expression(source, allowance, path.child("expression")).into_iter().collect()
    })
}

fn validate_expression(source: &str, allowance: &ObjectAllowance, path: Path) -> Option<FieldError> {
    if source.len() > DEVICE_SELECTOR_BYTES_MAX {
        return Some(FieldError::too_long(path, DEVICE_SELECTOR_BYTES_MAX));
    }
    let Some(checked) = allowance.check(source) else {
        return Some(FieldError::forbidden(path, TOO_COMPLEX));
    };
    let refused = match checked {
        Ok(DeviceSelector { result: Type::Bool | Type::Any | Type::Dyn, steps, cost }) => {
            let is_too_complex = steps > DEVICE_SELECTOR_STEPS_MAX || cost > DEVICE_SELECTOR_COST_MAX;
            return is_too_complex.then(|| FieldError::forbidden(path, TOO_COMPLEX));
        }
        Ok(DeviceSelector { result, .. }) => {
            format!("must evaluate to bool or the unknown type, not {result}")
        }
        Err(error) => error,
    };
    Some(FieldError::invalid_str(path, source, &refused))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

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
            let told = validate_expression(source, &ObjectAllowance::default(), Path::new("e"))
                .map(|error| error.message);
            match (told, expected) {
                (None, None) => {}
                (Some(told), Some(expected)) => assert!(told.contains(expected), "{source}: {told}"),
                (told, expected) => panic!("{source}: {told:?}, expected {expected:?}"),
            }
        }
        let long = "x".repeat(DEVICE_SELECTOR_BYTES_MAX + 1);
        let told = validate_expression(&long, &ObjectAllowance::default(), Path::new("e")).unwrap();
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
            let told = validate_expression(&source, &ObjectAllowance::default(), Path::new("e"))
                .map(|error| error.to_string());
            assert_eq!(told.as_deref(), Some("e: Forbidden: too complex, exceeds cost limit"), "{source}");
        }
    }

    #[test]
    fn the_selectors_of_an_object_have_one_allowance() {
        let selector = |number: usize| {
            let source = format!("[{number}{}].size() > 0", ",1".repeat(4000));
            json!({"cel": {"expression": source}})
        };
        let request = |number: usize| {
            let selectors: Vec<Value> = (0..SELECTORS_MAX).map(|at| selector(number * 100 + at)).collect();
            json!({"selectors": selectors})
        };
        let refused = |number: usize, allowance: &ObjectAllowance| {
            let request = request(number);
            validate_selectors(request.items("selectors"), Stored::No, allowance, &Path::new("s")).len()
        };
        let allowance = ObjectAllowance::default();
        let first = refused(1, &allowance);
        assert!((1..SELECTORS_MAX - 1).contains(&first), "{first}");
        assert_eq!(refused(2, &allowance), SELECTORS_MAX, "nothing is left");
        assert_eq!(refused(1, &ObjectAllowance::default()), first, "equal objects get equal answers");
        let stored = request(3);
        let errors = validate_selectors(stored.items("selectors"), Stored::Yes, &allowance, &Path::new("s"));
        assert_eq!(errors.len(), 0, "what is stored is not compiled again");
    }

    #[test]
    fn patterns_of_a_hostile_object_are_not_compiled() {
        let pattern = |number: usize| format!("device.driver.matches('(?i)[x\\\\W]{{{number}}}')");
        let source = (1..220).map(pattern).collect::<Vec<_>>().join("||");
        assert!(source.len() <= DEVICE_SELECTOR_BYTES_MAX, "{}", source.len());
        let told = validate_expression(&source, &ObjectAllowance::default(), Path::new("e")).unwrap();
        assert_eq!(told.to_string(), format!("e: Forbidden: {TOO_COMPLEX}"));
    }
}
