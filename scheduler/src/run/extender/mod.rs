//! HTTP extenders: services that filter, score, preempt and bind beside the plugins.
//!
//! Owns one extender's configuration, which pods it wants to see, and its five calls. The planner asks while it plans,
//! so that a slow extender slows all planning: its timeout is the bound of one call, and [`Extender::wait`] that of a plan.
//! An extender that is `ignorable` and fails is passed over; the failure of another one fails the plan.
//!
//! Invariant: texts of an extender are cut ([`texts`]) before anything else sees them.

mod error;
mod silence;

#[cfg(any(test, feature = "simulation"))]
mod simulated;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod texts;
mod wire;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use orch_proto::Brand;
use orch_serving::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::api::core::v1::{Node, Pod};
use crate::client::{
    Bearer, Certificate, Codec, Config, ConfigError, ContentType, Endpoint, Error, JsonServer, Pem, Trust,
    chain,
};

use super::binding::PodRef;

pub use error::ExtenderError;
use silence::Silence;
pub(super) use texts::REFUSED;
use texts::{cut, reasons};
use wire::{
    BindingArgs, BindingResult, FilterArgs, FilterResult, HostPriority, PreemptionArgs, PreemptionResult,
};
pub use wire::{MetaVictims, Victims};

/// The default of `httpTimeout`.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

/// An extender gives 0 to 10; a plugin 0 to 100.
pub const SCORE_FACTOR: i64 = 10;

/// The configuration of one extender.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtenderConfig {
    /// Where it is, with the path that its verbs are below.
    pub url_prefix: String,
    /// The verb that filters; empty if it does not.
    pub filter_verb: String,
    /// The verb that preempts; empty if it does not.
    pub preempt_verb: String,
    /// The verb that scores; empty if it does not.
    pub prioritize_verb: String,
    /// Factor of its scores; at least 1.
    pub weight: i64,
    /// The verb that binds; empty if it does not.
    pub bind_verb: String,
    /// Whether to use TLS.
    pub enable_https: bool,
    /// How.
    pub tls: ExtenderTls,
    /// Time limit of a call; zero for the default.
    pub timeout: Duration,
    /// Whether it knows the nodes itself, so that names suffice.
    pub is_node_cache_capable: bool,
    /// The resources of the pods that it wants to see; empty for all pods.
    pub managed_resources: Vec<String>,
    /// Whether its failure is no failure of the plan.
    pub is_ignorable: bool,
}

/// The TLS settings of an extender. Data wins over files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExtenderTls {
    /// Accept any certificate.
    pub insecure: bool,
    /// The name that its certificate must have; empty for the host of the address.
    pub server_name: String,
    /// The certificate of this client.
    pub certificate: Option<(Pem, Pem)>,
    /// The authority of its certificate.
    pub authority: Option<Pem>,
}

/// Result of an extender's filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Nodes that it lets pass.
    pub feasible: HashSet<String>,
    /// Nodes that it refuses, with the reason; evicting pods may help.
    pub failed: HashMap<String, String>,
    /// Nodes that it refuses whatever is evicted.
    pub unresolvable: HashMap<String, String>,
}

/// An HTTP extender.
pub struct Extender {
    config: ExtenderConfig,
    server: JsonServer,
    codec: Codec,
    silence: Silence,
}

impl std::fmt::Debug for Extender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Extender").field(&self.config.url_prefix).finish()
    }
}

impl Extender {
    /// The extender of `config`, which reads objects under the names of `brand`.
    ///
    /// # Errors
    /// Where its address or its certificates cannot be used.
    pub fn new(config: ExtenderConfig, brand: &'static Brand) -> Result<Self, ConfigError> {
        Self::connected(connection(&config)?, config, brand)
    }

    fn connected(
        connection: Config,
        config: ExtenderConfig,
        brand: &'static Brand,
    ) -> Result<Self, ConfigError> {
        let server = JsonServer::new(&connection)?;
        Ok(Self { config, server, codec: Codec::new(brand, ContentType::Json), silence: Silence::default() })
    }

    /// Its configuration.
    pub fn config(&self) -> &ExtenderConfig {
        &self.config
    }

    /// The answer to `asking`, for a plan whose time for extenders is over at `deadline`. The calling thread is no part of
    /// `runtime`.
    ///
    /// # Errors
    /// Those of [`ExtenderError`].
    pub fn wait<T>(
        &self,
        runtime: &Handle,
        deadline: Instant,
        asking: impl Future<Output = Result<T, ExtenderError>>,
    ) -> Result<T, ExtenderError> {
        #[cfg(any(test, feature = "simulation"))]
        if self.server.is_simulated() {
            return self.at_once(asking);
        }
        let asking = async {
            let answer = timeout_at(deadline, asking).await;
            answer.unwrap_or_else(|_| Err(ExtenderError::Late { url: self.config.url_prefix.clone() }))
        };
        runtime.block_on(self.unless_silent(asking))
    }

