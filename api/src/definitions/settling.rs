//! The wait until a definition that was written is in force, or is known not to come into force.
//!
//! Owns what a client may count on: the member that acknowledged a definition serves its objects at once, and each other member as
//! soon as it has applied what this one had. The loop of definitions (`controllers::definitions`), which runs where the leader is,
//! writes the status; this module only looks at it.
//!
//! Invariant: a definition is parsed once for each of its versions, however many others change meanwhile.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use orch_bounded::WarningLimit;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, Store};
use orch_rules::kinds::definition::conditions::{ConditionType, is_settled};
use orch_rules::validate::tree::Tree;

use super::{DEFINITIONS, outline_of};
use crate::follow::any_changed;

/// Longest wait for the loop. It writes a status within milliseconds; a new leader's loop has read all definitions within a second.
/// Behind that the definition comes into force as it does in the reference, some time after the answer.
pub(super) const SETTLE_MAX: Duration = Duration::from_secs(2);

/// Limits the warnings: without a leader each create of a definition would be one.
static UNSETTLED: WarningLimit = WarningLimit::new();

/// Completes when the loop of definitions has looked at the definition called `name`, as this node has applied it: whether it is in
/// force. `false` also where there is no such definition.
pub(crate) async fn settled<S: Store>(store: &S, name: &str) -> bool {
    settled_after(store, name, None).await
}

/// The same, where the loop has not looked at the definition as it is stored at `seen`.
async fn settled_after<S: Store>(store: &S, name: &str, mut seen: Option<Revision>) -> bool {
    let mut changed = [store.subscribe(&DEFINITIONS.into())];
    loop {
        // Others' changes wake this, too: thousands may come together.
        let newest = store.state().collection(DEFINITIONS).get(name).cloned();
        let Some(newest) = newest else { return false };
        if seen.replace(newest.revision) != Some(newest.revision) {
            let Some(definition) = outline_of(&newest) else { return false };
            if is_settled(&definition) {
                return ConditionType::Established.is_true(&definition);
            }
        }
        any_changed(&mut changed).await;
    }
}

/// Completes when the definition that was written as `object` is settled as this node has applied it, and behind `time` at the latest.
pub(super) async fn written_settles<S: Store>(store: &S, object: &SharedObject, time: Duration) {
    let Some(definition) = outline_of(object).filter(|definition| !is_settled(definition)) else { return };
    let spec = definition.at("spec");
    let name = format!("{}.{}", spec.at("names").text("plural"), spec.text("group"));
    within(store, &name, settled_after(store, &name, Some(object.revision)), time).await;
}

/// Completes when the definition called `name` is settled as this node has applied it, and behind `time` at the latest. Without one
/// it completes at once.
pub(super) async fn named_settles<S: Store>(store: &S, name: &str, time: Duration) {
    within(store, name, settled(store, name), time).await;
}

async fn within<S: Store>(store: &S, name: &str, looking: impl Future<Output = bool>, time: Duration) {
    if let Either::Right(_) = select(pin!(looking), pin!(store.sleep(time))).await
        && let Some(left_out) = UNSETTLED.pass()
    {
        tracing::warn!(definition = %name, left_out, "a definition is not in force yet: no loop has looked at it");
    }
}
