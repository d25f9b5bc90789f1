//! Questions to all other members, for the record of contacts and for the status.
//!
//! Owns who is asked, and what is passed on to an asker. The record itself is the parent's.

use futures::future::join_all;
use openraft_rt::Instant;
use orch_proto::store as wire;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::transport::{NodeId, Peer, Transport};

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Notes the answers of a round of questions to all other members.
    pub(crate) fn note_round(&self, asked: &[Peer], answers: &[Option<wire::AgreementResponse>]) {
        let now = R::Instant::now();
        self.contacts.mark(now, self.applied.revision().0);
        let at = (now, (self.options.clock)());
        self.contacts.note(at, asked.iter().zip(answers).map(|(peer, answer)| (peer.id.0, answer.as_ref())));
    }

    /// Asks all other members once, so that the status tells which of them answer now. Returns a member that says that this
    /// one was removed: the status is then that of the time before.
    pub(crate) async fn survey(&self) -> Option<Peer> {
        let membership = self.membership();
        let own = self.options.id();
        let peers = membership.membership().nodes().map(|(id, place)| place.peer(*id));
        let others: Vec<Peer> = peers.filter(|peer| peer.id != own).collect();
        let answers = join_all(others.iter().map(|peer| self.ask_checkpoints(peer))).await;
        self.note_round(&others, &answers);
        // A removed member is refused every other question.
        let silent: Vec<Peer> = others
            .into_iter()
            .zip(answers)
            .filter(|(_, answer)| answer.is_none())
            .map(|(peer, _)| peer)
            .collect();
        let said = join_all(silent.iter().map(|peer| self.is_removed_according_to(peer))).await;
        silent.into_iter().zip(said).find(|(_, says_so)| *says_so == Some(true)).map(|(peer, _)| peer)
    }

    /// Contacts of the other members but for `asker`, for `asker`.
    pub(crate) fn words_for(&self, asker: NodeId) -> Vec<wire::Contact> {
        let membership = self.membership();
        let members = membership.membership().nodes().map(|(id, _)| *id);
        self.contacts.words(R::Instant::now(), &members.filter(|id| *id != asker.0).collect())
    }
}
