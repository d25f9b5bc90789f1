//! Valid and malformed client configurations; results and views of changes.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use orch_proto::brand::ORCH;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::access::{Access, Source, config_for, read};
use super::command::{carry_out, is_shown, result};
use crate::certs::{Authority, admin_leaf, server_leaf};
use crate::cli::{Cli, ClusterAct, ClusterCommand, Command, parse as parse_line};
use crate::kubeconfig::{Server, kubeconfig};

fn config() -> String {
    let now = time::OffsetDateTime::now_utc();
    let authority = Authority::create("ca", now).unwrap();
    let admin = authority.issue(&admin_leaf(), now).unwrap();
    let server = |name: &str, url: &str| Server { name: name.to_owned(), url: url.to_owned() };
    let servers = [server("a", "https://10.0.0.1:6443"), server("b", "https://[fd00::2]:6443/")];
    kubeconfig(&orch_proto::brand::ORCH, "admin", &servers, &authority.pair.certificate, &admin)
}

/// Result of a file with `text`, or the reason of its refusal.
fn parse(text: &str) -> Result<Access, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, text).unwrap();
    let prefix = format!("{}: ", path.display());
    read(&Source::of(Some(&path), None)).map_err(|error| error.to_string().replace(&prefix, ""))
}

fn changed(change: impl Fn(&mut Value)) -> Result<Access, String> {
    let mut value = serde_json::from_str(&config()).unwrap();
    change(&mut value);
    parse(&value.to_string())
}

#[test]
fn our_own_configurations_are_read() {
    assert_eq!(parse(&config()).unwrap().servers, ["10.0.0.1:6443", "[fd00::2]:6443"]);
}

#[test]
fn members_that_a_configuration_lacks_are_named() {
    for (from, to, expected) in [
        (
            "https://10.0.0.1",
            "http://10.0.0.1",
            "server \"http://10.0.0.1:6443\" of cluster \"orch-a\" is not an https:// address",
        ),
        ("certificate-authority-data", "authority", "certificate-authority-data is missing"),
        ("client-key-data\": \"", "client-key-data\": \"!", "client-key-data is not base64"),
        ("client-key-data", "no-key", "user \"admin\" has a client certificate and no key"),
        ("\"users\"", "\"nobody\"", "context \"orch-a\": there is no user \"admin\""),
        ("\"clusters\"", "\"nothing\"", "it names no cluster"),
        ("\"current-context\"", "\"other\"", "current-context is missing"),
    ] {
        assert_eq!(parse(&config().replace(from, to)).unwrap_err(), expected, "{from} -> {to}");
    }
    assert!(parse("{").unwrap_err().starts_with("not a client configuration"));
}

#[test]
fn only_servers_of_the_same_cluster_and_user_are_asked() {
    let foreign = |config: &mut Value| {
        config["clusters"][1]["cluster"]["certificate-authority-data"] = json!("AAAA");
    };
    assert_eq!(changed(foreign).unwrap().servers, ["10.0.0.1:6443"], "another authority");
    let of_another = |config: &mut Value| config["contexts"][1]["context"]["user"] = json!("eve");
    assert_eq!(changed(of_another).unwrap().servers, ["10.0.0.1:6443"], "another user");
    let current = |config: &mut Value| config["current-context"] = json!("orch-b");
    assert_eq!(
        changed(current).unwrap().servers,
        ["[fd00::2]:6443", "10.0.0.1:6443"],
        "the current context first"
    );
}

#[test]
fn a_named_server_is_asked_alone_and_the_others_of_the_configuration_after_a_change() {
    let mut access = parse(&config()).unwrap();
    access.prefer(&[]);
    assert_eq!(access.all_servers(), ["10.0.0.1:6443", "[fd00::2]:6443"]);
    access.prefer(&["[fd00::2]:6443".to_owned()]);
    assert_eq!(access.servers, ["[fd00::2]:6443"]);
    assert_eq!(access.all_servers(), ["[fd00::2]:6443", "10.0.0.1:6443"]);
}

