//! Conditions of policies, with variables that they share, over an object, a parameter and a request.
//!
//! Owns their cases. Object and parameter have types, as where a policy is checked against published schemas, or are of any type, as where
//! it is evaluated. Of the former the estimates of the condition and of its variables together have to be no lower than the cost; of the
//! latter the reference estimates too little, which decides nothing: policies have no bound of that kind.

use std::sync::Arc;

use orch_schema::value::Value;
use proptest::prelude::*;

use super::plain::Plain;
use super::rights::{Authorizer, target_of_request};
use super::shape::{Bytes, PREFIX, Shape, ShapeSizes};
use super::walk::Walk;
use super::write::{LEVELS, Writer};
use super::{compare, has_estimate};
use crate::cost::{Range, Sizes};
use crate::environments::{AdmissionTypes, AdmissionVariable};
use crate::group::{Group, LazyVariables};
use crate::schema::{Declared, Keywords, SchemaTypes};
use crate::{Allowance, Ast, Budget, Libraries, Limits, PatternLimits, Program, Val};

/// Names of the variables of a policy.
const VARIABLES: [&str; 3] = ["u", "v", "w"];

/// A condition with its variables, over documents of these shapes.
#[derive(Debug)]
struct Case {
    is_typed: bool,
    object: (Shape, Value),
    params: (Shape, Value),
    request: (Shape, Value),
    variables: Vec<(&'static str, String)>,
    source: String,
}

fn request() -> Shape {
    let text = || Shape::Text(4);
    let kind = [("group", text()), ("version", text()), ("kind", text())];
    let user = [
        ("username", text()),
        ("groups", Shape::List(4, Box::new(text()))),
        ("extra", Shape::Map(2, Box::new(Shape::List(2, Box::new(text()))))),
    ];
    let members = [
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("dryRun", Shape::Bool),
        ("kind", Shape::Object(kind.into())),
        ("userInfo", Shape::Object(user.into())),
    ];
    Shape::Object(members.into())
}

/// The shape of a variable.
fn shape_of_variable(bytes: &mut Bytes<'_>) -> Shape {
    let of = |shape| Box::new(shape);
    match bytes.below(8) {
        0 => Shape::Int,
        1 => Shape::Bool,
        2 => Shape::Text(0),
        3 => Shape::Double,
        4 => Shape::Duration,
        5 => Shape::List(0, of(Shape::Int)),
        6 => Shape::List(0, of(Shape::Text(0))),
        _ => Shape::Map(0, of(Shape::Int)),
    }
}

fn case(bytes: &[u8]) -> Case {
    let mut bytes = Bytes::of(bytes);
    let is_typed = bytes.below(2) == 0;
    let mut root = || {
        let shape = Shape::root(&mut bytes);
        let shape = if is_typed { shape } else { shape.untyped() };
        let document = shape.document(&mut bytes);
        (shape, document)
    };
    let (object, params) = (root(), root());
    let request = request();
    let request = (request.clone(), request.document(&mut bytes));
    let count = bytes.below(VARIABLES.len() + 1);
    let given = [("object", &object), ("params", &params), ("request", &request)];
    let names = given.map(|(name, (shape, _))| (name.to_owned(), shape.clone())).into();
    let mut writer = Writer { bytes: &mut bytes, names, has_request: true };
    let mut variables = Vec::new();
    for name in &VARIABLES[..count] {
        let shape = shape_of_variable(writer.bytes);
        variables.push((*name, writer.of(&shape, LEVELS - 1)));
        writer.names.push((format!("variables.{name}"), shape));
    }
    let source = writer.condition();
    Case { is_typed, object, params, request, variables, source }
}

/// The sizes of documents by their shapes, and of variables by their values.
struct CaseSizes<'s> {
    documents: ShapeSizes<'s>,
    walk: &'s Walk<'s>,
}

impl Sizes for CaseSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<Range> {
        match path {
            ["variables", name, rest @ ..] => size_in(self.walk.read(name)?, rest),
            _ => self.documents.size(path),
        }
    }
}

/// The most that the values behind `path` have.
fn size_in(value: &Plain, path: &[&str]) -> Option<Range> {
    let Some((step, rest)) = path.split_first() else {
        let is_sized = matches!(
            value,
            Plain::Text(_) | Plain::Bytes(_) | Plain::List(_) | Plain::Identified(..) | Plain::Map(_)
        );
        return Some(if is_sized { Range::new(0, value.size()) } else { Range::exactly(1) });
    };
    let parts: Vec<&Plain> = match (value, *step) {
        (Plain::List(items) | Plain::Identified(_, items), "@items") => items.iter().collect(),
        (Plain::Map(entries), "@keys") => entries.iter().map(|(key, _)| key).collect(),
        (Plain::Map(entries), "@values") => entries.iter().map(|(_, value)| value).collect(),
        _ => return None,
    };
    let sizes = parts.into_iter().map(|part| size_in(part, rest));
    sizes.reduce(|one, other| Some(one?.or(other?))).unwrap_or(Some(Range::default()))
}

