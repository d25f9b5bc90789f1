//! A KMS plugin for tests, which does as it is told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orch_proto::kms::v2::key_management_service_server::{KeyManagementService, KeyManagementServiceServer};
use orch_proto::kms::v2::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

const ANNOTATION: &str = "pretend.example.com";

/// The plugin's behaviour, and the numbers of requests that it got.
#[derive(Clone, Debug, Default)]
pub(super) struct Behaviour {
    pub(super) status: StatusResponse,
    /// Keys that it still has, by their ids.
    pub(super) keys: BTreeSet<String>,
    /// Wait before each answer.
    pub(super) delay: Duration,
    /// It turns to a new key before each answer to Status.
    pub(super) is_fickle: bool,
    /// Replaces the answer to Encrypt.
    pub(super) sealed: Option<EncryptResponse>,
    /// Replaces the answer to Decrypt.
    pub(super) opened: Option<Vec<u8>>,
    pub(super) encrypts: usize,
    pub(super) decrypts: usize,
}

impl Behaviour {
    /// Uses the key `key_id`, and keeps the ones before.
    pub(super) fn turn_to(&mut self, key_id: &str) {
        self.keys.insert(key_id.to_owned());
        self.status = healthy(key_id);
    }
}

pub(super) fn healthy(key_id: &str) -> StatusResponse {
    StatusResponse { version: "v2".to_owned(), healthz: "ok".to_owned(), key_id: key_id.to_owned() }
}

/// A running plugin. Dropping it closes its socket.
pub(super) struct Pretend {
    pub(super) behaviour: Arc<Mutex<Behaviour>>,
    socket: PathBuf,
    runtime: Option<Runtime>,
}

impl Pretend {
    pub(super) fn start(folder: &Path, key_id: &str) -> Pretend {
        let mut behaviour = Behaviour::default();
        behaviour.turn_to(key_id);
        Pretend::start_as(folder, behaviour)
    }

    pub(super) fn start_as(folder: &Path, behaviour: Behaviour) -> Pretend {
        let socket = folder.join("kms.sock");
        let behaviour = Arc::new(Mutex::new(behaviour));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(async { UnixListener::bind(&socket) }).unwrap();
        let service = KeyManagementServiceServer::new(Service(Arc::clone(&behaviour)));
        runtime.spawn(async move {
            let incoming = UnixListenerStream::new(listener);
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Pretend { behaviour, socket, runtime: Some(runtime) }
    }

    /// Ends the plugin; returns what it did.
    pub(super) fn stop(self) -> Behaviour {
        let behaviour = self.behaviour.lock().clone();
        drop(self);
        behaviour
    }
}

impl Drop for Pretend {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        std::fs::remove_file(&self.socket).unwrap();
    }
}

struct Service(Arc<Mutex<Behaviour>>);

impl Service {
    async fn wait(&self) {
        let delay = self.0.lock().delay;
        tokio::time::sleep(delay).await;
    }
}

/// Seals and opens: each byte is changed by the length of the key's id.
fn mask(bytes: &[u8], key_id: &str) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x80 ^ u8::try_from(key_id.len()).unwrap()).collect()
}

#[tonic::async_trait]
impl KeyManagementService for Service {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.wait().await;
        let mut behaviour = self.0.lock();
        if behaviour.is_fickle {
            let name = format!("key-{}", behaviour.keys.len());
            behaviour.turn_to(&name);
        }
        Ok(Response::new(behaviour.status.clone()))
    }

    async fn decrypt(&self, request: Request<DecryptRequest>) -> Result<Response<DecryptResponse>, Status> {
        self.wait().await;
        let mut behaviour = self.0.lock();
        behaviour.decrypts += 1;
        let request = request.into_inner();
        assert!(behaviour.sealed.is_some() || request.annotations[ANNOTATION] == b"kept");
        assert!(!request.uid.is_empty());
        if !behaviour.keys.contains(&request.key_id) {
            return Err(Status::not_found("there is no such key"));
        }
        let plaintext = mask(&request.ciphertext, &request.key_id);
        Ok(Response::new(DecryptResponse { plaintext: behaviour.opened.clone().unwrap_or(plaintext) }))
    }

    async fn encrypt(&self, request: Request<EncryptRequest>) -> Result<Response<EncryptResponse>, Status> {
        self.wait().await;
        let mut behaviour = self.0.lock();
        behaviour.encrypts += 1;
        let key_id = behaviour.status.key_id.clone();
        let ciphertext = mask(&request.into_inner().plaintext, &key_id);
        let annotations = BTreeMap::from([(ANNOTATION.to_owned(), b"kept".to_vec())]);
        let sealed = EncryptResponse { ciphertext, key_id, annotations };
        Ok(Response::new(behaviour.sealed.clone().unwrap_or(sealed)))
    }
}
