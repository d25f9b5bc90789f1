//! core/v1 Endpoints: addresses and ports of a service, in subsets. Deprecated in favour of EndpointSlice.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use super::service::{format_host_port, validate_protocol};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::address::{ip_warning, validate_ip, validate_ordinary_ip};
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{Tree, is_unchanged, items_mut, set_default_text};
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Addresses that a table row shows.
const SHOWN_MAX: usize = 3;

/// The rules of endpoints.
#[derive(Debug)]
pub struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        for subset in items_mut(new, "subsets") {
            for port in items_mut(subset, "ports") {
                set_default_text(port, "protocol", "TCP");
            }
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_subsets(new.items("subsets"), &Path::new("subsets")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if !is_unchanged(old.at("subsets"), new.at("subsets")) {
            errors.extend(validate_subsets(new.items("subsets"), &Path::new("subsets")));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        // The controller of endpoints mends what it is given.
        let manager = format!("endpoints.{}", context.brand.label("managed-by"));
        if new.at("metadata").at("labels").text(&manager) == "endpoint-controller" {
            return Vec::new();
        }
        let (mut warnings, path) = (Vec::new(), Path::new("subsets"));
        for (at, subset) in new.items("subsets").iter().numbered() {
            for list in ["addresses", "notReadyAddresses"] {
                let path = path.index(at).child(list);
                for (at, address) in subset.items(list).iter().numbered() {
                    let path = path.index(at).child("ip");
                    warnings.extend(ip_warning(context.brand, &path, address.text("ip")));
                }
            }
        }
        warnings
    }

    fn deprecation(&self, brand: &Brand) -> Option<String> {
        let instead = brand.group("discovery");
        Some(format!("v1 Endpoints is deprecated in v1.33+; use {instead}/v1 EndpointSlice"))
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format_subsets(object.items("subsets"))),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_subsets(subsets: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, subset) in subsets.iter().numbered() {
        let path = path.index(at);
        if subset.is_empty_at("addresses") && subset.is_empty_at("notReadyAddresses") {
            errors
                .push(FieldError::required(path.clone(), "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in ["addresses", "notReadyAddresses"] {
            let path = path.child(list);
            for (at, address) in subset.items(list).iter().numbered() {
                errors.extend(validate_address(address, &path.index(at)));
            }
        }
        errors.extend(validate_ports(subset.items("ports"), &path.child("ports")));
    }
    errors
}

fn validate_address(address: &Value, path: &Path) -> FieldErrors {
    let (ip, ip_path) = (address.text("ip"), path.child("ip"));
    let mut errors: FieldErrors = validate_ip(&ip_path, ip).into_iter().collect();
    let hostname = address.text("hostname");
    if !hostname.is_empty() {
        errors.extend(invalid_each(&path.child("hostname"), hostname, names::dns1123_label(hostname)));
    }
    if let Some(node) = address.at("nodeName").as_str() {
        errors.extend(invalid_each(&path.child("nodeName"), node, names::dns1123_subdomain(node)));
    }
    errors.extend(validate_ordinary_ip(&ip_path, ip));
    errors
}

fn validate_ports(ports: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (at, port) in ports.iter().numbered() {
        let path = path.index(at);
        errors.extend(validate_port_name(port, ports.len() > 1, &path.child("name")));
        errors.extend(validate_protocol(port.text("protocol"), &path.child("protocol")));
        let number = port.int("port").unwrap_or(0);
        let messages = names::port_number(number);
        errors
            .extend(messages.iter().map(|m| FieldError::invalid(path.child("port"), &number.to_string(), m)));
        if let Some(protocol) = port.at("appProtocol").as_str() {
            let messages = names::qualified_name(protocol);
            errors.extend(invalid_each(&path.child("appProtocol"), protocol, messages));
        }
    }
    errors
}

fn validate_port_name(port: &Value, is_required: bool, path: &Path) -> FieldErrors {
    match port.text("name") {
        "" if is_required => FieldErrors::from(FieldError::required(path.clone(), "")),
        "" => FieldErrors::new(),
        name => invalid_each(path, name, names::dns1123_label(name)),
    }
}

/// The first addresses with their ports.
fn format_subsets(subsets: &[Value]) -> String {
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let (mut shown, mut count) = (Vec::new(), 0);
    for subset in subsets {
        let addresses = subset.items("addresses");
        let ports = subset.items("ports");
        let numbers = ports.iter().map(|port| Some(port.int("port").unwrap_or(0)));
        let alone = ports.is_empty().then_some(None);
        for port in numbers.chain(alone) {
            count += addresses.len();
            let room = SHOWN_MAX.saturating_sub(shown.len());
            shown.extend(addresses.iter().take(room).map(|address| match port {
                Some(port) => format_host_port(address.text("ip"), port),
                None => address.text("ip").to_owned(),
            }));
        }
    }
    let joined = shown.join(",");
    if count > SHOWN_MAX { format!("{joined} + {} more...", count - SHOWN_MAX) } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn addresses_and_ports_are_checked() {
        check_create(
            &Endpoints,
            json!({"subsets": [
                {"addresses": [{"ip": "x"}, {"ip": "10.0.0.1", "hostname": "A", "nodeName": "_"}], "ports": [
                    {"port": 0}, {"name": "a", "port": 1, "protocol": "ICMP", "appProtocol": "a b"}
                ]},
                {}
            ]}),
            &[
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                "subsets[0].addresses[1].hostname: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case \
                 alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
                 '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "subsets[0].addresses[1].nodeName: Invalid value: \"_\": a lowercase RFC 1123 subdomain must consist of lower \
                 case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "subsets[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "subsets[0].ports[1].appProtocol: Invalid value: \"a b\": name part must consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`",
            ],
        );
        let bad = json!({"subsets": [{}]});
        check_update(&Endpoints, bad.clone(), bad, &[]);
        check_hostile(&Endpoints);
    }

    #[test]
    fn the_controller_is_not_warned() {
        let told = |labels: Value| {
            let subsets = json!([{"addresses": [{"ip": "010.0.0.1"}]}]);
            Endpoints
                .warnings(&CONTEXT, None, &json!({"metadata": {"labels": labels}, "subsets": subsets}))
                .len()
        };
        assert_eq!(told(json!({})), 1);
        assert_eq!(told(json!({"endpoints.orch.io/managed-by": "me"})), 1);
        assert_eq!(told(json!({"endpoints.orch.io/managed-by": "endpoint-controller"})), 0);
    }

    #[test]
    fn a_row_shows_three_addresses() {
        let row = |subsets| {
            let object = created(&Endpoints, json!({"subsets": subsets}));
            Endpoints.table_row(&object, CONTEXT.now).unwrap()[1].clone()
        };
        let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}]);
        for (subsets, expected) in [
            (json!([]), "<none>"),
            (json!([{"addresses": addresses}]), "10.0.0.1,2001:db8::1"),
            (json!([{"addresses": addresses, "ports": [{"port": 80}]}]), "10.0.0.1:80,[2001:db8::1]:80"),
            (
                json!([{"addresses": addresses, "ports": [{"port": 80}, {"port": 81}]}]),
                "10.0.0.1:80,[2001:db8::1]:80,10.0.0.1:81 + 1 more...",
            ),
        ] {
            assert_eq!(row(subsets), expected);
        }
    }
}
