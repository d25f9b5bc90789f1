//! Refusals when expressions are compiled, and the values of evaluations.

use std::sync::LazyLock;

use serde_json::json;

use super::*;

static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let members = [
        ("user", Type::String),
        ("groups", Type::list(Type::String)),
        ("extra", Type::map(Type::String, Type::list(Type::String))),
    ];
    let variables = [("request", Type::object("request")), ("claims", Type::map(Type::String, Type::Any))];
    Place::new(&variables, ObjectTable::default().with("request", &members))
});

fn compile(source: &str, wanted: Wanted) -> Result<Expression, String> {
    Expression::compile(source, &PLACE, wanted).map_err(|error| error.to_string())
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
        ("claims.a.matches('a(')", "invalid matches argument"),
        ("Point{x: 1} == Point{x: 1}", "undeclared reference to 'Point'"),
        ("request.user == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("timestamp('x') == timestamp(claims.b)", "invalid timestamp argument"),
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
        ("claims.list[0].matches(claims.list[0])", Ok(true)),
        ("claims.list.map(a, claims.list.map(b, claims.list.filter(c, c == a))).size() == 2", Ok(true)),
        ("'%s-%d'.format([request.user, dyn(claims.n)]) == 'ann-3'", Ok(true)),
        ("request.user.replace('a', claims.list[1]) == 'bnn'", Ok(true)),
        ("timestamp('2026-01-01T00:00:00Z') < timestamp('2026-01-01T00:00:01Z')", Ok(true)),
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
    let of_client = source.replace("claims.team", "device.driver");
    assert!(check_device_selector(&of_client, &mut allowance).unwrap().is_err());
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
fn an_evaluation_that_takes_long_is_broken_off() {
    let small = Variable::new("claims", &json!({"list": vec![1; 50]}));
    let large = Variable::new("claims", &json!({"list": vec![1; 4000]}));
    let nested = compile("claims.list.all(a, claims.list.all(b, a == b))", Wanted::Bool).unwrap();
    assert_eq!(nested.holds(&[&small]), Ok(true));
    assert_eq!(nested.holds(&[&large]), Err(EvaluationError::Cost));
    let single = compile("claims.list.all(a, a == 1)", Wanted::Bool).unwrap();
    assert_eq!(single.holds(&[&large]), Ok(true));
    let long = Variable::new("claims", &json!({"text": "a,".repeat(4000)}));
    let split = compile("claims.text.split(',').all(a, claims.text.contains(a))", Wanted::Bool).unwrap();
    assert_eq!(split.holds(&[&long]), Err(EvaluationError::Cost));
    let grown = "claims.text.replace('a', claims.text).replace('a', claims.text).size() > 0";
    assert_eq!(compile(grown, Wanted::Bool).unwrap().holds(&[&long]), Err(EvaluationError::Cost));
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
    let checked = |source: &str| {
        let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
        let selector = check_device_selector(source, &mut allowance).unwrap();
        selector.map(|selector| selector.result.to_string()).map_err(|error| error.to_string())
    };
    for (source, expected) in [
        ("device.driver == 'a'", "bool"),
        ("device.driver", "string"),
        ("device.attributes['d'].model", "any"),
        ("quantity('1').isLessThan(device.attributes['d'].size)", "bool"),
        ("cel.bind(d, device.attributes['d'], d.a && d.driver.matches(d.b))", "bool"),
        ("device.?attributes['d'].optMap(a, a.b).orValue(true)", "any"),
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
        ("device.driver.matches('a(')", "invalid matches argument"),
        ("device.driver.matches('(\\\\pL{60}){15}')", "invalid matches argument"),
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
            for times in [100, 1000, 5000] {
                let source = format!("{first}{}", next.repeat(times));
                let mut allowance = Allowance::of(OBJECT_COMPILE_STEPS_MAX);
                let _ = check_device_selector(&source, &mut allowance);
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(check).unwrap().join().unwrap();
}
