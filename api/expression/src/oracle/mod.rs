//! A second evaluator, and what it says of the first one.
//!
//! Owns an evaluator without places, slots, borrowed values or folded nodes ([`walk`]): it walks the tree that the parser
//! made, copies each value, and takes its costs from the tables of the reference. Times, quantities, versions, addresses,
//! networks, locators, formats and patterns it reads letter by letter, by their definitions ([`times`], [`amounts`],
//! [`addresses`], [`names`], [`patterns`]) and with nothing of the fast one's; so it does with the words for values that a function does
//! not take ([`mismatch`]), and with questions about rights ([`rights`]), some of which have no answer yet. Expressions, schemas and
//! documents are made from bytes ([`shape`], [`write`], [`write_lists`], [`write_server`], [`write_more`], [`words`]), so that a failing
//! case is made smaller byte by byte. Both evaluators have to agree
//! on the value, on the cost of what met no fault, and on the text of a single fault; where several faults meet, the language
//! leaves open which one is told. The estimate has to be no lower than the cost. Conditions of policies with their variables are made and
//! judged in the same way ([`policy`]).

mod addresses;
mod amounts;
mod calls;
mod formats;
mod lists;
mod mismatch;
mod names;
mod numbers;
mod patterns;
mod plain;
mod policy;
mod rights;
mod shape;
mod times;
mod walk;
mod words;
mod write;
mod write_lists;
mod write_more;
mod write_server;

use proptest::prelude::*;

use self::plain::Plain;
use self::rights::{Authorizer, UNDECIDED};
use self::shape::{Bytes, PREFIX, Shape, ShapeSizes};
use self::walk::{Told, Walk};
use self::write::Writer;
use crate::environments::{OldSelf, rule_scope};
use crate::library::access_checks::AUTHORIZER;
use crate::schema::{Keywords, Root, SchemaTypes};
use crate::{Allowance, Ast, Budget, EvaluationError, Limits, PatternLimits, Type, Val};

/// Functions whose estimate the reference takes from another operand than the cost, or from another factor, or whose result may be larger
/// than it thinks: a text has one place more than characters at which a pattern finds nothing.
const ESTIMATED_OTHERWISE: [&str; 11] = [
    "findAll(",
    "startsWith(",
    "endsWith(",
    "join(",
    "split(",
    "indexOf(",
    "lastIndexOf(",
    "sort()",
    "sortBy(",
    "distinct()",
    "validate(",
];

/// An expression over a document with a schema.
#[derive(Debug)]
struct Case {
    shape: Shape,
    source: String,
    document: orch_schema::value::Value,
}

fn case(bytes: &[u8]) -> Case {
    let mut bytes = Bytes::of(bytes);
    let shape = Shape::root(&mut bytes);
    let document = shape.document(&mut bytes);
    let source = Writer::over(&shape, &mut bytes).condition();
    Case { shape, source, document }
}

/// Whether the case compiles.
fn judge(case: &Case) -> Result<bool, String> {
    let declared = Keywords::with_prefix(PREFIX).declare(&case.shape.schema(), Root::Part);
    let declared = declared.ok_or("the schema has no type")?;
    let types = std::sync::Arc::new(SchemaTypes::of(&declared));
    let scope = rule_scope(&types, &declared, OldSelf::Value, "brand");
    let scope = scope.with_variable("authorizer", Type::Opaque(AUTHORIZER));
    let mut charge = Allowance::of(u64::MAX);
    let ast = Ast::check(&case.source, &scope, &mut charge).map_err(|_| "no steps are left")?;
    let Ok(ast) = ast else { return Ok(false) };
    let estimate = ast.estimate(&ShapeSizes(vec![("self", &case.shape)]));
    let mut walk = Walk::over(vec![("self", Plain::of(&case.document, &case.shape))]);
    let expected = walk.expression(&ast);
    let program = ast.program(PatternLimits::STANDING, &mut charge).map_err(|_| "no steps are left")?;
    let variables = [Some(declared.read(&case.document)), None, Some(Val::authorizer(&Authorizer))];
    let mut budget = Budget::UNBOUNDED;
    let found = program.evaluate(&variables, Limits::CALL, &mut budget);
    let cost = u64::MAX - budget.left();
    if compare(&found, &expected, cost, &walk)? && has_estimate(&case.source) && estimate.max < cost {
        return Err(format!("costs {cost}, estimated as {estimate:?}"));
    }
    Ok(true)
}

/// Whether the evaluation met no fault and has a cost that counts.
fn compare(
    found: &Result<Val<'_>, EvaluationError>,
    expected: &Told,
    cost: u64,
    walk: &Walk<'_>,
) -> Result<bool, String> {
    match (found, expected) {
        // Both meters end an evaluation; the slow one has none.
        (Err(EvaluationError::Cost), _) => return Ok(false),
        (Err(EvaluationError::Other(text)), _) if text.ends_with(&EvaluationError::Cost.to_string()) => {
            return Ok(false);
        }
        (Err(EvaluationError::Undecided(_)), Err(expected)) if expected == UNDECIDED => return Ok(false),
        (Err(EvaluationError::Undecided(_)), _) => return Err(format!("undecided, expected {expected:?}")),
        (_, Err(expected)) if expected == UNDECIDED => {
            return Err(format!("found {found:?}, expected a question"));
        }
        (Ok(found), Ok(expected)) if Plain::from(found) == *expected => {}
        (Err(found), Err(expected)) if walk.faults > 1 || found.to_string() == *expected => {}
        _ => return Err(format!("found {found:?}, expected {expected:?}")),
    }
    if walk.faults == 0 && cost != walk.cost {
        return Err(format!("costs {cost}, expected {}", walk.cost));
    }
    Ok(walk.faults == 0)
}

/// Whether the estimate of `source` is that of its cost.
fn has_estimate(source: &str) -> bool {
    // The reference takes the least size of these results for larger than it may be, and a replacement counts with the least size.
    let is_replaced = source.contains("replace(");
    let shortened = ["replace(", "substring(", "trim("].map(|name| source.matches(name).count());
    let is_understated = is_replaced && shortened.iter().sum::<usize>() > 1;
    !is_understated && !ESTIMATED_OTHERWISE.iter().any(|name| source.contains(name))
}

proptest! {
    #[test]
    fn both_evaluators_agree(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let case = case(&bytes);
        if let Err(reason) = judge(&case) {
            prop_assert!(false, "{}\n{reason}\nover {}", case.source, case.document);
        }
    }
}

#[test]
fn most_expressions_that_are_made_compile() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let compiled = (0..400).filter(|_| {
        let bytes: Vec<u8> = (0..400).map(|_| next()).collect();
        judge(&case(&bytes)) == Ok(true)
    });
    let compiled = compiled.count();
    assert!(compiled > 360, "{compiled} of 400");
}
