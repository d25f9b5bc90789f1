//! Values of this module's own types for the golden test of stored forms (`crate::tests::golden`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::key::Revision;
pub(crate) use crate::member::codec::{Mark, entry_from_wire, entry_to_wire};
pub(crate) use crate::member::consensus::{Command, Entry, Payload, log_id};
use crate::member::consensus::{Membership, Place, StoredMembership};

/// A joint membership.
pub(crate) fn membership() -> Membership {
    let place = |n: u64| (n, Place { name: format!("n{n}").into(), address: format!("h{n}:1").into() });
    let members: BTreeMap<_, _> = (1..=4).map(place).collect();
    Membership::new(vec![[1, 2].into(), [2, 3].into()], members).unwrap()
}

/// The mark of a state, without changes of resources.
pub(crate) fn mark() -> Mark {
    let membership = StoredMembership::new(Some(log_id(1, 2)), membership());
    Mark { log_id: Some(log_id(2, 8)), membership, changed: None }
}

/// The same mark with the last change of a resource.
pub(crate) fn mark_with_changes() -> Mark {
    let changed = [(Arc::from("pods"), Revision(7))].into_iter().collect();
    Mark { changed: Some(changed), ..mark() }
}
