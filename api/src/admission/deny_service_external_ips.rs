//! `DenyServiceExternalIPs`: no service takes addresses of its author's choice; those that it has, it may keep.

use std::collections::HashSet;

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct DenyServiceExternalIps;

impl Plugin for DenyServiceExternalIps {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("services", &[Operation::Create, Operation::Update])
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        service: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let is_denied = service.is_some_and(|service| adds_addresses(attributes.old, service));
        rule(match is_denied {
            true => Err(Refusal::Forbidden("Use of external IPs is denied by admission control".to_owned())),
            false => Ok(()),
        })
    }
}

fn adds_addresses(old: Option<&Value>, service: &Value) -> bool {
    let of = |service: &'_ Value| -> HashSet<String> {
        service.at("spec").texts("externalIPs").into_iter().map(str::to_owned).collect()
    };
    let before = old.map(of).unwrap_or_default();
    !of(service).is_subset(&before)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn addresses_may_stay_but_not_come() {
        let service = |addresses: Value| json!({"spec": {"externalIPs": addresses}});
        let (none, one, two) =
            (service(json!([])), service(json!(["192.0.2.1"])), service(json!(["192.0.2.1", "192.0.2.2"])));
        for (old, new, expected) in [
            (None, &none, false),
            (None, &one, true),
            (Some(&two), &one, false),
            (Some(&two), &two, false),
            (Some(&one), &two, true),
            (Some(&none), &one, true),
        ] {
            assert_eq!(adds_addresses(old, new), expected, "{old:?} {new}");
        }
    }
}
