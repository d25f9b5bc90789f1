//! An identity is collected whole and of one cluster, and placed whole or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use orch_proto::brand::ORCH;
use time::OffsetDateTime;

use super::super::sealed::Identity;
use super::*;
use crate::certs;
use crate::cli::{BrandName, InitArgs, KeyPlaceArgs, MemberSpec};

/// A certificate directory in `folder`, and an access that trusts its authority.
fn cluster(folder: &Path, name: &str) -> (PathBuf, Access) {
    let dir = folder.join(name);
    let member = MemberSpec { name: "a".to_owned(), hosts: vec!["10.0.0.1".to_owned()] };
    let arguments = InitArgs {
        dir: dir.clone(),
        members: vec![member],
        secure_port: 6443,
        brand: BrandName(&ORCH),
        if_absent: false,
    };
    certs::init(&arguments, OffsetDateTime::now_utc()).unwrap();
    let access = access(&fs::read(dir.join("ca.crt")).unwrap());
    (dir, access)
}

fn access(authorities: &[u8]) -> Access {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Access::trusting(Arc::new(tls), authorities)
}

fn wanted(dir: &Path) -> KeyFileArgs {
    KeyFileArgs { with_identity: true, certs_dir: Some(dir.to_owned()), ..KeyFileArgs::default() }
}

fn recipients() -> Vec<Recipient> {
    vec![Identity::generate().unwrap().recipient()]
}

fn refused(arguments: &KeyFileArgs, access: &Access) -> String {
    format!("{:#}", collect(arguments, &recipients(), access).unwrap_err())
}

#[test]
fn an_identity_is_collected_whole_and_of_the_cluster_that_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, access) = cluster(folder.path(), "certs");
    assert_eq!(collect(&KeyFileArgs::default(), &[], &access).unwrap(), None);
    let told = collect(&wanted(&dir), &[], &access).unwrap_err().to_string();
    assert!(told.contains("--encrypt-to"), "{told}");

    let (config, older) = (folder.path().join("keys.yaml"), folder.path().join("older.pub"));
    fs::write(&config, "kind: EncryptionConfiguration").unwrap();
    fs::write(&older, "an older key").unwrap();
    let encryption_provider_config = Some(config);
    let all = KeyFileArgs { encryption_provider_config, identity_file: vec![older.clone()], ..wanted(&dir) };
    let bundle = collect(&all, &recipients(), &access).unwrap().unwrap();
    let names: Vec<&str> = bundle.files().map(|(name, _)| name).collect();
    let expected =
        ["ca.crt", "ca.key", ENCRYPTION, "older.pub", "peer-ca.crt", "peer-ca.key", "service-account.key"];
    assert_eq!(names, [&expected[..], &["service-account.pub"]].concat());
    assert_eq!(bundle.file("ca.key").unwrap(), fs::read(dir.join("ca.key")).unwrap());
    assert_eq!(further(&bundle, &Layout::new(&dir)), ["older.pub"]);

    let twice = KeyFileArgs { identity_file: vec![older.clone(), older], ..wanted(&dir) };
    assert!(refused(&twice, &access).contains("two files are called older.pub"));
    let (_, stranger) = cluster(folder.path(), "other");
    let told = refused(&wanted(&dir), &stranger);
    assert!(told.contains("trusts no certificate") && told.contains("ca.crt"), "{told}");
    fs::copy(folder.path().join("other/ca.key"), dir.join("ca.key")).unwrap();
    let told = refused(&wanted(&dir), &access);
    assert!(told.contains("no machine becomes the cluster again") && !told.contains("PRIVATE"), "{told}");
    fs::remove_file(dir.join("ca.key")).unwrap();
    assert!(refused(&wanted(&dir), &access).contains("ca.key"));
}

/// Places the identity of `from` into `data`.
fn placed(from: &Path, access: &Access, data: &Path) -> anyhow::Result<Placed> {
    placed_for(from, access, data, "127.0.0.7", "api.example.com", 7443)
}

/// The same for a member at `address`, which clients reach at `host` and `port`, too.
fn placed_for(
    from: &Path,
    access: &Access,
    data: &Path,
    address: &str,
    host: &str,
    port: u16,
) -> anyhow::Result<Placed> {
    let bundle = collect(&wanted(from), &recipients(), access).unwrap().unwrap();
    let arguments = KeyPlaceArgs {
        certs_dir: None,
        host: vec![host.to_owned()],
        secure_port: port,
        without_identity: false,
    };
    place(&bundle, &arguments, data, ("z", address), &ORCH, OffsetDateTime::now_utc())
}

