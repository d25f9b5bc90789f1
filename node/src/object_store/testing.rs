//! A small S3-compatible server for tests, in this process.
//!
//! Owns the check of each request: its signature (`signature`), its path, and the order and tags of the parts that are made an
//! object. It refuses what does not fit, and has troubles that a test orders.

mod signature;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::Listener;
use bytes::Bytes;
use http::StatusCode;
use http::header::{ETAG, HOST};
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use self::signature::SECRET;
use self::signature::{KEY, REGION, hex, is_signed, query};
use super::{ObjectStore, Options};
use crate::certs::{Authority, server_leaf};
use crate::egress::Trust;

const BUCKET: &str = "backups";

/// Objects in one list, so that tests see several.
const LIST_MAX: usize = 2;

/// A trouble that a test orders for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is refused with this status and code, and nothing is done.
    Refused(u16, &'static str),
    /// It is done, and the answer says otherwise.
    DoneAndLost,
    /// Nothing is done, and the answer is an error under a status of success.
    ErrorInSuccess,
    /// The body of the answer breaks off.
    Cut,
    /// One byte of the answer is another.
    Changed,
}

/// The contents of the server, and the calls to it.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) objects: BTreeMap<String, Bytes>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    /// `create`, `part 1`, `complete`, `abort`, `read`, `list`, `remove`.
    pub(crate) calls: Vec<String>,
    /// Calls, and what becomes of the next of that name.
    pub(crate) troubles: Vec<(&'static str, Trouble)>,
    begun: u32,
}

/// Parts that are no object yet.
#[derive(Default)]
pub(crate) struct Upload {
    key: String,
    pub(crate) parts: BTreeMap<u16, Bytes>,
}

/// The host of a server that is asked with the bucket in it.
const HOST_NAME: &str = "s3.example.test";

/// The place of the bucket's name in requests.
#[derive(Clone)]
struct Naming {
    /// The header `Host`.
    host: String,
    /// The path before the key.
    path: String,
}

/// A running server.
pub(crate) struct Server {
    scheme: &'static str,
    /// `HOST:PORT` of the endpoint.
    address: String,
    /// Where it listens.
    listens: SocketAddr,
    style: rusty_s3::UrlStyle,
    pub(crate) contents: Arc<Mutex<Contents>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listens = listener.local_addr().unwrap();
        let contents: Arc<Mutex<Contents>> = Arc::default();
        let address = listens.to_string();
        let naming = Naming { host: address.clone(), path: format!("/{BUCKET}/") };
        let router = Router::new().fallback(serve).with_state((naming, contents.clone()));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server { scheme: "http", address, listens, style: rusty_s3::UrlStyle::Path, contents, task }
    }

    /// A server with a certificate of `authority`.
    pub(crate) async fn start_with_tls(authority: &Authority) -> Server {
        Server::start_secured(authority, rusty_s3::UrlStyle::Path).await
    }

    /// The same, which has the bucket in its host, as Amazon's.
    pub(crate) async fn start_with_bucket_in_host(authority: &Authority) -> Server {
        Server::start_secured(authority, rusty_s3::UrlStyle::VirtualHost).await
    }

    async fn start_secured(authority: &Authority, style: rusty_s3::UrlStyle) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listens = listener.local_addr().unwrap();
        let contents: Arc<Mutex<Contents>> = Arc::default();
        let (address, naming) = match style {
            rusty_s3::UrlStyle::Path => {
                let host = listens.to_string();
                (host.clone(), Naming { host, path: format!("/{BUCKET}/") })
            }
            rusty_s3::UrlStyle::VirtualHost => {
                let address = format!("{HOST_NAME}:{}", listens.port());
                (address.clone(), Naming { host: format!("{BUCKET}.{address}"), path: "/".to_owned() })
            }
        };
        let router = Router::new().fallback(serve).with_state((naming, contents.clone()));
        let secured = Secured { listener, acceptor: acceptor(authority) };
        let task = tokio::spawn(async move { axum::serve(secured, router).await.unwrap() });
        Server { scheme: "https", address, listens, style, contents, task }
    }

    /// The bucket of this server, with an access key in a file in `folder`, asked in parts of `part_bytes`.
    pub(crate) fn bucket(&self, folder: &Path, secret: &str, part_bytes: usize) -> ObjectStore {
        let file = folder.join("access");
        let text = format!("[default]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n");
        std::fs::write(&file, text).unwrap();
        let authority = Authority::create("ca", OffsetDateTime::now_utc()).unwrap();
        self.bucket_trusting(&authority, file, part_bytes)
    }

    /// The same with the access key in `file`, over connections to servers of `authority`.
    pub(crate) fn bucket_trusting(
        &self,
        authority: &Authority,
        file: PathBuf,
        part_bytes: usize,
    ) -> ObjectStore {
        let options = Options {
            place: format!("s3://{BUCKET}/orch/prod").parse().unwrap(),
            endpoint: Some(format!("{}://{}", self.scheme, self.address)),
            region: REGION.to_owned(),
            style: self.style,
            access_file: Some(file),
            trust: Trust::new(Some(authority.pair.certificate.as_bytes()), None).unwrap(),
        };
        let mut store = ObjectStore::new(options).unwrap();
        store.part_bytes = part_bytes;
        store.exchange.pause_min = Duration::from_millis(1);
        // No resolver knows the name of a host with the bucket in it.
        ObjectStore { exchange: store.exchange.at(self.listens), ..store }
    }

    /// Ends the server: its port is closed when this returns.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        assert!((&mut self.task).await.unwrap_err().is_cancelled());
    }

    /// Orders `trouble` for the next `times` calls of a name.
    pub(crate) fn order(&self, call: &'static str, trouble: Trouble, times: usize) {
        self.contents.lock().troubles.extend(std::iter::repeat_n((call, trouble), times));
    }

    /// Takes the names of the calls since the last time.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.contents.lock().calls)
    }
}

