//! Disruption budgets: whether a pod may be evicted, what that does to its budget, and the status of a budget.
//!
//! Owns the decisions, as functions of pods and budgets at one moment. The caller finds the pods that a budget selects and their
//! controllers, and makes the write depend on the versions that it has read.

mod eviction;
mod status;

pub use eviction::{EvictionDecision, ignores_budget, judge};
pub use status::{Count, Observed, failed_status, observed_status, recheck_time, scale_is_needed};

use orch_schema::json;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, set};

/// Condition of a budget: whether it allows a disruption now.
const ALLOWED: &str = "DisruptionAllowed";

/// Reason of that condition where the status could not be computed.
const SYNC_FAILED: &str = "SyncFailed";

/// Sets the condition of a budget's `status` to what its `disruptionsAllowed` says.
fn set_allowed_condition(status: &mut Value, now: &str) {
    let is_allowed = status.int("disruptionsAllowed").unwrap_or(0) > 0;
    let (value, reason) = if is_allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(status, value, reason, "", now);
}

/// Sets the condition [`ALLOWED`]. Its time of transition stays where its value does.
fn set_condition(status: &mut Value, value: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = status.items("conditions").to_vec();
    // once: one condition of one budget.
    let at = conditions.iter().position(|condition| condition.text("type") == ALLOWED);
    let known = at.map(|at| &conditions[at]).filter(|known| known.text("status") == value);
    let since = known.map_or(now, |known| known.text("lastTransitionTime")).to_owned();
    let mut condition = json!({
        "type": ALLOWED,
        "status": value,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    });
    let generation = status.int("observedGeneration").unwrap_or(0);
    if generation != 0 {
        set(&mut condition, "observedGeneration", generation);
    }
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    set(status, "conditions", conditions);
}
