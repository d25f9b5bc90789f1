//! Certificate revocation lists: files in PEM form, each with any number of lists, or of one list in DER form.
//!
//! Owns reading the files and the order of the lists. Whether a list's signature is its authority's, and whether a
//! certificate is on a list, is decided by the verifiers that get them: a certificate of an authority whose list does not
//! verify is refused, one of an authority without a list is not.
//!
//! A list past its next update still counts, and a warning asks for a newer one: a late list must not shut out every
//! client.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::material::{MaterialError, read};

/// Begins every block of PEM.
const PEM_MARK: &[u8] = b"-----BEGIN";

/// Reads the lists in `paths`, the newest first: of several lists of one authority, verifiers use the first.
pub fn load_revocations(
    paths: &[PathBuf],
    now: OffsetDateTime,
) -> Result<Vec<CertificateRevocationListDer<'static>>, MaterialError> {
    let mut dated = Vec::new();
    for path in paths {
        for list in parse(path, read(path)?)? {
            dated.push((issued(path, &list, now)?, list));
        }
    }
    dated.sort_by_key(|(issued, _)| std::cmp::Reverse(*issued));
    Ok(dated.into_iter().map(|(_, list)| list).collect())
}

fn parse(path: &Path, content: Vec<u8>) -> Result<Vec<CertificateRevocationListDer<'static>>, MaterialError> {
    if !content.windows(PEM_MARK.len()).any(|window| window == PEM_MARK) {
        return Ok(vec![CertificateRevocationListDer::from(content)]);
    }
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&content).collect();
    let lists = lists.map_err(|error| malformed(path, &error))?;
    match lists.is_empty() {
        true => Err(MaterialError::Empty { path: path.to_owned(), expected: "revocation list" }),
        false => Ok(lists),
    }
}

/// When `list` was issued.
fn issued(
    path: &Path,
    list: &CertificateRevocationListDer<'_>,
    now: OffsetDateTime,
) -> Result<OffsetDateTime, MaterialError> {
    let (_, parsed) = CertificateRevocationList::from_der(list).map_err(|error| malformed(path, &error))?;
    if let Some(due) = parsed.next_update().map(|due| due.to_datetime()).filter(|due| *due < now) {
        let issuer = parsed.issuer();
        tracing::warn!(path = %path.display(), %issuer, %due, "a revocation list is overdue, it still counts");
    }
    Ok(parsed.last_update().to_datetime())
}

fn malformed(path: &Path, error: &dyn std::fmt::Display) -> MaterialError {
    MaterialError::Malformed { path: path.to_owned(), what: "revocation list", reason: error.to_string() }
}
