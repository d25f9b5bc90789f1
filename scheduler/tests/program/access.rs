//! Flags of authentication and authorization: the user of a request, and whether the answer is remembered.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};

use super::fake_api::FakeApi;
use super::https::Client;
use super::process::{Running, free_port, run, start, write_client_config};

/// An authority in a file, and certificates that it signs.
struct Authority {
    file: PathBuf,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, &pem).unwrap();
        Authority { file, pem, issuer: Issuer::new(params, key) }
    }

    fn client(&self, port: u16, name: &str, organization: &str) -> Client {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().unwrap();
        let certificate: CertificateDer<'static> =
            params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Client { certificate: Some((vec![certificate], key)), ..Client::new(port) }
    }
}

/// Starts the program with `flags`, in which DIR stands for `directory`.
fn started(directory: &Path, port: u16, flags: &[&str]) -> Running {
    start(&arguments(directory, port, flags))
}

fn arguments(directory: &Path, port: u16, flags: &[&str]) -> Vec<String> {
    let folder = directory.display().to_string();
    let common = ["--orchconfig=DIR/admin.conf", "--leader-elect=false", "--log-flush-frequency=0"];
    let mut all: Vec<String> = common.iter().chain(flags).map(|flag| flag.replace("DIR", &folder)).collect();
    all.push(format!("--secure-port={port}"));
    all
}

