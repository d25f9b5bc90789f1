//! Fields of pods that belong to features which are switched off: what a client sends in them is dropped.

use orch_schema::value::Value;

use crate::validate::tree::{existing_mut, items_mut, unset};

/// Sources of projected volumes that no node can fill.
const PROJECTIONS: [&str; 2] = ["clusterTrustBundle", "podCertificate"];

/// Drops such fields of a pod spec.
pub(crate) fn drop_from_spec(spec: &mut Value) {
    unset_if_there(spec, "schedulingGroup");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items_mut(spec, list) {
            if let Some(lifecycle) = existing_mut(container, "lifecycle") {
                unset_if_there(lifecycle, "stopSignal");
            }
        }
    }
    for volume in items_mut(spec, "volumes") {
        let Some(projected) = existing_mut(volume, "projected") else { continue };
        for source in items_mut(projected, "sources") {
            PROJECTIONS.into_iter().for_each(|kind| unset_if_there(source, kind));
        }
    }
}

/// Drops such fields of the status of a pod.
pub(super) fn drop_from_status(status: &mut Value) {
    unset_if_there(status, "nodeAllocatableResourceClaimStatuses");
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items_mut(status, list) {
            unset_if_there(container, "stopSignal");
            for mount in items_mut(container, "volumeMounts") {
                unset_if_there(mount, "volumeStatus");
            }
        }
    }
}

fn unset_if_there(value: &mut Value, field: &str) {
    if value.get(field).is_some() {
        unset(value, field);
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn fields_of_features_that_are_off_are_dropped() {
        let mut spec = json!({
            "schedulingGroup": {}, "containers": [{"lifecycle": {"stopSignal": "SIGTERM", "preStop": {}}}],
            "volumes": [{"projected": {"sources": [{"podCertificate": {}}, {"secret": {}}]}}]
        });
        drop_from_spec(&mut spec);
        assert_eq!(
            spec,
            json!({
                "containers": [{"lifecycle": {"preStop": {}}}],
                "volumes": [{"projected": {"sources": [{}, {"secret": {}}]}}]
            })
        );
        let mut status = json!({"containerStatuses": [{"name": "c", "stopSignal": "x", "volumeMounts": [{"volumeStatus": {}}]}]});
        drop_from_status(&mut status);
        assert_eq!(status, json!({"containerStatuses": [{"name": "c", "volumeMounts": [{}]}]}));
    }
}
