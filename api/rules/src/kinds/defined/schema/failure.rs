//! Failures of values against a schema, and the field errors that answers show of them.
//!
//! Owns the wording of the reference's schema validator, and which failure becomes which kind of error: a failure of a junctor
//! (`oneOf`) belongs to no field.

use std::fmt::Write as _;
use std::sync::Arc;

use orch_schema::budget::count_steps;
use orch_schema::excerpt::{beginning, quoted};
use orch_schema::value::{Number, Value};

use crate::validate::tree::shown;
use crate::validate::{FieldError, FieldErrorKind, FieldErrors, Path};

/// Bytes of the values of an enumeration that an error names. The longest recorded one has two thousand.
const ENUM_BYTES_MAX: usize = 16 * 1024;

/// The path that answers show for an error of no field.
const NO_FIELD: &str = "<nil>";

/// The place of a value: a chain of steps, of which a text is made only for a failure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'p> {
    /// The object, or the part of it that is checked.
    Root,
    /// The member of this name that a schema declares.
    Property(&'p Place<'p>, &'p str),
    /// The value under this key of a map.
    Key(&'p Place<'p>, &'p str),
    /// The item at this index.
    Index(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// The path in the validator's form; empty for the root. A key at the root follows a dot.
    pub(super) fn path(self) -> String {
        match self {
            Place::Root => String::new(),
            Place::Property(Place::Root, name) => beginning(name).to_owned(),
            Place::Property(outer, name) | Place::Key(outer, name) => {
                let mut path = outer.path();
                path.push('.');
                path.push_str(beginning(name));
                path
            }
            Place::Index(outer, index) => {
                let mut path = outer.path();
                write!(path, "[{index}]").expect("writing to a string does not fail");
                path
            }
        }
    }
}

/// One failure.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: Kind,
    /// The validator's path; for a failure of no field it is not shown.
    path: String,
    /// The sentence. Two failures of the same sentence are one.
    text: String,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Of no field.
    Composite,
    Required,
    /// The value as it is shown, and the values that are allowed: their names are made for an error that is shown.
    Enum(String, Arc<[Value]>),
    TooLong(i64),
    /// Count and bound.
    TooMany(i64, i64),
    /// The value as it is shown.
    Type(String),
    Invalid(String),
}

impl Failure {
    fn new(kind: Kind, path: String, text: String) -> Self {
        Failure { kind, path, text }
    }

    /// A failure of no field.
    pub(super) fn composite(text: String) -> Self {
        Self::new(Kind::Composite, String::new(), text)
    }

    /// The member `name` of the object at `place` is missing.
    pub(super) fn required(place: Place<'_>, name: &str) -> Self {
        let path = format!("{}.{}", place.path(), beginning(name));
        let text = format!("{path} in body is required");
        Self::new(Kind::Required, path, text)
    }

    /// The value has another type. `found`: its type as the validator calls it.
    pub(super) fn wrong_type(place: Place<'_>, wanted: &str, found: &str) -> Self {
        let path = place.path();
        let text = format!("{path} in body must be of type {wanted}: {}", quoted(found));
        Self::new(Kind::Type(quoted(found)), path, text)
    }

    /// The value is none that is allowed.
    pub(super) fn not_allowed(place: Place<'_>, value: &Value, allowed: &Arc<[Value]>) -> Self {
        let path = place.path();
        let text = format!("{path} in body should be one of");
        Self::new(Kind::Enum(shown_value(value), allowed.clone()), path, text)
    }

    /// Whether both say the same.
    fn is_same(&self, other: &Failure) -> bool {
        self.text == other.text
            && match (&self.kind, &other.kind) {
                (Kind::Enum(_, one), Kind::Enum(_, other)) => Arc::ptr_eq(one, other) || one == other,
                _ => true,
            }
    }

    /// The text is too long; `max` in characters.
    pub(super) fn too_long(place: Place<'_>, max: i64) -> Self {
        let path = place.path();
        let text = format!("{path} in body should be at most {max} chars long");
        Self::new(Kind::TooLong(max), path, text)
    }

    /// A list or a map of `count` members has more than `max`.
    pub(super) fn too_many(place: Place<'_>, count: i64, max: i64, members: &str) -> Self {
        let path = place.path();
        let text = format!("{path} in body should have at most {max} {members}");
        Self::new(Kind::TooMany(count, max), path, text)
    }

    /// Another fault: `detail` is the sentence behind the path. `value` as it is shown.
    pub(super) fn invalid(place: Place<'_>, value: String, detail: &str) -> Self {
        let path = place.path();
        let text = format!("{path} in body {detail}");
        Self::new(Kind::Invalid(value), path, text)
    }

    /// A fault whose sentence does not begin with the path.
    pub(super) fn other(place: Place<'_>, value: String, text: String) -> Self {
        Self::new(Kind::Invalid(value), place.path(), text)
    }

    /// The error that an answer shows. `base`: the path of the part that was checked.
    fn into_error(self, base: Option<&Path>) -> FieldError {
        let name = self.path.strip_prefix('.').unwrap_or(&self.path);
        let is_shown = !name.is_empty() && !matches!(self.kind, Kind::Composite);
        let path = match base {
            Some(base) if is_shown => Path::new(&format!("{base}.{name}")),
            Some(base) => base.clone(),
            None if is_shown => Path::new(name),
            None => Path::new(NO_FIELD),
        };
        let count = |count: i64| usize::try_from(count).unwrap_or_default();
        match self.kind {
            Kind::Composite => FieldError::invalid(path, "\"\"", &self.text),
            Kind::Required => FieldError::required(path, ""),
            Kind::Enum(value, allowed) => {
                let names = enum_names(&allowed);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                FieldError::not_supported_value(path, &value, &names)
            }
            Kind::TooLong(max) => FieldError::too_long(path, count(max)),
            Kind::TooMany(found, max) => FieldError::too_many(path, count(found), count(max)),
            Kind::Type(value) => {
                let error = FieldError::invalid(path, &value, &self.text);
                FieldError { kind: FieldErrorKind::TypeInvalid, ..error }
            }
            Kind::Invalid(value) => FieldError::invalid(path, &value, &self.text),
        }
    }
}

/// The result of checking one value against one node.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    failures: Vec<Failure>,
    /// Checks that applied and were passed, as the reference counts them: of several schemas that fail, the one with most of them
    /// is reported.
    pub(super) matches: usize,
}

