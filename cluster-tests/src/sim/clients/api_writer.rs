//! A client that writes through the API: creates, replaces, patches, deletes and reads a few config maps that it shares
//! with its peers.
//!
//! It updates under the version it last saw, which is often no longer the newest, or without a version. It never
//! repeats a write with an unknown outcome; its next request is a new write.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::error::ApiError;
use orch_api::pipeline::Answer;
use orch_api::request::Verb;
use orch_raft::Revision;
use serde_json::{Value, json};

use super::wire;
use crate::sim::answers::{Answered, Outcome, Wanted};
use crate::sim::history::{MARK, TAG, Tag};
use crate::sim::ledger::THINGS;
use crate::sim::plant::Plant;
use crate::sim::server::Ask;
use crate::sim::session::{Driver, Gone, Session};

/// Few objects, so that writers collide.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Namespace of the objects. Every cluster has it.
const NAMESPACE: &str = "default";

/// Longest time between two calls of one client.
const THINK_MS_MAX: u64 = 90;

/// A writing client.
#[derive(Default)]
pub struct ApiWriter {
    /// The version of each object that it last saw.
    seen: BTreeMap<String, Revision>,
}

#[derive(Clone, Copy)]
enum Plan {
    Create,
    CreateNameless,
    Replace,
    Patch,
    Remove,
    Read,
}

const PLANS: [(Plan, u64); 6] = [
    (Plan::Create, 16),
    (Plan::CreateNameless, 10),
    (Plan::Replace, 22),
    (Plan::Patch, 20),
    (Plan::Remove, 12),
    (Plan::Read, 20),
];

/// One request, and the facts to record about it.
struct Call {
    ask: Ask,
    /// The object's name; empty while the server has not chosen one.
    name: String,
    wanted: Wanted,
    tag: Option<Tag>,
}

impl Driver for ApiWriter {
    fn name(&self) -> &'static str {
        "api writer"
    }

    fn drive(mut self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().is_busy() {
                session.think(THINK_MS_MAX).await;
                let call = self.plan(&session);
                Box::pin(self.send(&session, call)).await;
            }
        }
        .boxed()
    }
}

impl ApiWriter {
    fn plan(&self, session: &Session) -> Call {
        let dice = session.dice();
        let plan = dice.weighted(&PLANS);
        let name = match plan {
            // Deletes objects with generated names now and then, so that they do not pile up.
            Plan::Remove if self.seen.len() > NAMES.len() && dice.percent(60) => {
                self.seen.keys().nth(dice.index(self.seen.len())).cloned().unwrap_or_default()
            }
            _ => NAMES[dice.index(NAMES.len())].to_owned(),
        };
        let from = self.seen.get(&name).copied().filter(|_| dice.percent(70));
        let tag = Some(session.world().history().tag());
        let written = |verb, name: &str| Ask::new(verb, THINGS, NAMESPACE, name);
        let filling = if dice.percent(4) { dice.number(1000..4000) } else { dice.number(0..40) };
        let object = object(tag, dice.percent(40), filling);
        let (ask, wanted, tag) = match plan {
            Plan::Create => {
                let object = with(object, "name", &name);
                (written(Verb::Create, "").body(&object), Wanted::Create, tag)
            }
            Plan::CreateNameless => {
                let object = with(object, "generateName", "g-");
                (written(Verb::Create, "").body(&object), Wanted::Create, tag)
            }
            Plan::Replace | Plan::Patch => {
                let version = from.map(|from| from.to_string()).unwrap_or_default();
                let object = with(with(object, "name", &name), "resourceVersion", &version);
                let ask = match plan {
                    Plan::Replace => written(Verb::Update, &name).body(&object),
                    _ => Ask { content_type: "application/merge-patch+json", ..written(Verb::Patch, &name) }
                        .body(&object),
                };
                (ask, Wanted::Update(from), tag)
            }
            Plan::Remove => {
                let conditions = from.map_or(
                    json!({}),
                    |from| json!({"preconditions": {"resourceVersion": from.to_string()}}),
                );
                let path = format!("{NAMESPACE}/{name}");
                session.world().duties(|duties| duties.may_go(THINGS, &path));
                (written(Verb::Delete, &name).body(&conditions), Wanted::Remove(from), None)
            }
            Plan::Read => (written(Verb::Get, &name), Wanted::Read, None),
        };
        let name = if matches!(plan, Plan::CreateNameless) { String::new() } else { name };
        Call { ask, name, wanted, tag }
    }

