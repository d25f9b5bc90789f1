//! Room for large documents that wait for another server and have given their place in the pool back.
//!
//! Owns the bound on what they hold, in documents and in bytes of these, for the node and for each party. A document that
//! finds no room keeps its place while it waits, so that memory is bounded however slow a hook is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::turns::Party;

/// A quantity of documents, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    documents: usize,
    bytes: usize,
}

/// The documents that wait. Clones share the room.
#[derive(Clone, Debug)]
pub(super) struct WaitingRoom(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The most of one party.
    share: Load,
    max: Load,
    held: Load,
    /// The load of each party; none of them is empty.
    parties: HashMap<Party, Load>,
}

/// A document in the room, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingDocument {
    room: WaitingRoom,
    party: Party,
    bytes: usize,
}

impl WaitingRoom {
    /// A room for `documents` of `bytes` together, of which one party has half.
    pub(super) fn new(documents: usize, bytes: usize) -> WaitingRoom {
        let share = Load { documents: documents.div_ceil(2), bytes: bytes.div_ceil(2) };
        let (max, held) = (Load { documents, bytes }, Load::default());
        WaitingRoom(Arc::new(Mutex::new(State { share, max, held, parties: HashMap::new() })))
    }

    /// Takes in a document of `party`. `None`: there is no room for it.
    pub(super) fn enter(&self, party: &Party, bytes: usize) -> Option<WaitingDocument> {
        let mut state = self.state();
        let own = state.parties.get(party).copied().unwrap_or_default();
        let (held, own) = (state.held.with(bytes), own.with(bytes));
        if !held.is_within(state.max) || !own.is_within(state.share) {
            return None;
        }
        state.held = held;
        state.parties.insert(party.clone(), own);
        Some(WaitingDocument { room: self.clone(), party: party.clone(), bytes })
    }

    /// The state, also after a panic of another holder: it is whole between any two of its changes.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Load {
    fn with(self, bytes: usize) -> Load {
        Load { documents: self.documents + 1, bytes: self.bytes + bytes }
    }

    fn without(self, bytes: usize) -> Load {
        Load { documents: self.documents - 1, bytes: self.bytes - bytes }
    }

    fn is_within(self, most: Load) -> bool {
        self.documents <= most.documents && self.bytes <= most.bytes
    }
}

impl Drop for WaitingDocument {
    fn drop(&mut self) {
        let mut state = self.room.state();
        state.held = state.held.without(self.bytes);
        let Some(own) = state.parties.get_mut(&self.party) else { return };
        *own = own.without(self.bytes);
        if own.documents == 0 {
            state.parties.remove(&self.party);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::User;

    fn party(name: &str) -> Party {
        Party::of(&User { name: name.to_owned(), ..User::anonymous() })
    }

    #[test]
    fn a_party_has_half_of_the_documents_and_of_their_bytes() {
        let room = WaitingRoom::new(4, 100);
        let (a, b) = (party("a"), party("b"));
        let first = room.enter(&a, 30);
        assert!(first.is_some());
        assert!(room.enter(&a, 21).is_none(), "more than half of the bytes");
        let second = room.enter(&a, 20);
        assert!(second.is_some());
        assert!(room.enter(&a, 0).is_none(), "more than half of the documents");
        let third = room.enter(&b, 50);
        assert!(third.is_some());
        assert!(room.enter(&party("c"), 1).is_none(), "the room is full");
        drop(first);
        assert!(room.enter(&a, 30).is_some());
        drop((second, third));
        let state = room.state();
        assert_eq!((state.held, state.parties.len()), (Load::default(), 0));
    }
}
