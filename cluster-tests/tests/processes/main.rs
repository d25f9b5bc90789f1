//! Tests of real `orch serve` processes on loopback: killed, stopped, started again and asked nonsense.
//!
//! What the simulation shows of the store, these show of the product: nothing acknowledged is lost, a quorum read is
//! never old, a watch goes on elsewhere without a gap.
#![expect(clippy::unwrap_used, reason = "tests may unwrap, in what they call too")]

mod bad_input;
mod clients;
mod contention;
mod disk;
mod divergence;
mod foundings;
mod hostile;
mod kubectl;
mod leader_loss;
mod leadership;
mod load;
mod memory;
mod objects;
mod paused_leader;
mod quorum;
mod quota;
mod replacement;
mod restart;
mod rust_client;
mod secrets;
mod snapshot;
mod space;
mod vectors;
mod versions;
