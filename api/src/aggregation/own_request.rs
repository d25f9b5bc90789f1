//! Requests of this server's own to aggregated servers: of its loops, and reviews of webhooks at its own service.
//!
//! Owns the headers that all of them have. It sends nothing: [`super::Relay`] does.

use axum::body::Body;
use http::Request;
use http::header::{HOST, USER_AGENT};
use http::request::Builder;

use super::Server;
use super::identity::name_user;
use crate::authn::User;

/// `request` with `body` as `server` gets it, in the name of `user`. Its target is a path with a query alone.
///
/// # Errors
/// The reason why it cannot be written: its target, or the name of the user.
pub(crate) fn own_request(
    server: &Server,
    user: &User,
    request: Builder,
    body: Body,
) -> Result<Request<Body>, String> {
    let request = request
        .header(HOST, server.authority())
        .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")))
        .body(body);
    let mut request = request.map_err(|error| error.to_string())?;
    name_user(request.headers_mut(), user).map_err(|error| error.to_string())?;
    Ok(request)
}
