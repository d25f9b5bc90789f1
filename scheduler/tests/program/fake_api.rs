//! A server that answers reviews as the recorded cluster did: `admin-token` is an administrator's, `alice-token` that of a
//! user without rights, and everybody may read health and the version. It holds no objects: lists, in JSON, are empty.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Paths that everybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Resources that a scheduler lists, and what their lists are called.
const LISTS: [(&str, &str); 18] = [
    ("pods", "PodList"),
    ("nodes", "NodeList"),
    ("namespaces", "NamespaceList"),
    ("services", "ServiceList"),
    ("replicationcontrollers", "ReplicationControllerList"),
    ("persistentvolumes", "PersistentVolumeList"),
    ("persistentvolumeclaims", "PersistentVolumeClaimList"),
    ("replicasets", "ReplicaSetList"),
    ("statefulsets", "StatefulSetList"),
    ("poddisruptionbudgets", "PodDisruptionBudgetList"),
    ("storageclasses", "StorageClassList"),
    ("csinodes", "CSINodeList"),
    ("csidrivers", "CSIDriverList"),
    ("csistoragecapacities", "CSIStorageCapacityList"),
    ("volumeattachments", "VolumeAttachmentList"),
    ("resourceclaims", "ResourceClaimList"),
    ("resourceslices", "ResourceSliceList"),
    ("deviceclasses", "DeviceClassList"),
];

/// The server.
pub(crate) struct FakeApi {
    pub(crate) address: SocketAddr,
    /// Paths and bodies of the requests that came.
    pub(crate) asked: Arc<Mutex<Vec<(String, Value)>>>,
    /// Data of the config map that names authorities; `None` where there is none.
    pub(crate) config_map: Arc<Mutex<Option<Value>>>,
}

impl FakeApi {
    pub(crate) async fn start() -> FakeApi {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = FakeApi { address, asked: Arc::default(), config_map: Arc::default() };
        let (asked, config_map) = (Arc::clone(&api.asked), Arc::clone(&api.config_map));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let (asked, config_map) = (Arc::clone(&asked), Arc::clone(&config_map));
                let service =
                    service_fn(move |request| answer(request, Arc::clone(&asked), Arc::clone(&config_map)));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        api
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many reviews of a kind were asked for.
    pub(crate) fn count(&self, resource: &str) -> usize {
        self.asked.lock().iter().filter(|(path, _)| path.ends_with(resource)).count()
    }
}

async fn answer(
    request: Request<Incoming>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    config_map: Arc<Mutex<Option<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let is_list = request.method() == Method::GET && !request.uri().query().unwrap_or("").contains("watch=");
    let is_signed_in =
        request.headers().get("authorization").is_some_and(|value| value == "Bearer scheduler-token");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let spec = &body["spec"];
    let (status, document) = match path.as_str() {
        _ if !is_signed_in => (StatusCode::UNAUTHORIZED, json!({"message": "Unauthorized"})),
        "/apis/authentication.orch.io/v1/tokenreviews" => {
            let user = match spec["token"].as_str().unwrap() {
                "admin-token" => Some(json!({"username": "admin", "groups": ["system:masters"]})),
                "alice-token" => Some(json!({"username": "alice", "groups": ["people"]})),
                _ => None,
            };
            (StatusCode::CREATED, json!({"status": {"authenticated": user.is_some(), "user": user}}))
        }
        "/apis/authorization.orch.io/v1/subjectaccessreviews" => {
            let asked = spec["nonResourceAttributes"]["path"].as_str().unwrap();
            (StatusCode::CREATED, json!({"status": {"allowed": PUBLIC.contains(&asked)}}))
        }
        "/api/v1/namespaces/orch-system/configmaps/extension-apiserver-authentication" => {
            match config_map.lock().clone() {
                Some(data) => (StatusCode::OK, json!({"data": data})),
                None => (StatusCode::NOT_FOUND, json!({"message": "not found"})),
            }
        }
        _ => match empty_list(&path).filter(|_| is_list) {
            Some(list) => (StatusCode::OK, list),
            None => (StatusCode::NOT_FOUND, json!({"message": "not found"})),
        },
    };
    asked.lock().push((path, body.clone()));
    let mut response = Response::new(Full::new(Bytes::from(document.to_string())));
    *response.status_mut() = status;
    Ok(response)
}

/// The empty list of the resource at `path`, where it has one. Like every server's, it says its version and kind.
fn empty_list(path: &str) -> Option<Value> {
    let (version, resource) = path.rsplit_once('/')?;
    let version = version.trim_start_matches("/apis/").trim_start_matches("/api/");
    let (_, kind) = LISTS.iter().find(|(plural, _)| *plural == resource)?;
    Some(json!({"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": []}))
}
