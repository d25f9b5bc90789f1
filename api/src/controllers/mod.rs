//! Controllers: loops that act for the cluster, on the node of the store's leader. Eight parts run on every node:
//! `api_endpoints::announce`, `identity::renew`, `secret_tokens::track`, `api_services::described`, `webhook_outages`,
//! `provision`, `Indexes::give_back_unused` and `Definitions::follow`.
//!
//! Owns their lifetime; the leader's are started by the table in `leading`. Each is an ordinary client of the pipeline, decides on the state of this node, and proposes
//! under conditions, so that a deposed leader that does not know it does no harm. The loops of a new leader rebuild
//! their data from the state. Each loop is a core, a function of state and changes, and a thin rim that waits, calls
//! the core and carries out its decisions.
//!
//!     definitions  conditions of definitions of custom kinds, and their end with their objects
//!     bootstrap    objects that every cluster has
//!     namespaces   deletion of content, then of the namespace
//!     garbage      collection of dependents without owners
//!     expiry       removal of old events
//!     aggregation  rules of aggregated cluster roles
//!     api_services  the objects that register groups and versions, and whether the servers of aggregated ones are there
//!     service_accounts, root_ca  objects that every namespace has: its default account, the authority of the servers
//!     secret_tokens  tokens of service accounts that secrets keep: filled, tracked, removed when unused
//!     token_cleaner  removal of expired bootstrap tokens
//!     quota_usage  usage of quotas
//!     trust        the config map that announces the authorities of clients and front proxies
//!     default_service, api_endpoints  the service of the API, its ranges, and where the members serve it
//!     service_cidrs  finalizer and condition of the ranges of cluster addresses
//!     protection   finalizers of claims, volumes and attribute classes in use
//!     identity     the leases by which others see which servers there are
//!     token_tracking  the day since which uses of long-lived tokens are noted
//!     allocation_repair  claims and addresses that no longer agree with services
//!     disruption   status of disruption budgets
//!     policy_types  type checking in the status of validating policies
//!     certificates approval, signing and removal of requests for certificates
//!
//! Invariant: loops have no task, clock or randomness of their own: they wait by the store's sleep, so they run in a
//! simulation.
//! Invariant: an idle loop waits for a change and uses no CPU.

mod aggregation;
mod allocation_repair;
mod api_endpoints;
pub(crate) mod api_services;
pub(crate) mod bootstrap;
mod certificates;
mod client;
mod default_service;
mod definitions;
mod disruption;
mod each_namespace;
mod expiry;
mod garbage;
mod identity;
mod leading;
mod meaning;
mod namespaces;
#[cfg(any(test, feature = "simulation"))]
mod planted;
mod policy_types;
mod protection;
mod provision;
mod queue;
mod quota_usage;
mod root_ca;
mod rounds;
mod secret_tokens;
mod selection;
mod service_accounts;
mod service_cidrs;
#[cfg(test)]
pub(crate) mod testing;
mod token_cleaner;
mod token_tracking;
mod trust;
mod turns;
mod webhook_outages;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, select, select_all};
use orch_bounded::WarningLimit;
use orch_proto::brand::SERVER_MANAGER;
use orch_raft::Store;
use tokio::sync::watch;

pub use self::api_endpoints::Members;
pub use self::api_services::registration;
use self::client::{Client, Moment};
pub use self::default_service::ServiceDefaults;
use self::identity::Identity;
#[cfg(any(test, feature = "simulation"))]
pub use self::planted::{LoopBug, with_loop_bug};
pub use self::provision::provide_namespaces;
pub use self::selection::Selection;
pub use self::trust::Announcement;
use crate::definitions::settled;
use crate::error::ApiError;
use crate::pipeline::Pipeline;
use crate::signing::CertificateSigner;

/// Options of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long an event is kept after it was last written.
    pub event_ttl: Duration,
    /// The loops that are left out. Those without a name of the reference's always run.
    pub selection: Selection,
    /// The authorities of the built-in signers; without one, approved requests wait for another node or another signer.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Authority of the servers' certificates, PEM, which `root_ca` publishes, and its later versions. `None`: nothing is
    /// published.
    pub root_ca: Option<watch::Receiver<String>>,
    /// The cluster's default ranges and service; `None`: neither is made.
    pub service: Option<ServiceDefaults>,
    /// The members of the cluster; `None`: the default service has no endpoints, and nothing is told of the servers: neither
    /// their leases nor the day since which they note uses of long-lived tokens.
    pub members: Option<Arc<dyn Members>>,
    /// The node's authorities of clients and front proxies, to be announced; `None` announces nothing.
    pub announcement: Option<Arc<dyn Announcement>>,
}

impl Default for Options {
    fn default() -> Self {
        let (event_ttl, selection) = (Duration::from_secs(3600), Selection::default());
        Options {
            event_ttl,
            selection,
            signer: None,
            root_ca: None,
            service: None,
            members: None,
            announcement: None,
        }
    }
}

