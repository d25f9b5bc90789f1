//! The resource API: types as compiled tables, the request pipeline, list and watch, HTTP.
//!
//! A request flows one way (DESIGN 2): parse, authenticate, authorize, decode, mutate, validate, encode, propose, answer. Every
//! kind takes the same path. Inside the crate errors know no HTTP; one file maps them to Status.

pub mod authn;
pub mod fields;
pub mod kinds;
pub mod patch;
pub mod schema;
pub mod validate;
