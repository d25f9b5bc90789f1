//! Tests of expressions. [`check`] evaluates one over a device.

mod growth;

use std::sync::Arc;

use orch_rules::expression::{Allowance, Exhausted};

use super::*;
use crate::api::resource;
use crate::api::resource::v1::{Device, DeviceAttribute, DeviceCapacity};

fn device() -> Device {
    let attribute = |change: &dyn Fn(&mut DeviceAttribute)| {
        let mut attribute = DeviceAttribute::default();
        change(&mut attribute);
        attribute
    };
    let text = |text: &str| Some(text.to_owned());
    let attributes = [
        ("model", attribute(&|one| one.string = text("x100"))),
        ("size", attribute(&|one| one.int = Some(8))),
        ("fast", attribute(&|one| one.bool = Some(true))),
        ("version", attribute(&|one| one.version = text("1.4.0-rc.1"))),
        ("other.io/model", attribute(&|one| one.string = text("o"))),
        ("lanes", attribute(&|one| one.ints = vec![1, 2])),
        ("modes", attribute(&|one| one.strings = vec!["a".to_owned(), "b".to_owned()])),
        ("flags", attribute(&|one| one.bools = vec![true])),
        ("versions", attribute(&|one| one.versions = vec!["1.0.0".to_owned()])),
    ];
    let memory = DeviceCapacity {
        value: Some(resource::Quantity { string: "16Gi".to_owned() }),
        request_policy: None,
    };
    Device {
        name: "d0".to_owned(),
        attributes: attributes.into_iter().map(|(name, one)| (name.to_owned(), one)).collect(),
        capacity: [("memory".to_owned(), memory)].into(),
        ..Default::default()
    }
}

fn compiled(source: &str) -> Arc<Compiled> {
    Selectors::default().selector(source).compiled(&mut Allowance::of(u64::MAX)).unwrap()
}

fn evaluate(source: &str) -> Result<bool, SelectorError> {
    compiled(source).matches(&DeviceObject::new("d.io", &device()))
}

fn check(source: &str, expected: bool) {
    assert_eq!(evaluate(source), Ok(expected), "{source}");
}

#[test]
fn the_driver_is_known() {
    check("device.driver == 'd.io'", true);
    check("device.driver == \"e.io\"", false);
    check("device.driver.startsWith('d.')", true);
    check("device.allowMultipleAllocations", false);
}

#[test]
fn attributes_have_the_types_of_their_values() {
    check("device.attributes['d.io'].model == 'x100'", true);
    check("device.attributes['d.io'].model.matches('^x[0-9]+$')", true);
    check("device.attributes['d.io'].size == 8", true);
    check("device.attributes['d.io'].size >= 9", false);
    check("device.attributes['d.io'].fast", true);
    check("device.attributes['d.io']['fast'] == true", true);
    check("device.attributes['other.io'].model == 'o'", true);
}

#[test]
fn absent_members_can_be_guarded() {
    check("has(device.attributes['d.io'].model)", true);
    check("has(device.attributes['d.io'].none)", false);
    check("has(device.attributes['none.io'].model)", false);
    check("'model' in device.attributes['d.io']", true);
    check("'model' in device.attributes['none.io']", false);
    check("'d.io' in device.attributes", true);
    check("'none.io' in device.attributes", false);
    check("device.attributes['d.io'].?none.orValue('y') == 'y'", true);
    check("device.attributes['none.io'].?none.orValue('y') == 'y'", true);
    check("has(device.attributes['d.io'].none) && device.attributes['d.io'].none == 'x'", false);
    check("device.attributes.exists(domain, domain == 'other.io')", true);
    check("size(device.attributes) == 2", true);
}

#[test]
fn a_member_that_is_absent_and_not_guarded_is_an_error() {
    for source in ["device.attributes['d.io'].none == 'x'", "device.attributes['none.io'].model == 'x'"] {
        let told = evaluate(source).unwrap_err().to_string();
        assert!(told.starts_with("CEL runtime error: no such key: "), "{told}");
        assert!(!told.contains(". "), "nothing is added: {told}");
    }
}

