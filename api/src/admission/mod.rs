//! Admission: plugins that complete a write or refuse it, in view of other objects (DESIGN 13).
//!
//! Owns the chain and its three phases. A plugin mutates before the server sets uid and name and the kind prepares the
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

use std::sync::Arc;

use futures::future::Either;
// Names and rules in configurations of plugins.
pub use orch_rules::pod_security as standards;
pub use orch_rules::validate::names::{dns1123_label, dns1123_subdomain};
use orch_schema::value::Value;

use crate::ambient::{Ambient, SystemAmbient};
use crate::error::ApiError;
use crate::webhook::{Purpose, Webhooks};
use ruling::awaited;
use timing::{Step, Timing, Watch};

pub use crate::view::{Labels, View};

pub use additions::Additions;
pub(crate) use additions::{Extent, UNSET_REVISION};
pub use attributes::{Attributes, Operation};
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

/// The plugins, in the order in which they are called.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    timing: Timing,
}

impl Chain {
    /// A chain that calls `plugins` in this order.
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Chain {
        Chain::timed(plugins, Arc::new(SystemAmbient))
    }

    /// The same, timed by `ambient`.
    fn timed(plugins: Vec<Box<dyn Plugin>>, ambient: Arc<dyn Ambient>) -> Chain {
        let timing = Timing::of(&plugins, ambient);
        Chain { plugins, timing }
    }

    /// The two plugins of admission policies alone, whose evaluations are shown to `witness`.
    pub fn of_policies(witness: Arc<dyn Witness>) -> Chain {
        Chain::new(vec![
            Box::new(policy::MutatingAdmissionPolicy::witnessed(witness.clone())),
            Box::new(policy::ValidatingAdmissionPolicy::witnessed(witness)),
        ])
    }

    /// The built-in plugins that need no background loop, in the reference's order.
    pub fn builtin() -> Chain {
        Chain::selected(&PluginSelection::without_loops())
    }

    /// The built-in plugins of `selection` in the reference's order.
    pub fn selected(selection: &PluginSelection) -> Chain {
        let settings = Settings { selection: selection.clone(), ..Settings::default() };
        let ambient: Arc<dyn Ambient> = Arc::new(SystemAmbient);
        Chain::configured(settings, &ambient, &NamespaceMaker::default(), &Webhooks::none())
    }

    /// The plugins that `settings` select, with their configurations, in the reference's order. `maker` makes namespaces
    /// for `NamespaceAutoProvision`, `webhooks` are called by the plugins for webhooks.
    pub fn configured(
        settings: Settings,
        ambient: &Arc<dyn Ambient>,
        maker: &NamespaceMaker,
        webhooks: &Webhooks,
    ) -> Chain {
        let Settings {
            selection,
            pod_security,
            node_selectors,
            tolerations,
            event_limits,
            toleration_seconds,
        } = settings;
        let callers = |purpose| {
            let webhooks = webhooks.called_for(purpose);
            webhook::Callers { webhooks, ambient: ambient.clone() }
        };
        let all: Vec<Box<dyn Plugin>> = vec![
            Box::new(always::AlwaysAdmit),
            Box::new(namespace_auto_provision::NamespaceAutoProvision { maker: maker.clone() }),
            Box::new(namespace_lifecycle::NamespaceLifecycle),
            Box::new(namespace_exists::NamespaceExists),
            Box::new(limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology),
            Box::new(limit_ranger::LimitRanger),
            Box::new(service_account::ServiceAccount { ambient: ambient.clone() }),
            Box::new(node_restriction::NodeRestriction),
            Box::new(taint_nodes_by_condition::TaintNodesByCondition),
            Box::new(always_pull_images::AlwaysPullImages),
            Box::new(pod_security::PodSecurity { settings: pod_security }),
            Box::new(pod_node_selector::PodNodeSelector { selectors: node_selectors }),
            Box::<priority::Priority>::default(),
            Box::new(default_toleration_seconds::DefaultTolerationSeconds { seconds: toleration_seconds }),
            Box::new(pod_toleration_restriction::PodTolerationRestriction::new(tolerations)),
            Box::new(event_rate_limit::EventRateLimit::new(&event_limits, ambient.clone())),
            Box::new(extended_resource_toleration::ExtendedResourceToleration),
            Box::new(default_storage_class::DefaultStorageClass),
            Box::new(storage_object_in_use_protection::StorageObjectInUseProtection),
            Box::new(owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement),
            Box::new(persistent_volume_claim_resize::PersistentVolumeClaimResize),
            Box::new(runtime_class::RuntimeClass),
            Box::new(certificate_approval::CertificateApproval),
            Box::new(certificate_signing::CertificateSigning),
            Box::new(certificate_subject_restriction::CertificateSubjectRestriction),
            Box::new(default_ingress_class::DefaultIngressClass),
            Box::new(deny_service_external_ips::DenyServiceExternalIps),
            Box::new(pod_topology_labels::PodTopologyLabels),
            Box::new(pod_resize_validator::PodResizeValidator),
            Box::new(claim_status::ClaimStatus),
            Box::<policy::MutatingAdmissionPolicy>::default(),
            Box::new(webhook::MutatingAdmissionWebhook::new(callers(Purpose::Mutating))),
            Box::<policy::ValidatingAdmissionPolicy>::default(),
            Box::new(webhook::ValidatingAdmissionWebhook::new(callers(Purpose::Validating))),
            Box::new(resource_quota::ResourceQuota(resource_quota::Release::AtOnce)),
            Box::new(always::AlwaysDeny),
        ];
        let selected = all.into_iter().filter(|plugin| selection.has(plugin.name())).collect();
        Chain::timed(selected, ambient.clone())
    }