#[test]
fn credentials_may_be_files_beside_the_configuration_or_a_token() {
    use base64::Engine;
    let directory = tempfile::tempdir().unwrap();
    let mut value: Value = serde_json::from_str(&config()).unwrap();
    let decoded =
        |value: &Value| base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap();
    for (entry, name) in [
        ("/clusters/0/cluster", "certificate-authority"),
        ("/users/0/user", "client-certificate"),
        ("/users/0/user", "client-key"),
    ] {
        let entry = value.pointer_mut(entry).unwrap();
        std::fs::write(directory.path().join(name), decoded(&entry[format!("{name}-data")])).unwrap();
        entry[format!("{name}-data")] = Value::Null;
        entry[name] = json!(name);
    }
    let path = directory.path().join("config");
    let access = |value: &Value| {
        std::fs::write(&path, value.to_string()).unwrap();
        read(&Source::of(None, Some(path.as_os_str())))
    };
    assert_eq!(
        access(&value).unwrap().servers.len(),
        2,
        "an authority may be a file in one entry and data in the other"
    );
    value["users"][0]["user"] = json!({"token": "canary-1"});
    let with_token = access(&value).unwrap();
    assert_eq!(with_token.token.as_ref().unwrap(), "Bearer canary-1");
    assert!(!format!("{with_token:?}").contains("canary"), "it is not printed");
    value["users"][0]["user"] = json!({"exec": {"command": "x"}});
    assert!(access(&value).unwrap_err().to_string().contains("neither a client certificate nor a token"));
}

#[test]
fn the_variable_names_files_of_which_some_may_be_absent() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("none"), directory.path().join("config"));
    std::fs::write(&second, config()).unwrap();
    let both = std::env::join_paths([&first, &second]).unwrap();
    assert_eq!(read(&Source::of(None, Some(&both))).unwrap().servers.len(), 2);
    assert!(read(&Source::of(Some(&second), Some(OsStr::new("/none")))).is_ok(), "the flag comes first");
    for (flag, variable, expected) in [
        (None, Some(first.as_os_str()), "KUBECONFIG: cannot read "),
        (Some(Path::new("/none")), None, "--kubeconfig: cannot read /none"),
        (
            None,
            Some(OsStr::new("")),
            "without --kubeconfig and KUBECONFIG: cannot read ./orch-data/admin.conf",
        ),
    ] {
        let error = read(&Source::of(flag, variable)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

fn command(line: &str) -> ClusterCommand {
    let Cli { command } = parse_line(line.split_whitespace().map(Into::into).collect()).unwrap();
    let Command::Cluster(ClusterAct::Running(command)) = command else { panic!("{line}") };
    command
}

#[test]
fn a_change_is_told_and_then_looked_for() {
    let view = |leader: Value, changing: bool, d: &str| {
        let mut members = vec![json!({"name": "a", "role": "voter", "address": "10.0.0.1:6444"})];
        if !d.is_empty() {
            members.push(json!({"name": "d", "role": d}));
        }
        json!({"name": "a", "leader": leader, "changing": changing, "members": members})
    };
    let (without, learner, voter) =
        (view(json!("a"), false, ""), view(json!("a"), false, "learner"), view(json!("d"), false, "voter"));
    for (line, shown, not_shown, told) in [
        ("orch cluster found", &voter, &view(Value::Null, false, "voter"), "founded the cluster of a, d"),
        ("orch cluster promote d", &voter, &learner, "d has a vote"),
        ("orch cluster remove d", &without, &voter, "removed d"),
        ("orch cluster transfer-leader d", &voter, &learner, "the lead goes to d"),
        (
            "orch cluster undo",
            &voter,
            &view(json!("a"), true, "voter"),
            "the change of the voters is taken back",
        ),
    ] {
        let command = command(line);
        assert!(is_shown(&command, shown) && !is_shown(&command, not_shown), "{line}");
        assert_eq!(result(&command, shown), told);
    }
    let own =
        json!({"name": "d", "leader": "a", "changing": false, "members": [{"name": "a", "role": "voter"}]});
    assert!(!is_shown(&command("orch cluster remove d"), &own), "the removed member itself");
    let add = command("orch cluster add d 10.0.0.4:6444");
    assert!(is_shown(&add, &learner) && !is_shown(&add, &without));
    let told = result(&add, &learner);
    assert!(told.contains("--name d --join 10.0.0.1:6444 --peer-address 10.0.0.4:6444"), "{told}");
}

#[test]
fn a_configuration_for_another_user_has_the_servers_and_none_of_the_administrator_s_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.conf");
    let admin = config();
    // An authority in a file beside it, and a context of another user, which is left out.
    let mut value: Value = serde_json::from_str(&admin).unwrap();
    let authority =
        value["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap().to_owned();
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &authority).unwrap();
    std::fs::write(directory.path().join("ca.crt"), pem).unwrap();
    let fields = value["clusters"][0]["cluster"].as_object_mut().unwrap();
    fields.remove("certificate-authority-data");
    fields.insert("certificate-authority".to_owned(), json!("ca.crt"));
    fields.insert("insecure-skip-tls-verify".to_owned(), json!(true));
    let other = json!({"name": "other", "context": {"cluster": "orch-a", "user": "someone"}});
    value["contexts"].as_array_mut().unwrap().push(other);
    std::fs::write(&path, value.to_string()).unwrap();
    let source = Source::of(Some(&path), None);
    let text = config_for(&source, "shop-till", &json!({"token": "t"})).unwrap();
    let made: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parse(&text).unwrap().servers, ["10.0.0.1:6443", "[fd00::2]:6443"]);
    assert_eq!(made["clusters"][0]["cluster"]["certificate-authority-data"], authority.as_str());
    assert_eq!(made["clusters"][0]["cluster"].get("insecure-skip-tls-verify"), None);
    assert_eq!(made["users"], json!([{"name": "shop-till", "user": {"token": "t"}}]));
    let contexts = made["contexts"].as_array().unwrap();
    assert_eq!(contexts.len(), 2);
    assert!(contexts.iter().all(|context| context["context"]["user"] == "shop-till"));
    assert_eq!(made["current-context"], "orch-a");
}

