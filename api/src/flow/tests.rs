//! Flow control over a store in memory and virtual time: classification, waiting, refusal, borrowing, debug pages.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use orch_proto::brand::ORCH;
use orch_rules::kinds::flow_control::CATCH_ALL;
use orch_schema::json;
use orch_schema::value::Value;

use super::config::{FLOW_SCHEMAS, PRIORITY_LEVELS};
use super::*;
use crate::authn::{GROUP_AUTHENTICATED, GROUP_MASTERS};
use crate::authz::ResourceAttributes;
use crate::controllers::testing::Fixture;

/// A clock that stands still.
struct Still;

impl Ambient for Still {
    fn now(&self) -> crate::ambient::Timestamp {
        crate::ambient::Timestamp(1_767_322_145_000_000)
    }

    fn random(&self) -> u128 {
        7
    }
}

fn user(name: &str, group: &str) -> User {
    let groups = vec![group.to_owned(), GROUP_AUTHENTICATED.to_owned()];
    User { name: name.to_owned(), groups, ..User::default() }
}

/// A level `l` with two seats of all and queues, and a schema `s` for the group `devs` by user.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let queuing = json!({"queues": 64, "handSize": 6, "queueLengthLimit": 2});
    let limited =
        json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Queue", "queuing": queuing}});
    let level = json!({"metadata": {"name": "l"}, "spec": {"type": "Limited", "limited": limited}});
    fixture.create(PRIORITY_LEVELS, "", level).await;
    fixture.create(FLOW_SCHEMAS, "", schema("s", "l", 500, "devs")).await;
    fixture
}

fn schema(name: &str, level: &str, precedence: i64, group: &str) -> Value {
    let rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": group}}],
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]},
        ],
    });
    let spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [rule],
    });
    json!({"metadata": {"name": name}, "spec": spec})
}

fn flow(reads_max: u32) -> FlowControl {
    FlowControl::new(Options { is_fair: true, reads_max, writes_max: 0 }, &ORCH, Arc::new(Still))
}

struct Asker<'a> {
    fixture: &'a Fixture,
    flow: &'a FlowControl,
}

