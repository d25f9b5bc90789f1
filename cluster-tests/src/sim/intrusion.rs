//! Members of a cluster that was given up, in one that was made from it.
//!
//! Owns the recognition of their votes and of their lead by the answers on the wire: a vote that one side grants the other, and
//! a leader of the one that a member of the other follows. What such a member reads or is told is not judged here.

use bytes::Bytes;
use orch_proto::store as wire;
use prost::Message;
use wire::append_response::Outcome;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

/// A promise in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The member votes for the one that asks, in this term.
    Vote(u64),
    /// The member follows the one that asks, in this term.
    Follows(u64),
}

/// The promise that `answered` makes, if it makes one. A pre-vote makes none.
pub fn promised(asked: &Bytes, answered: &Bytes) -> Option<Promise> {
    let asked = wire::ControlRequest::decode(asked.clone()).ok()?.kind?;
    let answered = wire::ControlResponse::decode(answered.clone()).ok()?.kind?;
    let term = |vote: Option<wire::Vote>| vote.unwrap_or_default().term;
    match (asked, answered) {
        (Request::Vote(asked), Response::Vote(answered)) if answered.granted => {
            Some(Promise::Vote(term(asked.vote)))
        }
        (Request::Heartbeat(asked), Response::Heartbeat(answered)) => {
            let accepted = matches!(answered.outcome, Some(Outcome::Accepted(_)));
            accepted.then(|| Promise::Follows(term(asked.vote)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: Request) -> Bytes {
        wire::ControlRequest { kind: Some(kind), recall: None, format: 0 }.encode_to_vec().into()
    }

    fn answered(kind: Response) -> Bytes {
        wire::ControlResponse { kind: Some(kind) }.encode_to_vec().into()
    }

    #[test]
    fn votes_and_followers_are_recognised() {
        let vote = Some(wire::Vote { term: 7, node: 2, committed: false });
        let ballot = wire::VoteRequest { vote, last_log_id: None, leader_transfer: false };
        let granted =
            |granted| answered(Response::Vote(wire::VoteResponse { granted, ..Default::default() }));
        let for_vote = asked(Request::Vote(ballot));
        assert_eq!(promised(&for_vote, &granted(true)), Some(Promise::Vote(7)));
        assert_eq!(promised(&for_vote, &granted(false)), None);
        assert_eq!(promised(&asked(Request::PreVote(ballot)), &granted(true)), None);
        let heartbeat = asked(Request::Heartbeat(wire::AppendRequest { vote, ..Default::default() }));
        let outcome = Some(Outcome::Accepted(wire::Accepted::default()));
        let accepted = answered(Response::Heartbeat(wire::AppendResponse { outcome }));
        assert_eq!(promised(&heartbeat, &accepted), Some(Promise::Follows(7)));
        let refused = answered(Response::Heartbeat(wire::AppendResponse { outcome: None }));
        assert_eq!(promised(&heartbeat, &refused), None);
    }
}
