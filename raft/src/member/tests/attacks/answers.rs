//! Impossible responses, to a leader and to a candidate.

use super::*;

// Before: each vote request was within the bound on terms ahead of the receiver, but two together were not. The members
// that were stopped then refused the resulting term.
#[test]
fn terms_that_a_removed_voter_made_up_leave_nobody_out() {
    simulate(1012, async {
        let (mut cluster, away, liar) = away_alone_with_a_removed_voter().await;
        for _ in 0..3 {
            let term = cluster.handle(away).status().term + (1 << 20);
            for _ in 0..5 {
                let ballot = Request::Vote(ballot(liar, term));
                drop(ask(&cluster, liar, away, ballot, wire::Recall::default()).await);
                SimRuntime::sleep(Duration::from_millis(100)).await;
            }
        }
        cluster.network.unserve(peer(liar).id);
        for n in [0, 1] {
            cluster.restart(n).await.unwrap();
        }
        SimRuntime::sleep(LONG).await;
        let terms = [0, 1, away].map(|n| cluster.handle(n).status().term);
        let leaders = [0, 1, away].map(|n| cluster.handle(n).status().leader.map(|leader| leader.name));
        let leader = cluster.leader_among(&[0, 1, away]).await;
        let at = revision_of(cluster.handle(leader).propose(put("b", "1")).await);
        for n in [0, 1, away] {
            assert!(cluster.handle(n).wait_applied(at, LONG).await, "n{n}: {terms:?}, {leaders:?}");
        }
    });
}

/// Answers votes and heartbeats with a term that no election has reached.
struct Ahead(NodeId, u64);

impl PeerService for Ahead {
    fn call(&self, _: NodeId, _: Purpose, frame: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        use wire::append_response::Outcome;
        let request = wire::ControlRequest::decode(frame).unwrap();
        let vote = wire::Vote { term: self.1, node: self.0.0, committed: false };
        answered(match request.kind {
            Some(Request::Identity(_)) => Ok(Response::Identity(wire::IdentityResponse::default())),
            Some(Request::Vote(_) | Request::PreVote(_)) => {
                Ok(Response::Vote(wire::VoteResponse { vote: Some(vote), ..Default::default() }))
            }
            Some(Request::Heartbeat(_)) => {
                let outcome = Some(Outcome::HigherVote(vote));
                Ok(Response::Heartbeat(wire::AppendResponse { outcome }))
            }
            _ => Err("no".to_owned()),
        })
    }

    fn stream(&self, _: NodeId, _: Purpose, _: Duplex) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

// Before: terms were checked in requests, not in responses. The member that was away adopted the last possible term
// from a removed voter's response, the leader adopted it from that member, and no leader could ever be elected again.
#[test]
fn a_removed_voter_does_not_use_up_all_terms_by_an_answer() {
    let mut found = Vec::new();
    for last in [1 << 40, u64::MAX] {
        let run = std::panic::catch_unwind(|| {
            simulate(1013, async move {
                let (mut cluster, away, liar) = away_alone_with_a_removed_voter().await;
                cluster.network.serve(peer(liar).id, Arc::new(Ahead(peer(liar).id, last)));
                SimRuntime::sleep(SOON).await;
                let taken = cluster.handle(away).status().term;
                // The removed voter is stopped, and the members are restarted.
                cluster.network.unserve(peer(liar).id);
                for n in [0, 1] {
                    cluster.restart(n).await.unwrap();
                }
                SimRuntime::sleep(Duration::from_secs(20)).await;
                let terms = [0, 1, away].map(|n| cluster.handle(n).status().term);
                let mut ends = Vec::new();
                for n in [0, 1, away] {
                    ends.push(ended(&cluster, n, Duration::from_millis(10)).await);
                }
                let written = cluster.handle(0).propose(put("b", "1")).await.map(drop);
                let is_sound = terms.iter().all(|term| *term < 1 << 21) && written.is_ok();
                (!is_sound).then(|| format!("{taken} was taken: {terms:?}, {ends:?}, {written:?}"))
            })
        });
        found.extend(run.unwrap_or_else(|_| Some(format!("{last}: a panic"))));
    }
    assert!(found.is_empty(), "{found:#?}");
}

// Before: as above; a learner's response reaches the leader directly.
#[test]
fn a_learner_does_not_use_up_all_terms_by_an_answer() {
    simulate(1014, async {
        let cluster = with_lying_learner(wire::IdentityResponse::default()).await;
        let learner = peer(3).id;
        cluster.network.serve(learner, Arc::new(Ahead(learner, 1 << 40)));
        SimRuntime::sleep(Duration::from_secs(20)).await;
        let terms = [0, 1, 2].map(|n| cluster.handle(n).status().term);
        assert!(terms.iter().all(|term| *term < 1 << 21), "{terms:?}");
    });
}

/// Answers every append on a stream with the same outcome.
struct Acknowledging(wire::append_response::Outcome);

impl PeerService for Acknowledging {
    fn call(
        &self,
        from: NodeId,
        purpose: Purpose,
        frame: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        Liar(wire::IdentityResponse::default()).call(from, purpose, frame)
    }

