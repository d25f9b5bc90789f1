//! The life of a node: parts are started in order, watched, and stopped in order.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use orch_api::authn::Authenticator;
use orch_proto::brand::ORCH;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::transport::tonic::PeerTls;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::cluster::founding_router;
use super::dev;
use super::endpoints::Endpoints;
use super::error::RunError;
use super::plan::{Kind, Plan, host_port};
use super::signals::Signals;
use super::starting::Door;
use super::store::{StoreMember, peer_tls, store_dir};
use crate::server::{Port, Server, bind};
use crate::tls::{self, Reloader};

/// Open files a busy node needs: a socket for each connection, and RocksDB's tables.
const FILES_WANTED: u64 = 65_536;

/// Runs a node until a signal ends it. What it prints goes to `out`.
pub fn run(plan: Plan, out: &mut impl Write) -> Result<(), RunError> {
    raise_file_limit();
    let system = |action| move |source| RunError::System { action, source };
    let runtime = Builder::new_multi_thread().enable_all().build().map_err(system("start threads"))?;
    let result = runtime.block_on(Box::pin(live(plan, out)));
    // What is still open was given its time, or must not be waited for.
    runtime.shutdown_background();
    result
}

/// A node with its ports open.
struct Node {
    plan: Plan,
    door: Door,
    server: Server<Door>,
    store: StoreMember,
    endpoints: Endpoints,
    following: CancellationToken,
}

async fn live(plan: Plan, out: &mut impl Write) -> Result<(), RunError> {
    let mut signals =
        Signals::take().map_err(|source| RunError::System { action: "take signals", source })?;
    let tls = Reloader::load(plan.tls.clone())?;
    let peer_tls = peer_tls(&plan)?;
    let path = store_dir(&plan);
    let opened = tokio::task::spawn_blocking(move || RocksDisk::open(&path)).await;
    let disk = opened.map_err(|error| RunError::Fatal(error.to_string()))??;
    let mut node = Node::start(plan, tls, peer_tls, disk).await?;
    let handle = node.store.handle();
    let api = tokio::select! {
        api = node.open_api(out) => match api {
            Ok(api) => api,
            Err(error) => {
                // A store that is still open when the process ends takes its exit code with it.
                node.finish().await;
                return Err(error);
            }
        },
        reason = handle.fatal() => return Err(RunError::Fatal(reason)),
        signal = signals.next() => {
            tracing::info!(signal, "stopping before the cluster was there");
            return unless_interrupted(node.finish(), &mut signals).await;
        }
    };
    tokio::select! {
        error = node.store.failed() => return Err(error),
        signal = signals.next() => tracing::info!(signal, "stopping"),
    }
    unless_interrupted(node.stop(api), &mut signals).await
}

/// Carries out `stopping`, unless a signal asks for the end at once.
async fn unless_interrupted(
    stopping: impl Future<Output = ()>,
    signals: &mut Signals,
) -> Result<(), RunError> {
    tokio::select! {
        () = stopping => Ok(()),
        _ = signals.next() => Err(RunError::Interrupted),
    }
}

