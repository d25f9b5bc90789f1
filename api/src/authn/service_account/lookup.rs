//! The objects that a token depends on: its account, and the pod, secret or node that it is bound to.
//!
//! Owns when such an object is gone. An object is parsed again only when its revision has changed.

use std::borrow::Cow;

use orch_raft::{Key, Revision};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::token::{Claims, ObjectRef};
use crate::follow::Applied;

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
    /// Looks the objects of `claims` up. `None`: one is gone, or has been deleted for longer than the grace.
    pub(super) fn of(claims: &Claims, applied: &Applied, now: u64) -> Option<Seen> {
        let mut seen = Seen { objects: Vec::new(), ends_at: u64::MAX };
        for (resource, namespace, wanted) in places(claims) {
            let key = Key::new(&resource.into(), namespace, &wanted.name).ok()?;
            let found = applied.state.object(&key)?;
            let head: Head<'_> = serde_json::from_slice(&found.json).ok()?;
            if head.metadata.uid != wanted.uid.as_str() {
                return None;
            }
            if let Some(time) = head.metadata.deletion_timestamp {
                let time = OffsetDateTime::parse(&time, &Rfc3339).ok()?.unix_timestamp();
                let ends_at = u64::try_from(time).unwrap_or_default().saturating_add(GRACE_S);
                seen.ends_at = seen.ends_at.min(ends_at);
            }
            let revision = found.revision;
            seen.objects.push((key, revision));
        }
        (now < seen.ends_at).then_some(seen)
    }

    /// Whether the objects are the same versions, none of which has ended the token.
    pub(super) fn is_current(&self, applied: &Applied, now: u64) -> bool {
        let is_same = |(key, revision): &(Key, Revision)| {
            applied.state.object(key).is_some_and(|found| found.revision == *revision)
        };
        now < self.ends_at && self.objects.iter().all(is_same)
    }
}

/// Resource, namespace and reference of the objects that end a token: the account, the bound pod and secret, and the
/// node of a token that is bound to no pod.
fn places(claims: &Claims) -> impl Iterator<Item = (&'static str, &str, &ObjectRef)> {
    let node = claims.node.as_ref().filter(|_| claims.pod.is_none());
    let namespace = claims.namespace.as_str();
    [
        ("serviceaccounts", namespace, Some(&claims.account)),
        ("pods", namespace, claims.pod.as_ref()),
        ("secrets", namespace, claims.secret.as_ref()),
        ("nodes", "", node),
    ]
    .into_iter()
    .filter_map(|(resource, namespace, wanted)| Some((resource, namespace, wanted?)))
}
