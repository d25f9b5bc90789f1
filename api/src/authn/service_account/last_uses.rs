//! Uses of kept tokens that are still to be recorded in their secrets.
//!
//! Owns which secrets these are, between the requests that use tokens and the loop that writes the days. A use is noted at
//! most once a day and member, since the label says that it was; a note costs requests a comparison on any other day.
//!
//! Invariant: the number of notes is bounded; a note that finds no room is made by the token's next use.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::secret_token::{DAY_S, SecretToken, day_text};

/// Notes that are held: some hundred bytes each. A cluster whose programs use more long-lived tokens records them one after
/// the other.
const NOTES_MAX: usize = 4096;

/// A use to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastUse {
    /// Uid of the secret.
    pub(crate) uid: String,
    /// The day of the use, as the label has it.
    pub(crate) day: String,
}

/// Namespace and name of a secret.
pub(crate) type SecretKey = (String, String);

/// The notes of a member.
#[derive(Debug, Default)]
pub(crate) struct LastUses {
    notes: Mutex<BTreeMap<SecretKey, LastUse>>,
    noted: Notify,
}

impl LastUses {
    /// Notes a use of `token` at `now`, in seconds since 1970, unless its secret says so already. As in the reference a clock
    /// that is a day ahead elsewhere counts.
    pub(super) fn note(&self, token: &SecretToken, now: u64) {
        let today = i64::try_from(now / DAY_S).unwrap_or(i64::MAX);
        let is_recorded = |day: i64| day == today || day == today.saturating_add(1);
        if token.last_used.is_some_and(is_recorded) {
            return;
        }
        let Some(day) = day_text(today) else { return };
        let key = (token.namespace.clone(), token.secret.clone());
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= NOTES_MAX && !notes.contains_key(&key) {
            return;
        }
        notes.insert(key, LastUse { uid: token.secret_uid.clone(), day });
        drop(notes);
        self.noted.notify_one();
    }

    /// Waits for notes and takes them all.
    pub(crate) async fn take(&self) -> BTreeMap<SecretKey, LastUse> {
        loop {
            let noted = self.noted.notified();
            let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
            if !notes.is_empty() {
                return notes;
            }
            noted.await;
        }
    }
}
