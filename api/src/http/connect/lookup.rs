//! The backend of a request: its options, and the objects that say where it is.

use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::{Key, State};
use orch_rules::Action;
use orch_schema::value::Value;

use crate::connect::id::ProxyId;
use crate::connect::options::{LogOptions, StreamOptions, ports_query, proxied_path};
use crate::connect::{BackendTrust, Connector, Location, node, pod, service};
use crate::error::{ApiError, Subject};
use crate::pipeline::tree_of;
use crate::registry::Resource;
use crate::request::{Query, Target};

/// The collections of nodes, services and EndpointSlices in the store.
const NODES: &str = "nodes";
const SERVICES: &str = "services";
const ENDPOINT_SLICES: &str = "endpointslices.discovery";

/// The options of a request.
pub(super) enum Options {
    Log(LogOptions),
    /// A command or an attachment, by the name of the kubelet's call.
    Stream(&'static str, StreamOptions),
    /// Ports to forward, as the kubelet's query.
    Ports(String),
    /// The path behind a proxy.
    Proxy(String),
}

/// The backend of a request.
pub(super) enum Way {
    /// The pod has no node yet, so that there is no log.
    Nothing,
    /// A log, read from this kubelet with this query.
    Log(Location, String),
    /// A stream over an upgraded connection to this kubelet, with this query.
    Stream(Location, String),
    /// Whatever the client asks for at this backend.
    Proxy(Location),
}

impl Options {
    /// The options of a request for the log of the pod `name`.
    ///
    /// # Errors
    /// `BadRequest` or `Invalid`: they cannot be read, or break a rule.
    pub(super) fn of_log(name: &str, query: &Query) -> Result<Options, ApiError> {
        let options = LogOptions::parse(query)?;
        options.check(name)?;
        Ok(Options::Log(options))
    }

    /// The options of a connection by `action`, from their document. `subpath` is the path that the client asks for.
    pub(super) fn of_document(action: Action, document: &Value, subpath: &str) -> Options {
        match action {
            Action::Exec => Options::Stream("exec", StreamOptions::of_exec(document)),
            Action::Attach => Options::Stream("attach", StreamOptions::of_attach(document)),
            Action::PortForward => Options::Ports(ports_query(document)),
            _ => Options::Proxy(proxied_path(document, subpath)),
        }
    }

    /// Whether they are of a stream, which needs the right to create it.
    pub(super) fn are_of_a_stream(&self) -> bool {
        matches!(self, Options::Stream(..) | Options::Ports(_))
    }
}

/// The objects of one revision.
pub(super) struct Lookup<'a> {
    pub(super) state: Arc<State>,
    pub(super) connector: &'a Connector,
    pub(super) brand: &'static Brand,
}

impl Lookup<'_> {
    /// The backend of a request for `target`. `random` chooses among the endpoints of a service.
    pub(super) fn way(
        &self,
        options: Options,
        resource: &Resource,
        target: &Target,
        random: impl Fn() -> u128,
    ) -> Result<Way, ApiError> {
        let (name, namespace) = (&*target.name, &*target.namespace);
        match options {
            Options::Log(options) => {
                let found = self.pod(namespace, name)?;
                let container = pod::container(&found, name, &options.container)?;
                let Some(node) = pod::node(&found) else { return Ok(Way::Nothing) };
                let path = format!("/containerLogs/{namespace}/{name}/{container}");
                let kubelet = self.kubelet(node)?;
                let trust =
                    if options.is_unverified { BackendTrust::UnverifiedKubelet } else { kubelet.trust };
                Ok(Way::Log(Location { path, trust, ..kubelet }, options.query()))
            }
            Options::Stream(call, options) => {
                let found = self.pod(namespace, name)?;
                let container = pod::container(&found, name, &options.container)?;
                let path = format!("/{call}/{namespace}/{name}/{container}");
                Ok(Way::Stream(Location { path, ..self.kubelet_of(&found, name)? }, options.query()))
            }
            Options::Ports(query) => {
                let found = self.pod(namespace, name)?;
                let path = format!("/portForward/{namespace}/{name}");
                Ok(Way::Stream(Location { path, ..self.kubelet_of(&found, name)? }, query))
            }
            Options::Proxy(path) => match &*resource.storage {
                NODES => {
                    let id = node::parse_id(name)?;
                    Ok(Way::Proxy(node::proxied(id, self.kubelet(id.name)?, &path)))
                }
                SERVICES => self.service(service::parse_id(name)?, target, &path, random()).map(Way::Proxy),
                _ => {
                    let id = pod::parse_id(name)?;
                    pod::proxied(id, &self.pod(namespace, id.name)?, &path).map(Way::Proxy)
                }
            },
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Value, ApiError> {
        self.object("pods", namespace, name)
    }

    fn kubelet(&self, name: &str) -> Result<Location, ApiError> {
        node::kubelet(&self.object(NODES, "", name)?, &self.connector.address_types, self.brand)
    }

    /// A pod behind the service `id`, by its EndpointSlices, or its Endpoints where it has none.
    fn service(
        &self,
        id: ProxyId<'_>,
        target: &Target,
        path: &str,
        chance: u128,
    ) -> Result<Location, ApiError> {
        let namespace = target.namespace.as_str();
        let found = service::port_number(id.port).map(|number| {
            let found = self.object(SERVICES, namespace, id.name)?;
            service::port_name(&found, id.name, number).map(str::to_owned)
        });
        let port = found.unwrap_or_else(|| Ok(id.port.to_owned()))?;
        let label = self.brand.label("service-name");
        let slices = self.state.collection(ENDPOINT_SLICES);
        let own = slices.within(namespace, "").filter(|(_, slice)| slice.label(&label) == Some(id.name));
        let slices: Vec<Value> = own.map(|(_, slice)| tree_of(slice)).collect::<Result<_, _>>()?;
        let candidates = match slices.as_slice() {
            // As in the reference, a service without either is not found, though there may be one of the name.
            [] => match self.object("endpoints", namespace, id.name) {
                Ok(endpoints) => service::of_endpoints(&endpoints, &port),
                Err(ApiError::NotFound(_)) => return Err(missing(SERVICES, id.name)),
                Err(error) => return Err(error),
            },
            slices => slices.iter().flat_map(|slice| service::of_slice(slice, &port)).collect(),
        };
        let pod_of = |name: &str| self.pod(namespace, name).ok();
        service::choose(&candidates, id, &target.name, namespace, path, chance, pod_of)
    }

    /// The kubelet of the node that the pod `found`, called `name`, runs on.
    fn kubelet_of(&self, found: &Value, name: &str) -> Result<Location, ApiError> {
        self.kubelet(pod::node(found).ok_or_else(|| pod::lacks_host(name))?)
    }

    fn object(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let key = Key::new(&Arc::from(resource), namespace, name).map_err(|_| missing(resource, name))?;
        tree_of(self.state.object(&key).ok_or_else(|| missing(resource, name))?)
    }
}

/// The failure of a look-up of an object of the core group.
fn missing(resource: &str, name: &str) -> ApiError {
    ApiError::NotFound(Subject { group: String::new(), kind: resource.to_owned(), name: name.to_owned() })
}
