//! Tests of the patch formats.

use super::*;
use crate::fields::tests::{root, schema};
use crate::json;
use crate::schema::value::{Map, Value};

mod json_patch;
mod merge_patch;
mod properties;
mod strategic;
