//! Address of a node's kubelet, from the node's status.

use orch_proto::Brand;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::id::ProxyId;
use super::{BackendTrust, Location, path};
use crate::egress::Scheme;
use crate::error::{ApiError, ConnectError};

/// The port of kubelets that name none.
const KUBELET_PORT: i64 = 10250;

/// The type of address that the label of the host name stands for where the status has none of that type.
const HOSTNAME: &str = "Hostname";

/// The name and port of a node in the path of a proxy.
///
/// # Errors
/// `BadRequest`: it has another form.
pub(crate) fn parse_id(id: &str) -> Result<ProxyId<'_>, ApiError> {
    ProxyId::parse(id).ok_or_else(|| ApiError::BadRequest(format!("invalid node request {}", quoted(id))))
}

/// The kubelet of `node`, at the first address of the most preferred type.
///
/// # Errors
/// The node has no address of these types.
pub(crate) fn kubelet(node: &Value, address_types: &[String], brand: &Brand) -> Result<Location, ApiError> {
    let status = node.at("status");
    let addresses = status.items("addresses");
    let of_type = |kind: &String| {
        let found = addresses.iter().find(|address| address.text("type") == kind);
        let labelled = || {
            let labels = node.at("metadata").at("labels");
            Some(labels.text(&brand.label("hostname"))).filter(|name| kind == HOSTNAME && !name.is_empty())
        };
        found.map(|address| address.text("address")).or_else(labelled)
    };
    let host = address_types.iter().find_map(of_type).ok_or_else(|| {
        let known: Vec<String> = addresses
            .iter()
            .map(|address| format!("{{{} {}}}", address.text("type"), address.text("address")))
            .collect();
        let known = known.join(" ");
        ApiError::Connect(ConnectError::Failed(format!(
            "no preferred addresses found; known addresses: [{known}]"
        )))
    })?;
    let port = status.at("daemonEndpoints").at("kubeletEndpoint").int("Port");
    let port = port.filter(|&port| port != 0).unwrap_or(KUBELET_PORT);
    Ok(Location {
        scheme: Scheme::Https,
        host: host.to_owned(),
        port: port.to_string(),
        path: String::new(),
        trust: BackendTrust::Kubelet,
    })
}

/// Where a proxy of the node `id` with this `kubelet` leads: to the kubelet, or to another port of the node.
pub(crate) fn proxied(id: ProxyId<'_>, kubelet: Location, subpath: &str) -> Location {
    let path = path::cleaned(subpath);
    if id.port.is_empty() || id.port == kubelet.port {
        return Location { path, ..kubelet };
    }
    Location { scheme: id.scheme, port: id.port.to_owned(), path, trust: BackendTrust::Anyone, ..kubelet }
}
