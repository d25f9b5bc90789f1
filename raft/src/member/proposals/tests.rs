//! Outcomes of proposals, in every order of sending, refusing and applying.

use super::*;
use crate::key::Revision;

fn proposals() -> Proposals {
    Proposals::new(1, 7, FeatureLevel::of(1))
}

fn register(proposals: &Proposals) -> (u64, Answer) {
    proposals.register(&Transaction::default(), None).unwrap()
}

fn applied() -> Outcome {
    Outcome::Applied { revision: Revision(5), object: None, previous: None }
}

fn sequences(taken: Vec<(u64, Bytes)>) -> Vec<u64> {
    taken.into_iter().map(|(sequence, _)| sequence).collect()
}

#[test]
fn an_applied_proposal_is_answered_once() {
    let proposals = proposals();
    let (sequence, mut answer) = register(&proposals);
    assert_eq!(sequences(proposals.take(1, 10, 1000)), [sequence]);
    proposals.complete(vec![(sequence, applied()), (99, applied())], 1);
    assert!(matches!(answer.try_recv(), Ok(Ok(Outcome::Applied { .. }))));
    assert!(matches!(proposals.withdraw(sequence, "late"), ProposeError::Unknown { .. }));
}

#[test]
fn proposals_that_a_later_term_has_not_met_are_sent_again_in_order() {
    let proposals = proposals();
    let made: Vec<_> = (0..3).map(|_| register(&proposals)).collect();
    assert_eq!(proposals.take(4, 2, 1000).len(), 2);
    proposals.complete(vec![], 4);
    assert_eq!(proposals.take(4, 10, 1000).len(), 1, "those of the current term stay sent");
    proposals.complete(vec![], 5);
    let all: Vec<u64> = made.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences(proposals.take(5, 10, 1000)), all);
}

#[test]
fn the_end_of_the_member_tells_what_was_sent_from_what_was_not() {
    let proposals = proposals();
    let (_, mut sent) = register(&proposals);
    assert_eq!(proposals.take(1, 1, 1000).len(), 1);
    let (_, mut queued) = register(&proposals);
    proposals.close();
    assert!(matches!(sent.try_recv(), Ok(Err(ProposeError::Unknown { .. }))));
    assert!(matches!(queued.try_recv(), Ok(Err(ProposeError::NotProposed { .. }))));
    assert!(proposals.take(1, 10, 1000).is_empty(), "nothing is sent that was called not sent");
}

#[test]
fn a_proposal_that_is_made_while_the_member_closes_is_refused_at_once() {
    let proposals = proposals();
    // The transaction is encoded before `close` by another thread, and queued after it.
    proposals.close();
    let queued = proposals.enqueue(1, Bytes::from_static(b"encoded"));
    assert!(matches!(queued, Err(ProposeError::NotProposed { .. })));
    assert!(matches!(
        proposals.register(&Transaction::default(), None),
        Err(ProposeError::NotProposed { .. })
    ));
    assert!(!proposals.has_queued());
}

#[test]
fn nothing_is_sent_to_a_leader_that_was_superseded() {
    let proposals = proposals();
    register(&proposals);
    proposals.complete(vec![], 3);
    assert!(proposals.take(2, 10, 1000).is_empty());
    assert_eq!(proposals.take(3, 10, 1000).len(), 1);
}

#[test]
fn only_what_was_not_sent_is_certainly_not_done() {
    let proposals = proposals();
    let (first, _answer) = register(&proposals);
    let (second, _answer) = register(&proposals);
    proposals.take(1, 1, 1000);
    assert!(proposals.withdraw_queued(first, "slow").is_none());
    assert!(matches!(proposals.withdraw_queued(second, "slow"), Some(ProposeError::NotProposed { .. })));
    assert!(matches!(proposals.withdraw(first, "slow"), ProposeError::Unknown { .. }));
    assert_eq!(proposals.waiting.lock().bytes, 0);
}