    fn stream(&self, _: NodeId, purpose: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        let answer = wire::AppendResponse { outcome: Some(self.0.clone()) };
        let answer = Bytes::from(answer.encode_to_vec());
        async move {
            let Duplex { sender, mut receiver } = duplex;
            while purpose == Purpose::Append && receiver.recv().await.is_some() {
                if sender.send(answer.clone()).await.is_err() {
                    return;
                }
            }
        }
        .boxed()
    }
}

// Before: the answers that the failure message lists ended the leader.
#[test]
fn a_learner_ends_no_leader_by_what_it_acknowledges() {
    use wire::append_response::Outcome;
    let through =
        |term, index| Outcome::Accepted(wire::Accepted { through: Some(wire::LogId { term, index }) });
    let conflict = |term, index| Outcome::Conflict(wire::LogId { term, index });
    let answers = [
        ("the future", through(1, 1_000_000)),
        ("the last index", through(1, u64::MAX)),
        ("another term", through(1 << 30, 3)),
        ("the past", through(0, 0)),
        ("a conflict in the future", conflict(1, 1_000_000)),
        ("a conflict at the end", conflict(1, u64::MAX)),
        ("a conflict at the start", conflict(0, 0)),
    ];
    let mut ends = Vec::new();
    for (what, answer) in answers {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            simulate(1015, async {
                let cluster = with_lying_learner(wire::IdentityResponse::default()).await;
                cluster.network.serve(peer(3).id, Arc::new(Acknowledging(answer)));
                let leader = cluster.leader_among(&[0, 1, 2]).await;
                for i in 0..20 {
                    let _ = cluster.handle(leader).propose(put("a", &format!("{i}"))).await;
                }
                ended(&cluster, leader, Duration::from_secs(10)).await
            })
        }));
        match run {
            Ok(None) => {}
            Ok(Some(reason)) => ends.push(format!("{what}: {reason}")),
            Err(_) => ends.push(format!("{what}: a panic")),
        }
    }
    assert!(ends.is_empty(), "{ends:#?}");
}

// Before: one warning for each retry of the append, without end.
#[test]
fn a_learner_that_takes_back_what_it_acknowledged_does_not_fill_the_log() {
    use crate::warnings::counting::Warned;
    use wire::append_response::Outcome;
    let warned = Warned::default();
    tracing::subscriber::with_default(warned.clone(), || {
        simulate(1019, async {
            let cluster = with_lying_learner(wire::IdentityResponse::default()).await;
            let conflict = Outcome::Conflict(wire::LogId { term: 1, index: 1 });
            cluster.network.serve(peer(3).id, Arc::new(Acknowledging(conflict)));
            let leader = cluster.leader_among(&[0, 1, 2]).await;
            revision_of(cluster.handle(leader).propose(put("a", "1")).await);
            SimRuntime::sleep(LONG).await;
            let before = warned.count();
            SimRuntime::sleep(Duration::from_secs(600)).await;
            let lines = warned.count() - before;
            assert!(lines <= 120, "{lines} lines in ten minutes");
        });
    });
}

// Before: the bound on terms from a peer that no other member vouches for applied to the first frame of a stream only.
// The member that was away adopted a term from the second frame that the other members refuse from any peer.
#[test]
fn a_removed_voter_makes_up_no_term_in_the_middle_of_a_stream() {
    simulate(1062, async {
        let (mut cluster, away, liar) = away_alone_with_a_removed_voter().await;
        let status = cluster.handle(away).status();
        let append = |term| {
            let vote = Some(wire::Vote { term, node: peer(liar).id.0, committed: true });
            let recall = Some(wire::Recall::default());
            wire::AppendRequest { vote, recall, ..Default::default() }.encode_to_vec()
        };
        let transport = cluster.network.transport(peer(liar).id);
        for _ in 0..5 {
            let duplex = transport.open(&peer(away), Purpose::Append).await.unwrap();
            for term in [status.term + 5, (1 << 20) + 1] {
                drop(duplex.sender.send(Bytes::from(append(term))).await);
                SimRuntime::sleep(SOON).await;
            }
        }
        cluster.network.unserve(peer(liar).id);
        for n in [0, 1] {
            cluster.restart(n).await.unwrap();
        }
        SimRuntime::sleep(LONG).await;
        let terms = [0, 1, away].map(|n| cluster.handle(n).status().term);
        let at = revision_of(cluster.handle(0).propose(put("b", "1")).await);
        for n in [0, 1, away] {
            assert!(cluster.handle(n).wait_applied(at, LONG).await, "n{n}: {terms:?}");
        }
    });
}
