//! Tests of a whole cluster, and the tools they share with people: everything here reaches servers from outside.
//!
//! `client` speaks HTTPS to any server of this API, `cluster` runs real `orch serve` processes, `vectors` replays
//! recorded scenarios, `load` measures. None of them looks inside a server: what they see, a user sees.

pub mod client;
pub mod cluster;
pub mod load;
