//! Resolves a service to an address, for servers that objects of the API name: a function of the state.
//!
//! Owns the two ways: the service's own address, which whatever runs on this machine routes on, or one of its ready endpoints.

use orch_proto::Brand;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::config::ServicePort;
use crate::view::View;

const SERVICES: &str = "services";
const ENDPOINT_SLICES: &str = "endpointslices.discovery";

/// How services are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// By the cluster address.
    #[default]
    ClusterAddress,
    /// By an endpoint that is ready (`--enable-aggregator-routing`).
    Endpoints,
}

/// The reason why a service leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unresolved {
    /// There is no such service.
    #[error("service {} not found", quoted(.0))]
    NoService(String),
    /// It has no such port.
    #[error("no service port {port} found for service {}", quoted(.name))]
    NoPort {
        /// The service.
        name: String,
        /// The port that was asked for.
        port: u16,
    },
    /// It has no address of its own.
    #[error("cannot route to service with ClusterIP {}", quoted(.0))]
    NoAddress(String),
    /// No endpoint is ready.
    #[error("no endpoints available for service {}", quoted(.0))]
    NoEndpoints(String),
    /// Its type cannot be routed to.
    #[error("unsupported service type {}", quoted(.0))]
    Type(String),
}

/// The services of one revision.
pub(crate) struct Services<'a> {
    pub(crate) view: &'a View,
    pub(crate) brand: &'static Brand,
    pub(crate) routing: Routing,
}

/// Host and port of `service` among `services`; `chance` chooses among its endpoints.
///
/// # Errors
/// It leads nowhere.
pub(crate) fn resolve(
    services: &Services<'_>,
    service: &ServicePort,
    chance: u128,
) -> Result<(String, u16), Unresolved> {
    let ServicePort { namespace, name, port } = service;
    let found =
        services.view.find(SERVICES, namespace, name).ok_or_else(|| Unresolved::NoService(name.clone()))?;
    let spec = found.at("spec");
    let kind = spec.text("type");
    if kind == "ExternalName" {
        return Ok((spec.text("externalName").to_owned(), *port));
    }
    let port_of = |number: u16| {
        let mut ports = spec.items("ports").iter();
        ports.find(|own| own.int("port") == Some(i64::from(number)))
    };
    let missing = || Unresolved::NoPort { name: name.clone(), port: *port };
    match services.routing {
        Routing::ClusterAddress => {
            let address = spec.text("clusterIP");
            if matches!(address, "" | "None") {
                return Err(Unresolved::NoAddress(address.to_owned()));
            }
            port_of(*port).ok_or_else(missing)?;
            Ok((address.to_owned(), *port))
        }
        Routing::Endpoints => {
            if !matches!(kind, "" | "ClusterIP" | "LoadBalancer" | "NodePort") {
                return Err(Unresolved::Type(kind.to_owned()));
            }
            let own = port_of(*port).ok_or_else(missing)?;
            let none = || Unresolved::NoEndpoints(name.clone());
            endpoint(services, service, own.text("name"), chance).ok_or_else(none)
        }
    }
}

/// An endpoint of `service` that is ready at the port called `port`, by chance.
fn endpoint(
    services: &Services<'_>,
    service: &ServicePort,
    port: &str,
    chance: u128,
) -> Option<(String, u16)> {
    let slices = slices_of(services, service);
    let mut ready = Vec::new();
    for slice in &slices {
        let number = slice.items("ports").iter().find(|own| own.text("name") == port);
        let number = number.and_then(|own| own.int("port")).and_then(|number| u16::try_from(number).ok());
        let Some(number) = number else { continue };
        let addresses = slice.items("endpoints").iter().filter(|endpoint| is_ready(endpoint));
        ready.extend(addresses.filter_map(|endpoint| Some((*endpoint.texts("addresses").first()?, number))));
    }
    let at = usize::try_from(chance % ready.len().max(1) as u128).unwrap_or(0);
    ready.get(at).map(|(address, port)| ((*address).to_owned(), *port))
}

/// Whether an endpoint of a slice is ready; one that does not say so is.
pub(crate) fn is_ready(endpoint: &Value) -> bool {
    endpoint.at("conditions").at("ready").as_bool() != Some(false)
}

/// The slices of endpoints of `service`.
pub(crate) fn slices_of(services: &Services<'_>, service: &ServicePort) -> Vec<Value> {
    let label = services.brand.label("service-name");
    let slices = services.view.applied().state.collection(ENDPOINT_SLICES);
    let within = slices.within(&service.namespace, "");
    let own = within.filter(|(_, slice)| slice.label(&label) == Some(service.name.as_str()));
    own.filter_map(|(_, slice)| serde_json::from_slice(&slice.json).ok()).collect()
}
