//! The store's member in this process: its disk, its peer port, their start and shutdown.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use orch_proto::Brand;
use orch_proto::brand::ORCH;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::disk::rocks::layout::STORE;
use orch_raft::member::{Options, node_id};
use orch_raft::transport::tonic::{ClusterPin, PeerServer, PeerTls, TonicTransport, admit_by_membership};
use orch_raft::transport::{NodeId, Peer};
use orch_raft::{ClusterIdentity, TokioRuntime};
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::stamps;
use parking_lot::Mutex;
use rustls::pki_types::UnixTime;
use time::OffsetDateTime;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::capacity;
use super::error::RunError;
use super::identity::{clock, incarnation, seed};
use super::plan::{Kind, PeerFiles, Plan, host_of, host_port};
use crate::certs::inspect;
use crate::tls::{MaterialError, Revocations};

/// A handle on the store.
pub(super) type Handle = orch_raft::Handle<TokioRuntime, RocksDisk, TonicTransport>;

/// A running member.
pub(super) struct StoreMember {
    member: orch_raft::Member<TokioRuntime, RocksDisk, TonicTransport>,
    disk: Weak<RocksDisk>,
    pin: ClusterPin,
    /// Task of the peer port, if the node has one.
    serving: Option<JoinHandle<Result<(), String>>>,
    stop: CancellationToken,
}

/// Certificates of the peer port, and the revocation lists that they were loaded with.
pub(super) struct PeerMaterial {
    tls: PeerTls,
    revocations: Revocations,
}

/// Loads the certificates of the peer port. A certificate of this member that has ended passes, with an error in the log: the
/// member waits for its peers as behind a broken network, and needs none of them where it is alone.
pub(super) fn peer_tls(plan: &Plan) -> Result<PeerMaterial, RunError> {
    let PeerFiles { authority, certificate, key, revocations } = &plan.peer_tls;
    let (authority, chain, secret) = (read(authority)?, read(certificate)?, read(key)?);
    let revocations = Revocations::load(revocations, OffsetDateTime::now_utc()).map_err(list_fault)?;
    let now = OffsetDateTime::now_utc();
    // A file that cannot be read is refused below, with the reason.
    let facts = inspect(certificate).unwrap_or_default();
    let end = facts.iter().map(|facts| facts.not_after).min();
    let ended = end.filter(|end| *end < now);
    let seconds = u64::try_from(ended.unwrap_or(now).unix_timestamp()).unwrap_or_default();
    let as_of = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let lists = revocations.lists();
    let tls = PeerTls::from_pem_as_of(&authority, &chain, &secret, &lists, &plan.name, as_of)
        .map_err(|source| RunError::PeerMaterial { path: certificate.clone(), source })?;
    if let Some(expired) = ended {
        let file = certificate.display();
        tracing::error!(
            %file, %expired,
            "the peer certificate has expired: the other members refuse this one; replace its file (orch certs renew), which is \
             taken up without a restart"
        );
    }
    Ok(PeerMaterial { tls, revocations })
}

/// Directory of the store.
pub(super) fn store_dir(plan: &Plan) -> PathBuf {
    plan.data_dir.join(STORE)
}

impl StoreMember {
    /// Starts the member on `disk`, with `listener` as its peer port, if it has one.
    pub(super) async fn start(
        plan: &Plan,
        disk: RocksDisk,
        material: PeerMaterial,
        listener: Option<TcpListener>,
    ) -> Result<StoreMember, RunError> {
        let PeerMaterial { tls, revocations } = material;
        let pin = ClusterPin::default();
        let node = node(plan, listener.as_ref())?;
        let transport = TonicTransport::new(node.id, tls.clone(), pin.clone())
            .ok_or_else(|| RunError::Flags(format!("--name: {:?} cannot be used", plan.name)))?;
        let options = options(plan, node)?;
        disk.keep_ballast(capacity::ballast(options.space.reserve_bytes));
        let disk = Arc::new(disk);
        let weak = Arc::downgrade(&disk);
        let member = orch_raft::Member::start(options, disk, transport)
            .await
            .map_err(|source| RunError::Member { path: plan.data_dir.clone(), source })?;
        let handle = member.handle();
        if let Some(cluster) = handle.identity().cluster {
            pin.pin(&cluster)?;
        }
        let stop = CancellationToken::new();
        let serving = listener.map(|listener| {
            let admits = admit_by_membership(move |id, name| handle.known(id, name));
            let server = PeerServer::new(tls.clone(), pin.clone(), admits, member.service());
            tokio::spawn(server.serve(listener, stop.clone().cancelled_owned()))
        });
        follow_certificates(plan.peer_tls.clone(), PeerMaterial { tls, revocations }, stop.clone());
        Ok(StoreMember { member, disk: weak, pin, serving, stop })
    }

    /// A handle on the store.
    pub(super) fn handle(&self) -> Handle {
        self.member.handle()
    }

    /// The disk, for as long as the member lives.
    pub(super) fn disk(&self) -> Weak<RocksDisk> {
        self.disk.clone()
    }

