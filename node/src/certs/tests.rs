//! `orch certs`: files made, renewals, refusals.

mod users;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use time::{Duration, OffsetDateTime};

use super::*;
use crate::cli::{AddMembersArgs, BrandName, InitArgs, MemberSpec, RenewArgs, RotateArgs, RotationStep};

fn arguments(dir: &Path, members: &[(&str, &[&str])]) -> InitArgs {
    let members = members.iter().map(|(name, hosts)| MemberSpec {
        name: (*name).to_owned(),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
    });
    InitArgs {
        dir: dir.to_owned(),
        members: members.collect(),
        secure_port: 6443,
        brand: BrandName(&orch_proto::brand::ORCH),
        if_absent: false,
    }
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

fn made(members: &[(&str, &[&str])]) -> (tempfile::TempDir, Layout) {
    let directory = tempfile::tempdir().unwrap();
    init(&arguments(directory.path(), members), now()).unwrap();
    let layout = Layout::new(directory.path());
    (directory, layout)
}

#[test]
fn everything_a_cluster_needs_is_made_and_private() {
    let directory = tempfile::tempdir().unwrap();
    let members: [(&str, &[&str]); 2] = [("a", &["10.0.0.1"]), ("b", &["10.0.0.2", "b.example.com"])];
    let written = init(&arguments(directory.path(), &members), now()).unwrap();
    let names: Vec<_> =
        written.iter().map(|p| p.strip_prefix(directory.path()).unwrap().display().to_string()).collect();
    assert_eq!(
        names,
        [
            "ca.crt",
            "ca.key",
            "peer-ca.crt",
            "peer-ca.key",
            "service-account.key",
            "service-account.pub",
            "admin.crt",
            "admin.key",
            "admin.conf",
            "scheduler.crt",
            "scheduler.key",
            "scheduler.conf",
            "controller-manager.crt",
            "controller-manager.key",
            "controller-manager.conf",
            "members/a/server.crt",
            "members/a/server.key",
            "members/a/peer.crt",
            "members/a/peer.key",
            "members/b/server.crt",
            "members/b/server.key",
            "members/b/peer.crt",
            "members/b/peer.key",
        ]
    );
    for path in written {
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
}

#[test]
fn certificates_carry_their_names() {
    let (_directory, layout) = made(&[("b", &["10.0.0.2", "b.example.com", "fd00::2"])]);
    let facts = &inspect(&layout.member("b").server_certificate).unwrap()[0];
    for host in ["10.0.0.2", "b.example.com", "fd00::2", "localhost", "127.0.0.1", "orch.default.svc"] {
        assert!(facts.hosts.iter().any(|h| h == host), "{host} is not among {:?}", facts.hosts);
    }
    assert_eq!((facts.subject.as_str(), facts.issuer.as_str()), ("CN=b", "CN=cluster-ca"));
    let facts = &inspect(&layout.member("b").peer_certificate).unwrap()[0];
    assert_eq!((facts.hosts[0].as_str(), facts.issuer.as_str()), ("b.peer.orch", "CN=peer-ca"));
    let facts = &inspect(&layout.client(Client::Admin).certificate).unwrap()[0];
    assert_eq!(facts.subject, "O=system:masters, CN=system:admin");
}

#[test]
fn nothing_is_overwritten_and_nothing_half_made() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("admin.conf"), "mine").unwrap();
    let error = init(&arguments(directory.path(), &[("a", &["h"])]), now()).unwrap_err();
    let path = directory.path().join("admin.conf");
    assert_eq!(error.to_string(), format!("{} exists already and is not overwritten", path.display()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
}

#[test]
fn a_member_named_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = init(&arguments(directory.path(), &[("a", &["h"]), ("a", &["i"])]), now()).unwrap_err();
    assert_eq!(error.to_string(), "member a is named twice");
}

fn added(layout: &Layout, members: &[(&str, &[&str])]) -> Result<Vec<std::path::PathBuf>, CertsError> {
    let InitArgs { dir, members, brand, .. } = arguments(layout.root(), members);
    add_members(&AddMembersArgs { dir, members, secure_port: None, brand }, now())
}

#[test]
fn a_later_member_gets_its_certificates_under_the_same_authorities() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let written = added(&layout, &[("d", &["10.0.0.4", "d.example.com"])]).unwrap();
    let names: Vec<_> =
        written.iter().map(|p| p.strip_prefix(directory.path()).unwrap().display().to_string()).collect();
    let expected =
        ["server.crt", "server.key", "peer.crt", "peer.key"].map(|file| format!("members/d/{file}"));
    assert_eq!(
        names,
        [&expected[..], &["admin.conf", "scheduler.conf", "controller-manager.conf"].map(str::to_owned)]
            .concat()
    );
    assert!(is_trusted(&layout, "a") && is_trusted(&layout, "d"));
    let files = layout.member("d");
    for (certificate, authority) in [
        (files.server_certificate, layout.authority_certificate()),
        (files.peer_certificate, layout.peer_authority_certificate()),
    ] {
        let (facts, issuer) = (inspect(&certificate).unwrap(), inspect(&authority).unwrap());
        assert_eq!(facts[0].issuer, issuer[0].subject, "{}", certificate.display());
        assert!(facts[0].hosts.iter().any(|host| host == "d.example.com"), "{:?}", facts[0].hosts);
    }
}

