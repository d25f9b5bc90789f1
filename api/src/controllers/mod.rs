//! Controllers: loops that act for the cluster, on the node of the store's leader. Eight parts run on every node:
//! `api_endpoints::announce`, `identity::renew`, `secret_tokens::track`, `api_services::described`, `webhook_outages`,
//! `provision`, `Indexes::give_back_unused` and `Definitions::follow`.
//!
//! Owns their lifetime. Each is an ordinary client of the pipeline, decides on the state of this node, and proposes
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

use futures::future::{BoxFuture, Either, join_all, select, select_all};
use orch_bounded::WarningLimit;
use orch_proto::brand::SERVER_MANAGER;
use orch_raft::Store;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::api_endpoints::Members;
pub use self::api_services::registration;
use self::client::{Client, Moment};
pub use self::default_service::ServiceDefaults;
use self::identity::Identity;
#[cfg(any(test, feature = "simulation"))]
pub use self::planted::{LoopBug, with_loop_bug};
use self::protection::Protected;
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

/// The kinds of storage that are protected while they are in use.
const PROTECTED: [Protected; 3] = [Protected::Claims, Protected::Volumes, Protected::Classes];

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
        select(Box::pin(lead(pipeline.clone(), &options, &sightings)), Box::pin(deposed(&store))).await;
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

/// Runs the loops. `sightings`: what this process saw at aggregated servers while it led before.
async fn lead<S: Store>(
    pipeline: Arc<Pipeline<S>>,
    options: &Options,
    sightings: &Arc<Mutex<garbage::Sightings>>,
) {
    let client = |manager| Client::new(pipeline.clone(), manager);
    let (starter, ender) = (client("bootstrap"), client("namespace-controller"));
    let server = client("apiserver");
    let (collector, cleaner) = (client("garbage-collector"), client("expiry"));
    let aggregator = client("clusterrole-aggregation-controller");
    let (certifier, budgeter) = (client("certificate-controller"), client("disruption-controller"));
    let selected = |name, run| unless_left_out(&options.selection, name, run);
    let aggregates = options.selection.runs("clusterrole-aggregation-controller");
    let of_roles = aggregates.then_some(&aggregator);
    let announcer = client("cluster-authentication");
    let (accounts, publisher) =
        (client("serviceaccount-controller"), client("root-ca-certificate-publisher-controller"));
    let token_cleaner = client("token-cleaner-controller");
    let counter = client("resourcequota-controller");
    let publish = || publish_root(&publisher, options);
    let allocator = client("ipallocator-repair-controller");
    let ranger = client("service-cidr-controller");
    let protectors = PROTECTED.map(|of| (of, client(of.controller())));
    let keeper = client("serviceaccount-token-controller");
    let definer = client("customresourcedefinition-controller");
    let checker = client("validatingadmissionpolicy-status");
    let registrar = client("apiservice-controller");
    let loops: [BoxFuture<'_, Infallible>; 20] = [
        Box::pin(keep_api_services(&registrar)),
        Box::pin(keep("definitions", &definer, || definitions::run(&definer))),
        Box::pin(keep_facts(&server, options)),
        Box::pin(keep_secret_tokens(&keeper, options)),
        Box::pin(keep_protection(&protectors, options)),
        Box::pin(keep_allocation(&allocator, &ranger, options)),
        Box::pin(keep_service(&starter, options)),
        Box::pin(keep_certificates(&certifier, options)),
        Box::pin(keep("bootstrap", &starter, || bootstrap::run(&starter, of_roles))),
        selected("namespace-controller", Box::pin(keep("namespaces", &ender, || namespaces::run(&ender)))),
        selected(
            "garbage-collector-controller",
            Box::pin(keep("garbage", &collector, || garbage::run(&collector, sightings))),
        ),
        Box::pin(keep("expiry", &cleaner, || expiry::run(&cleaner, options.event_ttl))),
        selected(
            "clusterrole-aggregation-controller",
            Box::pin(keep("aggregation", &aggregator, || aggregation::run(&aggregator))),
        ),
        selected(
            "disruption-controller",
            Box::pin(keep("disruption budgets", &budgeter, || disruption::run(&budgeter))),
        ),
        selected(
            "resourcequota-controller",
            Box::pin(keep("quota usage", &counter, || quota_usage::run(&counter))),
        ),
        selected(
            "serviceaccount-controller",
            Box::pin(keep("service accounts", &accounts, || service_accounts::run(&accounts))),
        ),
        selected(
            "root-ca-certificate-publisher-controller",
            Box::pin(keep("root authority", &publisher, publish)),
        ),
        selected(
            "token-cleaner-controller",
            Box::pin(keep("bootstrap tokens", &token_cleaner, || token_cleaner::run(&token_cleaner))),
        ),
        Box::pin(keep_policy_types(&checker, options)),
        Box::pin(keep_trust(&announcer, options)),
    ];
    join_all(loops).await;
}

/// Announces whom the members trust, where they are told to.
async fn keep_trust<S: Store>(announcer: &Client<S>, options: &Options) -> Infallible {
    match &options.announcement {
        Some(known) => keep("trust", announcer, || trust::run(announcer, &**known)).await,
        None => std::future::pending().await,
    }
}

