//! Tests of the bound of what selectors cost. [`steps`] computes it.

use super::*;
use crate::allowance::Allowance;
use crate::nesting::nesting;
use crate::parse::{NESTING_MAX, parse};
use crate::pattern::{Pattern, PatternLimits};
use crate::scope::Libraries;

/// The bound of an evaluation of a selector.
const DEVICE_SELECTOR_STEPS_MAX: u64 = 1_000_000;

fn steps_for(source: &str, device: DeviceBounds) -> u64 {
    let parsed =
        parse(source, Libraries { devices: true, ..Libraries::default() }, &mut Allowance::of(u64::MAX))
            .unwrap();
    let parsed = parsed.unwrap_or_else(|error| panic!("{source}: {error}"));
    let of_byte = |pattern: &str| {
        let compiled = Pattern::compile(pattern, PatternLimits::STANDING, &mut Allowance::of(u64::MAX));
        Some(compiled.unwrap().map_or(0, |pattern| pattern.steps_of_byte()))
    };
    device_selector_steps(&parsed.expression, device, &of_byte)
}

fn steps(source: &str) -> u64 {
    steps_for(source, DeviceBounds::API)
}

fn list(length: usize) -> String {
    format!("[{}]", vec!["1"; length].join(","))
}

#[test]
fn selectors_as_people_write_them_are_cheap() {
    for (source, most) in [
        ("device.driver == 'gpu.example.com'", 20),
        ("device.attributes['d.io'].model == 'a100' && device.attributes['d.io'].size > 3", 2000),
        ("device.capacity['d.io'].memory.compareTo(quantity('10Gi')) >= 0", 100),
        ("device.attributes['d.io'].productName.lowerAscii().matches('^.*a100.*$')", 3000),
        ("device.attributes['d.io'].modes.exists(mode, mode == 'x')", 2000),
        ("device.attributes.exists(domain, domain.startsWith('d.'))", 5000),
        ("device.driver.split('.').map(part, part.trim()).join('-') == 'a-b'", 20_000),
        ("cel.bind(d, device.attributes['d.io'], d.a == 'x' && d.b == 'y')", 50_000),
        ("device.driver.replace('a', 'b').replace('c', 'd').replace('e', 'f') == 'x'", 1000),
        ("'%s-%d'.format([device.driver, 3]) == 'x'", 1000),
    ] {
        assert!(steps(source) <= most, "{source}: {}", steps(source));
    }
}

#[test]
fn texts_that_grow_cost_what_they_grow_to() {
    let text = "x".repeat(200);
    let once = format!("'x'.replace('x','{text}')");
    let twice = format!("{once}.replace('x','{text}')");
    let four_times = format!("{twice}.replace('x','{text}').replace('x','{text}')");
    assert!(steps(&format!("{once}.size() > 0")) < 1000);
    assert!(steps(&format!("{twice}.size() > 0")) > 40_000 / 16);
    assert!(steps(&format!("{four_times}.size() > 0")) > DEVICE_SELECTOR_STEPS_MAX);
}

#[test]
fn each_way_to_grow_is_seen() {
    let nested = |inner: &str, outer: &dyn Fn(&str) -> String| {
        // Up to the bound of nesting, which the binding around it has a part of.
        let fits = |expression: &String| nesting(expression).is_some_and(|levels| levels < NESTING_MAX - 2);
        let deeper = std::iter::successors(Some(inner.to_owned()), |expression| Some(outer(expression)));
        deeper.take(31).take_while(fits).last().unwrap()
    };
    let hundred = list(100);
    for source in [
        nested("x + x", &|inner| format!("cel.bind(x, x + x, {inner})")),
        nested("[x, x]", &|inner| format!("cel.bind(x, [x, x], {inner})")),
        nested("x", &|inner| format!("cel.bind(x, {{'a': x, 'b': x}}, {inner})")),
        nested("x", &|inner| format!("cel.bind(x, [x, x].map(y, y), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, '%s%s'.format([x, x]), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, [x, x, x].join('-'), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, x.replace('', 'aaaa'), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, x.split('').join('ab'), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, (x + x).sort(), {inner})")),
        nested("x", &|inner| format!("cel.bind(x, [x + x].flatten(), {inner})")),
        format!("{hundred}.all(a, {hundred}.all(b, {hundred}.all(c, a + b + c > 0)))"),
        format!("{hundred}.map(a, {hundred}.map(b, {hundred}.map(c, {hundred}))) == []"),
        "lists.range(1000000).size() > 0".to_owned(),
        "lists.range(device.driver.size()).size() > 0".to_owned(),
    ] {
        let source =
            if source.contains("cel.bind") { format!("cel.bind(x, ['a'], {source}) == 1") } else { source };
        assert!(steps(&source) > DEVICE_SELECTOR_STEPS_MAX, "{source}: {}", steps(&source));
    }
}

#[test]
fn searches_cost_the_product_of_their_sizes() {
    let long = "a".repeat(4000);
    assert!(steps(&format!("'{long}'.indexOf('{long}') == 0")) > 4000 * 4000 / 2048);
    assert!(steps(&format!("{}.distinct() == []", list(2000))) > 2000 * 2000 / 16);
}

#[test]
fn patterns_cost_their_compiled_size_for_each_byte() {
    let small = steps("device.driver.matches('^a[0-9]+$')");
    let repeated = steps("device.driver.matches('((a{10}){10}){10}b')");
    assert!(repeated > small * 10, "{small} {repeated}");
    let unknown = steps("'a'.matches(device.driver)");
    assert!(unknown > 10_000, "{unknown}");
    // Too large ones fail at once, each time.
    assert!(steps("device.driver.matches('(\\\\pL{60}){15}b')") < 100);
}

#[test]
fn smaller_devices_cost_less() {
    let source = "cel.bind(d, device.attributes['d.io'], d.exists(name, name == 'x'))";
    let small = steps_for(source, DeviceBounds { entries: 4, list: 0, text: 64 });
    assert!(small < 200 && small * 10 < steps(source), "{small}");
}

#[test]
fn a_loop_is_as_long_as_its_list() {
    let once = steps(&format!("{}.all(a, a > 0)", list(10)));
    let more = steps(&format!("{}.all(a, a > 0)", list(100)));
    assert!((8..12).contains(&(more / once)), "{once} {more}");
    assert!(steps("[].all(a, a > 0)") < 10);
}
