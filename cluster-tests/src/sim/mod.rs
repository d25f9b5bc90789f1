//! Deterministic simulation of whole clusters: one thread, a virtual clock, one seed.
//!
//! Owns a disk that loses unsynced writes, a network that cuts, processes that crash and pause, clients that collide,
//! and the oracles that check the results. All randomness comes from the seed, so a seed replays a run exactly; a test
//! shows that it does. `docs/simulation.md` tells how to run it and how to read a failure.
//!
//! The code under test is that of production over other implementations of disk, network, clock and runtime: the
//! replicated store, and on it the request pipeline, watches and controllers of the API.

pub mod answers;
pub mod clients;
pub mod consensus;
pub mod dice;
pub mod disk;
pub mod duties;
pub mod eras;
pub mod faults;
pub mod ghost;
pub mod history;
pub mod intrusion;
pub mod judgement;
pub mod ledger;
pub mod linearizability;
pub mod majority;
pub mod network;
pub mod operator;
pub mod outsider;
pub mod plant;
pub mod points;
pub mod process;
pub mod requests;
pub mod run;
pub mod runtime;
pub mod scale;
pub mod search;
pub mod server;
pub mod session;
pub mod setup;
pub mod sightings;
pub mod silent_rot;
pub mod things;
pub mod trace;
pub mod versions;
pub mod world;
