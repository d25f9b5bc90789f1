//! Tests of the patch formats.

use serde_json::{Value, json};

use super::*;
use crate::fields::tests::{root, schema};

mod json_patch;
mod merge_patch;
mod properties;
mod strategic;
