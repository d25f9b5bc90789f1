//! Starts the parts of a node in order, watches them, and stops them in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orch_api::authn::Authenticator;
use orch_api::gate::Gate;
use orch_proto::brand::ORCH;
use orch_raft::disk::cipher::RecordCipher;
use orch_raft::disk::rocks::{Remaking, RocksDisk};
use orch_serving::Causes;
use orch_serving::stamps;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::brand;
use super::certificates;
use super::cluster::waiting_router;
use super::dev;
use super::encryption;
use super::endpoints::Endpoints;
use super::error::RunError;
use super::occupancy::{make_data_dir, occupy};
use super::plan::{Kind, Plan, host_port};
use super::scheduler::{Scheduler, Supervised};
use super::signals::Signals;
use super::starting::Door;
use super::store::{PeerMaterial, StoreMember, peer_tls, store_dir};
use super::threads::{Threads, within};
use crate::certs::Client;
use crate::cli::LogFormat;
use crate::encryption::Rewriter;
use crate::server::{EventLoops, Port, Server, bind, bind_socket};
use crate::tls::Reloader;
use crate::traces::Exporting;

/// Longest wait for threads to end. Work between two waits takes less than a second.
const THREADS_MAX: Duration = Duration::from_secs(2);

/// Runs a node until a signal ends it. Prints its welcome text to `out`.
pub fn run(plan: Plan, out: &mut impl Write) -> Result<(), RunError> {
    super::clients::raise_descriptors();
    let system = |source| RunError::System { action: "start threads", source };
    let threads = Threads::start().map_err(system)?;
    let runtimes = Runtimes { store: threads.store.handle().clone(), connections: threads.event_loops() };
    let result = threads.api.block_on(Box::pin(live_traced(plan, &runtimes, out)));
    // Tasks still running have had their time to drain. They end at their next wait: a thread that still held the store while
    // the process exits would meet RocksDB's statics destroyed.
    threads.end(THREADS_MAX);
    result
}

/// The runtimes of the store and of connections, for the parts that are started on another one.
struct Runtimes {
    store: Handle,
    connections: EventLoops,
}

/// A node with its ports open, without store and API.
struct Listening {
    plan: Plan,
    door: Door,
    server: Server<Door>,
    peers: Option<TcpListener>,
    tls: Reloader,
    endpoints: Endpoints,
    following: CancellationToken,
}

/// A node with its ports open and its store running.
struct Node {
    plan: Plan,
    door: Door,
    server: Server<Door>,
    store: StoreMember,
    tls: Reloader,
    endpoints: Endpoints,
    following: CancellationToken,
    rewriter: Arc<Rewriter>,
    scheduler: Option<Supervised>,
}

/// Runs the node, and sends its spans to the collector of the plan, if it has one.
async fn live_traced(plan: Plan, runtimes: &Runtimes, out: &mut impl Write) -> Result<(), RunError> {
    let exporting = plan.traces.as_ref().map(|traces| Exporting::start(traces, &plan.name));
    let exporting = exporting.transpose().map_err(RunError::Traces)?;
    let result = Box::pin(live(plan, runtimes, out)).await;
    if let Some(exporting) = exporting {
        exporting.stop().await;
    }
    result
}

async fn live(plan: Plan, runtimes: &Runtimes, out: &mut impl Write) -> Result<(), RunError> {
    let mut signals =
        Signals::take().map_err(|source| RunError::System { action: "take signals", source })?;
    let tls = Reloader::load(plan.tls.clone()).map_err(|source| plan.material(source))?;
    let peer_tls = peer_tls(&plan)?;
    make_data_dir(&plan.data_dir)?;
    // Before the store is made where it is absent, and again once no other process can begin to make it anew.
    Remaking::require_whole(&plan.data_dir)?;
    let path = store_dir(&plan);
    let directory = tokio::select! {
        directory = occupy(&path) => directory?,
        signal = signals.next() => {
            tracing::info!(signal, "stopping before the data directory was free");
            return Ok(());
        }
    };
    Remaking::require_whole(&plan.data_dir)?;
    // A killed process leaves its file behind.
    Endpoints::remove(&plan.data_dir)?;
    plan.audit.open()?;
    let keys = plan.keys.clone();
    let listening = Listening::open(plan, tls, runtimes).await?;
    let keys = keys.map(|keys| keys as Arc<dyn RecordCipher>);
    let opened = tokio::task::spawn_blocking(move || RocksDisk::open_locked(directory, keys)).await;
    let disk = opened.map_err(|error| RunError::Fatal(error.to_string()))??;
    let mut node = Box::pin(listening.start_store(peer_tls, disk, &runtimes.store)).await?;
    let handle = node.store.handle();
    let api = tokio::select! {
        api = node.open_api(out) => match api {
            Ok(api) => api,
            Err(error) => {
                // RocksDB aborts a process that exits with an open store, which would replace the exit code.
                node.finish().await;
                return Err(error);
            }
        },
        reason = handle.fatal() => return Err(RunError::Fatal(reason)),
        signal = signals.next() => {
            tracing::info!(signal, "stopping before the cluster was there");
            return unless_interrupted(Box::pin(node.finish()), &mut signals).await;
        }
    };
    tokio::select! {
        error = node.store.failed() => return Err(error),
        signal = signals.next() => tracing::info!(signal, "stopping"),
    }
    unless_interrupted(Box::pin(node.stop(api)), &mut signals).await
}

