//! Members of the objects that admission shows.
//!
//! Owns the table of `request` and `namespaceObject`, the object whose members are a policy's variables, and those that mutations make.

use std::collections::HashMap;
use std::sync::Arc;

use crate::schema::SchemaTypes;
use crate::scope::Objects;
use crate::types::Type;

/// Names of the objects that admission shows, behind the brand's.
pub(super) const REQUEST: &str = "AdmissionRequest";
pub(super) const NAMESPACE: &str = "Namespace";
pub(super) const VARIABLES: &str = "variables";

/// Members of one object type, in the notation of declarations; a name of this table stands for that object.
type Rows = &'static [(&'static str, &'static [(&'static str, &'static str)])];

const OBJECTS: Rows = &[
    (
        REQUEST,
        &[
            ("kind", "GroupVersionKind"),
            ("resource", "GroupVersionResource"),
            ("subResource", "string"),
            ("requestKind", "GroupVersionKind"),
            ("requestResource", "GroupVersionResource"),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", "UserInfo"),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    ),
    ("GroupVersionKind", &[("group", "string"), ("version", "string"), ("kind", "string")]),
    ("GroupVersionResource", &[("group", "string"), ("version", "string"), ("resource", "string")]),
    (
        "UserInfo",
        &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list(string)"),
            ("extra", "map(string, list(string))"),
        ],
    ),
    (
        NAMESPACE,
        &[("metadata", "NamespaceMetadata"), ("spec", "NamespaceSpec"), ("status", "NamespaceStatus")],
    ),
    (
        "NamespaceMetadata",
        &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map(string, string)"),
            ("annotations", "map(string, string)"),
            // So in the reference, where documents have `uid`.
            ("UID", "string"),
            ("creationTimestamp", "timestamp"),
            ("deletionTimestamp", "timestamp"),
            ("deletionGracePeriodSeconds", "int"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list(string)"),
        ],
    ),
    ("NamespaceSpec", &[("finalizers", "list(string)")]),
    ("NamespaceStatus", &[("conditions", "list(NamespaceCondition)"), ("phase", "string")]),
    (
        "NamespaceCondition",
        &[
            ("status", "string"),
            ("type", "string"),
            ("lastTransitionTime", "timestamp"),
            ("message", "string"),
            ("reason", "string"),
        ],
    ),
];

/// The table of [`OBJECTS`] under a brand.
#[derive(Debug)]
pub(super) struct ServerObjects(HashMap<(String, &'static str), Type>);

impl ServerObjects {
    /// The table under the brand of this name.
    pub(super) fn of(brand: &str) -> ServerObjects {
        let mut members = HashMap::new();
        for (object, rows) in OBJECTS {
            for (member, of) in *rows {
                members.insert((format!("{brand}.{object}"), *member), declared(of, brand));
            }
        }
        ServerObjects(members)
    }
}

/// Reads the notation of declarations, where a name of [`OBJECTS`] stands for that object.
fn declared(text: &str, brand: &str) -> Type {
    if let Some(item) = text.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')')) {
        return Type::list(declared(item, brand));
    }
    // few: the objects of admission.
    if OBJECTS.iter().any(|(object, _)| *object == text) {
        return Type::object(&format!("{brand}.{text}"));
    }
    Type::declared(text)
}

impl Objects for ServerObjects {
    fn member(&self, object: &str, member: &str) -> Option<Type> {
        // few: members of one name.
        let mut found = self.0.iter().filter(|((of, name), _)| of == object && *name == member);
        found.next().map(|(_, member)| member.clone())
    }
}

/// Objects, and the object whose members are variables.
pub(super) struct WithVariables {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) variables: HashMap<String, Type>,
    /// Whether `Object` and `JSONPatch` are there.
    pub(super) has_mutations: bool,
}

/// The object that an apply configuration is; parts of it are named by their path, `Object.spec`.
pub const MUTATED_OBJECT: &str = "Object";
/// A step of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

fn is_mutated(object: &str) -> bool {
    object.strip_prefix(MUTATED_OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Objects for WithVariables {
    fn may_be_made(&self, object: &str) -> bool {
        self.has_mutations && (object == JSON_PATCH || is_mutated(object))
    }

    fn member(&self, object: &str, member: &str) -> Option<Type> {
        if self.may_be_made(object) {
            return match (object == JSON_PATCH, member) {
                (true, "op" | "path" | "from") => Some(Type::String),
                (true, "value") | (false, _) => Some(Type::Dyn),
                _ => None,
            };
        }
        if object == VARIABLES {
            return self.variables.get(member).cloned();
        }
        self.objects.member(object, member)
    }
}

/// Objects of two tables.
pub(super) struct Both(pub(super) Arc<dyn Objects>, pub(super) Arc<SchemaTypes>);

impl Objects for Both {
    fn member(&self, object: &str, member: &str) -> Option<Type> {
        self.1.member(object, member).or_else(|| self.0.member(object, member))
    }
}
