//! Refusals when expressions are compiled, and the values of evaluations.

use serde_json::json;

use super::*;

const OBJECT: Shape = Shape::Object(&[("user", Shape::Text), ("groups", Shape::List), ("extra", Shape::Map)]);
const SCOPE: [(&str, Shape); 2] = [("request", OBJECT), ("claims", Shape::Map)];

fn compile(source: &str, wanted: Wanted) -> Result<Expression, String> {
    Expression::compile(source, &SCOPE, wanted).map_err(|error| error.to_string())
}

#[test]
fn faults_are_found_when_an_expression_is_compiled() {
    for (source, told) in [
        ("request.user ==", "compilation failed: "),
        ("requests.user == 'a'", "undeclared reference to 'requests'"),
        ("request.name == 'a'", "undefined field 'name'"),
        ("request.user", "must evaluate to bool"),
        ("'a'", "must evaluate to bool"),
        ("claims.x", "must evaluate to bool"),
        ("request.user.name == 'a'", "does not support field selection"),
        ("unknown(request.user)", "undeclared reference to 'unknown'"),
        ("[1].exists(x, y == 1)", "undeclared reference to 'y'"),
        ("claims.a.matches(claims.b)", "must be a literal"),
        ("claims.a.matches('a(')", "invalid matches argument: error parsing regexp: missing closing ): `a(`"),
        ("claims.a.replace('a', claims.b) == ''", "arguments of replace must be literals"),
        ("claims.a.join(claims.b) == ''", "arguments of join must be literals"),
        ("lists.range(claims.n) == []", "undeclared reference to 'range'"),
        ("'%d'.format([claims.n]) == ''", "undeclared reference to 'format'"),
        ("[1].all(a, [1].all(b, [1].all(c, true)))", "at most 2 loops"),
        ("Point{x: 1} == Point{x: 1}", "named types"),
        ("timestamp(claims.a) > timestamp(claims.b)", "undeclared reference to 'timestamp'"),
    ] {
        let refused = compile(source, Wanted::Bool).unwrap_err();
        assert!(refused.contains(told), "{source}: {refused}");
    }
    let long = format!("'{}' == ''", "x".repeat(EXPRESSION_BYTES_MAX));
    assert!(compile(&long, Wanted::Bool).unwrap_err().contains("at most"));
    let deep = format!("{}true{}", "(".repeat(4000), ")".repeat(4000));
    assert!(compile(&deep, Wanted::Bool).is_err());
}

#[test]
fn conditions_hold_or_not() {
    let request =
        Variable::new("request", &json!({"user": "ann", "groups": ["devs"], "extra": {"k": ["v"]}}));
    let claims = Variable::new("claims", &json!({"n": 3, "big": 1.5, "list": ["a", "b"], "on": true}));
    for (source, expected) in [
        ("request.user == 'ann'", Ok(true)),
        ("'devs' in request.groups && request.user.startsWith('b')", Ok(false)),
        ("has(request.extra.k) && request.extra['k'][0] == 'v'", Ok(true)),
        ("has(claims.none)", Ok(false)),
        ("claims.n + 1 == 4", Ok(true)),
        ("claims.list.exists_one(x, x == 'a')", Ok(true)),
        ("claims.list.all(x, x.matches('^[ab]$'))", Ok(true)),
        ("claims.list.map(x, x + 'c') == ['ac', 'bc']", Ok(true)),
        ("claims.on == true ? true : false", Ok(true)),
        ("request.user.upperAscii() == 'ANN'", Ok(true)),
        ("request.user.replace('a', 'b') == 'bnn'", Ok(true)),
        ("claims.list.join('-') == 'a-b'", Ok(true)),
        ("claims.?none.orValue('x') == 'x'", Ok(true)),
        ("claims.none == 1", Err(EvaluationError::NoSuchKey("none".to_owned()))),
        ("claims.none == 1 || true", Ok(true)),
    ] {
        let compiled = compile(source, Wanted::Bool).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(compiled.holds(&[&request, &claims]), expected, "{source}");
    }
}

/// The bounds of patterns that clients send do not hold for the operator's.
#[test]
fn patterns_of_configurations_may_be_larger_than_those_of_clients() {
    let names: Vec<String> = (0..300).map(|number| format!("team-{number}-admins")).collect();
    let source = format!("claims.team.matches('^(?:{})$')", names.join("|"));
    assert!(source.len() > 4000, "{}", source.len());
    let compiled = compile(&source, Wanted::Bool).unwrap();
    let team = |name: &str| Variable::new("claims", &json!({"team": name}));
    assert_eq!(compiled.holds(&[&team("team-299-admins")]), Ok(true));
    assert_eq!(compiled.holds(&[&team("team-300-admins")]), Ok(false));
    let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
    let scope = &[("claims", Shape::Any)];
    assert!(check_device_selector(&source, scope, &[], &mut allowance).unwrap().is_err());
}

