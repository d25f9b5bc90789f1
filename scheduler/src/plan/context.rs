//! The read-only inputs of a plan: profile, snapshot, prepared indexes, the pod and the time.
//!
//! Owns no data: a [`Context`] is a bundle of references, made once the indexes of a plan are there.

use std::sync::Arc;

use crate::objects::pod::Pod;
use crate::wall_time::WallTime;

use super::cluster::Cluster;
use super::cluster::selections::Selections;
use super::cluster::topology::Topologies;
use super::compiled_profile::CompiledProfile;
use super::local_table::LocalTable;

/// The read-only inputs of a plan.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The profile.
    pub(super) rules: &'a CompiledProfile,
    /// The snapshot.
    pub(super) cluster: &'a Cluster,
    /// Topologies that were prepared.
    pub(super) topologies: &'a Topologies,
    /// Counters that were prepared.
    pub(super) selections: &'a Selections,
    /// The pod.
    pub(super) pod: &'a Arc<Pod>,
    /// Results of filters that look at one node alone.
    pub(super) table: &'a LocalTable,
    /// When it is planned.
    pub(super) wall: WallTime,
}
