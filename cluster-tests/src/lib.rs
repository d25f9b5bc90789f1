//! Tests of a whole cluster, and the tools they share with people.
//!
//! `client` speaks HTTPS to any server of this API, `cluster` runs real `orch serve` processes, `vectors` replays
//! recorded scenarios, `load` and `failover` measure: what they see, a user sees, for none of them looks inside a server.
//! `sim` does: it runs whole clusters on simulated disks, networks and time, and judges every step. `power` looks below
//! one member: it takes the power away from its real disk.

pub mod client;
pub mod cluster;
pub mod failover;
pub mod load;
pub mod power;
pub mod sim;
pub mod vectors;