#[test]
fn quantities_compare_and_add() {
    check("device.capacity['d.io'].memory.compareTo(quantity('16Gi')) == 0", true);
    check("device.capacity['d.io'].memory.compareTo(quantity('10Gi')) >= 0", true);
    check("device.capacity['d.io'].memory.isGreaterThan(quantity('16Gi'))", false);
    check("device.capacity['d.io'].memory.isLessThan(quantity('17Gi'))", true);
    check("device.capacity['d.io'].memory == quantity('16384Mi')", true);
    check("device.capacity['d.io'].memory != quantity('1')", true);
    check("quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi')", true);
    check("quantity('10').add(5) == quantity('15')", true);
    check("quantity('10').sub(quantity('500m')).isInteger()", false);
    check("quantity('10').sub(3).asInteger() == 7", true);
    check("quantity('1500m').asApproximateFloat() == 1.5", true);
    check("sign(quantity('-1')) == -1", true);
    check("isQuantity('5Mi') && !isQuantity('5Xi')", true);
    assert!(evaluate("quantity('x') == quantity('1')").is_err());
    assert!(evaluate("quantity('1500m').asInteger() == 1").is_err());
}

#[test]
fn versions_compare_by_precedence() {
    check("device.attributes['d.io'].version.isLessThan(semver('1.4.0'))", true);
    check("device.attributes['d.io'].version.isGreaterThan(semver('1.3.9'))", true);
    check("device.attributes['d.io'].version.compareTo(semver('1.4.0-rc.1')) == 0", true);
    check("device.attributes['d.io'].version.major() == 1", true);
    check(
        "device.attributes['d.io'].version.minor() == 4 && device.attributes['d.io'].version.patch() == 0",
        true,
    );
    check("semver('1.0.0+a') == semver('1.0.0+b')", true);
    check("semver('v01.2', true) == semver('1.2.0')", true);
    check("semver('1', true).compareTo(semver('1.0.0')) == 0", true);
    check("isSemver('1.2.3') && !isSemver('1.2') && isSemver('1.2', true) && !isSemver('a', true)", true);
    assert!(evaluate("semver('1.2') == semver('1.2.0')").is_err());
}

#[test]
fn lists_include_values() {
    check("device.attributes['d.io'].lanes.includes(2)", true);
    check("device.attributes['d.io'].lanes.includes(3)", false);
    check("device.attributes['d.io'].modes.includes('b')", true);
    check("'a' in device.attributes['d.io'].modes", true);
    check("device.attributes['d.io'].flags.includes(true)", true);
    check("device.attributes['d.io'].model.includes('x100')", true);
    check("device.attributes['d.io'].size.includes(8)", true);
    check("device.attributes['d.io'].versions[0].isLessThan(semver('2.0.0'))", true);
}

#[test]
fn names_may_be_bound() {
    check("cel.bind(a, device.attributes['d.io'], a.model == 'x100' && a.size == 8)", true);
    check("cel.bind(n, 1, cel.bind(n, n + 1, n == 2))", true);
    check("cel.bind(l, [1, 2], l.exists(i, i == 2))", true);
    assert!(matches!(evaluate("cel.bind('a', 1, true)"), Err(SelectorError::Compile(_))));
}

#[test]
fn conditions_end_early() {
    check("true || device.attributes['d.io'].none", true);
    check("device.attributes['d.io'].none || true", true);
    check("false && device.attributes['d.io'].none", false);
    check("device.driver == 'd.io' ? device.attributes['d.io'].fast : false", true);
}

#[test]
fn expressions_that_do_not_compile_say_why() {
    for source in ["", "device.", "1 +", "(((", "'"] {
        let told = evaluate(source).unwrap_err();
        assert!(matches!(told, SelectorError::Compile(_)), "{source}: {told}");
    }
}

