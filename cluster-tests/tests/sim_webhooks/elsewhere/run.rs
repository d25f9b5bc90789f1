//! One run: a cluster, a converter, two aggregated servers, clients and faults from a seed, then the calm, then the judgement.
//!
//! Owns the phases of a run. In the end one of the two servers hangs: the other one is asked, discovery says what is stale, and a
//! namespace is emptied.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use openraft_rt::AsyncRuntime;
use orch_api::conversion::with_conversion_bug;
use orch_cluster_tests::sim::faults as member_faults;
use orch_cluster_tests::sim::operator::Operator;
use orch_cluster_tests::sim::requests::Patience;
use orch_cluster_tests::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use orch_cluster_tests::sim::search::Report;
use orch_cluster_tests::sim::session::Session;
use orch_cluster_tests::sim::setup::Setup;
use orch_cluster_tests::sim::world::World;
use orch_proto::brand::ORCH;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::backends::{Backends, MOODY, NAMES, Sent, documents, group};
use super::callers::Caller;
use super::converter::{Converter, DEFINITION, STORED, VERSIONS, definition, definitions};
use super::judge::{Counts, judge_conversions, judge_relayed};
use super::plant::Plant;
use super::writers::{CODES, Sightings, Writer};

/// Virtual time of clients and faults.
const LENGTH_MIN: Duration = Duration::from_secs(5);
const LENGTH_MAX: Duration = Duration::from_secs(12);

/// Interval at which the members' logs are observed.
const LOGS_LOOK: Duration = Duration::from_millis(50);

/// Percentage of runs in which the members have faults.
const FAULTS_PERCENT: u64 = 60;

/// How long a member may still work on requests that nobody waits for.
const GIVEN_UP: Duration = Duration::from_secs(35);

/// Longest wait for discovery while a server hangs.
const DISCOVERY_MAX: Duration = Duration::from_secs(1);

/// Within this time every member must serve once nothing is wrong, and what is true of a server must show: longer than two looks at it.
const PATIENCE: Patience = Patience { look: Duration::from_millis(200), longest: Duration::from_secs(90) };

/// Clients of each kind.
const WRITERS: u64 = 3;
const CALLERS: u64 = 2;

/// Numbers of the founding operator and of the clients that settle, among the clients.
const FOUNDER: u64 = 101;
const SETTLER: u64 = 102;

/// Does the run of `seed`, with a planted bug or without.
pub(crate) fn run(seed: u64, plant: Option<Plant>) -> Report<Counts> {
    let work = || {
        NodeRuntime::with_seed(seed).block_on(async move {
            let members = if seed % 3 == 2 { 5 } else { 3 };
            let world = World::new(Setup::new(seed, members));
            world.ledger().keep(&[STORED]);
            let report = whole(&world, plant).await;
            world.end();
            report
        })
    };
    match plant {
        Some(Plant::Conversion(bug)) => with_conversion_bug(bug, work),
        _ => work(),
    }
}

/// All that takes part beside the members.
#[derive(Clone, Default)]
struct Others {
    converter: Converter,
    backends: Backends,
    seen: Arc<Mutex<Sightings>>,
    sent: Arc<Mutex<Sent>>,
}

async fn whole(world: &World, plant: Option<Plant>) -> Report<Counts> {
    let others = Others::default();
    others.converter.join(world);
    others.backends.join(world, plant);
    live(world, &others).await;
    let done = others.backends.done();
    // A run that was broken off is not judged: what it failed with is the finding.
    let counts = match world.failure() {
        Some(_) => Ok(Some(Counts::default())),
        None => judge_relayed(&done, &others.sent.lock())
            .and_then(|()| judge_conversions(world.ledger(), &others.seen.lock())),
    };
    let counts = counts.unwrap_or_else(|broken| {
        world.fail(broken);
        Some(Counts::default())
    });
    let (questions, relayed) = (others.converter.questions(), done.len());
    Report::of(world, counts.map(|counts| Counts { questions, relayed, ..counts }))
}

async fn live(world: &World, others: &Others) {
    world.members().into_iter().for_each(|node| world.start(node));
    drop(spawn_detached(Operator::new(world, FOUNDER).found()));
    let settler = Writer::new(world, SETTLER, &others.seen);
    PATIENCE.await_service(settler.session(), &CODES, "the start").await;
    prepare(&settler).await;
    let mut clients = Vec::new();
    for number in 1..=WRITERS {
        clients.push(spawn_detached(Writer::new(world, number, &others.seen).write()));
    }
    for number in WRITERS + 1..=WRITERS + CALLERS {
        clients.push(spawn_detached(Caller::new(world, number, &others.sent).call()));
    }
    let (rage, dice) = (TaskGroup::default(), world.dice("elsewhere"));
    if dice.percent(FAULTS_PERCENT) {
        drop(rage.spawn(member_faults::rage(world.clone())));
    }
    let end = NodeRuntime::elapsed() + dice.duration(LENGTH_MIN, LENGTH_MAX);
    while NodeRuntime::elapsed() < end && world.failure().is_none() {
        NodeRuntime::sleep(LOGS_LOOK).await;
        others.backends.hang(dice.percent(20));
        world.observe_logs();
    }
    world.end_busy();
    rage.kill();
    member_faults::calm(world);
    others.converter.calm();
    others.backends.calm();
    others.backends.hang(true);
    for client in clients {
        if client.await.is_err() {
            world.fail("a client ended badly");
        }
    }
    // Requests that their clients gave up may still be carried out.
    NodeRuntime::sleep(GIVEN_UP).await;
    settle(world, &settler, others).await;
}

