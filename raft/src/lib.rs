//! The replicated store: state machine, history, log, snapshots, peer transport, membership.
//!
//! Owns the effect of a write on the state and the order of writes. The revision of a change is the index of its log
//! entry. No type of the consensus library appears in a public signature; everything that decides is generic over
//! runtime, disk and network. It never parses an object's bytes.

pub mod archive;
mod digest;
pub mod disk;
mod encoding;
mod fields;
mod interest;
pub mod key;
mod labels;
pub mod member;
pub mod memory;
mod notify;
pub mod object;
pub mod planted;
pub mod state;
pub mod store;
#[cfg(test)]
mod tests;
pub mod transaction;
pub mod transport;
mod warnings;

pub use digest::{Digest, DigestError, digest};
pub use encoding::FEATURE_LEVEL_MAX;
pub use fields::Fields;
#[cfg(any(test, feature = "simulation"))]
pub use interest::{HUB_BUGS, HubBug, with_hub_bug};
pub use interest::{Interest, Subscription};
pub use key::{Key, ObjectPath, Revision};
pub use labels::Labels;
pub use member::{ClusterIdentity, Handle, Member};
pub use object::{Index, Object, WrittenAs};
pub use state::{Change, Collection, Compacted, Evicted, Fingerprint, HistoryBounds, State, Usage};
pub use store::{ProposeError, ReadError, Store};
pub use transaction::{Condition, Operation, Outcome, Put, Transaction};

/// The async runtime a member runs on: Tokio in a process, a simulated one under a virtual clock.
pub use openraft_rt::AsyncRuntime as Runtime;
/// [`Runtime`] on Tokio, for production.
pub use openraft_rt_tokio::TokioRuntime;
