//! Enrolment: whether a member with an empty disk may take part.
//!
//! Owns the decision between a founder, a new member, and a member that lost its data. The last must never vote or
//! acknowledge again under its name: entries it once acknowledged may be on one other disk only. Until the decision this
//! member answers only the requests by which others decide: identity, feature level, founding. By the answers of the others:
//!
//! - A founding names this very disk: take part in it.
//! - A member has a leader behind it and does not know this one with another disk: join and be replicated to.
//! - A member knows this one with another disk, or as removed: refuse to start. Such answers are ignored where more members,
//!   each with a leader behind it, say otherwise: the machine of a member that says so may be in other hands.
//! - None of these: wait. An empty disk founds no cluster by itself (see founding).
//!
//! Invariant: the contents of disks decide; configuration and clocks do not.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::codec::{stored_membership_from_wire, stored_membership_to_wire};
use crate::member::core::{Core, within};
use crate::member::identity::{ClusterIdentity, founding_disk, is_founder, registered, save};
use crate::member::network::control;
use crate::member::old_disk::recall::recall;
use crate::member::options::StartError;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Peer, Transport};

/// Pause between two rounds of asking all members, which may start in any order, minutes apart.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// Time for one member's answer, which includes that member's own question to its leader.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the barrier by which an answering member makes sure that a leader is behind it.
const CONFIRM_TIMEOUT: Duration = Duration::from_millis(700);

/// Rounds after which a wait is told for the first time: a second, in which members that were started together have all answered.
const FIRST_TOLD_ROUND: u64 = 10;

/// Rounds after which it is told again: half a minute, so that an operator who looks at the log sees why nothing happens.
const TOLD_ROUNDS: u64 = 300;

/// The authority behind a member's answer about identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A leader, of which the member makes sure by a barrier; the answer says whether there is one.
    Leader,
    /// The member's own state.
    OwnState,
}

/// The decision that follows from the answers of one round.
#[derive(Debug, PartialEq)]
enum Decision {
    Found(wire::Founding),
    Join,
    LostData,
    Removed,
    /// No answer names this disk in a founding or has a leader behind it: ask again.
    Ask,
}

/// Whether the answering member knows this one with another disk than `own_directory`.
fn knows_other(answer: &wire::IdentityResponse, own_directory: &str) -> bool {
    !answer.directory.is_empty() && answer.directory != own_directory
}

/// Whether the answers in `against` are outvoted: more of the `others` have a leader behind them. Such a member has applied
/// every registration and removal up to now, so an honest one never contradicts a true answer. Two that lie can outvote it.
fn is_outvoted(against: &[wire::IdentityResponse], others: &[wire::IdentityResponse]) -> bool {
    let confirmed = others.iter().filter(|answer| answer.confirmed).count();
    !against.is_empty() && confirmed > against.len()
}

