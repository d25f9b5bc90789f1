//! Tests of the crate as a whole; those of a module are beside it.

mod golden;
