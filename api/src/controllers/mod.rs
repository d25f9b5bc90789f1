//! Controllers: loops that act for the cluster, on the node of the store's leader alone.
//!
//! Owns their lifetime. Each is an ordinary client of the pipeline, decides on the state of this node, and proposes
//! under conditions, so that a deposed leader that does not know it does no harm. The loops of a new leader rebuild
//! their data from the state. Each loop is a core, a function of state and changes, and a thin rim that waits, calls
//! the core and carries out its decisions.
//!
//!     bootstrap    objects that every cluster has
//!     namespaces   deletion of content, then of the namespace
//!     garbage      collection of dependents without owners
//!     expiry       removal of old events
//!     aggregation  rules of aggregated cluster roles
//!     service_accounts, root_ca  objects that every namespace has: its default account, the authority of the servers
//!     token_cleaner  removal of expired bootstrap tokens
//!     trust        the config map that announces the authorities of clients and front proxies
//!     certificates approval, signing and removal of requests for certificates
//!
//! Invariant: loops have no task, clock or randomness of their own: they wait by the store's sleep, so they run in a
//! simulation.
//! Invariant: an idle loop waits for a change and uses no CPU.

mod aggregation;
pub(crate) mod bootstrap;
mod certificates;
mod client;
mod each_namespace;
mod expiry;
mod garbage;
mod namespaces;
mod queue;
pub(crate) mod root_ca;
mod selection;
mod service_accounts;
#[cfg(test)]
pub(crate) mod testing;
mod token_cleaner;
mod trust;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all, select};
use orch_raft::Store;
use orch_raft::warnings::WarningLimit;

use self::client::{Client, Moment};
pub use self::selection::Selection;
pub use self::trust::Announcement;
use crate::error::ApiError;
use crate::pipeline::Pipeline;
use crate::signing::CertificateSigner;

/// Options of the controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long an event is kept after it was last written.
    pub event_ttl: Duration,
    /// The loops that run. Bootstrap and expiry always do.
    pub selection: Selection,
    /// The authorities of the built-in signers; without one, approved requests wait for another node or another signer.
    pub signer: Option<Arc<dyn CertificateSigner>>,
    /// Authority of the servers' certificates, PEM, which `root_ca` publishes. `None`: nothing is published.
    pub root_ca: Option<String>,
    /// What the node announces of its authorities; `None` announces nothing.
    pub announcement: Option<Arc<dyn Announcement>>,
}

impl Default for Options {
    fn default() -> Self {
        let (event_ttl, selection) = (Duration::from_secs(3600), Selection::default());
        Options { event_ttl, selection, signer: None, root_ca: None, announcement: None }
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
    select(Box::pin(follow_leadership(pipeline, options)), pin!(stopping)).await;
}

async fn follow_leadership<S: Store>(pipeline: Arc<Pipeline<S>>, options: Options) -> Infallible {
    let store = pipeline.store.clone();
    loop {
        while !store.is_leader() {
            store.sleep(LEADERSHIP_PACE).await;
        }
        tracing::info!("this node leads: background loops start");
        select(Box::pin(lead(pipeline.clone(), &options)), Box::pin(deposed(&store))).await;
        tracing::info!("this node no longer leads: background loops stop");
    }
}

/// Completes when this node no longer leads.
async fn deposed<S: Store>(store: &S) {
    while store.is_leader() {
        store.sleep(LEADERSHIP_PACE).await;
    }
}

async fn lead<S: Store>(pipeline: Arc<Pipeline<S>>, options: &Options) {
    let client = |manager| Client::new(pipeline.clone(), manager);
    let (starter, ender) = (client("bootstrap"), client("namespace-controller"));
    let (collector, cleaner) = (client("garbage-collector"), client("expiry"));
    let aggregator = client("clusterrole-aggregation-controller");
    let certifier = client("certificate-controller");
    let selected = |name, run| unless_left_out(&options.selection, name, run);
    let announcer = client("cluster-authentication");
    let (accounts, publisher) =
        (client("serviceaccount-controller"), client("root-ca-certificate-publisher-controller"));
    let token_cleaner = client("token-cleaner-controller");
    let publish = || async {
        match &options.root_ca {
            Some(authority) => root_ca::run(&publisher, authority).await,
            None => std::future::pending().await,
        }
    };
    let signing: BoxFuture<'_, Infallible> = match &options.signer {
        Some(signer) => Box::pin(keep("signing", &certifier, || certificates::sign(&certifier, &**signer))),
        None => Box::pin(std::future::pending()),
    };
    let loops: [BoxFuture<'_, Infallible>; 12] = [
        selected(
            "certificatesigningrequest-approving-controller",
            Box::pin(keep("approving", &certifier, || certificates::approve(&certifier))),
        ),
        selected(
            "certificatesigningrequest-cleaner-controller",
            Box::pin(keep("cleaning", &certifier, || certificates::clean(&certifier))),
        ),
        selected("certificatesigningrequest-signing-controller", signing),
        Box::pin(keep("bootstrap", &starter, || bootstrap::run(&starter))),
        selected("namespace-controller", Box::pin(keep("namespaces", &ender, || namespaces::run(&ender)))),
        selected(
            "garbage-collector-controller",
            Box::pin(keep("garbage", &collector, || garbage::run(&collector))),
        ),
        Box::pin(keep("expiry", &cleaner, || expiry::run(&cleaner, options.event_ttl))),
        selected(
            "clusterrole-aggregation-controller",
            Box::pin(keep("aggregation", &aggregator, || aggregation::run(&aggregator))),
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
        match &options.announcement {
            Some(known) => Box::pin(keep("trust", &announcer, || trust::run(&announcer, &**known))),
            None => Box::pin(std::future::pending()),
        },
    ];
    join_all(loops).await;
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
        let started_ms = client.now_ms();
        let Err(error) = start().await;
        if let Some(left_out) = FAILED.pass_at(client.moment()) {
            tracing::warn!(%error, name, left_out, "a background loop failed and starts again");
        }
        let ran = Duration::from_millis(client.now_ms().saturating_sub(started_ms));
        if ran > RETRY_MAX {
            wait = RETRY_MIN;
        }
        client.store().sleep(wait).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

#[cfg(test)]
mod tests;
