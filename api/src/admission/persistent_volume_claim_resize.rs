//! `PersistentVolumeClaimResize`: a claim grows only while it is bound, and only if its class lets volumes grow.

use orch_rules::validate::tree::Tree;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("persistentvolumeclaims", &[Operation::Update])
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        claim: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let (Some(old), Some(new)) = (attributes.old, claim) else { return rule(Ok(())) };
        let annotation = format!("volume.beta.{}", attributes.brand.label("storage-class"));
        rule(check(old, new, &annotation, view).map_err(|reason| Refusal::Forbidden(reason.to_owned())))
    }
}

fn check(old: &Value, new: &Value, annotation: &str, view: &View) -> Result<(), &'static str> {
    if size(new) <= size(old) {
        return Ok(());
    }
    if old.at("status").text("phase") != "Bound" {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = class_of(new, annotation);
    let stays = class == class_of(old, annotation);
    let stored = view.find("storageclasses.storage", "", class);
    if stays && stored.is_some_and(|class| class.flag("allowVolumeExpansion")) {
        return Ok(());
    }
    Err(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

/// Bytes that a claim asks for.
fn size(claim: &Value) -> Quantity {
    let text = claim.at("spec").at("resources").at("requests").text("storage");
    Quantity::parse(text).unwrap_or(Quantity::ZERO)
}

/// The class of a claim: that of the annotation of old clients, else that of its spec.
fn class_of<'c>(claim: &'c Value, annotation: &str) -> &'c str {
    match claim.at("metadata").at("annotations").at(annotation).as_str() {
        Some(class) => class,
        None => claim.at("spec").text("storageClassName"),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes, validate};

    #[test]
    fn only_bound_claims_of_growing_classes_grow() {
        let class = |name: &str, grows: bool| {
            (
                ("storageclasses.storage".to_owned(), String::new(), name.to_owned()),
                json!({"allowVolumeExpansion": grows}),
            )
        };
        let objects = Objects([class("fast", true), class("slow", false)].into_iter().collect());
        let claim = |size: &str, class: &str, phase: &str| {
            json!({
                "metadata": {"name": "n"}, "status": {"phase": phase},
                "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
            })
        };
        let unbound = "Only bound persistent volume claims can be expanded";
        let fixed = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
            support resize";
        for (from, to, class, phase, expected) in [
            ("1Gi", "2Gi", "fast", "Bound", ""),
            ("1Gi", "1024Mi", "slow", "Pending", ""),
            ("2Gi", "1Gi", "slow", "Pending", ""),
            ("1Gi", "2Gi", "fast", "Pending", unbound),
            ("1Gi", "2Gi", "slow", "Bound", fixed),
            ("1Gi", "2Gi", "none", "Bound", fixed),
            ("1Gi", "2Gi", "", "Bound", fixed),
        ] {
            let old = claim(from, class, phase);
            let asked =
                Attributes { old: Some(&old), ..attributes("persistentvolumeclaims", Operation::Update) };
            let told = validate(&asked, &claim(to, class, phase), &objects).err();
            let told = told.map(|error| error.to_string()).unwrap_or_default();
            assert!(
                told.ends_with(expected) && told.is_empty() == expected.is_empty(),
                "{from} {to} {class}: {told}"
            );
        }
    }
}
