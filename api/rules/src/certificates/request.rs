//! PKCS#10 requests and X.509 certificates as clients send them.
//!
//! Owns what the rules read of a request: subject, alternative names, key. Invariant: a [`CertificateRequest`] carries a
//! valid signature by the key it asks a certificate for. Signers certify the subject as it was encoded: a request whose
//! subject says more than the fields of [`CertificateRequest`] show is refused.

use std::net::IpAddr;

use x509_parser::asn1_rs::{Any, Oid, Tag, oid};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ED25519};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::pem::PemBlock;

/// Subject attribute in which Kubernetes certificates carry a user's uid.
const UID_ATTRIBUTE: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Why a request or a certificate is refused, in the reference's words where it has its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RequestError(String);

/// A subject alternative name that signers copy into a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlternativeName {
    /// A host name.
    Dns(String),
    /// An e-mail address.
    Email(String),
    /// An IP address.
    Ip(IpAddr),
    /// A URI.
    Uri(String),
}

/// A request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// Common name of the subject; empty where there is none.
    pub common_name: String,
    /// Organizations of the subject, in order.
    pub organizations: Vec<String>,
    /// Whether the subject carries a uid.
    pub has_uid: bool,
    /// Subject alternative names, in order.
    pub names: Vec<AlternativeName>,
    /// The subject as it was encoded, DER.
    pub subject: Vec<u8>,
    /// The key to certify as it was encoded, DER (`SubjectPublicKeyInfo`).
    pub public_key: Vec<u8>,
}

impl CertificateRequest {
    /// Parses the first PEM block of `text` and checks its signature.
    ///
    /// # Errors
    /// It is no request, was not signed by its key, or has a subject that cannot be read completely.
    pub fn parse(text: &[u8]) -> Result<CertificateRequest, RequestError> {
        let block = std::str::from_utf8(text).ok().and_then(PemBlock::first).map(|(block, _)| block);
        let block = block.filter(|block| block.label == "CERTIFICATE REQUEST");
        let block = block.ok_or_else(|| refused("PEM block type must be CERTIFICATE REQUEST"))?;
        let (rest, parsed) = X509CertificationRequest::from_der(&block.content)
            .map_err(|_| refused("asn1: structure error: not a certificate request"))?;
        if !rest.is_empty() {
            return Err(refused("asn1: syntax error: trailing data"));
        }
        let request = CertificateRequest::of(&parsed)?;
        parsed.verify_signature().map_err(|error| unverified(&parsed, &error))?;
        Ok(request)
    }

    fn of(parsed: &X509CertificationRequest<'_>) -> Result<CertificateRequest, RequestError> {
        let info = &parsed.certification_request_info;
        let (common_name, organizations, has_uid) = subject(&info.subject)?;
        // The parser cuts the encoding of a key where it stops to understand it, and the signer would copy the stump.
        if elements(info.subject_pki.raw).is_none() {
            return Err(refused("x509: malformed public key"));
        }
        let mut names = Vec::new();
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &requested.extensions {
                if let ParsedExtension::SubjectAlternativeName(found) = extension.parsed_extension() {
                    for name in &found.general_names {
                        names.extend(alternative_name(name)?);
                    }
                }
            }
        }
        Ok(CertificateRequest {
            common_name,
            organizations,
            has_uid,
            names,
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
        })
    }
}

/// Checks what a client sends as issued certificates: PEM blocks of certificates without headers, at least one.
///
/// # Errors
/// The first block that is none.
pub fn validate_certificates(text: &[u8]) -> Result<(), RequestError> {
    let mut rest = std::str::from_utf8(text).unwrap_or_default();
    let mut count = 0_usize;
    while let Some((block, after)) = PemBlock::first(rest) {
        if block.label != "CERTIFICATE" {
            let label = &block.label;
            return Err(refused(&format!("only CERTIFICATE PEM blocks are allowed, found {label:?}")));
        }
        if block.has_headers {
            return Err(refused("no PEM block headers are permitted"));
        }
        if block.content.is_empty() {
            return Err(refused("found CERTIFICATE PEM block containing 0 certificates"));
        }
        let mut content = block.content.as_slice();
        while !content.is_empty() {
            let parsed = X509Certificate::from_der(content);
            (content, _) = parsed.map_err(|_| refused("x509: malformed certificate"))?;
        }
        (rest, count) = (after, count + 1);
    }
    if count == 0 { Err(refused("must contain at least one CERTIFICATE PEM block")) } else { Ok(()) }
}

