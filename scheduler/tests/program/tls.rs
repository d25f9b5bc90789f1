//! TLS of the port: certificates by name, their reload, versions, suites, and streams.

use std::path::Path;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::https::Client;
use super::process::{Running, WAIT_MAX, free_port, run, start, write_client_config};

fn arguments(directory: &Path, port: u16, flags: &[&str]) -> Vec<String> {
    write_client_config(&directory.join("admin.conf"), "http://127.0.0.1:1");
    let folder = directory.display().to_string();
    let common = ["--orchconfig=DIR/admin.conf", "--leader-elect=false", "--log-flush-frequency=0"];
    let mut all: Vec<String> = common.iter().chain(flags).map(|flag| flag.replace("DIR", &folder)).collect();
    all.push(format!("--secure-port={port}"));
    all
}

fn started(directory: &Path, port: u16, flags: &[&str]) -> Running {
    start(&arguments(directory, port, flags))
}

/// Writes a pair for `name`, and returns its certificate.
fn write_pair(directory: &Path, file: &str, name: &str) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(directory.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    std::fs::write(directory.join(format!("{file}.crt")), certificate.pem()).unwrap();
    certificate.der().clone()
}

async fn served(port: u16, name: &'static str) -> CertificateDer<'static> {
    let client = Client { name, ..Client::new(port) };
    let stream = client.connect(&[]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_files_are_served_by_name_and_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let default = write_pair(dir, "default", "localhost");
    let named = write_pair(dir, "named", "a.test");
    let port = free_port();
    let flags = [
        "--tls-cert-file=DIR/default.crt",
        "--tls-private-key-file=DIR/default.key",
        "--tls-sni-cert-key=DIR/named.crt,DIR/named.key:*.test",
    ];
    let _running = started(dir, port, &flags);
    assert_eq!(served(port, "localhost").await, default);
    assert_eq!(served(port, "b.test").await, named);
    let renewed = write_pair(dir, "default", "localhost");
    let until = Instant::now() + WAIT_MAX;
    while served(port, "localhost").await != renewed {
        assert!(Instant::now() < until, "the renewed certificate is not served");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_is_saved_in_the_given_directory() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let first = started(directory.path(), port, &["--cert-dir=DIR/certs"]);
    let certificate = served(port, "localhost").await;
    drop(first);
    assert!(directory.path().join("certs/orch-scheduler.key").exists());
    let port = free_port();
    let _second = started(directory.path(), port, &["--cert-dir=DIR/certs"]);
    assert_eq!(served(port, "localhost").await, certificate);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_and_suites_are_those_of_the_flags() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let newest = started(directory.path(), port, &["--tls-min-version=VersionTLS13"]);
    let old = |port| Client { versions: vec![&TLS12], ..Client::new(port) };
    let new = |port| Client { versions: vec![&TLS13], ..Client::new(port) };
    assert!(old(port).connect(&[]).await.is_err());
    new(port).connect(&[]).await.unwrap();
    drop(newest);
    let port = free_port();
    let suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let _one = started(directory.path(), port, &[&format!("--tls-cipher-suites={suite}")]);
    let stream = old(port).connect(&[]).await.unwrap();
    let negotiated = stream.get_ref().1.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(format!("{negotiated:?}"), suite);
    new(port).connect(&[]).await.unwrap();
    let refused = arguments(directory.path(), free_port(), &["--tls-min-version=VersionTLS10"]);
    let ended = tokio::task::spawn_blocking(move || run(&refused)).await.unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("err=tls version \"VersionTLS10\" cannot be served"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_a_connection_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let mut limits = Vec::new();
    for flags in [&[][..], &["--http2-max-streams-per-connection=7"]] {
        let port = free_port();
        let _running = started(directory.path(), port, flags);
        let mut stream = Client::new(port).connect(&["h2"]).await.unwrap();
        // The preface and empty settings; the server answers with its own.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(head[3], 4, "settings come first: {head:?}");
        let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut settings).await.unwrap();
        let streams = settings.chunks(6).find(|setting| setting[..2] == [0, 3]);
        limits.push(streams.map(|setting| u32::from_be_bytes(setting[2..].try_into().unwrap())));
    }
    assert_eq!(limits[1], Some(7));
    assert_ne!(limits[0], Some(7));
}
