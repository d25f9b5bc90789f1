//! Rights that a write of a claim's status needs beyond the right to write the status.
//!
//! Owns the comparison of two statuses: whether the allocation or the users of the claim differ, and which drivers'
//! reports do. Admission asks for the rights.

use std::collections::{BTreeMap, BTreeSet};

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::allocation::{Deallocated, device_key};
use crate::validate::tree::Tree;

/// A change of a claim's status, by the rights that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange<'v> {
    /// The allocation or the users of the claim change.
    pub binds: bool,
    /// Drivers whose reports about devices change, sorted.
    pub drivers: BTreeSet<&'v str>,
}

impl<'v> StatusChange<'v> {
    /// The change from the claim `old` to `new`. Reports about devices that `new` no longer allocates went with the
    /// allocation: they need no right of their driver.
    pub fn between(old: &'v Value, new: &'v Value) -> StatusChange<'v> {
        let (before, after) = (old.at("status"), new.at("status"));
        let differs = |field: &str| before.at(field) != after.at(field);
        StatusChange {
            binds: differs("allocation") || differs("reservedFor"),
            drivers: if differs("devices") { changed_drivers(old, new) } else { BTreeSet::new() },
        }
    }
}

fn changed_drivers<'v>(old: &'v Value, new: &'v Value) -> BTreeSet<&'v str> {
    let gone = Deallocated::between(old, new);
    let reports = |claim: &'v Value| claim.at("status").items("devices").iter().take_while(|_| count_step());
    let kept = reports(old).filter(|device| !gone.has(device));
    let mut before: BTreeMap<_, &Value> = kept.map(|device| (device_key(device), device)).collect();
    let mut drivers = BTreeSet::new();
    for device in reports(new) {
        if before.remove(&device_key(device)) != Some(device) {
            drivers.insert(device.text("driver"));
        }
    }
    drivers.extend(before.into_values().map(|device| device.text("driver")));
    drivers
}

/// The node to which the allocation of `claim` is bound by its name alone; `None` where it is bound otherwise.
pub fn allocated_node(claim: &Value) -> Option<&str> {
    let selector = claim.at("status").at("allocation").at("nodeSelector");
    let [term] = selector.items("nodeSelectorTerms") else { return None };
    let ([], [field]) = (term.items("matchExpressions"), term.items("matchFields")) else { return None };
    let [name] = field.items("values") else { return None };
    let is_by_name = field.text("key") == "metadata.name" && field.text("operator") == "In";
    name.as_str().filter(|name| is_by_name && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn claim(allocated: &[&str], reports: &[(&str, &str, bool)]) -> Value {
        let device = |name: &&str| json!({"request": "r", "driver": "d", "pool": "p", "device": name});
        let results: Vec<Value> = allocated.iter().map(device).collect();
        let report = |&(driver, name, ready): &(&str, &str, bool)| json!({"driver": driver, "pool": "p", "device": name, "data": {"ready": ready}});
        let reports: Vec<Value> = reports.iter().map(report).collect();
        json!({"status": {"allocation": {"devices": {"results": results}}, "devices": reports}})
    }

    #[test]
    fn reports_need_the_right_of_each_driver_that_they_are_about() {
        let old = claim(&["one"], &[("d", "one", false), ("e", "other", true)]);
        for (new, drivers) in [
            (claim(&["one"], &[("d", "one", false), ("e", "other", true)]), &[][..]),
            (claim(&["one"], &[("e", "other", true), ("d", "one", false)]), &[]),
            (claim(&["one"], &[("d", "one", true), ("e", "other", true)]), &["d"]),
            (claim(&["one"], &[("d", "one", false)]), &["e"]),
            (claim(&["one"], &[]), &["d", "e"]),
            (claim(&["one"], &[("d", "one", false), ("e", "other", true), ("f", "new", true)]), &["f"]),
            // The device is allocated no longer: its report goes without a word of its driver.
            (claim(&[], &[("e", "other", true)]), &[]),
        ] {
            let change = StatusChange::between(&old, &new);
            assert_eq!(change.drivers, drivers.iter().copied().collect(), "{new}");
            assert_eq!(change.binds, new["status"]["allocation"] != old["status"]["allocation"]);
        }
        let mut used = old.clone();
        used["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "1"}]);
        assert!(StatusChange::between(&old, &used).binds);
        assert!(StatusChange::between(&used, &old).binds);
    }

    #[test]
    fn a_claim_is_bound_to_a_node_by_its_name_alone() {
        let with =
            |terms: Value| json!({"status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": terms}}}});
        let field = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let one = field("metadata.name", "In", json!(["n"]));
        for (terms, node) in [
            (json!([{"matchFields": [one]}]), Some("n")),
            (json!([{"matchFields": [one]}, {"matchFields": [one]}]), None),
            (json!([{"matchFields": [one, one]}]), None),
            (json!([{"matchFields": [one], "matchExpressions": [one]}]), None),
            (json!([{"matchFields": [field("metadata.name", "NotIn", json!(["n"]))]}]), None),
            (json!([{"matchFields": [field("metadata.name", "In", json!(["n", "m"]))]}]), None),
            (json!([{"matchFields": [field("metadata.uid", "In", json!(["n"]))]}]), None),
            (json!([]), None),
        ] {
            assert_eq!(allocated_node(&with(terms.clone())), node, "{terms}");
        }
        assert_eq!(allocated_node(&json!({})), None);
    }
}
