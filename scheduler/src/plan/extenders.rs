//! Where helpers outside of the process have their say.
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
    /// Why.
    pub reason: String,
    /// Whether the eviction of pods could change that.
    pub resolvable: Resolvable,
}

/// Helpers outside of the process. An error ends the plan with [`super::decision::Decision::Failed`].
pub trait Extenders {
    /// Whether any of them refuses or scores nodes for the pod that is planned. Where none does, [`Extenders::filter`]
    /// and [`Extenders::prioritize`] need not be called, and a plan makes no list of nodes.
    fn sees_nodes(&self) -> bool;

    /// Refuses some of the nodes that passed the filters.
    ///
    /// # Errors
    /// A helper that must not be ignored failed; the text says which and how.
    fn filter(&mut self, cluster: &Cluster, pod: &Pod, feasible: &[NodeId])
    -> Result<Vec<Rejection>, String>;

    /// What is added to the scores of nodes, weighted; in the order of `feasible`, or empty for nothing.
    fn prioritize(&mut self, cluster: &Cluster, pod: &Pod, feasible: &[NodeId]) -> Vec<i64>;

    /// Changes the candidates of a preemption: drops nodes, or changes their victims. `None`: leaves them as they are.
    ///
    /// # Errors
    /// A helper that must not be ignored failed; the text says which and how.
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
