//! Plans made of flags, and refusals before any port or store is opened.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use orch_serving::Causes;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::certs::{self, Client};
use crate::cli::{Cli, Command, parse};

fn command(line: &str) -> Command {
    let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
    command
}

fn dev(flags: &str) -> Result<Plan, RunError> {
    match command(&format!("orch dev {flags}")) {
        Command::Dev(arguments) => plan_dev(&arguments),
        other => panic!("{other:?}"),
    }
}

fn serve(flags: &str) -> Result<Plan, RunError> {
    match command(&format!("orch serve {flags}")) {
        Command::Serve(arguments) => plan_serve(&arguments),
        other => panic!("{other:?}"),
    }
}

fn refused(plan: Result<Plan, RunError>, expected: &str) {
    let error = Causes(&plan.expect_err(expected)).to_string();
    assert!(error.contains(expected), "{error:?} does not say {expected:?}");
}

fn certificates(directory: &Path) -> String {
    let line = format!("orch certs init --dir {} --member a=127.0.0.1", directory.display());
    let Command::Certs(crate::cli::CertsCommand::Init(arguments)) = command(&line) else { panic!("{line}") };
    certs::init(&arguments, time::OffsetDateTime::now_utc()).unwrap();
    format!("--certs-dir {}", directory.display())
}

#[test]
fn a_development_directory_is_made_once_and_reused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = format!("--data-dir {} --secure-port 0", data.display());
    let plan = dev(&flags).unwrap();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let before =
        (read(&plan.tls.certificate), read(&plan.tls.client_authorities), read(&plan.peer_tls.certificate));
    assert_eq!(std::fs::metadata(&plan.tls.key).unwrap().permissions().mode() & 0o777, 0o600);
    let plan = dev(&flags).unwrap();
    let after =
        (read(&plan.tls.certificate), read(&plan.tls.client_authorities), read(&plan.peer_tls.certificate));
    assert!(before == after);
    crate::tls::Reloader::load(plan.tls.clone()).unwrap();
}

#[test]
fn a_certificate_that_lacks_a_name_is_made_anew_under_the_same_authority() {
    let directory = tempfile::tempdir().unwrap();
    let flags = format!("--data-dir {}", directory.path().display());
    let plan = dev(&flags).unwrap();
    let authority = std::fs::read(&plan.tls.client_authorities).unwrap();
    let plan = dev(&format!("{flags} --bind-address 127.0.0.7")).unwrap();
    let facts = certs::inspect(&plan.tls.certificate).unwrap();
    assert!(facts[0].hosts.iter().any(|host| host == "127.0.0.7"), "{:?}", facts[0].hosts);
    assert!(std::fs::read(&plan.tls.client_authorities).unwrap() == authority);
}

#[test]
fn a_key_left_without_its_certificate_gets_a_new_pair() {
    let directory = tempfile::tempdir().unwrap();
    let flags = format!("--data-dir {}", directory.path().display());
    let plan = dev(&flags).unwrap();
    // The order of a renewal is key, then certificate; the process ended between the two.
    std::fs::copy(&plan.peer_tls.key, &plan.tls.key).unwrap();
    crate::tls::Reloader::load(plan.tls).unwrap_err();
    crate::tls::Reloader::load(dev(&flags).unwrap().tls).unwrap();
}

