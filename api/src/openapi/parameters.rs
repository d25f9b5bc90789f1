//! Path and query parameters of operations.
//!
//! Owns the parameters of each operation and their descriptions, which are the same for every kind.

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::dialect::Dialect;

/// A parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    kind: Kind,
    description: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Path segment, and so required.
    Path,
    Text,
    Flag,
    Number,
}

const fn query(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, description }
}

pub(super) const NAME: Parameter = query("name", Kind::Path, "Name of the object.");
pub(super) const NAMESPACE: Parameter = query("namespace", Kind::Path, "Namespace that the objects live in.");
pub(super) const PRETTY: Parameter =
    query("pretty", Kind::Text, "With `true`, JSON is written over several lines for people to read.");

const BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    Kind::Flag,
    "Ask a watch for events of type BOOKMARK, which carry nothing but the version reached. None may come.",
);
const CONTINUE: Parameter = query(
    "continue",
    Kind::Text,
    "The token of the page before, to get the one that follows. Tokens expire; the answer is then 410.",
);
const FIELD_SELECTOR: Parameter =
    query("fieldSelector", Kind::Text, "Keep only objects whose fields meet these conditions.");
const LABEL_SELECTOR: Parameter =
    query("labelSelector", Kind::Text, "Keep only objects whose labels meet these conditions.");
const LIMIT: Parameter =
    query("limit", Kind::Number, "Most objects on one page. More of them are behind the token `continue`.");
const VERSION: Parameter = query(
    "resourceVersion",
    Kind::Text,
    "The version to read at or to watch from; `0` is any, and without it the most recent state is read.",
);
const VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    Kind::Text,
    "How `resourceVersion` limits a list: `Exact` or `NotOlderThan`.",
);
const INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    Kind::Flag,
    "Begin a watch with an event for each object that is there, and a bookmark behind the last of them.",
);
const TIMEOUT: Parameter =
    query("timeoutSeconds", Kind::Number, "End the list or the watch after this many seconds.");
const WATCH: Parameter = query("watch", Kind::Flag, "Follow the changes instead of listing the objects.");
const DRY_RUN: Parameter =
    query("dryRun", Kind::Text, "With `All`, every stage runs but the one that stores something.");
const MANAGER: Parameter =
    query("fieldManager", Kind::Text, "Name of the actor that owns the fields this request sets.");
const VALIDATION: Parameter = query(
    "fieldValidation",
    Kind::Text,
    "What happens with unknown and duplicate fields: `Ignore`, `Warn` (where nothing is said) or `Strict`.",
);
const FORCE: Parameter =
    query("force", Kind::Flag, "Take fields over from other managers where an applied object conflicts.");
const GRACE_PERIOD: Parameter =
    query("gracePeriodSeconds", Kind::Number, "Seconds the object has to end by itself; 0 is at once.");
const ORPHAN: Parameter = query(
    "orphanDependents",
    Kind::Flag,
    "Deprecated, see `propagationPolicy`: whether dependents are left behind.",
);
const PROPAGATION: Parameter = query(
    "propagationPolicy",
    Kind::Text,
    "What becomes of dependents: `Orphan`, `Background` or `Foreground`.",
);

/// The container of a log or a stream.
pub(super) const CONTAINER: Parameter =
    query("container", Kind::Text, "Name of the container; the only one where it is left out.");
/// The path behind a proxy.
pub(super) const SUBPATH: Parameter = query("path", Kind::Path, "Path in the server behind the proxy.");

/// Parameters of a log.
pub(super) const LOG: [Parameter; 9] = [
    query("follow", Kind::Flag, "Go on with new lines as they are written."),
    query("insecureSkipTLSVerifyBackend", Kind::Flag, "Do not verify the certificate of the kubelet."),
    query("limitBytes", Kind::Number, "End after this many bytes, which may be in the middle of a line."),
    query("previous", Kind::Flag, "Read the log of the container's run before the last restart."),
    query("sinceSeconds", Kind::Number, "Leave out lines that are older than this many seconds."),
    query("sinceTime", Kind::Text, "Leave out lines from before this time (RFC 3339)."),
    query("stream", Kind::Text, "Not supported: both output streams are read."),
    query("tailLines", Kind::Number, "Begin with the last lines, this many of them."),
    query("timestamps", Kind::Flag, "Begin each line with the time when it was written."),
];
/// Parameters of streams to a process.
pub(super) const STREAMS: [Parameter; 4] = [
    query("stderr", Kind::Flag, "Carry the standard error of the process."),
    query("stdin", Kind::Flag, "Carry the standard input of the process."),
    query("stdout", Kind::Flag, "Carry the standard output of the process."),
    query("tty", Kind::Flag, "Give the process a terminal."),
];
/// Parameters of a command.
pub(super) const EXEC: [Parameter; 1] =
    [query("command", Kind::Text, "The command; one parameter for the program and each argument.")];
/// Parameters of forwarded ports.
pub(super) const PORTS: [Parameter; 1] =
    [query("ports", Kind::Text, "Ports of the pod, separated by commas, for clients that name them here.")];

/// Parameters of a list, which may be a watch.
pub(super) const LIST: [Parameter; 10] = [
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    VERSION,
    VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
    WATCH,
];
/// Parameters of a create or an update.
pub(super) const WRITE: [Parameter; 3] = [DRY_RUN, MANAGER, VALIDATION];
/// Parameters of a patch.
pub(super) const PATCH: [Parameter; 4] = [DRY_RUN, MANAGER, VALIDATION, FORCE];
/// Parameters of a delete.
pub(super) const DELETE: [Parameter; 4] = [DRY_RUN, GRACE_PERIOD, ORPHAN, PROPAGATION];
/// Parameters of a delete of a collection.
pub(super) const DELETE_COLLECTION: [Parameter; 12] = [
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    VERSION,
    VERSION_MATCH,
    INITIAL_EVENTS,
    TIMEOUT,
];

/// Every parameter, with repetitions.
pub(super) fn all() -> impl Iterator<Item = Parameter> {
    let sets: [&[Parameter]; 10] = [
        &[NAME, NAMESPACE, PRETTY, CONTAINER, SUBPATH],
        &LIST,
        &WRITE,
        &PATCH,
        &DELETE,
        &DELETE_COLLECTION,
        &LOG,
        &STREAMS,
        &EXEC,
        &PORTS,
    ];
    sets.into_iter().flatten().copied()
}

impl Parameter {
    /// The parameter in an operation: a reference to the shared parameter in version 2, the whole description in
    /// version 3, where clients do not follow such references.
    pub(super) fn in_operation(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::V2 => json!({"$ref": format!("#/parameters/{}", self.name)}),
            Dialect::V3 => self.describe(dialect),
        }
    }

    /// The parameter object.
    pub(super) fn describe(&self, dialect: Dialect) -> Value {
        let (place, kind) = match self.kind {
            Kind::Path => ("path", "string"),
            Kind::Text => ("query", "string"),
            Kind::Flag => ("query", "boolean"),
            Kind::Number => ("query", "integer"),
        };
        let mut described = Map::new();
        described.insert("name".to_owned(), json!(self.name));
        described.insert("in".to_owned(), json!(place));
        described.insert("description".to_owned(), json!(self.description));
        if place == "path" {
            described.insert("required".to_owned(), json!(true));
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!(kind));
        schema.insert("uniqueItems".to_owned(), json!(true));
        match dialect {
            Dialect::V2 => described.extend(schema),
            Dialect::V3 => {
                described.insert("schema".to_owned(), Value::Object(schema));
            }
        }
        Value::Object(described)
    }
}
