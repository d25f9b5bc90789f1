//! discovery/v1 EndpointSlice: a bounded part of the endpoints of a service, of one address family.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use super::service::validate_protocol;
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::address::{Family, ip_warning, parse_loose, validate_ip, validate_ordinary_ip};
use crate::validate::metadata::{immutable, invalid_each};
use crate::validate::tree::{Tree, is_unchanged, items_mut, set_default, set_default_text, unset};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
/// Bounds of the reference, which keep a slice small enough to be sent with every change.
const ENDPOINTS_MAX: usize = 1000;
/// See [`ENDPOINTS_MAX`].
const ADDRESSES_MAX: usize = 100;
/// See [`ENDPOINTS_MAX`]: ports of a service that listens on a whole range.
const PORTS_MAX: usize = 20_000;
/// See [`ENDPOINTS_MAX`]: zones, or nodes, of one hint.
const HINTS_MAX: usize = 8;
/// Ports and addresses that a table row shows.
const SHOWN_MAX: usize = 3;

/// The rules of endpoint slices.
#[derive(Debug)]
pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        for port in items_mut(new, "ports") {
            set_default(port, "name", "");
            set_default_text(port, "protocol", "TCP");
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_generation(new);
        drop_topology(new);
    }

    fn prepare_for_update(&self, _context: &Context<'_>, old: &Value, new: &mut Value) {
        let labels = |object: &Value| object.at("metadata").at("labels").clone();
        if is_unchanged(&labels(old), &labels(new)) {
            object_meta::raise_generation(old, new, &["addressType", "endpoints", "ports"]);
        } else {
            object_meta::next_generation(old, new);
        }
        if !is_unchanged(old.at("endpoints"), new.at("endpoints")) {
            drop_topology(new);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_slice(&Value::Null, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
        errors.extend(validate_slice(old, new));
        errors.extend(immutable(new.at("addressType"), old.at("addressType"), Path::new("addressType")));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        if new.text("addressType") == "FQDN" {
            return vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()];
        }
        if is_of_controller(context.brand, new) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let path = Path::new("endpoints");
        for (at, endpoint) in new.items("endpoints").iter().numbered() {
            let path = path.index(at).child("addresses");
            for (at, address) in endpoint.texts("addresses").into_iter().numbered() {
                warnings.extend(ip_warning(context.brand, &path.index(at), address));
            }
        }
        warnings
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(object.text("addressType")),
            json!(format_first(object.items("ports").iter().map(format_port))),
            json!(format_first(
                object
                    .items("endpoints")
                    .iter()
                    .flat_map(|endpoint| endpoint.texts("addresses"))
                    .map(str::to_owned)
            )),
            json!(age::age(object, now)),
        ])
    }
}

/// Whether a controller of slices made the slice: it mends what it is given.
fn is_of_controller(brand: &Brand, slice: &Value) -> bool {
    let label = format!("endpointslice.{}", brand.label("managed-by"));
    let manager = slice.at("metadata").at("labels").text(&label);
    let stem = manager.strip_suffix(brand.group_domain).and_then(|stem| stem.strip_suffix('.'));
    matches!(stem, Some("endpointslice-controller" | "endpointslicemirroring-controller"))
}

/// Removes `deprecatedTopology`, which only an earlier version of the interface could write.
fn drop_topology(slice: &mut Value) {
    for endpoint in items_mut(slice, "endpoints") {
        unset(endpoint, "deprecatedTopology");
    }
}

/// Rules for a slice. `old` is null for a new one: endpoints that a slice has may have a form that is refused by now.
fn validate_slice(old: &Value, slice: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let address_type = slice.text("addressType");
    if address_type.is_empty() {
        errors.push(FieldError::required(Path::new("addressType"), ""));
    } else if !ADDRESS_TYPES.contains(&address_type) {
        errors.push(FieldError::not_supported(Path::new("addressType"), address_type, &ADDRESS_TYPES));
    }
    let (endpoints, path) = (slice.items("endpoints"), Path::new("endpoints"));
    let are_kept = !old.is_null() && is_unchanged(old.at("endpoints"), slice.at("endpoints"));
    if !are_kept && endpoints.len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(path, endpoints.len(), ENDPOINTS_MAX));
    } else if !are_kept {
        for (at, endpoint) in endpoints.iter().numbered() {
            errors.extend(validate_endpoint(endpoint, address_type, &path.index(at)));
        }
    }
    errors.extend(validate_ports(slice.items("ports"), &Path::new("ports")));
    errors
}

