//! Usage of claims: storage by class, devices by class.

use std::collections::BTreeMap;

use orch_proto::Brand;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use super::{Amounts, Scope};
use crate::validate::tree::Tree;

const NUMBER: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const BY_ATTRIBUTES: &str = "VolumeAttributesClass";

/// Devices that a request of mode `All` may be given at most.
const ALL_DEVICES_MAX: usize = 32;

pub(super) fn counts_volumes(brand: &Brand, resource: &str) -> bool {
    let of_class = || {
        let (class, name) = resource.split_once('/')?;
        Some(class.ends_with(&class_suffix(brand)) && matches!(name, NUMBER | STORAGE))
    };
    matches!(resource, NUMBER | STORAGE) || of_class().unwrap_or(false)
}

pub(super) fn volume_usage(brand: &Brand, claim: &Value) -> Amounts {
    let mut usage = Amounts::from([(NUMBER.to_owned(), Amount::count(1))]);
    if let Some(storage) = storage(claim) {
        usage.insert(STORAGE.to_owned(), storage);
    }
    let class = class_of(brand, claim);
    if !class.is_empty() {
        let prefix = format!("{class}{}/", class_suffix(brand));
        let of_class = usage.iter().map(|(name, amount)| (format!("{prefix}{name}"), *amount));
        let of_class: Vec<_> = of_class.collect();
        usage.extend(of_class);
    }
    usage
}

/// The end of a storage class in names of resources, before the slash.
fn class_suffix(brand: &Brand) -> String {
    format!(".storageclass.{}", brand.group("storage"))
}

/// The class of a claim. Older clients name it in an annotation.
fn class_of<'a>(brand: &Brand, claim: &'a Value) -> &'a str {
    let annotations = claim.at("metadata").at("annotations");
    let older = format!("volume.beta.{}", brand.label("storage-class"));
    match annotations.at(&older).as_str() {
        Some(class) => class,
        None => claim.at("spec").text("storageClassName"),
    }
}

/// Whole bytes: the larger one of those requested and those allotted.
fn storage(claim: &Value) -> Option<Amount> {
    let requested = Amount::parse(claim.at("spec").at("resources").at("requests").text("storage"))?;
    let allotted = Amount::parse(claim.at("status").at("allocatedResources").text("storage"));
    Some(allotted.map_or(requested, |allotted| requested.max(allotted)).rounded_up())
}

/// Whether a volume claim is in a scope: the one of its attributes classes is the only one of claims.
pub(super) fn is_in(scope: &Scope<'_>, claim: &Value) -> bool {
    let (spec, status) = (claim.at("spec"), claim.at("status"));
    let mut classes = vec![
        spec.text("volumeAttributesClassName"),
        status.text("currentVolumeAttributesClassName"),
        status.at("modifyVolumeStatus").text("targetVolumeAttributesClassName"),
    ];
    // few: three.
    classes.retain(|class| !class.is_empty());
    scope.name == BY_ATTRIBUTES && scope.selects(&classes)
}

pub(super) fn counts_devices(brand: &Brand, resource: &str) -> bool {
    resource.ends_with(&devices_suffix(brand))
}

/// The end of a device class in names of resources.
fn devices_suffix(brand: &Brand) -> String {
    format!(".deviceclass.{}/devices", brand.group("resource"))
}

/// Devices of each class that a claim may be given. Of alternatives the one with the most devices of a class counts.
pub(super) fn device_usage(brand: &Brand, claim: &Value) -> Amounts {
    let mut devices: BTreeMap<&str, usize> = BTreeMap::new();
    for request in claim.at("spec").at("devices").items("requests") {
        let mut most: BTreeMap<&str, usize> = BTreeMap::new();
        let alternatives = request.items("firstAvailable").iter();
        for wanted in alternatives.chain(Some(request.at("exactly")).filter(|exactly| exactly.is_object())) {
            let of_class = most.entry(wanted.text("deviceClassName")).or_default();
            *of_class = (*of_class).max(device_count(wanted));
        }
        for (class, number) in most {
            let total = devices.entry(class).or_default();
            *total = total.saturating_add(number);
        }
    }
    let suffix = devices_suffix(brand);
    devices.into_iter().map(|(class, number)| (format!("{class}{suffix}"), Amount::count(number))).collect()
}

fn device_count(wanted: &Value) -> usize {
    match wanted.text("allocationMode") {
        "ExactCount" => usize::try_from(wanted.int("count").unwrap_or(0)).unwrap_or(0),
        "All" => ALL_DEVICES_MAX,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::super::tests::{check, measure};
    use super::*;

    #[test]
    fn storage_is_counted_again_for_its_class() {
        let requests = json!({"requests": {"storage": "1500m"}});
        check(
            "persistentvolumeclaims",
            json!({"spec": {"storageClassName": "gold", "resources": requests}}),
            &[
                ("count/persistentvolumeclaims", "1"),
                ("gold.storageclass.storage.orch.io/persistentvolumeclaims", "1"),
                ("gold.storageclass.storage.orch.io/requests.storage", "2"),
                ("persistentvolumeclaims", "1"),
                ("requests.storage", "2"),
            ],
        );
        check(
            "persistentvolumeclaims",
            json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}},
                "status": {"allocatedResources": {"storage": "2Gi"}}}),
            &[
                ("count/persistentvolumeclaims", "1"),
                ("persistentvolumeclaims", "1"),
                ("requests.storage", "2Gi"),
            ],
        );
    }

    #[test]
    fn claims_are_in_the_scope_of_their_attributes_classes() {
        let values = [json!("fast")];
        let scope = |name, operator| Scope { name, operator, values: &values };
        let claim = json!({"spec": {"volumeAttributesClassName": "fast"}});
        let measure = measure("persistentvolumeclaims");
        assert!(measure.is_in(&[scope(BY_ATTRIBUTES, "In"), scope(BY_ATTRIBUTES, "Exists")], &claim));
        assert!(!measure.is_in(&[scope(BY_ATTRIBUTES, "NotIn")], &claim));
        assert!(!measure.is_in(&[scope("BestEffort", "Exists")], &claim));
        assert!(measure.is_in(&[], &claim));
    }

    #[test]
    fn of_alternative_devices_the_most_count() {
        let one = |class: &str, count: i64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
        let requests = json!([
            {"exactly": one("gpu", 2)},
            {"firstAvailable": [one("gpu", 1), one("gpu", 3), {"deviceClassName": "nic", "allocationMode": "All"}]},
        ]);
        check(
            "resourceclaims.resource",
            json!({"spec": {"devices": {"requests": requests}}}),
            &[
                ("count/resourceclaims.resource.orch.io", "1"),
                ("gpu.deviceclass.resource.orch.io/devices", "5"),
                ("nic.deviceclass.resource.orch.io/devices", "32"),
            ],
        );
    }
}
