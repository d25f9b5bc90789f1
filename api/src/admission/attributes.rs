//! Attributes of a write: the input of plugins besides its object.

use orch_proto::Brand;
use orch_rules::Action;
use orch_rules::validate::tree::set;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use crate::ambient::Timestamp;
use crate::authn::User;
use crate::error::Subject;
use crate::exchange::Exchange;
use crate::gate::Gate;
use crate::registry::{Registry, Resource};
use crate::request::Query;

/// Kind of a write, or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object is changed, by a PUT, a patch or an apply.
    Update,
    /// The object is removed or marked for deletion, or its deletion is requested again.
    Delete,
    /// A connection through this server to what the object stands for (exec, attach, portforward, proxy). Plugins are asked
    /// about its options, a document such as `PodExecOptions` without `apiVersion` and `kind`; nothing is stored.
    Connect,
}

/// A write without its object, or a connection without its options.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The cluster's names.
    pub brand: &'static Brand,
    /// Kind of the write.
    pub operation: Operation,
    /// The served resources.
    pub registry: &'a Registry,
    /// Resource of the object.
    pub resource: &'a Resource,
    /// Action of the request: on the object itself or through a sub-resource.
    pub action: Action,
    /// Version in the request's path, which is not that of a sub-resource with documents of another kind.
    pub path_version: &'a str,
    /// Namespace of the object; empty where it has none.
    pub namespace: &'a str,
    /// Name of the object, or the `generateName` that its name starts with.
    pub name: &'a str,
    /// Name in the request's path; empty for a POST to a collection.
    pub path_name: &'a str,
    /// The name of the new object is drawn by this server.
    pub draws_name: bool,
    /// The stored object before the write, in its stored form; absent for a create.
    pub old: Option<&'a Value>,
    /// The query of the request.
    pub query: &'a Query,
    /// The options of a deletion, those of its body with those of its query; absent for other operations.
    pub deletion: Option<&'a Value>,
    /// The authenticated user.
    pub user: &'a User,
    /// Decides on rights.
    pub gate: &'a Gate,
    /// Takes warnings for the client and annotations of audit events.
    pub exchange: &'a Exchange,
    /// Steps that the request has left, and whether it waits.
    pub budget: &'a Budget,
    /// The write is admitted and validated but not stored.
    pub dry_run: bool,
    /// The object is gone after the write: a deletion that nothing holds up, or an update that ends the last hold. Known
    /// while validating only.
    pub is_removal: bool,
    /// Time of the request.
    pub now: Timestamp,
}

impl Attributes<'_> {
    /// Whether the write is one of `operations` on the objects stored under `storage` themselves.
    pub fn is(&self, storage: &str, operations: &[Operation]) -> bool {
        *self.resource.storage == *storage
            && self.action == Action::Object
            // few: three operations.
            && operations.contains(&self.operation)
    }

    /// The options of the request as a document of its kind (`CreateOptions`, `UpdateOptions` of a patch, too, or
    /// `DeleteOptions`), without fields that were not given. `None` for a connection, whose options are the object.
    pub fn options(&self) -> Option<Value> {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => return None,
        };
        let version = format!("{}/v1", self.brand.group("meta"));
        let mut options = json!({"kind": kind, "apiVersion": version});
        if let Some(deletion) = self.deletion {
            for (name, value) in deletion.as_object().into_iter().flatten() {
                set(&mut options, name, value.clone());
            }
            return Some(options);
        }
        let dry_run: Vec<Value> = self.query.values("dryRun").map(Value::from).collect();
        if !dry_run.is_empty() {
            set(&mut options, "dryRun", dry_run);
        }
        for name in ["fieldManager", "fieldValidation"] {
            if !self.query.text(name).is_empty() {
                set(&mut options, name, self.query.text(name));
            }
        }
        Some(options)
    }

    /// Warns the client. The warning is kept even if the write is judged again.
    pub fn warn(&self, text: String) {
        self.exchange.warn([text]);
    }

    /// Adds an annotation to the audit events of the request; the first one of a name counts. Both functions are called
    /// only where the request is audited.
    pub fn annotate(&self, name: impl FnOnce() -> String, text: impl FnOnce() -> String) {
        self.exchange.annotate(name, text);
    }

    /// The object as refusals name it.
    pub fn subject(&self) -> Subject {
        Subject::resource(self.resource, self.name)
    }
}
