//! Failures of a request, in the pipeline's own terms.
//!
//! Knows no HTTP and no wording of the interface: `status` maps each variant to a Status, exhaustively.

use orch_raft::{ProposeError, ReadError, Revision};
use orch_rules::validate::FieldErrors;
use orch_schema::budget::Stopped;

/// The object or collection that an error is about, for Status details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// API group; empty for core.
    pub group: String,
    /// Resource (`roles`) or kind (`Role`), depending on the error.
    pub kind: String,
    /// Object name; empty for a collection or a name not yet known.
    pub name: String,
}

/// The failure of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("{} not found", .0.name)]
    NotFound(Subject),
    /// A path below a served API that leads to no resource, sub-resource or document.
    #[error("no such path")]
    UnknownPath,
    /// A path below no served API. Answered in plain text, as by the reference.
    #[error("404 page not found")]
    NoPage,
    /// Create found an object of that name.
    #[error("{} already exists", .0.name)]
    AlreadyExists(Subject),
    /// Create found an object of that name whose deletion is under way. Holds the error without that remark.
    #[error("being deleted: {0}")]
    BeingDeleted(Box<ApiError>),
    /// Every generated name was already taken.
    #[error("could not generate a free name for {}", .0.name)]
    NameGenerationExhausted(Subject),
    /// The object's resourceVersion changed, or a precondition fails. `reason` says which.
    #[error("conflict on {}: {reason}", subject.name)]
    Conflict {
        /// The object that was to be written.
        subject: Subject,
        /// The condition that failed.
        reason: String,
    },
    /// Other managers own fields that a server-side apply would change.
    #[error("{message}")]
    ApplyConflict {
        /// The complete message.
        message: String,
        /// Message and field path of each conflict.
        causes: Vec<(String, String)>,
    },
    /// The object breaks rules of its kind. `subject.kind` is the kind, not the resource.
    #[error("{} is invalid", subject.name)]
    Invalid {
        /// The refused object.
        subject: Subject,
        /// One error for each broken rule.
        errors: FieldErrors,
    },
    /// The request is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// A well-formed patch that cannot be applied to the object.
    #[error("patch cannot be applied")]
    UnprocessablePatch,
    /// A patch whose result is not an object of the kind.
    #[error("{0}")]
    PatchResult(String),
    /// No credentials, or invalid ones.
    #[error("unauthorized")]
    Unauthorized,
    /// The authenticated user lacks permission. The message is complete.
    #[error("{message}")]
    Forbidden {
        /// The requested object or collection.
        subject: Subject,
        /// The complete message.
        message: String,
        /// Reason, message and field of a Status cause, where the message is not enough.
        cause: Option<(&'static str, String, &'static str)>,
    },
    /// An admission policy refuses the write. The message is complete.
    #[error("{message}")]
    DeniedByPolicy {
        /// The object.
        subject: Subject,
        /// The complete message.
        message: String,
        /// The reason that the policy gives.
        reason: PolicyReason,
        /// Messages of the causes.
        causes: Vec<String>,
    },
    /// An admission webhook refuses the write, in its own words.
    #[error("{}", .0.message)]
    DeniedByWebhook(Box<WebhookDenial>),
    /// An admission webhook has no usable answer, or leaves no object of the kind. The message is complete.
    #[error("{0}")]
    WebhookFailed(String),
    /// The path does not serve this verb.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// No object of this declared kind, or of this sub-resource, has a path with this verb.
    #[error("{verb} is not supported")]
    Unserved {
        /// The verb.
        verb: &'static str,
        /// The resource; without a name.
        subject: Subject,
    },
    /// The server writes none of the representations in `Accept`.
    #[error("not acceptable")]
    NotAcceptable(NotAcceptable),
    /// The server does not read the body's media type. The message lists the supported ones.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The body exceeds its limit.
    #[error("request body over {limit} bytes")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The history no longer holds the requested revision.
    #[error("{message}")]
    Expired {
        /// The complete message.
        message: String,
        /// A token that continues the list at the newest revision; `None` unless the request had a continue token.
        continue_token: Option<String>,
    },
    /// The requested revision is newer than this member's.
    #[error("too large resource version {requested}, current {current}")]
    RevisionTooLarge {
        /// The requested revision.
        requested: u64,
        /// The newest revision applied by this member.
        current: u64,
    },
    /// The write may or may not have happened. A client that repeats it may do it twice, so that the response must not
    /// carry `Retry-After`.
    #[error("outcome unknown: {0}")]
    OutcomeUnknown(String),
    /// The request exceeded its deadline or was cancelled, and nothing was written.
    #[error("request did not complete within the allotted timeout")]
    DeadlineExceeded,
    /// A write exceeded its deadline before anything was proposed: it has changed nothing, and will not.
    #[error("deadline exceeded before anything was changed")]
    NothingChanged,
    /// The request changed nothing; a retry may succeed.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// A JSON patch with more operations than allowed.
    #[error("too many operations: {0}")]
    TooManyOperations(String),
    /// No room for the response: this user, or all users together, hold as many bytes on this node as they may.
    #[error("too much waits for this user to send or to take it")]
    NoRoom,
    /// A limit of an administrator is reached for now. The message says which.
    #[error("too many requests: {0}")]
    LimitReached(String),
    /// Flow control has no seat for the request. Answered in plain text, as by the reference.
    #[error("too many requests")]
    TooManyRequests {
        /// Seconds after which the client may come again.
        retry_after_s: u32,
    },
    /// The request would exceed its budget of memory or steps.
    #[error("{0}")]
    OverBudget(String),
    /// An object larger than the store's limit.
    #[error("object too large: {0}")]
    ObjectTooLarge(String),
    /// The disruption budget of a pod does not allow its eviction. Nothing was changed.
    #[error("{cause}")]
    DisruptionBudget {
        /// The message of the cause, which names the budget.
        cause: String,
        /// Seconds after which the budget may allow it; 0 where that is not known.
        retry_after_seconds: u32,
    },
    /// An object cannot be converted between two versions of its kind. The reference's message; a watch ends with it.
    #[error("{0}")]
    Unconverted(String),
    /// A request that the reference answers with code 500, a message, and no reason.
    #[error("{0}")]
    Unsupported(String),
    /// The state is at its quota, and the request would add to it. Nothing was changed.
    #[error("the state is full: {used} of {quota} bytes")]
    StateFull {
        /// Bytes of all objects.
        used: u64,
        /// The quota in bytes.
        quota: u64,
    },
    /// Disks of members are short of space, and the request would add to the state. Nothing was changed.
    #[error("little space is left on the disks of members {members}")]
    NoSpace {
        /// Names of these members, separated by commas.
        members: String,
    },
    /// A request could not be passed on to another server, or that server refused it.
    #[error(transparent)]
    Connect(ConnectError),
    /// A broken invariant of this program.
    #[error("internal: {0}")]
    Internal(String),
}

