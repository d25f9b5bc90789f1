//! The objects that a persistent volume refers to: the claim that it is bound to, and the secrets of its source.
//!
//! Owns which of its secrets the kubelet reads: not those of the controller's calls to a CSI driver.

use serde::Deserialize;
use smol_str::{SmolStr, format_smolstr};

/// A reference to an object, possibly of another namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    #[serde(deserialize_with = "super::pod::nullable")]
    namespace: SmolStr,
    #[serde(deserialize_with = "super::pod::nullable")]
    name: SmolStr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeDocument {
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    claim_ref: Option<Reference>,
    azure_file: Option<AzureFile>,
    cephfs: Option<SecretUser>,
    cinder: Option<SecretUser>,
    csi: Option<Csi>,
    flex_volume: Option<SecretUser>,
    iscsi: Option<SecretUser>,
    rbd: Option<SecretUser>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<SecretUser>,
    storageos: Option<SecretUser>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureFile {
    #[serde(deserialize_with = "super::pod::nullable")]
    secret_name: SmolStr,
    #[serde(deserialize_with = "super::pod::nullable")]
    secret_namespace: SmolStr,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SecretUser {
    secret_ref: Option<Reference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Csi {
    node_publish_secret_ref: Option<Reference>,
    node_stage_secret_ref: Option<Reference>,
    node_expand_secret_ref: Option<Reference>,
}

/// A volume that is bound to a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BoundVolume {
    /// `namespace/name` of the claim.
    pub(super) claim: SmolStr,
    /// `namespace/name` of each secret that the kubelet reads to mount the volume, each once.
    pub(super) secrets: Box<[SmolStr]>,
}

impl BoundVolume {
    /// The volume in its stored JSON; `None` where it is bound to no claim, or cannot be decoded.
    pub(super) fn parse(json: &[u8]) -> Option<BoundVolume> {
        let VolumeDocument { spec } = serde_json::from_slice(json).ok()?;
        let claim = spec.claim_ref.as_ref()?;
        let mut secrets = spec.secrets(&claim.namespace);
        secrets.sort_unstable();
        secrets.dedup();
        let claim = format_smolstr!("{}/{}", claim.namespace, claim.name);
        Some(BoundVolume { claim, secrets: secrets.into() })
    }
}

impl Spec {
    /// The secrets, in the namespace that the source names, or in the claim's where older objects name none.
    fn secrets(&self, of_claim: &str) -> Vec<SmolStr> {
        let mut found = Vec::new();
        let mut add = |namespace: &str, default: &str, name: &str| {
            let namespace = if namespace.is_empty() { default } else { namespace };
            if !name.is_empty() {
                found.push(format_smolstr!("{namespace}/{name}"));
            }
        };
        if let Some(source) = &self.azure_file {
            add(&source.secret_namespace, of_claim, &source.secret_name);
        }
        let of_claim_or_own = [&self.cephfs, &self.flex_volume, &self.iscsi, &self.rbd, &self.scale_io];
        for secret in of_claim_or_own.into_iter().flatten().filter_map(|user| user.secret_ref.as_ref()) {
            add(&secret.namespace, of_claim, &secret.name);
        }
        let own = [&self.cinder, &self.storageos];
        let own = own.into_iter().flatten().filter_map(|user| user.secret_ref.as_ref());
        let of_csi = self.csi.iter().flat_map(|csi| {
            [&csi.node_publish_secret_ref, &csi.node_stage_secret_ref, &csi.node_expand_secret_ref]
        });
        for secret in own.chain(of_csi.flatten()) {
            add(&secret.namespace, "", &secret.name);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn secrets_are_those_that_the_kubelet_reads() {
        let secret = |namespace: &str| json!({"secretRef": {"name": "x", "namespace": namespace}});
        for (source, value, expected) in [
            ("nfs", json!({"server": "s"}), &[][..]),
            ("azureFile", json!({"secretName": "x"}), &["n/x"]),
            ("azureFile", json!({"secretName": "x", "secretNamespace": "m"}), &["m/x"]),
            ("cephfs", secret(""), &["n/x"]),
            ("cephfs", secret("m"), &["m/x"]),
            ("flexVolume", secret("m"), &["m/x"]),
            ("iscsi", secret("m"), &["m/x"]),
            ("rbd", secret("m"), &["m/x"]),
            ("scaleIO", secret("m"), &["m/x"]),
            ("cinder", secret("m"), &["m/x"]),
            ("storageos", secret("m"), &["m/x"]),
            (
                "csi",
                json!({
                    "controllerPublishSecretRef": {"name": "c", "namespace": "m"},
                    "controllerExpandSecretRef": {"name": "d", "namespace": "m"},
                    "nodePublishSecretRef": {"name": "x", "namespace": "m"},
                    "nodeStageSecretRef": {"name": "y", "namespace": "m"},
                    "nodeExpandSecretRef": {"name": "z", "namespace": "m"},
                }),
                &["m/x", "m/y", "m/z"],
            ),
        ] {
            let volume = json!({"spec": {"claimRef": {"namespace": "n", "name": "c"}, source: value}});
            let found = BoundVolume::parse(volume.to_string().as_bytes()).expect("it is bound");
            assert_eq!(
                (&*found.claim, &*found.secrets),
                ("n/c", expected.iter().map(|&text| SmolStr::from(text)).collect::<Vec<_>>().as_slice()),
                "{volume}"
            );
        }
    }

    #[test]
    fn a_volume_without_a_claim_is_bound_to_nothing() {
        let parse = |volume: Json| BoundVolume::parse(volume.to_string().as_bytes());
        assert_eq!(parse(json!({"spec": {"rbd": {"secretRef": {"name": "x"}}}})), None);
        assert_eq!(parse(json!({"spec": 7})), None);
    }
}
