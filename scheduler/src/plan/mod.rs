//! The planner: chooses a node for a pod, or reports why none fits.
//!
//! Owns the snapshot of the cluster, the plugins, and the answer. Knows no socket, thread or randomness, and a clock only to
//! measure itself (`costs`): the seed of a tie-break is an argument, and what has to be written before binding is part of
//! the answer.
//!
//! The interface, as the executor uses it (one thread owns all of it; every type is `Send`):
//!
//! ```text
//! let mut cluster = Cluster::new(brand);                     // the snapshot
//! cluster.apply(Change::Upsert(Object::Node(&node)));        // any event of any kind it reads, in any order
//! cluster.apply(Change::Delete(Object::Pod(&pod)));          // a delete needs metadata only
//! let pod: Arc<Pod> = cluster.compile(&api_pod);             // compact form; once per pod, when it is queued
//! let mut planner = Planner::new(&mut cluster, profile);     // one per profile: its memory of shapes
//! planner.admit(&cluster, &pod) -> Admission                 // PreEnqueue
//! planner.plan(&cluster, &pod, wall, seed, &mut NoExtenders) -> Decision
//! cluster.assume(&pod, &placement)?; cluster.forget(uid);    // assumed pods count until the API confirms them
//! cluster.nominate(&pod, "node"); cluster.withdraw(uid);     // after preemption
//! ```
//!
//! [`Cluster::apply`] takes pods that are assigned to a node (others are remembered only through
//! [`Cluster::nominate`]); finished pods (`Succeeded`, `Failed`) leave their node. An assumed pod that the API confirms
//! replaces the assumption. The answers are [`decision::Decision`].
//!
//! How a plan stays short: pods of one shape and priority share a table with what the plugins that look at one node alone
//! say of each node (`local_table`), and the journal of changed nodes brings it up to date, with the order of the nodes that it
//! implies (`ranking`): a pod that no other plugin filters takes the first of that order. Plugins that look at other pods (`spread`,
//! `affinity`) add up counters by domain that the snapshot keeps per node. Preemption keeps, per shape and priority, what
//! it found on nodes that did not change.

mod affinity;
pub mod cluster;
mod compiled_profile;
mod context;
pub mod costs;
pub mod decision;
mod device_claims;
pub mod devices;
pub mod extenders;
mod filtering;
mod local_table;
mod message;
mod planner;
pub mod preempt;
pub mod profile;
mod ranking;
mod rejection;
mod resource_scores;
mod score;
mod spread;
#[cfg(test)]
mod tests;
mod trial;
pub mod verdict;
mod volumes;

pub use cluster::{Change, Cluster, Object};
pub use decision::Decision;
pub use extenders::{Extenders, NoExtenders};
pub use planner::Planner;
pub use profile::Profile;