impl Node {
    /// Opens the ports and starts the store's member.
    async fn start(plan: Plan, tls: Reloader, peer_tls: PeerTls, disk: RocksDisk) -> Result<Node, RunError> {
        let peers = peer_listener(&plan).await?;
        let peer_port = local(&peers)?.port();
        let secure = bind(plan.secure, "HTTPS", "--secure-port")?;
        let plain = match plan.kind {
            Kind::Dev { plain: Some(plain) } => Some(bind(plain, "plain HTTP", "--insecure-port")?),
            Kind::Dev { plain: None } | Kind::Serve => None,
        };
        let peer_host = super::plan::host_of(&plan.peer_advertise);
        let plain_address = plain.as_ref().map(local).transpose()?;
        let endpoints = Endpoints::new(local(&secure)?, plain_address, host_port(peer_host, peer_port));
        let store = StoreMember::start(&plan, disk, peer_tls, peers).await?;
        let door = Door::default();
        if let Kind::Serve = plan.kind {
            let brand = plan.brand.unwrap_or(&ORCH);
            let authenticator = Arc::new(Authenticator::new(brand, plan.tokens.clone(), plan.anonymous));
            door.await_founding(founding_router(store.handle(), authenticator));
        }
        let server = Server::new(door.clone());
        let following = CancellationToken::new();
        follow_certificates(&tls, following.clone());
        server.listen(Port::Tls { listener: secure, tls });
        if let Some(listener) = plain {
            server.listen(Port::Plain { listener });
        }
        endpoints.write(&plan.data_dir)?;
        tracing::info!(name = %plan.name, https = %endpoints.https, peer = %endpoints.peer, "listening");
        Ok(Node { plan, door, server, store, endpoints, following })
    }

    /// Waits for the cluster and puts the API behind the door.
    async fn open_api(&mut self, out: &mut impl Write) -> Result<Option<Api>, RunError> {
        if let Kind::Dev { .. } = self.plan.kind {
            // A node for development is a cluster as soon as it has a directory. One that is a cluster stays it.
            if let Err(error) = self.store.handle().found().await {
                tracing::debug!(%error, "not founded anew");
            }
        }
        let Some(cluster) = self.store.cluster(self.plan.brand).await? else { return Ok(None) };
        let api = Api::new(&mut self.plan, self.store.handle(), &cluster)?;
        if matches!(self.plan.kind, Kind::Dev { .. }) {
            dev::write_admin_config(&self.plan.data_dir, api.brand(), self.endpoints.https.clone())?;
        }
        self.door.open(api.router());
        let text = super::welcome::text(&self.plan, &self.endpoints, api.brand());
        // Nobody may be listening to what a server prints.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        Ok(Some(api))
    }

    /// Ends everything in order.
    async fn stop(self, api: Option<Api>) {
        if let Some(api) = api {
            api.stop();
        }
        self.finish().await;
    }

    /// Lets connections finish, hands over the lead and closes the store.
    async fn finish(self) {
        let cut = self.server.stop().await;
        if cut > 0 {
            tracing::warn!(connections = cut, "connections that did not finish were cut");
        }
        self.following.cancel();
        self.store.shutdown().await;
        if let Err(error) = Endpoints::remove(&self.plan.data_dir) {
            tracing::warn!(%error, "endpoints.json could not be removed");
        }
        tracing::info!("stopped");
    }
}

/// Takes up renewed certificates of the API port.
fn follow_certificates(tls: &Reloader, stopped: CancellationToken) {
    let (files, reloader) = (tls.files(), tls.clone());
    tokio::spawn(async move {
        if let Err(error) = tls::follow("api", files, || reloader.reload(), stopped).await {
            tracing::warn!(%error, "renewed certificates are not taken up by themselves");
        }
    });
}

async fn peer_listener(plan: &Plan) -> Result<TcpListener, RunError> {
    let failed = |reason: String| RunError::Resolve {
        flag: plan.peer_flag,
        address: plan.peer_listen.clone(),
        reason,
    };
    let found = tokio::net::lookup_host(&plan.peer_listen).await;
    let address: Option<SocketAddr> = found.map_err(|error| failed(error.to_string()))?.next();
    let address = address.ok_or_else(|| failed("it has no address".to_owned()))?;
    Ok(bind(address, "peers", &format!("--{}", plan.peer_flag))?)
}

fn local(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|source| RunError::System { action: "read the chosen port", source })
}

/// Raises the limit on open files as far as the system allows without asking for more rights.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(FILES_WANTED).min(FILES_WANTED);
    if limit.current.is_some_and(|current| current < allowed) {
        limit.current = Some(allowed);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit on open files stays low");
        }
    }
}
