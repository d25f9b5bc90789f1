//! Costs of evaluations and estimates, from the reference's rules. [`Text20`] gives each text twenty characters.

use orch_schema::json;

use crate::allowance::Allowance;
use crate::cost::{Range, Sizes};
use crate::evaluate::{Budget, Limits};
use crate::pattern::PatternLimits;
use crate::program::Ast;
use crate::scope::{ObjectTable, Scope};
use crate::types::Type;
use crate::value::Val;

fn scope() -> Scope {
    let objects = ObjectTable::default().with(
        "self",
        &[
            ("s", Type::String),
            ("n", Type::Int),
            ("l", Type::list(Type::String)),
            ("m", Type::map(Type::String, Type::Int)),
        ],
    );
    Scope::default()
        .with_objects(objects)
        .with_variable("self", Type::object("self"))
        .with_variable("d", Type::Dyn)
}

struct Text20;

impl Sizes for Text20 {
    fn size(&self, path: &[&str]) -> Option<Range> {
        match path {
            ["self", "s"] | ["self", "l", "@items"] => Some(Range::new(0, 20)),
            ["self", "l"] | ["self", "m"] => Some(Range::new(0, 5)),
            ["self", ..] => Some(Range::exactly(0)),
            _ => None,
        }
    }
}

fn ast(source: &str) -> Ast {
    let checked = Ast::check(source, &scope(), &mut Allowance::of(u64::MAX)).unwrap();
    checked.unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn cost(source: &str) -> u64 {
    let document = json!({"s": "abcdefghijklmno", "n": 3, "l": ["a", "b", "c"], "m": {"k": 1}});
    let program = ast(source).program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
    let mut budget = Budget::of(1_000_000);
    let variables = [Some(Val::json(&document)), Some(Val::json(&document))];
    let value = program.evaluate(&variables, Limits::CALL, &mut budget);
    value.unwrap_or_else(|error| panic!("{source}: {error}"));
    1_000_000 - budget.left()
}

#[test]
fn evaluations_cost_what_the_reference_counts() {
    for (source, expected) in [
        ("true", 0),
        ("[1, 2, 3]", 0),
        ("self.n", 2),
        ("has(self.n)", 1),
        // Two steps of the path, and the comparison of two values of size one.
        ("self.n == 3", 3),
        // 1 + 1 + ceil(0.1 * min(15, 3))
        ("self.s == 'abc'", 3),
        ("self.s.startsWith('abc')", 4),
        ("self.s.contains('abc')", 4),
        ("self.s.matches('^a.*')", 2 + 2),
        ("self.s + 'abcdefghij'", 2 + 3),
        ("size(self.l) == 3", 4),
        ("'a' in self.l", 2 + 3),
        ("'a' in ['a', 'b']", 0),
        ("self.l[0]", 3),
        ("self.m['k']", 3),
        ("self.m.k", 3),
        ("[self.n]", 12),
        ("{'a': self.n}", 32),
        ("true || self.n == 3", 0),
        ("self.n == 4 && self.n == 3", 3),
        ("self.n == 3 ? 1 : self.n", 3),
        ("timestamp('2026-01-01T00:00:00Z').getFullYear()", 1),
        ("string(self.n)", 3),
        ("dyn(self.n)", 3),
        // The range, and for each round: the condition (2), the accumulator (1), the element (1), the comparison (1).
        ("self.l.all(x, x != 'z')", 2 + 3 * 5 + 1),
        // For each round: accumulator, list, sum, element.
        ("self.l.map(x, x)", 2 + 3 * 13 + 1),
        ("self.l.join(',')", 2 + 1),
        ("self.s.replace('a', 'b')", 2 + 3),
        ("self.s.split('c')", 2 + 3),
        ("self.s.upperAscii()", 2 + 2),
        ("sets.contains(self.l, ['a'])", 2 + 4),
        ("self.l.slice(0, 2)", 2 + 13),
        ("self.l.distinct()", 2 + 29),
        ("lists.range(3)", 14),
        ("quantity('10Gi').isLessThan(quantity('1Ti'))", 3),
        ("d.s + d.s", 5),
        ("bytes(self.s)", 2 + 2),
        ("bytes(d.s)", 2 + 1),
    ] {
        assert_eq!(cost(source), expected, "{source}");
    }
}

#[test]
fn estimates_are_those_of_the_reference() {
    for (source, min, max) in [
        ("true", 0, 0),
        // A number behind a path has no size.
        ("self.n == 5", 2, 2),
        ("self.s == 'abc'", 3, 3),
        ("size(self.l) == 5", 4, 4),
        ("self.s.startsWith('abc')", 3, 3),
        ("self.s.contains('abc')", 2, 4),
        ("self.l.all(x, x == 'abcdefghijk')", 3, 3 + 5 * 6),
        ("d.s == 'a'", 2, 2),
        ("[self.n]", 12, 12),
        ("true || self.n == 3", 0, 2),
        ("has(self.s) ? self.s == 'a' : true", 1, 4),
        ("self.s.replace('a', 'bb')", 2, 6),
        ("self.l.map(x, x)", 13, 13 + 5 * 13),
    ] {
        assert_eq!(ast(source).estimate(&Text20), Range::new(min, max), "{source}");
    }
    let unknown = ast("d.s == d.t").estimate(&Text20);
    assert!(unknown.max > 1 << 50, "{unknown:?}");
}

#[test]
fn an_evaluation_never_costs_more_than_its_estimate() {
    for source in [
        "self.l.all(x, x != 'z')",
        "self.l.map(x, x).join(',').size() > 0",
        "self.s.contains('abc') && self.s.matches('a+')",
        "self.l.filter(x, x in self.m).size() == 0",
        "self.m.all(k, v, v > 0 && k != '')",
        "self.l.exists_one(x, x == 'a') ? self.s : 'b'",
    ] {
        let estimate = ast(source).estimate(&Text20);
        assert!(
            (estimate.min..=estimate.max).contains(&cost(source)),
            "{source}: {estimate:?} {}",
            cost(source)
        );
    }
}

#[test]
fn an_evaluation_ends_at_its_limit_and_spends_a_budget() {
    let program = ast("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))");
    let program = program.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
    let mut budget = Budget::of(1_500_000);
    let refused = program.evaluate(&[None, None], Limits::CALL, &mut budget).unwrap_err();
    assert_eq!(refused.to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(!budget.is_exceeded());
    let _ = program.evaluate(&[None, None], Limits::CALL, &mut budget);
    assert!(budget.is_exceeded() && budget.left() == 0);
}

/// The reference remembers no size of an address, a network, a quantity or a version, and compares what has none at the price of the longest
/// text; only equality has a price of its own.
#[test]
fn parsed_values_have_no_size() {
    for (one, other) in [("ip", "ip"), ("cidr", "cidr"), ("quantity", "quantity"), ("semver", "semver")] {
        let cost =
            |operator: &str| ast(&format!("{one}(self.s) {operator} {other}(self.s)")).estimate(&Text20).max;
        assert_eq!(cost("=="), 2 * (2 + 2) + 1, "{one}");
        assert!(cost("!=") > 1_000_000_000, "{one}: {}", cost("!="));
    }
}