#[test]
fn values_that_are_no_truths_are_errors() {
    for (source, of, reason) in [
        ("device.driver", "string", "unsupported native conversion from string to 'bool'"),
        ("dyn(1)", "int", "unsupported type conversion from 'int' to bool"),
        ("dyn(1.5)", "double", "type conversion error from Double to 'bool'"),
        ("dyn([1])", "list", "type conversion error from list to 'bool'"),
        ("dyn(null)", "null_type", "type conversion error from 'null_type' to 'bool'"),
        ("dyn(semver('1.0.0'))", "Semver", "type conversion error from 'Semver' to 'bool'"),
    ] {
        let told = evaluate(source).unwrap_err().to_string();
        let expected =
            format!("CEL runtime error: CEL result of type {of} could not be converted to bool: {reason}");
        assert_eq!(told, expected, "{source}");
    }
    assert!(evaluate("device.driver == 1 + 'a'").is_err());
    assert!(evaluate("claim.x").is_err());
}

#[test]
fn expressions_are_bounded_before_they_run() {
    let nested = "(".repeat(200) + "true" + &")".repeat(200);
    let long = format!("'{}' == 'x'", "x".repeat(11 << 10));
    for source in [nested.as_str(), &long] {
        let told = evaluate(source).unwrap_err();
        assert!(matches!(told, SelectorError::Compile(_)), "{told}");
    }
    check("[1, 2, 3].all(a, [1, 2, 3].all(b, a + b > 0))", true);
}

#[test]
fn times_and_durations_are_values() {
    check("duration('1h30m') == duration('90m')", true);
    check("duration('-1.5s').getMilliseconds() == -1500", true);
    check("string(duration('1.25s')) == '1.25s' && string(duration('-2m')) == '-120s'", true);
    check("duration('2h').getMinutes() == 120 && duration('1m1ms') > duration('1m')", true);
    check("timestamp('2026-01-02T03:04:05.678Z') < timestamp('2026-01-02T03:04:06Z')", true);
    check("timestamp('2026-01-02T03:04:05Z') - timestamp('2026-01-01T03:04:05Z') == duration('24h')", true);
    check(
        "timestamp('2026-01-01T00:00:00+01:00') + duration('1h') == timestamp('2026-01-01T00:00:00Z')",
        true,
    );
    check("timestamp(0).getFullYear() == 1970 && int(timestamp('1970-01-01T00:01:00Z')) == 60", true);
    check("timestamp('2026-03-01T05:06:07Z').getMonth() == 2", true);
    check("timestamp('2026-03-01T05:06:07Z').getDayOfWeek() == 0", true);
    check("timestamp('2026-03-01T05:06:07Z').getHours('-08:00') == 21", true);
    check("timestamp('2026-03-01T05:06:07Z').getDate('-08:00') == 28", true);
    check("string(timestamp('2026-03-01T05:06:07Z')) == '2026-03-01T05:06:07Z'", true);
    for source in [
        "duration('1') == duration('1s')",
        "duration('') == duration('1s')",
        "duration('1.2.3s') == duration('1s')",
        "duration('999999999h') == duration('1s')",
        "duration('2562047h') + duration('2562047h') == duration('1s')",
        "timestamp('2026-13-01T00:00:00Z') == timestamp(0)",
        "timestamp('9999-12-31T23:59:59Z') + duration('1h') == timestamp(0)",
        "timestamp('9999-12-31T23:59:59-23:00') == timestamp(0)",
        "timestamp(9223372036854775807) == timestamp(0)",
        "timestamp(0).getHours('Mars') == 0",
        "timestamp(0) < 1",
    ] {
        let told = evaluate(source).unwrap_err();
        // Literals are checked before the evaluation.
        assert!(told.to_string().contains(" error: "), "{source}: {told}");
    }
}

#[test]
fn patterns_are_bounded_and_may_be_computed() {
    check("device.driver.matches('^d[.]io$')", true);
    check("matches(device.driver, 'i.$')", true);
    check("device.driver.matches('^' + device.driver + '$')", true);
    check("device.attributes['d.io'].model.matches(device.driver)", false);
    check("['a', 'b'].exists(text, text.matches('b'))", true);
    check("false && 'a'.matches('(')", false);
    for (source, expected) in [
        ("device.driver.matches('(\\\\pL{60}){15}b')", "the regular expression is too large"),
        ("device.driver.matches('(')", "error parsing regexp"),
        (
            "device.driver.matches('a' + 'b'.replace('b', '0123456789').replace('', '01234567890123456789'))",
            "too large",
        ),
        ("device.driver.matches(dyn(1))", "overload"),
    ] {
        let told = evaluate(source).unwrap_err().to_string();
        assert!(told.starts_with("CEL runtime error: ") && told.contains(expected), "{source}: {told}");
    }
}

