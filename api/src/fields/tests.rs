//! Tests of ownership and server-side apply.

use std::collections::HashMap;

use super::*;
use crate::json;
use crate::schema::value::Value;
use crate::schema::{Schema, TypeId};

mod apply;
mod properties;
mod scale;
mod tables;
mod update;
mod vectors;

pub(crate) use properties::any_json;
use tables::root_of;
pub(crate) use tables::{root, schema};

fn writer(manager: &'static str) -> Writer<'static> {
    Writer {
        manager,
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: &[],
        others: &[],
    }
}
