//! The built-in schema for tests.
//!
//! It is compiled for tests only, here and in the crates that ask for the feature `testing`.

use std::sync::LazyLock;

use orch_proto::brand::ORCH;

use crate::Schema;

/// The built-in schema, compiled once for all tests of a process.
pub fn orch() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::builtin(&ORCH));
    &SCHEMA
}
