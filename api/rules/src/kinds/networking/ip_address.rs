//! networking/v1 IPAddress: an address that is taken, and by what.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::address::validate_canonical_ip;
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::Tree;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// The rules of taken addresses.
#[derive(Debug)]
pub struct IpAddress;

impl Strategy for IpAddress {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_address(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        // The reference checks the whole object and then the change.
        let mut errors = object_meta::whole(context, new, false, NameRule::PathSegment);
        errors.extend(validate_address(new));
        errors.extend(object_meta::on_update(context, old, new));
        let path = Path::new("spec").child("parentRef");
        errors.extend(immutable(new.at("spec").at("parentRef"), old.at("spec").at("parentRef"), path));
        errors
    }

    // As in the reference, the row has an age, for which there is no column.
    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format_parent(object.at("spec").at("parentRef"))),
            json!(age::age(object, now)),
        ])
    }
}

/// Rules for the name, which is the address, and for the object that has taken it.
fn validate_address(address: &Value) -> FieldErrors {
    // As in the reference a name that is still to be made would have to be an address already.
    let mut errors = FieldErrors::new();
    for field in ["generateName", "name"] {
        let name = address.at("metadata").text(field);
        if !name.is_empty() {
            errors.extend(validate_canonical_ip(&Path::new("metadata").child(field), name));
        }
    }
    let path = Path::new("spec").child("parentRef");
    errors.extend(validate_parent(address.at("spec").at("parentRef"), &path));
    errors
}

fn validate_parent(parent: &Value, path: &Path) -> FieldErrors {
    if parent.is_null() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    let mut errors = FieldErrors::new();
    let group = parent.text("group");
    if !group.is_empty() {
        errors.extend(invalid_each(&path.child("group"), group, names::dns1123_subdomain(group)));
    }
    for (field, is_required) in [("resource", true), ("name", true), ("namespace", false)] {
        match parent.text(field) {
            "" if is_required => errors.push(FieldError::required(path.child(field), "")),
            "" => {}
            value => errors.extend(invalid_each(&path.child(field), value, names::path_segment(value))),
        }
    }
    errors
}

/// `services/default/orch`, or with a group `gateways.gateway/ns/name`.
fn format_parent(parent: &Value) -> String {
    if parent.is_null() {
        return "<none>".to_owned();
    }
    let (group, resource) = (parent.text("group"), parent.text("resource"));
    let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let place = [parent.text("namespace"), parent.text("name")].map(str::to_owned);
    let parts = [resource.to_lowercase()].into_iter().chain(place);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update};

    #[test]
    fn the_name_is_an_address_and_the_parent_stays() {
        let address = |name: &str, parent: Value| json!({"metadata": {"name": name, "namespace": ""}, "spec": {"parentRef": parent}});
        let parent = json!({"resource": "services", "namespace": "ns", "name": "a"});
        check_create(&IpAddress, address("10.0.0.1", parent.clone()), &[]);
        check_create(
            &IpAddress,
            address("010.0.0.1", json!({"group": "A"})),
            &[
                "metadata.name: Invalid value: \"010.0.0.1\": must not have leading 0s",
                "spec.parentRef.group: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Required value",
            ],
        );
        check_create(&IpAddress, address("2001:db8::1", parent.clone()), &[]);
        check_create(
            &IpAddress,
            address("2001:DB8::1", parent.clone()),
            &["metadata.name: Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")"],
        );
        let mut generated = address("10.0.0.1x7k2p", parent.clone());
        generated["metadata"]["generateName"] = json!("10.0.0.1");
        let invalid = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        check_create(
            &IpAddress,
            generated,
            &[&format!("metadata.name: Invalid value: \"10.0.0.1x7k2p\": {invalid}")],
        );
        check_create(&IpAddress, address("10.0.0.1", Value::Null), &["spec.parentRef: Required value"]);
        check_update(
            &IpAddress,
            address("10.0.0.1", parent.clone()),
            address("10.0.0.1", json!({"resource": "services", "name": "b"})),
            &[
                "spec.parentRef: Invalid value: {\"resource\":\"services\",\"name\":\"b\"}: field is immutable",
            ],
        );
        check_update(
            &IpAddress,
            address("10.0.0.1", parent.clone()),
            address("10.0.0.1", Value::Null),
            &["spec.parentRef: Required value", "spec.parentRef: Invalid value: null: field is immutable"],
        );
        let row = IpAddress.table_row(&address("10.0.0.1", parent), CONTEXT.now).unwrap();
        assert_eq!(json!(row), json!(["10.0.0.1", "services/ns/a", "<unknown>"]));
        check_hostile(&IpAddress);
    }
}
