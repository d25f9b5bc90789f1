//! Certificates of further users, whom the cluster's authority for clients vouches for.
//!
//! Owns the subject: the user is the common name, each group an organization. The pairs of clients that come with the
//! cluster are in [`super::clients`]; these have no file in the certificate directory.

use std::collections::BTreeSet;

use orch_api::signing::{ExtendedUsage, KeyUsages, SigningAuthority, Template, Validity};
use rcgen::{KeyPair, PublicKeyData};
use time::{Duration, OffsetDateTime};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriterSeq, construct_der};

use super::authority::{BACKDATED, CertsError, PAIR_LIFE, Pair};
use super::layout::Layout;
use super::signer::FileAuthority;

/// Object identifiers of the attributes of a name.
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// Bit of the key usage extension: signatures, by which a client proves that it has the key.
const DIGITAL_SIGNATURE: u16 = 1;

/// A user to be vouched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its groups, in the order of the certificate.
    pub groups: Vec<String>,
}

/// A pair of a user, and when it ends.
pub struct UserPair {
    /// Certificate and key.
    pub pair: Pair,
    /// Last second of its validity.
    pub not_after: OffsetDateTime,
}

/// Makes a pair for `user` under the authority in `layout`, valid from `now` for `life` (a year if `None`), and never for longer
/// than the authority. Writes no file.
///
/// # Errors
/// The authority's files cannot be read, or the certificate cannot be made.
pub fn user_pair(
    layout: &Layout,
    user: &User,
    life: Option<std::time::Duration>,
    now: OffsetDateTime,
) -> Result<UserPair, CertsError> {
    let failed = |source| CertsError::Make { name: user.name.clone(), source };
    let unusable = |reason: String| CertsError::Content {
        path: layout.authority_certificate(),
        expected: "an authority that signs",
        reason,
    };
    let authority = FileAuthority::load(&layout.authority_certificate(), &layout.authority_key())?;
    let life = life.map(Duration::try_from).transpose().map_err(|error| unusable(error.to_string()))?;
    let not_after_s = (now + life.unwrap_or(PAIR_LIFE)).unix_timestamp().min(authority.not_after_s());
    let key = KeyPair::generate().map_err(failed)?;
    let template = Template {
        subject: subject(user),
        public_key: key.subject_public_key_info(),
        names: Vec::new(),
        usages: KeyUsages { bits: DIGITAL_SIGNATURE, extended: BTreeSet::from([ExtendedUsage::ClientAuth]) },
        validity: Validity { not_before_s: (now - BACKDATED).unix_timestamp(), not_after_s },
    };
    let certificate = authority.sign(&template).map_err(|error| unusable(error.to_string()))?;
    let not_after =
        OffsetDateTime::from_unix_timestamp(not_after_s).map_err(|error| unusable(error.to_string()))?;
    Ok(UserPair { pair: Pair { certificate, key: key.serialize_pem() }, not_after })
}

/// The subject, DER.
fn subject(user: &User) -> Vec<u8> {
    construct_der(|writer| {
        writer.write_sequence(|writer| {
            for group in &user.groups {
                write_attribute(writer, &ORGANIZATION, group);
            }
            write_attribute(writer, &COMMON_NAME, &user.name);
        });
    })
}

fn write_attribute(writer: &mut DERWriterSeq<'_>, oid: &[u64], text: &str) {
    writer.next().write_set(|writer| {
        writer.next().write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            writer.next().write_utf8_string(text);
        });
    });
}
