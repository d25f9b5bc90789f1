//! Reads certificate files and prints their facts.

use std::fmt;
use std::path::{Path, PathBuf};

use orch_serving::tls::MALFORMED_PEM;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::{CertsError, read};

/// Facts of one certificate. `Display` prints them on several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The file.
    pub path: PathBuf,
    /// Distinguished name of the subject.
    pub subject: String,
    /// Distinguished name of the authority that signed it.
    pub issuer: String,
    /// Host names and IP addresses for which it is valid; may be empty.
    pub hosts: Vec<String>,
    /// Whether it is an authority's certificate.
    pub authority: bool,
    /// Start of its validity.
    pub not_before: OffsetDateTime,
    /// End of its validity.
    pub not_after: OffsetDateTime,
}

/// Facts of the certificates in the file `path`, or in all `.crt` files of the directory `path` and those below it,
/// sorted by path.
pub fn inspect(path: &Path) -> Result<Vec<Facts>, CertsError> {
    let mut found = Vec::new();
    for file in certificate_files(path)? {
        found.extend(inspect_pem(&file, read(&file)?.as_bytes())?);
    }
    Ok(found)
}

/// Facts of the certificates in `pem`, which stands in the file `path`.
pub(super) fn inspect_pem(path: &Path, pem: &[u8]) -> Result<Vec<Facts>, CertsError> {
    let certificates = CertificateDer::pem_slice_iter(pem);
    let read = certificates.map(|certificate| match certificate {
        Ok(certificate) => facts(path, &certificate),
        Err(_) => Err(not_a_certificate(path, &MALFORMED_PEM)),
    });
    read.collect()
}

/// The message of an inspection of `path` that found no certificate.
pub fn no_certificate_in(path: &Path) -> String {
    match path.is_dir() {
        true => format!("there is no certificate in {} (a file *.crt) nor below it", path.display()),
        false => format!("there is no certificate in {}: no PEM block CERTIFICATE", path.display()),
    }
}

fn certificate_files(path: &Path) -> Result<Vec<PathBuf>, CertsError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| CertsError::File { action: "read", path: path.to_owned(), source };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            files.extend(certificate_files(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "crt") {
            files.push(entry);
        }
    }
    Ok(files)
}

fn facts(path: &Path, certificate: &CertificateDer<'_>) -> Result<Facts, CertsError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|error| not_a_certificate(path, &error))?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let hosts =
        names.map_or_else(Vec::new, |names| names.value.general_names.iter().filter_map(host).collect());
    Ok(Facts {
        path: path.to_owned(),
        subject: parsed.subject().to_string(),
        issuer: parsed.issuer().to_string(),
        hosts,
        authority: parsed.is_ca(),
        not_before: parsed.validity().not_before.to_datetime(),
        not_after: parsed.validity().not_after.to_datetime(),
    })
}

fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| std::net::IpAddr::from(octets).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|octets| std::net::IpAddr::from(octets).to_string()),
            _ => None,
        },
        _ => None,
    }
}

fn not_a_certificate(path: &Path, error: &dyn fmt::Display) -> CertsError {
    CertsError::Content { path: path.to_owned(), expected: "a certificate", reason: error.to_string() }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.authority { " (authority)" } else { "" };
        writeln!(f, "{}{kind}", self.path.display())?;
        writeln!(f, "  subject  {}", self.subject)?;
        writeln!(f, "  issuer   {}", self.issuer)?;
        if !self.hosts.is_empty() {
            writeln!(f, "  hosts    {}", self.hosts.join(", "))?;
        }
        write!(f, "  valid    {} to {}", self.not_before.date(), self.not_after.date())
    }
}
