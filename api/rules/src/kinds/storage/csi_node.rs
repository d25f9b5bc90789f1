//! storage/v1 CSINode: the CSI drivers on a node, each under its own name for it.

use std::collections::HashMap;

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use super::validate_driver_name;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::metadata::{immutable, invalid_each, nonnegative};
use crate::validate::tree::{Tree, unset};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// Longest identifier of a node for a driver, in bytes.
const NODE_ID_MAX: usize = 256;

/// The rules of the drivers of a node.
#[derive(Debug)]
pub struct CsiNode;

impl Strategy for CsiNode {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_drivers(new.at("spec").items("drivers"), &drivers_path()));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, false, NameRule::Dns1123Subdomain);
        errors.extend(validate_drivers(new.at("spec").items("drivers"), &drivers_path()));
        errors.extend(validate_kept(old.at("spec").items("drivers"), new.at("spec").items("drivers")));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.at("spec").items("drivers").len()),
            json!(age::age(object, now)),
        ])
    }
}

fn drivers_path() -> Path {
    Path::new("spec").child("drivers")
}

fn validate_drivers(drivers: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, driver) in drivers.iter().numbered() {
        let path = path.index(at);
        let name = driver.text("name");
        errors.extend(validate_driver_name(name, &path.child("name")));
        errors.extend(validate_node_id(driver.text("nodeID"), &path.child("nodeID")));
        let count = path.child("allocatable").child("count");
        errors.extend(nonnegative(driver.at("allocatable").int("count"), count));
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path.child("name"), &quoted(name)));
        }
        errors.extend(validate_topology_keys(&driver.texts("topologyKeys"), &path));
    }
    errors
}

fn validate_node_id(id: &str, path: &Path) -> Option<FieldError> {
    if id.is_empty() {
        return Some(FieldError::required(path.clone(), ""));
    }
    let detail = format!("must be {NODE_ID_MAX} characters or less");
    (id.len() > NODE_ID_MAX).then(|| FieldError::invalid_str(path.clone(), id, &detail))
}

/// The reference reports a topology key on the driver.
fn validate_topology_keys(keys: &[&str], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for key in keys {
        if key.is_empty() {
            errors.push(FieldError::required(path.clone(), ""));
        }
        if seen.is_repeated(*key) {
            errors.push(FieldError::duplicate(path.clone(), &quoted(key)));
        }
        errors.extend(invalid_each(path, key, names::qualified_name(key)));
    }
    errors
}

/// Of a driver that stays, only `allocatable` may change.
fn validate_kept(old: &[Value], new: &[Value]) -> FieldErrors {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        unset(&mut driver, "allocatable");
        driver
    };
    let before: HashMap<&str, &Value> = old.iter().map(|driver| (driver.text("name"), driver)).collect();
    let kept = new.iter().filter_map(|driver| Some((driver, *before.get(driver.text("name"))?)));
    kept.filter_map(|(new, old)| immutable(&fixed(new), &fixed(old), drivers_path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    fn node(drivers: Value) -> Value {
        json!({"metadata": {"namespace": ""}, "spec": {"drivers": drivers}})
    }

    #[test]
    fn drivers_are_named_once_and_know_the_node() {
        let driver = json!({"name": "d.example.com", "nodeID": "n", "topologyKeys": ["k"], "allocatable": {"count": 5}});
        check_create(&CsiNode, node(json!([driver])), &[]);
        let long = "x".repeat(257);
        check_create(
            &CsiNode,
            node(json!([
                {"name": "d.example.com", "nodeID": "", "topologyKeys": ["k", "k"], "allocatable": {"count": -1}},
                {"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a b"]},
                {"name": "", "nodeID": long},
            ])),
            &[
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[0]: Duplicate value: \"k\"",
                "spec.drivers[1].name: Duplicate value: \"d.example.com\"",
                "spec.drivers[1]: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.drivers[2].name: Required value",
                &format!("spec.drivers[2].nodeID: Invalid value: \"{long}\": must be 256 characters or less"),
            ],
        );
        check_hostile(&CsiNode);
        let node = created(&CsiNode, node(json!([{"name": "d", "nodeID": "n"}])));
        assert_eq!(json!(CsiNode.table_row(&node, CONTEXT.now)), json!(["n", 1, "<unknown>"]));
    }

    #[test]
    fn a_driver_that_stays_keeps_all_but_its_limit() {
        let with = |id: &str, count: i64| {
            node(json!([{"name": "d", "nodeID": id, "allocatable": {"count": count}}]))
        };
        check_update(&CsiNode, with("n", 1), with("n", 2), &[]);
        check_update(&CsiNode, with("n", 1), node(json!([])), &[]);
        check_update(
            &CsiNode,
            with("n", 1),
            with("m", 1),
            &["spec.drivers: Invalid value: {\"name\":\"d\",\"nodeID\":\"m\"}: field is immutable"],
        );
    }
}