fn decide(answers: &[wire::IdentityResponse], node: NodeId, own_directory: &str) -> Decision {
    if answers.iter().any(|answer| answer.removed) {
        return Decision::Removed;
    }
    if answers.iter().any(|answer| knows_other(answer, own_directory)) {
        return Decision::LostData;
    }
    let foundings = answers.iter().filter_map(|answer| answer.identity.as_ref()?.founding.as_ref());
    if let Some(founding) =
        foundings.clone().find(|one| founding_disk(Some(one), node) == Some(own_directory))
    {
        return Decision::Found(founding.clone());
    }
    if answers.iter().any(|answer| answer.confirmed) { Decision::Join } else { Decision::Ask }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Decides whether this member takes part, then saves the cluster's identity and registers this start.
    pub(crate) async fn take_part(self: Arc<Self>) {
        if !self.joining.is_enrolled() && !self.enrol().await {
            return;
        }
        self.make_known().await;
    }

    /// Asks the others until they decide; `false` when this member must not take part.
    async fn enrol(&self) -> bool {
        if self.identity().founding.is_some() {
            // The last start ended between writing the founding and the first membership.
            self.enter_first_membership().await;
            return true;
        }
        let founders = &self.options.initial_cluster;
        let asked: Vec<&Peer> = founders.iter().chain(&self.options.join).collect();
        let asked: Vec<&Peer> = asked.into_iter().filter(|peer| peer.id != self.options.id()).collect();
        let mut rounds = 0u64;
        // The first founder is enrolled by its operator's request (see founding), not by an answer.
        while !self.joining.is_enrolled() {
            let answers = join_all(asked.iter().map(|peer| self.ask_identity(peer, Backing::Leader))).await;
            let answers = self.believable(answers.into_iter().flatten().collect());
            if self.joining.is_enrolled() {
                // Founded during the round: promises made since then contradict nothing.
                break;
            }
            // A joining member that has no peer to ask waits for the leader of the cluster that it was added to.
            let decision = match asked.is_empty() && founders.is_empty() {
                true => Decision::Join,
                false => decide(&answers, self.options.id(), &self.identity().directory),
            };
            let contradicted = answers.iter().find_map(|answer| self.returning.contradicted_by(answer));
            let name = self.options.node.name.to_string();
            match decision {
                Decision::LostData => {
                    self.fatal.report(StartError::LostData { name });
                    return false;
                }
                Decision::Removed => {
                    self.fatal.report(StartError::Removed { name });
                    return false;
                }
                // The disk is not marked: one without a log is compared at every start.
                _ if contradicted.is_some() => {
                    let reason = contradicted.unwrap_or_default();
                    self.fatal.report(StartError::RolledBack { name, reason });
                    return false;
                }
                Decision::Found(founding) => {
                    if self.enter(founding).await.is_err() {
                        return false;
                    }
                }
                Decision::Join if !self.supports_level_of(&asked).await => return false,
                Decision::Join => {
                    self.be_introduced(&answers);
                    self.joining.enrol();
                }
                Decision::Ask => R::sleep(ASK_PAUSE).await,
            }
            if rounds == FIRST_TOLD_ROUND || (rounds > 0 && rounds.is_multiple_of(TOLD_ROUNDS)) {
                self.log_waiting(answers.len(), asked.len());
            }
            rounds += 1;
        }
        true
    }

    /// The answers, without those against this member or its disk where they are outvoted.
    fn believable(&self, answers: Vec<wire::IdentityResponse>) -> Vec<wire::IdentityResponse> {
        let own = self.identity().directory;
        let is_against = |answer: &wire::IdentityResponse| {
            answer.removed || knows_other(answer, &own) || self.returning.contradicted_by(answer).is_some()
        };
        let (against, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(is_against);
        if is_outvoted(&against, &others) {
            if self.warnings.may_warn("outvoted") {
                let nodes = against.iter().filter_map(|answer| answer.identity.as_ref());
                let lost_data: Vec<&str> = nodes.map(|identity| &*identity.name).collect();
                let removed = against.iter().filter(|answer| answer.removed).count();
                tracing::error!(
                    ?lost_data,
                    removed,
                    "members say that this one was removed or lost its data, but more members with a leader behind them do \
                     not: it goes on; look at the members that said so"
                );
            }
            return others;
        }
        against.into_iter().chain(others).collect()
    }

    /// Notes the voters of the newest membership in the answers of members that have a leader behind them.
    fn be_introduced(&self, answers: &[wire::IdentityResponse]) {
        let confirmed = answers.iter().filter(|answer| answer.confirmed);
        let memberships =
            confirmed.filter_map(|answer| stored_membership_from_wire(answer.membership.clone()).ok());
        let newest = memberships.max_by_key(|membership| *membership.log_id());
        let Some(newest) = newest else { return };
        let membership = newest.membership();
        let voters = membership.voter_ids().filter(|id| *id != self.options.id().0);
        let voters = voters.filter_map(|id| Some(membership.get_node(&id)?.peer(id)));
        *self.joining.introduced.lock() = voters.collect();
    }

    /// Asks `peer` for its identity and for what it knows of this member's disk; `None` when it does not answer.
    pub(crate) async fn ask_identity(&self, peer: &Peer, backing: Backing) -> Option<wire::IdentityResponse> {
        let unconfirmed = backing == Backing::OwnState;
        let request = Request::Identity(wire::IdentityRequest { unconfirmed, about: 0 });
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) => Some(answer),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(peer = %peer.name, %error, "asking for the cluster");
                None
            }
        }
    }

    /// Answers another member's question for identities. A removed member is told that it was removed, and nothing else: its
    /// machine or its certificate may be in other hands since.
    pub(crate) async fn answer_identity(
        &self,
        asker: NodeId,
        request: wire::IdentityRequest,
    ) -> wire::IdentityResponse {
        let told_removed = || wire::IdentityResponse { removed: true, ..wire::IdentityResponse::default() };
        if self.standing(asker) == Standing::Removed {
            return told_removed();
        }
        let answer = self.identity_answer(asker, request).await;
        // The removal may have been applied while the answer was made, which waits for the leader.
        if self.standing(asker) == Standing::Removed { told_removed() } else { answer }
    }

    /// The answer to `asker`, which was not removed.
    async fn identity_answer(&self, asker: NodeId, request: wire::IdentityRequest) -> wire::IdentityResponse {
        let may_confirm = !request.unconfirmed && self.joining.is_enrolled();
        let confirmed = match may_confirm && self.leader().is_some() {
            true => within::<R, _>(CONFIRM_TIMEOUT, self.barrier()).await.is_some_and(|read| read.is_ok()),
            false => false,
        };
        let is_waiting = !self.joining.is_enrolled() && self.identity().founding.is_none();
        let state = self.applied.state();
        let mut identity = self.identity();
        let founder = founding_disk(identity.founding.as_ref(), asker).map(str::to_owned);
        // Once the state has the cluster's identity, it tells more than the founding. But a founder that has not registered
        // yet may never have received the founding, and may be needed to elect the leader that could let it in.
        let is_late =
            is_founder(&state, asker) && registered(&state, asker).is_some_and(|known| known.starts == 0);
        if ClusterIdentity::read(&state).is_some() && !is_late {
            identity.founding = None;
        }
        let recall = recall(self.options.id(), &state, &self.promises, asker.0);
        let about = Some(request.about).filter(|id| *id != 0).map(|id| self.standing(NodeId(id)));
        wire::IdentityResponse {
            identity: Some(identity),
            membership: Some(stored_membership_to_wire(&self.applied.membership())),
            log_end: self.status().last_log.saturating_add(u64::from(!is_waiting)),
            directory: Some(recall.directory)
                .filter(|known| !known.is_empty())
                .or(founder)
                .unwrap_or_default(),
            confirmed,
            removed: false,
            waiting: is_waiting,
            founders: self.options.initial_cluster.iter().map(|peer| peer.id.0).collect(),
            starts: recall.starts,
            incarnation: recall.incarnation,
            promised: recall.promised,
            about_member: about == Some(Standing::Member),
            about_removed: about == Some(Standing::Removed),
            about_learner: about == Some(Standing::Member) && !self.is_voter(NodeId(request.about)),
            about_stranger: about == Some(Standing::Stranger) && self.is_in_touch(),
            quarantined: self.agreement.is_quarantined(),
        }
    }

    /// This member's identity, as its disk has it.
    pub(crate) fn identity(&self) -> wire::Identity {
        self.joining.identity.lock().clone()
    }

    /// Changes the identity on the disk, then in memory. A failed write ends this member.
    pub(crate) async fn change_identity(&self, change: impl FnOnce(&mut wire::Identity)) -> io::Result<()> {
        let _alone = self.joining.identifying.lock().await;
        let mut identity = self.identity();
        change(&mut identity);
        self.fatal.disk(save(&*self.disk, &identity).await)?;
        *self.joining.identity.lock() = identity;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    fn answer(directory: &str, confirmed: bool) -> wire::IdentityResponse {
        wire::IdentityResponse { directory: directory.into(), confirmed, ..wire::IdentityResponse::default() }
    }

    fn founded_with(directory: &str) -> wire::IdentityResponse {
        let member = Some(wire::Member { id: NODE.0, ..wire::Member::default() });
        let founders = vec![wire::Founder { member, directory: directory.into() }];
        let founding = Some(wire::Founding { cluster: "c".into(), founders });
        let identity = Some(wire::Identity { founding, ..wire::Identity::default() });
        wire::IdentityResponse { identity, ..answer(directory, false) }
    }

    #[test]
    fn an_empty_disk_founds_nothing_by_itself() {
        assert_eq!(decide(&[], NODE, "d"), Decision::Ask);
        assert_eq!(decide(&[answer("", false), answer("", false)], NODE, "d"), Decision::Ask);
    }

    #[test]
    fn a_founding_is_entered_only_with_the_disk_it_names() {
        assert!(matches!(decide(&[answer("", false), founded_with("d")], NODE, "d"), Decision::Found(_)));
        assert_eq!(decide(&[founded_with("old")], NODE, "d"), Decision::LostData);
        assert_eq!(
            decide(&[founded_with("d")], NodeId(8), "e"),
            Decision::LostData,
            "told of another's disk"
        );
        let other = wire::IdentityResponse { directory: String::new(), ..founded_with("old") };
        assert_eq!(
            decide(&[other], NODE, "d"),
            Decision::Ask,
            "the founding names another disk of this member"
        );
    }

    #[test]
    fn a_cluster_is_joined_only_with_its_leader_behind_it() {
        assert_eq!(decide(&[answer("", false), answer("", true)], NODE, "d"), Decision::Join);
        assert_eq!(decide(&[answer("d", true)], NODE, "d"), Decision::Join);
    }

    #[test]
    fn a_lone_founder_is_outvoted_by_two_with_a_leader_behind_them() {
        let (against, confirmed, silent) = (answer("old", true), answer("", true), answer("", false));
        let all = |one: &wire::IdentityResponse, count| vec![one.clone(); count];
        assert!(is_outvoted(&all(&against, 1), &all(&confirmed, 2)));
        assert!(!is_outvoted(&all(&against, 1), &all(&confirmed, 1)), "one word against another");
        assert!(!is_outvoted(&all(&against, 2), &all(&confirmed, 2)));
        assert!(!is_outvoted(&all(&against, 1), &all(&silent, 5)), "they may have been away");
        assert!(!is_outvoted(&[], &all(&confirmed, 2)));
    }

    #[test]
    fn a_member_known_with_another_disk_or_as_removed_is_refused() {
        assert_eq!(decide(&[answer("", true), answer("old", false)], NODE, "d"), Decision::LostData);
        let removed = wire::IdentityResponse { removed: true, ..answer("old", false) };
        assert_eq!(decide(&[removed], NODE, "d"), Decision::Removed);
    }
}