#[test]
fn the_client_configuration_follows_the_port() {
    let directory = tempfile::tempdir().unwrap();
    dev(&format!("--data-dir {}", directory.path().display())).unwrap();
    for port in [1111, 2222] {
        let url = format!("https://127.0.0.1:{port}");
        dev::write_client_configs(directory.path(), &orch_proto::brand::ORCH, &url).unwrap();
        for client in Client::ALL {
            let path = dev::client_config(directory.path(), client);
            let config: serde_json::Value =
                serde_norway::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert_eq!(config["clusters"][0]["cluster"]["server"], url);
            assert_eq!(config["users"][0]["name"], client.name());
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

#[test]
fn other_peoples_directories_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.tex"), "mine").unwrap();
    refused(
        dev(&format!("--data-dir {}", directory.path().display())),
        "holds other files and no data of this program",
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    let file = directory.path().join("thesis.tex");
    refused(dev(&format!("--data-dir {}", file.display())), "--data-dir: cannot read");
    refused(dev("--data-dir /proc/nowhere"), "--data-dir: cannot make /proc/nowhere");
}

#[test]
fn dev_ports_are_on_the_loopback_interface() {
    let directory = tempfile::tempdir().unwrap();
    let flags = format!("--data-dir {} --no-scheduler", directory.path().display());
    let plan = dev(&format!("{flags} --bind-address 0.0.0.0 --insecure-port 8099")).unwrap();
    let socket = directory.path().join("orch.sock");
    let kind = |plain: Option<u16>| Kind::Dev {
        socket: socket.clone(),
        plain: plain.map(|port| ([127, 0, 0, 1], port).into()),
        scheduler: Scheduler::Unwanted,
    };
    assert_eq!(plan.kind, kind(Some(8099)));
    assert_eq!((plan.secure.to_string().as_str(), plan.advertise.as_str()), ("0.0.0.0:6443", "127.0.0.1"));
    assert_eq!(dev(&format!("{flags} --insecure-port 0")).unwrap().kind, kind(Some(0)));
    let plan = dev(&flags).unwrap();
    assert_eq!((plan.kind, plan.peer_listen), (kind(None), None), "no port is open that was not asked for");
    let listen = dev(&format!("{flags} --peer-port 7000")).unwrap().peer_listen;
    assert_eq!(listen.as_deref(), Some("127.0.0.1:7000"));
}

#[test]
fn the_scheduler_of_a_development_node_lies_beside_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let plan = dev(&format!("--data-dir {}", directory.path().display())).unwrap();
    let Kind::Dev { scheduler: Scheduler::Missing(path), .. } = plan.kind else { panic!("{:?}", plan.kind) };
    // There is none beside the program that runs this test.
    assert_eq!(path, std::env::current_exe().unwrap().with_file_name("scheduler"));
}

#[test]
fn serve_asks_for_what_it_lacks() {
    let directory = tempfile::tempdir().unwrap();
    let certs = certificates(directory.path());
    refused(serve(""), "--name is missing");
    refused(serve("--name a"), "--certs-dir is missing");
    refused(serve(&format!("--name a {certs}")), "--initial-cluster is missing");
    refused(
        serve("--name a --certs-dir /nonexistent --initial-cluster a=h:1"),
        "there is no directory /nonexistent",
    );
    refused(
        serve(&format!("--name z {certs} --initial-cluster a=h:1")),
        "names a but not this member, --name z",
    );
    refused(serve(&format!("--name z {certs} --initial-cluster z=h:1")), "holds no member z");
    refused(serve(&format!("--name a {certs} --join h:1")), "--peer-address is missing");
    refused(
        serve(&format!("--name a {certs} --join h:1 --peer-address 0.0.0.0:1")),
        "--advertise-address is missing",
    );
    refused(
        serve(&format!("--name a {certs} --initial-cluster a=h:1 --tls-cert-file x")),
        "--tls-cert-file and --tls-private-key-file go together",
    );
    refused(
        serve(&format!("--name a {certs} --initial-cluster a=h:1 --token-auth-file /nonexistent")),
        "--token-auth-file: cannot read /nonexistent",
    );
}

#[test]
fn serve_finds_addresses_and_files() {
    let directory = tempfile::tempdir().unwrap();
    let certs = certificates(directory.path());
    let plan = serve(&format!("--name a {certs} --initial-cluster a=10.0.0.1:1,b=10.0.0.2:1")).unwrap();
    let listen = plan.peer_listen.as_deref().unwrap();
    let peers = (listen, plan.peer_advertise.as_str(), plan.advertise.as_str());
    assert_eq!(peers, ("10.0.0.1:1", "10.0.0.1:1", "10.0.0.1"));
    assert_eq!(plan.data_dir, Path::new("/var/lib/orch"));
    assert_eq!(plan.tls.certificate, directory.path().join("members/a/server.crt"));
    assert_eq!(plan.peer_tls.authority, directory.path().join("peer-ca.crt"));
    let flags = format!("--name a {certs} --initial-cluster a=[fd00::1]:1 --peer-address 0.0.0.0:1");
    let plan = serve(&flags).unwrap();
    let listen = plan.peer_listen.as_deref().unwrap();
    let peers = (listen, plan.peer_advertise.as_str(), plan.advertise.as_str());
    assert_eq!(peers, ("0.0.0.0:1", "[fd00::1]:1", "fd00::1"));
    let flags = format!("--name a {certs} --join h:1 --peer-address 0.0.0.0:7 --advertise-address fd00::1");
    assert_eq!(serve(&flags).unwrap().peer_advertise, "[fd00::1]:7");
}

#[test]
fn a_bad_token_file_is_named_with_its_line_and_without_its_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens.csv");
    std::fs::write(&path, "one,u,i\ncanary-secret,u\n").unwrap();
    let flags =
        format!("--data-dir {}/data --token-auth-file {}", directory.path().display(), path.display());
    let error = Causes(&dev(&flags).unwrap_err()).to_string();
    assert!(error.contains("tokens.csv: line 2: at least 3 columns"), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn peer_certificates_are_checked_before_anything_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let certs = certificates(directory.path());
    let plan = serve(&format!("--name a {certs} --initial-cluster a=127.0.0.1:0")).unwrap();
    store::peer_tls(&plan).unwrap();
    let renamed = directory.path().join("members/b");
    std::fs::rename(directory.path().join("members/a"), renamed).unwrap();
    let plan = serve(&format!("--name b {certs} --initial-cluster b=127.0.0.1:0")).unwrap();
    let error = Causes(&store::peer_tls(&plan).err().unwrap()).to_string();
    assert!(error.ends_with("the peer certificate names member a, but this member is b"), "{error}");
}

#[test]
fn a_quota_without_room_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = format!("--data-dir {} --secure-port 0", data.display());
    refused(dev(&format!("{flags} --disk-quota 1Mi")), "--disk-quota: 1Mi leaves no room");
    refused(dev(&format!("{flags} --disk-quota 100Mi --disk-reserve 60Mi")), "120Mi is needed");
    assert!(!data.exists());
    let space = dev(&format!("{flags} --disk-quota 144Mi --disk-reserve 48Mi")).unwrap().space;
    assert_eq!((space.reserve_bytes, space.quota_bytes), (48 << 20, Some(144 << 20)));
}

#[test]
fn a_brand_other_than_that_of_the_data_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let certs = certificates(&directory.path().join("certs"));
    let data = directory.path().join("data");
    brand::record(&data, "kubernetes").unwrap();
    // Marks the directory as this program's.
    std::fs::create_dir(data.join("store")).unwrap();
    let before = std::fs::read_dir(&data).unwrap().count();
    let flags = format!("--data-dir {}", data.display());
    let expected = "--brand orch: this cluster was made with --brand kubernetes";
    refused(dev(&format!("{flags} --brand orch")), expected);
    refused(serve(&format!("{flags} --name a {certs} --initial-cluster a=h:1 --brand orch")), expected);
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), before);
    let serving = serve(&format!("{flags} --name a {certs} --initial-cluster a=h:1")).unwrap();
    let plan = dev(&flags).unwrap();
    for brand in [serving.brand, plan.brand] {
        assert_eq!(brand.map(|brand| brand.name), Some("kubernetes"), "the brand of the data counts");
    }
    let hosts = &certs::inspect(&plan.tls.certificate).unwrap()[0].hosts;
    assert!(hosts.iter().any(|host| host == "kubernetes"), "the brand of the data is taken up: {hosts:?}");
    dev(&format!("{flags} --brand kubernetes")).unwrap();
}

