//! Compiling the expressions of one policy, in its order.
//!
//! Owns the variables and the type that each place asks for. A policy is compiled when it is written, which keeps nothing,
//! and again from what is stored, before it is first evaluated.

use orch_expression::environments::{AdmissionTypes, AdmissionVariable, JSON_PATCH, MUTATED_OBJECT};
use orch_expression::{Ast, CompileError, Libraries, PatternLimits, Program, Scope, Type};
use orch_proto::Brand;

use crate::expression::{Charge, Exhausted};

/// Steps of compiling all expressions of a policy: a second, in which the largest public ones compile a hundred times.
pub const POLICY_COMPILE_STEPS_MAX: u64 = 10_000_000;

/// The place of an expression in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A match condition.
    Condition,
    /// A variable.
    Variable,
    /// The expression that has to hold.
    Validation,
    /// The message where it does not.
    Message,
    /// The value of an audit annotation.
    Annotation,
    /// A change of the object.
    Mutation,
}

/// The type that an expression has to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `bool`.
    Bool,
    /// `string`.
    Text,
    /// `string`, or nothing.
    TextOrNull,
    /// A part of an object.
    Configuration,
    /// Operations of a JSON patch.
    Patch,
}

/// The reason why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not compile, or has another type than its place asks for.
    Invalid(String),
    /// It has the type, and a pattern in it cannot be used. The reference reports this as a fault of its own.
    Internal(String),
}

impl Refusal {
    /// The text.
    pub fn into_text(self) -> String {
        match self {
            Refusal::Invalid(text) | Refusal::Internal(text) => text,
        }
    }
}

/// Compiles the expressions of one policy.
#[derive(Debug)]
pub struct Compiler<'b> {
    brand: &'b Brand,
    types: AdmissionTypes,
    has_params: bool,
    /// Whether expressions may name `variables`.
    has_variables: bool,
    /// Libraries that expressions of mutations have besides the usual ones.
    libraries: Libraries,
    /// Number of variables so far.
    variables: u64,
    /// The scopes of the places, as far as they were needed since the last variable.
    scopes: Vec<(Place, Scope)>,
}