/// Limits the warnings of failed loops: an object that a client has stored can make a loop fail again and again.
static FAILED: WarningLimit<Moment> = WarningLimit::new();

/// Period of the check whether this node leads, which costs one load: a new leader's loops start within it, and a new
/// cluster is ready only once they have made its roles.
const LEADERSHIP_PACE: Duration = Duration::from_millis(50);

/// The wait after a loop's first failure; it doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(500);

/// The longest wait after a failure: for so long the cluster is without the loop.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Runs every loop while this node leads, until `stopping` completes. Failures are logged and tried again.
pub async fn run<S: Store>(pipeline: Arc<Pipeline<S>>, options: Options, stopping: impl Future<Output = ()>) {
    let (served, members) = (pipeline.clone(), options.members.clone());
    let announcing = Box::pin(async {
        match members {
            Some(members) => announce(served, &*members).await,
            None => std::future::pending().await,
        }
    });
    let own = select(announcing, Box::pin(track_tokens(pipeline.clone())));
    let served = pipeline.clone();
    let giving_back = Box::pin(async move { served.indexes.give_back_unused(&served.store).await });
    let own = select(own, giving_back);
    let served = pipeline.clone();
    let following = Box::pin(async move { served.follow_definitions().await });
    let own = select(own, following);
    let own = select(own, Box::pin(describe_servers(pipeline.clone())));
    let leading = Box::pin(follow_leadership(pipeline, options));
    select(select(leading, own), pin!(stopping)).await;
}

/// Keeps the note of where this node serves the API, its lease, and the events about webhooks that do not answer it, whoever leads.
async fn announce<S: Store>(pipeline: Arc<Pipeline<S>>, members: &dyn Members) -> Infallible {
    let client = Client::new(pipeline, "apiserver");
    let identity = Identity::of(members, &client.random_uuid());
    let note = keep("own address", &client, || api_endpoints::announce(&client, members));
    let lease = keep("own lease", &client, || identity::renew(&client, &identity));
    let name = members.own_name();
    let outages = keep("outages of webhooks", &client, || webhook_outages::run(&client, &name));
    let kept: [BoxFuture<'_, Infallible>; 3] = [Box::pin(note), Box::pin(lease), Box::pin(outages)];
    // None ends.
    select_all(kept).await.0
}

/// Records the uses of kept tokens that this node has seen, whoever leads.
async fn track_tokens<S: Store>(pipeline: Arc<Pipeline<S>>) -> Infallible {
    let client = Client::new(pipeline, SERVER_MANAGER);
    keep("uses of tokens", &client, || secret_tokens::track(&client)).await
}

/// Keeps what aggregated servers say that they serve, whoever leads.
async fn describe_servers<S: Store>(pipeline: Arc<Pipeline<S>>) -> Infallible {
    let client = Client::new(pipeline, SERVER_MANAGER);
    keep("documents of aggregated servers", &client, || api_services::described::run(&client)).await
}

async fn follow_leadership<S: Store>(pipeline: Arc<Pipeline<S>>, options: Options) -> Infallible {
    let (store, sightings) = (pipeline.store.clone(), Arc::default());
    loop {
        while !store.is_leader() {
            store.sleep(LEADERSHIP_PACE).await;
        }
        tracing::info!("this node leads: background loops start");
        select(Box::pin(leading::run(&pipeline, &options, &sightings)), Box::pin(deposed(&store))).await;
        tracing::info!("this node no longer leads: background loops stop");
    }
}

/// Completes when this node no longer leads.
async fn deposed<S: Store>(store: &S) {
    while store.is_leader() {
        store.sleep(LEADERSHIP_PACE).await;
    }
}

/// Looks after definitions until the one called `name` is in force. `false`: its names are not accepted, or it is gone.
pub(crate) async fn establish<S: Store>(pipeline: Arc<Pipeline<S>>, name: &str) -> bool {
    let client = Client::new(pipeline, "customresourcedefinition-controller");
    let looking = keep("definitions", &client, || definitions::run(&client));
    let settling = settled(client.store(), name);
    match select(Box::pin(looking), Box::pin(settling)).await {
        Either::Left((never, _)) => match never {},
        Either::Right((is_established, _)) => is_established,
    }
}

/// Runs a loop, and restarts it after each failure.
async fn keep<S, F>(name: &str, client: &Client<S>, start: impl Fn() -> F) -> Infallible
where
    S: Store,
    F: Future<Output = Result<Infallible, ApiError>>,
{
    let mut wait = RETRY_MIN;
    loop {
        let started = client.store().elapsed();
        let Err(error) = start().await;
        if let Some(left_out) = FAILED.pass_at(client.moment()) {
            tracing::warn!(%error, name, left_out, "a background loop failed and starts again");
        }
        if client.store().elapsed().saturating_sub(started) > RETRY_MAX {
            wait = RETRY_MIN;
        }
        client.store().sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

#[cfg(test)]
mod tests;
