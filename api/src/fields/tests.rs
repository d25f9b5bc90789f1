//! Tests of managed fields and server-side apply.

use std::collections::HashMap;

use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Schema, TypeId};

use super::*;

mod apply;
mod declared;
mod giving_up;
mod properties;
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
