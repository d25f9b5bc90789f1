//! `orch certs`: files made, renewals, refusals.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use time::{Duration, OffsetDateTime};

use super::*;
use crate::cli::{BrandName, InitArgs, MemberSpec, RenewArgs};

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
    let facts = &inspect(&layout.admin_certificate()).unwrap()[0];
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

#[test]
fn the_client_configuration_names_every_member() {
    let (_directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["fd00::2"])]);
    let config = std::fs::read_to_string(layout.admin_config()).unwrap();
    let config: serde_json::Value = serde_norway::from_str(&config).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.0.0.1:6443");
    assert_eq!(config["clusters"][1]["cluster"]["server"], "https://[fd00::2]:6443");
    assert_eq!(config["current-context"], "orch-a");
}

#[test]
fn renewal_keeps_names_and_authorities_and_changes_keys() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]);
    let files = layout.member("a");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let (authority, key, config) =
        (read(&layout.authority_certificate()), read(&files.server_key), read(&layout.admin_config()));
    let before = inspect(&files.server_certificate).unwrap();
    let later = now() + Duration::days(300);
    renew(&RenewArgs { dir: directory.path().to_owned(), members: Vec::new() }, later).unwrap();
    let after = inspect(&files.server_certificate).unwrap();
    assert_eq!((&before[0].hosts, &before[0].subject), (&after[0].hosts, &after[0].subject));
    assert!(after[0].not_after - before[0].not_after > Duration::days(299));
    assert_eq!(read(&layout.authority_certificate()), authority);
    assert_ne!(read(&files.server_key), key);
    assert_ne!(read(&layout.admin_config()), config);
    assert!(is_about_to_expire(&before[0], now() + Duration::days(340)));
    assert!(!is_about_to_expire(&before[0], now()));
}

#[test]
fn one_member_is_renewed_alone_and_an_unknown_one_is_refused() {
    let (directory, layout) = made(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]);
    let other = std::fs::read(layout.member("b").server_certificate).unwrap();
    let renew = |name: &str| {
        renew(&RenewArgs { dir: directory.path().to_owned(), members: vec![name.to_owned()] }, now())
    };
    assert_eq!(renew("a").unwrap().len(), 4);
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
