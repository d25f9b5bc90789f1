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
        nested("size(", "'a'", ")"),
        nested("", "device", ".a"),
        nested("1 + (", "1", ")"),
        nested("-(", "1", ")"),
        nested("[1].all(a, ", "true", ")"),
        nested("[1].map(a, ", "1", ")"),
        nested("[1].transformList(a, b, ", "1", ")"),
        nested("{1: 1}.transformMap(a, b, ", "1", ")"),
        nested("[1].sortBy(a, ", "1", ")"),
        nested("cel.bind(x, 1, ", "1", ")"),
        nested("cel.bind(x, ", "1", ", x)"),
        nested("", "optional.of(1)", ".optMap(x, x)"),
        nested("true ? 1 : (", "1", ")"),
    ]
}

#[test]
fn the_deepest_expressions_fit_into_the_stack_of_a_thread() {
    for source in deepest() {
        for stage in ["parse", "check", "evaluate"] {
            let source = source.clone();
            let work = move || {
                let scope = Scope::default()
                    .with_libraries(Libraries { devices: true })
                    .with_variable("device", Type::Dyn);
                let mut charge = Allowance::of(u64::MAX);
                if stage == "parse" {
                    parse(&source, scope.libraries(), &mut charge).unwrap().unwrap();
                    return;
                }
                let ast = Ast::check(&source, &scope, &mut charge).unwrap().unwrap();
                if stage == "check" {
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
