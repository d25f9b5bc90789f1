//! The resource API: types as compiled tables, the request pipeline, list and watch, HTTP.
//!
//! A request flows one way: parse, authenticate, authorize, decode, mutate, validate, encode, propose, answer. Every
//! kind takes the same path. Inside the crate errors know no HTTP; one file maps them to Status.

pub mod admission;
pub mod aggregation;
pub mod allocation;
pub mod ambient;
pub mod answer;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod connect;
pub mod controllers;
pub mod conversion;
pub mod definitions;
mod document;
pub mod egress;
pub mod endpoint;
pub mod error;
pub mod exchange;
mod expression_times;
pub mod fields;
pub mod flow;
pub mod follow;
pub mod gate;
pub mod http;
pub mod index;
pub mod making;
pub mod metrics;
pub mod negotiate;
pub mod openapi;
pub mod paging;
pub mod patch;
pub mod pipeline;
pub mod registry;
pub mod render;
pub mod request;
pub mod selector;
pub mod signing;
pub mod status;
#[cfg(test)]
mod step_counts;
pub mod tables;
#[cfg(test)]
mod testing;
pub mod trial;
pub mod view;
mod waiting;
pub mod watch;
pub mod webhook;

pub use orch_rules::expression;
