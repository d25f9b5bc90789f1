//! `DefaultIngressClass`: sets the default class in an ingress that names none.

use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::value::Value;

use super::default_storage_class::find_default;
use super::{Additions, Attributes, Operation, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("ingresses.networking", &[Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        ingress: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(ingress) = ingress else { return rule(Ok(())) };
        let annotations = ingress.at("metadata").at("annotations");
        // Older clients name the class in an annotation.
        let is_annotated = annotations.has(&attributes.brand.label("ingress.class"));
        if !is_annotated && !ingress.at("spec").has("ingressClassName") {
            let mark = format!("ingressclass.{}", attributes.brand.label("is-default-class"));
            if let Some(class) = find_default(&view.list("ingressclasses.networking", ""), &[mark]) {
                set(child_mut(ingress, "spec"), "ingressClassName", class);
            }
        }
        rule(Ok(()))
    }
}
