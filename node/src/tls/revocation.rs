//! Certificate revocation lists: files in PEM form, each with any number of lists, or of one list in DER form.
//!
//! Owns reading the files, the order of the lists, and which serial numbers they name. Whether a list's signature is its
//! authority's is decided by the verifiers that get them: a certificate of an authority whose list does not verify is
//! refused, one of an authority without a list is not.
//!
//! A list past its next update still counts, and a warning asks for a newer one: a late list must not shut out every
//! client. Invariant: a file that cannot be read any more keeps its lists, and holds up those of no other file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_serving::files::LIST_BYTES_MAX;
use orch_serving::tls::MALFORMED_PEM;
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, Der, TrustAnchor};
use rustls::server::WebPkiClientVerifier;
use time::OffsetDateTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer, ParsedExtension, X509Certificate};

use super::material::{MaterialError, read};

/// Begins every block of PEM.
const PEM_MARK: &[u8] = b"-----BEGIN";

/// The lists of some files.
#[derive(Clone, Debug, Default)]
pub struct Revocations {
    by_file: HashMap<PathBuf, Vec<Dated>>,
}

/// A list and when it was issued.
#[derive(Clone, Debug)]
struct Dated {
    issued: OffsetDateTime,
    list: CertificateRevocationListDer<'static>,
}

impl Revocations {
    /// Reads the lists in `paths`.
    ///
    /// # Errors
    /// A file cannot be read, or holds no list that can be used.
    pub fn load(paths: &[PathBuf], now: OffsetDateTime) -> Result<Revocations, MaterialError> {
        let by_file = paths.iter().map(|path| Ok((path.clone(), load(path, now)?)));
        Ok(Revocations { by_file: by_file.collect::<Result<_, MaterialError>>()? })
    }

    /// The same; a file that cannot be used keeps the lists that it had, if any, and the first such fault is told.
    pub fn reload(&self, paths: &[PathBuf], now: OffsetDateTime) -> (Revocations, Option<MaterialError>) {
        let (mut by_file, mut fault) = (HashMap::new(), None);
        for path in paths {
            let lists = load(path, now).unwrap_or_else(|error| {
                fault.get_or_insert(error);
                self.by_file.get(path).cloned().unwrap_or_default()
            });
            by_file.insert(path.clone(), lists);
        }
        (Revocations { by_file }, fault)
    }

    /// The lists, the newest first: of several lists of one authority, verifiers use the first.
    pub fn lists(&self) -> Vec<CertificateRevocationListDer<'static>> {
        let mut dated: Vec<&Dated> = self.by_file.values().flatten().collect();
        dated.sort_by(|one, other| (other.issued, &*one.list).cmp(&(one.issued, &*other.list)));
        dated.into_iter().map(|dated| dated.list.clone()).collect()
    }
}

fn load(path: &Path, now: OffsetDateTime) -> Result<Vec<Dated>, MaterialError> {
    let lists = parse(path, read(path, LIST_BYTES_MAX)?)?;
    lists.into_iter().map(|list| Ok(Dated { issued: issued(path, &list, now)?, list })).collect()
}

fn parse(path: &Path, content: Vec<u8>) -> Result<Vec<CertificateRevocationListDer<'static>>, MaterialError> {
    if !content.windows(PEM_MARK.len()).any(|window| window == PEM_MARK) {
        return Ok(vec![CertificateRevocationListDer::from(content)]);
    }
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&content).collect();
    let lists = lists.map_err(|_| malformed(path, &MALFORMED_PEM))?;
    match lists.is_empty() {
        true => Err(MaterialError::Empty { path: path.to_owned(), expected: "revocation list" }),
        false => Ok(lists),
    }
}

/// When `list` was issued.
fn issued(
    path: &Path,
    list: &CertificateRevocationListDer<'static>,
    now: OffsetDateTime,
) -> Result<OffsetDateTime, MaterialError> {
    let (_, parsed) = CertificateRevocationList::from_der(list).map_err(|error| malformed(path, &error))?;
    check_understood(list).map_err(|error| malformed(path, &error))?;
    if let Some(due) = parsed.next_update().map(|due| due.to_datetime()).filter(|due| *due < now) {
        let issuer = parsed.issuer();
        tracing::warn!(path = %path.display(), %issuer, %due, "a revocation list is overdue, it still counts");
    }
    Ok(parsed.last_update().to_datetime())
}

/// Whether verifiers take the list. They refuse all lists together where one is none for them, such as a delta list: its file
/// must be known before.
fn check_understood(
    list: &CertificateRevocationListDer<'static>,
) -> Result<(), rustls::server::VerifierBuilderError> {
    let nobody = TrustAnchor {
        subject: Der::from_slice(&[]),
        subject_public_key_info: Der::from_slice(&[]),
        name_constraints: None,
    };
    let roots = RootCertStore { roots: vec![nobody] };
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
        .with_crls([list.clone()])
        .build()
        .map(drop)
}

fn malformed(path: &Path, error: &dyn std::fmt::Display) -> MaterialError {
    MaterialError::Malformed { path: path.to_owned(), what: "revocation list", reason: error.to_string() }
}

/// The serial numbers on lists whose scope is a distribution point. A verifier passes over such a list for a certificate that
/// names another point; the certificate is revoked all the same, since an authority gives each number once.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopedSerials {
    by_issuer: HashMap<Vec<u8>, HashSet<Vec<u8>>>,
}

impl ScopedSerials {
    /// Those of `lists`, the newest first; of several lists of one scope the first counts.
    pub(super) fn of(lists: &[CertificateRevocationListDer<'_>]) -> ScopedSerials {
        let (mut by_issuer, mut seen) = (HashMap::<_, HashSet<_>>::new(), HashSet::new());
        for list in lists {
            // Lists were parsed when they were read.
            let Ok((_, parsed)) = CertificateRevocationList::from_der(list) else { continue };
            let issuer = parsed.issuer().as_raw().to_vec();
            let scope = |extension: &&x509_parser::prelude::X509Extension<'_>| {
                matches!(extension.parsed_extension(), ParsedExtension::IssuingDistributionPoint(_))
            };
            let Some(scope) = parsed.extensions().iter().find(scope) else { continue };
            if !seen.insert((issuer.clone(), scope.value.to_vec())) {
                continue;
            }
            let serials = parsed.iter_revoked_certificates().map(|revoked| trimmed(revoked.raw_serial()));
            by_issuer.entry(issuer).or_default().extend(serials);
        }
        ScopedSerials { by_issuer }
    }

    /// Whether one of the certificates is on such a list of its issuer.
    pub(super) fn name_one_of<'a>(&self, mut chain: impl Iterator<Item = &'a CertificateDer<'a>>) -> bool {
        !self.by_issuer.is_empty()
            && chain.any(|certificate| {
                let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
                let serials = self.by_issuer.get(parsed.issuer().as_raw());
                serials.is_some_and(|serials| serials.contains(&trimmed(parsed.raw_serial())))
            })
    }
}

/// A number without the zeros before it.
fn trimmed(serial: &[u8]) -> Vec<u8> {
    serial.iter().copied().skip_while(|&byte| byte == 0).collect()
}