async fn user_of(client: &Client, headers: &[(&str, &str)]) -> String {
    let answer = client.send("GET", "/metrics", headers, "").await;
    match answer.status {
        StatusCode::OK => "may".to_owned(),
        StatusCode::UNAUTHORIZED => "nobody".to_owned(),
        _ => {
            let status: Value = serde_json::from_str(&answer.body).unwrap();
            let message = status["message"].as_str().unwrap().to_owned();
            message.split('"').nth(1).unwrap().to_owned()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_headers_of_front_proxies_identify() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&directory.path().join("admin.conf"), &api.url());
    let (users, proxies) =
        (Authority::new(directory.path(), "users"), Authority::new(directory.path(), "proxies"));
    let port = free_port();
    let flags = [
        "--client-ca-file=DIR/users.pem",
        "--requestheader-client-ca-file=DIR/proxies.pem",
        "--requestheader-allowed-names=front",
        "--requestheader-username-headers=x-user",
        "--requestheader-group-headers=x-group",
        "--requestheader-extra-headers-prefix=x-more-",
        "--authorization-orchconfig=DIR/admin.conf",
    ];
    let _running = started(directory.path(), port, &flags);
    let named = [("x-user", "bob"), ("x-group", "g"), ("x-more-scopes", "s")];
    let front = proxies.client(port, "front", "x");
    assert_eq!(user_of(&users.client(port, "alice", "people"), &[]).await, "alice");
    assert_eq!(user_of(&users.client(port, "root", "system:masters"), &[]).await, "may");
    assert_eq!(user_of(&front, &named).await, "bob");
    // Events are sent meanwhile.
    let is_of_bob = |(_, body): &&(_, Value)| body["spec"]["user"] == "bob";
    let last = api.asked.lock().iter().rfind(is_of_bob).expect("it was asked").1["spec"].clone();
    assert_eq!(last["groups"], json!(["g", "system:authenticated"]));
    assert_eq!(last["extra"], json!({"scopes": ["s"]}));
    assert_eq!(user_of(&front, &[("x-user", "bob"), ("x-group", "system:masters")]).await, "may");
    assert_eq!(
        user_of(&proxies.client(port, "other", "x"), &named).await,
        "nobody",
        "its name is not allowed"
    );
    assert_eq!(
        user_of(&users.client(port, "alice", "people"), &named).await,
        "alice",
        "only proxies name others"
    );
    assert_eq!(user_of(&Client::new(port), &named).await, "system:anonymous");
    assert_eq!(
        user_of(&front, &[("x-remote-user", "bob")]).await,
        "nobody",
        "another header than the flag's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_no_front_proxys_is_not_anonymous() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&directory.path().join("admin.conf"), &api.url());
    let (proxies, others) =
        (Authority::new(directory.path(), "proxies"), Authority::new(directory.path(), "others"));
    let port = free_port();
    let flags = ["--requestheader-client-ca-file=DIR/proxies.pem", "--requestheader-allowed-names=front"];
    let _running = started(directory.path(), port, &flags);
    for client in [proxies.client(port, "other", "x"), others.client(port, "front", "x")] {
        assert_eq!(client.get("/metrics", None).await.status, StatusCode::UNAUTHORIZED);
        assert_eq!(client.get("/healthz", None).await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(user_of(&proxies.client(port, "front", "x"), &[]).await, "system:anonymous");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_for_the_times_of_the_flags() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&directory.path().join("admin.conf"), &api.url());
    let reviews = ["--authentication-orchconfig=DIR/admin.conf", "--authorization-orchconfig=DIR/admin.conf"];
    for (flags, tokens, access) in [
        (&[][..], 1, 2),
        (&["--authentication-token-webhook-cache-ttl=0s"], 4, 2),
        (&["--authorization-webhook-cache-authorized-ttl=0s"], 1, 3),
        (&["--authorization-webhook-cache-unauthorized-ttl=0s"], 1, 3),
    ] {
        let port = free_port();
        let flags: Vec<&str> = reviews.iter().chain(flags).copied().collect();
        let _running = started(directory.path(), port, &flags);
        api.asked.lock().clear();
        for _ in 0..2 {
            let client = Client::new(port);
            assert_eq!(client.get("/version", Some("alice-token")).await.status, StatusCode::NOT_FOUND);
            assert_eq!(client.get("/metrics", Some("alice-token")).await.status, StatusCode::FORBIDDEN);
        }
        assert_eq!(api.count("tokenreviews"), tokens, "{flags:?}");
        assert_eq!(api.count("subjectaccessreviews"), access, "{flags:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_are_looked_up_unless_that_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&directory.path().join("admin.conf"), &api.url());
    let users = Authority::new(directory.path(), "users");
    let reviews = ["--authentication-orchconfig=DIR/admin.conf"];
    *api.config_map.lock() = Some(json!({"client-ca-file": users.pem}));
    for (flag, expected) in [
        ("--authentication-skip-lookup=false", "alice"),
        ("--authentication-skip-lookup", "system:anonymous"),
    ] {
        let port = free_port();
        let _running = started(directory.path(), port, &[reviews[0], flag]);
        assert_eq!(user_of(&users.client(port, "alice", "people"), &[]).await, expected, "{flag}");
    }
    *api.config_map.lock() = None;
    let port = free_port();
    let tolerant = started(directory.path(), port, &reviews);
    assert_eq!(user_of(&users.client(port, "alice", "people"), &[]).await, "system:anonymous");
    drop(tolerant);
    let strict = [reviews[0], "--authentication-tolerate-lookup-failure=false"];
    let arguments = arguments(directory.path(), free_port(), &strict);
    let ended = tokio::task::spawn_blocking(move || run(&arguments)).await.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("err=unable to look up authorities of clients: "), "{}", ended.stderr);
    assert!(users.file.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_asked_of_any_address_with_any_credentials_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&directory.path().join("admin.conf"), &api.url());
    let login = directory.path().join("login");
    let printed = "{\"apiVersion\": \"client.authentication.x/v1\", \"kind\": \"ExecCredential\", \"status\": \
                   {\"token\": \"scheduler-token\"}}";
    std::fs::write(&login, format!("#!/bin/sh\necho '{printed}'\n")).unwrap();
    std::fs::set_permissions(&login, PermissionsExt::from_mode(0o700)).unwrap();
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:1,{}\"}}}}]\n\
         users: [{{name: u, user: {{exec: {{apiVersion: client.authentication.x/v1, command: ./login, \
         interactiveMode: Never}}}}}}]\n",
        api.url()
    );
    std::fs::write(directory.path().join("reviews.conf"), text).unwrap();
    let port = free_port();
    let flags =
        ["--authentication-orchconfig=DIR/reviews.conf", "--authorization-orchconfig=DIR/reviews.conf"];
    let _running = started(directory.path(), port, &flags);
    let client = Client::new(port);
    assert_eq!(client.get("/metrics", Some("admin-token")).await.status, StatusCode::OK);
    assert_eq!(client.get("/metrics", Some("alice-token")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_server_that_is_down_lets_nobody_in() {
    let directory = tempfile::tempdir().unwrap();
    write_client_config(&directory.path().join("admin.conf"), "http://127.0.0.1:1");
    let port = free_port();
    let flags = ["--authentication-orchconfig=DIR/admin.conf", "--authorization-orchconfig=DIR/admin.conf"];
    let _running = started(directory.path(), port, &flags);
    let client = Client::new(port);
    assert_eq!(client.get("/metrics", Some("admin-token")).await.status, StatusCode::UNAUTHORIZED);
    let failed = client.get("/metrics?a=b&c=d", None).await;
    assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
    let expected = "Internal Server Error: \"/metrics?a=b&amp;c=d\": ";
    assert!(failed.body.starts_with(expected), "{}", failed.body);
    assert_eq!(client.get("/healthz", None).await.body, "ok");
}
