//! Tests of the patch formats.

use orch_schema::json;
use orch_schema::value::{Map, Value};

use super::*;
use crate::fields::tests::{root, schema};

mod json_patch;
mod merge_patch;
mod properties;
mod strategic;
