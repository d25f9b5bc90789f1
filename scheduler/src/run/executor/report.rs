//! Reports about a pod to users: its condition, its nomination, and events.
//!
//! Invariant: no report is written twice: the last one is remembered until the watch shows it.

use std::sync::Arc;

use crate::queue::Uid;

use super::super::binding::PodRef;
use super::super::event::{Report, Severity, reference};
use super::super::input::{Effect, Patching};
use super::super::planning::Planning;
use super::super::pod_status::{Nomination, Unscheduled, unscheduled_patch, withdrawal_patch};
use super::pending::{Reported, Stage};
use super::{Executor, Now, pod_ref};

/// The message of the condition of a pod with gates.
const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

impl<P: Planning> Executor<P> {
    /// Reports why a pod has no node, by its condition and by an event.
    pub(super) fn report_failure(
        &mut self,
        uid: &Uid,
        reason: Unscheduled,
        message: &str,
        nomination: &Nomination,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.pending.get(uid) else { return };
        let report = Report {
            regarding: reference(&pod_ref(&pending.api)),
            related: None,
            severity: Severity::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: message.to_owned(),
            controller: self.options.profiles[pending.profile].scheduler_name.clone(),
        };
        effects.push(Effect::Record(report));
        self.report_condition(uid, reason, message, nomination, now, effects);
    }

    /// Writes the condition of a pod, unless that says so already.
    fn report_condition(
        &mut self,
        uid: &Uid,
        reason: Unscheduled,
        message: &str,
        nomination: &Nomination,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.pending.get_mut(uid) else { return };
        let patch = unscheduled_patch(&pending.api, reason, message, nomination, now.wall);
        let Some(patch) = patch else { return };
        let nominated = patch["status"].get("nominatedNodeName").cloned();
        let told = Reported { reason, message: message.to_owned(), nominated };
        if pending.reported.as_ref() != Some(&told) {
            pending.reported = Some(told);
            effects.push(Effect::Patch(pod_ref(&pending.api), patch));
        }
    }

    /// The write of a pod's status has ended. A write that failed is made again from the present state: a pod that is not planned
    /// for long would otherwise have no report.
    pub(super) fn patched(&mut self, uid: &Uid, outcome: Patching, now: Now, effects: &mut Vec<Effect>) {
        if outcome == Patching::Done {
            return;
        }
        let Some(pending) = self.pending.get_mut(uid) else { return };
        let Some(told) = pending.reported.take() else { return };
        if outcome == Patching::NotLeading || pending.stage == Stage::Assumed {
            return;
        }
        let nomination = match told.nominated.as_ref().map(serde_json::Value::as_str) {
            None => Nomination::Keep,
            Some(None) => Nomination::Clear,
            Some(Some(node)) => Nomination::Set(node.to_owned()),
        };
        self.report_condition(uid, told.reason, &told.message, &nomination, now, effects);
    }

    /// Writes the condition of a pod with gates, where the API did not.
    pub(super) fn report_gates(&mut self, uid: &Uid, now: Now, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get(uid) else { return };
        let gates = pending.api.spec.as_ref().is_some_and(|spec| !spec.scheduling_gates.is_empty());
        if gates {
            let reason = Unscheduled::SchedulingGated;
            self.report_condition(uid, reason, GATED, &Nomination::Keep, now, effects);
        }
    }

    /// The same for all pods: this process begins to lead, and its reports of before were not written.
    pub fn report_all_gates(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let waiting = self.pending.iter().filter(|(_, pending)| pending.stage == Stage::Queued);
        let mut uids: Vec<Uid> = waiting.map(|(uid, _)| uid.clone()).collect();
        // In an order that is the same each time.
        uids.sort_unstable();
        for uid in uids {
            if let Some(pending) = self.pending.get_mut(&uid) {
                pending.reported = None;
            }
            self.report_gates(&uid, now, effects);
        }
    }

    /// Takes back the nomination of a pod that another pod displaces.
    pub(super) fn withdraw_nomination(&mut self, uid: &Uid, effects: &mut Vec<Effect>) {
        self.planning.withdraw(&uid.0);
        self.queue.nominator_mut().remove(uid);
        let Some(pending) = self.pending.get_mut(uid) else { return };
        pending.reported = None;
        if let Some(patch) = withdrawal_patch(&pending.api) {
            effects.push(Effect::Patch(pod_ref(&pending.api), patch));
        }
    }
}

/// The event of a pod that was bound.
pub(super) fn scheduled(pod: &PodRef, node: &str, controller: Arc<str>) -> Report {
    Report {
        regarding: reference(pod),
        related: None,
        severity: Severity::Normal,
        reason: "Scheduled",
        action: "Binding",
        note: format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name),
        controller,
    }
}

/// The event of a pod that was evicted for another.
pub(super) fn preempted(victim: &PodRef, preemptor: &PodRef, node: &str, controller: Arc<str>) -> Report {
    Report {
        regarding: reference(victim),
        related: Some(reference(preemptor)),
        severity: Severity::Normal,
        reason: "Preempted",
        action: "Preempting",
        note: format!("Preempted by pod {} on node {node}", preemptor.uid),
        controller,
    }
}
