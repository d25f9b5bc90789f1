//! Rules of kinds: a small file for each kind whose rules only code can state; the rest of a kind is its message in `proto/`.
//!
//! Owns the table from kind to strategy. A strategy is pure: see `strategy`.

#[cfg(test)]
mod absence;
pub mod admission_policy;
mod admission_rule;
pub mod age;
pub mod alike;
pub mod api_service;
pub mod autoscaler;
pub mod batch;
pub mod binding;
pub mod certificate_signing_request;
pub mod component_status;
pub mod config_map;
pub mod defined;
pub mod definition;
pub mod device;
pub mod disruption_budget;
pub mod endpoint_slice;
pub mod endpoints;
pub mod event;
pub mod flow_control;
mod key_pair;
pub mod lease;
pub mod limit_range;
pub mod namespace;
pub mod networking;
pub mod node;
mod node_label;
mod object_meta;
pub mod persistent_volume;
pub mod pod;
pub mod pod_template;
pub mod priority_class;
pub mod rbac;
pub mod resource_quota;
pub mod review;
pub mod runtime_class;
pub mod scale;
pub mod secret;
pub mod service;
pub mod service_account;
pub mod storage;
pub mod strategy;
#[cfg(test)]
pub(crate) mod testing;
pub mod token_request;
pub mod version;
pub mod volume_claim;
pub(crate) mod volume_source;
mod webhook_client;
pub mod webhook_configuration;
pub mod workload;

use std::sync::Arc;

pub use crate::Action;
pub use orch_schema::NameRule;
pub use strategy::{Cell, Context, NamespaceRequirement, Plain, Requester, Strategy, value_at};

