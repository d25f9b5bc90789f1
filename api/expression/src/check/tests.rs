//! Types and faults of checked expressions. [`check`] checks one against [`scope`].

use crate::allowance::Allowance;
use crate::program::Ast;
use crate::scope::{Libraries, ObjectTable, Scope};
use crate::types::Type;

fn scope() -> Scope {
    let objects = ObjectTable::default()
        .with("request", &[("user", Type::String), ("groups", Type::list(Type::String)), ("any", Type::Dyn)]);
    Scope::default()
        .with_objects(objects)
        .with_libraries(Libraries { devices: true, ..Libraries::default() })
        .with_variable("request", Type::object("request"))
        .with_variable("object", Type::Dyn)
        .with_variable("claims", Type::map(Type::String, Type::Any))
        .with_variable("old", Type::optional(Type::Int))
        .with_variable("authorizer.requestResource", Type::String)
}

fn check(source: &str) -> Result<String, String> {
    let checked = Ast::check(source, &scope(), &mut Allowance::of(u64::MAX)).unwrap();
    checked.map(|ast| ast.result().to_string()).map_err(|error| error.to_string())
}

#[test]
fn expressions_have_types() {
    for (source, expected) in [
        ("1 + 2", "int"),
        ("request.user", "string"),
        ("request.groups.map(g, size(g))", "list(int)"),
        ("request.groups.filter(g, g != 'a')[0]", "string"),
        ("object.a.b", "dyn"),
        ("object.a + 1", "int"),
        ("object.a == 1 || object.b", "bool"),
        ("claims.x", "any"),
        ("claims.x == 'a'", "bool"),
        ("[]", "list(dyn)"),
        ("[dyn(1), object.x]", "list(dyn)"),
        ("[dyn(1)].sort()", "dyn"),
        ("[].sort()", "list(int)"),
        ("['b'].sortBy(x, [x][0])", "list(string)"),
        ("'%s %s %s'.format([1, 'a', {1: 'a', 'b': [2, '']}])", "string"),
        ("{'a': [1]}", "map(string, list(int))"),
        ("old.orValue(1)", "int"),
        ("old.optMap(x, string(x))", "optional_type(string)"),
        ("optional.none().orValue('a')", "string"),
        ("request.?user", "optional_type(string)"),
        ("object.?a.?b", "optional_type(dyn)"),
        ("request.groups[?0]", "optional_type(string)"),
        ("true ? 1 : object.x", "dyn"),
        ("timestamp('2026-01-01T00:00:00Z') - duration('1h')", "timestamp"),
        ("type(1) == int", "bool"),
        ("type([1])", "type(list(int))"),
        ("google.protobuf.Timestamp", "type(timestamp)"),
        ("request.groups.all(i, g, i > 0 && g == 'a')", "bool"),
        ("{'a': 1}.transformList(k, v, k)", "list(string)"),
        ("{'a': 1}.transformMap(k, v, string(v))", "map(string, string)"),
        ("request.groups.transformMapEntry(i, g, {g: i})", "map(string, int)"),
        ("request.groups.sortBy(g, size(g))", "list(string)"),
        ("cel.bind(x, 1, [x])", "list(int)"),
        ("quantity('1').add(1)", "Quantity"),
        ("1 < 1.5", "bool"),
        ("authorizer.requestResource", "string"),
        ("[1, 2].map(request, request + 1)", "list(int)"),
        ("[[1], []].flatten()", "list(int)"),
        ("'%s'.format([1, 'a'].map(x, dyn(x)))", "string"),
        ("[1, 'a'].map(x, dyn(x))", ""),
    ] {
        if expected.is_empty() {
            assert!(check(source).is_err(), "{source}");
            continue;
        }
        assert_eq!(check(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn faults_are_told_in_the_words_of_the_reference() {
    for (source, message) in [
        ("x", "undeclared reference to 'x' (in container '')"),
        ("f(1)", "undeclared reference to 'f' (in container '')"),
        ("math.abs(1)", "undeclared reference to 'abs' (in container '')"),
        ("request.name", "undefined field 'name'"),
        ("request.user.name", "type 'string' does not support field selection"),
        ("1 + 'a'", "found no matching overload for '_+_' applied to '(int, string)'"),
        ("request.user.contains(1)", "found no matching overload for 'contains' applied to 'string.(int)'"),
        ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("[1, object.x]", "expected type 'int' but found 'dyn'"),
        ("{1: 1, 'a': 1}", "expected type 'int' but found 'string'"),
        (
            "(1).all(x, true)",
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("duration('x')", "invalid duration argument"),
        ("timestamp('x')", "invalid timestamp argument"),
        ("duration(1)", "invalid duration argument"),
        ("timestamp(253402300800)", "invalid timestamp argument"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([[1, {'a': optional.of(1)}]])",
            "doubles, maps, lists, types, durations, and timestamps, was given optional_type",
        ),
        (
            "'%f'.format([1])",
            "error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        ("'%x'.format([1.5])", "hex, was given double"),
        ("'%d'.format([[1]])", "integers, was given list"),
        ("'%s'.format([claims['a']])", "timestamps, was given google.protobuf.Any"),
        ("'%s'.format([1, 2])", "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%s %s'.format([1])", "index 1 out of range"),
        ("'%'.format([])", "unexpected end of string"),
        ("'%y'.format([1])", "could not parse formatting clause: unrecognized formatting clause \"y\""),
        (
            "[{'a': 1}].isSorted()",
            "found no matching overload for 'isSorted' applied to 'list(map(string, int)).()'",
        ),
        ("[[1]].sort()", "found no matching overload for 'sort' applied to 'list(list(int)).()'"),
        ("quantity('1').sign() == 1", "found no matching overload for 'sign' applied to"),
        ("Point{x: 1}", "undeclared reference to 'Point' (in container '')"),
        ("[1].all(x, x)", "found no matching overload for '_&&_' applied to '(bool, int)'"),
    ] {
        let told = check(source).unwrap_err();
        assert!(told.starts_with("ERROR: <input>:1:") && told.contains(message), "{source}: {told}");
    }
    for (source, message) in [
        ("[1].all(1, true)", "argument must be a simple name"),
        ("[1].all(a, a, true)", "duplicate variable name: a"),
        ("[1].map(1 + 1, 1)", "1:11: argument is not an identifier"),
        ("[(1)].filter(object.a(1), true)", "argument is not an identifier"),
        ("[1].sortBy(1, 1)", "1:12: argument is not an identifier"),
        ("true &&\n[1].map('\u{e9}', 1)", "2:9: argument is not an identifier"),
        ("[1].transformList(1, x, 1)", "argument must be a simple name"),
        ("old.optMap(1, 1)", "optMap() variable name must be a simple identifier"),
        ("old.optFlatMap(1, old)", "optFlatMap() variable name must be a simple identifier"),
        ("has(1)", "invalid argument to has() macro"),
        ("if", "reserved identifier: if"),
        ("1 +", "Syntax error: "),
        ("'a' b 'c'", "Syntax error: mismatched input 'b' expecting <EOF>"),
        ("'a' b", "Syntax error: extraneous input 'b' expecting <EOF>"),
        ("(1).sortBy(x, x)", "sortBy can only be applied to a list"),
    ] {
        let told = check(source).unwrap_err();
        assert!(told.contains(message), "{source}: {told}");
    }
}

#[test]
fn literals_are_looked_at_where_types_have_no_fault() {
    let told = check("duration('x') == y && '%d'.format(['a']) == ''").unwrap_err();
    assert!(told.contains("undeclared reference to 'y'"), "{told}");
    assert!(!told.contains("invalid duration") && !told.contains("formatting"), "{told}");
}

#[test]
fn faults_show_their_places() {
    assert_eq!(
        check("request.user == 'a' &&\n  request.name").unwrap_err(),
        "ERROR: <input>:2:10: undefined field 'name'\n |   request.name\n | .........^"
    );
    assert_eq!(
        check("x || '\u{e9}\u{e9}' == y").unwrap_err(),
        "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x || '\u{e9}\u{e9}' == y\n | ^\n\
         ERROR: <input>:1:14: undeclared reference to 'y' (in container '')\n | x || '\u{e9}\u{e9}' == y\n | .............^"
    );
    assert_eq!(
        check("1 +\n'\u{e9}\u{e9}' + + 1").unwrap_err().lines().last(),
        Some(" | .......^"),
        "the parser's places, too"
    );
}