/// Connections after their handshake; one that fails it is left.
struct Secured {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let hosts = [format!("*.{HOST_NAME}")];
    let pair = authority.issue(&server_leaf("a", &hosts, &ORCH), OffsetDateTime::now_utc()).unwrap();
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    State((naming, contents)): State<(Naming, Arc<Mutex<Contents>>)>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    let pairs: BTreeMap<String, String> = query(head.uri.query().unwrap_or_default());
    let host = head.headers[HOST].to_str().unwrap();
    let path = head.uri.path();
    if host != naming.host || !is_signed(head.method.as_str(), path, host, &pairs) {
        return error(403, "SignatureDoesNotMatch");
    }
    let Some(key) = path.strip_prefix(&*naming.path) else { return error(404, "NoSuchBucket") };
    let part = pairs.get("partNumber").map(|number| number.parse::<u16>().unwrap());
    let name = match (head.method.as_str(), part, pairs.contains_key("uploadId")) {
        ("POST", None, false) if pairs.contains_key("uploads") => "create".to_owned(),
        ("PUT", Some(number), true) => format!("part {number}"),
        ("POST", None, true) => "complete".to_owned(),
        ("DELETE", None, true) => "abort".to_owned(),
        ("DELETE", None, false) => "remove".to_owned(),
        ("GET", None, false) if key.is_empty() && pairs["list-type"] == "2" => "list".to_owned(),
        ("GET", None, false) => "read".to_owned(),
        _ => return error(400, "InvalidRequest"),
    };
    let mut contents = contents.lock();
    contents.calls.push(name.clone());
    let place = contents.troubles.iter().position(|(of, _)| *of == name);
    let trouble = place.map(|place| contents.troubles.remove(place).1);
    match trouble {
        Some(Trouble::Refused(status, code)) => return error(status, code),
        Some(Trouble::ErrorInSuccess) => return error(200, "InternalError"),
        _ => {}
    }
    let answer = contents.carry_out(&name, key, &pairs, body);
    match trouble {
        Some(Trouble::DoneAndLost) => error(500, "InternalError"),
        Some(Trouble::Changed | Trouble::Cut) => spoil(answer, trouble == Some(Trouble::Cut)),
        _ => answer.map(Body::from),
    }
}

/// The answer with another byte, or without its second half.
fn spoil(answer: Response<Bytes>, is_cut: bool) -> Response {
    let (head, body) = answer.into_parts();
    let half = body.len() / 2;
    if !is_cut {
        let mut body = body.to_vec();
        body[half] ^= 1;
        return Response::from_parts(head, Body::from(body));
    }
    let broken = Err(std::io::Error::other("the server breaks off"));
    let pieces = [Ok(body.slice(..half)), broken];
    Response::from_parts(head, Body::from_stream(futures::stream::iter(pieces)))
}

