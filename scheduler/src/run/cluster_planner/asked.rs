//! The extenders in one plan: their answers as the planner takes them.
//!
//! Owns which nodes, scores and victims remain after the extenders' answers, and what the failure of an extender does to the plan. How
//! an extender is called is `run::extender`'s.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::super::extender::{Extender, ExtenderError, Filtered, MetaVictims, REFUSED};
use super::Whole;
use crate::api::core::v1::Pod;
use crate::client::chain;
use crate::objects::pod::Pod as Compiled;
use crate::plan::cluster::nodes::NodeId;
use crate::plan::extenders::Rejection;
use crate::plan::preempt::Candidate;
use crate::plan::verdict::Resolvable;
use crate::plan::{Cluster, Extenders};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

/// The most that extenders add to a node's score, and take from it: far beyond all scores of plugins, to which it is added, and
/// far from where that sum would overflow.
const EXTRA_MAX: i64 = 1 << 53;

/// The extenders that are interested in the pod that is planned.
pub(super) struct Asked<'a> {
    pub(super) extenders: Vec<&'a Arc<Extender>>,
    pub(super) runtime: &'a Handle,
    pub(super) whole: &'a Whole,
    pub(super) api: &'a Pod,
    /// When the plan's time for extenders is over.
    pub(super) deadline: Instant,
}

impl Asked<'_> {
    /// Passes over an extender that may be ignored; the failure of another one is that of the plan.
    fn ignored(extender: &Extender, error: &ExtenderError) -> Result<(), String> {
        let (text, url) = (chain(error), &extender.config().url_prefix);
        #[cfg(test)]
        if plant::is(Plant::TrustsSilentExtenders) {
            return Ok(());
        }
        if !extender.config().is_ignorable {
            return Err(text);
        }
        // The failure after which it is left alone was told.
        if !error.is_silence() {
            tracing::warn!(%url, error = text, "skipping an extender that failed and is ignorable");
        }
        Ok(())
    }
}