/// Declarations of object and parameter, and the types of an environment.
struct Environment {
    read: [Arc<Declared>; 2],
    types: AdmissionTypes,
}

impl Environment {
    fn of(case: &Case) -> Option<Environment> {
        let mut types = AdmissionTypes::of("brand");
        let mut read = |variable: AdmissionVariable, shape: &Shape| {
            let keywords = Keywords::with_prefix(PREFIX);
            let declared = keywords.declare_published(&shape.schema(), variable.name())?;
            if case.is_typed {
                let known = Arc::new(SchemaTypes::of(&declared));
                types = types.clone().with_known(variable, declared.type_of(), known);
            }
            Some(declared)
        };
        let object = read(AdmissionVariable::Object, &case.object.0)?;
        let params = read(AdmissionVariable::Params, &case.params.0)?;
        Some(Environment { read: [object, params], types })
    }

    /// The variables and the condition, unless one of them does not compile.
    fn check(&self, case: &Case) -> Option<(Vec<(&'static str, Ast)>, Ast)> {
        let mut types = self.types.clone();
        let mut charge = Allowance::of(u64::MAX);
        let mut check = |types: &AdmissionTypes, source: &str| {
            let scope = types.scope(&AdmissionVariable::ALL, Libraries::default());
            Ast::check(source, &scope, &mut charge).ok()?.ok()
        };
        let mut variables = Vec::new();
        for (name, source) in &case.variables {
            let ast = check(&types, source)?;
            types = types.with_policy_variable(name, ast.result());
            variables.push((*name, ast));
        }
        Some((variables, check(&types, &case.source)?))
    }

    /// The values of the variables of admission.
    fn values<'v>(&'v self, case: &'v Case) -> Vec<Option<Val<'v>>> {
        let mut values = vec![None; AdmissionVariable::ALL.len()];
        let [object, params] = &self.read;
        let shown = |declared: &'v Declared, document: &'v Value| {
            if case.is_typed { declared.read(document) } else { Val::json(document) }
        };
        for (variable, value) in [
            (AdmissionVariable::Object, shown(object, &case.object.1)),
            (AdmissionVariable::Params, shown(params, &case.params.1)),
            (AdmissionVariable::Request, Val::json(&case.request.1)),
            (AdmissionVariable::Authorizer, Val::authorizer(&Authorizer)),
            (AdmissionVariable::RequestResource, Val::request_resource(&Authorizer, target_of_request())),
        ] {
            values[variable.place()] = Some(value);
        }
        values
    }
}

fn program(ast: Ast) -> Result<Program, String> {
    let program = ast.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX));
    program.map_err(|_| "no steps are left".to_owned())
}

/// Whether the case compiles.
fn judge(case: &Case) -> Result<bool, String> {
    let environment = Environment::of(case).ok_or("a schema has no type")?;
    let Some((variables, condition)) = environment.check(case) else { return Ok(false) };
    let given = [("object", &case.object), ("params", &case.params), ("request", &case.request)];
    let plain = given.map(|(name, (shape, document))| (name, Plain::of(document, shape)));
    let mut walk = Walk::over(plain.into()).with_variables(&variables);
    let expected = walk.expression(&condition);

    let values = environment.values(case);
    let (again, program_of) = environment.check(case).ok_or("it compiled once")?;
    let mut lazies = LazyVariables::at(AdmissionVariable::Variables.place());
    for (name, ast) in again {
        lazies.add(name, Ok(program(ast)?));
    }
    let program_of = program(program_of)?;
    let mut budget = Budget::UNBOUNDED;
    let found = Group::new(&values, &lazies).evaluate(&program_of, Limits::CALL, &mut budget);
    let cost = u64::MAX - budget.left();

    let sources = case.variables.iter().map(|(_, source)| source).chain([&case.source]);
    let is_estimated = case.is_typed && sources.into_iter().all(|source| has_estimate(source));
    if compare(&found, &expected, cost, &walk)? && is_estimated {
        let documents = ShapeSizes(given.map(|(name, (shape, _))| (name, shape)).into());
        let sizes = CaseSizes { documents, walk: &walk };
        let own = variables.iter().filter(|(name, _)| walk.read(name).is_some()).map(|(_, ast)| ast);
        let estimates = own.chain([&condition]).map(|ast| ast.estimate(&sizes).max);
        let estimate = estimates.fold(0_u64, u64::saturating_add);
        if estimate < cost {
            return Err(format!("costs {cost}, estimated as {estimate}"));
        }
    }
    Ok(true)
}

proptest! {
    #[test]
    fn both_evaluators_agree_on_policies(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let case = case(&bytes);
        if let Err(reason) = judge(&case) {
            prop_assert!(false, "{}\n{:?}\n{reason}\nover {case:?}", case.source, case.variables);
        }
    }
}

#[test]
fn most_policies_that_are_made_compile() {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    let compiled = (0..400).filter(|_| {
        let bytes: Vec<u8> = (0..600).map(|_| next()).collect();
        judge(&case(&bytes)) == Ok(true)
    });
    let compiled = compiled.count();
    assert!(compiled > 340, "{compiled} of 400");
}
