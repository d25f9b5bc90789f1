//! The strategy of a kind: the rules that only code can state.
//!
//! Owns the interface between the request pipeline and a kind. A strategy never reads the store, the clock or the
//! network: what it needs comes in, what it decides goes out.

use crate::endpoint::Action;
use crate::schema::value::Value;
use crate::validate::FieldErrors;
use orch_proto::Brand;

/// What a strategy may know of the request and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The cluster's names.
    pub brand: &'static Brand,
    /// API group of the request (branded, empty for core); `events` is served under two.
    pub group: &'a str,
    /// Namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// What the request does with the object.
    pub action: Action,
    /// Name of the authenticated user.
    pub user: &'a str,
    /// Time of the request, RFC 3339 with second precision.
    pub now: &'a str,
    /// The object of a create came with labels of its own, before defaults.
    pub labels_given: bool,
}

/// Which names a kind accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Lower-case labels separated by dots, at most 253 bytes.
    Dns1123Subdomain,
    /// One lower-case label, at most 63 bytes.
    Dns1123Label,
    /// One label that starts with a letter, at most 63 bytes.
    Dns1035Label,
    /// Anything that can stand in a path: not `.`, `..`, and no `/` or `%`.
    PathSegment,
}

/// What becomes of the dependents of a deleted object unless somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// They are deleted after it.
    Delete,
    /// They stay.
    Orphan,
    /// The kind takes no part in it: no propagation policy has an effect.
    Unsupported,
}

/// One cell of a table row before it is printed.
pub type Cell = Value;

/// The rules of one kind. Every method has the behaviour of a plain kind as its default.
pub trait Strategy: Send + Sync + 'static {
    /// Which names are valid.
    fn name_rule(&self) -> NameRule {
        NameRule::Dns1123Subdomain
    }

    /// Fills in what the kind's defaults say. Runs on every decoded object of a write, before everything else.
    fn default(&self, _context: &Context<'_>, _new: &mut Value) {}

    /// Sets what the server decides on create (status reset, generation, derived fields), before validation.
    fn prepare_for_create(&self, _context: &Context<'_>, _new: &mut Value) {}

    /// Restores what an update may not touch (status on the main resource, spec on `status`) and raises generation.
    fn prepare_for_update(&self, _context: &Context<'_>, _old: &Value, _new: &mut Value) {}

    /// Rules for a new object, metadata excepted (the pipeline checks that for every kind).
    fn validate_create(&self, _context: &Context<'_>, _new: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Rules for a change, metadata excepted.
    fn validate_update(&self, context: &Context<'_>, _old: &Value, new: &Value) -> FieldErrors {
        self.validate_create(context, new)
    }

    /// Texts for `Warning` headers.
    fn warnings(&self, _context: &Context<'_>, _old: Option<&Value>, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether answers other than the object itself must not repeat what it holds.
    fn is_confidential(&self) -> bool {
        false
    }

    /// PUT on an absent name creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// PUT without a resourceVersion is accepted.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` is kept (set to 1 on create, raised when the spec changes).
    fn has_generation(&self) -> bool {
        false
    }

    /// Field selectors of the kind besides `metadata.name` and `metadata.namespace`. New ones come last:
    /// objects that were stored before names were (feature level 0) are read by position.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Those of [`Strategy::selectable_fields`] that are stored, in their places, and that no request may name.
    fn withheld_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Older names of [`Strategy::selectable_fields`] that selectors may use: each with the one that it stands for.
    fn field_synonyms(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// The value of each of [`Strategy::selectable_fields`], in the same order; absent is the empty string.
    fn field_values(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Field paths (as in managed fields, for example `f:status`) that whoever does this may not own.
    fn reset_fields(&self, _action: Action) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Seconds an object of this kind has to end by itself, given what the delete asked for.
    /// `None`: the kind knows no graceful deletion and goes at once.
    fn grace_period_seconds(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// A delete answers with the object, even when it is gone.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Says on an object about to be deleted, or marked for it, what the kind says then.
    fn prepare_for_delete(&self, _object: &mut Value) {}

    /// What becomes of dependents when neither a delete nor the object's finalizers say.
    fn default_propagation(&self) -> DefaultPropagation {
        DefaultPropagation::Delete
    }

    /// The reference deletes the kind in a way of its own: a delete that says `orphanDependents: false` waits for the
    /// dependents as one that says `Foreground` does, and failed preconditions are told in other words.
    fn has_own_deletion(&self) -> bool {
        false
    }

    /// Why the object of this name is never deleted, as it stands behind `is forbidden: ` in the answer.
    fn forbids_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Something besides the metadata's finalizers keeps a deleted object (a namespace's own finalizers).
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// The cells of a table row, one for each column the schema names. `None`: the kind has only the default columns.
    fn table_row(&self, _object: &Value, _now: &str) -> Option<Vec<Cell>> {
        None
    }

    /// The conditions of a table row: `type`, `status`, `reason` and `message` of each.
    fn table_conditions(&self, _object: &Value) -> Vec<Value> {
        Vec::new()
    }
}

/// A kind without rules of its own.
#[derive(Debug)]
pub struct Plain;

impl Strategy for Plain {}
