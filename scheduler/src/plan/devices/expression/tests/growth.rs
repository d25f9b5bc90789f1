//! Expressions whose values grow. Random ones are evaluated or refused, and what they make is no larger than what was
//! counted for it.

use proptest::prelude::*;

use super::*;

const REFUSED: &str = "CEL runtime error: operation cancelled: actual cost limit exceeded";

/// What counts as a step when a value is made: each value in it, and each sixteen bytes of text.
fn steps_of(value: &Val<'_>) -> u64 {
    let length = |length: usize| u64::try_from(length).unwrap();
    match value {
        Val::Text(text) => length(text.len()) / 16,
        Val::Bytes(bytes) => length(bytes.len()) / 16,
        Val::List(list) => list.iter().map(|one| 1 + steps_of(&one)).sum(),
        Val::Map(map) => map.iter().map(|(_, one)| 1 + steps_of(&one)).sum(),
        _ => 0,
    }
}

/// Evaluates an expression of any type, unless it is refused. Returns what was counted for it, and the steps of its value.
fn value_of(source: &str) -> Option<(u64, u64)> {
    let compiled = compiled(source);
    let object = DeviceObject::new("d.io", &device());
    let steps = compiled.steps(&object);
    Some((steps, compiled.value(&object, |value| steps_of(&value)).ok()?))
}

#[test]
fn expressions_that_would_take_gigabytes_are_refused() {
    let text = "x".repeat(200);
    let replaced = |times: usize| {
        let calls = format!(".replace('x','{text}')").repeat(times);
        format!("'x'{calls}.size() > 0")
    };
    check(&replaced(2), true);
    assert!(replaced(5).len() < 1300);
    assert_eq!(evaluate(&replaced(5)).unwrap_err().to_string(), REFUSED);
}

#[test]
fn loops_and_doubled_values_are_refused_when_they_take_too_long() {
    let hundred = format!("[{}]", vec!["1"; 100].join(","));
    let doubling = |value: &str| {
        let bound = (0..30).fold("a".to_owned(), |inner, _| format!("cel.bind(a, {value}, {inner})"));
        format!("cel.bind(a, 'x', {bound})")
    };
    let text = |value: &str| format!("{} == ''", doubling(value));
    // A list that holds another one twice is small; walking it is not.
    let tree = |value: &str| format!("{0} == {0}", doubling(value));
    for source in [
        format!("{hundred}.all(a, {hundred}.all(b, {hundred}.all(c, {hundred}.all(d, a + b + c + d > 0))))"),
        text("a + a + a"),
        tree("[a, a]"),
        text("'%s%s'.format([a, a])"),
        text("[a, a].join('-')"),
        tree("{'x': a, 'y': a}"),
        format!("{hundred}.all(a, {hundred}.all(b, !device.driver.matches('a' + device.driver)))"),
    ] {
        assert_eq!(evaluate(&source).unwrap_err().to_string(), REFUSED, "{source}");
    }
}

#[test]
fn hostile_expressions_end() {
    let repeated = |part: &str, times: usize| part.repeat(times);
    for source in [
        vec!["1"; 5000].join("+") + " == 0",
        vec!["true"; 2000].join(" && ") + " && false",
        repeated("true ? false : ", 600) + "false",
        "device".to_owned() + &repeated(".a", 4000) + " == 1",
        repeated("!", 5001) + "true",
        repeated("-", 5000) + "1 == 2",
        "[[1]]".to_owned() + &repeated("[0]", 3000) + " == 1",
        "'a'".to_owned() + &repeated(".lowerAscii()", 780) + " == 'b'",
        format!("'{}' == ''", repeated("a", 10_200)),
        format!("duration('{}h') == duration('1s')", repeated("9", 3000)),
        format!("'{}'.matches('{}')", repeated("a", 3000), repeated("(a?){9}", 140)),
        format!("'a'.matches('{}')", repeated("\\\\pL", 250)),
        "9223372036854775807 + 1 == 0".to_owned(),
        "-9223372036854775808 / -1 == 0".to_owned(),
        "-9223372036854775808 % -1 == 0".to_owned(),
        "'h\u{e9}\u{e9}'.substring(1, 2) == 'x'".to_owned(),
        "'h\u{e9}\u{e9}'.charAt(1) == 'x'".to_owned(),
        "'%.999999999f'.format([1.0]) == 'x'".to_owned(),
        "semver('1.0.0').compareTo(semver('99999999999999999999.0.0')) == 0".to_owned(),
        "quantity('9223372036854775807E').add(quantity('9223372036854775807E')) == quantity('1')".to_owned(),
        "math.abs(-9223372036854775808) == 0".to_owned(),
        "math.bitShiftLeft(1, 100) == 0".to_owned(),
        "math.round(1.0e308 * 10.0) == 1.0".to_owned(),
        "lists.range(1000000).size() == 0".to_owned(),
        "[1, 'a', [2]].distinct().sort() == []".to_owned(),
        "timestamp('9999-12-31T23:59:59Z') + duration('999999h') == timestamp(0)".to_owned(),
    ] {
        // Any answer will do.
        let _ = evaluate(&source);
    }
}

