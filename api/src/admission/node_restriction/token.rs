//! Tokens of service accounts that a kubelet may request: those bound to pods of its node, for an audience that the pod
//! names.
//!
//! A pod names an audience in a projected token, or by a CSI driver of one of its volumes that asks for tokens of it.
//! Other audiences take the right `request-serviceaccounts-token-audience` on the audience as a resource.

use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::{Refusal, Write, forbidden, refuse_unless};
use crate::authz::node::ephemeral_claim;
use crate::authz::{Attributes as Asked, ResourceAttributes};
use crate::error::ApiError;

/// Drivers that have taken the place of volume sources, by the source's member.
const DRIVERS: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

pub(super) async fn check(write: Write<'_>) -> Result<(), Refusal> {
    let Some(spec) = write.object.map(|request| request.at("spec")) else { return Ok(()) };
    let bound = spec.at("boundObjectRef");
    let (name, uid) = (bound.text("name"), bound.text("uid"));
    let is_bound = (bound.text("apiVersion"), bound.text("kind")) == ("v1", "Pod") && !name.is_empty();
    refuse_unless(is_bound, || "node requested token not bound to a pod".to_owned())?;
    refuse_unless(!uid.is_empty(), || "node requested token with a pod binding without a uid".to_owned())?;
    let pod = write.find("pods", write.attributes.namespace, name, "pod").map_err(Refusal::Error)?;
    refuse_unless(pod.at("metadata").text("uid") == uid, || {
        format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            part(uid)
        )
    })?;
    refuse_unless(pod.at("spec").text("nodeName") == write.node, || {
        "node requested token bound to a pod scheduled on a different node".to_owned()
    })?;
    let audience = match spec.texts("audiences")[..] {
        [] => "",
        [one] => one,
        _ => return Err(forbidden("node may only request 0 or 1 audiences".to_owned())),
    };
    check_audience(write, &pod, audience).await
}

async fn check_audience(write: Write<'_>, pod: &Value, audience: &str) -> Result<(), Refusal> {
    let shown = quoted(audience);
    let is_named = names_audience(write, pod, audience)
        .map_err(|faults| forbidden(format!("error validating audience {shown}: {faults}")))?;
    if is_named {
        return Ok(());
    }
    let attributes = write.attributes;
    let asked = ResourceAttributes {
        verb: "request-serviceaccounts-token-audience",
        version: "v1",
        resource: audience,
        namespace: attributes.namespace,
        name: attributes.name,
        ..ResourceAttributes::default()
    };
    let applied = write.view.applied();
    let ruling = attributes.gate.rule(attributes.user, Asked::Resource(asked), applied).await;
    refuse_unless(ruling.is_allowed(), || {
        let user = part(&attributes.user.name);
        format!(
            "audience {shown} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        )
    })
}

/// Whether a volume of the pod names the audience.
///
/// # Errors
/// None does, and some volumes lead to objects that do not exist: says which.
fn names_audience(write: Write<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    let mut faults = Vec::new();
    for volume in pod.at("spec").items("volumes") {
        let sources = volume.at("projected").items("sources").iter();
        let mut tokens =
            sources.map(|source| source.at("serviceAccountToken")).filter(|token| !token.is_null());
        // once: one pass over the sources of a pod's volumes.
        if tokens.any(|token| token.text("audience") == audience) {
            return Ok(true);
        }
        match driver_names_audience(write, pod, volume, audience) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => faults.push(text_of(&error)),
        }
    }
    faults.sort_unstable();
    faults.dedup();
    match &faults[..] {
        [] => Ok(false),
        [one] => Err(part(one).into_owned()),
        many => Err(format!("[{}]", part(&many.join(", ")))),
    }
}

fn text_of(error: &ApiError) -> String {
    match error {
        ApiError::NotFound(subject) => format!("{} {} not found", subject.qualified(), quoted(&subject.name)),
        error => error.to_string(),
    }
}

fn driver_names_audience(
    write: Write<'_>,
    pod: &Value,
    volume: &Value,
    audience: &str,
) -> Result<bool, ApiError> {
    let claim = if volume.at("ephemeral").has("volumeClaimTemplate") {
        ephemeral_claim(pod.at("metadata").text("name"), volume.text("name"))
    } else {
        volume.at("persistentVolumeClaim").text("claimName").to_owned()
    };
    let driver = if !claim.is_empty() || volume.has("persistentVolumeClaim") {
        let namespace = pod.at("metadata").text("namespace");
        let claim = write.find("persistentvolumeclaims", namespace, &claim, "persistentvolumeclaim")?;
        let name = claim.at("spec").text("volumeName");
        let volume = write.find("persistentvolumes", "", name, "persistentvolume")?;
        driver_of(volume.at("spec"))
    } else {
        driver_of(volume)
    };
    if driver.is_empty() {
        return Ok(false);
    }
    let driver = write.find("csidrivers.storage", "", &driver, "csidriver.storage")?;
    // once: one pass over the audiences of a driver.
    Ok(driver.at("spec").items("tokenRequests").iter().any(|request| request.text("audience") == audience))
}

/// The CSI driver of a volume's source; empty where it has none.
fn driver_of(source: &Value) -> String {
    if source.has("csi") {
        return source.at("csi").text("driver").to_owned();
    }
    // few: the sources that drivers have replaced.
    let replaced = DRIVERS.iter().find(|(member, _)| source.has(member));
    replaced.map(|(_, driver)| (*driver).to_owned()).unwrap_or_default()
}
