//! The strategy of a kind: the rules that only code can state. Constants of the kind stand in its `.proto` file.
//!
//! Owns the interface between the request pipeline and a kind. A strategy never reads the store, the clock or the
//! network: its input comes in as arguments, its decisions go out as results.

use std::collections::BTreeMap;

use orch_proto::Brand;
use orch_schema::Column;
use orch_schema::value::Value;

use crate::Action;
use crate::json_path::text;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors};

/// The parts of a request that a strategy may read.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Names and domains of the cluster's brand.
    pub brand: &'static Brand,
    /// API group of the request (branded, empty for core); `events` is served under two.
    pub group: &'a str,
    /// API version of the request. Defaults are those of this version; all other rules apply to the stored form.
    pub version: &'a str,
    /// Namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Operation of the request on the object.
    pub action: Action,
    /// The authenticated user.
    pub user: Requester<'a>,
    /// Time of the request, RFC 3339 with second precision.
    pub now: &'a str,
    /// The object of a create has labels from its client, before defaults.
    pub labels_given: bool,
}

/// The user of a request, for kinds that record who made an object.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// Unique name.
    pub name: &'a str,
    /// Tells apart users that had the same name; empty where the credential carries none.
    pub uid: &'a str,
    /// Groups, in the credential's order.
    pub groups: &'a [String],
    /// Further attributes by key.
    pub extra: &'a BTreeMap<String, Vec<String>>,
}

/// A label that the namespace of an object must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRequirement {
    /// Key of the label.
    pub label: String,
    /// Value that it must have.
    pub value: &'static str,
    /// The error of an object whose namespace lacks the label.
    pub error: FieldError,
}

/// One cell of a table row before it is printed.
pub type Cell = Value;

/// The rules of one kind. Every method has the behaviour of a plain kind as its default.
pub trait Strategy: Send + Sync + 'static {
    /// The fault of a text in `object` that stands for a field of the reference's own form, where the field cannot be made of
    /// it: such an object is refused as one that cannot be decoded.
    fn unreadable(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Fills in the kind's defaults. Runs on every decoded object of a write, before everything else.
    fn default(&self, _context: &Context<'_>, _new: &mut Value) {}

    /// Sets the fields that the server decides on create (status reset, generation, derived fields), before validation.
    fn prepare_for_create(&self, _context: &Context<'_>, _new: &mut Value) {}

    /// Restores the fields that an update may not touch (status on the main resource, spec on `status`) and raises
    /// generation.
    fn prepare_for_update(&self, _context: &Context<'_>, _old: &Value, _new: &mut Value) {}

    /// Rules for a new object, metadata excepted (the pipeline checks that for every kind).
    fn validate_create(&self, _context: &Context<'_>, _new: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Rules for a change, metadata excepted.
    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        self.validate_create(context, new)
    }

    /// Whether the rules compile expressions that a client wrote, which takes up to half a second for a body of a few
    /// kilobytes: such a write is carried out beside the threads that serve connections, like a large one.
    fn compiles_expressions(&self) -> bool {
        false
    }

    /// The label that the object's namespace must have. `old` is absent on create.
    fn namespace_requirement(
        &self,
        _context: &Context<'_>,
        _old: Option<&Value>,
        _new: &Value,
    ) -> Option<NamespaceRequirement> {
        None
    }

    /// Texts for `Warning` headers.
    fn warnings(&self, _context: &Context<'_>, _old: Option<&Value>, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The warning that every request for the resource gets, since it is deprecated.
    fn deprecation(&self, _brand: &Brand) -> Option<String> {
        None
    }

    /// The value of the selectable field `name` ([`orch_schema::Rules::selectable`]); absent is the empty string. A kind has code
    /// for those fields alone whose value is not the one at the path that is their name.
    fn field_value(&self, object: &Value, name: &str) -> String {
        value_at(object, name)
    }

    /// Grace period of a delete in seconds; `requested` is that of the delete options. `None`: the kind has no graceful
    /// deletion, its objects are removed at once.
    fn grace_period_seconds(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// The object after its first deletion, where the kind marks it in a way of its own. `None`: it is deleted as every object
    /// is.
    fn mark_deleted(&self, _context: &Context<'_>, _old: &Value) -> Option<Value> {
        None
    }

    /// Updates an object when its deletion starts, for example `status.phase: Terminating`.
    fn prepare_for_delete(&self, _object: &mut Value) {}

    /// The reason why the object of this name can never be deleted: the text behind `is forbidden: ` in the answer.
    fn forbids_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Whether finalizers outside the metadata keep a deleted object, such as a namespace's `spec.finalizers`.
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// The columns of the table of documents that only a sub-resource has, such as a `Scale`. Those of objects are
    /// options of their message.
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    /// The cells of a table row, one for each column the schema names. `None`: the kind has only the default columns.
    fn table_row(&self, _object: &Value, _now: &str) -> Option<Vec<Cell>> {
        None
    }

    /// The place of the row of `object` among those of a list of its kind: lower numbers first, equal ones by name. `None`: all
    /// rows stand by name.
    fn table_order(&self, _object: &Value) -> Option<i64> {
        None
    }

    /// The conditions of a table row: `type`, `status`, `reason` and `message` of each.
    fn table_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// The text of the value at `path` (`spec.nodeName`); empty for an absent one, and for an object or a list.
pub fn value_at(object: &Value, path: &str) -> String {
    match path.split('.').fold(object, |value, step| value.at(step)) {
        value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)) => text(value),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// A kind without rules of its own.
#[derive(Debug)]
pub struct Plain;

impl Strategy for Plain {}
