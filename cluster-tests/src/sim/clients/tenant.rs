//! A client whose deletions the controllers must complete: namespaces with everything in them, and owners whose
//! dependents must follow or stay.
//!
//! It repeats a request until it is answered: a deletion unchanged, since no name is used twice; a creation under
//! another name each time. Where the cluster is made anew, it leaves its namespace as it is, and begins another one: what it
//! did may be lost.

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::error::ApiError;
use orch_api::pipeline::Answer;
use orch_api::request::Verb;
use serde_json::{Value, json};

use crate::sim::server::Ask;
use crate::sim::session::{Driver, Gone, Session};

const NAMESPACES: &str = "namespaces";
const CONFIG_MAPS: &str = "configmaps";
const SECRETS: &str = "secrets";

/// Longest time between two requests.
const THINK_MS_MAX: u64 = 150;

/// Attempts at one request; under faults most of them fail.
const ATTEMPTS_MAX: u32 = 40;

/// Dependents of one owner.
const DEPENDENTS: u64 = 3;

/// A client with namespaces of its own.
pub struct Tenant;

impl Driver for Tenant {
    fn name(&self) -> &'static str {
        "tenant"
    }

    fn drive(self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            let mut number = 0;
            while session.world().is_busy() {
                number += 1;
                let namespace = format!("t{number}");
                if Box::pin(live_in(&session.renewed(), &namespace)).await.is_none() {
                    session.think(THINK_MS_MAX).await;
                }
            }
        }
        .boxed()
    }
}

/// The life of one namespace, from creation to deletion. `None` if the run or the cluster ends first.
async fn live_in(session: &Session, namespace: &str) -> Option<()> {
    let (dice, world) = (session.dice(), session.world());
    let namespace = &create(session, NAMESPACES, "", namespace, &json!({})).await?;
    let owner = create(session, CONFIG_MAPS, namespace, "owner", &json!({})).await?;
    let uid = uid(session, namespace, &owner).await?;
    let references = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
        "blockOwnerDeletion": true}]});
    let policy = ["Background", "Foreground", "Orphan"][dice.index(3)];
    let mut dependents = Vec::new();
    for number in 0..DEPENDENTS {
        let name = create(session, SECRETS, namespace, &format!("d{number}"), &references).await?;
        let path = format!("{namespace}/{name}");
        if policy != "Orphan" {
            world.duties(|duties| duties.may_go(SECRETS, &path));
        }
        dependents.push(path);
    }
    let bystander = create(session, SECRETS, namespace, "bystander", &json!({})).await?;
    world.duties(|duties| duties.must_stay(SECRETS, &format!("{namespace}/{bystander}")));
    let ends = dice.percent(40);
    if !ends || dice.percent(50) {
        world.trace().event(format_args!("c{} deletes {namespace}/{owner}: {policy}", session.client()));
        world.duties(|duties| duties.may_go(CONFIG_MAPS, &format!("{namespace}/{owner}")));
        delete(session, CONFIG_MAPS, namespace, &owner, policy).await?;
        world.duties(|duties| {
            duties.must_go(CONFIG_MAPS, &format!("{namespace}/{owner}"), "it was deleted");
            for path in dependents {
                match policy {
                    "Orphan" => duties.must_stay(SECRETS, &path),
                    _ => duties.must_go(SECRETS, &path, "its owner was deleted"),
                }
            }
        });
    }
    if ends {
        world.duties(|duties| duties.may_end(namespace));
        delete(session, NAMESPACES, "", namespace, "Background").await?;
        world.duties(|duties| duties.must_go(NAMESPACES, namespace, "it was deleted"));
    }
    Some(())
}

/// Creates an object named `name` and the number of the successful attempt, and returns that name. An attempt without
/// an answer may be applied at any time, even after the object of a later attempt was deleted: its different name keeps
/// it from bringing that object back.
async fn create(
    session: &Session,
    storage: &'static str,
    namespace: &str,
    name: &str,
    metadata: &Value,
) -> Option<String> {
    for attempt in 1..=ATTEMPTS_MAX {
        let name = format!("{name}-{attempt}");
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = json!(name);
        let ask = Ask::new(Verb::Create, storage, namespace, "").body(&object);
        if let Ok(Ok(_)) = attempt_once(session, &ask).await? {
            return Some(name);
        }
        // An attempt applied late may find its owner gone, so that the object is collected.
        session.world().duties(|duties| duties.may_go(storage, &format!("{namespace}/{name}")));
    }
    None
}

async fn delete(
    session: &Session,
    storage: &'static str,
    namespace: &str,
    name: &str,
    policy: &str,
) -> Option<()> {
    let ask = Ask::new(Verb::Delete, storage, namespace, name).body(&json!({"propagationPolicy": policy}));
    insist(session, &ask, |answer| match answer {
        Ok(_) | Err(ApiError::NotFound(_)) => Some(()),
        Err(_) => None,
    })
    .await
}

/// The uid of the namespace's owner of dependents.
async fn uid(session: &Session, namespace: &str, owner: &str) -> Option<String> {
    let ask = Ask::new(Verb::Get, CONFIG_MAPS, namespace, owner);
    insist(session, &ask, |answer| match answer {
        Ok(Answer::Stored(object)) => Some(object.index.uid.clone()),
        _ => None,
    })
    .await
}

/// Sends the request to one member after another until `done` returns a value.
async fn insist<T>(
    session: &Session,
    ask: &Ask,
    done: impl Fn(&Result<Answer, ApiError>) -> Option<T>,
) -> Option<T> {
    for _ in 0..ATTEMPTS_MAX {
        let answer = attempt_once(session, ask).await?;
        if let Some(taken) = answer.as_ref().ok().and_then(&done) {
            return Some(taken);
        }
    }
    None
}

/// Sends the request to a random member after a pause. `None` if the run ends, or the cluster.
async fn attempt_once(session: &Session, ask: &Ask) -> Option<Result<Result<Answer, ApiError>, Gone>> {
    session.think(THINK_MS_MAX).await;
    if session.world().failure().is_some() || session.world().is_settling() || session.is_void() {
        return None;
    }
    let (node, client) = (session.pick(), session.client());
    let answer = session.ask(node, ask).await;
    let (verb, what) = (ask.verb, format!("{} {}/{}", ask.storage, ask.namespace, ask.name));
    let came = match &answer {
        Ok(Ok(_)) => "done".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(gone) => format!("{gone:?}"),
    };
    session.world().trace().event(format_args!("c{client} n{} {verb:?} {what}: {came}", node.0));
    (!session.is_void()).then_some(answer)
}
