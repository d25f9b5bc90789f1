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

/// A pair of a member: for its clients, or for its peers.
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
    /// End of the old certificate's validity, which may lie ahead.
    pub previous_end: OffsetDateTime,
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
    Ok(Some(OwnRenewal { certificate, previous_end: first.not_after }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use time::Duration;

    use super::super::{Facts, init, renew};
    use super::*;
    use crate::cli::{BrandName, InitArgs, MemberSpec, RenewArgs};

    /// A directory of the members `a` and `b`, made at `made`.
    fn directory(made: OffsetDateTime) -> (tempfile::TempDir, Layout) {
        let directory = tempfile::tempdir().unwrap();
        let member =
            |name: &str| MemberSpec { name: name.to_owned(), hosts: vec![format!("{name}.example.com")] };
        let arguments = InitArgs {
            dir: directory.path().to_owned(),
            members: vec![member("a"), member("b")],
            secure_port: 6443,
            brand: BrandName(&orch_proto::brand::ORCH),
            if_absent: false,
        };
        init(&arguments, made).unwrap();
        let layout = Layout::new(directory.path());
        (directory, layout)
    }

    fn facts(path: &Path) -> Facts {
        inspect(path).unwrap().remove(0)
    }

    #[test]
    fn pairs_that_have_ended_are_renewed_where_the_key_is_at_hand_and_no_others() {
        let made = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
        let (_directory, layout) = directory(made);
        let files = layout.member("a");
        let other = [layout.member("b").server_certificate, layout.root().join("admin.crt")];
        let untouched = other.clone().map(|path| std::fs::read(path).unwrap());
        let later = made + Duration::days(400);
        assert_eq!(renew_own(&layout, "a", OwnPair::Peer, made + Duration::days(300)).unwrap(), None);
        let elsewhere = layout.root().join("elsewhere");
        std::fs::rename(layout.peer_authority_key(), &elsewhere).unwrap();
        assert_eq!(renew_own(&layout, "a", OwnPair::Peer, later).unwrap(), None, "the key is elsewhere");
        std::fs::rename(&elsewhere, layout.peer_authority_key()).unwrap();
        for (pair, certificate, key) in [
            (OwnPair::Server, &files.server_certificate, &files.server_key),
            (OwnPair::Peer, &files.peer_certificate, &files.peer_key),
        ] {
            let before = facts(certificate);
            let renewed = renew_own(&layout, "a", pair, later).unwrap().unwrap();
            assert_eq!((&renewed.certificate, renewed.previous_end), (certificate, before.not_after));
            let after = facts(certificate);
            assert_eq!((&after.subject, &after.hosts), (&before.subject, &before.hosts));
            assert_eq!(after.not_before, before.not_before, "a clock that runs ahead does no harm");
            assert_eq!(after.not_after, later + Duration::days(365));
            crate::tls::load_pair(certificate, key, later).unwrap();
            assert_eq!(renew_own(&layout, "a", pair, later).unwrap(), None, "once");
        }
        assert_eq!(other.map(|path| std::fs::read(path).unwrap()), untouched);
    }

    #[test]
    fn under_a_clock_outside_the_authority_nothing_is_renewed() {
        let made = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
        let (_directory, layout) = directory(made);
        let certificate = layout.member("a").server_certificate;
        let before = std::fs::read(&certificate).unwrap();
        for clock in [OffsetDateTime::UNIX_EPOCH, made + Duration::days(4000)] {
            let error = renew_own(&layout, "a", OwnPair::Server, clock).unwrap_err();
            assert!(matches!(error, CertsError::AuthorityNotValid { .. }), "{error}");
            assert_eq!(std::fs::read(&certificate).unwrap(), before);
        }
        // A clock that runs behind the last renewal: the certificate is not valid yet.
        let renewed = made + Duration::days(400);
        let arguments = RenewArgs { dir: layout.root().to_owned(), members: vec!["a".to_owned()] };
        renew(&arguments, renewed).unwrap();
        let behind = renewed - Duration::days(1);
        renew_own(&layout, "a", OwnPair::Server, behind).unwrap().unwrap();
        assert!(facts(&certificate).not_before <= behind);
    }
}
