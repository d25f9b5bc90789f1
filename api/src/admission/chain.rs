//! The chain of admission plugins.
//!
//! Owns the order in which the built-in plugins are called, which is the reference's, and the walk through them in each phase. A
//! plugin's rule is its own; the pipeline decides when a phase begins, and goes on with the plugin that refused a write when a newer
//! state may let it pass.

use std::sync::Arc;

use futures::future::Either;
use orch_schema::value::Value;

use super::ruling::awaited;
use super::timing::{Step, Timing, Watch};
use super::{
    Additions, Attributes, NamespaceMaker, Plugin, PluginSelection, Refused, Settings, View, Witness, always,
    always_pull_images, certificate_approval, certificate_signing, certificate_subject_restriction,
    claim_status, default_ingress_class, default_storage_class, default_toleration_seconds,
    deny_service_external_ips, event_rate_limit, extended_resource_toleration,
    limit_pod_hard_anti_affinity_topology, limit_ranger, namespace_auto_provision, namespace_exists,
    namespace_lifecycle, node_restriction, owner_references_permission_enforcement,
    persistent_volume_claim_resize, pod_node_selector, pod_resize_validator, pod_security,
    pod_toleration_restriction, pod_topology_labels, policy, priority, resource_quota, runtime_class,
    service_account, storage_object_in_use_protection, taint_nodes_by_condition, webhook,
};
use crate::ambient::{Ambient, SystemAmbient};
use crate::error::ApiError;
use crate::webhook::{Purpose, Webhooks};

/// The plugins, in the order in which they are called.
pub struct Chain {
    pub(super) plugins: Vec<Box<dyn Plugin>>,
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
