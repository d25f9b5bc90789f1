//! The choice of a certificate, and refusals of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use super::self_signed::DefaultPair;
use super::*;
use crate::ambient;
use crate::config::flags::SniPair;
use crate::serve::user::User;

/// Writes a self-signed pair for `names`, and returns its files.
fn pair(directory: &Path, file: &str, names: &[&str]) -> (PathBuf, PathBuf) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, file);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let paths = (directory.join(format!("{file}.crt")), directory.join(format!("{file}.key")));
    std::fs::write(&paths.0, certificate.pem()).unwrap();
    std::fs::write(&paths.1, key.serialize_pem()).unwrap();
    paths
}

fn sni(directory: &Path, file: &str, in_certificate: &[&str], in_flag: &[&str]) -> SniPair {
    let (certificate, key) = pair(directory, file, in_certificate);
    SniPair { certificate, key, names: in_flag.iter().map(|name| (*name).to_owned()).collect() }
}

/// The common name of a certificate: the file that it was written to.
fn file_of(key: &Arc<CertifiedKey>) -> String {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let (_, parsed) = X509Certificate::from_der(&key.cert[0]).unwrap();
    parsed.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
}

#[test]
fn names_choose_certificates_by_precedence() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let (certificate, key) = pair(dir, "default", &["localhost"]);
    let named = vec![
        sni(dir, "extracted", &["a.test", "*.wild.test", "10.0.0.1"], &[]),
        sni(dir, "wildcard", &["x.test"], &["*.test", "both.test"]),
        sni(dir, "explicit", &["y.test"], &["a.test"]),
        sni(dir, "later", &["z.test"], &["both.test"]),
    ];
    let resolver = Resolver::load(DefaultPair::Files { certificate, key }, named).unwrap();
    for (name, local, expected) in [
        (Some("a.test"), None, "explicit"),
        (Some("A.Test"), None, "explicit"),
        (Some("b.test"), None, "wildcard"),
        (Some("both.test"), None, "wildcard"),
        (Some("c.wild.test"), None, "extracted"),
        (Some("x.test"), None, "wildcard"),
        (Some("extracted"), None, "extracted"),
        (Some("d.c.wild.test"), None, "default"),
        (Some("other"), None, "default"),
        (None, Some("10.0.0.1"), "extracted"),
        (None, Some("::ffff:10.0.0.1"), "extracted"),
        (None, Some("10.0.0.2"), "default"),
        (None, None, "default"),
    ] {
        let local = local.map(|local| local.parse().unwrap());
        assert_eq!(file_of(&resolver.choose(name, local)), expected, "{name:?} at {local:?}");
    }
}

#[test]
fn renewed_certificates_are_used_and_broken_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(directory.path(), "old", &["localhost"]);
    let default = DefaultPair::Files { certificate: certificate.clone(), key: key.clone() };
    let resolver = Resolver::load(default, Vec::new()).unwrap();
    let (renewed, renewed_key) = pair(directory.path(), "new", &["localhost"]);
    std::fs::copy(&renewed, &certificate).unwrap();
    resolver.reload();
    assert_eq!(file_of(&resolver.choose(None, None)), "old", "the key does not belong to it yet");
    std::fs::copy(&renewed_key, &key).unwrap();
    resolver.reload();
    assert_eq!(file_of(&resolver.choose(None, None)), "new");
    std::fs::write(&certificate, "broken").unwrap();
    resolver.reload();
    assert_eq!(file_of(&resolver.choose(None, None)), "new");
}

#[test]
fn a_certificate_that_keeps_its_time_and_length_is_seen_to_be_another() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(directory.path(), "old", &["localhost"]);
    let resolver = Resolver::load(DefaultPair::Files { certificate: certificate.clone(), key }, Vec::new());
    let clients = Clients::load(None, None, Vec::new()).unwrap();
    let tls = Tls::new(&TlsOptions::default(), resolver.unwrap(), clients).unwrap();
    let before = tls.stamped(orch_serving::stamps::stamps);
    let modified = std::fs::metadata(&certificate).unwrap().modified().unwrap();
    // The kernel's clock of files goes in steps.
    while tls.stamped(orch_serving::stamps::stamps) == before {
        let text = std::fs::read(&certificate).unwrap();
        std::fs::write(&certificate, text).unwrap();
        std::fs::File::options().append(true).open(&certificate).unwrap().set_modified(modified).unwrap();
    }
    assert_eq!(std::fs::metadata(&certificate).unwrap().modified().unwrap(), modified);
}

