//! A source that forgets versions while it is followed: the kinds are listed again, and nothing is lost or collected meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;

use super::*;

/// Kinds whose watches are cut, by the last part of their path.
const CUT: [&str; 3] = ["configmaps", "deployments", "replicasets"];

/// A server in front of a node, which cuts watches and then answers that their version is gone.
struct Gate {
    socket: PathBuf,
    /// Watches wait, and are told that their version is gone when this ends.
    is_closed: watch::Sender<bool>,
    /// The paths of watches that wait.
    waiting: parking_lot::Mutex<BTreeSet<String>>,
    /// Whether the next refusal is an event, and not the answer itself.
    is_event: AtomicBool,
    /// Answers that a version is gone.
    gone: AtomicUsize,
}

impl Gate {
    /// A gate in front of `node`, and the client configuration that leads there.
    async fn start(node: &Node, folder: &Path) -> (Arc<Gate>, PathBuf) {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let authority = STANDARD.encode(made.cert.pem());
        let cluster =
            json!({"server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": authority});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "gate",
            "clusters": [{"name": "gate", "cluster": cluster}],
            "users": [{"name": "gate", "user": {"token": "none"}}],
            "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "gate"}}],
        });
        let path = folder.join("gate.conf");
        fs::write(&path, config.to_string()).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let gate = Arc::new(Gate {
            socket: node.data.join("orch.sock"),
            is_closed: watch::channel(false).0,
            waiting: parking_lot::Mutex::default(),
            is_event: AtomicBool::new(false),
            gone: AtomicUsize::new(0),
        });
        let serving = gate.clone();
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (gate, acceptor) = (serving.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let gate = gate.clone();
                        async move { Ok::<_, std::convert::Infallible>(gate.pass(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        (gate, path)
    }

    /// The node's answer; of a watch that is cut, its beginning, or that its version is gone.
    async fn pass(&self, mut request: Request<Incoming>) -> Response<Body> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
        let kind = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let mut is_closed = self.is_closed.subscribe();
        let is_cut = is_watch && CUT.contains(&kind.as_str());
        if is_cut && *is_closed.borrow() {
            self.waiting.lock().insert(request.uri().path().to_owned());
            is_closed.wait_for(|is_closed| !is_closed).await.unwrap();
            self.gone.fetch_add(1, Ordering::Relaxed);
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410});
            // A server tells it in either way.
            let (code, body) = match self.is_event.fetch_xor(true, Ordering::Relaxed) {
                true => (StatusCode::OK, format!("{}\n", json!({"type": "ERROR", "object": status}))),
                false => (StatusCode::GONE, status.to_string()),
            };
            return Response::builder().status(code).body(Body::from(body)).unwrap();
        }
        request.headers_mut().remove("authorization");
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.unwrap().map(Body::new);
        if !is_cut {
            return answer;
        }
        let cut = async move { drop(is_closed.wait_for(|is_closed| *is_closed).await) };
        answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(cut))))
    }

    async fn close(&self) {
        self.is_closed.send_replace(true);
        until("all watches wait", || self.waiting.lock().len() == CUT.len()).await;
    }

    async fn open(&self) {
        self.is_closed.send_replace(false);
        until("all were told", || self.gone.load(Ordering::Relaxed) >= CUT.len()).await;
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_forgets_versions_is_listed_again_with_its_deletions_while_it_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let mut source = Node::start(directory.path().join("source")).await;
    let mut target = Node::start(directory.path().join("target")).await;
    let (gate, config) = Gate::start(&source, directory.path()).await;
    fill(&mut source, 40).await;
    let maps = "/api/v1/namespaces/shop/configmaps";
    for name in ["kept", "gone", "changed"] {
        source.create(maps, &json!({"metadata": {"name": name}, "data": {"k": "v"}})).await;
    }
    let lists = lists(&mut source).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command.arg("import").arg("--kubeconfig").arg(&config).arg("--to").arg(target.config());
    command.arg("--state").arg(directory.path().join("state")).arg("--follow").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for list in &lists {
        let deadline = Instant::now() + PATIENCE;
        while target.send(Method::GET, list, &Value::Null).await.0 != 200 {
            assert!(Instant::now() < deadline, "{list} does not come");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    await_equality(&mut source, &mut target, &lists).await;
    // Followed from here on: a change comes over a watch.
    source.create(maps, &json!({"metadata": {"name": "first"}})).await;
    await_equality(&mut source, &mut target, &lists).await;
    let pod = "/api/v1/namespaces/shop/pods/c0";
    let before = target.get(pod).await["metadata"]["resourceVersion"].clone();

    gate.close().await;
    source.send(Method::DELETE, &format!("{maps}/gone"), &Value::Null).await;
    source.send(Method::PATCH, &format!("{maps}/changed"), &json!({"data": {"k": "changed"}})).await;
    source.create(maps, &json!({"metadata": {"name": "new"}})).await;
    source.create("/api/v1/namespaces", &json!({"metadata": {"name": "later"}})).await;
    source.create("/api/v1/namespaces/later/configmaps", &json!({"metadata": {"name": "there"}})).await;
    // The replica set and its pod stay, without the deployment.
    let orphan = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"});
    let deployment = "/apis/apps/v1/namespaces/shop/deployments/c0";
    assert_eq!(source.send(Method::DELETE, deployment, &orphan).await.0, 200);
    let deadline = Instant::now() + PATIENCE;
    while source.send(Method::GET, deployment, &Value::Null).await.0 != 404 {
        assert!(Instant::now() < deadline, "the deployment stays");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    gate.open().await;
    await_equality(&mut source, &mut target, &lists).await;
    assert_eq!(target.get(pod).await["metadata"]["resourceVersion"], before, "the pod was left alone");

    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    await_equality(&mut source, &mut target, &lists).await;
}
