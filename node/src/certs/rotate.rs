//! `orch certs rotate-ca`: replaces an authority in three steps, in none of which a member or a client is turned away.
//!
//! Owns the order of the steps and what each leaves in the directory:
//!
//!     begin    X-next.crt, X-next.key: the new authority. X.crt: old and new, so that both are trusted
//!     issue    every pair, signed by the new authority. X.key: the new key. X.crt: new and old
//!     finish   X.crt: the new authority alone
//!
//! Between two steps every member has to have read the files of the last one: a certificate of the new authority must
//! be shown to nobody who does not trust it yet, and the old one must stay trusted while somebody shows its certificates.
//!
//! Each step may be interrupted and given again. Invariant: X.key belongs to a certificate in X.crt.

use std::path::{Path, PathBuf};

use orch_serving::tls::MALFORMED_PEM;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;

use super::authority::{Authority, CertsError, read};
use super::clients::Client;
use super::file::replace_file;
use super::key::key_pair;
use super::layout::{AuthorityFiles, Layout};
use super::pem::to_pem;
use super::renew::{Renewal, Renewed, renew_under};
use super::signer::matching_certificate;
use crate::cli::{RotateArgs, RotationStep};
use crate::kubeconfig::with_authority;
use crate::tls::load_pair;

/// The authority that is rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Signs servers and clients.
    Cluster,
    /// Signs members, for the traffic between them.
    Peer,
}

impl Role {
    fn files(self, layout: &Layout) -> AuthorityFiles {
        match self {
            Role::Cluster => layout.authority(),
            Role::Peer => layout.peer_authority(),
        }
    }

    /// Common name of a new authority; date and time tell it from the one before. Verifiers find an authority's revocation list
    /// by its name: two of one name would shut out each other's clients.
    fn common_name(self, now: OffsetDateTime) -> String {
        let stem = match self {
            Role::Cluster => "cluster-ca",
            Role::Peer => "peer-ca",
        };
        let (date, time) = (now.date(), now.time());
        let date = format!("{:04}{:02}{:02}", date.year(), u8::from(date.month()), date.day());
        format!("{stem}-{date}-{:02}{:02}{:02}", time.hour(), time.minute(), time.second())
    }
}

/// Takes one step of the rotation that `arguments` name.
///
/// # Errors
/// A file cannot be read or written; the step is not the next one.
pub fn rotate(arguments: &RotateArgs, now: OffsetDateTime) -> Result<Renewed, CertsError> {
    let layout = Layout::new(&arguments.dir);
    let mut all = Renewed::default();
    for role in arguments.roles() {
        let Renewed { written, forgotten } = match arguments.step {
            RotationStep::Begin => Renewed { written: begin(&layout, role, now)?, ..Renewed::default() },
            RotationStep::Issue => issue(&layout, role, now)?,
            RotationStep::Finish => Renewed { written: finish(&layout, role, now)?, ..Renewed::default() },
        };
        all.written.extend(written);
        all.forgotten.extend(forgotten);
    }
    Ok(all)
}

fn begin(layout: &Layout, role: Role, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let files = role.files(layout);
    if certificates(&files.certificate)?.len() > 1 && !files.next_certificate.exists() {
        return Err(out_of_order(&files.certificate, "another rotation is not finished", "finish"));
    }
    // The key is written first: if the certificate is there, so is the key.
    if !files.next_certificate.exists() {
        let made = Authority::create(&role.common_name(now), now)?;
        replace_file(&files.next_key, &made.pair.key)?;
        replace_file(&files.next_certificate, &made.pair.certificate)?;
    }
    let old = current(&files)?;
    let next = certificates(&files.next_certificate)?;
    if next.contains(&old) {
        return Err(out_of_order(&files.key, "the new authority signs already", "issue"));
    }
    let mut written = vec![files.next_key.clone(), files.next_certificate.clone()];
    written.extend(trust(layout, role, &[std::slice::from_ref(&old), &next].concat())?);
    Ok(written)
}

