//! The quality of service class of a pod, which follows from its requests and limits.

use std::collections::BTreeMap;

use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::validate::tree::Tree;

const COUNTED: [&str; 2] = ["cpu", "memory"];

type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// `BestEffort` without any request or limit of cpu and memory, `Guaranteed` where every container (or the pod as a
/// whole) limits both and the requests equal the limits, else `Burstable`.
pub fn qos_class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let whole = spec.at("resources");
    let at_pod_level = !whole.is_empty_at("requests") || !whole.is_empty_at("limits");
    if at_pod_level {
        add(whole.at("requests"), &mut requests);
        guaranteed = add(whole.at("limits"), &mut limits) == COUNTED.len();
    } else {
        for container in spec.items("containers").iter().chain(spec.items("initContainers")) {
            let resources = container.at("resources");
            add(resources.at("requests"), &mut requests);
            guaranteed &= add(resources.at("limits"), &mut limits) == COUNTED.len();
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

// Adds the positive amounts of cpu and memory to `totals`. Returns the number of resources that were added.
fn add<'a>(amounts: &'a Value, totals: &mut Amounts<'a>) -> usize {
    let counted = COUNTED.into_iter().filter_map(|name| {
        let quantity = Quantity::parse(amounts.text(name))?;
        (quantity > Quantity::ZERO).then_some((name, quantity))
    });
    counted
        .map(|(name, quantity)| {
            let total = totals.entry(name).or_default();
            *total = total.plus(quantity);
        })
        .count()
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn qos_follows_from_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        for (spec, expected) in [
            (json!({"containers": [{}]}), "BestEffort"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "0"}}}]}), "BestEffort"),
            (json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}), "Burstable"),
            (json!({"containers": [{"resources": {"requests": both, "limits": both}}]}), "Guaranteed"),
            (json!({"containers": [{"resources": {"requests": both, "limits": both}}, {}]}), "Burstable"),
            (json!({"resources": {"requests": both, "limits": both}, "containers": [{}]}), "Guaranteed"),
            (json!({"containers": [{"resources": {"requests": {"example.com/x": "1"}}}]}), "BestEffort"),
        ] {
            assert_eq!(qos_class(&spec), expected, "{spec}");
        }
    }
}
