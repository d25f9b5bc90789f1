//! The `orch` program as a process: started, sent requests, stopped, started again.
#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod keyboard;
mod metrics;
mod moving;
mod traces;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;

/// Longer than a start or a stop takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A started program, killed when dropped.
struct Process {
    child: Child,
    data: PathBuf,
}

impl Process {
    fn start(data: &Path, arguments: &[&str]) -> Process {
        Process::run(data, orch(data, arguments))
    }

    fn run(data: &Path, mut command: Command) -> Process {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let child_id = child.id();
        let mut process = Process { child, data: data.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        // The file of a process killed before has another process id.
        let own = Value::from(child_id);
        while process.endpoints().is_none_or(|endpoints| endpoints["pid"] != own) {
            if process.child.try_wait().unwrap().is_some() || Instant::now() > deadline {
                panic!("not started: {}", process.take_errors());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    fn endpoints(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.data.join("endpoints.json")).ok()?).ok()
    }

    fn take_errors(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Sends SIGTERM and waits for the end; returns exit code, standard output and standard error.
    fn stop(mut self) -> (Option<i32>, String, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let errors = self.take_errors();
        (self.child.wait().unwrap().code(), printed, errors)
    }

    /// Sends a GET of `path` over HTTPS: with the certificate and key at `identity`, trusting the authority at
    /// `authority`.
    async fn ask(&self, path: &str, authority: &Path, identity: Option<(&Path, &Path)>) -> (u16, String) {
        self.send(Method::GET, path, authority, identity).await
    }

    /// Founds the cluster through this member.
    async fn found(&self, authority: &Path, identity: Option<(&Path, &Path)>) {
        let (status, body) = self.send(Method::POST, "/orch/v1/cluster/found", authority, identity).await;
        assert_eq!(status, 200, "{body}");
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        authority: &Path,
        identity: Option<(&Path, &Path)>,
    ) -> (u16, String) {
        self.send_as(method, path, authority, identity, "", "").await
    }

    /// Sends a request with a JSON body, unless that is empty, and a bearer token, unless that is empty.
    async fn send_as(
        &self,
        method: Method,
        path: &str,
        authority: &Path,
        identity: Option<(&Path, &Path)>,
        token: &str,
        body: &str,
    ) -> (u16, String) {
        let (mut sender, address) = self.connect(authority, identity).await;
        let mut request = Request::builder().method(method).uri(path).header("host", address);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// A connection for requests, and the address of the API.
    async fn connect(
        &self,
        authority: &Path,
        identity: Option<(&Path, &Path)>,
    ) -> (http1::SendRequest<Full<Bytes>>, String) {
        let url = self.endpoints().unwrap()["https"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("https://").unwrap();
        let pem = |path: &Path| CertificateDer::from_pem_file(path).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(pem(authority)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_root_certificates(roots);
        let config = match identity {
            Some((certificate, key)) => builder
                .with_client_auth_cert(vec![pem(certificate)], PrivateKeyDer::from_pem_file(key).unwrap())
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = connector.connect(name, TcpStream::connect(address).await.unwrap()).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        (sender, address.to_owned())
    }

    /// Repeats the request until the node is ready: before, it answers 503, or 500 to questions for its health, and 403 where
    /// the right comes with the default roles.
    async fn ask_ready(
        &self,
        path: &str,
        authority: &Path,
        identity: Option<(&Path, &Path)>,
    ) -> (u16, String) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.ask(path, authority, identity).await;
            if !matches!(answer.0, 403 | 500 | 503) || Instant::now() > deadline {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn orch(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command.args(arguments).arg("--data-dir").arg(data).stdin(Stdio::null());
    command
}

/// Arguments of a development node on a free port.
const DEV: [&str; 3] = ["dev", "--secure-port=0", "--no-scheduler"];

fn dev(data: &Path) -> Process {
    Process::start(data, &DEV)
}

/// Runs `orch cluster` until it succeeds with an output that `expected` accepts.
fn cluster_shows(arguments: &[&str], config: &Path, expected: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
        let output = command.arg("cluster").args(arguments).arg("--kubeconfig").arg(config).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        // A status tells the health of the cluster by its code.
        let is_told = arguments == ["status"] && matches!(output.status.code(), Some(3 | 4));
        if (output.status.success() || is_told) && expected(&shown) {
            return;
        }
        assert!(Instant::now() < deadline, "{arguments:?} shows {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Makes certificates for `members`, all at 127.0.0.1.
fn make_certificates(directory: &Path, members: &[&str], secure_port: u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command.args(["certs", "init", &format!("--secure-port={secure_port}"), "--dir"]).arg(directory);
    for member in members {
        command.arg(format!("--member={member}=127.0.0.1"));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn dev_serves_its_administrator_stops_cleanly_and_starts_again_on_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let pki = data.join("pki");
    let (authority, certificate, key) = (pki.join("ca.crt"), pki.join("admin.crt"), pki.join("admin.key"));
    let mut applied = Vec::new();
    for _ in 0..2 {
        let process = dev(&data);
        let admin = Some((certificate.as_path(), key.as_path()));
        // `endpoints.json` exists, so the API is ready.
        let (status, body) = process.ask("/api/v1/namespaces", &authority, admin).await;
        assert_eq!(status, 200, "{body}");
        let (status, body) = process.ask("/orch/v1/cluster", &authority, admin).await;
        assert_eq!(status, 200, "{body}");
        let cluster: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&cluster["name"], &cluster["members"][0]["role"]), (&"dev".into(), &"voter".into()));
        applied.push(cluster["applied"].as_u64().unwrap());
        assert_eq!(process.ask("/orch/v1/cluster", &authority, None).await.0, 401);
        for path in ["/orch/v1/cluster", "/orch/v1/cluster/encryption/rewrite", "/orch/v1/none", "/version"] {
            let (status, body) = process.ask(&format!("{path}?timeout=invalid"), &authority, admin).await;
            assert_eq!(status, 400, "{path}: {body}");
            assert!(body.contains("invalid timeout specified in the request URL"), "{body}");
        }
        cluster_shows(&["status"], &data.join("admin.conf"), |shown| shown.contains("leader dev"));
        let (code, printed, errors) = process.stop();
        assert_eq!(code, Some(0), "{errors}");
        assert!(printed.contains("curl --unix-socket"), "{printed}");
        assert!(
            printed.contains("start with --brand kubernetes"),
            "kubectl needs the other names: {printed}"
        );
        assert!(!data.join("endpoints.json").exists());
    }
    assert!(applied[0] > 0 && applied[1] >= applied[0], "nothing applied is lost: {applied:?}");
}

/// The plain port's response to `request`, read until the connection closes.
fn answer(port: u16, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The response of the Unix socket at `path` to a GET of `target`.
fn answer_at_socket(path: &Path, target: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: orch\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn two_development_nodes_share_a_machine_and_each_has_a_socket() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (dev(&directory.path().join("one")), dev(&directory.path().join("other")));
    for node in [&one, &other] {
        let endpoints = node.endpoints().unwrap();
        assert_eq!((&endpoints["peer"], &endpoints["http"]), (&Value::Null, &Value::Null), "{endpoints}");
        let socket = node.data.join("orch.sock");
        assert_eq!(endpoints["socket"], socket.to_str().unwrap());
        assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
        let answer = answer_at_socket(&socket, "/api/v1/namespaces");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let (code, printed, _) = one.stop();
    assert_eq!(code, Some(0));
    let curl = format!("curl --unix-socket {}/one/orch.sock ", directory.path().display());
    assert!(printed.contains(&curl), "{printed}");
    assert!(!directory.path().join("one/orch.sock").exists());
    let config = directory.path().join("other/admin.conf");
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command.args(["cluster", "add", "x", "127.0.0.1:1", "--kubeconfig"]).arg(config);
    let error = refused(&command.output().unwrap());
    assert!(error.contains("dev was founded without a peer port"), "{error}");
    assert_eq!(other.stop().0, Some(0));
}

#[test]
fn a_node_starts_again_right_after_it_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = dev(directory.path());
    let before = first.endpoints();
    first.child.kill().unwrap();
    let again = dev(directory.path());
    assert_ne!(again.endpoints(), before, "what the dead process left is no answer");
    let answer = answer_at_socket(&directory.path().join("orch.sock"), "/api/v1/namespaces");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(again.stop().0, Some(0));
}

#[test]
fn bad_values_of_flags_end_with_the_code_of_usage_errors_and_reasons_are_given_once() {
    let directory = tempfile::tempdir().unwrap();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let port = format!("--secure-port={}", taken.port());
    let config = directory.path().join("c.yaml");
    fs::write(&config, "secure-prot: 1\n").unwrap();
    let config = format!("--config={}", config.display());
    let end = |arguments: &[&str]| {
        let output = orch(&directory.path().join("data"), arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let half = config.replace("--config", "--tls-cert-file");
    for flag in ["--feature-gates=Nonsense=true", "--disk-quota=1Mi", &half, &config] {
        let (code, error) = end(&["dev", flag]);
        assert_eq!(code, Some(2), "{flag}: {error}");
    }
    let (code, error) = end(&["dev", &port]);
    let reason = std::net::TcpListener::bind(taken).unwrap_err().to_string();
    assert_eq!((code, error.matches(&reason).count()), (Some(1), 1), "{error}");
}

#[test]
fn a_start_that_fails_before_its_log_begins_writes_json_too_where_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        format!("--config={}", path.display())
    };
    let (asks, asks_and_errs) =
        (file("a.yaml", "log-format: json\n"), file("b.toml", "log-format = \"json\"\nsecure-prot = 1\n"));
    let absent = "--token-auth-file=/none";
    for (arguments, code, told) in [
        (vec!["dev", "--log-format=json", absent], 1, "--token-auth-file: cannot read /none: No such file"),
        (
            vec!["dev", absent, "--log-format", "json"],
            1,
            "--token-auth-file: cannot read /none: No such file",
        ),
        (
            vec!["serve", "--log-format=json", "--config=/none.yaml"],
            1,
            "cannot read configuration file /none.yaml",
        ),
        (vec!["dev", &asks, absent], 1, "--token-auth-file: cannot read /none: No such file"),
        (vec!["dev", &asks_and_errs], 2, "unknown key \"secure-prot\""),
        (vec!["dev", "--log-format=json", "--secure-prot=1"], 2, "unexpected argument '--secure-prot'"),
        (vec!["serve", "--log-format=json"], 2, "--name is missing"),
    ] {
        let output = orch(&directory.path().join("data"), &arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty() && !text.is_empty(), "{arguments:?}");
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{arguments:?}: {line}"));
            let error = line["error"].as_str().unwrap_or_default();
            assert!(error.contains(told) && !error.starts_with("error:"), "{arguments:?}: {line}");
        }
    }
    let help = orch(directory.path(), &["dev", "--log-format=json", "--help"]).output().unwrap();
    assert!(help.status.success() && help.stderr.is_empty(), "{help:?}");
}

#[test]
fn a_second_signal_ends_the_process_at_once_with_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let [plain] = free_ports();
    let plain_port = format!("--insecure-port={plain}");
    let ports = ["dev", "--secure-port=0", plain_port.as_str(), "--no-scheduler"];
    let mut process = Process::start(directory.path(), &ports);
    let ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let deadline = Instant::now() + PATIENCE;
    while !answer(plain, ready).contains("200 OK") {
        assert!(Instant::now() < deadline, "it is never ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A request without the rest of its body keeps the node draining for ten seconds. The node has begun to read the body
    // when it asks for it.
    let mut unfinished = std::net::TcpStream::connect(("127.0.0.1", plain)).unwrap();
    unfinished.set_read_timeout(Some(PATIENCE)).unwrap();
    unfinished
        .write_all(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")
        .unwrap();
    let mut asked = [0; 12];
    unfinished.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    unfinished.write_all(b"{").unwrap();
    let pid = Pid::from_raw(i32::try_from(process.child.id()).unwrap()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        kill_process(pid, Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(Instant::now() < deadline, "it does not end");
        if let Some(status) = process.child.try_wait().unwrap() {
            break status;
        }
    };
    let errors = process.take_errors();
    assert_eq!(status.code(), Some(1), "{status}: {errors}");
    assert!(errors.contains("error: stopped at once by a second signal"), "{errors}");
    drop(unfinished);
}

#[tokio::test]
async fn a_second_node_on_the_same_directory_is_refused_and_harms_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let first = dev(directory.path());
    let endpoints = first.endpoints();
    let arguments = ["dev", "--secure-port=0"];
    let error = refused(&orch(directory.path(), &arguments).output().unwrap());
    let process = format!("store is in use by process {}", first.child.id());
    assert!(error.contains(&process), "{error}");
    assert_eq!(first.endpoints(), endpoints);
    assert_eq!(first.stop().0, Some(0));
}

#[tokio::test]
async fn a_member_refuses_the_data_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let certs = directory.path().join("certs");
    make_certificates(&certs, &["a", "b"], 6443);
    let data = directory.path().join("data");
    let certs_dir = format!("--certs-dir={}", certs.display());
    let arguments = |name: &'static str, brand: &'static str| {
        let cluster =
            if name == "a" { "--initial-cluster=a=127.0.0.1:0" } else { "--initial-cluster=b=127.0.0.1:0" };
        let name = if name == "a" { "--name=a" } else { "--name=b" };
        ["serve", name, cluster, brand, &certs_dir, "--secure-port=0", "--bind-address=127.0.0.1"]
    };
    let member = Process::start(&data, &arguments("a", "--brand=kubernetes"));
    let admin = Some((certs.join("admin.crt"), certs.join("admin.key")));
    let admin = admin.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    assert_eq!(member.ask("/api/v1/namespaces", &certs.join("ca.crt"), admin).await.0, 503);
    member.found(&certs.join("ca.crt"), admin).await;
    let (status, body) = member.ask_ready("/orch/v1/cluster", &certs.join("ca.crt"), admin).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(member.stop().0, Some(0));
    let error = refused(&orch(&data, &arguments("b", "--brand=kubernetes")).output().unwrap());
    assert!(error.contains("the data belongs to member a"), "{error}");
    let error = refused(&orch(&data, &arguments("a", "--brand=orch")).output().unwrap());
    assert!(error.contains("--brand orch: this cluster was made with --brand kubernetes"), "{error}");
    assert!(!error.contains("listening"), "{error}");
}

#[test]
fn a_member_joins_is_promoted_and_takes_the_lead() {
    let directory = tempfile::tempdir().unwrap();
    let certs = directory.path().join("certs");
    let [secure, first_peer, second_peer] = free_ports();
    make_certificates(&certs, &["a", "b"], secure);
    let config = certs.join("admin.conf");
    let start = |name: &str, flags: [String; 3]| {
        let common = ["serve", "--bind-address=127.0.0.1", &format!("--name={name}")].map(str::to_owned);
        let certs = [format!("--certs-dir={}", certs.display())];
        let arguments: Vec<String> = common.into_iter().chain(certs).chain(flags).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Process::start(&directory.path().join(name), &arguments)
    };
    let alone = format!("--initial-cluster=a=127.0.0.1:{first_peer}");
    let first = start("a", [format!("--secure-port={secure}"), alone, "--v=0".to_owned()]);
    cluster_shows(&["found"], &config, |shown| {
        assert!(shown.contains("leader a"), "not there yet: {shown}");
        true
    });
    cluster_shows(&["status"], &config, |shown| shown.contains("leader a"));
    let address = format!("127.0.0.1:{second_peer}");
    cluster_shows(&["add", "b", &address], &config, |shown| shown.contains("b     learner"));
    let join = format!("--join=127.0.0.1:{first_peer}");
    let second = start("b", ["--secure-port=0".to_owned(), join, format!("--peer-address={address}")]);
    cluster_shows(&["promote", "b"], &config, |shown| shown.contains("b     voter"));
    cluster_shows(&["transfer-leader", "b"], &config, |_| true);
    cluster_shows(&["status"], &config, |shown| shown.contains("leader b"));
    assert_eq!(second.stop().0, Some(0));
    assert_eq!(first.stop().0, Some(0));
}

#[tokio::test]
async fn a_token_appears_in_no_log_at_any_verbosity() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens.csv");
    fs::write(&tokens, "canary-token-1,admin,1,system:masters\ncanary-token-1,admin,1,system:masters\n")
        .unwrap();
    let data = directory.path().join("data");
    let [port] = free_ports();
    let tokens = format!("--token-auth-file={}", tokens.display());
    let insecure = format!("--insecure-port={port}");
    let process =
        Process::start(&data, &["dev", "--secure-port=0", "--v=10", "--log-format=json", &insecure, &tokens]);
    for (token, expected) in [("canary-token-1", 200), ("canary-token-2", 401)] {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            let stream = TokioIo::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = Request::get("/orch/v1/cluster")
                .header("host", "localhost")
                .header("authorization", format!("Bearer {token}"))
                .body(Full::<Bytes>::default())
                .unwrap();
            let status = sender.send_request(request).await.unwrap().status().as_u16();
            if status != 503 || Instant::now() > deadline {
                break status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(status, expected, "{token}");
    }
    let (code, printed, errors) = process.stop();
    assert_eq!(code, Some(0));
    assert!(errors.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{errors}");
    assert!(errors.contains("line 2"), "{errors}");
    assert!(!printed.contains("canary") && !errors.contains("canary"), "{errors}");
}

/// Files and folders below `folder` with any permission for group or others.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        // RocksDB removes files while the node runs.
        let Ok(facts) = entry.metadata() else { continue };
        if facts.permissions().mode() & 0o077 != 0 {
            found.push(entry.path());
        }
        if facts.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

#[tokio::test]
async fn files_are_for_their_owner_under_any_mask_and_nothing_is_dumped() {
    let temporary = tempfile::tempdir().unwrap();
    let data = temporary.path().join("data");
    let start = || {
        let node = orch(&data, &DEV);
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(node.get_program()).args(node.get_args());
        Process::run(&data, shell)
    };
    // The second start rotates the database's log and writes tables.
    for _ in 0..2 {
        let node = start();
        let proc = PathBuf::from(format!("/proc/{}", node.child.id()));
        let limits = fs::read_to_string(proc.join("limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().filter(|word| *word == "0").count(), 2, "{core}");
        // The `/proc` files of an undumpable process belong to root.
        assert_eq!(fs::metadata(proc.join("limits")).unwrap().uid(), 0);
        assert_eq!(open_to_others(&data), Vec::<PathBuf>::new(), "while it runs");
        let (code, _, errors) = node.stop();
        assert_eq!(code, Some(0), "{errors}");
    }
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert!(names(&data) > 3, "keys, configuration, store");
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(open_to_others(&data), Vec::<PathBuf>::new());
}
