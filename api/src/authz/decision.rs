//! The decision of one authorizer, and the ruling of the whole chain.
//!
//! Owns their texts. It decides nothing.

use std::fmt;
use std::sync::Arc;

use super::attributes::{Attributes, forbidden};
use crate::authn::User;
use crate::error::ApiError;

/// Why an authorizer allows a request. The text is formatted only where somebody reads it: in a review, an audit event
/// or a log line.
#[derive(Clone, Default)]
pub struct Reason(Option<Arc<dyn fmt::Display + Send + Sync>>);

impl Reason {
    /// A reason whose text is `text`'s. Sharing one allocates nothing.
    pub fn shared<T: fmt::Display + Send + Sync + 'static>(text: &Arc<T>) -> Reason {
        Reason(Some(text.clone()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |text| text.fmt(f))
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reason({self})")
    }
}

/// The decision of one authorizer.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The user may, and no later authorizer is asked.
    Allow(Reason),
    /// The user may not, and no later authorizer is asked. Holds the reason, possibly empty.
    Deny(String),
    /// The next authorizer decides. Holds what the authorizer has to say, such as a role that it did not find; mostly
    /// empty.
    NoOpinion(String),
    /// The authorizer could not decide.
    Failed {
        /// The consequence of the failure.
        then: OnFailure,
        /// The reason that the authorizer gives, possibly empty.
        reason: String,
        /// Why it could not decide.
        error: String,
    },
}

/// The consequence of an authorizer's failure to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The next authorizer decides; the request fails unless one allows it.
    NoOpinion,
    /// The user may not, and no later authorizer is asked.
    Deny,
}

/// The ruling of the whole chain, with the authorizer that decided.
#[derive(Clone, Debug)]
pub enum Ruling {
    /// The user may.
    Allowed {
        /// Name of the authorizer that allows it.
        by: &'static str,
        /// Why.
        reason: Reason,
    },
    /// The user may not.
    Denied {
        /// Name of the authorizer that denies it.
        by: &'static str,
        /// The reason, possibly empty.
        reason: String,
    },
    /// No authorizer has an opinion, so the user may not. Holds the authorizers' remarks, one a line; mostly empty.
    NoOpinion(String),
    /// An authorizer could not decide and none allows it, so the user may not, and the request fails.
    Failed {
        /// Name of the authorizer that denies it because it could not decide; `None` if nobody denies it.
        denied_by: Option<&'static str>,
        /// The authorizers' remarks, one a line; mostly empty.
        reason: String,
        /// Why they could not decide.
        error: String,
    },
}

impl Ruling {
    /// Whether the user may.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Ruling::Allowed { .. })
    }

    /// The reason as reviews and audit events show it.
    pub fn reason(&self) -> String {
        match self {
            Ruling::Allowed { reason, .. } => reason.to_string(),
            Ruling::Denied { reason, .. } | Ruling::NoOpinion(reason) | Ruling::Failed { reason, .. } => {
                reason.clone()
            }
        }
    }

    /// Whether an authorizer denies it.
    pub fn is_denied(&self) -> bool {
        matches!(self, Ruling::Denied { .. } | Ruling::Failed { denied_by: Some(_), .. })
    }

    /// Why an authorizer could not decide.
    pub fn error(&self) -> Option<&str> {
        match self {
            Ruling::Failed { error, .. } => Some(error),
            Ruling::Allowed { .. } | Ruling::Denied { .. } | Ruling::NoOpinion(_) => None,
        }
    }

    /// Turns the ruling on the request of `user` into a result.
    ///
    /// # Errors
    /// `Forbidden` with the complete message; `Internal` where an authorizer could not decide, as in the reference.
    pub fn check(&self, user: &User, attributes: Attributes<'_>) -> Result<(), ApiError> {
        match self {
            Ruling::Allowed { .. } => Ok(()),
            Ruling::Denied { reason, .. } | Ruling::NoOpinion(reason) => {
                Err(forbidden(user, attributes, reason))
            }
            Ruling::Failed { error, .. } => Err(ApiError::Internal(error.clone())),
        }
    }
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ruling::Allowed { by, reason } => match reason.0 {
                None => write!(f, "allowed by {by}"),
                Some(_) => write!(f, "allowed by {by}: {reason}"),
            },
            Ruling::Denied { by, reason } => write!(f, "denied by {by}: {reason}"),
            Ruling::NoOpinion(_) => f.write_str("allowed by nobody"),
            Ruling::Failed { error, .. } => write!(f, "not decided: {error}"),
        }
    }
}
