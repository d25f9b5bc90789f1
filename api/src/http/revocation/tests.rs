//! Questions that watches share: asked once, for as long as a watch depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_rules::Action;
use orch_schema::budget::Budget;
use parking_lot::Mutex;

use super::*;
use crate::ambient::SystemAmbient;
use crate::authn::{AnonymousAccess, Authenticator, Peer, TokenTable, User};
use crate::authz::{Attributes, Authorizer, Authorizers, Deciding, Decision, OnFailure, Reason, decided};
use crate::gate::Gate;
use crate::paging::TokenKey;
use crate::pipeline::Features;
use crate::registry::Registry;
use crate::request::{Query, Target, Verb};

/// Decides as the test says, and counts.
struct Decider {
    decision: Mutex<Decision>,
    asked: AtomicUsize,
    /// A user about whom no answer comes.
    withheld: Mutex<Option<&'static str>>,
    /// Questions that wait for an answer.
    waiting: Arc<AtomicUsize>,
}

/// A question that waits, until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Authorizer for Arc<Decider> {
    fn name(&self) -> &'static str {
        "decider"
    }

    fn decide<'a>(&'a self, user: &'a User, _: Attributes<'a>, _: &'a Applied) -> Deciding<'a> {
        if *self.withheld.lock() == Some(user.name.as_str()) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let waiting = Waiting(self.waiting.clone());
            return Deciding::Right(Box::pin(async move {
                let _waiting = waiting;
                std::future::pending().await
            }));
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        decided(self.decision.lock().clone())
    }
}

struct Node {
    pipeline: Arc<Pipeline<MemoryStore>>,
    decider: Arc<Decider>,
    ledger: Arc<Ledger>,
    stopping: CancellationToken,
}