#[test]
fn an_identity_that_was_placed_for_other_addresses_is_not_taken_for_that_of_now() {
    let folder = tempfile::tempdir().unwrap();
    let (from, access) = cluster(folder.path(), "certs");
    let data = folder.path().join("data");
    let placed = |address: &str, host: &str, port| placed_for(&from, &access, &data, address, host, port);
    drop(placed("::1", "api.example.com", 7443).unwrap().keep());
    // The same in another form.
    drop(placed("0:0::1", "API.example.com", 7443).unwrap());
    let server = data.join("certs/members/z/server.crt");
    let before = fs::read(&server).unwrap();
    for (address, host, port, expected) in [
        ("::1", "other.example.com", 7443, "server.crt is not for other.example.com"),
        ("127.0.0.8", "api.example.com", 7443, "server.crt is not for 127.0.0.8"),
        ("::1", "api.example.com", 6443, "does not name https://[::1]:6443"),
    ] {
        let told = placed(address, host, port).unwrap_err().to_string();
        assert!(told.contains(expected) && told.contains("made anew"), "{told}");
        assert!(told.contains("--without-identity"), "{told}");
    }
    assert_eq!(fs::read(&server).unwrap(), before, "nothing was changed");
    fs::remove_dir_all(data.join("certs")).unwrap();
    drop(placed("127.0.0.8", "other.example.com", 6443).unwrap().keep());
}

#[test]
fn a_certificate_that_ended_since_an_interrupted_restore_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (from, access) = cluster(folder.path(), "certs");
    let data = folder.path().join("data");
    drop(placed(&from, &access, &data).unwrap().keep());
    let bundle = collect(&wanted(&from), &recipients(), &access).unwrap().unwrap();
    let host = vec!["api.example.com".to_owned()];
    let arguments = KeyPlaceArgs { certs_dir: None, host, secure_port: 7443, without_identity: false };
    let later = OffsetDateTime::now_utc() + time::Duration::days(2000);
    let told = place(&bundle, &arguments, &data, ("z", "127.0.0.7"), &ORCH, later).unwrap_err().to_string();
    assert!(told.contains("server.crt has ended"), "{told}");
}

#[test]
fn two_restores_never_share_an_identity_that_the_first_may_take_away() {
    let folder = tempfile::tempdir().unwrap();
    let (from, access) = cluster(folder.path(), "certs");
    let data = folder.path().join("data");
    let first = placed(&from, &access, &data).unwrap();
    let told = placed(&from, &access, &data).unwrap_err().to_string();
    assert!(told.contains("another restore"), "{told}");
    // It failed.
    drop(first);
    assert!(!data.join("certs").exists());
    // Amid the making of it.
    let draft = data.join(".certs.restoring");
    fs::create_dir(&draft).unwrap();
    let making = fs::File::open(&draft).unwrap();
    making.try_lock().unwrap();
    let told = format!("{:#}", placed(&from, &access, &data).unwrap_err());
    assert!(told.contains("another restore") && draft.exists(), "{told}");
    drop(making);
    let kept = placed(&from, &access, &data).unwrap().keep();
    let told = placed(&from, &access, &data).unwrap_err().to_string();
    assert!(told.contains("another restore"), "until its end: {told}");
    drop(kept);
    drop(placed(&from, &access, &data).unwrap());
}

#[test]
fn an_identity_is_placed_with_new_certificates_and_a_failed_restore_takes_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let (from, access) = cluster(folder.path(), "certs");
    let data = folder.path().join("data");
    let dir = data.join("certs");
    drop(placed(&from, &access, &data).unwrap());
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nothing is left of a restore that failed");

    // What a killed restore left.
    fs::create_dir(data.join(".certs.restoring")).unwrap();
    fs::write(data.join(".certs.restoring/ca.key"), "half").unwrap();
    let first = placed(&from, &access, &data).unwrap().keep();
    assert_eq!((&first.dir, &first.encryption, first.further.len()), (&dir, &None, 0));
    drop(first);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    for name in ["ca.key", "peer-ca.key", "service-account.key", "ca.crt"] {
        assert_eq!(fs::read(dir.join(name)).unwrap(), fs::read(from.join(name)).unwrap(), "{name}");
        assert_eq!(fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    let facts = certs::inspect(&Layout::new(&dir).member("z").server_certificate).unwrap();
    for host in ["127.0.0.7", "api.example.com", "z"] {
        assert!(facts[0].hosts.iter().any(|found| found == host), "{host}: {:?}", facts[0].hosts);
    }
    let config = fs::read_to_string(dir.join("admin.conf")).unwrap();
    assert!(config.contains("https://127.0.0.7:7443") && !config.contains("10.0.0.1"), "{config}");

    // Given again after an interruption, it is the same; another cluster's is refused, and left as it is.
    drop(placed(&from, &access, &data).unwrap());
    assert!(dir.join("ca.key").exists(), "what was there is not taken away");
    let (other, stranger) = cluster(folder.path(), "other");
    let told = placed(&other, &stranger, &data).unwrap_err().to_string();
    assert!(told.contains("is not that of the snapshot") && told.contains("--without-identity"), "{told}");
    assert_eq!(fs::read(dir.join("ca.key")).unwrap(), fs::read(from.join("ca.key")).unwrap());
    fs::remove_dir_all(dir.join("members/z")).unwrap();
    let told = placed(&from, &access, &data).unwrap_err().to_string();
    assert!(told.contains("no certificate of z") && told.contains("orch certs add"), "{told}");
}