#[test]
fn members_that_exist_or_are_named_twice_are_not_added_and_nothing_is_written() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let key = std::fs::read(layout.member("a").server_key).unwrap();
    let error = added(&layout, &[("d", &["h"]), ("a", &["h"])]).unwrap_err().to_string();
    assert!(error.ends_with("members/a/server.crt exists already and is not overwritten"), "{error}");
    let error = added(&layout, &[("d", &["h"]), ("d", &["i"])]).unwrap_err().to_string();
    assert_eq!(error, "member d is named twice");
    assert_eq!(std::fs::read(layout.member("a").server_key).unwrap(), key);
    assert_eq!(std::fs::read_dir(directory.path().join("members")).unwrap().count(), 1);
    let empty = tempfile::tempdir().unwrap();
    let error = added(&Layout::new(empty.path()), &[("d", &["h"])]).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
}

#[test]
fn the_client_configuration_names_every_member() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["fd00::2"])]);
    let config = std::fs::read_to_string(layout.client(Client::Admin).config).unwrap();
    let config: serde_json::Value = serde_norway::from_str(&config).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443");
    assert_eq!(config["clusters"][1]["cluster"]["server"], "https://[fd00::2]:6443");
    assert_eq!(config["current-context"], "orch-a");
    let config = std::fs::read_to_string(layout.client(Client::Scheduler).config).unwrap();
    let config: serde_json::Value = serde_norway::from_str(&config).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443,https://[fd00::2]:6443");
}

/// Names and addresses in the administrator's configuration, and the scheduler's list.
fn named(layout: &Layout) -> (Vec<(String, String)>, String) {
    let read = |client| {
        let config = std::fs::read_to_string(layout.client(client).config).unwrap();
        serde_norway::from_str::<serde_json::Value>(&config).unwrap()
    };
    let admin = read(Client::Admin);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let clusters = admin["clusters"].as_array().unwrap().iter();
    let contexts: Vec<_> =
        admin["contexts"].as_array().unwrap().iter().map(|entry| text(&entry["name"])).collect();
    let clusters: Vec<_> =
        clusters.map(|entry| (text(&entry["name"]), text(&entry["cluster"]["server"]))).collect();
    assert!(clusters.iter().map(|(name, _)| name).eq(&contexts), "{contexts:?}");
    (clusters, text(&read(Client::Scheduler)["clusters"][0]["cluster"]["server"]))
}

