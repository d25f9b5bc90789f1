//! Tests of hints.
