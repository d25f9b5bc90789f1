//! The `scheduler` program: reads its flags and runs.

fn main() {}
