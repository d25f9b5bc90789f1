//! The promises of webhooks, recomputed from the ledger of all changes and from all calls.
//!
//! - no call is made twice;
//! - nothing is stored that a webhook refused, or that one which is needed has not allowed as it is stored;
//! - what a webhook changed is stored once, and each webhook that is needed has changed what is stored;
//! - nothing of a dry run is stored, and webhooks are told what is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orch_cluster_tests::sim::ledger::{Ledger, ObjectChange};
use orch_cluster_tests::sim::search::Counted;
use orch_raft::Revision;

use super::hosts::{Call, Data, WEBHOOKS};
use super::writers::DRY;

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Versions of objects.
    pub(crate) stored: usize,
    /// Requests that webhooks refused.
    pub(crate) denied: usize,
    /// Requests that failed with a webhook.
    pub(crate) failed: usize,
    /// Calls that reached a webhook.
    pub(crate) calls: usize,
}

impl Counted for Counts {
    fn add(&mut self, other: &Counts) {
        self.stored += other.stored;
        self.denied += other.denied;
        self.failed += other.failed;
        self.calls += other.calls;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { stored, denied, failed, calls } = self;
        write!(f, "{stored} versions stored, {denied} writes refused, {failed} failed, {calls} calls")
    }
}

/// Judges a run: the number of versions that were stored; `None`: a change may be unknown.
///
/// # Errors
/// The first broken promise.
pub(crate) fn judge(ledger: &Ledger, calls: &[Call]) -> Result<Option<usize>, String> {
    let mut uids = BTreeSet::new();
    for call in calls {
        if !uids.insert(&call.uid) {
            return Err(format!("{} is called twice about {:?}", call.webhook.name, call.data));
        }
        let is_dry = call.data.get("token").is_some_and(|token| token.starts_with(DRY));
        if is_dry != call.is_dry_run {
            return Err(format!("{} is told of a dry run: {}", call.webhook.name, call.is_dry_run));
        }
    }
    let mut about: BTreeMap<&Data, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.is_answered) {
        about.entry(&call.data).or_default().push(call);
    }
    let Some((_, changes)) = ledger.kept_after(Revision(0)) else { return Ok(None) };
    let mut stored = 0;
    for change in &changes {
        let Some(data) = data_of(change) else { continue };
        stored += 1;
        let answered = about.get(&data).map_or(&[][..], Vec::as_slice);
        judge_stored(&data, answered, calls)
            .map_err(|broken| format!("{}, stored at {}, {broken}", change.path, change.revision))?;
    }
    Ok(Some(stored))
}

/// The data that a change stored, of an object that clients write.
fn data_of(change: &ObjectChange) -> Option<Data> {
    let object: serde_json::Value = serde_json::from_slice(&change.new.as_ref()?.json).ok()?;
    let data: Data = serde_json::from_value(object["data"].clone()).ok()?;
    data.contains_key("token").then_some(data)
}

fn judge_stored(data: &Data, answered: &[&Call], calls: &[Call]) -> Result<(), String> {
    if data["token"].starts_with(DRY) {
        return Err("is of a dry run".to_owned());
    }
    for webhook in WEBHOOKS {
        let own: Vec<&&Call> = answered.iter().filter(|call| call.webhook == webhook).collect();
        if !webhook.mutates {
            if !own.is_empty() && webhook.refuses(data) {
                return Err(format!("is there though it was refused by {}", webhook.name));
            }
            if own.is_empty() && webhook.is_needed {
                return Err(format!("was not allowed by {}", webhook.name));
            }
            continue;
        }
        let prefix = webhook.mark();
        let marks: Vec<&str> = data.keys().filter_map(|key| key.strip_prefix(&prefix)).collect();
        let expected = if webhook.is_needed { 1..=1 } else { 0..=1 };
        if !expected.contains(&marks.len()) {
            return Err(format!("has {} marks of {}", marks.len(), webhook.name));
        }
        for mark in marks {
            let made = mark.parse().ok().and_then(|number: usize| calls.get(number));
            let is_own = made.is_some_and(|call| {
                call.mark.is_some() && call.is_answered && call.data.get("token") == data.get("token")
            });
            if !is_own {
                return Err(format!("has a mark of {} that no answer about it gave: {mark}", webhook.name));
            }
        }
    }
    Ok(())
}
