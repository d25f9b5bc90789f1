//! The objects that a token depends on: its account, and the pod, secret or node that it is bound to.
//!
//! Owns when such an object is gone. An object is parsed again only when its revision has changed.

use orch_raft::object::SharedObject;
use orch_raft::{Key, Revision};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::token::{Claims, ObjectRef};
use crate::follow::Applied;

/// Seconds that tokens stay valid after the deletion time of an object, so that what shuts down may still ask.
const GRACE_S: u64 = 60;

/// The objects of a token as they were when it was last checked.
#[derive(Debug)]
pub(super) struct Seen {
    /// Their revisions, in the order of [`objects`].
    revisions: Vec<Revision>,
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
    uid: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    deletion_timestamp: Option<std::borrow::Cow<'a, str>>,
}

impl Seen {
    /// Looks the objects of `claims` up. `None`: one is gone, or has been deleted for longer than the grace.
    pub(super) fn of(claims: &Claims, applied: &Applied, now: u64) -> Option<Seen> {
        let mut seen = Seen { revisions: Vec::new(), ends_at: u64::MAX };
        for (wanted, found) in objects(claims, applied) {
            let found = found?;
            let head: Head<'_> = serde_json::from_slice(&found.json).ok()?;
            if head.metadata.uid != wanted.uid.as_str() {
                return None;
            }
            if let Some(time) = head.metadata.deletion_timestamp {
                let time = OffsetDateTime::parse(&time, &Rfc3339).ok()?.unix_timestamp();
                let ends_at = u64::try_from(time).unwrap_or_default().saturating_add(GRACE_S);
                seen.ends_at = seen.ends_at.min(ends_at);
            }
            seen.revisions.push(found.revision);
        }
        (now < seen.ends_at).then_some(seen)
    }

    /// Whether the objects are the same versions, none of which has ended the token.
    pub(super) fn is_current(&self, claims: &Claims, applied: &Applied, now: u64) -> bool {
        let found = objects(claims, applied).map(|(_, found)| found.map(|object| object.revision));
        now < self.ends_at && found.eq(self.revisions.iter().map(|&revision| Some(revision)))
    }
}

/// The objects that end a token: the account, the bound pod and secret, and the node of a token that is bound to no pod.
fn objects<'a>(
    claims: &'a Claims,
    applied: &'a Applied,
) -> impl Iterator<Item = (&'a ObjectRef, Option<&'a SharedObject>)> + use<'a> {
    let node = claims.node.as_ref().filter(|_| claims.pod.is_none());
    let places = [
        ("serviceaccounts", Some(&claims.account), claims.namespace.as_str()),
        ("pods", claims.pod.as_ref(), &claims.namespace),
        ("secrets", claims.secret.as_ref(), &claims.namespace),
        ("nodes", node, ""),
    ];
    places.into_iter().filter_map(|(resource, wanted, namespace)| {
        let wanted = wanted?;
        let key = Key::new(&resource.into(), namespace, &wanted.name).ok();
        Some((wanted, key.and_then(|key| applied.state.object(&key))))
    })
}
