//! Tests of a whole cluster, and the tools made for them.
//!
//! `client` speaks HTTPS to any server of this API, `cluster` runs real `orch serve` processes, `vectors` replays
//! recorded scenarios, `load`, `failover` and `attacks` measure, `upgrade` replaces an older program: all of these see a server from outside, as users do. `sim` runs
//! whole clusters inside one process, on simulated disks, networks and time, and checks every step. `power` simulates
//! power losses below the real disk of one member.

pub mod attacks;
pub mod client;
pub mod cluster;
mod counting;
pub mod failover;
pub mod load;
pub mod power;
pub mod sim;
pub mod upgrade;
pub mod vectors;
