//! Reviews: another server authenticates a token, and authorizes a user's request.
//!
//! Owns the questions and answers, and the trait by which they are asked. [`ReviewServer`] asks a server over HTTPS; the
//! scheduler's own client can take its place.

mod exchange;
mod server;

use std::collections::BTreeMap;

use futures::future::BoxFuture;

pub use super::user::User;
pub use server::ReviewServer;

/// A question to the authorization server: may this user do this to this path?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// The user.
    pub user: &'a User,
    /// The path, without a query.
    pub path: &'a str,
    /// The verb: an HTTP method in small letters.
    pub verb: &'a str,
}

/// Whether something is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessVerdict {
    /// Whether it is.
    pub is_allowed: bool,
    /// The server's reason; may be empty.
    pub reason: String,
}

/// A server could not be asked, or its answer could not be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{attempt}: {reason}")]
pub struct ReviewError {
    /// The attempted request and its resource.
    pub attempt: String,
    /// The failure.
    pub reason: String,
}

/// Asks another server.
pub trait Reviewer: Send + Sync {
    /// The user of `token`; `None` if the server rejects the token.
    fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>>;

    /// Whether a user may do something.
    fn review_access<'a>(&'a self, access: Access<'a>) -> BoxFuture<'a, Result<AccessVerdict, ReviewError>>;

    /// The data of a config map; `None` where there is none.
    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<BTreeMap<String, String>>, ReviewError>>;
}
