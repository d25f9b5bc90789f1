//! Authentication: front proxies, client certificates, bearer tokens (static, of service accounts, of nodes that join, of
//! issuers, of a webhook), the local administrator of a development node, anonymous.
//!
//! Owns deriving a [`User`] from a connection and its headers. It never decides what a user may do and never
//! logs, keeps or returns a token: errors name a line of the file, the table keeps digests only.
//!
//! The order is the reference's: the user that an allowed front proxy names, a verified client certificate, then a bearer token, and only where neither was
//! presented the local administrator or the anonymous user. Invariant: a credential that was presented and is bad
//! is never answered as anonymous.

mod authenticator;
pub mod bootstrap_token;
mod credential;
pub mod front_proxy;
pub mod impersonate;
pub mod jwt;
mod peer;
pub mod service_account;
pub mod service_account_name;
mod token;
mod unauthenticated;
mod user;
pub mod webhook;
pub mod websocket;

use authenticator::TOKEN_BYTES_MAX;
pub use authenticator::{
    AnonymousAccess, Authenticator, Finding, Found, Holder, Method, Moment, Remarks, found,
};
pub use credential::Credential;
pub use peer::{CertificateError, ClientCertificate, Peer, UserReporter};
pub use token::{LiveTokens, TokenFileError, TokenTable};
pub use unauthenticated::{Evidence, Unauthenticated};
pub use user::{
    GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_NODES, GROUP_UNAUTHENTICATED, USER_ADMIN, USER_ANONYMOUS,
    USER_NODE_PREFIX, User,
};

#[cfg(test)]
mod tests;