fn issue(layout: &Layout, role: Role, now: OffsetDateTime) -> Result<Renewed, CertsError> {
    let files = role.files(layout);
    if !files.next_certificate.exists() {
        return Err(out_of_order(&files.next_certificate, "no rotation was begun", "begin"));
    }
    let next = Authority::load(&files.next_certificate, &files.next_key)?;
    let next_certificates = certificates(&files.next_certificate)?;
    let trusted = certificates(&files.certificate)?;
    if !next_certificates.iter().all(|certificate| trusted.contains(certificate)) {
        return Err(out_of_order(&files.certificate, "the new authority is not trusted yet", "begin"));
    }
    let renewal = match role {
        Role::Cluster => Renewal { cluster: Some(&next), peer: None },
        Role::Peer => Renewal { cluster: None, peer: Some(&next) },
    };
    let Renewed { mut written, forgotten } = renew_under(layout, &renewal, now)?;
    replace_file(&files.key, &read(&files.next_key)?)?;
    written.push(files.key.clone());
    let others = trusted.into_iter().filter(|certificate| !next_certificates.contains(certificate));
    let bundle: Vec<_> = next_certificates.iter().cloned().chain(others).collect();
    written.extend(trust(layout, role, &bundle)?);
    for done in [&files.next_certificate, &files.next_key] {
        let failed = |source| CertsError::File { action: "remove", path: done.clone(), source };
        std::fs::remove_file(done).map_err(failed)?;
    }
    Ok(Renewed { written, forgotten })
}

fn finish(layout: &Layout, role: Role, now: OffsetDateTime) -> Result<Vec<PathBuf>, CertsError> {
    let files = role.files(layout);
    if files.next_certificate.exists() {
        return Err(out_of_order(
            &files.next_certificate,
            "certificates of the new authority are missing",
            "issue",
        ));
    }
    let own = current(&files)?;
    let mut roots = RootCertStore::empty();
    roots.add(own.clone()).map_err(|error| CertsError::Content {
        path: files.certificate.clone(),
        expected: "an authority's certificate",
        reason: error.to_string(),
    })?;
    for (certificate, key) in shown_pairs(layout, role)? {
        let signed = load_pair(&certificate, &key, now)
            .and_then(|pair| pair.check_signed_by(&roots, &files.certificate, now));
        if let Err(error) = signed {
            let reason = format!("not signed by the new authority ({error})");
            return Err(out_of_order(&certificate, &reason, "issue"));
        }
    }
    trust(layout, role, &[own])
}

/// Makes `certificates` the trusted ones of `role`: for members, and for clients.
fn trust(
    layout: &Layout,
    role: Role,
    certificates: &[CertificateDer<'_>],
) -> Result<Vec<PathBuf>, CertsError> {
    let path = role.files(layout).certificate;
    let bundle: String = certificates.iter().map(|certificate| to_pem("CERTIFICATE", certificate)).collect();
    replace_file(&path, &bundle)?;
    let mut written = vec![path];
    let configs = Client::ALL.map(|client| layout.client(client).config);
    for config in configs.into_iter().filter(|config| role == Role::Cluster && config.exists()) {
        let text = with_authority(&read(&config)?, &bundle).map_err(|reason| CertsError::Content {
            path: config.clone(),
            expected: "a client configuration",
            reason,
        })?;
        replace_file(&config, &text)?;
        written.push(config);
    }
    Ok(written)
}

/// The server's side of the pairs that `role` signs: certificate and key of each member.
fn shown_pairs(layout: &Layout, role: Role) -> Result<Vec<(PathBuf, PathBuf)>, CertsError> {
    let members = super::renew::member_names(&layout.members())?;
    Ok(members
        .iter()
        .map(|name| layout.member(name))
        .map(|files| match role {
            Role::Cluster => (files.server_certificate, files.server_key),
            Role::Peer => (files.peer_certificate, files.peer_key),
        })
        .collect())
}

/// The certificate that belongs to the authority's key.
fn current(files: &AuthorityFiles) -> Result<CertificateDer<'static>, CertsError> {
    // The parser's error is left out: it may quote the file.
    let key = key_pair(&files.key, &read(&files.key)?)?;
    matching_certificate(&files.certificate, &files.key, &key)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertsError> {
    let text = read(path)?;
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    parsed.map_err(|_| CertsError::Content {
        path: path.to_owned(),
        expected: "a certificate",
        reason: MALFORMED_PEM.to_owned(),
    })
}

fn out_of_order(path: &Path, reason: &str, step: &'static str) -> CertsError {
    CertsError::OutOfOrder { path: path.to_owned(), reason: reason.to_owned(), step }
}
