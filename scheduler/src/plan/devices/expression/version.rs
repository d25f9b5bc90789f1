//! Semantic versions as values of expressions.

use std::any::Any;

use cel::common::types::{CelBool, CelInt, CelString, Kind, Type};
use cel::common::value::{StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use semver::Version;

use super::quantity::number;

static SEMVER: Type = Type::simple_type(Kind::Opaque, "Semver");

/// A version. Build metadata has no part in comparisons.
#[derive(Clone, Debug)]
pub(super) struct CelVersion(pub(super) Version);

impl Val for CelVersion {
    fn get_type(&self) -> &Type {
        &SEMVER
    }

    fn cel_type() -> &'static Type {
        &SEMVER
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<CelVersion>().is_some_and(|other| other.0.cmp_precedence(&self.0).is_eq())
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelVersion {}

/// Adds `semver()`, `isSemver()` and the methods of versions.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_overload!(env, fn strict: (CelString) -> Result<CelVersion>, name = "semver")?;
    cel::add_overload!(env, fn lenient: (CelString, CelBool) -> Result<CelVersion>, name = "semver")?;
    cel::add_overload!(env, fn is_strict: (CelString) -> CelBool, name = "isSemver")?;
    cel::add_overload!(env, fn is_lenient: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    cel::add_member_overload!(env, fn compare_to: (CelVersion, CelVersion) -> CelInt)?;
    cel::add_member_overload!(env, fn is_greater_than: (CelVersion, CelVersion) -> CelBool)?;
    cel::add_member_overload!(env, fn is_less_than: (CelVersion, CelVersion) -> CelBool)?;
    cel::add_member_overload!(env, fn major: (CelVersion) -> CelInt)?;
    cel::add_member_overload!(env, fn minor: (CelVersion) -> CelInt)?;
    cel::add_member_overload!(env, fn patch: (CelVersion) -> CelInt)?;
    env.add_type(Type::simple_type(Kind::Opaque, "Semver"))
}

/// The version `text`, with `normalize` also without minor and patch number, with a leading `v` and leading zeros.
fn parse(text: &str, normalize: bool) -> Option<Version> {
    if !normalize {
        return Version::parse(text).ok();
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers.split('.').collect();
    numbers.resize(numbers.len().max(3), "0");
    let trimmed = numbers.into_iter().map(|number| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        trimmed => trimmed,
    });
    Version::parse(&(trimmed.collect::<Vec<_>>().join(".") + rest)).ok()
}

fn made(version: Option<Version>) -> Result<CelVersion, ExecutionError> {
    version.map(CelVersion).ok_or_else(|| ExecutionError::function_error("semver", "no semantic version"))
}

fn strict(text: &CelString<'_>) -> Result<CelVersion, ExecutionError> {
    made(parse(text.inner(), false))
}

fn lenient(text: &CelString<'_>, normalize: &CelBool) -> Result<CelVersion, ExecutionError> {
    made(parse(text.inner(), *normalize.inner()))
}

fn is_strict(text: &CelString<'_>) -> CelBool {
    CelBool::from(parse(text.inner(), false).is_some())
}

fn is_lenient(text: &CelString<'_>, normalize: &CelBool) -> CelBool {
    CelBool::from(parse(text.inner(), *normalize.inner()).is_some())
}

fn compare_to(one: &CelVersion, other: &CelVersion) -> CelInt {
    number(one.0.cmp_precedence(&other.0))
}

fn is_greater_than(one: &CelVersion, other: &CelVersion) -> CelBool {
    CelBool::from(one.0.cmp_precedence(&other.0).is_gt())
}

fn is_less_than(one: &CelVersion, other: &CelVersion) -> CelBool {
    CelBool::from(one.0.cmp_precedence(&other.0).is_lt())
}

fn part(part: u64) -> CelInt {
    CelInt::from(i64::try_from(part).unwrap_or(i64::MAX))
}

fn major(one: &CelVersion) -> CelInt {
    part(one.0.major)
}

fn minor(one: &CelVersion) -> CelInt {
    part(one.0.minor)
}

fn patch(one: &CelVersion) -> CelInt {
    part(one.0.patch)
}
