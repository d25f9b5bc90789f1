//! Certificates that carry what a request says, encoded byte by byte.
//!
//! Owns the DER of a certificate with a given subject and key. The library that makes this program's own certificates
//! keeps one value of each attribute of a subject, and users have several organizations (groups).

use std::net::IpAddr;

use orch_api::signing::{AlternativeName, KeyUsages, Template};
use time::OffsetDateTime;
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, Tag, construct_der};

const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_ID: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// The encoding of a name without attributes.
const EMPTY_NAME: [u8; 2] = [0x30, 0];

/// Named bits of the key usage extension.
const USAGE_BITS: usize = 9;

/// The year from which times are written with four digits.
const LONG_YEAR: i32 = 2050;

/// The issuer's part of a certificate.
pub(super) struct IssuerFields<'a> {
    /// Subject of the authority, DER.
    pub(super) name: &'a [u8],
    /// The authority's subject key identifier, where its certificate has one.
    pub(super) key_id: Option<&'a [u8]>,
    /// `AlgorithmIdentifier` of the signature, DER.
    pub(super) algorithm: &'a [u8],
    /// Serial number, big endian, positive.
    pub(super) serial: &'a [u8],
}

/// The part of a certificate that is signed.
pub(super) fn signed_part(
    template: &Template,
    issuer: &IssuerFields<'_>,
) -> Result<Vec<u8>, time::error::ComponentRange> {
    let start = OffsetDateTime::from_unix_timestamp(template.validity.not_before_s)?;
    let end = OffsetDateTime::from_unix_timestamp(template.validity.not_after_s)?;
    Ok(construct_der(|writer| {
        writer.write_sequence(|writer| {
            // Version 3.
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(issuer.serial, true);
            writer.next().write_der(issuer.algorithm);
            writer.next().write_der(issuer.name);
            writer.next().write_sequence(|writer| {
                write_time(writer.next(), start);
                write_time(writer.next(), end);
            });
            writer.next().write_der(&template.subject);
            writer.next().write_der(&template.public_key);
            writer.next().write_tagged(Tag::context(3), |writer| {
                writer.write_sequence_of(|writer| {
                    for extension in extensions(template, issuer.key_id) {
                        writer.next().write_der(&extension);
                    }
                });
            });
        });
    }))
}

/// The whole certificate.
pub(super) fn certificate(signed_part: &[u8], algorithm: &[u8], signature: &[u8]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(signed_part);
            writer.next().write_der(algorithm);
            writer.next().write_bitvec_bytes(signature, signature.len() * 8);
        });
    })
}

/// An `AlgorithmIdentifier`; RSA has null parameters, others none.
pub(super) fn algorithm(oid: &[u64], has_null: bool) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            if has_null {
                writer.next().write_null();
            }
        });
    })
}

fn write_time(writer: DERWriter<'_>, time: OffsetDateTime) {
    if time.year() < LONG_YEAR {
        writer.write_utctime(&UTCTime::from_datetime(time));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(time));
    }
}

fn extensions(template: &Template, key_id: Option<&[u8]>) -> Vec<Vec<u8>> {
    let usages = &template.usages;
    let mut all = Vec::new();
    if usages.bits != 0 {
        all.push(extension(KEY_USAGE, true, &key_usage(usages.bits)));
    }
    if !usages.extended.is_empty() {
        all.push(extension(EXTENDED_KEY_USAGE, false, &extended_key_usage(usages)));
    }
    // An empty sequence: no authority.
    all.push(extension(BASIC_CONSTRAINTS, true, &EMPTY_NAME));
    if let Some(key_id) = key_id {
        let id = construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(key_id));
            });
        });
        all.push(extension(AUTHORITY_KEY_ID, false, &id));
    }
    if !template.names.is_empty() {
        // Without a subject these names are all that identifies the holder.
        let is_critical = template.subject == EMPTY_NAME;
        all.push(extension(SUBJECT_ALT_NAME, is_critical, &alternative_names(&template.names)));
    }
    all
}

fn extension(oid: &[u64], is_critical: bool, value: &[u8]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            if is_critical {
                writer.next().write_bool(true);
            }
            writer.next().write_bytes(value);
        });
    })
}

fn key_usage(bits: u16) -> Vec<u8> {
    let (mut bytes, mut length) = ([0_u8; 2], 0);
    for bit in (0..USAGE_BITS).filter(|bit| bits >> bit & 1 == 1) {
        bytes[bit / 8] |= 0x80 >> (bit % 8);
        length = bit + 1;
    }
    construct_der(|writer| writer.write_bitvec_bytes(&bytes[..length.div_ceil(8)], length))
}

fn extended_key_usage(usages: &KeyUsages) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence_of(|writer| {
            for usage in &usages.extended {
                writer.next().write_oid(&ObjectIdentifier::from_slice(usage.oid()));
            }
        });
    })
}

fn alternative_names(names: &[AlternativeName]) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence_of(|writer| {
            for name in names {
                let (tag, bytes) = match name {
                    AlternativeName::Email(text) => (1, text.as_bytes().to_vec()),
                    AlternativeName::Dns(text) => (2, text.as_bytes().to_vec()),
                    AlternativeName::Uri(text) => (6, text.as_bytes().to_vec()),
                    AlternativeName::Ip(IpAddr::V4(address)) => (7, address.octets().to_vec()),
                    AlternativeName::Ip(IpAddr::V6(address)) => (7, address.octets().to_vec()),
                };
                let tag = Tag::context(tag);
                writer.next().write_tagged_implicit(tag, |writer| writer.write_bytes(&bytes));
            }
        });
    })
}