#[test]
fn a_self_signed_pair_is_kept_in_its_directory() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("new/certs");
    let load = || {
        let default = default_pair(None, None, Some(&dir), "orch-scheduler").unwrap();
        Resolver::load(default, Vec::new()).unwrap().choose(None, None)
    };
    let (first, second) = (load(), load());
    assert_eq!(first.cert, second.cert, "the pair is made once");
    let mode = std::fs::metadata(dir.join("orch-scheduler.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(dir.join("orch-scheduler.crt").exists());
    let memory = default_pair(None, None, None, "orch-scheduler").unwrap();
    assert!(matches!(memory, DefaultPair::Memory(_)));
    let lacking = default_pair(Some(Path::new("c")), None, Some(&dir), "x").unwrap_err();
    assert_eq!(lacking.to_string(), "missing filename for serving cert");
}

#[test]
fn versions_and_suites_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let set_up = |suites: &[&str], version: &str| {
        let options = TlsOptions {
            cipher_suites: suites.iter().map(|name| (*name).to_owned()).collect(),
            min_version: version.to_owned(),
        };
        let default = default_pair(None, None, Some(directory.path()), "x").unwrap();
        let resolver = Resolver::load(default, Vec::new()).unwrap();
        Tls::new(&options, resolver, Clients::load(None, None, Vec::new()).unwrap())
    };
    for (suites, version) in [
        (&[][..], ""),
        (&[], "VersionTLS13"),
        (&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"], "VersionTLS12"),
        (&["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"], ""),
        (&["TLS_CHACHA20_POLY1305_SHA256"], ""),
    ] {
        set_up(suites, version).unwrap();
    }
    for version in ["VersionTLS10", "VersionTLS11"] {
        let refusal = set_up(&[], version).unwrap_err().to_string();
        assert!(refusal.starts_with(&format!("tls version \"{version}\" cannot be served")), "{refusal}");
    }
    assert_eq!(
        set_up(&["TLS_RSA_WITH_RC4_128_SHA"], "").unwrap_err().to_string(),
        "Cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist"
    );
}

/// An authority, and certificates that it signs.
struct Authority {
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { file, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str, organization: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().der().clone()
    }
}

#[test]
fn certificates_name_users_and_front_proxies_by_their_authorities() {
    let directory = tempfile::tempdir().unwrap();
    let (users, proxies) =
        (Authority::new(directory.path(), "users"), Authority::new(directory.path(), "proxies"));
    let file = |authority: &Authority| Some(Authorities::File(authority.file.clone()));
    let clients = Clients::load(file(&users), file(&proxies), vec!["front".to_owned()]).unwrap();
    let identify = |clients: &Clients, certificate: &CertificateDer<'static>| {
        let peer = clients.identify(Some(std::slice::from_ref(certificate)), ambient::system_time());
        (peer.certificate, peer.is_front_proxy)
    };
    let alice =
        Certificate::User(User { name: "alice".into(), groups: vec!["people".into()], ..User::default() });
    assert_eq!(identify(&clients, &users.sign("alice", "people")), (alice.clone(), false));
    assert_eq!(identify(&clients, &proxies.sign("front", "x")), (Certificate::Bad, true));
    assert_eq!(identify(&clients, &proxies.sign("other", "x")), (Certificate::Bad, false));
    assert!(!identify(&clients, &users.sign("front", "x")).1);
    let only_proxies = Clients::load(None, file(&proxies), Vec::new()).unwrap();
    assert_eq!(identify(&only_proxies, &proxies.sign("any", "x")), (Certificate::None, true));
    let only_front = Clients::load(None, file(&proxies), vec!["front".to_owned()]).unwrap();
    assert_eq!(identify(&only_front, &proxies.sign("front", "x")), (Certificate::None, true));
    assert_eq!(identify(&only_front, &proxies.sign("other", "x")), (Certificate::Bad, false));
    assert_eq!(identify(&only_front, &users.sign("front", "x")), (Certificate::Bad, false));
    let only_users = Clients::load(file(&users), None, Vec::new()).unwrap();
    assert_eq!(identify(&only_users, &users.sign("alice", "people")), (alice.clone(), false));
    assert_eq!(identify(&only_users, &users.sign("", "people")), (Certificate::None, false));
    assert_eq!(identify(&only_users, &proxies.sign("alice", "people")), (Certificate::Bad, false));
    assert_eq!(identify(&clients, &users.sign("", "people")), (Certificate::Bad, false), "and no proxy's");
    assert_eq!(identify(&only_proxies, &proxies.sign("", "x")), (Certificate::None, true));
    let nobody = clients.identify(None, ambient::system_time());
    assert_eq!((nobody.certificate, nobody.is_front_proxy), (Certificate::None, false));

    let next = Authority::new(directory.path(), "next");
    std::fs::copy(&next.file, &users.file).unwrap();
    clients.reload();
    assert_eq!(identify(&clients, &users.sign("alice", "people")).0, Certificate::Bad);
    assert_eq!(identify(&clients, &next.sign("alice", "people")).0, alice);
    std::fs::write(&users.file, "broken").unwrap();
    clients.reload();
    assert_eq!(identify(&clients, &next.sign("alice", "people")).0, alice);
}

#[test]
fn missing_authorities_are_told_in_the_references_words() {
    let missing = Some(Authorities::File("/nowhere.pem".into()));
    assert_eq!(
        Clients::load(missing, None, Vec::new()).unwrap_err().to_string(),
        "unable to load client CA provider: open /nowhere.pem: no such file or directory"
    );
}

/// Reads the files of a port again, once in vain, and verifies a client: for the test that lists metrics.
pub(in crate::serve) fn exercise() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = pair(directory.path(), "default", &["localhost"]);
    let users = Authority::new(directory.path(), "users");
    let resolver = Resolver::load(DefaultPair::Files { certificate, key }, Vec::new()).unwrap();
    let clients = Clients::load(Some(Authorities::File(users.file.clone())), None, Vec::new()).unwrap();
    let tls = Tls::new(&TlsOptions::default(), resolver, clients).unwrap();
    let peer = tls.clients().identify(Some(&[users.sign("alice", "people")]), ambient::system_time());
    assert!(matches!(peer.certificate, Certificate::User(_)));
    assert!(tls.reload());
    std::fs::write(&users.file, "broken").unwrap();
    assert!(!tls.reload());
}
