//! Tests of whole expressions.

use crate::*;

/// The deepest sources that are parsed: brackets, members, and macros inside each other.
fn deepest() -> Vec<String> {
    let nested = |before: &str, inner: &str, after: &str| {
        let mut source = inner.to_owned();
        loop {
            let next = format!("{before}{source}{after}");
            if crate::nesting::nesting(&next).is_none_or(|levels| levels > NESTING_MAX) {
                return source;
            }
            source = next;
        }
    };
    vec![
        nested("(", "true", ")"),
        nested("[", "1", "]"),
        nested("{1: ", "1", "}"),
        nested("string(", "'a'", ")"),
        nested("", "device", ".a"),
        nested("1 + (", "1", ")"),
        nested("-(", "1", ")"),
        nested("[1].all(a, ", "true", ")"),
        nested("[1].map(a, ", "1", ")"),
        nested("[1].transformList(a, b, ", "1", ")"),
        nested("{1: 1}.transformMap(a, b, ", "1", ")"),
        nested("size([1].sortBy(a, ", "1", "))"),
        nested("cel.bind(x, 1, ", "1", ")"),
        nested("cel.bind(x, ", "1", ", x)"),
        nested("", "optional.of(1)", ".optMap(x, x)"),
        nested("true ? 1 : (", "1", ")"),
    ]
}

/// Nothing is known of sizes.
struct Unsized;

impl Sizes for Unsized {
    fn size(&self, _path: &[&str]) -> Option<Range> {
        None
    }
}

#[test]
fn the_deepest_expressions_fit_into_the_stack_of_a_thread() {
    for source in deepest() {
        for stage in ["parse", "check", "evaluate"] {
            let source = source.clone();
            let work = move || {
                let scope = Scope::default()
                    .with_libraries(Libraries { devices: true, ..Libraries::default() })
                    .with_variable("device", Type::Dyn);
                let mut charge = Allowance::of(u64::MAX);
                if stage == "parse" {
                    parse(&source, scope.libraries(), &mut charge).unwrap().unwrap();
                    return;
                }
                let ast = Ast::check(&source, &scope, &mut charge).unwrap().unwrap();
                if stage == "check" {
                    let _ = (ast.estimate(&Unsized), ast.names_variable("device"));
                    return;
                }
                let program = ast.program(PatternLimits::STANDING, &mut charge).unwrap();
                let mut budget = Budget::UNBOUNDED;
                let _ = program.evaluate(&[None], Limits::CALL, &mut budget);
            };
            std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
        }
    }
}

fn document() -> orch_schema::value::Value {
    orch_schema::json!({
        "name": "web", "replicas": 3, "ratio": 1.5, "on": true, "nil": null,
        "labels": {"app": "web", "tier": "front"},
        "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        "args": ["a", "b", "c"], "b\u{e4}r": "\u{e4}\u{f6}\u{fc}",
    })
}

fn evaluate(source: &str) -> Result<String, String> {
    evaluate_under("", source)
}

/// The value of `source` where types of the server have the brand `brand`.
fn evaluate_under(brand: &'static str, source: &str) -> Result<String, String> {
    let scope = Scope::default()
        .with_brand(brand)
        .with_libraries(Libraries { devices: true, ..Libraries::default() })
        .with_variable("self", Type::Dyn);
    let mut charge = Allowance::of(u64::MAX);
    let ast =
        Ast::check(source, &scope, &mut charge).unwrap().map_err(|error| format!("compile: {error}"))?;
    let program = ast.program(PatternLimits::STANDING, &mut charge).unwrap();
    let document = document();
    let mut budget = Budget::UNBOUNDED;
    let values = [Some(Val::json(&document))];
    let value = program.evaluate(&values, Limits::CALL, &mut budget).map_err(|error| error.to_string())?;
    Ok(value.to_string())
}

