//! The subject of a client's certificate: the user that it names.
//!
//! Owns which attributes count. Invariant: an attribute that cannot be read makes the subject unreadable: without it, the
//! certificate would name another user.

use std::time::Duration;

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

/// Subject attribute in which certificates of the field carry a user's uid.
pub const UID_ATTRIBUTE: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The subject of a certificate, and the end of its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The last common name, as in the reference; empty without one.
    pub common_name: String,
    /// Organizations, in their order.
    pub organizations: Vec<String>,
    /// The uid, if there is one.
    pub uid: Option<String>,
    /// When the certificate ends, since 1970.
    pub not_after: Duration,
}

/// The reason why a subject cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SubjectFault(String);

impl Subject {
    /// Reads the subject of `certificate`.
    ///
    /// # Errors
    /// The certificate or an attribute cannot be read, or it has more than one uid.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Subject, SubjectFault> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|error| SubjectFault(error.to_string()))?;
        let subject = parsed.subject();
        let mut common_name = String::new();
        for value in subject.iter_common_name() {
            common_name = text(value, "common name")?;
        }
        let organizations = subject.iter_organization().map(|value| text(value, "organization"));
        let organizations = organizations.collect::<Result<Vec<String>, SubjectFault>>()?;
        let uids: Vec<_> = subject.iter_by_oid(&UID_ATTRIBUTE).collect();
        let uid = match uids.as_slice() {
            [] => None,
            [uid] => Some(text(uid, "uid")?),
            _ => return Err(SubjectFault("more than one uid".to_owned())),
        };
        let not_after = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default();
        Ok(Subject { common_name, organizations, uid, not_after: Duration::from_secs(not_after) })
    }
}

fn text(value: &AttributeTypeAndValue<'_>, kind: &str) -> Result<String, SubjectFault> {
    value.as_str().map(str::to_owned).map_err(|error| SubjectFault(format!("unreadable {kind}: {error}")))
}