#[test]
fn members_that_are_added_or_were_left_out_come_into_the_client_configurations() {
    let directory = tempfile::tempdir().unwrap();
    let init_arguments = arguments(directory.path(), &[("a", &["10.0.0.1"])]);
    init(&InitArgs { secure_port: 7443, ..init_arguments }, now()).unwrap();
    let layout = Layout::new(directory.path());
    let before = Client::ALL.map(|client| std::fs::read_to_string(layout.client(client).config).unwrap());
    added(&layout, &[("d", &["fd00::4"])]).unwrap();
    let pair = |name: &str, url: &str| (name.to_owned(), url.to_owned());
    let all = vec![pair("orch-a", "https://10.0.0.1:7443"), pair("orch-d", "https://[fd00::4]:7443")];
    let list = "https://10.0.0.1:7443,https://[fd00::4]:7443".to_owned();
    assert_eq!(named(&layout), (all.clone(), list.clone()));
    // As earlier versions left them: renewal adds what is missing, and what an operator changed stays.
    for (client, config) in Client::ALL.into_iter().zip(before) {
        std::fs::write(layout.client(client).config, config.replace("10.0.0.1", "api.example")).unwrap();
    }
    renew(&RenewArgs { dir: directory.path().to_owned(), members: Vec::new() }, now()).unwrap();
    let (names, listed) = named(&layout);
    assert_eq!(names, [pair("orch-a", "https://api.example:7443"), all[1].clone()]);
    assert_eq!(listed, "https://api.example:7443,https://[fd00::4]:7443");
    // A member whose directory was deleted is in none of them, and another one is asked first. Entries of other names stay.
    let path = layout.client(Client::Admin).config;
    let mut config: serde_json::Value =
        serde_norway::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let own = serde_json::json!({"name": "balancer", "cluster": {"server": "https://lb:7443"}});
    config["clusters"].as_array_mut().unwrap().push(own);
    config["contexts"].as_array_mut().unwrap().push(serde_json::json!({"name": "balancer"}));
    std::fs::write(&path, config.to_string()).unwrap();
    std::fs::remove_dir_all(layout.members().join("a")).unwrap();
    let renewed = renew(&RenewArgs { dir: directory.path().to_owned(), members: Vec::new() }, now()).unwrap();
    assert_eq!(renewed.forgotten, ["a"]);
    let left = [all[1].clone(), pair("balancer", "https://lb:7443")];
    assert_eq!(named(&layout), (left.to_vec(), "https://[fd00::4]:7443".to_owned()));
    let config = std::fs::read_to_string(&path).unwrap();
    assert!(config.contains("\"current-context\": \"orch-d\""), "{config}");
    // Where no member has a directory, all were taken elsewhere.
    let taken = layout.root().join("elsewhere");
    std::fs::rename(layout.members().join("d"), &taken).unwrap();
    renew(&RenewArgs { dir: directory.path().to_owned(), members: Vec::new() }, now()).unwrap();
    assert_eq!(named(&layout).0, left);
    std::fs::rename(&taken, layout.members().join("d")).unwrap();
    // Where the administrator took the configurations away, none is made.
    for client in Client::ALL {
        std::fs::remove_file(layout.client(client).config).unwrap();
    }
    assert_eq!(added(&layout, &[("e", &["10.0.0.5"])]).unwrap().len(), 4);
}

#[test]
fn an_inspection_of_nothing_says_so() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(inspect(directory.path()).unwrap(), []);
    assert!(no_certificate_in(directory.path()).starts_with("there is no certificate in "));
    let file = directory.path().join("x.pem");
    std::fs::write(&file, "").unwrap();
    assert_eq!(inspect(&file).unwrap(), []);
    assert!(no_certificate_in(&file).ends_with("no PEM block CERTIFICATE"));
}

#[test]
fn a_damaged_pem_block_is_not_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pem");
    for text in [
        "-----BEGIN CERTIFICATE",
        "-----BEGIN CERTIFICATE-----\nMIIB\n",
        "-----BEGIN CERTIFICATE-----MIIB-----",
    ] {
        std::fs::write(&file, text).unwrap();
        let error = inspect(&file).unwrap_err().to_string();
        assert!(error.ends_with("x.pem is not a certificate: a PEM block is cut off or damaged"), "{error}");
    }
}

#[test]
fn renewal_keeps_names_and_authorities_and_changes_keys() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]);
    let files = layout.member("a");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let (authority, key, config) = (
        read(&layout.authority_certificate()),
        read(&files.server_key),
        read(&layout.client(Client::Admin).config),
    );
    let before = inspect(&files.server_certificate).unwrap();
    let later = now() + Duration::days(300);
    renew(&RenewArgs { dir: directory.path().to_owned(), members: Vec::new() }, later).unwrap();
    let after = inspect(&files.server_certificate).unwrap();
    assert_eq!((&before[0].hosts, &before[0].subject), (&after[0].hosts, &after[0].subject));
    assert!(after[0].not_after - before[0].not_after > Duration::days(299));
    assert_eq!(read(&layout.authority_certificate()), authority);
    assert_ne!(read(&files.server_key), key);
    assert_ne!(read(&layout.client(Client::Admin).config), config);
    let scheduler = layout.client(Client::Scheduler);
    assert_eq!(inspect(&scheduler.certificate).unwrap()[0].subject, "CN=system:orch-scheduler");
    assert!(inspect(&scheduler.certificate).unwrap()[0].not_after > before[0].not_after);
    let config: serde_json::Value = serde_norway::from_str(&read(&scheduler.config)).unwrap();
    let shown = config["users"][0]["user"]["client-certificate-data"].as_str().unwrap();
    let shown = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, shown).unwrap();
    assert_eq!(shown, read(&scheduler.certificate).into_bytes());
    assert!(is_about_to_expire(&before[0], now() + Duration::days(340)));
    assert!(!is_about_to_expire(&before[0], now()));
}