    async fn send(&mut self, session: &Session, call: Call) {
        let world = session.world();
        let Call { ask, name, wanted, tag } = call;
        let not_before = world.acknowledged();
        let node = session.pick();
        let mut answer = session.ask(node, &ask).await;
        let lost = matches!(answer, Err(Gone::Lost) | Ok(Err(ApiError::OutcomeUnknown(_))));
        if lost && ask.verb == Verb::Create && world.setup().plant == Some(Plant::ClientRepeats) {
            answer = session.ask(session.pick(), &ask).await;
        }
        let (outcome, name) = outcome_of(&answer, wanted, &name);
        if let Err(text) = &outcome {
            return world.fail(format_args!("n{} answers {ask:?} with {text}", node.0));
        }
        let outcome = outcome.unwrap_or(Outcome::Unknown);
        match outcome {
            Outcome::Written(revision) => {
                world.acknowledge(revision);
                self.seen.insert(name.clone(), revision);
            }
            Outcome::Found(version) => {
                world.acknowledge(version.revision);
                self.seen.insert(name.clone(), version.revision);
            }
            Outcome::Removed | Outcome::Absent => drop(self.seen.remove(&name)),
            Outcome::Exists | Outcome::Conflict | Outcome::NotDone | Outcome::Unknown => {}
        }
        let (client, verb) = (session.client(), ask.verb);
        world
            .trace()
            .event(format_args!("c{client} n{} {verb:?} {name} {tag:?} {wanted:?} => {outcome:?}", node.0));
        let path = Arc::from(format!("{NAMESPACE}/{name}"));
        let through = world.ledger().frontier();
        world.record_answer(Answered { client, path, wanted, tag, outcome, not_before, through });
    }
}

/// The outcome in a response, and the object's name. `Err`: a response that no correct server gives.
fn outcome_of(
    answer: &Result<Result<Answer, ApiError>, Gone>,
    wanted: Wanted,
    name: &str,
) -> (Result<Outcome, String>, String) {
    let named = || name.to_owned();
    let answer = match answer {
        Err(Gone::NotSent) => return (Ok(Outcome::NotDone), named()),
        Err(Gone::Lost) => return (Ok(Outcome::Unknown), named()),
        Ok(answer) => answer,
    };
    let item = |json: &[u8]| {
        let (path, version) = wire::item(json)?;
        Some((version, path.rsplit_once('/').map_or_else(named, |(_, name)| name.to_owned())))
    };
    let unreadable = || (Err("an object that cannot be read".to_owned()), named());
    match answer {
        Ok(Answer::Done(_)) => (Ok(Outcome::Removed), named()),
        Ok(Answer::Written(written)) => item(&written.json)
            .map_or_else(unreadable, |(version, name)| (Ok(Outcome::Written(version.revision)), name)),
        Ok(Answer::Stored(object)) => {
            item(&object.json).map_or_else(unreadable, |(version, name)| (Ok(Outcome::Found(version)), name))
        }
        Ok(Answer::List(_) | Answer::Listed { .. }) => (Err("a list".to_owned()), named()),
        Err(error) => (refusal(error, wanted), named()),
    }
}

fn refusal(error: &ApiError, wanted: Wanted) -> Result<Outcome, String> {
    match error {
        ApiError::AlreadyExists(_) | ApiError::BeingDeleted(_) => Ok(Outcome::Exists),
        ApiError::Conflict { .. } => Ok(Outcome::Conflict),
        // The first leader's controllers create the namespace.
        ApiError::NotFound(_) if wanted == Wanted::Create => Ok(Outcome::NotDone),
        ApiError::NotFound(_) => Ok(Outcome::Absent),
        ApiError::Unavailable(_) | ApiError::NameGenerationExhausted(_) => Ok(Outcome::NotDone),
        ApiError::OutcomeUnknown(_) | ApiError::DeadlineExceeded => Ok(Outcome::Unknown),
        other => Err(other.to_string()),
    }
}

/// A config map that bears the tag and `filling` bytes.
fn object(tag: Option<Tag>, marked: bool, filling: u64) -> Value {
    let mut labels = json!({ TAG: tag.map(|tag| tag.0.to_string()) });
    if marked {
        labels[MARK] = json!("yes");
    }
    let filling = "x".repeat(usize::try_from(filling).unwrap_or_default());
    json!({"metadata": {"labels": labels}, "data": {"filling": filling}})
}

fn with(mut object: Value, field: &str, text: &str) -> Value {
    if !text.is_empty() {
        object["metadata"][field] = json!(text);
    }
    object
}