impl Node {
    fn new() -> Node {
        let decider = Arc::new(Decider {
            decision: Mutex::new(Decision::Allow(Reason::default())),
            asked: AtomicUsize::new(0),
            withheld: Mutex::default(),
            waiting: Arc::default(),
        });
        let tokens = TokenTable::parse(b"first,ann,1\nsecond,bob,2\n").unwrap();
        let authenticator = Authenticator::new(&ORCH, tokens, AnonymousAccess::Refused);
        let gate = Gate::new(&ORCH, authenticator, Authorizers::new(vec![Box::new(decider.clone())]));
        let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]));
        let (store, ambient) = (MemoryStore::default(), Arc::new(SystemAmbient));
        let pipeline = Arc::new(Pipeline::new(store, registry, key, ambient, Features::default(), gate));
        Node { pipeline, decider, ledger: Arc::default(), stopping: CancellationToken::new() }
    }

    /// A watch of the user with this token, by a connection from this address.
    fn watch(&self, token: &str, address: [u8; 4], query: &str) -> (Right, Ending) {
        let peer = Peer {
            address: (address, 7).into(),
            certificate: None,
            local_admin: false,
            is_front_proxy: false,
        };
        let bearer = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
        let headers: HeaderMap = [(HeaderName::from_static("authorization"), bearer)].into_iter().collect();
        let (name, uid) = if token == "first" { ("ann", "1") } else { ("bob", "2") };
        let user = User { name: name.to_owned(), uid: uid.to_owned(), ..User::default() };
        let (peer, user, exchange) = (Arc::new(peer), Arc::new(user), Exchange::internal());
        exchange.set_credential(self.pipeline.gate.credential(&peer, &headers, &user));
        let registry = self.pipeline.registry();
        let resource = registry.find("", "v1", "pods").unwrap().clone();
        let target = Target { version: "v1".to_owned(), resource: "pods".to_owned(), ..Target::default() };
        let request = Request {
            verb: Verb::Watch,
            registry: &registry,
            target: &target,
            resource: &resource,
            action: Action::Object,
            query: &Query::parse(&format!("watch=1&{query}")),
            exchange: &exchange,
            user: &user,
            user_agent: "test",
            content_type: "",
            body: &bytes::Bytes::new(),
            budget: &Budget::default(),
        };
        hold(&self.ledger, request, &self.pipeline, &self.stopping)
    }

    fn asked(&self) -> usize {
        self.decider.asked.load(Ordering::Relaxed)
    }

    fn decide(&self, decision: Decision) {
        *self.decider.decision.lock() = decision;
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

fn given(watches: &[(Right, Ending)]) -> usize {
    watches.iter().filter(|(_, ending)| ending.is_given()).count()
}

#[tokio::test(start_paused = true)]
async fn an_equal_question_of_many_watches_is_asked_once() {
    let node = Node::new();
    let of_nodes = |node_name: &str| format!("fieldSelector=spec.nodeName%3D{node_name}");
    let mut watches: Vec<_> = (0..100).map(|_| node.watch("first", [10, 0, 0, 1], &of_nodes("a"))).collect();
    watches.push(node.watch("first", [10, 0, 0, 1], &of_nodes("b")));
    watches.push(node.watch("first", [10, 0, 0, 1], "labelSelector=a%3Db"));
    watches.push(node.watch("first", [10, 0, 0, 2], &of_nodes("a")));
    watches.push(node.watch("second", [10, 0, 0, 1], &of_nodes("a")));
    assert_eq!(node.ledger.sizes(), (5, 3), "another address is another credential for webhooks");
    seconds(61).await;
    assert_eq!(node.asked(), 5);
    seconds(60).await;
    assert_eq!(node.asked(), 10);
    drop(watches.split_off(1));
    assert_eq!(node.ledger.sizes(), (1, 1));
    seconds(60).await;
    assert_eq!((node.asked(), given(&watches)), (11, 0));
    node.decide(Decision::NoOpinion(String::new()));
    watches.push(node.watch("first", [10, 0, 0, 1], &of_nodes("a")));
    seconds(60).await;
    assert_eq!((node.asked(), given(&watches)), (12, 2));
    assert_eq!(node.ledger.sizes(), (0, 0), "nothing is left of a lost right");
    drop(watches);
    assert_eq!(node.ledger.sizes(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn watches_that_came_at_other_times_are_asked_a_minute_later_each() {
    let node = Node::new();
    let first = node.watch("first", [10, 0, 0, 1], "");
    seconds(30).await;
    let second = node.watch("second", [10, 0, 0, 1], "");
    seconds(31).await;
    node.decide(Decision::NoOpinion(String::new()));
    seconds(28).await;
    assert!(!first.1.is_given() && !second.1.is_given());
    seconds(2).await;
    assert!(!first.1.is_given() && second.1.is_given(), "after 90 seconds");
    seconds(30).await;
    assert!(first.1.is_given(), "after 120");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_comes_while_its_question_is_asked_is_not_ended_by_that_answer() {
    let node = Node::new();
    let mut watches = vec![node.watch("first", [10, 0, 0, 1], "")];
    let due = node.pipeline.store.elapsed() + ASK_EVERY;
    let question = node.ledger.take_due(due).unwrap();
    watches.push(node.watch("first", [10, 0, 0, 1], ""));
    let answer = |answer| node.ledger.answer(&question, answer, Timestamp(0), due);
    assert_eq!((answer(Answer::Lost), given(&watches)), (Outcome::Kept, 0), "it may be of an earlier state");
    assert_eq!(node.ledger.take_due(due), Some(question.clone()), "and is asked at once");
    assert_eq!((answer(Answer::Lost), given(&watches)), (Outcome::Ended, 2));
    let later = node.watch("first", [10, 0, 0, 1], "");
    assert_eq!(answer(Answer::Lost), Outcome::Kept, "the equal question of a later watch is another one");
    assert!(!later.1.is_given());
}

#[tokio::test(start_paused = true)]
async fn the_node_ends_all_watches_when_it_stops_and_begins_again_with_the_next() {
    let node = Node::new();
    let watches: Vec<_> = ["first", "second"].map(|token| node.watch(token, [10, 0, 0, 1], "")).into();
    seconds(1).await;
    node.stopping.cancel();
    seconds(1).await;
    assert_eq!(given(&watches), 2);
    let late = node.watch("first", [10, 0, 0, 1], "");
    seconds(1).await;
    assert!(late.1.is_given());
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_ends_its_watches_after_ten_minutes() {
    let node = Node::new();
    let error = "no answer".to_owned();
    let failed = Decision::Failed { then: OnFailure::Deny, reason: String::new(), error };
    let watch = node.watch("first", [10, 0, 0, 1], "");
    let due = node.pipeline.store.elapsed() + ASK_EVERY;
    node.decide(failed);
    seconds(150).await;
    assert!(node.asked() >= 2 && !watch.1.is_given(), "it goes on for a while");
    // From here on the test asks, and tells the time of day.
    let due = due + 4 * ASK_EVERY;
    let answer = |seconds: u64, answer| {
        let question = node.ledger.take_due(due).unwrap();
        node.ledger.answer(&question, answer, Timestamp(u64::MAX / 2 + seconds * 1_000_000), due - ASK_EVERY)
    };
    assert_eq!(answer(0, Answer::Held), Outcome::Kept);
    assert_eq!(answer(60, Answer::Undecided), Outcome::Kept);
    assert_eq!(answer(659, Answer::Undecided), Outcome::Kept);
    assert_eq!((answer(660, Answer::Undecided), watch.1.is_given()), (Outcome::Ended, true));
}

#[tokio::test(start_paused = true)]
async fn questions_that_wait_for_another_server_are_bounded_and_hold_up_no_others() {
    let node = Node::new();
    *node.decider.withheld.lock() = Some("ann");
    let watch_of_ann =
        |at| node.watch("first", [10, 0, 0, 1], &format!("fieldSelector=spec.nodeName%3D{at}"));
    let watches: Vec<_> = (0..UNDER_WAY_MAX + 100).map(watch_of_ann).collect();
    let other = node.watch("second", [10, 0, 0, 1], "");
    seconds(62).await;
    assert_eq!(node.decider.waiting.load(Ordering::Relaxed), UNDER_WAY_MAX);
    assert_eq!(node.asked(), 1, "the question behind them all");
    // The time of day stands still here: the watches beyond the bound go on.
    seconds(300).await;
    assert_eq!((given(&watches), other.1.is_given()), (0, false));
    assert_eq!((node.decider.waiting.load(Ordering::Relaxed), node.asked()), (UNDER_WAY_MAX, 6));
    drop(watches);
    node.decide(Decision::NoOpinion(String::new()));
    seconds(60).await;
    assert!(other.1.is_given());
}

/// A node holds a hundred thousand watches.
#[test]
fn the_right_of_a_watch_takes_a_hundred_and_twelve_bytes_at_most() {
    let bytes = size_of::<Question>() + size_of::<Right>();
    assert!(bytes <= 112, "{bytes} bytes");
}