    /// Awaits `asking`, unless the extender failed slowly a moment ago: other pods wait for the thread that plans, and for the
    /// places of bindings.
    async fn unless_silent<T>(
        &self,
        asking: impl Future<Output = Result<T, ExtenderError>>,
    ) -> Result<T, ExtenderError> {
        let began = Instant::now();
        if self.silence.lasts(began) {
            return Err(ExtenderError::Silent { url: self.config.url_prefix.clone() });
        }
        let answer = asking.await;
        if matches!(answer, Err(ExtenderError::Call { .. } | ExtenderError::Late { .. })) {
            self.silence.failed(began.elapsed(), Instant::now());
        }
        answer
    }

    /// Whether it wants to see `pod`: it does if it manages a resource that a container asks for, or no resource at all.
    pub fn is_interested(&self, pod: &Pod) -> bool {
        if self.config.managed_resources.is_empty() {
            return true;
        }
        let Some(spec) = &pod.spec else { return false };
        let containers = spec.containers.iter().chain(&spec.init_containers);
        containers.filter_map(|container| container.resources.as_ref()).any(|resources| {
            let names = resources.requests.keys().chain(resources.limits.keys());
            names.into_iter().any(|name| self.config.managed_resources.iter().any(|managed| managed == name))
        })
    }

    /// Asks which of `nodes` take `pod`. Without a cache of nodes of its own the extender gets the nodes themselves,
    /// which `node` looks up.
    ///
    /// # Errors
    /// Those of [`ExtenderError`].
    pub async fn filter<'n>(
        &self,
        pod: &Pod,
        nodes: &[&str],
        node: impl Fn(&str) -> Option<&'n Node>,
    ) -> Result<Filtered, ExtenderError> {
        let args = self.node_args(pod, nodes, node)?;
        let result: FilterResult = self.call(&self.config.filter_verb, &args).await?;
        if !result.error.is_empty() {
            return Err(ExtenderError::Refused(cut(&result.error)));
        }
        let feasible = match (self.config.is_node_cache_capable, result.node_names, result.nodes) {
            (true, Some(names), _) => names,
            (_, _, Some(list)) => list.items.into_iter().map(|node| node.metadata.name).collect(),
            // Without a cache of its own it is asked with whole nodes, and answers with them.
            (_, _, None) => Vec::new(),
        };
        let asked: HashSet<&str> = nodes.iter().copied().collect();
        if let Some(unknown) = feasible.iter().find(|name| !asked.contains(name.as_str())) {
            let (url, unknown) = (&self.config.url_prefix, cut(unknown));
            return Err(ExtenderError::Refused(format!(
                "extender {url:?} claims a filtered node {unknown:?} which is not found in the input node list"
            )));
        }
        Ok(Filtered {
            feasible: feasible.into_iter().collect(),
            failed: reasons(result.failed_nodes, &asked),
            unresolvable: reasons(result.failed_and_unresolvable_nodes, &asked),
        })
    }

    /// Asks for the scores of `nodes`, weighted, on the scale of the plugins. Nodes that are not named get none.
    ///
    /// # Errors
    /// Those of [`ExtenderError`]; the planner goes on without its scores.
    pub async fn prioritize<'n>(
        &self,
        pod: &Pod,
        nodes: &[&str],
        node: impl Fn(&str) -> Option<&'n Node>,
    ) -> Result<HashMap<String, i64>, ExtenderError> {
        let args = self.node_args(pod, nodes, node)?;
        let scores: Vec<HostPriority> = self.call(&self.config.prioritize_verb, &args).await?;
        let weighted = |given: HostPriority| {
            let weight = self.config.weight.max(1).saturating_mul(SCORE_FACTOR);
            (given.host, given.score.saturating_mul(weight))
        };
        Ok(scores.into_iter().map(weighted).collect())
    }

    /// Asks which of the nodes in `victims`, by name, may be preempted, and which pods on them.
    ///
    /// # Errors
    /// Those of [`ExtenderError`].
    pub async fn preempt(
        &self,
        pod: &Pod,
        victims: &HashMap<String, Vec<Pod>>,
        violations: &HashMap<String, i64>,
    ) -> Result<HashMap<String, MetaVictims>, ExtenderError> {
        let violation = |node: &String| violations.get(node).copied().unwrap_or_default();
        let mut args = PreemptionArgs { pod: self.json(pod)?, ..PreemptionArgs::default() };
        if self.config.is_node_cache_capable {
            let meta = victims.iter().map(|(node, pods)| {
                let uids =
                    pods.iter().filter_map(|pod| pod.metadata.as_ref()).map(|metadata| metadata.uid.clone());
                (node.clone(), MetaVictims::new(uids, violation(node)))
            });
            args.node_name_to_meta_victims = Some(meta.collect());
        } else {
            let mut whole = HashMap::new();
            for (node, pods) in victims {
                let pods = pods.iter().map(|pod| self.json(pod)).collect::<Result<_, _>>()?;
                whole.insert(node.clone(), Victims { pods, num_pdb_violations: violation(node) });
            }
            args.node_name_to_victims = Some(whole);
        }
        let result: PreemptionResult = self.call(&self.config.preempt_verb, &args).await?;
        let kept = result.node_name_to_meta_victims.unwrap_or_default();
        if let Some(unknown) = kept.keys().find(|node| !victims.contains_key(*node)) {
            let unknown = cut(unknown);
            return Err(self.unusable(format!("it names node {unknown}, which it was not asked about")));
        }
        Ok(kept)
    }

    /// Has it bind `pod` to `node`.
    ///
    /// # Errors
    /// Those of [`ExtenderError`].
    pub async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), ExtenderError> {
        let args = BindingArgs {
            pod_name: pod.name.to_string(),
            pod_namespace: pod.namespace.to_string(),
            pod_uid: pod.uid.to_string(),
            node: node.to_owned(),
        };
        let result: BindingResult = self.unless_silent(self.call(&self.config.bind_verb, &args)).await?;
        if result.error.is_empty() { Ok(()) } else { Err(ExtenderError::Refused(cut(&result.error))) }
    }

    fn node_args<'n>(
        &self,
        pod: &Pod,
        nodes: &[&str],
        node: impl Fn(&str) -> Option<&'n Node>,
    ) -> Result<FilterArgs, ExtenderError> {
        let mut args = FilterArgs { pod: self.json(pod)?, nodes: None, node_names: None };
        if self.config.is_node_cache_capable {
            args.node_names = Some(nodes.iter().map(|&name| name.to_owned()).collect());
        } else {
            let found = nodes.iter().filter_map(|name| node(name));
            let items = found.map(|node| self.json(node)).collect::<Result<_, _>>()?;
            args.nodes = Some(wire::Items { items });
        }
        Ok(args)
    }

    fn json<T: crate::client::Object>(&self, object: &T) -> Result<wire::Json, ExtenderError> {
        let body = self.codec.encode(object).map_err(|error| self.unusable(chain(&error)))?;
        let text = String::from_utf8(body.into()).map_err(|error| self.unusable(error.to_string()))?;
        serde_json::value::RawValue::from_string(text).map_err(|error| self.unusable(error.to_string()))
    }

    async fn call<A: Serialize, R: DeserializeOwned>(
        &self,
        verb: &str,
        args: &A,
    ) -> Result<R, ExtenderError> {
        let body = serde_json::to_vec(args).map_err(|error| self.unusable(error.to_string()))?;
        let answer = self.server.post(verb, Bytes::from(body)).await;
        let (code, body) = answer.map_err(|error| self.failed(&error))?;
        if code != 200 {
            let (verb, url) = (verb.to_owned(), self.url_of(verb));
            return Err(ExtenderError::Status { verb, url, code });
        }
        serde_json::from_slice(&body).map_err(|error| self.unusable(error.to_string()))
    }

    fn url_of(&self, verb: &str) -> String {
        format!("{}/{verb}", self.config.url_prefix.trim_end_matches('/'))
    }

    fn failed(&self, error: &Error) -> ExtenderError {
        let url = self.config.url_prefix.clone();
        ExtenderError::Call { url, problem: chain(error), is_outcome_unknown: error.is_outcome_unknown() }
    }

    fn unusable(&self, problem: String) -> ExtenderError {
        ExtenderError::Answer { url: self.config.url_prefix.clone(), problem }
    }
}

