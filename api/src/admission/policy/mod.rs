//! Admission policies: rules in expressions, which clients store, over the writes that they match.
//!
//! Owns the way from stored policies and bindings to what they say of a write: which policies a write meets ([`prepared`], [`met`]),
//! parameters ([`params`]), what follows from a violation ([`validating`], [`refusal`], [`checks`], [`witness`]), and how objects
//! are changed ([`mutating`], [`change`]). How a write is matched and shown is [`super::matching`]'s, which webhooks share. The
//! expressions themselves, their order and their texts are `orch_rules::expression::policy`'s.
//!
//!     a write -> looked up by its resource -> selectors and rules -> parameters -> evaluated -> deny, warn, audit
//!
//! Policies are prepared as a derived value ([0022](../../../../docs/decisions/0022-derived-values-are-brought-up-by-who-asks.md)):
//! one is in force with the next request on the node that acknowledged it. Its expressions are compiled by the first
//! request that it matches ([0049](../../../../docs/decisions/0049-policies-compile-where-they-are-first-met.md)).
//!
//! Invariant: a write that no policy names costs two look-ups, and allocates nothing.

mod authority;
mod change;
mod checks;
mod met;
mod mutating;
mod params;
mod prepared;
mod refusal;
mod validating;
mod witness;
mod write;

pub(super) use self::authority::confirm_params;
pub(super) use self::mutating::MutatingAdmissionPolicy;
pub(super) use self::validating::ValidatingAdmissionPolicy;
pub use self::witness::{Evaluation, Mutated, Outcome, Witness};
use super::Attributes;

/// Storage resources of policies and bindings, whose own writes no policy judges: one could not be removed any more.
const UNJUDGED: [&str; 4] = [
    "validatingadmissionpolicies.admissionregistration",
    "validatingadmissionpolicybindings.admissionregistration",
    "mutatingadmissionpolicies.admissionregistration",
    "mutatingadmissionpolicybindings.admissionregistration",
];

/// Whether the write is one of a policy or binding.
pub(super) fn is_of_policies(attributes: &Attributes<'_>) -> bool {
    // few: four kinds.
    UNJUDGED.contains(&&*attributes.resource.storage)
}

/// Whether policies are asked about the write: not about policies, nor about reviews, which are not stored.
fn is_judged(attributes: &Attributes<'_>) -> bool {
    attributes.resource.review.is_none() && !is_of_policies(attributes)
}