#[test]
fn a_directory_too_deep_for_a_socket_is_refused_with_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("d".repeat(120));
    let plan = dev(&format!("--data-dir {}", data.display()));
    assert!(matches!(&plan, Err(error) if error.is_usage()), "{plan:?}");
    refused(plan, "and the path of a Unix socket at most 107; choose a shorter path");
    assert!(!data.exists());
}

#[test]
fn tokens_are_signed_by_the_key_of_the_directory_or_of_the_flag() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let flags = format!("--data-dir {} --secure-port 0", data.display());
    let id = |plan: &Plan| plan.service_accounts.keys.signer().map(|signer| signer.key().id().to_owned());
    let first = dev(&flags).unwrap();
    let key = data.join("pki/service-account.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(id(&first).is_some());
    assert_eq!(id(&dev(&flags).unwrap()), id(&first), "it is made once");
    let certificates = certificates(&directory.path().join("certs"));
    let member = "--name a --initial-cluster a=127.0.0.1:1";
    let other = serve(&format!("{member} {certificates}")).unwrap();
    assert!(id(&other).is_some() && id(&other) != id(&first));
    let named = format!("--service-account-signing-key-file {}", key.display());
    let plan = serve(&format!("{member} {certificates} {named}")).unwrap();
    assert_eq!(id(&plan), id(&first));
    std::fs::remove_file(directory.path().join("certs/service-account.key")).unwrap();
    let keyless = format!("--service-account-key-file {}", key.display());
    let plan = serve(&format!("{member} {certificates} {keyless}")).unwrap();
    let verifying = plan.service_accounts.keys.verifying().iter().map(|key| key.id().to_owned());
    assert_eq!((id(&plan), verifying.collect::<Vec<_>>()), (None, vec![id(&first).unwrap()]));
}