#[test]
fn a_refusal_of_an_earlier_term_does_not_free_what_was_sent_since() {
    let proposals = proposals();
    let (sequence, _answer) = register(&proposals);
    proposals.take(1, 1, 1000);
    proposals.not_appended(1, [sequence]);
    assert_eq!(sequences(proposals.take(2, 1, 1000)), [sequence]);
    proposals.not_appended(1, [sequence]);
    assert!(proposals.take(2, 1, 1000).is_empty());
}

#[test]
fn an_install_leaves_the_sent_unknown_and_the_queued_queued() {
    let proposals = proposals();
    let (_, mut sent) = register(&proposals);
    proposals.take(1, 1, 1000);
    let (queued, _answer) = register(&proposals);
    proposals.lose_all("installed");
    assert!(matches!(sent.try_recv(), Ok(Err(ProposeError::Unknown { .. }))));
    assert_eq!(sequences(proposals.take(1, 9, 1000)), [queued]);
}

#[test]
fn a_refused_proposal_ends_and_is_not_sent_again() {
    let proposals = proposals();
    let (first, mut refused) = register(&proposals);
    let (second, mut kept) = register(&proposals);
    proposals.take(1, 9, 1000);
    proposals.not_appended(1, [second]);
    proposals.take(2, 9, 1000);
    // The second was sent to the leader of term 2 meanwhile.
    proposals.refuse(1, [(first, "unreadable".to_owned()), (second, "unreadable".to_owned())]);
    assert!(matches!(refused.try_recv(), Ok(Err(ProposeError::Refused { .. }))));
    assert!(kept.try_recv().is_err(), "no answer yet");
    proposals.complete(vec![], 3);
    assert_eq!(sequences(proposals.take(3, 9, 1000)), [second]);
}

#[test]
fn transactions_that_members_could_not_apply_are_not_queued() {
    let proposals = proposals();
    let put = crate::transaction::Put {
        key: crate::key::Key::new(&Arc::from("r"), "", "n").unwrap(),
        json: Bytes::from_static(b"{\"v\":\"\"}"),
        revision_at: 7,
        index: crate::object::Index::default(),
    };
    let outside =
        Transaction { operations: vec![crate::transaction::Operation::Put(put)], ..Transaction::default() };
    assert!(matches!(proposals.register(&outside, None), Err(ProposeError::Refused { .. })));
    assert!(!proposals.has_queued());
}

#[test]
fn limits_are_on_size_and_number() {
    let proposals = proposals();
    let huge = crate::transaction::Put {
        key: crate::key::Key::new(&std::sync::Arc::from("r"), "", "n").unwrap(),
        json: Bytes::from(vec![b' '; TRANSACTION_BYTES_MAX]),
        revision_at: 0,
        index: crate::object::Index::default(),
    };
    let huge =
        Transaction { operations: vec![crate::transaction::Operation::Put(huge)], ..Transaction::default() };
    assert!(matches!(proposals.register(&huge, None), Err(ProposeError::TooLarge { .. })));
    let held: Vec<_> = (0..PROPOSALS_MAX).map(|_| register(&proposals)).collect();
    assert!(matches!(
        proposals.register(&Transaction::default(), None),
        Err(ProposeError::NotProposed { .. })
    ));
    proposals.close();
    assert!(held.into_iter().all(|(_, mut answer)| matches!(answer.try_recv(), Ok(Err(_)))));
}

#[test]
fn a_batch_ends_at_its_bytes_but_has_one() {
    let proposals = proposals();
    register(&proposals);
    register(&proposals);
    assert_eq!(proposals.take(1, 10, 1).len(), 1);
    assert_eq!(proposals.take(1, 10, 1).len(), 1);
}

#[test]
#[should_panic(expected = "a proposal that may be in the log is never sent again")]
fn sent_proposals_are_not_taken_again() {
    let proposals = proposals();
    let (sequence, _answer) = register(&proposals);
    proposals.take(1, 10, 1000);
    // As a bug in the requeueing would.
    proposals.waiting.lock().queue.insert(sequence);
    proposals.take(1, 10, 1000);
}

#[test]
#[should_panic(expected = "a sequence names one proposal")]
fn no_proposal_takes_the_place_of_another() {
    let proposals = proposals();
    let (sequence, _answer) = register(&proposals);
    drop(proposals.enqueue(sequence, Bytes::new()));
}