/// Seconds since 1970 at which the first certificate of `text` expires. `None`: it holds no certificate.
pub fn not_after(text: &[u8]) -> Option<i64> {
    let (block, _) = PemBlock::first(std::str::from_utf8(text).ok()?)?;
    let (_, certificate) = X509Certificate::from_der(&block.content).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// The common name, the organizations, and whether there is a uid.
fn subject(name: &X509Name<'_>) -> Result<(String, Vec<String>, bool), RequestError> {
    if count_attributes(name.as_raw()) != Some(name.iter_attributes().count()) {
        return Err(refused("x509: malformed subject"));
    }
    let mut common_names = name.iter_common_name();
    let common_name = common_names.next().map(text).transpose()?.unwrap_or_default();
    // Readers of certificates differ in which one counts.
    if common_names.next().is_some() {
        return Err(refused("x509: the subject has more than one common name"));
    }
    let organizations = name.iter_organization().map(text).collect::<Result<Vec<String>, RequestError>>()?;
    let uids = name.iter_by_oid(&UID_ATTRIBUTE).map(text).collect::<Result<Vec<String>, RequestError>>()?;
    Ok((common_name, organizations, !uids.is_empty()))
}

/// The text of an attribute. Attributes of other types of string are refused: no check sees them, and other readers of the
/// certificate understand them.
fn text(attribute: &AttributeTypeAndValue<'_>) -> Result<String, RequestError> {
    attribute.as_str().map(str::to_owned).map_err(|_| {
        refused(
            "x509: common names, organizations and uids of a subject must be UTF8String or PrintableString",
        )
    })
}

/// The number of attributes in the DER of a subject. `None`: it holds anything else. The parser of names stops without an
/// error at the first attribute that it cannot read.
fn count_attributes(subject: &[u8]) -> Option<usize> {
    let mut count = 0_usize;
    for name in elements(subject)? {
        for set in elements(name.data)? {
            for attribute in elements(set.data)? {
                // The parser of object identifiers does not look at the tag.
                match &elements(attribute.data)?[..] {
                    [of_type, _value] if of_type.tag() == Tag::Oid => count += 1,
                    _ => return None,
                }
            }
        }
    }
    Some(count)
}

/// The DER elements in `bytes`. `None`: there is something else, or the last one is cut.
fn elements(mut bytes: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut elements = Vec::new();
    while !bytes.is_empty() {
        let (rest, element) = <Any<'_> as FromDer<'_>>::from_der(bytes).ok()?;
        elements.push(element);
        bytes = rest;
    }
    Some(elements)
}

/// The name, or none where it is of a form that certificates do not get.
fn alternative_name(name: &GeneralName<'_>) -> Result<Option<AlternativeName>, RequestError> {
    Ok(Some(match name {
        GeneralName::DNSName(name) => AlternativeName::Dns((*name).to_owned()),
        GeneralName::RFC822Name(name) => AlternativeName::Email((*name).to_owned()),
        GeneralName::URI(name) => AlternativeName::Uri((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            AlternativeName::Ip(address(bytes).ok_or_else(|| {
                refused(&format!("x509: cannot parse IP address of length {}", bytes.len()))
            })?)
        }
        GeneralName::Invalid(..) => return Err(refused("x509: invalid subject alternative names")),
        _ => return Ok(None),
    }))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let short = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    short.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn unverified(parsed: &X509CertificationRequest<'_>, error: &X509Error) -> RequestError {
    if matches!(error, X509Error::SignatureUnsupportedAlgorithm) {
        return refused("x509: cannot verify signature: algorithm unimplemented");
    }
    let key = &parsed.certification_request_info.subject_pki.algorithm.algorithm;
    refused(if *key == OID_KEY_TYPE_EC_PUBLIC_KEY {
        "x509: ECDSA verification failure"
    } else if *key == OID_SIG_ED25519 {
        "x509: Ed25519 verification failure"
    } else {
        "crypto/rsa: verification error"
    })
}

fn refused(reason: &str) -> RequestError {
    RequestError(reason.to_owned())
}