    /// Waits until the cluster is founded, checks its brand, and pins the transport to its identity. `None` when the
    /// member ends first.
    pub(super) async fn cluster(&self, brand: Option<&Brand>) -> Result<Option<ClusterIdentity>, RunError> {
        let Some(cluster) = self.handle().wait_cluster().await else { return Ok(None) };
        self.pin.pin(&cluster.cluster)?;
        match brand {
            Some(asked) if *asked.name != *cluster.brand => {
                Err(RunError::Brand { asked: asked.name.to_owned(), found: cluster.brand.to_string() })
            }
            _ => Ok(Some(cluster)),
        }
    }

    /// Completes with the error when the member or its peer port fails.
    pub(super) async fn failed(&mut self) -> RunError {
        let handle = self.handle();
        let serving = async {
            match &mut self.serving {
                Some(serving) => serving.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            reason = handle.fatal() => RunError::Fatal(reason),
            ended = serving => RunError::Peers(match ended {
                Ok(Ok(())) => "it ended by itself".to_owned(),
                Ok(Err(reason)) => reason,
                Err(error) => error.to_string(),
            }),
        }
    }

    /// Hands over leadership, ends the member and closes the peer port.
    pub(super) async fn shutdown(self) {
        self.member.shutdown().await;
        self.stop.cancel();
        if let Some(serving) = self.serving
            && let Err(error) = serving.await
        {
            tracing::warn!(%error, "the peer port ended badly");
        }
    }
}

fn options(plan: &Plan, node: Peer) -> Result<Options, RunError> {
    let founder = |name: &str, address: &str| match name == &*node.name {
        true => node.clone(),
        false => Peer { id: node_id(name), name: name.into(), address: address.into() },
    };
    let founders = plan.founders.iter().map(|member| founder(&member.name, &member.address)).collect();
    let mut options =
        Options::new(node.clone(), founders, seed(plan.brand.unwrap_or(&ORCH))?, incarnation(), clock());
    // A peer known by address only: its name and id are learnt from its answer.
    let anyone = |address: &String| Peer { id: NodeId(0), name: "".into(), address: address.as_str().into() };
    options.join = plan.join.iter().map(anyone).collect();
    options.listens_alone = matches!(plan.kind, Kind::Serve);
    options.history.age_ms = u64::try_from(plan.watch_history.as_millis()).unwrap_or(u64::MAX);
    let memory = plan.watch_history_memory.unwrap_or_else(capacity::history_memory);
    options.history.bytes_max = usize::try_from(memory).unwrap_or(usize::MAX);
    let quota_bytes = plan.space.quota_bytes;
    let history_disk = || capacity::history_disk(&plan.data_dir, quota_bytes);
    options.history.disk_bytes_max = plan.watch_history_disk.unwrap_or_else(history_disk);
    options.log.bytes_max = capacity::log(&plan.data_dir, quota_bytes);
    options.state_bytes_max = Some(plan.state_quota);
    options.space = plan.space;
    Ok(options)
}

/// This member's name, id and peer address. Port 0 is replaced by the one the system chose.
fn node(plan: &Plan, listener: Option<&TcpListener>) -> Result<Peer, RunError> {
    let failed = |source| RunError::System { action: "read the peer port", source };
    let address = match listener {
        Some(listener) if plan.peer_advertise.ends_with(":0") => {
            host_port(host_of(&plan.peer_advertise), listener.local_addr().map_err(failed)?.port())
        }
        _ => plan.peer_advertise.clone(),
    };
    Ok(Peer { id: node_id(&plan.name), name: plan.name.as_str().into(), address: address.into() })
}

/// Starts the task that reloads renewed certificates of the peer port.
fn follow_certificates(files: PeerFiles, material: PeerMaterial, stop: CancellationToken) {
    let PeerMaterial { tls, revocations } = material;
    let in_use = Mutex::new(revocations);
    let mut paths = vec![files.authority.clone(), files.certificate.clone(), files.key.clone()];
    paths.extend(files.revocations.iter().cloned());
    let reload = move || -> Result<(), RunError> {
        let now = OffsetDateTime::now_utc();
        let (lists, broken) = in_use.lock().reload(&files.revocations, now);
        let revoked = lists.lists();
        let unfit = |source| RunError::PeerMaterial { path: files.certificate.clone(), source };
        let renew = || {
            let (authority, chain) = (read(&files.authority)?, read(&files.certificate)?);
            tls.reload(&authority, &chain, &read(&files.key)?, &revoked).map_err(unfit)
        };
        // A member stays revoked though the own certificate is damaged or has expired.
        let renewed = renew().or_else(|error| tls.revoke(&revoked).map_err(unfit).and(Err(error)));
        *in_use.lock() = lists;
        renewed.and(broken.map_or(Ok(()), |error| Err(list_fault(error))))
    };
    tokio::spawn(async move {
        if let Err(error) = stamps::follow("peer certificates", paths, reload, stop).await {
            tracing::warn!(%error, "renewed peer certificates are not taken up by themselves");
        }
    });
}

fn list_fault(source: MaterialError) -> RunError {
    RunError::Material { origin: "--peer-crl-file".to_owned(), source }
}

fn read(path: &std::path::Path) -> Result<Vec<u8>, RunError> {
    files::read(path, MATERIAL_BYTES_MAX).map_err(|source| RunError::DataFile {
        action: "read",
        path: path.to_owned(),
        source,
    })
}