/// How to reach the extender of `config`.
fn connection(config: &ExtenderConfig) -> Result<Config, ConfigError> {
    // The reference starts with an extender that has no address, and each call fails: so it does with a name that no
    // server has (RFC 6761).
    let prefix = if config.url_prefix.is_empty() { "nowhere.invalid" } else { &config.url_prefix };
    let address = match (prefix.contains("://"), config.enable_https) {
        (true, _) => prefix.to_owned(),
        (false, true) => format!("https://{prefix}"),
        (false, false) => format!("http://{prefix}"),
    };
    let mut connection = Config::new(vec![address.parse::<Endpoint>()?]);
    connection.trust = match (&config.tls.authority, config.tls.insecure) {
        (Some(authority), false) => Trust::Authority(authority.clone()),
        // As in the reference, TLS without an authority is TLS that accepts everybody.
        (None, _) | (Some(_), true) => Trust::Anyone,
    };
    connection.tls_server_name = Some(config.tls.server_name.clone()).filter(|name| !name.is_empty());
    connection.certificate = config.tls.certificate.clone().map(|(chain, key)| Certificate { chain, key });
    connection.bearer = Bearer::None;
    connection.qps = -1.0;
    connection.request_timeout = if config.timeout.is_zero() { TIMEOUT_DEFAULT } else { config.timeout };
    Ok(connection)
}

/// PEM from the configuration file's data, which is PEM in base64 there and decoded by its reader.
pub fn inline_pem(pem: &str) -> Pem {
    Pem::Inline(Secret::new(pem))
}

/// PEM from a file.
pub fn pem_file(path: PathBuf) -> Pem {
    Pem::File(path)
}