#[test]
fn expressions_have_the_values_of_the_language() {
    let mut wrong = Vec::new();
    for source in [
        "self.name == 'web' && self.replicas > 2 && self.ratio == 1.5",
        "self.labels.app == self.name && self.labels['tier'].startsWith('fr')",
        "has(self.labels.app) && !has(self.labels.none) && !has(self.none) && has(self.nil)",
        "self.nil == null && self.on",
        "-dyn(duration('1s')) == duration('-1s')",
        "self.ports.exists(p, p.port == 443) && self.ports.all(p, p.port > 0)",
        "self.ports.exists_one(p, p.name == 'http') && self.ports.existsOne(i, p, i == 1)",
        "self.ports.map(p, p.port) == [80, 443] && self.ports.map(p, p.port > 80, p.name) == ['https']",
        "self.ports.filter(p, p.port > 80).size() == 1 && size(self.labels) == 2",
        "self.labels.all(k, v, k != v) && self.labels.exists(k, k == 'tier')",
        "self.labels.transformMap(k, v, v + '!') == {'app': 'web!', 'tier': 'front!'}",
        "self.args.transformMapEntry(i, a, {a: i}) == {'a': 0, 'b': 1, 'c': 2}",
        "self.args.transformList(i, a, i > 0, a) == ['b', 'c']",
        "dyn(1) == 1.0 && dyn(1) == 1u && 1 < 1.5 && 2u > 1",
        "dyn(9007199254740993) == 9007199254740992.0 && 1 in [1.0, 2.0].map(x, dyn(x))",
        "[1, 2] + [3] == [1, 2, 3] && 'a' in {'a': 1} && !('b' in {'a': 1})",
        "{'a': [1], 'b': [2]} == {'b': [2], 'a': [1]} && dyn(1) != 'a'",
        "self.?name.orValue('x') == 'web' && self.?none.?deep.orValue('x') == 'x'",
        "self.args[?1].value() == 'b' && !self.args[?7].hasValue() && [?self.?none, dyn(1)] == [1]",
        "[duration('1s')].filter(d, false).sum() == duration('0') && [1.5].filter(d, false).sum() < 0.5",
        "!optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue() && optional.ofNonZeroValue(timestamp(0)).hasValue()",
        "{?'a': self.?none, 'b': dyn(1)} == {'b': 1} && optional.of(1).optMap(x, x + 1).value() == 2",
        "optional.none().or(optional.of(2)).value() == 2 && optional.ofNonZeroValue('') == optional.none()",
        "string(1) + string(2u) + string(1.5) + string(true) == '121.5true' && int('7') == 7",
        "double('1.5') == 1.5 && uint(3) == 3u && bool('true') && bytes('a') == b'a' && string(b'a') == 'a'",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type",
        "type(timestamp(0)) == google.protobuf.Timestamp && type(null) == null_type",
        "'h\u{e4}llo'.size() == 5 && 'h\u{e4}llo'.charAt(1) == '\u{e4}' && 'hello'.indexOf('l') == 2",
        "'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3 && 'hello'.indexOf('z') == -1",
        "'hello'.substring(1, 3) == 'el' && 'a,b,c'.split(',') == ['a', 'b', 'c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && ' x '.trim() == 'x' && 'Ab'.lowerAscii() == 'ab'",
        "'aaa'.replace('a', 'b', 2) == 'bba' && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.matches('^a.c$') && 'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22']",
        "'%s|%d|%b|%x|%X|%o'.format([dyn('a'), dyn(12), dyn(5), dyn(255), dyn(255), dyn(8)]) == 'a|12|101|ff|FF|10'",
        "'%.3f'.format([1234.5]) == '1,234.500' && '%s'.format([[1, 2]]) == '[1, 2]'",
        "[3, 1, 2].sort() == [1, 2, 3] && self.ports.sortBy(p, -p.port).map(p, p.port) == [443, 80]",
        "[1, 2, 1].distinct() == [1, 2] && [1, 2, 3].slice(1, 3) == [2, 3] && [1, 2].reverse() == [2, 1]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && lists.range(3) == [0, 1, 2] && [1, 2].first().value() == 1",
        "[1, 2, 3].sum() == 6 && [1, 3, 2].max() == 3 && [1, 2].isSorted() && !['b', 'a'].isSorted()",
        "sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "duration('1h30m') == duration('90m') && duration('90m').getHours() == 1",
        "timestamp('2026-07-01T12:00:00Z').getHours('Europe/Berlin') == 14",
        "timestamp('2026-01-01T12:00:00Z').getHours('America/New_York') == 7",
        "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.2.3.4') && !isIP('1.2.3')",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
        "sign(quantity('-1')) == -1 && sign(quantity('0')) == 0",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && semver('1.2.3').isLessThan(semver('1.3.0'))",
        "cel.bind(x, [1, 2], x + x == [1, 2, 1, 2])",
        "(false && self.none.a) == false && (self.none.a || true) && (true ? true : self.none)",
        "[1, 0].exists(x, 1 / x == 1) && ![0].exists(x, x == 1)",
        "!has(self.name.app) && !self.?name.?app.hasValue() && !self.name[?0].hasValue() && !has(self.nil.a)",
        "self.name.orValue('x') == 'web' && dyn(self.name.or(optional.of(1))) == 'web'",
        "string(timestamp('2026-01-01T01:00:00+05:00')) == '2026-01-01T01:00:00+05:00'",
        "timestamp('2026-01-01T01:00:00+05:00').getHours() == 20",
        "timestamp('2026-01-01T01:00:00+05:00').getHours('+05:00') == 1",
        "string(timestamp('2026-01-01T01:00:00+05:00') + duration('1h')) == '2026-01-01T02:00:00+05:00'",
        "'abc'.indexOf('', -1) == -1 && 'abc'.lastIndexOf('', 9) == 9 && 'abc'.indexOf('c', 3) == -1",
        "string(1e6) == '1e+06' && string(123456.0) == '123456' && string(1.5e-7) == '1.5e-07'",
        "[dyn(1), self.name].min() == 1 && [dyn(2), self.name].max() == 2 && [dyn(1), self.name].isSorted()",
        "url('https://x/a?k=v#f').getQuery() == {'k': ['v']} && url('/a#b').getEscapedPath() == '/a'",
        "'%s'.format([b'a']) == 'a' && '%s'.format([[b'a', b'\u{e9}']]) == '[b\"a\", b\"\u{e9}\"]'",
        "'%s'.format([[1.5, 1.0 / 0.0, 0.0 / 0.0]]) == '[1.500000, \"+Inf\", \"NaN\"]'",
        "'%f %f %e'.format([1.0 / 0.0, 'NaN', '-Infinity']) == '\u{221e} NaN -\u{221e}'",
        "'%e'.format([2.71828]) == '2.718280\u{202f}\u{d7}\u{202f}10\u{2070}\u{2070}'",
        "'%.2e'.format([12345.6]) == '1.234560\u{202f}\u{d7}\u{202f}10\u{2070}\u{2074}'",
        "'%.2f'.format([-0.0]) == '0.00' && '%.0f'.format([2.5]) == '2' && '%.1f'.format([-1234567.25]) == '-1,234,567.2'",
        "double('0x1p-2') == 0.25 && double('-0x_1.8p+1') == -3.0",
        "-(-3) == 3 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && 1.0 / 0.0 > 1.0",
    ] {
        let value = evaluate(source);
        if value.as_deref() != Ok("true") {
            wrong.push(format!("{source}: {value:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn calls_that_no_overload_takes_are_named_as_in_the_reference() {
    let mut wrong = Vec::new();
    for (source, words) in [
        ("self.name + 1", ""),
        ("self.name > 1", ""),
        ("!self.name", ""),
        ("1 in self.name", ""),
        ("self.name - 1", ""),
        ("self.on + 1", ": _+_"),
        ("self.nil > 1", ": _>_"),
        ("self.ratio % 2", ": _%_"),
        ("size(self.replicas)", ": size"),
        ("self.replicas.matches('a' + 'b')", ": matches"),
        ("self.replicas.matches('a')", ""),
        ("self.replicas.startsWith('a')", ": startsWith(int, string)"),
        ("self.name.substring(self.name)", ": substring(string, string)"),
        ("int(self.on)", ": int(bool)"),
        ("string(self.labels)", ": string(map)"),
        ("self.args.sum()", ": sum(list)"),
        ("self.ports.isSorted()", ": isSorted(list)"),
        ("[dyn(1), self.name].sum()", ""),
        ("self.replicas.flatten()", ": int.flatten()"),
        ("self.replicas.flatten(1)", ": int.flatten(int)"),
        ("self.replicas.sort()", ": sort"),
        ("sets.contains(self.name, [1])", ": sets.contains(string, list)"),
        ("self.name.getHours()", ": getHours(string)"),
        ("cidr('10.0.0.0/8').containsIP(self.name)", ""),
        ("self.replicas.hasValue()", ": hasValue(int)"),
    ] {
        let told = evaluate(source);
        if told.as_ref().err() != Some(&format!("no such overload{words}")) {
            wrong.push(format!("{source}: {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn types_of_the_server_are_named_with_the_brand() {
    let mut wrong = Vec::new();
    for (source, words) in [
        ("'%s %s'.format([type(quantity('1')), type(semver('1.0.0'))])", "brand.Quantity brand.Semver"),
        ("'%s %s'.format([type(url('/a')), type(ip('::1'))])", "brand.URL net.IP"),
        ("'%s %s'.format([type(cidr('::1/8')), type(format.date())])", "net.CIDR brand.NamedFormat"),
        ("type(quantity('1')) == type(quantity('2')) && dyn(type(url('/a'))) != type(ip('::1'))", "true"),
        ("dyn(url('/a')).getHours()", "no such overload: getHours(brand.URL)"),
        ("dyn(self.name).add(quantity('1'))", "no such overload: add(string, brand.Quantity)"),
        ("dyn(url('/a')).flatten()", "no such overload: brand.URL.flatten()"),
        ("[1][dyn(semver('1.0.0'))]", "unsupported index type 'brand.Semver' in list"),
        ("optional.of([1])[?dyn(url('/a'))]", "unsupported index type 'brand.URL' in list"),
        (
            "'%d'.format([dyn(quantity('1'))])",
            "error during formatting: decimal clause can only be used on integers, was given brand.Quantity",
        ),
        (
            "'%s'.format([dyn([quantity('1')])])",
            "error during formatting: no formatting function for brand.Quantity",
        ),
    ] {
        let told = evaluate_under("brand", source);
        let told = told.unwrap_or_else(|fault| fault);
        if told != words {
            wrong.push(format!("{source}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn faults_of_evaluations_have_the_words_of_the_reference() {
    let mut wrong = Vec::new();
    for (source, words) in [
        ("self.none", "no such key: none"),
        ("self.labels['none']", "no such key: none"),
        ("self.args[7]", "index out of bounds: 7"),
        ("self.name + 1", "no such overload"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("18446744073709551615u + 1u", "unsigned integer overflow"),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.substring(3, 1)", "invalid substring range. start: 3, end: 1"),
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("[].map(x, dyn(x)).min()", "min called on empty list"),
        ("[1].slice(0, 5)", "cannot slice(0, 5), list is length 1"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key: a"),
        ("['a', 'a'].transformMapEntry(i, a, {a: i})", "insert failed: key a already exists"),
        ("'a'.matches('a' + '(')", "error parsing regexp: missing closing ): `a(`"),
        ("timestamp('2026-01-01T00:00:00Z').getHours('Mars/Base')", "unknown time zone Mars/Base"),
        ("['a', 'b'].filter(k, {'c': 1}[k] == 1)", "no such key: b"),
        ("['c', 'a', 'c'].filter(k, {'c': 1}[k] == 1)", "no such key: a"),
        ("['a', 'b', 'c'].exists_one(k, {'c': 1}[k] == 1)", "no such key: b"),
        ("['a', 'b'].map(k, {'c': 1}[k] == 1, k)", "no such key: b"),
        ("['a', 'b'].map(k, k == 'a', {'c': 1}[k])", "no such key: a"),
        ("['a', 'b'].map(k, {'c': 1}[k])", "no such key: a"),
        ("['a', 'b'].all(k, {'c': 1}[k] == 1)", "no such key: a"),
        ("self.name && true", "no such overload"),
        ("self.name ? 1 : 2", "no such overload"),
        ("[1, 2].all(x, self.none)", "no such key: none"),
        ("self.name.app", "no such key: app"),
        ("self.nil.app", "no such key: app"),
        ("self.args.name", "unsupported index type 'string' in list"),
        ("has(self.args.name)", "unsupported index type 'string' in list"),
        ("self.args['a']", "unsupported index type 'string' in list"),
        ("self.args[1.5]", "unsupported index value 1.5 in list"),
        ("self.labels[self.nil]", "invalid qualifier type: types.Null"),
        ("self.name.all(x, true)", "got 'types.String', expected iterable type"),
        ("self.nil.exists(x, y, true)", "unsupported comprehension range type: types.Null"),
        ("[?self.name]", "cannot initialize optional list element from non-optional value web"),
        ("{?'a': self.name}", "cannot initialize optional entry 'a' from non-optional value web"),
        ("optional.unwrap([self.name])", "value web is not optional"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("duration(self.replicas)", "type conversion error from 'int' to 'google.protobuf.Duration'"),
        ("duration('2562047h') + duration('2562047h')", "integer overflow"),
        ("timestamp('9999-12-31T00:00:00Z') + duration('24h')", "timestamp overflow"),
        ("uint('+5')", "type conversion error from 'string' to 'uint'"),
        ("double('1e400')", "type conversion error from 'string' to 'double'"),
        ("double('0x1')", "type conversion error from 'string' to 'double'"),
        ("'a'.find('a' + '(')", "Illegal regex: error parsing regexp: missing closing ): `a(`"),
        ("'a'.indexOf('b', -1)", "index out of range: -1"),
        ("[dyn('a'), self.replicas].join()", "join: invalid input: 3"),
        ("quantity('x')", "quantities must match the regular expression"),
        ("ip('::ffff:1.2.3.4')", "IPv4-mapped IPv6 address"),
        (
            "'%d'.format([dyn('NaN')])",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([dyn(ip('1.2.3.4'))])",
            "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given net.IP",
        ),
        (
            "'%s'.format([dyn([optional.of(1)])])",
            "error during formatting: no formatting function for optional_type",
        ),
        (
            "'%s'.format([b'\\xff'])",
            "error during formatting: could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
        ),
        ("('%s' + ' %s').format([1])", "index 1 out of range"),
        ("('a' + '%').format([1])", "unexpected end of string"),
        ("('a' + '%').format([])", "index 0 out of range"),
        (
            "('a' + '%y').format([1])",
            "could not parse formatting clause: unrecognized formatting clause \"y\"",
        ),
        ("lists.range(100000000)", "operation cancelled: actual cost limit exceeded"),
    ] {
        let told = evaluate(source);
        if !told.as_ref().is_err_and(|told| told.starts_with(words)) {
            wrong.push(format!("{source}: {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