fn validate_endpoint(endpoint: &Value, address_type: &str, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (addresses, list) = (endpoint.texts("addresses"), path.child("addresses"));
    if addresses.is_empty() {
        errors.push(FieldError::required(list.clone(), "must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(list.clone(), addresses.len(), ADDRESSES_MAX));
    }
    for (at, address) in addresses.into_iter().numbered() {
        match Family::named(address_type) {
            Some(family) => errors.extend(validate_address(address, family, &list, at)),
            None if address_type == "FQDN" => errors.extend(validate_domain(address, &list.index(at))),
            None => {}
        }
    }
    if let Some(hostname) = endpoint.at("hostname").as_str() {
        errors.extend(invalid_each(&path.child("hostname"), hostname, names::dns1123_label(hostname)));
    }
    if let Some(node) = endpoint.at("nodeName").as_str() {
        errors.extend(invalid_each(&path.child("nodeName"), node, names::dns1123_subdomain(node)));
    }
    let (hints, path) = (endpoint.at("hints"), path.child("hints"));
    errors.extend(validate_hint(hints.items("forZones"), names::label_value, &path.child("forZones")));
    if hints.items("forZones").len() > HINTS_MAX {
        return errors;
    }
    errors.extend(validate_hint(hints.items("forNodes"), names::dns1123_subdomain, &path.child("forNodes")));
    errors
}

/// The reference reports an address of the other family under the list, without its index.
fn validate_address(address: &str, family: Family, list: &Path, at: usize) -> FieldErrors {
    if let Some(error) = validate_ip(&list.index(at), address) {
        return FieldErrors::from(error);
    }
    let mut errors = FieldErrors::new();
    if parse_loose(address).map(Family::of) != Some(family) {
        let detail = format!("must be an {} address", family.name());
        errors.push(FieldError::invalid_str(list.clone(), address, &detail));
    }
    errors.extend(validate_ordinary_ip(&list.index(at), address));
    errors
}

/// A domain name of at least two labels, with or without a dot at its end.
fn validate_domain(name: &str, path: &Path) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        return invalid_each(path, name, messages);
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return FieldErrors::from(FieldError::invalid_str(path.clone(), name, detail));
    }
    name.split('.').flat_map(|label| invalid_each(path, label, names::dns1123_label(label))).collect()
}

fn validate_hint(targets: &[Value], rule: fn(&str) -> Vec<String>, path: &Path) -> FieldErrors {
    if targets.len() > HINTS_MAX {
        return FieldErrors::from(FieldError::too_many(path.clone(), targets.len(), HINTS_MAX));
    }
    let (mut errors, mut seen) = (FieldErrors::new(), Distinct::new());
    for (at, target) in targets.iter().numbered() {
        let (name, path) = (target.text("name"), path.index(at).child("name"));
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path, &orch_schema::excerpt::quoted(name)));
        } else {
            errors.extend(invalid_each(&path, name, rule(name)));
        }
    }
    errors
}

fn validate_ports(ports: &[Value], path: &Path) -> FieldErrors {
    if ports.len() > PORTS_MAX {
        return FieldErrors::from(FieldError::too_many(path.clone(), ports.len(), PORTS_MAX));
    }
    let (mut errors, mut seen) = (FieldErrors::new(), Distinct::new());
    for (at, port) in ports.iter().numbered() {
        let (name, path) = (port.text("name"), path.index(at));
        if !name.is_empty() {
            errors.extend(invalid_each(&path.child("name"), name, names::dns1123_label(name)));
        }
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path.child("name"), &orch_schema::excerpt::quoted(name)));
        }
        errors.extend(validate_protocol(port.text("protocol"), &path.child("protocol")));
        if let Some(protocol) = port.at("appProtocol").as_str() {
            let messages = names::qualified_name(protocol);
            errors.extend(invalid_each(&path.child("appProtocol"), protocol, messages));
        }
    }
    errors
}

/// A port's number, or else its name.
fn format_port(port: &Value) -> String {
    match port.int("port") {
        Some(number) => number.to_string(),
        None => port.at("name").as_str().unwrap_or("*").to_owned(),
    }
}

