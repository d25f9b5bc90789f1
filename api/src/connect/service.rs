//! Chooses the endpoint of a service that a request is proxied to.
//!
//! Endpoints come from the EndpointSlices of the service, and where it has none from its Endpoints object. An endpoint counts
//! only if it is a pod's of the service's own namespace, at an address that the pod has: whoever may write endpoints must not
//! reach other servers through this one.

use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::id::ProxyId;
use super::{BackendTrust, Location, path};
use crate::error::{ApiError, ConnectError};

/// An address and a port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    address: String,
    port: i64,
    /// Namespace and name of the pod that the address is said to be of; empty where it is of none.
    pod: (String, String),
}

/// The name and port of a service in the path of a proxy.
///
/// # Errors
/// `BadRequest`: it has another form.
pub(crate) fn parse_id(id: &str) -> Result<ProxyId<'_>, ApiError> {
    ProxyId::parse(id).ok_or_else(|| ApiError::BadRequest(format!("invalid service request {}", quoted(id))))
}

/// The number that a port is named by; `None` for names.
pub(crate) fn port_number(port: &str) -> Option<i64> {
    port.parse().ok()
}

/// The name of the port `number` of `service`.
///
/// # Errors
/// The service has no such port.
pub(crate) fn port_name<'s>(service: &'s Value, name: &str, number: i64) -> Result<&'s str, ApiError> {
    let mut ports = service.at("spec").items("ports").iter();
    let found = ports.find(|port| port.int("port") == Some(number));
    found
        .map(|port| port.text("name"))
        .ok_or_else(|| unavailable(format!("no service port {number} found for service {}", quoted(name))))
}

/// The endpoints of an EndpointSlice that are ready at the port called `port`.
pub(crate) fn of_slice(slice: &Value, port: &str) -> Vec<Candidate> {
    let number = slice.items("ports").iter().find(|own| own.text("name") == port);
    let Some(number) = number.and_then(|own| own.int("port")) else { return Vec::new() };
    let is_ready = |endpoint: &&Value| endpoint.at("conditions").at("ready").as_bool() != Some(false);
    let ready = slice.items("endpoints").iter().filter(is_ready);
    let candidate = |endpoint: &Value| {
        let address = endpoint.texts("addresses").first().copied()?;
        Some(candidate(address, number, endpoint.at("targetRef")))
    };
    ready.filter_map(candidate).collect()
}

/// The endpoints of an Endpoints object that are ready at the port called `port`.
pub(crate) fn of_endpoints(endpoints: &Value, port: &str) -> Vec<Candidate> {
    let of_subset = |subset: &Value| -> Vec<Candidate> {
        let number = subset.items("ports").iter().find(|own| own.text("name") == port);
        let Some(number) = number.and_then(|own| own.int("port")) else { return Vec::new() };
        let addresses = subset.items("addresses").iter();
        addresses.map(|address| candidate(address.text("ip"), number, address.at("targetRef"))).collect()
    };
    endpoints.items("subsets").iter().flat_map(of_subset).collect()
}

fn candidate(address: &str, port: i64, target: &Value) -> Candidate {
    let pod = (target.text("namespace").to_owned(), target.text("name").to_owned());
    Candidate { address: address.to_owned(), port, pod }
}

/// The location of one of `candidates`, beginning with the one that `chance` picks. `pod_of` looks up a pod by its name.
///
/// # Errors
/// None of them is a pod's.
pub(crate) fn choose(
    candidates: &[Candidate],
    id: ProxyId<'_>,
    whole_id: &str,
    namespace: &str,
    subpath: &str,
    chance: u128,
    pod_of: impl Fn(&str) -> Option<Value>,
) -> Result<Location, ApiError> {
    let is_of_pod = |candidate: &Candidate| {
        let (own, name) = &candidate.pod;
        if own != namespace || name.is_empty() {
            return false;
        }
        let Some(pod) = pod_of(name) else { return false };
        // few: the addresses of one pod, one for each family.
        pod.at("status").items("podIPs").iter().any(|own| own.text("ip") == candidate.address)
    };
    let first = usize::try_from(chance % candidates.len().max(1) as u128).unwrap_or(0);
    let (before, behind) = candidates.split_at(first);
    let chosen = behind.iter().chain(before).find(|candidate| is_of_pod(candidate));
    let chosen = chosen.ok_or_else(|| no_endpoints(whole_id))?;
    Ok(Location {
        scheme: id.scheme,
        host: chosen.address.clone(),
        port: chosen.port.to_string(),
        path: path::cleaned(subpath),
        trust: BackendTrust::Anyone,
    })
}

/// The refusal of a proxy of a service without endpoints.
fn no_endpoints(id: &str) -> ApiError {
    unavailable(format!("no endpoints available for service {}", quoted(id)))
}

fn unavailable(message: String) -> ApiError {
    ApiError::Connect(ConnectError::Unavailable(message))
}