impl Contents {
    fn carry_out(
        &mut self,
        name: &str,
        key: &str,
        pairs: &BTreeMap<String, String>,
        body: Bytes,
    ) -> Response<Bytes> {
        let upload = pairs.get("uploadId").cloned().unwrap_or_default();
        match name {
            "create" => {
                self.begun += 1;
                let id = format!("upload/{}", self.begun);
                self.uploads.insert(id.clone(), Upload { key: key.to_owned(), parts: BTreeMap::new() });
                document(200, &format!("<R><Bucket>{BUCKET}</Bucket><UploadId>{id}</UploadId></R>"))
            }
            "complete" => self.complete(&upload, key, &body),
            "abort" => match self.uploads.remove(&upload) {
                Some(_) => document(204, ""),
                None => refusal(404, "NoSuchUpload"),
            },
            "remove" => {
                self.objects.remove(key);
                document(204, "")
            }
            "list" => self.list(pairs),
            "read" => match self.objects.get(key) {
                Some(object) => Response::new(object.clone()),
                None => refusal(404, "NoSuchKey"),
            },
            _ => {
                let number: u16 = pairs["partNumber"].parse().unwrap();
                let tag = tag(&body);
                let Some(upload) = self.uploads.get_mut(&upload).filter(|upload| upload.key == key) else {
                    return refusal(404, "NoSuchUpload");
                };
                upload.parts.insert(number, body);
                let mut answer = document(200, "");
                answer.headers_mut().insert(ETAG, tag.parse().unwrap());
                answer
            }
        }
    }

    /// Makes the parts that `body` names an object: they are there, numbered from one, with their tags.
    fn complete(&mut self, upload: &str, key: &str, body: &[u8]) -> Response<Bytes> {
        let Some(found) = self.uploads.get(upload).filter(|upload| upload.key == key) else {
            return refusal(404, "NoSuchUpload");
        };
        let expected: String = found
            .parts
            .iter()
            .map(|(number, part)| {
                format!("<Part><ETag>{}</ETag><PartNumber>{number}</PartNumber></Part>", tag(part))
            })
            .collect();
        let named = String::from_utf8(body.to_vec()).unwrap().replace("&quot;", "\"");
        let numbered = found.parts.keys().zip(1_u16..).all(|(number, expected)| *number == expected);
        if named != format!("<CompleteMultipartUpload>{expected}</CompleteMultipartUpload>") || !numbered {
            return refusal(400, "InvalidPart");
        }
        let whole: Vec<u8> = found.parts.values().flat_map(|part| part.to_vec()).collect();
        self.uploads.remove(upload);
        self.objects.insert(key.to_owned(), Bytes::from(whole));
        document(200, &format!("<R><Key>{key}</Key><ETag>\"x\"</ETag></R>"))
    }

    fn list(&self, pairs: &BTreeMap<String, String>) -> Response<Bytes> {
        let after = pairs.get("continuation-token").cloned().unwrap_or_default();
        let prefix = &pairs["prefix"];
        let mut found = self.objects.iter().filter(|(key, _)| key.starts_with(prefix) && **key > after);
        let page: Vec<_> = found.by_ref().take(LIST_MAX).collect();
        let mut text = format!("<R><MaxKeys>{LIST_MAX}</MaxKeys>");
        for (key, object) in &page {
            // As servers may, with the separator encoded.
            let (key, size) = (key.replace('/', "%2F"), object.len());
            text += &format!(
                "<Contents><Key>{key}</Key><LastModified>2026-11-29T10:15:00Z</LastModified><ETag>x</ETag>\
                 <Size>{size}</Size></Contents>"
            );
        }
        if let (Some(_), Some((last, _))) = (found.next(), page.last()) {
            text += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        document(200, &(text + "</R>"))
    }
}

fn tag(part: &[u8]) -> String {
    format!("\"{}\"", hex(&Sha256::digest(part)[..8]))
}

fn document(status: u16, text: &str) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(text.to_owned()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

fn refusal(status: u16, code: &str) -> Response<Bytes> {
    document(status, &format!("<Error><Code>{code}</Code><Message>not to be repeated</Message></Error>"))
}

fn error(status: u16, code: &str) -> Response {
    refusal(status, code).map(Body::from)
}
