//! Address of a pod's containers: that of its node's kubelet, or its own.

use std::net::IpAddr;

use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::id::ProxyId;
use super::{BackendTrust, Location, not_allowed, path};
use crate::error::ApiError;

/// Lists of containers, in the order in which messages name them.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The name and port of a pod in the path of a proxy.
///
/// # Errors
/// `BadRequest`: it has another form.
pub(crate) fn parse_id(id: &str) -> Result<ProxyId<'_>, ApiError> {
    ProxyId::parse(id).ok_or_else(|| ApiError::BadRequest(format!("invalid pod request {}", quoted(id))))
}

/// The container that is asked for: the named one, or the only one.
///
/// # Errors
/// `BadRequest`: there is none of that name, or there are several and none is named.
pub(crate) fn container<'p>(pod: &'p Value, name: &str, asked: &'p str) -> Result<&'p str, ApiError> {
    let spec = pod.at("spec");
    let names = || CONTAINER_LISTS.iter().flat_map(|list| spec.items(list)).map(|own| own.text("name"));
    let refused = |text: String| Err(ApiError::BadRequest(text));
    if !asked.is_empty() {
        // once: one pass over the containers.
        return match names().any(|own| own == asked) {
            true => Ok(asked),
            false => refused(format!("container {asked} is not valid for pod {name}")),
        };
    }
    match spec.items("containers") {
        [] => refused(format!("a container name must be specified for pod {name}")),
        [one] => Ok(one.text("name")),
        _ => {
            let names: Vec<&str> = names().collect();
            let names = names.join(" ");
            refused(format!("a container name must be specified for pod {name}, choose one of: [{names}]"))
        }
    }
}

/// The node that the pod runs on; `None` while it is not scheduled.
pub(crate) fn node(pod: &Value) -> Option<&str> {
    Some(pod.at("spec").text("nodeName")).filter(|node| !node.is_empty())
}

/// The refusal of a stream to a pod that is not scheduled.
pub(crate) fn lacks_host(name: &str) -> ApiError {
    ApiError::BadRequest(format!("pod {name} does not have a host assigned"))
}

/// Where a proxy of the pod `id` leads: to the named port, or the first that a container declares, or the scheme's own.
///
/// # Errors
/// `BadRequest`: the pod has no address.
pub(crate) fn proxied(id: ProxyId<'_>, pod: &Value, subpath: &str) -> Result<Location, ApiError> {
    let host = pod.at("status").items("podIPs").first().map_or("", |address| address.text("ip"));
    if host.parse::<IpAddr>().is_err() {
        return Err(not_allowed());
    }
    let declared = || {
        let containers = pod.at("spec").items("containers").iter();
        let port = containers.filter_map(|container| container.items("ports").first()).next();
        port.and_then(|port| port.int("containerPort")).map(|port| port.to_string())
    };
    let port = if id.port.is_empty() { declared().unwrap_or_default() } else { id.port.to_owned() };
    Ok(Location {
        scheme: id.scheme,
        host: host.to_owned(),
        port,
        path: path::cleaned(subpath),
        trust: BackendTrust::Anyone,
    })
}