/// Awaits `stopping`; another signal ends it with [`RunError::Interrupted`].
async fn unless_interrupted(
    stopping: impl Future<Output = ()>,
    signals: &mut Signals,
) -> Result<(), RunError> {
    tokio::select! {
        () = stopping => Ok(()),
        _ = signals.next() => Err(RunError::Interrupted),
    }
}

impl Listening {
    /// Opens the ports. Probes are answered from now on, however long the state takes to load. Peers are not accepted
    /// yet: their connections wait in the kernel's backlog.
    async fn open(plan: Plan, tls: Reloader, runtimes: &Runtimes) -> Result<Listening, RunError> {
        let peers = within(&runtimes.store, peer_listener(&plan)).await?;
        let secure = bind(plan.secure, "HTTPS", "--secure-port")?;
        let plain = match &plan.kind {
            Kind::Dev { plain: Some(plain), .. } => Some(bind(*plain, "plain HTTP", "--insecure-port")?),
            Kind::Dev { plain: None, .. } | Kind::Serve => None,
        };
        let socket = socket_of(&plan).map(bind_socket).transpose()?;
        let peer_host = super::plan::host_of(&plan.peer_advertise);
        let plain_address = plain.as_ref().map(local).transpose()?;
        let peer_address = peers.as_ref().map(local).transpose()?;
        let peer_address = peer_address.map(|address| host_port(peer_host, address.port()));
        let endpoints =
            Endpoints::new(local(&secure)?, plain_address, peer_address).with_socket(socket_of(&plan));
        let door = Door::default();
        let server = Server::new(door.clone(), plan.clients.connections, runtimes.connections.clone());
        let following = CancellationToken::new();
        follow_certificates(&tls, following.clone());
        certificates::follow_expiry(plan.expiries.clone(), following.clone());
        server.listen(Port::Tls { listener: secure, tls: tls.clone() });
        if let Some(listener) = plain {
            server.listen(Port::Plain { listener });
        }
        if let Some(listener) = socket {
            server.listen(Port::Socket { listener });
        }
        let peer_at = peers.as_ref().map(local).transpose()?.map(tracing::field::display);
        tracing::info!(name = %plan.name, https = %endpoints.secure, peer = peer_at, "listening");
        Ok(Listening { plan, door, server, peers, tls, endpoints, following })
    }

    /// Loads the state from `disk` and starts the store's member, with its tasks on the runtime `store`.
    async fn start_store(
        self,
        peer_tls: PeerMaterial,
        disk: RocksDisk,
        store: &Handle,
    ) -> Result<Node, RunError> {
        let Listening { plan, door, server, peers, tls, endpoints, following } = self;
        let store = within(store, StoreMember::start(&plan, disk, peer_tls, peers)).await?;
        door.note_loaded();
        if let Kind::Serve = plan.kind {
            let brand = plan.brand.unwrap_or(&ORCH);
            let authenticator = Authenticator::new(brand, plan.tokens.clone(), plan.anonymous);
            let gate = Gate::builtin(brand, authenticator);
            // Stored rights may have been taken away since this disk heard of them: `system:masters` alone is let in.
            gate.authorizers().replace(Vec::new());
            let auditor = plan.audit.auditor(brand);
            door.await_cluster(waiting_router(store.handle(), gate, auditor));
            if store.handle().identity().cluster.is_none() {
                // `orch cluster found` and scripts that add this member need the address.
                endpoints.write(&plan.data_dir)?;
            }
        }
        if let Some(keys) = plan.keys.clone().filter(|_| plan.reloads_keys) {
            encryption::follow_keys(keys, store.disk(), following.clone());
        }
        let rewriter = Arc::new(Rewriter::new(store.disk()));
        Ok(Node { plan, door, server, store, tls, endpoints, following, rewriter, scheduler: None })
    }
}