impl<'b> Compiler<'b> {
    /// For a validating policy; `has_params`: it names a kind of parameters.
    pub fn validating(brand: &'static Brand, has_params: bool) -> Compiler<'b> {
        Compiler::of(brand, has_params, Libraries::default())
    }

    /// For a mutating policy.
    pub fn mutating(brand: &'static Brand, has_params: bool) -> Compiler<'b> {
        Compiler::of(brand, has_params, Libraries { mutations: true, ..Libraries::default() })
    }

    fn of(brand: &'static Brand, has_params: bool, libraries: Libraries) -> Compiler<'b> {
        let types = AdmissionTypes::of(brand.name);
        let scopes = Vec::new();
        Compiler { brand, types, has_params, has_variables: true, libraries, variables: 0, scopes }
    }

    /// The compiler of a policy that declares no variables: its expressions cannot name `variables`.
    #[must_use]
    pub fn without_variables(self) -> Compiler<'b> {
        Compiler { has_variables: false, ..self }
    }

    /// The program of `source`.
    ///
    /// # Errors
    /// The outer one: the steps are not left. The inner one: why it is no expression of `place` with the type `wanted`.
    pub fn compile(
        &mut self,
        source: &str,
        place: Place,
        wanted: &Wanted,
        charge: &mut dyn Charge,
    ) -> Result<Result<Program, Refusal>, Exhausted> {
        let scope = self.scope(place, charge)?;
        let ast = match Ast::check(source, &scope, charge)? {
            Ok(ast) => ast,
            Err(error) => return Ok(Err(failed(&error))),
        };
        if !wanted.admits(ast.result()) {
            let found = self.written(ast.result());
            let text = format!("must evaluate to {} but got {found}", wanted.written());
            return Ok(Err(Refusal::Invalid(text)));
        }
        program(ast, charge)
    }

    /// The program of a variable, which has any type. Expressions behind it may name it.
    ///
    /// # Errors
    /// As of [`Compiler::compile`].
    pub fn add_variable(
        &mut self,
        name: &str,
        source: &str,
        charge: &mut dyn Charge,
    ) -> Result<Result<Program, Refusal>, Exhausted> {
        let scope = self.scope(Place::Variable, charge)?;
        let mut of = Type::Error;
        let compiled = match Ast::check(source, &scope, charge)? {
            Ok(ast) => {
                let found = ast.result().clone();
                let program = program(ast, charge)?;
                if program.is_ok() {
                    of = found;
                }
                program
            }
            Err(error) => Err(failed(&error)),
        };
        self.types = self.types.clone().with_policy_variable(name, &of);
        self.variables += 1;
        self.scopes.clear();
        Ok(compiled)
    }

    /// The names that an expression of `place` may use. A scope has a table of all variables so far, which is charged for.
    fn scope(&mut self, place: Place, charge: &mut dyn Charge) -> Result<Scope, Exhausted> {
        // few: the places of a policy.
        if let Some((_, scope)) = self.scopes.iter().find(|(of, _)| *of == place) {
            return Ok(scope.clone());
        }
        charge.charge(self.variables.saturating_mul(2))?;
        let declared: Vec<AdmissionVariable> =
            AdmissionVariable::ALL.into_iter().filter(|of| self.declares(place, *of)).collect();
        // Variables and conditions make no parts of objects, as in the reference.
        let libraries = if place == Place::Mutation { self.libraries } else { Libraries::default() };
        let scope = self.types.scope(&declared, libraries);
        self.scopes.push((place, scope.clone()));
        Ok(scope)
    }

    fn declares(&self, place: Place, variable: AdmissionVariable) -> bool {
        match variable {
            AdmissionVariable::Params => self.has_params,
            AdmissionVariable::Variables => self.has_variables && place != Place::Condition,
            AdmissionVariable::Authorizer | AdmissionVariable::RequestResource => place != Place::Message,
            AdmissionVariable::Object
            | AdmissionVariable::OldObject
            | AdmissionVariable::Request
            | AdmissionVariable::NamespaceObject => true,
        }
    }

    /// A type as errors about the value of an expression write it.
    fn written(&self, of: &Type) -> String {
        match of {
            Type::Null => "null_type".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::List(item) => format!("list({})", self.written(item)),
            Type::Map(types) => format!("map({}, {})", self.written(&types.0), self.written(&types.1)),
            Type::Optional(value) => format!("optional_type({})", self.written(value)),
            Type::Opaque(name) if !name.starts_with("net.") => format!("{}.{name}", self.brand.name),
            other => other.to_string(),
        }
    }
}

impl Wanted {
    fn admits(self, of: &Type) -> bool {
        match self {
            Wanted::Bool => *of == Type::Bool,
            Wanted::Text => *of == Type::String,
            Wanted::TextOrNull => matches!(of, Type::String | Type::Null),
            Wanted::Configuration => is_object(of, MUTATED_OBJECT),
            Wanted::Patch => matches!(of, Type::List(item) if is_object(item, JSON_PATCH)),
        }
    }

    fn written(self) -> &'static str {
        match self {
            Wanted::Bool => "bool",
            Wanted::Text => "string",
            Wanted::TextOrNull => "one of [string null_type]",
            Wanted::Configuration => "Object",
            Wanted::Patch => "list(JSONPatch)",
        }
    }
}

fn is_object(of: &Type, name: &str) -> bool {
    matches!(of, Type::Object(found) if **found == *name)
}

/// The program of a checked expression, unless a pattern in it cannot be used.
fn program(ast: Ast, charge: &mut dyn Charge) -> Result<Result<Program, Refusal>, Exhausted> {
    let program = ast.program(PatternLimits::STANDING, charge)?;
    Ok(match program.refusal() {
        Some(reason) => Err(Refusal::Internal(reason)),
        None => Ok(program),
    })
}

fn failed(error: &CompileError) -> Refusal {
    Refusal::Invalid(format!("compilation failed: {error}"))
}