/// The reasons that admission policies give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyReason {
    /// The user is not known well enough.
    Unauthorized,
    /// The user may not do it.
    Forbidden,
    /// The object breaks a rule.
    Invalid,
    /// The object is too large.
    TooLarge,
    /// A mutation failed.
    InvalidMutation,
}

/// The refusal of an admission webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookDenial {
    /// The code of the response, 400 to 599.
    pub code: u16,
    /// The complete message.
    pub message: String,
    /// The reason that the webhook gives; may be empty.
    pub reason: String,
    /// The details that it gives.
    pub details: Option<DenialDetails>,
}

/// `details` of a refusal of an admission webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenialDetails {
    /// Group, kind and name, as the webhook gives them.
    pub subject: Subject,
    /// Empty where the webhook gives none.
    pub uid: String,
    /// Reason, message and field of each cause.
    pub causes: Vec<(String, String, String)>,
    /// Seconds after which the client may come again; 0 where the webhook says nothing.
    pub retry_after_seconds: u32,
}

/// The reasons for a 406, each with its own message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAcceptable {
    /// No media type in `Accept` is known.
    MediaType,
    /// The document exists in this media type alone, and `Accept` does not include it.
    Alone(&'static str),
    /// The media type is known, its parameters (`as=`, `g=`, `v=`) are not.
    Parameters,
    /// The media type is known, but cannot carry watch events.
    Stream,
    /// The object cannot be converted to the requested view. The message is complete.
    View(String),
}

/// The failure of a request that is passed on, beside those of requests in general.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The backend of a proxy cannot be reached, or there is none. The message is complete.
    #[error("{0}")]
    Unavailable(String),
    /// The kubelet or its address cannot be used, or an upgrade failed. The message is complete.
    #[error("{0}")]
    Failed(String),
    /// The kubelet refused a request for a log.
    #[error("the kubelet answered {code}")]
    Refused {
        /// Its status code.
        code: u16,
        /// Its text, at most [`REFUSAL_BYTES_MAX`].
        text: String,
        /// The pod.
        pod: String,
    },
}

impl Subject {
    /// Kind or resource with its group: `roles.rbac.authorization.orch.io`, or `configmaps` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }
}

impl ApiError {
    /// An update whose resourceVersion is not the object's newest.
    pub fn modified(subject: Subject) -> Self {
        let reason =
            "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::Conflict { subject, reason: reason.to_owned() }
    }

    /// A revision older than the history.
    pub fn too_old(requested: Revision, oldest: Revision) -> Self {
        let message = format!("too old resource version: {requested} ({oldest})");
        ApiError::Expired { message, continue_token: None }
    }

    /// This node's state differed from the majority's: its clients must list again.
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