#[test]
fn flags_of_tokens_and_plugins_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let plan = |flags: &str| dev(&format!("--data-dir {} --secure-port 0 {flags}", data.display()));
    let issuers = "--service-account-issuer https://a --service-account-issuer https://b";
    let planned = plan(issuers).unwrap().service_accounts;
    assert_eq!(
        (planned.issuers, planned.audiences),
        (vec!["https://a".into(), "https://b".into()], vec!["https://a".to_owned()])
    );
    let planned = plan("--api-audiences x,y").unwrap().service_accounts;
    assert_eq!(planned.audiences, ["x", "y"]);
    assert!(planned.extends_mounted && !planned.accepts_bootstrap_tokens && planned.life_s_max.is_none());
    let planned = plan("--service-account-max-token-expiration 2h").unwrap().service_accounts;
    assert_eq!(planned.life_s_max, Some(7200));
    for (flags, expected) in [
        ("--service-account-issuer a:b", "--service-account-issuer: \"a:b\""),
        ("--service-account-jwks-uri http://a/keys", "--service-account-jwks-uri"),
        ("--service-account-max-token-expiration 30m", "--service-account-max-token-expiration"),
        ("--service-account-key-file /nonesuch", "cannot read /nonesuch"),
        ("--root-ca-file /nonesuch", "--root-ca-file"),
        ("--root-ca-file /dev/null", "--root-ca-file: cannot read /dev/null: it is no regular file"),
        (
            concat!("--root-ca-file ", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "/Cargo.toml\" is no file of certificates",
        ),
        (
            "--disable-admission-plugins Nonesuch",
            "--disable-admission-plugins: there is no admission plugin \"Nonesuch\"",
        ),
    ] {
        refused(plan(flags), expected);
    }
}

