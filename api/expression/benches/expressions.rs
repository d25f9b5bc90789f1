//! The cost of one rule: compiling it, and evaluating it over an object of 4 kB.
//!
//! Prints one line for each rule: nanoseconds of an evaluation (the fastest of many turns), microseconds of compiling, and
//! the reference's cost. Nothing is asserted: figures of one machine and one moment. Run with
//! `make microbench BENCH=expressions`.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orch_expression::environments::{OldSelf, rule_scope};
use orch_expression::schema::{Declared, Keywords, Root, SchemaTypes};
use orch_expression::{Allowance, Ast, Budget, Limits, PatternLimits, Program, Scope, Val};
use orch_schema::json;
use orch_schema::value::Value;

/// Turns of each measurement, of which the fastest counts, and evaluations in a turn.
const TURNS: u32 = 200;
const EVALUATIONS: u32 = 500;

const RULES: [(&str, &str); 9] = [
    ("two fields", "self.spec.replicas <= self.spec.maxReplicas"),
    ("optional field", "!has(self.spec.mode) || self.spec.mode != 'none'"),
    ("one of", "self.spec.mode in ['fast', 'slow', 'none']"),
    ("unchanged", "self.spec.template == oldSelf.spec.template"),
    ("pattern", "self.spec.host.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')"),
    ("all of ten", "self.spec.ports.all(p, p.port > 0 && p.port < 65536)"),
    ("unique", "self.spec.ports.all(p, self.spec.ports.exists_one(q, q.name == p.name))"),
    ("texts", "self.spec.host.split('.').map(x, x.upperAscii()).join('-').size() < 100"),
    ("exclusive", "[has(self.spec.mode), has(self.spec.host), has(self.spec.none)].filter(x, x).size() == 2"),
];

fn schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer"}, "maxReplicas": {"type": "integer"},
        "mode": {"type": "string"}, "host": {"type": "string"}, "none": {"type": "string"},
        "ports": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "port": {"type": "integer"},
        }}},
        "template": {"type": "object", "additionalProperties": {"type": "string"}},
    }}}})
}

/// An object of 4 kB.
fn object() -> Value {
    let ports: Vec<Value> =
        (0..10).map(|at| json!({"name": format!("port-{at}"), "port": 8000 + at})).collect();
    let mut template = json!({});
    for at in 0..60 {
        template[format!("a-longer-key-{at}").as_str()] =
            Value::from(format!("the value of the key with the number {at}"));
    }
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {
        "replicas": 3, "maxReplicas": 5, "mode": "slow", "host": "web-1", "ports": ports, "template": template,
    }})
}

fn compile(source: &str, scope: &Scope) -> Program {
    let mut charge = Allowance::of(u64::MAX);
    let ast = Ast::check(source, scope, &mut charge).expect("the steps suffice");
    let ast = ast.unwrap_or_else(|error| panic!("{source}: {error}"));
    ast.program(PatternLimits::STANDING, &mut charge).expect("the steps suffice")
}

/// The fastest of some turns of `times` runs, for one run.
fn fastest(times: u32, mut work: impl FnMut()) -> Duration {
    let turns = (0..TURNS).map(|_| {
        let began = Instant::now();
        (0..times).for_each(|_| work());
        began.elapsed() / times
    });
    turns.min().unwrap_or_default()
}

fn main() {
    let keywords = Keywords::with_prefix("x-bench-");
    let declared: Arc<Declared> = keywords.declare(&schema(), Root::Resource).expect("the schema has a type");
    let types = Arc::new(SchemaTypes::of(&declared));
    let scope = rule_scope(&types, &declared, OldSelf::Value, "orch");
    let (new, old) = (object(), object());
    println!("an object of {} bytes", new.to_string().len());
    println!("{:<16} {:>10} {:>11} {:>6}", "rule", "evaluation", "compilation", "cost");
    for (name, source) in RULES {
        let program = compile(source, &scope);
        let mut cost = 0;
        let evaluation = fastest(EVALUATIONS, || {
            // A write reads its values once and evaluates all rules over them; here each evaluation reads them.
            let variables = [Some(declared.read(&new)), Some(declared.read(&old))];
            let mut budget = Budget::of(10_000_000);
            let value = program.evaluate(&variables, Limits::CALL, &mut budget);
            assert!(matches!(black_box(value), Ok(Val::Bool(true))), "{source}");
            cost = 10_000_000 - budget.left();
        });
        let compilation = fastest(1, || {
            black_box(compile(source, &scope));
        });
        let (evaluation, compilation) = (evaluation.as_nanos(), compilation.as_micros());
        println!("{name:<16} {evaluation:>7} ns {compilation:>8} us {cost:>6}");
    }
}