impl Node {
    /// Waits for the cluster, builds the API and has requests passed on to it. `None` when the member ends first.
    async fn open_api(&mut self, out: &mut impl Write) -> Result<Option<Api>, RunError> {
        if let Kind::Dev { .. } = self.plan.kind {
            // A development node founds its cluster at the first start. On later starts this is refused.
            if let Err(error) = self.store.handle().found().await {
                tracing::debug!(%error, "not founded anew");
            }
        }
        let Some(cluster) = self.store.cluster(self.plan.brand).await? else { return Ok(None) };
        let (handle, port) = (self.store.handle(), self.endpoints.secure.port());
        let (rewriter, tls) = (self.rewriter.clone(), self.tls.clone());
        let api = Api::new(&mut self.plan, handle, &cluster, port, rewriter, tls)?;
        if matches!(self.plan.kind, Kind::Dev { .. }) {
            dev::write_client_configs(&self.plan.data_dir, api.brand(), &self.endpoints.https)?;
        }
        brand::record(&self.plan.data_dir, api.brand().name)?;
        self.door.open(api.router());
        self.endpoints.write(&self.plan.data_dir)?;
        let text = super::welcome::text(&self.plan, &self.endpoints, api.brand());
        match crate::logging::format() {
            // Supervisors put both outputs of a process into one log, which holds no plain line then.
            Some(LogFormat::Json) => {
                tracing::info!(name = %self.plan.name, https = %self.endpoints.https, "serving");
            }
            // Standard output may be closed.
            _ => drop(out.write_all(text.as_bytes()).and_then(|()| out.flush())),
        }
        if let Kind::Dev { scheduler: Scheduler::Program(program), .. } = &self.plan.kind {
            let config = dev::client_config(&self.plan.data_dir, Client::Scheduler);
            self.scheduler = Some(Supervised::start(program, &config, api.brand(), api.router()));
        }
        Ok(Some(api))
    }

    /// Stops the scheduler, the API, then the rest in order.
    async fn stop(mut self, api: Option<Api>) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.stop().await;
        }
        if let Some(api) = api {
            api.stop();
        }
        self.finish().await;
    }

    /// Drains connections, hands over leadership, closes the store, and removes `endpoints.json` and the socket.
    async fn finish(self) {
        let cut = self.server.stop().await;
        if cut > 0 {
            tracing::warn!(connections = cut, "connections that did not finish were cut");
        }
        self.following.cancel();
        self.rewriter.stop().await;
        self.store.shutdown().await;
        if let Err(error) = Endpoints::remove(&self.plan.data_dir) {
            tracing::warn!(error = %Causes(&error), "endpoints.json is left behind");
        }
        if let Some(path) = socket_of(&self.plan)
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!(%error, "the socket could not be removed");
        }
        self.plan.audit.stop().await;
        tracing::info!("stopped");
    }
}

/// Starts the task that reloads renewed certificates of the API port.
fn follow_certificates(tls: &Reloader, stopped: CancellationToken) {
    let (files, reloader) = (tls.files(), tls.clone());
    tokio::spawn(async move {
        if let Err(error) = stamps::follow("api certificates", files, || reloader.reload(), stopped).await {
            tracing::warn!(%error, "renewed certificates are not taken up by themselves");
        }
    });
}

/// Opens the peer port, if the plan has one.
async fn peer_listener(plan: &Plan) -> Result<Option<TcpListener>, RunError> {
    let Some(listen) = &plan.peer_listen else { return Ok(None) };
    let failed = |reason: String| RunError::Resolve { flag: plan.peer_flag, address: listen.clone(), reason };
    let found = tokio::net::lookup_host(listen).await;
    let address: Option<SocketAddr> = found.map_err(|error| failed(error.to_string()))?.next();
    let address = address.ok_or_else(|| failed("it has no address".to_owned()))?;
    Ok(Some(bind(address, "peers", &format!("--{}", plan.peer_flag))?))
}

/// Path of the Unix socket of a development node.
fn socket_of(plan: &Plan) -> Option<&Path> {
    match &plan.kind {
        Kind::Dev { socket, .. } => Some(socket),
        Kind::Serve => None,
    }
}

fn local(listener: &TcpListener) -> Result<SocketAddr, RunError> {
    listener.local_addr().map_err(|source| RunError::System { action: "read the chosen port", source })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::cli::{Cli, Command, parse};

    async fn get(address: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_node_answers_probes_before_its_store_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let line = format!("orch dev --data-dir {} --secure-port 0 --insecure-port 0", data.display());
        let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        let plan = dev::plan(&arguments).unwrap();
        let tls = Reloader::load(plan.tls.clone()).unwrap();
        let here = Handle::current();
        let runtimes = Runtimes { store: here.clone(), connections: EventLoops::new(here, []) };
        let listening = Listening::open(plan, tls, &runtimes).await.unwrap();
        let plain = listening.endpoints.http.clone().unwrap();
        let address = plain.strip_prefix("http://").unwrap();
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let unready = get(address, "/readyz").await;
        assert!(unready.starts_with("HTTP/1.1 500") && unready.ends_with("loading the state\n"), "{unready}");
        let refused = get(address, "/api/v1/namespaces").await;
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.contains("retry-after: 1") && refused.contains(r#""kind":"Status""#), "{refused}");
        assert!(!data.join("endpoints.json").exists(), "the node does not serve yet");
        listening.door.note_loaded();
        assert!(get(address, "/readyz").await.ends_with("waiting for the cluster\n"));
        listening.server.stop().await;
    }
}