/// Starts a server of `authority` that answers each request with `answer`, or else ends the connection when it has read one. Returns
/// its address.
async fn serve(authority: &Authority, answer: Option<Value>) -> String {
    let pair = authority.issue(&server_leaf("a", &[], &ORCH), time::OffsetDateTime::now_utc()).unwrap();
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            if let Some(answer) = &answer {
                let text = answer.to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
                stream.write_all((head + &text).as_bytes()).await.unwrap();
            }
            // The client may be gone.
            let _ = stream.shutdown().await;
        }
    });
    address
}

#[tokio::test]
async fn a_removal_whose_answer_is_lost_is_looked_for_at_the_other_servers() {
    let now = time::OffsetDateTime::now_utc();
    let authority = Authority::create("ca", now).unwrap();
    let admin = authority.issue(&admin_leaf(), now).unwrap();
    let member = json!({"name": "b", "address": "h:1", "role": "voter", "state": "up"});
    let view = json!({"name": "b", "leader": "b", "changing": false, "members": [member]});
    let (asked, other) = (serve(&authority, None).await, serve(&authority, Some(view)).await);
    let server = |name: &str, at: &str| Server { name: name.to_owned(), url: format!("https://{at}") };
    let servers = [server("a", &asked), server("b", &other)];
    let mut access =
        parse(&kubeconfig(&ORCH, "admin", &servers, &authority.pair.certificate, &admin)).unwrap();
    access.prefer(&[asked]);
    let mut out = Vec::new();
    carry_out(&command("orch cluster remove a"), &access, &mut out).await.unwrap();
    let told = String::from_utf8(out).unwrap();
    assert!(told.starts_with("removed a\n") && told.contains("leader b"), "{told}");
    // No other change ends the member that was asked: its outcome is unknown.
    let told = carry_out(&command("orch cluster promote a"), &access, &mut Vec::new())
        .await
        .unwrap_err()
        .to_string();
    assert!(told.contains("orch cluster status"), "{told}");
}