#[test]
fn texts_are_taken_out() {
    let claims = Variable::new("claims", &json!({"a": "x", "l": ["y", "", "z"], "n": 1, "nil": null}));
    let texts = |items: &[&str]| Ok(Some(items.iter().map(|&item| item.to_owned()).collect()));
    for (source, expected) in [
        ("claims.a", texts(&["x"])),
        ("claims.l", texts(&["y", "z"])),
        ("claims.nil", texts(&[])),
        ("''", texts(&[])),
        ("claims.n", Ok(None)),
        ("[claims.n]", Ok(None)),
        ("claims.a.split('x')", texts(&[])),
    ] {
        assert_eq!(compile(source, Wanted::Any).unwrap().texts(&[&claims]), expected, "{source}");
    }
    assert_eq!(compile("claims.n", Wanted::Any).unwrap().text(&[&claims]), Ok(None));
    assert_eq!(compile("'p:' + claims.a", Wanted::Any).unwrap().text(&[&claims]), Ok(Some("p:x".to_owned())));
}

#[test]
fn an_evaluation_that_would_take_long_is_not_begun() {
    let small = Variable::new("claims", &json!({"list": vec![1; 50]}));
    let large = Variable::new("claims", &json!({"list": vec![1; 4000]}));
    let nested = compile("claims.list.all(a, claims.list.all(b, a == b))", Wanted::Bool).unwrap();
    assert_eq!(nested.holds(&[&small]), Ok(true));
    assert_eq!(nested.holds(&[&large]), Err(EvaluationError::Cost));
    let single = compile("claims.list.all(a, a == 1)", Wanted::Bool).unwrap();
    assert_eq!(single.holds(&[&Variable::new("claims", &json!({"list": vec![1; 500]}))]), Ok(true));
    let long = Variable::new("claims", &json!({"text": "a,".repeat(4000)}));
    let split = compile("claims.text.split(',').all(a, a == 'a')", Wanted::Bool).unwrap();
    assert_eq!(split.holds(&[&long]), Err(EvaluationError::Cost));
    assert_eq!(compile("claims.text.startsWith('a')", Wanted::Bool).unwrap().holds(&[&long]), Ok(true));
}

#[test]
fn members_that_are_read_are_known() {
    for (source, expected) in [
        ("claims.email", true),
        ("has(claims.email) ? claims.email : ''", true),
        ("claims.?email.orValue('')", true),
        ("claims['email']", true),
        ("[claims.list].map(x, claims.email)", true),
        ("claims.other.email", false),
        ("request.user", false),
    ] {
        assert_eq!(compile(source, Wanted::Any).unwrap().reads("claims", "email"), expected, "{source}");
    }
}

#[test]
fn expressions_of_other_programs_are_only_checked() {
    const DEVICE: Shape = Shape::Object(&[("driver", Shape::Text), ("attributes", Shape::Map)]);
    let checked = |source: &str| {
        let functions = &[("quantity", Shape::Any), ("isLessThan", Shape::Bool)];
        let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
        let selector =
            check_device_selector(source, &[("device", DEVICE)], functions, &mut allowance).unwrap();
        selector.map(|selector| selector.shape.name()).map_err(|error| error.to_string())
    };
    for (source, expected) in [
        ("device.driver == 'a'", "bool"),
        ("device.driver", "string"),
        ("device.attributes['d'].model", "dyn"),
        ("quantity('1').isLessThan(device.attributes['d'].size)", "bool"),
        ("cel.bind(d, device.attributes['d'], d.a && d.driver.matches(d.b))", "bool"),
        ("device.?attributes['d'].optMap(a, a.b).orValue(true)", "dyn"),
        ("[1].all(a, [1].all(b, [1].all(c, a + b + c > 0)))", "bool"),
        ("sets.contains(['a'], [device.driver])", "bool"),
    ] {
        assert_eq!(checked(source).as_deref(), Ok(expected), "{source}");
    }
    for (source, told) in [
        ("", "compilation failed: "),
        ("device.model == 'a'", "undefined field 'model'"),
        ("device.driver == 1", "no matching overload for '_==_' applied to '(string, int)'"),
        ("device.driver || true", "no matching overload"),
        ("unknown(device)", "undeclared reference"),
        ("device.driver.matches('a(')", "invalid matches argument: error parsing regexp: missing closing )"),
        ("device.driver.matches('(\\\\pL{60}){15}')", "the regular expression is too large"),
    ] {
        let refused = checked(source).unwrap_err();
        assert!(refused.contains(told), "{source}: {refused}");
    }
}

#[test]
fn long_chains_fit_into_the_stack_of_a_small_thread() {
    let check = || {
        for (first, next) in [
            ("1", "+1"),
            ("device", ".a"),
            ("true", "||true"),
            ("device", "[0]"),
            ("true", "?1:true"),
            ("", "!"),
        ] {
            for times in [parse::NESTING_MAX, 1000, 5000] {
                let source = format!("{first}{}", next.repeat(times));
                let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
                let _ = check_device_selector(&source, &[("device", Shape::Any)], &[], &mut allowance);
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}
