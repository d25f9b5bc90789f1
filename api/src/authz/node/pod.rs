//! The objects of its namespace that a pod refers to.
//!
//! Owns the one visitor of a pod's references: pull secrets, volumes, and the environment of containers of every sort
//! (ordinary, init, ephemeral). The graph and the admission of mirror pods share it. It decides nothing.
//!
//! Only the members that may refer to something are decoded. A pod that cannot be decoded refers to nothing, so that its
//! node gets no right by it.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use smol_str::SmolStr;

/// Annotation of the pods that a kubelet makes of its own, below the brand's label domain.
pub(crate) const MIRROR_ANNOTATION: &str = "config.mirror";

/// The kind of an object that a pod refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ReferenceKind {
    ConfigMap,
    ResourceClaim,
    Secret,
    ServiceAccount,
    VolumeClaim,
}

/// The members of a pod that refer to other objects.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodDocument {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: SmolStr,
    #[serde(deserialize_with = "nullable")]
    annotations: BTreeMap<SmolStr, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: SmolStr,
    service_account_name: SmolStr,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    image_pull_secrets: Vec<Named>,
    #[serde(deserialize_with = "nullable")]
    volumes: Vec<Volume>,
    #[serde(deserialize_with = "nullable")]
    resource_claims: Vec<ResourceClaim>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "nullable")]
    resource_claim_statuses: Vec<ResourceClaim>,
    extended_resource_claim_status: Option<ResourceClaim>,
}

/// An entry of `spec.resourceClaims` or of the statuses of claims: they have these members in common.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceClaim {
    name: SmolStr,
    #[serde(deserialize_with = "nullable")]
    resource_claim_name: SmolStr,
    #[serde(deserialize_with = "nullable")]
    resource_claim_template_name: SmolStr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "nullable")]
    name: SmolStr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    #[serde(deserialize_with = "nullable")]
    env: Vec<Variable>,
    #[serde(deserialize_with = "nullable")]
    env_from: Vec<VariableSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Variable {
    value_from: Option<VariableSource>,
}

/// An entry of `envFrom`, or the `valueFrom` of a variable.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VariableSource {
    #[serde(alias = "configMapKeyRef")]
    config_map_ref: Option<Named>,
    #[serde(alias = "secretKeyRef")]
    secret_ref: Option<Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    name: SmolStr,
    azure_file: Option<SecretName>,
    cephfs: Option<SecretUser>,
    cinder: Option<SecretUser>,
    config_map: Option<Named>,
    csi: Option<SecretUser>,
    ephemeral: Option<IgnoredAny>,
    flex_volume: Option<SecretUser>,
    iscsi: Option<SecretUser>,
    persistent_volume_claim: Option<ClaimName>,
    projected: Option<Projected>,
    rbd: Option<SecretUser>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<SecretUser>,
    secret: Option<SecretName>,
    storageos: Option<SecretUser>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretName {
    secret_name: SmolStr,
}

