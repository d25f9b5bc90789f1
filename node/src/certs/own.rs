//! A member's own pairs at its start: renewed where the key of their authority is at hand.
//!
//! Owns the decision which pairs are due, and their renewal. It renews no pair of another member and none of a client: several
//! members may share a directory, and two that write one pair would leave a key without its certificate.

use std::path::PathBuf;

use time::OffsetDateTime;

use super::authority::{Authority, CertsError, Purpose};
use super::expiry::is_about_to_expire;
use super::inspect::inspect;
use super::layout::Layout;
use super::renew::{same_names, write};

/// One of the two pairs of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPair {
    /// Shown to clients.
    Server,
    /// Shown to other members.
    Peer,
}

/// A renewal of one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRenewal {
    /// File of the certificate.
    pub certificate: PathBuf,
    /// End of the old certificate's validity.
    pub expired: OffsetDateTime,
}

/// Renews `pair` of member `name` if its certificate has ended, is about to, or is not valid yet, and the key of its authority
/// is in the directory. `None`: nothing was due, or the key is elsewhere.
///
/// The new certificate is valid from the start of the old one. If this machine's clock runs ahead, other machines accept it all
/// the same.
///
/// # Errors
/// A file cannot be read or written; the authority is not valid now, which it is not under a clock that is far off.
pub fn renew_own(
    layout: &Layout,
    name: &str,
    pair: OwnPair,
    now: OffsetDateTime,
) -> Result<Option<OwnRenewal>, CertsError> {
    let files = layout.member(name);
    let (authority, certificate, key, purpose) = match pair {
        OwnPair::Server => (layout.authority(), files.server_certificate, files.server_key, Purpose::Server),
        OwnPair::Peer => (layout.peer_authority(), files.peer_certificate, files.peer_key, Purpose::Peer),
    };
    // A missing certificate is reported when it is loaded.
    if !authority.key.is_file() || !certificate.is_file() {
        return Ok(None);
    }
    let found = inspect(&certificate)?;
    let is_due = found.iter().any(|facts| is_about_to_expire(facts, now) || facts.not_before > now);
    let Some(first) = found.iter().min_by_key(|facts| facts.not_after).filter(|_| is_due) else {
        return Ok(None);
    };
    let signing = Authority::load(&authority.certificate, &authority.key)?;
    signing.require_valid(&authority.certificate, now)?;
    let leaf = same_names(&certificate, name, purpose)?;
    let made = signing.issue_from(&leaf, found[0].not_before, now)?;
    write(&certificate, &key, &made)?;
    Ok(Some(OwnRenewal { certificate, expired: first.not_after }))
}
