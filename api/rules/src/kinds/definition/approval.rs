//! Approval of definitions in protected groups: those of the reference's community and of the product.
//!
//! Owns the annotation that tells of an approval, the states that it may be in, the rule for writes, and the condition.

use orch_proto::Brand;
use orch_proto::brand::{APPROVAL_EXPLAINED, KUBERNETES};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::conditions::{Condition, ConditionStatus, ConditionType};
use crate::kinds::webhook_client::url;
use crate::validate::tree::Tree;
use crate::validate::{FieldError, Path};

/// The beginning of a value that says that a definition is not approved.
const UNAPPROVED: &str = "unapproved";

/// The approval that the annotation of a definition states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval<'a> {
    Missing,
    Bypassed(&'a str),
    Approved(&'a str),
    Invalid,
}

impl<'a> Approval<'a> {
    fn of(definition: &'a Value, brand: &Brand) -> Approval<'a> {
        match definition.at("metadata").at("annotations").text(&annotation(brand)) {
            "" => Approval::Missing,
            reason if reason.starts_with(UNAPPROVED) => Approval::Bypassed(reason),
            approved if url::has_scheme_and_host(approved) => Approval::Approved(approved),
            _ => Approval::Invalid,
        }
    }

    fn is_same_state(self, other: Approval<'_>) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

fn annotation(brand: &Brand) -> String {
    format!("api-approved.{}", brand.label_domain)
}

/// Whether the definitions of `group` must be approved.
fn is_protected(group: &str, brand: &Brand) -> bool {
    let domains = [brand.group_domain, brand.label_domain, KUBERNETES.group_domain, KUBERNETES.label_domain];
    // few: two domains of two brands.
    domains.iter().any(|domain| match group.strip_suffix(domain) {
        Some(before) => before.is_empty() || before.ends_with('.'),
        None => false,
    })
}

fn missing(brand: &Brand) -> String {
    let name = quoted(&annotation(brand));
    format!("protected groups must have approval annotation {name}, see {APPROVAL_EXPLAINED}")
}

fn invalid(brand: &Brand) -> String {
    let name = quoted(&annotation(brand));
    format!(
        "protected groups must have approval annotation {name} with either a URL or a reason starting with \
         \"unapproved\", see {APPROVAL_EXPLAINED}"
    )
}

/// The error of a definition in a protected group that is not approved. A state that `old` was in is no error.
pub(super) fn validate(brand: &Brand, old: Option<&Value>, new: &Value) -> Option<FieldError> {
    if !is_protected(new.at("spec").text("group"), brand) {
        return None;
    }
    let approval = Approval::of(new, brand);
    if old.is_some_and(|old| approval.is_same_state(Approval::of(old, brand))) {
        return None;
    }
    let name = annotation(brand);
    let path = Path::new("metadata").child("annotations").key(&name);
    match approval {
        Approval::Missing => Some(FieldError::required(path, &missing(brand))),
        Approval::Invalid => {
            let value = new.at("metadata").at("annotations").text(&name);
            Some(FieldError::invalid_str(path, value, &invalid(brand)))
        }
        Approval::Bypassed(_) | Approval::Approved(_) => None,
    }
}

/// The condition about the approval of `definition`; `None` where its group is not protected.
pub fn approval(brand: &Brand, definition: &Value) -> Option<Condition> {
    use ConditionStatus::{False, True};
    if !is_protected(definition.at("spec").text("group"), brand) {
        return None;
    }
    let (status, reason, message) = match Approval::of(definition, brand) {
        Approval::Missing => (False, "MissingAnnotation", missing(brand)),
        Approval::Invalid => (False, "InvalidAnnotation", invalid(brand)),
        Approval::Bypassed(reason) => {
            (False, "UnapprovedAnnotation", format!("not approved: {}", quoted(reason)))
        }
        Approval::Approved(url) => (True, "ApprovedAnnotation", format!("approved in {url}")),
    };
    Some(Condition::new(ConditionType::ApprovalPolicyConformant, status, reason, message))
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::*;

    fn definition(group: &str, value: &str) -> Value {
        json!({"metadata": {"annotations": {"api-approved.orch.io": value}}, "spec": {"group": group}})
    }

    #[test]
    fn groups_of_the_product_need_an_approval() {
        for (group, protected) in [
            ("orch.io", true),
            ("storage.orch.io", true),
            ("x.k8s.io", true),
            ("kubernetes.io", true),
            ("notk8s.io", false),
            ("example.com", false),
        ] {
            assert_eq!(validate(&ORCH, None, &definition(group, "")).is_some(), protected, "{group}");
            assert_eq!(approval(&ORCH, &definition(group, "")).is_some(), protected, "{group}");
        }
    }

    #[test]
    fn the_annotation_is_a_url_or_says_that_there_is_none() {
        for (value, refused, reason) in [
            ("", true, "MissingAnnotation"),
            ("unapproved, for now", false, "UnapprovedAnnotation"),
            ("https://github.com/x/pull/1", false, "ApprovedAnnotation"),
            ("bad", true, "InvalidAnnotation"),
            ("/path", true, "InvalidAnnotation"),
        ] {
            let new = definition("a.orch.io", value);
            assert_eq!(validate(&ORCH, None, &new).is_some(), refused, "{value}");
            assert_eq!(approval(&ORCH, &new).unwrap().reason, reason, "{value}");
            assert!(validate(&ORCH, Some(&new), &new).is_none(), "what was so may stay: {value}");
        }
        let (was, is) = (definition("a.orch.io", "bad"), definition("a.orch.io", ""));
        assert!(validate(&ORCH, Some(&was), &is).is_some());
    }
}