    /// The same plugins, where a program beside the cluster's loops recomputes the usage of quotas: writes are charged, and
    /// give nothing back.
    #[must_use]
    pub fn with_usage_recomputed_elsewhere(mut self) -> Chain {
        for plugin in &mut self.plugins {
            if plugin.name() == resource_quota::NAME {
                *plugin = Box::new(resource_quota::ResourceQuota(resource_quota::Release::Elsewhere));
            }
        }
        self
    }

    /// Names of the plugins, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// Has every plugin from place `first` of the present round on complete `object`, `None` where it is to be deleted. A
    /// write whose refusal may be due to a stale view goes on with the plugin that refused it; what the plugins before it
    /// completed stays.
    ///
    /// # Errors
    /// The first refusal. `object` and `additions` are as the plugins before it left them.
    pub(crate) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        view: &View,
        additions: &mut Additions,
        first: usize,
    ) -> Result<(), Refused> {
        let mut watch = self.timing.begin(Step::Admit, attributes);
        let once =
            self.mutate_once(attributes, object.as_deref_mut(), view, (&mut *additions, &mut watch), first);
        let mut mutated = once.await;
        if mutated.is_ok() && additions.begin_second_round() {
            mutated = self.mutate_once(attributes, object, view, (&mut *additions, &mut watch), 0).await;
        }
        watch.end(mutated.is_err());
        mutated
    }

    /// A round of [`Chain::mutate`].
    async fn mutate_once(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        view: &View,
        (additions, watch): (&mut Additions, &mut Watch<'_>),
        first: usize,
    ) -> Result<(), Refused> {
        for (at, plugin) in self.asked(attributes, first) {
            let before = additions.begin(at);
            let ruling = plugin.mutate(attributes, object.as_deref_mut(), view, additions);
            let is_known = matches!(ruling, Either::Left(_));
            let ruled = awaited(ruling, attributes.budget).await;
            additions.note_ruling(is_known);
            watch.observe((at, plugin), ruled.is_err());
            if let Err(refusal) = ruled {
                additions.truncate(before);
                return Err(Refused::of(at, refusal, attributes));
            }
        }
        Ok(())
    }

    /// The validating phase from place `first` on: every plugin may refuse to store `object`, or to delete it where it is
    /// `None`.
    ///
    /// # Errors
    /// The first refusal. `additions` are as the plugins before it left them.
    pub(crate) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        view: &View,
        additions: &mut Additions,
        first: usize,
    ) -> Result<(), Refused> {
        let mut watch = self.timing.begin(Step::Validate, attributes);
        for (at, plugin) in self.asked(attributes, first) {
            let before = additions.begin(at);
            let ruling = plugin.validate(attributes, object, view, additions);
            let ruled = awaited(ruling, attributes.budget).await;
            watch.observe((at, plugin), ruled.is_err());
            if let Err(refusal) = ruled {
                additions.truncate(before);
                watch.end(true);
                return Err(Refused::of(at, refusal, attributes));
            }
        }
        watch.end(false);
        Ok(())
    }

    /// The reserving phase: adds what has to be counted or claimed with the write in this view.
    ///
    /// # Errors
    /// The first refusal. `additions` have those of the plugins before it.
    pub(crate) fn reserve(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        view: &View,
        additions: &mut Additions,
    ) -> Result<(), Refused> {
        let mut watch = self.timing.begin(Step::Reserve, attributes);
        for (at, plugin) in self.asked(attributes, 0) {
            additions.begin(at);
            let reserved = plugin.reserve(attributes, object, view, additions);
            watch.observe((at, plugin), reserved.is_err());
            reserved.map_err(|refusal| Refused::of(at, refusal, attributes))?;
        }
        Ok(())
    }

    /// The plugins from place `first` on that are asked about the write, with their places.
    fn asked<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        first: usize,
    ) -> impl Iterator<Item = (usize, &'a dyn Plugin)> {
        let plugins = self.plugins.iter().map(|plugin| &**plugin).enumerate().skip(first);
        plugins.filter(move |(_, plugin)| plugin.handles(attributes))
    }

    /// The error of a write whose condition number `at` of `additions` did not hold. `None`: its plugin gives none.
    pub(crate) fn broken_condition(
        &self,
        attributes: &Attributes<'_>,
        additions: &Additions,
        at: usize,
        found: bool,
    ) -> Option<ApiError> {
        let plugin = self.plugins.get(additions.author(at)?)?;
        let refusal = plugin.broken_condition(attributes, found)?;
        Some(refusal.into_error(attributes))
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