/// Expressions over the variables `a` and `b`, of the functions that make larger values of smaller ones.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just("device.driver".to_owned()),
        Just("device.attributes['d.io'].modes".to_owned()),
        Just("device.attributes".to_owned()),
        Just("''".to_owned()),
        Just("1.5e308".to_owned()),
        Just("-7".to_owned()),
        "'[a-z%]{1,20}'",
    ];
    leaf.prop_recursive(7, 64, 4, |inner| {
        let one = inner.clone();
        let two = (inner.clone(), inner.clone());
        let three = (inner.clone(), inner.clone(), inner);
        prop_oneof![
            two.clone().prop_map(|(a, b)| format!("({a} + {b})")),
            three.clone().prop_map(|(a, b, c)| format!("{a}.replace({b}, {c})")),
            two.clone().prop_map(|(a, b)| format!("[{a}, {b}].join({a})")),
            two.clone().prop_map(|(a, b)| format!("{a}.split({b})")),
            two.clone().prop_map(|(a, b)| format!("{a}.split('').join({b})")),
            two.clone().prop_map(|(a, b)| format!("'%s-%s-%s'.format([{a}, {b}, {a}])")),
            one.clone().prop_map(|a| format!("'%.99f %x %X'.format([1.7e308, {a}, -1])")),
            three.clone().prop_map(|(a, b, c)| format!("[{a}, {b}, {c}]")),
            two.clone().prop_map(|(a, b)| format!("[{a}, [{b}]].flatten()")),
            two.clone().prop_map(|(a, b)| format!("{{'x': {a}, 'y': {b}}}")),
            two.clone().prop_map(|(a, b)| format!("{a}.map(b, {b})")),
            two.clone().prop_map(|(a, b)| format!("[1, 2, 3, 4].map(a, {a} != 0, {b})")),
            two.clone().prop_map(|(a, b)| format!("{a}.filter(a, [{b}] != [])")),
            two.clone().prop_map(|(a, b)| format!("[{a}, {b}, {a}].map(a, [a, a])")),
            three.clone().prop_map(|(a, b, c)| format!("[{a}, {b}].sortBy(a, {c})")),
            two.clone().prop_map(|(a, b)| format!("cel.bind(a, {a}, {b})")),
            two.clone().prop_map(|(a, b)| format!("cel.bind(b, [{a}, {a}], {b})")),
            three.prop_map(|(a, b, c)| format!("({a} == {b} ? {c} : {a})")),
            two.clone().prop_map(|(a, b)| format!("optional.of({a}).orValue({b})")),
            one.clone().prop_map(|a| format!("strings.quote({a})")),
            one.clone().prop_map(|a| format!("string({a}).reverse()")),
            one.clone().prop_map(|a| format!("string(bytes({a}))")),
            one.prop_map(|a| format!("[{a}].distinct()[0]")),
            two.prop_map(|(a, b)| format!("[{a}, {b}].exists(a, [a, {b}] == [])")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_value_is_larger_than_what_was_counted_for_it(expression in expression()) {
        let source = format!("cel.bind(a, dyn('xyx'), cel.bind(b, dyn(['x', '%s', 'yyyy']), {expression}))");
        if let Some((steps, made)) = value_of(&source) {
            prop_assert!(made <= steps, "{made} > {steps}: {source}");
        }
    }
}
