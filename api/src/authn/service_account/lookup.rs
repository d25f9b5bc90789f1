//! The objects that a token depends on: its account, and the pod, secret or node that it is bound to.
//!
//! Owns when such an object is gone. An object is parsed again only when its revision has changed.

use std::borrow::Cow;

use orch_raft::{Key, Revision};
use orch_schema::excerpt::quoted;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::token::{Claims, ObjectRef, TokenError};
use crate::follow::Applied;

/// Storage resource of service accounts.
pub(super) const ACCOUNTS: &str = "serviceaccounts";

/// Seconds that tokens stay valid after the deletion time of an object, so that programs that shut down may still ask.
/// The reference's leeway.
const GRACE_S: u64 = 60;

/// The objects of a token as they were when it was last checked.
#[derive(Debug, Default)]
pub(super) struct Seen {
    objects: Vec<(Key, Revision)>,
    /// When the first of them ends the token by its deletion, in seconds since 1970.
    ends_at: u64,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(default, borrow)]
    uid: Cow<'a, str>,
    #[serde(default, borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
}

impl Seen {
    /// Looks the objects of `claims` up.
    ///
    /// # Errors
    /// An object is gone, is another of the same name, or has been deleted for longer than the grace.
    pub(super) fn of(claims: &Claims, applied: &Applied, now: u64) -> Result<Seen, TokenError> {
        let mut seen = Seen { objects: Vec::new(), ends_at: u64::MAX };
        for (resource, namespace, wanted) in places(claims) {
            let key = Key::new(&resource.into(), namespace, &wanted.name).ok();
            let found = key.as_ref().and_then(|key| applied.state.object(key));
            let (Some(key), Some(found)) = (&key, found) else { return Err(absent(resource, &wanted.name)) };
            let head: Head<'_> = serde_json::from_slice(&found.json).map_err(|_| TokenError::Invalidated)?;
            if head.metadata.uid != wanted.uid.as_str() {
                return Err(another(resource, &head.metadata.uid, &wanted.uid));
            }
            if let Some(time) = head.metadata.deletion_timestamp {
                let time = OffsetDateTime::parse(&time, &Rfc3339).map_err(|_| TokenError::Invalidated)?;
                let time = u64::try_from(time.unix_timestamp()).unwrap_or_default();
                seen.ends_at = seen.ends_at.min(time.saturating_add(GRACE_S));
            }
            seen.objects.push((key.clone(), found.revision));
        }
        if now < seen.ends_at { Ok(seen) } else { Err(TokenError::Invalidated) }
    }

    /// Objects of which each change ends what was seen.
    pub(super) fn versions(objects: Vec<(Key, Revision)>) -> Seen {
        Seen { objects, ends_at: u64::MAX }
    }

    /// Whether the objects are the same versions, none of which has ended the token.
    pub(super) fn is_current(&self, applied: &Applied, now: u64) -> bool {
        let is_same = |(key, revision): &(Key, Revision)| {
            applied.state.object(key).is_some_and(|found| found.revision == *revision)
        };
        now < self.ends_at && self.objects.iter().all(is_same)
    }
}

/// The fault of a token whose object does not exist.
pub(super) fn absent(resource: &str, name: &str) -> TokenError {
    match resource {
        ACCOUNTS => TokenError::Object(format!("{resource} {} not found", quoted(name))),
        _ => TokenError::Unbound,
    }
}

/// The fault of a token whose object was replaced by another of the same name.
pub(super) fn another(resource: &str, found: &str, claimed: &str) -> TokenError {
    TokenError::Object(match resource.strip_suffix('s') {
        Some(kind) if resource != ACCOUNTS => {
            format!("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")
        }
        _ => format!("service account UID ({found}) does not match claim ({claimed})"),
    })
}

/// Resource, namespace and reference of the objects that end a token: the account, the bound pod and secret, and the
/// node of a token that is bound to no pod.
fn places(claims: &Claims) -> impl Iterator<Item = (&'static str, &str, &ObjectRef)> {
    let node = claims.node.as_ref().filter(|_| claims.pod.is_none());
    let namespace = claims.namespace.as_str();
    [
        (ACCOUNTS, namespace, Some(&claims.account)),
        ("pods", namespace, claims.pod.as_ref()),
        ("secrets", namespace, claims.secret.as_ref()),
        ("nodes", "", node),
    ]
    .into_iter()
    .filter_map(|(resource, namespace, wanted)| Some((resource, namespace, wanted?)))
}