/// Has the definition and the servers in force on every member.
async fn prepare(client: &Writer) {
    let mut due = vec![(definitions(), definition(VERSIONS[0]))];
    due.extend(NAMES.into_iter().flat_map(documents));
    for (path, document) in due {
        let what = format!("{path} takes nothing");
        PATIENCE
            .until(client.world(), &what, async || {
                let answer = client.ask(client.pick(), "POST", &path, &document).await;
                matches!(answer, Some((201 | 409, _)))
            })
            .await;
    }
    let path = format!("{}/{DEFINITION}", definitions());
    PATIENCE
        .until(client.world(), "the definition is not in force", async || {
            let answer = client.ask(client.pick(), "GET", &path, &Value::Null).await;
            answer.is_some_and(|(code, body)| {
                let conditions = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
                // few: the conditions of one definition.
                code == 200
                    && conditions.iter().any(|own| own["type"] == "Established" && own["status"] == "True")
            })
        })
        .await;
}

/// The end of a run, in which one of the servers hangs and nothing else is wrong.
async fn settle(world: &World, client: &Writer, others: &Others) {
    PATIENCE.await_service(client.session(), &CODES, "the last fault").await;
    let caller = Caller::new(world, SETTLER + 1, &others.sent);
    for node in world.members() {
        let what = format!("n{} shows no list of what it stores", node.0);
        let name = format!("last-{}", node.0);
        PATIENCE
            .until(client.world(), &what, async || {
                matches!(client.create(node, VERSIONS[1], &name).await, Some(201 | 409))
                    && client.list(node, VERSIONS[0]).await == Some(200)
                    && client.list(node, VERSIONS[1]).await == Some(200)
            })
            .await;
        let what = format!("the server that does not hang is not shown by n{}", node.0);
        PATIENCE
            .until(client.world(), &what, async || {
                caller.create(node, NAMES[0]).await == Some(201)
                    && freshness(world, node, &NAMES).await == ["Current", "Stale"]
            })
            .await;
    }
    end_namespace(client, others).await;
}

/// The freshness of the servers `names` in discovery at `node`. An answer that takes longer than [`DISCOVERY_MAX`] fails the run.
async fn freshness(world: &World, node: NodeId, names: &[&str]) -> Vec<String> {
    let form = format!("application/json;g={};v=v2;as=APIGroupDiscoveryList", ORCH.group("apidiscovery"));
    let request = Request::get("http://member:80/apis").header("accept", form).body(Bytes::new());
    let session = Session::new(world, SETTLER + 2).patient(DISCOVERY_MAX);
    let answer = session.http(node, request.expect("clients send valid requests")).await;
    let Ok((200, document)) = answer else {
        world.fail(format_args!("n{} says nothing of what it serves: {answer:?}", node.0));
        return Vec::new();
    };
    let groups = document["items"].as_array().cloned().unwrap_or_default();
    let of = |name: &&str| {
        // few: the groups of one cluster.
        let own = groups.iter().find(|own| own["metadata"]["name"] == group(name).as_str());
        own.map_or("absent", |own| own["versions"][0]["freshness"].as_str().unwrap_or_default()).to_owned()
    };
    names.iter().map(of).collect()
}

/// A namespace is emptied though one of the servers hangs, and goes once that answers.
async fn end_namespace(client: &Writer, others: &Others) {
    let (path, left) = ("/api/v1/namespaces/going", "/api/v1/namespaces/going/configmaps/left");
    let of = |name: &str| json!({"metadata": {"name": name}});
    PATIENCE
        .until(client.world(), "a namespace with an object cannot be made", async || {
            let node = client.pick();
            drop(client.ask(node, "POST", "/api/v1/namespaces", &of("going")).await);
            let maps = "/api/v1/namespaces/going/configmaps";
            matches!(client.ask(node, "POST", maps, &of("left")).await, Some((201 | 409, _)))
        })
        .await;
    PATIENCE
        .until(client.world(), "a namespace cannot be deleted", async || {
            // 409: its deletion has begun.
            matches!(
                client.ask(client.pick(), "DELETE", path, &Value::Null).await,
                Some((200 | 202 | 409, _))
            )
        })
        .await;
    PATIENCE
        .until(client.world(), "a server that hangs stops a namespace from being emptied", async || {
            let node = client.pick();
            let is_gone = matches!(client.ask(node, "GET", left, &Value::Null).await, Some((404, _)));
            let Some((200, namespace)) = client.ask(node, "GET", path, &Value::Null).await else {
                return false;
            };
            let told = namespace["status"]["conditions"].to_string();
            is_gone && told.contains(&group(NAMES[MOODY])) && !told.contains(&group(NAMES[0]))
        })
        .await;
    others.backends.hang(false);
    PATIENCE
        .until(client.world(), "a namespace stays though all servers answer", async || {
            matches!(client.ask(client.pick(), "GET", path, &Value::Null).await, Some((404, _)))
        })
        .await;
}