#[test]
fn a_pattern_is_compiled_once() {
    let compiled = compiled("device.driver.matches('a') || device.driver.matches('b') || 'b'.matches('b')");
    assert_eq!(compiled.program().unwrap().patterns(), 2);
    let unknown = super::tests::compiled("device.driver.matches(device.driver)");
    assert_eq!(unknown.program().unwrap().patterns(), 0);
}

#[test]
fn reasons_of_failures_are_short() {
    let long = format!("device.attributes['d.io']['{}'] == 'x'", "\u{e9}".repeat(4000));
    let told = evaluate(&long).unwrap_err().to_string();
    assert!(told.len() < 600, "{}", told.len());
}

#[test]
fn expressions_are_compiled_when_they_are_used() {
    let mut selectors = Selectors::default();
    let kept = selectors.selector("true");
    assert!(Arc::ptr_eq(&kept, &selectors.selector("true")));
    assert_eq!(selectors.len(), (1, 0));
    let mut poor = Allowance::of(10);
    assert_eq!(kept.compiled(&mut poor).err(), Some(Exhausted));
    assert_eq!(selectors.len(), (1, 0), "nothing was compiled");
    let mut allowance = Allowance::of(1_000);
    let first = kept.compiled(&mut allowance).unwrap();
    let left = allowance.left();
    assert!(left < 1_000);
    let second = kept.compiled(&mut allowance).unwrap();
    assert!(Arc::ptr_eq(&first, &second) && allowance.left() == left);
    assert_eq!(selectors.len(), (1, 1));
}

#[test]
fn unused_expressions_are_dropped_without_looking_at_all_for_each() {
    let mut selectors = Selectors::default();
    let used: Vec<_> = (0..1000).map(|number| selectors.selector(&format!("{number} == 0"))).collect();
    assert!(selectors.sweep_at() > 1000, "with that many in use, the next one is not worth a look");
    for number in 0..10_000 {
        selectors.selector(&format!("{number} == 1"));
    }
    assert!(selectors.len().0 <= 2 * used.len() + 1, "{:?}", selectors.len());
    assert!(Arc::ptr_eq(&used[0], &selectors.selector("0 == 0")));
}

#[test]
fn compiled_expressions_fit_into_their_memory() {
    let mut selectors = Selectors::default();
    let text = "x".repeat(9000);
    let used: Vec<_> =
        (0..100).map(|number| selectors.selector(&format!("'{text}' == '{number}'"))).collect();
    for selector in &used {
        selector.compiled(&mut Allowance::of(u64::MAX)).unwrap();
    }
    let (known, compiled) = selectors.len();
    assert!(known == 100 && compiled < 40, "{known} {compiled}");
    let device = DeviceObject::new("d.io", &device());
    let again = used[0].compiled(&mut Allowance::of(u64::MAX)).unwrap();
    assert_eq!(again.matches(&device), Ok(false), "it is compiled again");
}

#[test]
fn faults_are_told_in_the_words_of_the_reference() {
    for (source, words) in [
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("-9223372036854775807 - 2 == 0", "integer overflow"),
        ("18446744073709551615u + 1u == 0u", "unsigned integer overflow"),
        ("1 / (size(device.driver) - 4) == 0", "division by zero"),
        ("1 % (size(device.driver) - 4) == 0", "modulus by zero"),
        ("[1, 2][size(device.driver)] == 0", "index out of bounds: 4"),
        ("-int('-9223372036854775808') == 0", "integer overflow"),
    ] {
        assert_eq!(evaluate(source), Err(SelectorError::Runtime(words.to_owned())), "{source}");
    }
}
