//! Tests of the client against the small API server.

mod reflecting;
mod requests;
mod security;