#[test]
fn configurations_of_access_are_checked_before_anything_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, kind: &str, text: &str| {
        let path = directory.path().join(name);
        let head = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: {kind}\n");
        std::fs::write(&path, format!("{head}{text}\n")).unwrap();
        path.display().to_string()
    };
    let flags = format!("--data-dir {} --secure-port 0", directory.path().join("data").display());
    let (authorization, authentication) = ("AuthorizationConfiguration", "AuthenticationConfiguration");
    let no_name = write("1.yaml", authorization, "authorizers: [{type: RBAC}]");
    refused(dev(&format!("{flags} --authorization-config {no_name}")), "authorizers[0].name: Required value");
    let good = write("2.yaml", authorization, "authorizers: [{type: RBAC, name: a}]");
    dev(&format!("{flags} --authorization-config {good}")).unwrap();
    let both = format!("{flags} --authorization-config {good} --authorization-mode RBAC");
    refused(dev(&both), "--authorization-config can not be specified when");
    let anonymous =
        write("3.yaml", authentication, "anonymous: {enabled: true, conditions: [{path: /livez}]}");
    dev(&format!("{flags} --authentication-config {anonymous}")).unwrap();
    let twice = format!("{flags} --authentication-config {anonymous} --anonymous-auth=true");
    refused(dev(&twice), "--anonymous-auth flag cannot be set");
    let plain = write("4.yaml", authentication, "jwt: [{issuer: {url: 'http://a.example', audiences: [a]}}]");
    refused(dev(&format!("{flags} --authentication-config {plain}")), "URL scheme must be https");
    let missing =
        format!("{flags} --authentication-token-webhook-config-file {}/none", directory.path().display());
    refused(dev(&missing), "--authentication-token-webhook-config-file");
    let issuer = format!("{flags} --oidc-issuer-url http://a.example --oidc-client-id a");
    refused(dev(&issuer), "URL scheme must be https");
    refused(
        serve(&format!(
            "{} --name a --join h:1 --peer-address h:2 --authorization-mode AlwaysAllow",
            certificates(&directory.path().join("certs"))
        )),
        "a member of a cluster never allows every request",
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_authority_of_the_servers_is_published_and_a_broken_file_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let planned = |name: &str| {
        let data = directory.path().join(name);
        dev(&format!("--data-dir {} --secure-port 0", data.display())).unwrap().service_accounts
    };
    let (own, other) = (planned("own"), planned("other"));
    let path = own.root_ca_file.clone();
    let write = |text: &str, second: u64| {
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        // Virtual time passes without the clock of the disk.
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second)).unwrap();
    };
    let mut authority = own.follow_root_ca(CancellationToken::new());
    assert_eq!(*authority.borrow_and_update(), own.root_ca);
    let minute = || tokio::time::sleep(std::time::Duration::from_secs(60));
    minute().await;
    let both = format!("{}{}", own.root_ca, other.root_ca);
    write(&both, 1);
    minute().await;
    assert_eq!(*authority.borrow_and_update(), both, "two authorities, side by side");
    write("-----BEGIN CERTIFICATE-----\nAAAA", 2);
    minute().await;
    assert!(!authority.has_changed().unwrap(), "a half-written file");
    write(&other.root_ca, 3);
    minute().await;
    assert_eq!(*authority.borrow_and_update(), other.root_ca);
}

#[test]
fn a_file_of_nonsense_is_refused_by_the_name_of_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let nonsense = directory.path().join("nonsense");
    std::fs::write(&nonsense, "nonsense\n").unwrap();
    let nonsense = nonsense.display();
    let checked = |flags: &str| -> Result<(), RunError> {
        let data = directory.path().join("data");
        let plan = dev(&format!("--data-dir {} --secure-port 0 {flags}", data.display()))?;
        crate::tls::Reloader::load(plan.tls.clone()).map_err(|source| plan.material(source))?;
        super::store::peer_tls(&plan).map(|_| ())
    };
    checked("").unwrap();
    let signer = |name: &str| {
        (format!("cluster-signing-{name}cert-file"), format!("--cluster-signing-{name}key-file="))
    };
    let signers = ["", "kube-apiserver-client-", "kubelet-client-", "kubelet-serving-", "legacy-unknown-"];
    let signers = signers.map(signer).map(|(flag, key)| (flag, format!("{key}{nonsense}")));
    let others = [
        ("admission-control-config-file", String::new()),
        ("audit-policy-file", String::new()),
        ("audit-webhook-config-file", String::new()),
        ("authentication-config", String::new()),
        ("authentication-token-webhook-config-file", String::new()),
        ("authorization-config", String::new()),
        ("authorization-webhook-config-file", "--authorization-mode=Webhook".to_owned()),
        ("client-ca-file", String::new()),
        ("client-crl-file", String::new()),
        ("encryption-provider-config", String::new()),
        ("kubelet-certificate-authority", String::new()),
        ("kubelet-client-certificate", format!("--kubelet-client-key={nonsense}")),
        ("oidc-ca-file", "--oidc-issuer-url=https://i.example --oidc-client-id=c".to_owned()),
        ("peer-crl-file", String::new()),
        ("requestheader-client-ca-file", String::new()),
        ("root-ca-file", String::new()),
        ("service-account-key-file", String::new()),
        ("service-account-signing-key-file", String::new()),
        ("tls-cert-file", format!("--tls-private-key-file={nonsense}")),
        ("token-auth-file", String::new()),
    ];
    let others = others.map(|(flag, with)| (flag.to_owned(), with));
    for (flag, with) in signers.into_iter().chain(others) {
        let error = checked(&format!("--{flag}={nonsense} {with}")).expect_err(&flag);
        let text = orch_serving::Causes(&error).to_string();
        assert!(text.contains(&format!("--{flag}")), "{flag}: {text}");
    }
}
