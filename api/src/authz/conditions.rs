//! Conditions under which a webhook is asked.
//!
//! Owns the shape of `request`, the spec of a SubjectAccessReview, and what several conditions together say.

use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use orch_rules::expression::{
    CompileError, EvaluationError, Expression, ObjectTable, Place, Type, Variable, Wanted,
};

/// Name of the variable.
const REQUEST: &str = "request";

/// `request` and its members.
static PLACE: LazyLock<Place> = LazyLock::new(|| {
    let texts = || Type::list(Type::String);
    let objects = ObjectTable::default()
        .with("Requirement", &[("key", Type::String), ("operator", Type::String), ("values", texts())])
        .with(
            "Selector",
            &[("rawSelector", Type::String), ("requirements", Type::list(Type::object("Requirement")))],
        )
        .with(
            "ResourceAttributes",
            &[
                ("namespace", Type::String),
                ("verb", Type::String),
                ("group", Type::String),
                ("version", Type::String),
                ("resource", Type::String),
                ("subresource", Type::String),
                ("name", Type::String),
                ("fieldSelector", Type::object("Selector")),
                ("labelSelector", Type::object("Selector")),
            ],
        )
        .with("NonResourceAttributes", &[("path", Type::String), ("verb", Type::String)])
        .with(
            "Request",
            &[
                ("user", Type::String),
                ("groups", texts()),
                ("uid", Type::String),
                ("extra", Type::map(Type::String, texts())),
                ("resourceAttributes", Type::object("ResourceAttributes")),
                ("nonResourceAttributes", Type::object("NonResourceAttributes")),
            ],
        );
    Place::new(&[(REQUEST, Type::object("Request"))], objects)
});

/// Members of `request` that are there even where the request leaves them empty.
const ALWAYS: [&str; 2] = ["user", "uid"];
/// The same of `request.resourceAttributes`.
const ALWAYS_OF_RESOURCE: [&str; 7] =
    ["namespace", "verb", "group", "version", "resource", "subresource", "name"];

/// Conditions that must all hold for a webhook to be asked.
#[derive(Default)]
pub struct Conditions(Vec<Expression>);

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Conditions {
    /// Compiles one condition.
    ///
    /// # Errors
    /// It is no expression over `request` whose value is a `bool`.
    pub fn compile(source: &str) -> Result<Expression, CompileError> {
        Expression::compile(source, &PLACE, Wanted::Bool)
    }

    /// These conditions.
    pub fn new(conditions: Vec<Expression>) -> Conditions {
        Conditions(conditions)
    }

    /// Whether a request with this spec of a SubjectAccessReview (v1) meets all conditions. One that is not met decides,
    /// whatever the others say. One that would cost too much for this request counts as met: a client chooses how large its
    /// request is, and must not choose thereby that a webhook which would deny it is not asked.
    ///
    /// # Errors
    /// None is unmet, and at least one has no value.
    pub(super) fn hold(&self, spec: &Map<String, Value>) -> Result<bool, EvaluationError> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let request = Variable::new(REQUEST, &whole(spec));
        let mut fault = None;
        for condition in &self.0 {
            match condition.holds(&[&request]) {
                Ok(true) | Err(EvaluationError::Cost) => {}
                Ok(false) => return Ok(false),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(true), Err)
    }
}

/// The spec with its empty members.
fn whole(spec: &Map<String, Value>) -> Value {
    let mut spec = spec.clone();
    for name in ALWAYS {
        spec.entry(name).or_insert_with(|| json!(""));
    }
    spec.entry("groups").or_insert_with(|| json!([]));
    spec.entry("extra").or_insert_with(|| json!({}));
    if let Some(attributes) = spec.get_mut("resourceAttributes").and_then(Value::as_object_mut) {
        for name in ALWAYS_OF_RESOURCE {
            attributes.entry(name).or_insert_with(|| json!(""));
        }
    }
    if let Some(attributes) = spec.get_mut("nonResourceAttributes").and_then(Value::as_object_mut) {
        for name in ["path", "verb"] {
            attributes.entry(name).or_insert_with(|| json!(""));
        }
    }
    Value::Object(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(sources: &[&str]) -> Conditions {
        Conditions::new(sources.iter().map(|source| Conditions::compile(source).unwrap()).collect())
    }

    #[test]
    fn an_unmet_condition_decides_and_a_fault_counts_only_without_one() {
        let spec = json!({"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}});
        let fault = "request.nonResourceAttributes.path == '/x'";
        for (sources, expected) in [
            (vec![], Ok(true)),
            (vec!["request.user == 'ann'"], Ok(true)),
            (vec!["request.user == 'ann'", "request.user == 'tom'"], Ok(false)),
            (vec![fault, "request.user == 'tom'"], Ok(false)),
            (
                vec![fault, "request.user == 'ann'"],
                Err(EvaluationError::NoSuchKey("nonResourceAttributes".into())),
            ),
            (vec!["has(request.resourceAttributes) && request.resourceAttributes.namespace == ''"], Ok(true)),
            (vec!["!has(request.nonResourceAttributes)"], Ok(true)),
            (vec!["!('system:masters' in request.groups)"], Ok(true)),
        ] {
            assert_eq!(conditions(&sources).hold(spec.as_object().unwrap()), expected, "{sources:?}");
        }
    }

    #[test]
    fn a_condition_names_members_of_the_request() {
        for source in
            ["request.resourceAttributes.kind == 'x'", "object.metadata.name == 'x'", "request.user"]
        {
            assert!(Conditions::compile(source).is_err(), "{source}");
        }
    }
}