/// The strategy of a storage resource, which serves all versions of its objects; `None` for a kind that is not served.
#[expect(clippy::too_many_lines, reason = "one decision with a line for each kind")]
pub fn strategy_for(storage_resource: &str) -> Option<Arc<dyn Strategy>> {
    Some(match storage_resource {
        "apiservices.apiregistration" => Arc::new(api_service::ApiService),
        "bindings" | "pods/binding" => Arc::new(binding::Binding),
        "certificatesigningrequests.certificates" => {
            Arc::new(certificate_signing_request::CertificateSigningRequest)
        }
        "clusterrolebindings.rbac.authorization" => Arc::new(rbac::ClusterRoleBinding),
        "clusterroles.rbac.authorization" => Arc::new(rbac::ClusterRole),
        "componentstatuses" => Arc::new(component_status::ComponentStatus),
        "configmaps" => Arc::new(config_map::ConfigMap),
        "controllerrevisions.apps" => Arc::new(workload::ControllerRevision),
        "cronjobs.batch" => Arc::new(batch::CronJob),
        "csidrivers.storage" => Arc::new(storage::CsiDriver),
        "csinodes.storage" => Arc::new(storage::CsiNode),
        "csistoragecapacities.storage" => Arc::new(storage::CsiStorageCapacity),
        "customresourcedefinitions.apiextensions" => Arc::new(definition::CustomResourceDefinition),
        "daemonsets.apps" => Arc::new(workload::DaemonSet),
        "deployments.apps" => Arc::new(workload::Deployment),
        "deviceclasses.resource" => Arc::new(device::DeviceClass),
        "endpoints" => Arc::new(endpoints::Endpoints),
        "endpointslices.discovery" => Arc::new(endpoint_slice::EndpointSlice),
        "events" => Arc::new(event::Event),
        "flowschemas.flowcontrol.apiserver" => Arc::new(flow_control::FlowSchema),
        "horizontalpodautoscalers.autoscaling" => Arc::new(autoscaler::HorizontalPodAutoscaler),
        "ingressclasses.networking" => Arc::new(networking::IngressClass),
        "ingresses.networking" => Arc::new(networking::Ingress),
        "ipaddresses.networking" => Arc::new(networking::IpAddress),
        "jobs.batch" => Arc::new(batch::Job),
        "leases.coordination" => Arc::new(lease::Lease),
        "limitranges" => Arc::new(limit_range::LimitRange),
        "localsubjectaccessreviews.authorization" => Arc::new(review::LocalSubjectAccessReview),
        "mutatingadmissionpolicies.admissionregistration" => {
            Arc::new(admission_policy::MutatingAdmissionPolicy)
        }
        "mutatingadmissionpolicybindings.admissionregistration" => {
            Arc::new(admission_policy::PolicyBinding::Mutating)
        }
        "mutatingwebhookconfigurations.admissionregistration" => {
            Arc::new(webhook_configuration::MutatingWebhookConfiguration)
        }
        "namespaces" => Arc::new(namespace::Namespace),
        "networkpolicies.networking" => Arc::new(networking::NetworkPolicy),
        "nodes" => Arc::new(node::Node),
        "persistentvolumeclaims" => Arc::new(volume_claim::PersistentVolumeClaim),
        "persistentvolumes" => Arc::new(persistent_volume::PersistentVolume),
        "poddisruptionbudgets.policy" => Arc::new(disruption_budget::PodDisruptionBudget),
        "pods" => Arc::new(pod::Pod),
        "pods/eviction" => Arc::new(Plain),
        "podtemplates" => Arc::new(pod_template::PodTemplate),
        "prioritylevelconfigurations.flowcontrol.apiserver" => {
            Arc::new(flow_control::PriorityLevelConfiguration)
        }
        "priorityclasses.scheduling" => Arc::new(priority_class::PriorityClass),
        "replicasets.apps" => Arc::new(workload::ReplicaSet),
        "replicationcontrollers" => Arc::new(workload::ReplicationController),
        "resourceclaims.resource" => Arc::new(device::ResourceClaim),
        "resourceclaimtemplates.resource" => Arc::new(device::ResourceClaimTemplate),
        "resourceslices.resource" => Arc::new(device::ResourceSlice),
        "resourcequotas" => Arc::new(resource_quota::ResourceQuota),
        "rolebindings.rbac.authorization" => Arc::new(rbac::RoleBinding),
        "roles.rbac.authorization" => Arc::new(rbac::Role),
        "runtimeclasses.node" => Arc::new(runtime_class::RuntimeClass),
        "secrets" => Arc::new(secret::Secret),
        "selfsubjectaccessreviews.authorization" => Arc::new(review::SelfSubjectAccessReview),
        "selfsubjectreviews.authentication"
        | "selfsubjectrulesreviews.authorization"
        | "tokenreviews.authentication" => Arc::new(Plain),
        "serviceaccounts" => Arc::new(service_account::ServiceAccount),
        "serviceaccounts/token" => Arc::new(token_request::TokenRequest),
        "servicecidrs.networking" => Arc::new(networking::ServiceCidr),
        "services" => Arc::new(service::Service),
        "statefulsets.apps" => Arc::new(workload::StatefulSet),
        "storageclasses.storage" => Arc::new(storage::StorageClass),
        "subjectaccessreviews.authorization" => Arc::new(review::SubjectAccessReview),
        "validatingadmissionpolicies.admissionregistration" => {
            Arc::new(admission_policy::ValidatingAdmissionPolicy)
        }
        "validatingadmissionpolicybindings.admissionregistration" => {
            Arc::new(admission_policy::PolicyBinding::Validating)
        }
        "validatingwebhookconfigurations.admissionregistration" => {
            Arc::new(webhook_configuration::ValidatingWebhookConfiguration)
        }
        "volumeattachments.storage" => Arc::new(storage::VolumeAttachment),
        "volumeattributesclasses.storage" => Arc::new(storage::VolumeAttributesClass),
        scale if scale.ends_with("/scale") => Arc::new(scale::Scale::BuiltIn),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::ResourceType;
    use orch_schema::testing::orch;

    use super::*;

    #[test]
    fn every_resource_of_the_schema_has_a_strategy() {
        let domain = format!(".{}", ORCH.group_domain);
        let lacking = |resource: &&ResourceType| {
            let stem = resource.group.strip_suffix(&domain).unwrap_or(&resource.group);
            let name =
                if stem.is_empty() { resource.plural.clone() } else { format!("{}.{stem}", resource.plural) };
            let form = version::other_form(&name, &resource.version);
            strategy_for(form.map_or(&name, |form| form.storage)).is_none()
        };
        let lacking = orch().resources().iter().filter(lacking);
        let lacking: Vec<&str> = lacking.map(|of| of.plural.as_str()).collect();
        assert_eq!(lacking, [""; 0]);
        assert!(strategy_for("nonesuch").is_none());
    }
}
