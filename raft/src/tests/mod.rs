//! Tests of the crate as a whole; those of a module lie beside it.

mod golden;
