//! `DefaultStorageClass`: sets the default class in a PersistentVolumeClaim that names none.

use std::cmp::Reverse;

use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("persistentvolumeclaims", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        claim: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(claim) = claim else { return rule(Ok(())) };
        // Old clients name the class in an annotation.
        let annotation = format!("volume.beta.{}", attributes.brand.label("storage-class"));
        let is_annotated = claim.at("metadata").at("annotations").has(&annotation);
        if !is_annotated && !claim.at("spec").has("storageClassName") {
            let label = attributes.brand.label("is-default-class");
            let marks = [format!("storageclass.{label}"), format!("storageclass.beta.{label}")];
            if let Some(class) = find_default(&view.list("storageclasses.storage", ""), &marks) {
                set(child_mut(claim, "spec"), "storageClassName", class);
            }
        }
        rule(Ok(()))
    }
}

/// Name of the default class, which has one of the annotations `marks` set to `true`: of several the newest, then the
/// first by name.
pub(super) fn find_default<'a>(classes: &'a [Value], marks: &[String]) -> Option<&'a str> {
    // few: spellings of one annotation.
    let is_marked = |annotations: &Value| marks.iter().any(|mark| annotations.text(mark) == "true");
    let marked = classes.iter().map(|class| class.at("metadata"));
    let marked = marked.filter(|metadata| is_marked(metadata.at("annotations")));
    let newest =
        marked.min_by_key(|metadata| (Reverse(metadata.text("creationTimestamp")), metadata.text("name")));
    newest.map(|metadata| metadata.text("name"))
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn the_newest_of_several_defaults_counts_then_the_first_by_name() {
        let class = |name: &str, created: &str, is_default: &str| json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {"default": is_default}}});
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("c", "2026-01-02T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-03T00:00:00Z", "false"),
        ];
        assert_eq!(find_default(&classes, &["default".to_owned()]), Some("b"));
        assert_eq!(find_default(&classes, &["other".to_owned()]), None);
    }
}