impl Extenders for Asked<'_> {
    fn sees_nodes(&self) -> bool {
        let mut configs = self.extenders.iter().map(|extender| extender.config());
        configs.any(|config| !config.filter_verb.is_empty() || !config.prioritize_verb.is_empty())
    }

    fn filter(
        &mut self,
        cluster: &Cluster,
        _pod: &Compiled,
        feasible: &[NodeId],
    ) -> Result<Vec<Rejection>, String> {
        let mut left: HashMap<String, NodeId> =
            feasible.iter().map(|node| (cluster.node_name(*node).to_string(), *node)).collect();
        let mut rejections = Vec::new();
        for extender in self.extenders.iter().filter(|extender| !extender.config().filter_verb.is_empty()) {
            if left.is_empty() {
                break;
            }
            let mut names: Vec<&str> = left.keys().map(String::as_str).collect();
            names.sort_unstable();
            let asking = extender.filter(self.api, &names, |name| self.whole.node(name));
            // The scheduling thread is no part of the runtime, and the next plan needs this answer: nothing else could run.
            match extender.wait(self.runtime, self.deadline, asking) {
                Ok(filtered) => rejections.extend(rejected(&mut left, &filtered)),
                Err(error) => Self::ignored(extender, &error)?,
            }
        }
        Ok(rejections)
    }

    fn prioritize(&mut self, cluster: &Cluster, _pod: &Compiled, feasible: &[NodeId]) -> Vec<i64> {
        let scoring: Vec<_> =
            self.extenders.iter().filter(|extender| !extender.config().prioritize_verb.is_empty()).collect();
        if scoring.is_empty() {
            return Vec::new();
        }
        let names: Vec<Arc<str>> = feasible.iter().map(|node| cluster.node_name(*node)).collect();
        let asked: Vec<&str> = names.iter().map(|name| &**name).collect();
        let mut scores = vec![0_i64; names.len()];
        for extender in scoring {
            let asking = extender.prioritize(self.api, &asked, |name| self.whole.node(name));
            let under_way = ::metrics::gauge!("scheduler_goroutines", "operation" => "prioritizing_extender");
            under_way.increment(1.0);
            // As in `filter`: the plan waits for this answer, on a thread of its own.
            let answer = extender.wait(self.runtime, self.deadline, asking);
            under_way.decrement(1.0);
            match answer {
                Ok(given) => {
                    for (score, name) in scores.iter_mut().zip(&asked) {
                        let given = given.get(*name).copied().unwrap_or_default();
                        *score = score.saturating_add(given).clamp(-EXTRA_MAX, EXTRA_MAX);
                    }
                }
                // As in the reference, the scores of the others decide.
                Err(error) if error.is_silence() => {}
                Err(error) => {
                    let url = &extender.config().url_prefix;
                    tracing::warn!(%url, error = chain(&error), "an extender gives no scores");
                }
            }
        }
        scores
    }

    fn preempt(
        &mut self,
        cluster: &Cluster,
        _pod: &Compiled,
        candidates: &[Arc<Candidate>],
    ) -> Result<Option<Vec<Candidate>>, String> {
        let mut left: Vec<Candidate> = candidates.iter().map(|candidate| (**candidate).clone()).collect();
        let mut is_asked = false;
        for extender in self.extenders.iter().filter(|extender| !extender.config().preempt_verb.is_empty()) {
            if left.is_empty() {
                break;
            }
            is_asked = true;
            let name = |candidate: &Candidate| cluster.node_name(candidate.node).to_string();
            let victims = left.iter().map(|candidate| {
                let pods = candidate.victims.iter().map(|victim| self.whole.victim(victim)).collect();
                (name(candidate), pods)
            });
            let victims: HashMap<String, Vec<Pod>> = victims.collect();
            let count = |candidate: &Candidate| i64::try_from(candidate.violations).unwrap_or(i64::MAX);
            let violations = left.iter().map(|candidate| (name(candidate), count(candidate))).collect();
            // As in `filter`: the plan waits for this answer, on a thread of its own.
            let asking = extender.preempt(self.api, &victims, &violations);
            match extender.wait(self.runtime, self.deadline, asking) {
                Ok(kept) => left = kept_candidates(left, &kept, name),
                Err(error) => Self::ignored(extender, &error)?,
            }
        }
        Ok(is_asked.then_some(left))
    }
}

/// Takes the nodes that an extender refused out of `left`, with its reasons.
fn rejected(left: &mut HashMap<String, NodeId>, filtered: &Filtered) -> Vec<Rejection> {
    let mut rejections = Vec::new();
    left.retain(|name, node| {
        if filtered.feasible.contains(name) {
            return true;
        }
        let (reason, resolvable) = match (filtered.unresolvable.get(name), filtered.failed.get(name)) {
            (Some(reason), _) => (reason.clone(), Resolvable::No),
            (None, Some(reason)) => (reason.clone(), Resolvable::Yes),
            (None, None) => (REFUSED.to_owned(), Resolvable::Yes),
        };
        rejections.push(Rejection { node: *node, reason, resolvable });
        false
    });
    rejections.sort_by_key(|rejection| rejection.node.index());
    rejections
}

/// The candidates that an extender kept, with the victims that it kept of each.
fn kept_candidates(
    candidates: Vec<Candidate>,
    kept: &HashMap<String, MetaVictims>,
    name: impl Fn(&Candidate) -> String,
) -> Vec<Candidate> {
    let with_victims = |mut candidate: Candidate| {
        let meta = kept.get(&name(&candidate))?;
        candidate.victims.retain(|victim| meta.uids().any(|uid| uid == &*victim.uid));
        candidate.violations = usize::try_from(meta.num_pdb_violations).unwrap_or_default();
        Some(candidate)
    };
    candidates.into_iter().filter_map(with_victims).collect()
}
