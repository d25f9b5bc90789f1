//! The interface to HTTP extenders.
//!
//! Owns the interface only: the executor asks them over HTTP.

use std::sync::Arc;

use super::cluster::Cluster;
use super::cluster::nodes::NodeId;
use super::preempt::Candidate;
use super::verdict::Resolvable;
use crate::objects::pod::Pod;

/// A node that an extender refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The node.
    pub node: NodeId,
    /// The extender's reason.
    pub reason: String,
    /// Whether the eviction of pods could change that.
    pub resolvable: Resolvable,
}

/// HTTP extenders. An error ends the plan with [`super::decision::Decision::Failed`].
pub trait Extenders {
    /// Whether any of them refuses or scores nodes for the pod that is planned. Where none does, [`Extenders::filter`]
    /// and [`Extenders::prioritize`] need not be called, and a plan makes no list of nodes.
    fn sees_nodes(&self) -> bool;

    /// Refuses some of the nodes that passed the filters.
    ///
    /// # Errors
    /// An extender that is not `ignorable` failed; the text has its URL and the failure.
    fn filter(&mut self, cluster: &Cluster, pod: &Pod, feasible: &[NodeId])
    -> Result<Vec<Rejection>, String>;

    /// Weighted scores of the extenders, in the order of `feasible`; empty where no extender scores.
    fn prioritize(&mut self, cluster: &Cluster, pod: &Pod, feasible: &[NodeId]) -> Vec<i64>;

    /// Changes the candidates of a preemption: drops nodes, or changes their victims. `None`: leaves them as they are.
    ///
    /// # Errors
    /// An extender that is not `ignorable` failed; the text has its URL and the failure.
    fn preempt(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        candidates: &[Arc<Candidate>],
    ) -> Result<Option<Vec<Candidate>>, String>;
}

/// No helpers.
#[derive(Clone, Copy, Debug)]
pub struct NoExtenders;

impl Extenders for NoExtenders {
    fn sees_nodes(&self) -> bool {
        false
    }

    fn filter(&mut self, _: &Cluster, _: &Pod, _: &[NodeId]) -> Result<Vec<Rejection>, String> {
        Ok(Vec::new())
    }

    fn prioritize(&mut self, _: &Cluster, _: &Pod, _: &[NodeId]) -> Vec<i64> {
        Vec::new()
    }

    fn preempt(
        &mut self,
        _: &Cluster,
        _: &Pod,
        _: &[Arc<Candidate>],
    ) -> Result<Option<Vec<Candidate>>, String> {
        Ok(None)
    }
}