/// Steps that a failure counts as: its path and its sentence are made, about a microsecond.
const FAILURE_STEPS: u64 = 40;

/// Failures that are kept of a value: more than an answer shows of an object.
const FAILURES_MAX: usize = 128;

impl Outcome {
    pub(super) fn of(failure: Failure) -> Self {
        let mut outcome = Outcome::default();
        outcome.push(failure);
        outcome
    }

    pub(super) fn passed(matches: usize) -> Self {
        Outcome { failures: Vec::new(), matches }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn push(&mut self, failure: Failure) {
        // Below junctors most failures are made and compared for nothing: each is paid for.
        if !count_steps(FAILURE_STEPS + self.failures.len() as u64) {
            return;
        }
        // few: at most FAILURES_MAX, and mostly none.
        if self.failures.len() < FAILURES_MAX && !self.failures.iter().any(|met| met.is_same(&failure)) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        if self.failures.is_empty() && !other.failures.is_empty() {
            self.failures = other.failures;
            return;
        }
        for failure in other.failures {
            self.push(failure);
        }
    }

    /// Drops all failures: the value was as bad before.
    pub(super) fn forgive(&mut self) {
        self.failures.clear();
    }

    pub(super) fn into_errors(self, base: Option<&Path>) -> FieldErrors {
        self.failures.into_iter().map(|failure| failure.into_error(base)).collect()
    }
}

/// The error that rules in expressions were not checked.
pub(super) fn unchecked_expressions() -> FieldError {
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                  complete validation";
    FieldError::invalid(Path::new(NO_FIELD), "null", detail)
}

/// A value as an error shows it.
pub(super) fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) => shown_number(number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => shown(value),
    }
}

/// The names of the values that are allowed, as many as an answer has room for.
fn enum_names(allowed: &[Value]) -> Vec<String> {
    let mut room = ENUM_BYTES_MAX;
    let fits = |name: &String| {
        let is_fitting = room > 0;
        room = room.saturating_sub(name.len());
        is_fitting
    };
    allowed.iter().map(enum_name).take_while(fits).collect()
}

/// A value that is allowed, before it is quoted.
fn enum_name(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => shown(other),
    }
}

/// A number as the reference prints it.
pub(super) fn shown_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => shown_float(float),
        (None, None) => number.to_string(),
    }
}

/// A float in the shortest digits: with an exponent of two digits below 1e-4 and from 1e21 on.
pub(super) fn shown_float(float: f64) -> String {
    let magnitude = float.abs();
    if magnitude == 0.0 || (1e-4..1e21).contains(&magnitude) {
        return float.to_string();
    }
    let text = format!("{float:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}
