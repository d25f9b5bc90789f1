//! The expressions of one policy or configuration of webhooks, compiled when it is written.
//!
//! Owns the allowance that they share, and the error of one that does not compile. Programs are thrown away: admission
//! compiles what is stored.

use orch_proto::Brand;
use orch_schema::value::Value;

use crate::expression::policy::{Compiler, POLICY_COMPILE_STEPS_MAX, Place, Refusal, Wanted};
use crate::expression::{Allowance, Exhausted};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, Path};

/// The error of an expression that takes too long to compile, alone or with those of its policy before it.
const TOO_COMPLEX: &str = "too complex, exceeds cost limit";

/// Compiles the expressions of one object in their order.
pub(in crate::kinds) struct Compiling<'b> {
    compiler: Compiler<'b>,
    allowance: Allowance,
}

impl Compiling<'_> {
    /// Those of the validating policy with this spec.
    pub(in crate::kinds) fn validating(brand: &'static Brand, spec: &Value) -> Self {
        let compiler = Compiler::validating(brand, spec.has("paramKind"));
        Compiling::of(if spec.items("variables").is_empty() {
            compiler.without_variables()
        } else {
            compiler
        })
    }

    /// Those of a configuration of webhooks, which has match conditions only.
    pub(in crate::kinds) fn webhooks(brand: &'static Brand) -> Self {
        Compiling::of(Compiler::validating(brand, false))
    }

    /// Those of the mutating policy with this spec.
    pub(in crate::kinds) fn mutating(brand: &'static Brand, spec: &Value) -> Self {
        Compiling::of(Compiler::mutating(brand, spec.has("paramKind")))
    }

    fn of(compiler: Compiler<'_>) -> Compiling<'_> {
        Compiling { compiler, allowance: Allowance::of(POLICY_COMPILE_STEPS_MAX) }
    }

    /// The error of the expression at `path`, if it is not one of `place` with the type `wanted`.
    pub(in crate::kinds) fn check(
        &mut self,
        source: &str,
        place: Place,
        wanted: &Wanted,
        path: &Path,
    ) -> Option<FieldError> {
        self.check_trimmed(source, (place, wanted), path, source)
    }

    /// The same for `source`, which stands in `shown` with blanks around it.
    pub(in crate::kinds) fn check_trimmed(
        &mut self,
        source: &str,
        (place, wanted): (Place, &Wanted),
        path: &Path,
        shown: &str,
    ) -> Option<FieldError> {
        let compiled = self.compiler.compile(source, place, wanted, &mut self.allowance);
        refusal(compiled.map(|compiled| compiled.map(drop)), shown, path)
    }

    /// The error of the expression of the variable `name`, which those behind it may name.
    pub(in crate::kinds) fn add_variable(
        &mut self,
        name: &str,
        source: &str,
        path: &Path,
    ) -> Option<FieldError> {
        let compiled = self.compiler.add_variable(name, source, &mut self.allowance);
        refusal(compiled.map(|compiled| compiled.map(drop)), source, path)
    }
}

fn refusal(compiled: Result<Result<(), Refusal>, Exhausted>, shown: &str, path: &Path) -> Option<FieldError> {
    match compiled {
        Ok(Ok(())) => None,
        Ok(Err(Refusal::Invalid(reason))) => Some(FieldError::invalid_str(path.clone(), shown, &reason)),
        Ok(Err(Refusal::Internal(reason))) => Some(FieldError::internal(path.clone(), &reason)),
        Err(Exhausted) => Some(FieldError::forbidden(path.clone(), TOO_COMPLEX)),
    }
}
