//! Admission: plugins that complete a write or refuse it, in view of other objects.
//!
//! Owns the interface of plugins; `chain` owns their order and the three phases. A plugin mutates before the server sets uid and name and the kind prepares the
//! object, and validates after the kind's own rules; both once for a document, since they may wait for another server. It
//! reserves when the write is about to be proposed, again for each view of the store. Conditions that have to hold when the
//! write is applied, and counters that change with it, go into the same transaction
//! (docs/decisions/0020-admission-adds-to-the-transaction.md).
//!
//!     mutate     first round: every plugin; second round, once, if a plugin asks for it: every plugin
//!     validate   every plugin
//!     reserve    every plugin, again for each view
//!
//! Documents that are not stored pass the chain, too: the options of connections that the server passes on (exec, attach,
//! portforward, proxy), bindings, evictions, token requests and reviews.
//!
//! A refusal based on a state that may be stale is not final: its plugin is asked again on the newest state.
//!
//! Invariant: every write of an API object passes the chain, those of sub-resources and controllers too. The exceptions are
//! the removal of events that have ended (`controllers::expiry`) and the IPAddress objects that are written with their
//! service (`pipeline::allotment`).

mod additions;
mod always;
mod always_pull_images;
mod attributes;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod chain;
mod claim_status;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod matching;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policy;
mod priority;
#[cfg(test)]
mod recorded;
pub(crate) mod resource_quota;
mod role_escalation;
mod ruling;
mod runtime_class;
mod selection;
mod service_account;
mod settings;
#[cfg(test)]
pub(crate) mod slow;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
pub(crate) mod testing;
mod timing;
mod tolerations;
mod webhook;

// Names and rules in configurations of plugins.
pub use orch_rules::pod_security as standards;
pub use orch_rules::validate::names::{dns1123_label, dns1123_subdomain};
use orch_schema::value::Value;

pub use crate::view::{Labels, View};

pub use additions::Additions;
pub(crate) use additions::{Extent, UNSET_REVISION};
pub use attributes::{Attributes, Operation};
pub use chain::Chain;
pub use event_rate_limit::{CACHE_SIZE, EventLimit, LimitType};
pub use namespace_auto_provision::{MakeNamespace, NamespaceMaker};
pub use pod_node_selector::{NodeLabels, NodeSelectors, parse_node_labels};
pub use pod_security::PodSecuritySettings;
pub use pod_toleration_restriction::{Toleration, TolerationLists};
pub use policy::{Evaluation, Mutated, Outcome, Witness};
pub(crate) use role_escalation::confirm_rights;
pub(crate) use ruling::{Finality, Refused, forbidden};
pub use ruling::{Refusal, Ruling, rule};
pub use selection::PluginSelection;
pub(crate) use service_account::root_ca_config_map;
pub use settings::{Settings, TolerationSeconds};
pub use webhook::{BYPASS_UNTIL, LOCKOUT_GROUP};

/// An admission plugin: a rule over the writes of several kinds. The default methods accept every write.
pub trait Plugin: Send + Sync + 'static {
    /// Name under the reference's `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// Whether the plugin is called for the write at all.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// Completes `object`, in its stored form with defaults, or refuses the write; `None` where it is to be deleted. Asked once
    /// for a document, and once more if a plugin asks for a second round ([`Additions::ask_again`]). May wait, and may have
    /// effects if it returns a future: a ruling that is ready may be asked for again. A refusal leaves `object` as it
    /// was: unless it is final, the plugin is asked again in view of a newer state.
    ///
    /// A new object has no uid, no creation time and no generated name yet.
    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Ok(()))
    }

    /// Refuses the write of `object`, valid by the rules of its kind; `None` where it is to be deleted. Asked as `mutate`
    /// is.
    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(Ok(()))
    }

    /// Adds what is counted or claimed with the write of `object`, `None` where it is to be deleted, or refuses the write in
    /// this view. Asked again for each view in which the write is proposed, so it has no effect but its additions. The
    /// `resourceVersion` of `object` has no meaning here.
    ///
    /// # Errors
    /// The refusal, which is given if it is repeated in view of the newest state.
    fn reserve(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&Value>,
        _view: &View,
        _additions: &mut Additions,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The refusal of a write when a condition that this plugin added did not hold as it was to be applied.
    /// `attributes.old` is absent here. `found`: the condition's key holds an object. `None`: the write reserves again, or
    /// fails with a 503 if the condition was added while mutating or validating.
    fn broken_condition(&self, _attributes: &Attributes<'_>, _found: bool) -> Option<Refusal> {
        None
    }
}