/// Gives each namespace the certificate of the cluster's root, where the server has one.
async fn publish_root<S: Store>(publisher: &Client<S>, options: &Options) -> Result<Infallible, ApiError> {
    match &options.root_ca {
        Some(authority) => root_ca::run(publisher, authority.clone()).await,
        None => std::future::pending().await,
    }
}

/// Keeps the date of token tracking and collects old leases of servers, where the members are known.
async fn keep_facts<S: Store>(client: &Client<S>, options: &Options) -> Infallible {
    if options.members.is_none() {
        return std::future::pending().await;
    }
    let tracking = keep("token tracking", client, || token_tracking::run(client));
    let leases = keep("leases of servers", client, || identity::collect(client));
    select(Box::pin(tracking), Box::pin(leases)).await.factor_first().0
}

/// Repairs the claims and addresses of services, and keeps the ranges that they draw on.
async fn keep_allocation<S: Store>(
    repairing: &Client<S>,
    ranging: &Client<S>,
    options: &Options,
) -> Infallible {
    let repair: BoxFuture<'_, Infallible> =
        Box::pin(keep("allocation", repairing, || allocation_repair::run(repairing)));
    let ranges: BoxFuture<'_, Infallible> =
        Box::pin(keep("service ranges", ranging, || service_cidrs::run(ranging)));
    let loops = [("ipallocator-repair-controller", repair), ("service-cidr-controller", ranges)];
    // No loop ends.
    select_all(loops.map(|(name, run)| unless_left_out(&options.selection, name, run))).await.0
}

/// Keeps the finalizers of storage in use.
async fn keep_protection<S: Store>(
    protectors: &[(Protected, Client<S>); 3],
    options: &Options,
) -> Infallible {
    let loops = protectors.each_ref().map(|(of, client)| {
        let run: BoxFuture<'_, Infallible> =
            Box::pin(keep("storage protection", client, || protection::run(client, *of)));
        unless_left_out(&options.selection, of.controller(), run)
    });
    // No loop ends.
    select_all(loops).await.0
}

/// Fills secrets with tokens, and removes tokens that nothing uses.
async fn keep_secret_tokens<S: Store>(client: &Client<S>, options: &Options) -> Infallible {
    let fill = || secret_tokens::fill(client, options.root_ca.clone());
    let filling: BoxFuture<'_, Infallible> = Box::pin(keep("tokens in secrets", client, fill));
    let cleaning: BoxFuture<'_, Infallible> =
        Box::pin(keep("unused tokens", client, || secret_tokens::clean(client)));
    let loops = [
        ("serviceaccount-token-controller", filling),
        ("legacy-serviceaccount-token-cleaner-controller", cleaning),
    ];
    // No loop ends.
    select_all(loops.map(|(name, run)| unless_left_out(&options.selection, name, run))).await.0
}

/// Checks the types of validating policies.
async fn keep_policy_types<S: Store>(client: &Client<S>, options: &Options) -> Infallible {
    let run: BoxFuture<'_, Infallible> =
        Box::pin(keep("types of policies", client, || policy_types::run(client)));
    unless_left_out(&options.selection, "validatingadmissionpolicy-status-controller", run).await
}

/// Keeps the objects that register groups, and says whether the servers of aggregated ones are there.
async fn keep_api_services<S: Store>(client: &Client<S>) -> Infallible {
    let registering = keep("registration of groups", client, || api_services::run(client));
    let looking = keep("aggregated servers", client, || api_services::availability::run(client));
    select(Box::pin(registering), Box::pin(looking)).await.factor_first().0
}

/// Approves, signs and removes requests for certificates.
async fn keep_certificates<S: Store>(client: &Client<S>, options: &Options) -> Infallible {
    let selected = |name, run| unless_left_out(&options.selection, name, run);
    let signing: BoxFuture<'_, Infallible> = match &options.signer {
        Some(signer) => Box::pin(keep("signing", client, || certificates::sign(client, &**signer))),
        None => Box::pin(std::future::pending()),
    };
    let approving = Box::pin(keep("approving", client, || certificates::approve(client)));
    let cleaning = Box::pin(keep("cleaning", client, || certificates::clean(client)));
    let loops = [
        selected("certificatesigningrequest-approving-controller", approving),
        selected("certificatesigningrequest-cleaner-controller", cleaning),
        selected("certificatesigningrequest-signing-controller", signing),
    ];
    // No loop ends.
    select_all(loops).await.0
}

/// Keeps the default service with its ranges, and its endpoints.
async fn keep_service<S: Store>(client: &Client<S>, options: &Options) -> Infallible {
    let service = async {
        match &options.service {
            Some(defaults) => {
                keep("default service", client, || default_service::run(client, defaults)).await
            }
            None => std::future::pending().await,
        }
    };
    let endpoints = async {
        match &options.members {
            Some(members) => keep("endpoints", client, || api_endpoints::run(client, &**members)).await,
            None => std::future::pending().await,
        }
    };
    select(Box::pin(service), Box::pin(endpoints)).await.factor_first().0
}

/// The loop called `name`, or one that only waits where it is left out.
fn unless_left_out<'a>(
    selection: &Selection,
    name: &str,
    run: BoxFuture<'a, Infallible>,
) -> BoxFuture<'a, Infallible> {
    debug_assert!(selection::OWN.contains(&name), "the flag knows no loop {name}");
    if selection.runs(name) { run } else { Box::pin(std::future::pending()) }
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
