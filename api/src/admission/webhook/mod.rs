//! Admission webhooks: other servers that change writes or refuse them.
//!
//! Owns the way from stored configurations to what webhooks say of a write: which webhooks a write meets ([`prepared`],
//! [`super::matching`]), the document that they are sent ([`review`]), their answers ([`answer`], [`patched`]), what follows
//! from an answer or from none ([`asking`]), the order and the rounds ([`mutating`], [`validating`]), what passes beside a
//! dead one ([`health`], [`lockout`]), and what is left of it in audit events ([`trace`]) and counters ([`metrics`]). How a
//! webhook is reached is [`crate::webhook`]'s.
//!
//! Configurations are a derived value ([0022](../../../../docs/decisions/0022-derived-values-are-brought-up-by-who-asks.md)):
//! one is in force with the next request on the node that acknowledged it
//! ([0050](../../../../docs/decisions/0050-webhooks-are-asked-once.md)).
//!
//! Invariant: a write that no rule names costs a look-up and the comparison of rules, and allocates nothing beyond the list
//! of the webhooks of its resource. Nothing is held while a webhook is awaited; each is called once.

mod answer;
mod asking;
mod health;
mod lockout;
mod metrics;
mod mutating;
mod patched;
mod prepared;
mod review;
mod stored;
#[cfg(test)]
mod tests;
mod trace;
mod validating;

use std::sync::Arc;

use orch_bounded::WarningLimit;
use orch_schema::excerpt::part;

pub use self::lockout::{BYPASS_UNTIL, GROUP as LOCKOUT_GROUP};
pub(super) use self::mutating::MutatingAdmissionWebhook;
use self::prepared::Webhook;
pub(super) use self::validating::ValidatingAdmissionWebhook;
use super::{Attributes, policy};
use crate::ambient::Ambient;
use crate::webhook::Webhooks;

/// Storage resource of the configurations of mutating webhooks.
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration";
/// That of validating ones.
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration";

/// How webhooks are called.
pub(super) struct Callers {
    pub(super) webhooks: Webhooks,
    pub(super) ambient: Arc<dyn Ambient>,
}

/// Limits the warnings about webhooks that do not answer.
static UNANSWERED: WarningLimit = WarningLimit::new();

impl Callers {
    /// Logs a call without an answer, and what the write does then.
    fn warn(&self, webhook: &Webhook, then: &str, reason: &str) {
        if let Some(left_out) = UNANSWERED.pass() {
            let (configuration, reason) = (&*webhook.configuration, &*part(reason));
            tracing::warn!(configuration, reason, left_out, "a call of a webhook failed; the node {then}");
        }
    }
}

/// Whether webhooks are asked about the write: not about configurations of webhooks and policies, which could not be
/// mended any more. Reviews are shown to them.
fn is_asked_about(attributes: &Attributes<'_>) -> bool {
    let storage = &*attributes.resource.storage;
    storage != MUTATING && storage != VALIDATING && !policy::is_of_policies(attributes)
}
