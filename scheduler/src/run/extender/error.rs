//! Errors of calls of extenders.
//!
//! Owns the words, and whether a binding may have happened all the same.

/// The reason why an extender gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderError {
    /// It could not be asked.
    #[error("cannot ask the extender {url}: {problem}")]
    Call {
        /// Its address.
        url: String,
        /// The fault, in words.
        problem: String,
        /// Whether it may have done what it was asked to.
        is_outcome_unknown: bool,
    },
    /// It answered with another status than 200.
    #[error("failed {verb} with extender at URL {url}, code {code}")]
    Status {
        /// The verb of the request, as the configuration words it.
        verb: String,
        /// The address of that.
        url: String,
        /// The status code.
        code: u16,
    },
    /// It answered what cannot be read or used.
    #[error("cannot use the answer of the extender {url}: {problem}")]
    Answer {
        /// Its address.
        url: String,
        /// The fault, in words.
        problem: String,
    },
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// It was not asked: it kept plans waiting a moment ago, and gave nothing.
    #[error("the extender {url} gave no answer in time and is not asked again so soon")]
    Silent {
        /// Its address.
        url: String,
    },
    /// The plan's time for extenders was over before it answered.
    #[error("no answer of the extender {url} in the time of the plan")]
    Late {
        /// Its address.
        url: String,
    },
}

impl ExtenderError {
    /// Whether it was not asked, because of an earlier failure.
    pub(in crate::run) fn is_silence(&self) -> bool {
        matches!(self, ExtenderError::Silent { .. })
    }

    /// Whether a binding may have happened all the same.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            ExtenderError::Call { is_outcome_unknown, .. } => *is_outcome_unknown,
            ExtenderError::Status { .. } | ExtenderError::Answer { .. } => true,
            ExtenderError::Refused(_) | ExtenderError::Silent { .. } => false,
            ExtenderError::Late { .. } => true,
        }
    }
}
