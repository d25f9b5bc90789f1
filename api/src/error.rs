//! What can go wrong with a request, in the pipeline's own terms.
//!
//! Owns the vocabulary of failures; it knows no HTTP and no wording of the interface: `status` maps each variant to a
//! Status, exhaustively.

use orch_raft::{ProposeError, ReadError, Revision};
use orch_rules::validate::FieldErrors;
use orch_schema::budget::Stopped;

use crate::registry::Resource;

/// The object or collection an error is about, as Status details name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// API group; empty for core.
    pub group: String,
    /// Resource (`roles`) or kind (`Role`), as the variant says.
    pub kind: String,
    /// Object name; empty for a collection or a name not yet known.
    pub name: String,
}

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// No such object.
    #[error("{} not found", .0.name)]
    NotFound(Subject),
    /// The path names nothing that is served.
    #[error("no such path")]
    UnknownPath,
    /// The path does not even lie below anything that is served. The reference answers in plain text.
    #[error("404 page not found")]
    NoPage,
    /// Create met an object of that name.
    #[error("{} already exists", .0.name)]
    AlreadyExists(Subject),
    /// Create met an object of that name which is being deleted. Within: the error without that.
    #[error("being deleted: {0}")]
    BeingDeleted(Box<ApiError>),
    /// Generated names kept colliding.
    #[error("could not generate a free name for {}", .0.name)]
    NameGenerationExhausted(Subject),
    /// The object changed, or a precondition does not hold. The text says which.
    #[error("conflict on {}: {reason}", subject.name)]
    Conflict {
        /// What was written.
        subject: Subject,
        /// Which condition failed.
        reason: String,
    },
    /// Other managers own fields that an apply wants to set.
    #[error("{message}")]
    ApplyConflict {
        /// The whole text.
        message: String,
        /// Text and field path of each conflict.
        causes: Vec<(String, String)>,
    },
    /// Rules of the kind do not hold. `subject.kind` is the kind, not the resource.
    #[error("{} is invalid", subject.name)]
    Invalid {
        /// What was refused.
        subject: Subject,
        /// Each broken rule.
        errors: FieldErrors,
    },
    /// The request cannot be understood.
    #[error("{0}")]
    BadRequest(String),
    /// A well-formed patch that cannot be carried out.
    #[error("patch cannot be applied")]
    UnprocessablePatch,
    /// A patch whose result is not an object of the kind.
    #[error("{0}")]
    PatchResult(String),
    /// Nobody, or credentials that nobody has.
    #[error("unauthorized")]
    Unauthorized,
    /// Somebody who may not. The text is complete.
    #[error("{message}")]
    Forbidden {
        /// What was asked for.
        subject: Subject,
        /// The whole text.
        message: String,
        /// Cause reason, message and field, where the text alone does not tell.
        cause: Option<(&'static str, String, &'static str)>,
    },
    /// The verb does not exist here.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// No acceptable representation, as content negotiation words it.
    #[error("not acceptable")]
    NotAcceptable(NotAcceptable),
    /// The body's media type is not understood. The text lists what is.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The body is over its limit.
    #[error("request body over {limit} bytes")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// History no longer holds what was asked for.
    #[error("{message}")]
    Expired {
        /// The whole text.
        message: String,
        /// A token with which the rest can be had, inconsistently.
        continue_token: Option<String>,
    },
    /// A revision this cluster has not reached.
    #[error("too large resource version {requested}, current {current}")]
    RevisionTooLarge {
        /// What was asked for.
        requested: u64,
        /// Where this node is.
        current: u64,
    },
    /// The write may or may not have happened. Repeating it may do it twice, so that no answer may invite to that.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The time of the request is over, and nothing was written.
    #[error("request did not complete within the allotted timeout")]
    DeadlineExceeded,
    /// The time of a write is over before anything was proposed: it has changed nothing, and will not.
    #[error("deadline exceeded before anything was changed")]
    NothingChanged,
    /// Nothing was done; trying again may help.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A patch of more operations than are carried out.
    #[error("too many operations: {0}")]
    TooManyOperations(String),
    /// The node holds as much for this user, or for all of them, as it may.
    #[error("too much waits for this user to send or to take it")]
    TooMuchHeld,
    /// A body that would hold more memory than one request may.
    #[error("{0}")]
    OverBudget(String),
    /// An object larger than the store takes.
    #[error("object too large: {0}")]
    ObjectTooLarge(String),
    /// The cluster's state is as large as it may be, and the request would add to it. Nothing was done.
    #[error("the state is full: {used} of {quota} bytes")]
    StateFull {
        /// Bytes of all objects.
        used: u64,
        /// Bytes that they may have.
        quota: u64,
    },
    /// Members have little space left on their disks, and the request would add to the state. Nothing was done.
    #[error("little space is left on the disks of members {members}")]
    NoSpace {
        /// Their names, separated by commas.
        members: String,
    },
    /// A broken invariant of ours.
    #[error("internal: {0}")]
    Internal(String),
}