impl Asker<'_> {
    async fn admit(&self, user: &User) -> Result<Seat, ApiError> {
        self.admit_to(user, Verb::Get, "get").await
    }

    async fn admit_to(&self, user: &User, verb: Verb, name: &str) -> Result<Seat, ApiError> {
        let (applied, query) = (self.fixture.applied(), Query::default());
        let asked =
            ResourceAttributes { verb: name, resource: "pods", namespace: "ns", ..Default::default() };
        let request = FlowRequest {
            user,
            asked: Attributes::Resource(asked),
            verb: Some(verb),
            query: &query,
            storage: "pods",
            applied: &applied,
            limit: Duration::from_secs(60),
            body_bytes: 0,
        };
        let entry = self.flow.classify(request);
        self.flow.admit(self.fixture.store(), entry, request).await
    }

    fn schema_of(&self, user: &User) -> String {
        let (applied, query) = (self.fixture.applied(), Query::default());
        let request = FlowRequest {
            user,
            asked: Attributes::Path { verb: "get", path: "/version" },
            verb: None,
            query: &query,
            storage: "",
            applied: &applied,
            limit: Duration::from_secs(60),
            body_bytes: 0,
        };
        self.flow.classify(request).unwrap().schema.name.clone()
    }

    fn page(&self, page: &str) -> String {
        let path = format!("/debug/api_priority_and_fairness/{page}");
        let query = Query::parse("includeRequestDetails=1");
        self.flow.page(&path, &query, &self.fixture.applied()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_match_the_first_schema_and_at_last_the_catch_all() {
    let fixture = fixture().await;
    let flow = flow(4);
    let asker = Asker { fixture: &fixture, flow: &flow };
    assert_eq!(asker.schema_of(&user("root", GROUP_MASTERS)), "exempt");
    assert_eq!(asker.schema_of(&user("ann", "devs")), CATCH_ALL, "the schema has no rule for paths");
    let seat = asker.admit(&user("ann", "devs")).await.ok().unwrap();
    assert!(asker.page("dump_priority_levels").contains("l,                 0,            false,  false,"));
    drop(seat);
    fixture.create(FLOW_SCHEMAS, "", schema("first", "nonesuch", 2, "devs")).await;
    let _seat = asker.admit(&user("ann", "devs")).await.ok().unwrap();
    let text = asker.page("dump_priority_levels");
    assert!(
        text.contains("l,                 0,            false,"),
        "without a level it is not tried: {text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_seat_and_no_longer_than_a_quarter_of_its_limit() {
    let fixture = fixture().await;
    let flow = flow(4);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let ann = user("ann", "devs");
    let seats = [asker.admit(&ann).await.ok().unwrap(), asker.admit(&ann).await.ok().unwrap()];
    let began = tokio::time::Instant::now();
    assert_eq!(asker.admit(&ann).await.err(), Some(ApiError::TooManyRequests { retry_after_s: 1 }));
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    let (waited, ()) = tokio::join!(asker.admit(&ann), async {
        tokio::task::yield_now().await;
        let text = asker.page("dump_requests");
        let row = text.lines().nth(1).unwrap_or_else(|| panic!("{text}"));
        assert!(row.starts_with("l,") && row.contains(" ann, ") && row.contains("get,"), "{text}");
        drop(seats);
    });
    assert!(waited.is_ok(), "its turn came");
    assert_eq!(began.elapsed(), Duration::from_secs(15), "at once");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaves_its_queue_and_its_seat() {
    let fixture = fixture().await;
    let flow = flow(4);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let ann = user("ann", "devs");
    let seats = [asker.admit(&ann).await.ok().unwrap(), asker.admit(&ann).await.ok().unwrap()];
    {
        let mut waiting = Box::pin(asker.admit(&ann));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert!(asker.page("dump_requests").contains("ann"));
    }
    assert!(!asker.page("dump_requests").contains("ann"));
    drop(seats);
    assert!(asker.page("dump_priority_levels").contains("l,                 0,            true,"));
}

#[tokio::test(start_paused = true)]
async fn another_user_is_served_beside_one_who_floods() {
    let fixture = fixture().await;
    let flow = flow(4);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let (flooder, other) = (user("flooder", "devs"), user("other", "devs"));
    let seats = [asker.admit(&flooder).await.ok().unwrap(), asker.admit(&flooder).await.ok().unwrap()];
    let mut flood: Vec<_> = (0..100).map(|_| Box::pin(asker.admit(&flooder)).fuse()).collect();
    let mut refused = 0;
    for waiting in &mut flood {
        refused += usize::from(futures::poll!(waiting).is_ready());
    }
    assert!(refused > 80, "{refused}: its queues hold two each");
    let mut waiting = Box::pin(asker.admit(&other));
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(seats);
    let mut served = 0;
    'turns: loop {
        for flooding in &mut flood {
            // A seat is given back at once.
            served += usize::from(matches!(futures::poll!(flooding), std::task::Poll::Ready(Ok(_))));
            if futures::poll!(&mut waiting).is_ready() {
                break 'turns;
            }
            assert!(served <= 6, "one for each queue of the other's hand: {served}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_exempt_level_has_no_limit_and_the_catch_all_no_queue() {
    let fixture = Fixture::new();
    let flow = flow(2);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let (root, ann) = (user("root", GROUP_MASTERS), user("ann", "devs"));
    let mut seats = Vec::new();
    for _ in 0..100 {
        seats.push(asker.admit(&root).await.ok().unwrap());
    }
    for _ in 0..2 {
        seats.push(asker.admit(&ann).await.ok().unwrap());
    }
    assert_eq!(asker.admit(&ann).await.err(), Some(ApiError::TooManyRequests { retry_after_s: 1 }));
    drop(seats);
    assert!(asker.admit(&ann).await.is_ok());
    let text = asker.page("dump_queues");
    assert!(text.starts_with("PriorityLevelName, Index,  PendingRequests,"), "{text}");
    assert_eq!(text.lines().nth(1).unwrap().matches("<none>").count(), 8, "{text}");
}

/// In `dump_queues`, the seats in use of the level `l`.
fn seats_in_use(asker: &Asker<'_>) -> u32 {
    let text = asker.page("dump_queues");
    let rows = text.lines().filter(|line| line.starts_with("l,"));
    rows.map(|row| row.split(',').nth(4).unwrap().trim().parse::<u32>().unwrap()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_many_watch_takes_more_seats_within_the_bounds_of_its_level() {
    let fixture = fixture().await;
    // 60 seats for `l`, of which one request takes 9 at most.
    let flow = flow(120);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let ann = user("ann", "devs");
    let pods: Arc<str> = "pods".into();
    for (watches, seats) in [(0, 1), (30, 3), (2000, 9)] {
        let watching: Vec<_> =
            (0..watches).map(|_| flow.watch(&pods, &Arc::new(Interest::Everything))).collect();
        let seat = asker.admit_to(&ann, Verb::Update, "update").await.ok().unwrap();
        assert_eq!(seats_in_use(&asker), seats, "{watches} watches");
        drop((seat, watching));
        let seat = asker.admit_to(&ann, Verb::Update, "update").await.ok().unwrap();
        assert_eq!(seats_in_use(&asker), 1, "the watches have ended");
        drop(seat);
        assert_eq!(seats_in_use(&asker), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn paths_of_the_node_have_seats_as_other_paths_do() {
    let fixture = Fixture::new();
    let flow = flow(2);
    let (root, ann) = (user("root", GROUP_MASTERS), user("ann", "devs"));
    let limit = Duration::from_secs(60);
    let admit = |user| flow.admit_to_path(fixture.store(), user, ("get", "/orch/v1/cluster"), limit);
    let mut seats = Vec::new();
    for _ in 0..2 {
        seats.push(admit(&ann).await.ok().unwrap());
    }
    assert_eq!(admit(&ann).await.err(), Some(ApiError::TooManyRequests { retry_after_s: 1 }));
    for _ in 0..100 {
        seats.push(admit(&root).await.ok().unwrap());
    }
    drop(seats);
    assert!(admit(&ann).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_metrics_have_the_use_of_each_level() {
    let fixture = fixture().await;
    let flow = flow(4);
    let asker = Asker { fixture: &fixture, flow: &flow };
    let mut text = String::new();
    flow.write_usage(&mut text, |_| String::new());
    assert_eq!(text, "", "nothing is configured before the first request");
    drop(asker.admit(&user("ann", "devs")).await.ok().unwrap());
    flow.write_usage(&mut text, |_| String::new());
    for level in ["catch-all", "exempt", "l"] {
        let count = format!("_seat_utilization_count{{phase=\"executing\",priority_level=\"{level}\"}} ");
        assert!(text.contains(&count), "{level}: {text}");
    }
}