#[test]
fn a_member_is_renewed_alone_and_an_unknown_one_is_refused() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]);
    let other = std::fs::read(layout.member("b").server_certificate).unwrap();
    let renew = |name: &str| {
        renew(&RenewArgs { dir: directory.path().to_owned(), members: vec![name.to_owned()] }, now())
    };
    assert_eq!(renew("a").unwrap().written.len(), 4);
    assert_eq!(std::fs::read(layout.member("b").server_certificate).unwrap(), other);
    assert!(renew("z").unwrap_err().to_string().ends_with("members holds no member z"));
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("ca.crt"), directory.path().join("ca.key"));
    let refused = || Authority::load(&certificate, &key).err().unwrap().to_string();
    assert!(refused().starts_with(&format!("cannot read {}", certificate.display())));
    std::fs::write(&certificate, "nonsense").unwrap();
    std::fs::write(&key, "nonsense").unwrap();
    assert!(refused().starts_with(&format!("{} is not a private key", key.display())));
}

fn rotated(layout: &Layout, step: RotationStep, role: Option<Role>) -> Result<super::Renewed, CertsError> {
    let (peer, cluster) = (role == Some(Role::Peer), role == Some(Role::Cluster));
    rotate(&RotateArgs { step, dir: layout.root().to_owned(), peer, cluster }, now())
}

/// Whether a client that trusts the authority's file accepts the member's server certificate.
fn is_trusted(layout: &Layout, name: &str) -> bool {
    let (files, authority) = (layout.member(name), layout.authority_certificate());
    let roots = crate::tls::load_authorities(&authority, now()).unwrap();
    let pair = crate::tls::load_pair(&files.server_certificate, &files.server_key, now()).unwrap();
    pair.check_signed_by(&roots, &authority, now()).is_ok()
}

#[test]
fn a_rotation_trusts_both_authorities_until_the_old_one_is_dropped() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let count = |path: &Path| read(path).matches("BEGIN CERTIFICATE").count();
    let (ca, peer_ca) = (layout.authority_certificate(), layout.peer_authority_certificate());
    let (old, old_server) = (read(&ca), read(&layout.member("a").server_certificate));
    rotated(&layout, RotationStep::Begin, None).unwrap();
    assert_eq!((count(&ca), count(&peer_ca)), (2, 2));
    assert!(is_trusted(&layout, "a"));
    assert_eq!(read(&layout.member("a").server_certificate), old_server);
    let config: serde_json::Value =
        serde_norway::from_str(&read(&layout.client(Client::Admin).config)).unwrap();
    let trusted = config["clusters"][1]["cluster"]["certificate-authority-data"].as_str().unwrap();
    assert_eq!(
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, trusted).unwrap(),
        read(&ca).into_bytes()
    );
    rotated(&layout, RotationStep::Begin, None).unwrap();
    assert_eq!(count(&ca), 2, "a step may be given again");
    rotated(&layout, RotationStep::Issue, None).unwrap();
    assert_eq!(count(&ca), 2, "the old one is trusted until all have the new certificates");
    assert!(is_trusted(&layout, "a") && is_trusted(&layout, "b"));
    assert_ne!(read(&layout.member("a").server_certificate), old_server);
    rotated(&layout, RotationStep::Finish, None).unwrap();
    assert_eq!((count(&ca), count(&peer_ca)), (1, 1));
    assert_ne!(read(&ca), old);
    assert!(is_trusted(&layout, "a") && is_trusted(&layout, "b"));
    let admin = inspect(&layout.client(Client::Admin).certificate).unwrap();
    assert_eq!(admin[0].issuer, inspect(&ca).unwrap()[0].subject);
    renew(&RenewArgs { dir: layout.root().to_owned(), members: Vec::new() }, now()).unwrap();
    assert!(is_trusted(&layout, "a"));
    let kept: Vec<_> =
        std::fs::read_dir(layout.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(kept.iter().all(|name| !name.to_string_lossy().contains("next")), "{kept:?}");
}

#[test]
fn rotation_steps_are_taken_in_order_and_one_authority_may_go_alone() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let refused = |step| rotated(&layout, step, None).unwrap_err().to_string();
    assert!(refused(RotationStep::Issue).ends_with("the next step is `orch certs rotate-ca begin`"));
    rotated(&layout, RotationStep::Begin, Some(Role::Peer)).unwrap();
    let ca = std::fs::read(layout.authority_certificate()).unwrap();
    assert!(
        rotated(&layout, RotationStep::Finish, Some(Role::Peer))
            .unwrap_err()
            .to_string()
            .contains("rotate-ca issue")
    );
    rotated(&layout, RotationStep::Issue, Some(Role::Peer)).unwrap();
    let again = rotated(&layout, RotationStep::Begin, Some(Role::Peer)).unwrap_err().to_string();
    assert!(again.contains("another rotation is not finished"), "{again}");
    rotated(&layout, RotationStep::Finish, Some(Role::Peer)).unwrap();
    assert_eq!(std::fs::read(layout.authority_certificate()).unwrap(), ca, "the other authority stays");
}