/// The wordings of a 406.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAcceptable {
    /// None of the media types is known.
    MediaType,
    /// There is the document in JSON alone, and it was asked for in other types.
    JsonAlone,
    /// The media type is known, its parameters (`as=`, `g=`, `v=`) are not.
    Parameters,
    /// The media type is known, but there are no watches in it.
    Stream,
    /// The object cannot be turned into what was asked for. The text is complete.
    View(String),
}

impl Subject {
    /// An object of a resource, named by the resource: what most errors carry.
    pub fn resource(resource: &Resource, name: &str) -> Self {
        Subject { group: resource.group.clone(), kind: resource.plural.clone(), name: name.to_owned() }
    }

    /// An object of a resource, named by the kind: what validation carries.
    pub fn kind(resource: &Resource, name: &str) -> Self {
        // A version that is stored as another's form is validated, and named in its errors, as that.
        let group = if resource.conversion.is_some() { String::new() } else { resource.group.clone() };
        Subject { group, kind: resource.kind.clone(), name: name.to_owned() }
    }

    /// `roles.rbac.authorization.orch.io`, or `configmaps` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}

impl ApiError {
    /// An update that met a newer version.
    pub fn modified(subject: Subject) -> Self {
        let reason =
            "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::Conflict { subject, reason: reason.to_owned() }
    }

    /// A revision older than history.
    pub fn too_old(requested: Revision, oldest: Revision) -> Self {
        let message = format!("too old resource version: {requested} ({oldest})");
        ApiError::Expired { message, continue_token: None }
    }

    /// A request in another's name, which this server does not know how to grant.
    pub fn impersonation(user: &str) -> Self {
        let message = format!("User {user:?} cannot impersonate: this server does not support impersonation");
        ApiError::Forbidden { subject: Subject::default(), message, cause: None }
    }

    /// This node's state was found wrong: its clients must read everything anew.
    pub fn revoked() -> Self {
        let message =
            "the state of this node was found to differ from the other nodes': list again".to_owned();
        ApiError::Expired { message, continue_token: None }
    }
}

impl From<ProposeError> for ApiError {
    fn from(error: ProposeError) -> Self {
        match error {
            ProposeError::NotProposed { reason } => ApiError::Unavailable(reason),
            ProposeError::Unknown { reason } => ApiError::OutcomeUnknown(reason),
            ProposeError::Refused { reason } => ApiError::Internal(reason),
            ProposeError::NoSpace { members } => ApiError::NoSpace { members },
            ProposeError::TooLarge { .. } => ApiError::ObjectTooLarge(error.to_string()),
        }
    }
}

impl From<Stopped> for ApiError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Cancelled => ApiError::DeadlineExceeded,
            Stopped::TooManySteps => ApiError::OverBudget(stopped.to_string()),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        ApiError::Unavailable(error.to_string())
    }
}