/// A source that names the secret with which its volume is mounted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretUser {
    #[serde(alias = "nodePublishSecretRef")]
    secret_ref: Option<Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimName {
    claim_name: SmolStr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Projected {
    #[serde(deserialize_with = "nullable")]
    sources: Vec<ProjectedSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProjectedSource {
    config_map: Option<Named>,
    secret: Option<Named>,
}

/// Reads a member where `null` may stand for an empty one.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl PodDocument {
    /// The pod in its stored JSON; `None` where that has members of other types.
    pub(crate) fn parse(json: &[u8]) -> Option<PodDocument> {
        serde_json::from_slice(json).ok()
    }

    /// The node that the pod is bound to; empty for none.
    pub(super) fn node_name(&self) -> &SmolStr {
        &self.spec.node_name
    }

    /// Whether the pod has the annotation `key`.
    pub(super) fn has_annotation(&self, key: &str) -> bool {
        self.metadata.annotations.contains_key(key)
    }

    /// Passes kind and name of each object that the pod refers to to `visit`, some of them several times.
    pub(crate) fn visit_references(&self, visit: &mut dyn FnMut(ReferenceKind, &str)) {
        let mut visit = |kind, name: &str| {
            if !name.is_empty() {
                visit(kind, name);
            }
        };
        let Spec { containers, init_containers, ephemeral_containers, .. } = &self.spec;
        visit(ReferenceKind::ServiceAccount, &self.spec.service_account_name);
        for secret in &self.spec.image_pull_secrets {
            visit(ReferenceKind::Secret, &secret.name);
        }
        for container in init_containers.iter().chain(containers).chain(ephemeral_containers) {
            container.visit_references(&mut visit);
        }
        for volume in &self.spec.volumes {
            volume.visit_references(&self.metadata.name, &mut visit);
        }
        self.visit_resource_claims(&mut visit);
    }

    /// A claim made from a template has its name in the status, once it is there.
    fn visit_resource_claims(&self, visit: &mut dyn FnMut(ReferenceKind, &str)) {
        let Status { resource_claim_statuses, extended_resource_claim_status } = &self.status;
        let made: BTreeMap<&SmolStr, &SmolStr> = resource_claim_statuses
            .iter()
            .map(|status| (&status.name, &status.resource_claim_name))
            .collect();
        for claim in &self.spec.resource_claims {
            if !claim.resource_claim_name.is_empty() {
                visit(ReferenceKind::ResourceClaim, &claim.resource_claim_name);
            } else if let Some(made) = made.get(&claim.name)
                && !claim.resource_claim_template_name.is_empty()
            {
                visit(ReferenceKind::ResourceClaim, made);
            }
        }
        if let Some(claim) = extended_resource_claim_status {
            visit(ReferenceKind::ResourceClaim, &claim.resource_claim_name);
        }
    }
}

impl Container {
    fn visit_references(&self, visit: &mut dyn FnMut(ReferenceKind, &str)) {
        let of_variables = self.env.iter().filter_map(|variable| variable.value_from.as_ref());
        for VariableSource { config_map_ref, secret_ref } in self.env_from.iter().chain(of_variables) {
            if let Some(config_map) = config_map_ref {
                visit(ReferenceKind::ConfigMap, &config_map.name);
            }
            if let Some(secret) = secret_ref {
                visit(ReferenceKind::Secret, &secret.name);
            }
        }
    }
}

impl Volume {
    fn visit_references(&self, pod: &str, visit: &mut dyn FnMut(ReferenceKind, &str)) {
        let users = [
            &self.cephfs,
            &self.cinder,
            &self.csi,
            &self.flex_volume,
            &self.iscsi,
            &self.rbd,
            &self.scale_io,
            &self.storageos,
        ];
        for secret in users.into_iter().flatten().filter_map(|user| user.secret_ref.as_ref()) {
            visit(ReferenceKind::Secret, &secret.name);
        }
        for secret in self.secret.iter().chain(&self.azure_file) {
            visit(ReferenceKind::Secret, &secret.secret_name);
        }
        if let Some(config_map) = &self.config_map {
            visit(ReferenceKind::ConfigMap, &config_map.name);
        }
        for ProjectedSource { config_map, secret } in self.projected.iter().flat_map(|all| &all.sources) {
            if let Some(config_map) = config_map {
                visit(ReferenceKind::ConfigMap, &config_map.name);
            }
            if let Some(secret) = secret {
                visit(ReferenceKind::Secret, &secret.name);
            }
        }
        if let Some(claim) = &self.persistent_volume_claim {
            visit(ReferenceKind::VolumeClaim, &claim.claim_name);
        }
        if self.ephemeral.is_some() {
            visit(ReferenceKind::VolumeClaim, &ephemeral_claim(pod, &self.name));
        }
    }
}

/// Name of the claim that is made for the ephemeral volume `volume` of `pod`.
pub(crate) fn ephemeral_claim(pod: &str, volume: &str) -> String {
    format!("{pod}-{volume}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value as Json, json};

    use super::*;

    fn references(pod: &Json) -> BTreeSet<(ReferenceKind, String)> {
        let mut found = BTreeSet::new();
        let document = PodDocument::parse(pod.to_string().as_bytes()).expect("a pod");
        document.visit_references(&mut |kind, name| {
            found.insert((kind, name.to_owned()));
        });
        found
    }

    /// Every member that refers to an object, with the kind and name that it refers to.
    #[test]
    fn every_member_that_names_an_object_is_visited() {
        let container = |env: Json| json!({"spec": {"containers": [env]}});
        let volume = |source: Json| json!({"metadata": {"name": "p"}, "spec": {"volumes": [source]}});
        let (map, secret) = (ReferenceKind::ConfigMap, ReferenceKind::Secret);
        let user = |member: &str| volume(json!({"name": "v", member: {"secretRef": {"name": "x"}}}));
        let variable =
            |member: &str| container(json!({"env": [{"valueFrom": {member: {"name": "x", "key": "k"}}}]}));
        let of = |member: &str| json!({"spec": {member: [{"envFrom": [{"secretRef": {"name": "x"}}]}]}});
        for (pod, kind) in [
            (json!({"spec": {"serviceAccountName": "x"}}), ReferenceKind::ServiceAccount),
            (json!({"spec": {"imagePullSecrets": [{"name": "x"}, {"name": ""}, {}]}}), secret),
            (of("containers"), secret),
            (of("initContainers"), secret),
            (of("ephemeralContainers"), secret),
            (container(json!({"envFrom": [{"configMapRef": {"name": "x"}}]})), map),
            (variable("configMapKeyRef"), map),
            (variable("secretKeyRef"), secret),
            (volume(json!({"configMap": {"name": "x"}})), map),
            (volume(json!({"secret": {"secretName": "x"}})), secret),
            (volume(json!({"azureFile": {"secretName": "x"}})), secret),
            (volume(json!({"projected": {"sources": [{"configMap": {"name": "x"}}]}})), map),
            (volume(json!({"projected": {"sources": [{}, {"secret": {"name": "x"}}]}})), secret),
            (volume(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "x"}}})), secret),
            (user("cephfs"), secret),
            (user("cinder"), secret),
            (user("flexVolume"), secret),
            (user("rbd"), secret),
            (user("scaleIO"), secret),
            (user("iscsi"), secret),
            (user("storageos"), secret),
            (volume(json!({"persistentVolumeClaim": {"claimName": "x"}})), ReferenceKind::VolumeClaim),
            (
                json!({"spec": {"resourceClaims": [{"name": "r", "resourceClaimName": "x"}]}}),
                ReferenceKind::ResourceClaim,
            ),
            (
                json!({"status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}),
                ReferenceKind::ResourceClaim,
            ),
        ] {
            assert_eq!(references(&pod), BTreeSet::from([(kind, "x".to_owned())]), "{pod}");
        }
        let ephemeral = volume(json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}));
        assert_eq!(references(&ephemeral), BTreeSet::from([(ReferenceKind::VolumeClaim, "p-v".to_owned())]));
    }

    #[test]
    fn claims_made_from_templates_are_those_of_the_status() {
        let claims = json!([{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimTemplateName": "t"}]);
        let statuses = json!([{"name": "a", "resourceClaimName": "p-a-1"}, {"name": "b"}, {"name": "c", "resourceClaimName": "z"}]);
        let pod = json!({"spec": {"resourceClaims": claims}, "status": {"resourceClaimStatuses": statuses}});
        assert_eq!(references(&pod), BTreeSet::from([(ReferenceKind::ResourceClaim, "p-a-1".to_owned())]));
    }

    #[test]
    fn absent_and_null_members_refer_to_nothing() {
        for pod in [
            json!({}),
            json!({"metadata": {"annotations": null}, "spec": {"volumes": null, "containers": null}}),
            json!({"spec": {"containers": [{"env": null, "envFrom": null}], "volumes": [{"secret": null}]}}),
        ] {
            assert_eq!(references(&pod), BTreeSet::new(), "{pod}");
        }
        assert!(PodDocument::parse(br#"{"spec": {"volumes": 7}}"#).is_none());
    }
}
