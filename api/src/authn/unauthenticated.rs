//! The reasons why a request has no user, and their evidence about its credential.
//!
//! Owns the order in which findings of several methods outweigh each other, and which of them a newer state may change.

use super::peer::CertificateError;
use super::service_account::TokenError;

/// The reason why a request has no user. All are answered with 401 and the same body; only the log tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// The request has no credentials, and anonymous requests are refused. Health and version paths may still be served.
    #[error("no credentials")]
    NoCredentials,
    /// The bearer token is unknown.
    #[error("invalid bearer token")]
    InvalidToken,
    /// The bearer token has the form of a bootstrap token, of which this node has no secret.
    #[error("invalid bearer token")]
    UnknownBootstrapToken,
    /// The bearer token is one of a service account, and bad.
    #[error("[invalid bearer token, {0}]")]
    ServiceAccountToken(#[from] TokenError),
    /// Another server refuses the bearer token, or the token is not one of a known issuer that is valid now.
    #[error("[invalid bearer token, {0}]")]
    Token(String),
    /// Another server has to be asked about the bearer token, or for keys that verify it, and gives no answer. The token may be
    /// good.
    #[error("[invalid bearer token, {0}]")]
    Undecided(String),
    /// The client certificate identifies no user.
    #[error(transparent)]
    InvalidCertificate(#[from] CertificateError),
    /// A front proxy describes the user by bytes that are no text.
    #[error("headers of the front proxy are not UTF-8")]
    MalformedIdentity,
    /// The token may be good in a newer state than the one that it was held against.
    #[error("{fault}")]
    Unseen {
        /// Why it is bad in that state.
        fault: Box<Unauthenticated>,
        /// The evidence that a newer state would admit the token.
        evidence: Evidence,
    },
}

/// Evidence that a token which is bad in the state of this node is good in a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Its form alone, which anybody can make up.
    Form,
    /// A signature by this cluster.
    Signature,
}

impl Unauthenticated {
    /// The evidence that a newer state would admit the token, if there is any.
    pub(super) fn evidence(&self) -> Option<Evidence> {
        match self {
            Unauthenticated::ServiceAccountToken(fault) => {
                fault.is_of_an_object().then_some(Evidence::Signature)
            }
            Unauthenticated::UnknownBootstrapToken => Some(Evidence::Form),
            Unauthenticated::Unseen { evidence, .. } => Some(*evidence),
            Unauthenticated::NoCredentials
            | Unauthenticated::InvalidToken
            | Unauthenticated::Token(_)
            | Unauthenticated::Undecided(_)
            | Unauthenticated::InvalidCertificate(_)
            | Unauthenticated::MalformedIdentity => None,
        }
    }

    /// The same with `evidence`, if there is any.
    pub(super) fn with(self, evidence: Option<Evidence>) -> Unauthenticated {
        match evidence {
            None => self,
            Some(evidence) => Unauthenticated::Unseen { fault: Box::new(self), evidence },
        }
    }

    /// The fault in the state that the credential was held against.
    pub(crate) fn into_fault(self) -> Unauthenticated {
        match self {
            Unauthenticated::Unseen { fault, .. } => *fault,
            fault => fault,
        }
    }

    /// How much this says of a credential that several methods looked at: a method that knows a bad token outweighs one that
    /// gives no answer, which outweighs those that do not know the token.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Unauthenticated::ServiceAccountToken(_) | Unauthenticated::Token(_) => 2,
            Unauthenticated::Undecided(_) => 1,
            Unauthenticated::Unseen { fault, .. } => fault.weight(),
            Unauthenticated::NoCredentials
            | Unauthenticated::UnknownBootstrapToken
            | Unauthenticated::InvalidToken
            | Unauthenticated::InvalidCertificate(_)
            | Unauthenticated::MalformedIdentity => 0,
        }
    }
}