/// The first items, and how many more there are.
fn format_first(items: impl Iterator<Item = String>) -> String {
    let mut items = items;
    let shown: Vec<String> = items.by_ref().take(SHOWN_MAX).collect();
    match (shown.join(","), items.count()) {
        (joined, 0) if joined.is_empty() => "<unset>".to_owned(),
        (joined, 0) => joined,
        (joined, more) => format!("{joined} + {more} more..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created, updated};

    #[test]
    fn controllers_are_not_warned() {
        for (manager, expected) in [
            ("me", 1),
            ("endpointslice-controller.k8s.io", 1),
            ("endpointslice-controller.orch.io", 0),
            ("endpointslicemirroring-controller.orch.io", 0),
        ] {
            let slice = json!({
                "metadata": {"labels": {"endpointslice.orch.io/managed-by": manager}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["010.0.0.1"]}],
            });
            assert_eq!(EndpointSlice.warnings(&CONTEXT, None, &slice).len(), expected, "{manager}");
        }
    }

    #[test]
    fn addresses_fit_their_type() {
        let slice = |kind: &str, addresses: Value| json!({"addressType": kind, "endpoints": [{"addresses": addresses}]});
        for (object, expected) in [
            (slice("IPv4", json!(["10.0.0.1"])), &[][..]),
            (slice("IPv6", json!(["2001:db8::1"])), &[]),
            (slice("FQDN", json!(["a.example.com."])), &[]),
            (
                slice("IPv6", json!(["10.0.0.1"])),
                &["endpoints[0].addresses: Invalid value: \"10.0.0.1\": must be an IPv6 address"],
            ),
            (
                slice("IPv4", json!([])),
                &["endpoints[0].addresses: Required value: must contain at least 1 address"],
            ),
            (
                slice("FQDN", json!(["example"])),
                &[
                    "endpoints[0].addresses[0]: Invalid value: \"example\": should be a domain with at least two segments \
                   separated by dots",
                ],
            ),
            (
                slice("Odd", json!(["x"])),
                &["addressType: Unsupported value: \"Odd\": supported values: \"FQDN\", \"IPv4\", \"IPv6\""],
            ),
            (
                slice("IPv4", Value::Array(vec![json!("10.0.0.1"); 101])),
                &["endpoints[0].addresses: Too many: 101: must have at most 100 items"],
            ),
        ] {
            check_create(&EndpointSlice, object, expected);
        }
        check_update(
            &EndpointSlice,
            slice("IPv4", json!(["10.0.0.1"])),
            slice("FQDN", json!(["a.b"])),
            &["addressType: Invalid value: \"FQDN\": field is immutable"],
        );
        let stored = slice("IPv4", json!(["010.0.0.1"]));
        check_update(&EndpointSlice, stored.clone(), stored, &[]);
        let hints =
            |count: usize| Value::Array((0..count).map(|at| json!({"name": format!("z{at}")})).collect());
        let hinted = json!({"addressType": "IPv4", "endpoints": [
            {"addresses": ["10.0.0.1"], "hints": {"forZones": hints(9), "forNodes": hints(9)}}
        ]});
        check_create(
            &EndpointSlice,
            hinted,
            &["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"],
        );
        check_hostile(&EndpointSlice);
    }

    #[test]
    fn names_of_ports_and_zones_are_distinct() {
        check_create(
            &EndpointSlice,
            json!({"addressType": "IPv4", "ports": [{"name": "a"}, {"name": "a", "protocol": "X"}], "endpoints": [
                {"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "z"}, {"name": "z"}]}}
            ]}),
            &[
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\"",
                "ports[1].name: Duplicate value: \"a\"",
                "ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        );
    }

    #[test]
    fn the_generation_follows_content_and_labels() {
        let old = created(
            &EndpointSlice,
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"a": "b"}}]}),
        );
        assert_eq!(
            (&old["metadata"]["generation"], old["endpoints"][0].get("deprecatedTopology")),
            (&json!(1), None)
        );
        let next = |change: &dyn Fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            updated(&EndpointSlice, Action::Object, &old, new)["metadata"]["generation"].clone()
        };
        assert_eq!(next(&|slice| slice["metadata"]["annotations"] = json!({"a": "b"})), 1);
        assert_eq!(next(&|slice| slice["metadata"]["labels"] = json!({"a": "b"})), 2);
        assert_eq!(next(&|slice| slice["ports"] = json!([{"port": 1}])), 2);
        let row = EndpointSlice.table_row(&old, CONTEXT.now).unwrap();
        assert_eq!(json!(row), json!(["n", "IPv4", "<unset>", "10.0.0.1", "<unknown>"]));
    }
}