#[test]
fn an_interrupted_issue_goes_on() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"])]);
    rotated(&layout, RotationStep::Begin, None).unwrap();
    let files = layout.authority();
    // The step had replaced the key and ended there.
    std::fs::copy(&files.next_key, &files.key).unwrap();
    let told = rotated(&layout, RotationStep::Begin, Some(Role::Cluster)).unwrap_err().to_string();
    assert!(told.ends_with("rotate-ca issue`"), "{told}");
    rotated(&layout, RotationStep::Issue, None).unwrap();
    assert_eq!(std::fs::read_to_string(&files.certificate).unwrap().matches("BEGIN").count(), 2);
    rotated(&layout, RotationStep::Finish, None).unwrap();
    assert!(is_trusted(&layout, "a"));
}

#[test]
fn the_signer_certifies_what_the_request_says() {
    use orch_api::signing::{
        AlternativeName, BuiltinSigner, CertificateSigner, KeyUsages, Template, Validity,
    };
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use x509_parser::prelude::{FromDer, X509Certificate};

    let (_directory, layout) = made(&[("a", &["10.0.0.1"])]);
    let (certificate, key) = (layout.authority_certificate(), layout.authority_key());
    let authorities = [(BuiltinSigner::ApiServerClient, SigningFiles { certificate, key })].into();
    let signer = FileSigner { authorities, life_s_max: 3600 };
    assert!(
        signer.signs_for(BuiltinSigner::ApiServerClient) && !signer.signs_for(BuiltinSigner::KubeletServing)
    );
    // O=one, O=two, CN=ann: two values of one attribute, as users with two groups have.
    let attribute = |oid: u64, text: &str| {
        yasna::construct_der(|writer| {
            writer.write_set(|writer| {
                writer.next().write_sequence(|writer| {
                    writer.next().write_oid(&yasna::models::ObjectIdentifier::from_slice(&[2, 5, 4, oid]));
                    writer.next().write_utf8_string(text);
                });
            });
        })
    };
    let subject = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            for part in [attribute(10, "one"), attribute(10, "two"), attribute(3, "ann")] {
                writer.next().write_der(&part);
            }
        });
    });
    let user_key = rcgen::KeyPair::generate().unwrap();
    let start = now().unix_timestamp();
    let template = Template {
        subject,
        public_key: rcgen::PublicKeyData::subject_public_key_info(&user_key),
        names: vec![
            AlternativeName::Dns("a.example.com".to_owned()),
            AlternativeName::Ip("10.0.0.9".parse().unwrap()),
        ],
        usages: KeyUsages::named(["digital signature", "key encipherment", "client auth"]).unwrap(),
        validity: Validity { not_before_s: start - 300, not_after_s: start + 3600 },
    };
    let authority = signer.authority(BuiltinSigner::ApiServerClient).unwrap();
    assert!(authority.not_after_s() > start + 3600);
    let pem = authority.sign(&template).unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (rest, parsed) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty());
    assert_eq!(parsed.subject().to_string(), "O=one, O=two, CN=ann");
    assert_eq!(parsed.issuer().to_string(), "CN=cluster-ca");
    assert_eq!(parsed.validity().not_after.timestamp(), start + 3600);
    assert!(!parsed.is_ca());
    let usage = parsed.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
    let extended = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.client_auth && !extended.server_auth);
    let file = layout.root().join("ann.crt");
    std::fs::write(&file, &pem).unwrap();
    assert_eq!(inspect(&file).unwrap()[0].hosts, ["a.example.com", "10.0.0.9"]);
    let roots = crate::tls::load_authorities(&layout.authority_certificate(), now()).unwrap();
    let trust = crate::tls::TrustMaterial { users: roots, proxies: None, revocations: Default::default() };
    let clients = crate::tls::ClientAuthorities::new(&trust).unwrap();
    let identified =
        clients.identify(Some(std::slice::from_ref(&der)), std::time::SystemTime::now()).unwrap();
    assert!(identified.certificate.is_ok(), "a client may log in with it: {:?}", identified.certificate);
    let other = authority.sign(&template).unwrap();
    assert_ne!(other, pem, "serial numbers differ");
}
