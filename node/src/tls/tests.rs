//! Refusals of wrong files with their reasons, and verification of client certificates.

pub(crate) mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration as StdDuration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};

use super::*;
use crate::certs::{Authority, Pair, admin_leaf, server_leaf};

struct Files {
    directory: tempfile::TempDir,
    authority: Authority,
}

fn now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

impl Files {
    fn new() -> Files {
        Files { directory: tempfile::tempdir().unwrap(), authority: Authority::create("ca", now()).unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn pair(&self, name: &str, pair: &Pair) -> (PathBuf, PathBuf) {
        (self.write(&format!("{name}.crt"), &pair.certificate), self.write(&format!("{name}.key"), &pair.key))
    }

    fn server_pair(&self) -> Pair {
        self.authority.issue(&server_leaf("a", &[], &orch_proto::brand::ORCH), now()).unwrap()
    }

    fn set(&self) -> TlsFiles {
        let (certificate, key) = self.pair("server", &self.server_pair());
        let authority = self.write("ca.crt", &self.authority.pair.certificate);
        TlsFiles {
            certificate,
            key,
            client_authorities: authority.clone(),
            server_authority: Some(authority),
            ..TlsFiles::default()
        }
    }
}

fn refused(result: Result<impl Sized, MaterialError>, directory: &Path) -> String {
    let directory = format!("{}/", directory.display());
    let error = result.err().expect("refused");
    orch_serving::Causes(&error).to_string().replace(&directory, "")
}

#[test]
fn a_fitting_set_of_files_loads() {
    Tls::load(&Files::new().set(), now()).unwrap();
}

#[test]
fn each_wrong_file_has_its_own_message() {
    let files = Files::new();
    let (certificate, key) = files.pair("server", &files.server_pair());
    let (_, other_key) = files.pair("other", &files.server_pair());
    let text = files.write("text.crt", "not a certificate");
    let broken = files.write("broken.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = files.directory.path().join("missing");
    let load =
        |certificate: &Path, key: &Path, at| refused(load_pair(certificate, key, at), files.directory.path());
    let starts = |message: String, expected: &str| assert!(message.starts_with(expected), "{message}");
    starts(load(&missing, &key, now()), "cannot read missing: No such file");
    starts(load(&certificate, &missing, now()), "cannot read missing: No such file");
    starts(load(&text, &key, now()), "text.crt holds no certificate in PEM form");
    starts(load(&broken, &key, now()), "broken.crt: unusable certificate: ");
    starts(load(&certificate, &text, now()), "text.crt holds no private key in PEM form");
    starts(
        load(&certificate, &other_key, now()),
        "the key in other.key does not belong to the certificate in server.crt",
    );
    starts(
        load(&certificate, &key, now() + Duration::days(400)),
        "the certificate in server.crt expired on ",
    );
    starts(
        load(&certificate, &key, now() - Duration::days(1)),
        "the certificate in server.crt is valid only from ",
    );
}

#[test]
fn a_server_certificate_of_another_authority_is_refused() {
    let files = Files::new();
    let stranger = Authority::create("stranger", now()).unwrap();
    let set = TlsFiles {
        server_authority: Some(files.write("stranger.crt", &stranger.pair.certificate)),
        ..files.set()
    };
    let message = refused(Tls::load(&set, now()), files.directory.path());
    assert!(
        message.starts_with("the certificate in server.crt is not signed by an authority in stranger.crt: "),
        "{message}"
    );
}

#[test]
fn a_start_serves_a_certificate_that_has_ended_and_a_reload_does_not() {
    let files = Files::new();
    let leaf = server_leaf("a", &[], &orch_proto::brand::ORCH);
    let old = files.authority.issue(&leaf, now() - Duration::days(400)).unwrap();
    let set = files.set();
    assert_eq!(Tls::load_ended(&set, now()).unwrap().1, None);
    files.pair("server", &old);
    let end = crate::certs::inspect(&set.certificate).unwrap()[0].not_after;
    assert_eq!(Tls::load_ended(&set, now()).unwrap().1, Some(end));
    let reloader = Reloader::load(set.clone()).unwrap();
    let message = refused(reloader.reload(), files.directory.path());
    assert!(message.starts_with("the certificate in server.crt expired on "), "{message}");
    let shown = Arc::as_ptr(&reloader.current().server);
    files.pair("server", &files.server_pair());
    reloader.reload().unwrap();
    assert_ne!(Arc::as_ptr(&reloader.current().server), shown, "the renewed one is taken up");
    // Everything else is checked as ever.
    let stranger = Authority::create("stranger", now() - Duration::days(400)).unwrap();
    files.pair("server", &stranger.issue(&leaf, now() - Duration::days(400)).unwrap());
    let message = refused(Reloader::load(set.clone()), files.directory.path());
    assert!(message.contains("is not signed by an authority in ca.crt"), "{message}");
    std::fs::write(&set.key, &files.server_pair().key).unwrap();
    let message = refused(Reloader::load(set), files.directory.path());
    assert!(message.contains("does not belong to the certificate"), "{message}");
}

#[test]
fn an_authority_that_has_ended_is_left_out_beside_others_and_refused_alone() {
    let files = Files::new();
    let old = Authority::create("old", now() - Duration::days(4000)).unwrap();
    let alone = files.write("old.crt", &old.pair.certificate);
    let both = format!("{}{}", old.pair.certificate, files.authority.pair.certificate);
    let both = files.write("both.crt", &both);
    let roots = load_authorities(&both, now()).unwrap();
    assert_eq!(roots.len(), 1);
    let set = TlsFiles { client_authorities: both, ..files.set() };
    let clients = Tls::load(&set, now()).unwrap().clients;
    let judged = |authority: &Authority| {
        let pair = authority.issue(&admin_leaf(), now()).unwrap();
        clients.identify(Some(&presented(&pair)), SystemTime::now()).unwrap().certificate.is_ok()
    };
    assert_eq!((judged(&files.authority), judged(&old)), (true, false));
    let set = TlsFiles { client_authorities: alone, ..files.set() };
    let message = refused(Reloader::load(set), files.directory.path());
    assert!(message.starts_with("the authority in old.crt expired on "), "{message}");
    assert!(message.ends_with("replace it (orch certs rotate-ca)"), "{message}");
}

fn presented(pair: &Pair) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(Result::unwrap).collect()
}

#[test]
fn client_certificates_are_judged_by_authority_purpose_and_time() {
    let files = Files::new();
    let clients = Tls::load(&files.set(), now()).unwrap().clients;
    let identify = |pair: &Pair, at| clients.identify(Some(&presented(pair)), at).unwrap();
    let admin = files.authority.issue(&admin_leaf(), now()).unwrap();
    let found = identify(&admin, SystemTime::now());
    let certificate = found.certificate.unwrap();
    assert_eq!(certificate.common_name, "system:admin");
    assert_eq!(certificate.organizations, ["system:masters"]);
    assert_eq!((certificate.fingerprint.len(), certificate.uid), (64, None));
    assert!(found.valid_for.unwrap() > StdDuration::from_secs(364 * 24 * 3600));

    let stranger = Authority::create("ca", now()).unwrap().issue(&admin_leaf(), now()).unwrap();
    assert!(identify(&stranger, SystemTime::now()).certificate.is_err());
    assert!(identify(&files.server_pair(), SystemTime::now()).certificate.is_err());
    let late = SystemTime::now() + StdDuration::from_secs(400 * 24 * 3600);
    let fault = identify(&admin, late).certificate.unwrap_err().to_string();
    assert!(fault.contains("expired"), "{fault}");
    assert_eq!(identify(&admin, late).left, Some(StdDuration::ZERO));
    let foreign = identify(&stranger, SystemTime::now());
    assert!(foreign.valid_for.is_none() && foreign.left.unwrap() > StdDuration::from_secs(364 * 24 * 3600));
    assert!(clients.identify(None, SystemTime::now()).is_none());
    assert!(clients.identify(Some(&[]), SystemTime::now()).is_none());
}

/// Made with openssl: `O=devs, O=ops, O=system:masters, CN=carol, 1.3.6.1.4.1.57683.2=carol-uid`.
const SEVERAL_ORGANIZATIONS: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBvTCCAWMCFEgHFdE4RHagzqTjg3vikfRK3BSkMAoGCCqGSM49BAMCMGAxDTAL\n\
BgNVBAoMBGRldnMxDDAKBgNVBAoMA29wczEXMBUGA1UECgwOc3lzdGVtOm1hc3Rl\n\
cnMxDjAMBgNVBAMMBWNhcm9sMRgwFgYJKwYBBAGDwlMCDAljYXJvbC11aWQwIBcN\n\
MjYxMTIxMDIwODM4WhgPMjEyNjEwMjgwMjA4MzhaMGAxDTALBgNVBAoMBGRldnMx\n\
DDAKBgNVBAoMA29wczEXMBUGA1UECgwOc3lzdGVtOm1hc3RlcnMxDjAMBgNVBAMM\n\
BWNhcm9sMRgwFgYJKwYBBAGDwlMCDAljYXJvbC11aWQwWTATBgcqhkjOPQIBBggq\n\
hkjOPQMBBwNCAARB6PBJ0szUy5bM8vXp2KuYjOHFChW3hn31HPF3ol1iN2og3COD\n\
c7kp0oZeLrebUhmkMTS9e3vapz45g6hiBwMMMAoGCCqGSM49BAMCA0gAMEUCIQCS\n\
RbdLWPNI3uFNhkPeM9TiaOFP462/yZlM3CDRsk7eawIgVejxIE5hYBee8cfL2urz\n\
1QQztxlaS0s77nIzJjSQpfE=\n\
-----END CERTIFICATE-----";

#[test]
fn organizations_keep_their_order_and_the_uid_is_read() {
    let der = CertificateDer::from_pem_slice(SEVERAL_ORGANIZATIONS.as_bytes()).unwrap();
    let (certificate, _) = client::subject(&der, StdDuration::ZERO).unwrap();
    assert_eq!(certificate.common_name, "carol");
    assert_eq!(certificate.organizations, ["devs", "ops", "system:masters"]);
    assert_eq!(certificate.uid.as_deref(), Some("carol-uid"));
}

#[test]
fn a_certificate_with_an_unreadable_name_or_organization_identifies_nobody() {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};
    for (kind, expected) in [
        (DnType::CommonName, "unreadable common name: "),
        (DnType::OrganizationName, "unreadable organization: "),
    ] {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params.distinguished_name.push(kind, DnValue::TeletexString("team".try_into().unwrap()));
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let fault = client::subject(certificate.der(), StdDuration::ZERO).unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
}

#[test]
fn a_reload_takes_new_files_and_bad_ones_change_nothing() {
    let files = Files::new();
    let set = files.set();
    let reloader = Reloader::load(set.clone()).unwrap();
    let read = [&set.certificate, &set.key, &set.client_authorities, set.server_authority.as_ref().unwrap()];
    assert!(reloader.files().iter().eq(read), "a change of any file that is read is noticed");
    let first = reloader.current();
    std::fs::write(&set.key, "nonsense").unwrap();
    reloader.reload().unwrap_err();
    assert!(std::sync::Arc::ptr_eq(&first, &reloader.current()));
    files.pair("server", &files.server_pair());
    reloader.reload().unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first, &reloader.current()));
}
