//! The garbage collector: deletes objects none of whose owners exist any more.
//!
//! Owns the loop around the graph and the rules. Objects that may have to be collected wait in a queue: those that a client
//! has just written for a few hundredths of a second (`turns::SETTLE`), those that the end of another object sets free for
//! no longer than the next turn. One read barrier serves a whole batch: each object is decided on in that state, and the
//! writes are conditional on the object's version. An object that changed meanwhile is decided on again.
//!
//!     changes -> graph -> queue -> (barrier) -> decide -> write -> changes ...
//!
//! Writes go on between turns: one that hangs holds up its own object alone. So do questions to aggregated servers, which keep
//! owners, too; a dependent is decided on when they are answered. Dependents that such servers keep are looked for beside all that
//! ([`elsewhere`]).
//!
//! Events are left out, as owners and as dependents: they expire.

mod decide;
mod edges;
mod elsewhere;
mod graph;
mod misplaced;
mod ownership;
mod questions;
mod remote_owners;
mod sightings;
#[cfg(test)]
mod tests;
mod undecided;
mod writes;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use orch_bounded::WarningLimit;
use orch_raft::{Revision, State, Store};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::decide::{Action, Decision, View};
use self::elsewhere::Holds;
use self::graph::{ObjectRef, Watched};
use self::misplaced::{CrossNamespaceOwner, report};
use self::questions::Asking;
use self::remote_owners::{AGAIN, Answer, Asked, Begun, Question};
use self::sightings::Recorder;
pub(super) use self::sightings::Sightings;
use self::undecided::{Keeper, Undecided};
use self::writes::write;
use super::client::{Client, Moment, for_each, is_overtaken};
use super::queue::Queue;
use super::turns::{SETTLE, Turns};
use crate::error::ApiError;
use crate::follow::{Applied, Follower};
use crate::registry::Registry;

/// Limits warnings of objects that cannot be read: thousands may be due at once.
static UNREADABLE: WarningLimit<Moment> = WarningLimit::new();

/// Limits warnings of objects that cannot be removed yet: a client may store any number of them.
static UNCOLLECTED: WarningLimit<Moment> = WarningLimit::new();

/// Objects decided on after one barrier.
const BATCH_MAX: usize = 256;

/// Batches of one turn, so that a whole level of owners and the next are looked at in it; a new leader, which looks at
/// every dependent, leaves time for requests between turns.
const BATCHES_PER_TURN: usize = 4;

/// Objects that are worked on, but for those that only ask, from which on no further ones are taken: two batches. A batch
/// taken just below goes beyond by [`BATCH_MAX`].
const UNDER_WAY_MAX: usize = 512;

/// Writes that are under way or wait for a place, from which on no further objects are taken; also the writes of one batch.
/// The last object of a batch goes beyond by its own writes.
const WRITES_MAX: usize = 512;

/// Concurrent writes: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// Longest wait for the answers to the questions for one object. A server that hangs has none much sooner.
const PATIENCE: Duration = Duration::from_secs(300);

/// Storage resources that the collector leaves out.
const IGNORED: [&str; 1] = ["events"];

/// Collects garbage, here and at aggregated servers. Completes only with an error. `sightings`: what this process saw at aggregated
/// servers while it led before.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    sightings: &Arc<Mutex<Sightings>>,
) -> Result<Infallible, ApiError> {
    client.newest().await?;
    let recording = Recorder::begin(client, sightings)?.run();
    let holds = Holds::default();
    elsewhere::begin(client, &holds).await;
    let here = Box::pin(collect(client, &holds, sightings));
    let elsewhere = Box::pin(elsewhere::run(client, &holds, sightings));
    match select(select(here, elsewhere), Box::pin(recording)).await {
        Either::Left((ended, _)) => ended.factor_first().0,
        Either::Right((never, _)) => match never {},
    }
}

/// Collects what this server keeps. Completes only with an error.
async fn collect<S: Store>(
    client: &Client<S>,
    holds: &Holds,
    sightings: &Arc<Mutex<Sightings>>,
) -> Result<Infallible, ApiError> {
    let store = client.store();
    client.follow_definitions().await;
    let served = client.follow();
    let storages = storages(served.seen());
    let (places, asking) = (Semaphore::new(CONCURRENT_WRITES_MAX), Asking::new());
    let mut turns: Turns<'_, S, Work> = Turns::new(store, storages.iter().cloned()).following(served);
    let mut follower = Follower::new(Watched::new(storages, store.elapsed()), &client.newest().await?);
    follower.value_mut().owners.share(sightings);
    follower.value_mut().queue.measure(client.figures().queue("garbage_collector"));
    let (mut under_way, mut undecided) = (UnderWay::default(), Undecided::new(Keeper::Cluster));
    turns.start(released(holds));
    loop {
        let queue = &mut follower.value_mut().queue;
        queue.advance(store.elapsed());
        let due = if under_way.is_full(queue) { None } else { queue.wait() };
        let ended = turns.next(due).await;
        queue.advance(store.elapsed());
        for work in ended {
            match work {
                Work::Ended(work) => {
                    under_way.end(&work);
                    end(client, follower.value_mut(), work);
                }
                Work::Released(owners) => {
                    let queue = &mut follower.value_mut().queue;
                    owners.iter().for_each(|owner| queue.add(owner, Duration::ZERO));
                    turns.start(released(holds));
                }
            }
        }
        follow(&mut turns, &mut follower, store);
        for _ in 0..BATCHES_PER_TURN {
            let queue = &mut follower.value_mut().queue;
            let most = if under_way.is_full(queue) { 0 } else { BATCH_MAX };
            let due = queue.take_due(most);
            if due.is_empty() {
                break;
            }
            // An object absent in a state from here on is gone for good.
            client.newest().await?;
            // Where kinds have come or gone, the graph has their objects before anything is decided.
            client.follow_definitions().await;
            follow(&mut turns, &mut follower, store);
            let (applied, registry) = (Applied::of(store), turns.served());
            let servers = client.aggregation().all(&applied).await;
            let watched = follower.advance(&applied);
            watched.owners.refresh(servers, &registry, store.elapsed());
            for decided in decide_all((client, holds), &applied.state, &registry, watched, due) {
                under_way.begin(&decided);
                turns.start(carry_out(client, (&places, &asking), decided));
            }
        }
        let all = &follower.value().undecided;
        undecided
            .set(all.len(), client.moment(), || all.first().map(ObjectRef::to_string).unwrap_or_default());
    }
}

/// Waits for owners that no dependent at aggregated servers keeps any more.
async fn released(holds: &Holds) -> Work {
    Work::Released(holds.released().await)
}

/// Takes in the changes of objects, and those of what is served.
fn follow<S: Store>(turns: &mut Turns<'_, S, Work>, follower: &mut Follower<Watched>, store: &S) {
    let storages = turns.newly_served().map(|served| storages(&served));
    if let Some(storages) = &storages {
        turns.hear(storages.clone());
    }
    let applied = Applied::of(store);
    let watched = follower.advance(&applied);
    if let Some(storages) = storages {
        watched.follow(storages, &applied.state);
    }
}

/// Storage resources of all served resources, but for [`IGNORED`].
fn storages(served: &Registry) -> Vec<Arc<str>> {
    let mut storages: Vec<Arc<str>> = served.resources().map(|resource| resource.storage.clone()).collect();
    storages.sort();
    storages.dedup();
    // few: the product's resources.
    storages.retain(|storage| !IGNORED.contains(&&**storage));
    storages
}

/// Work that was begun and has not ended.
#[derive(Debug, Default)]
struct UnderWay {
    writes: usize,
    /// Objects that only ask aggregated servers for owners. These questions have bounds of their own ([`remote_owners`]).
    asking: usize,
}

impl UnderWay {
    fn begin(&mut self, decided: &Decided) {
        self.writes += decided.actions.len();
        self.asking += usize::from(!decided.questions.is_empty());
    }

    fn end(&mut self, ended: &Ended) {
        self.writes -= ended.writes;
        // Each question has an answer.
        self.asking -= usize::from(!ended.answers.is_empty());
    }

    /// Whether further objects wait until some of the work has ended.
    fn is_full(&self, queue: &Queue<ObjectRef>) -> bool {
        queue.taken().saturating_sub(self.asking) >= UNDER_WAY_MAX || self.writes >= WRITES_MAX
    }
}

/// The writes that the decision on one object asks for.
struct Decided {
    cause: ObjectRef,
    actions: Vec<Action>,
    misplaced: Option<CrossNamespaceOwner>,
    /// Owners to ask for, in which case there is nothing else.
    questions: Vec<Asked>,
    /// The state that was decided in.
    as_of: Revision,
}

/// Ended work.
enum Work {
    Ended(Ended),
    /// Owners to decide on, which dependents at aggregated servers kept until now.
    Released(Vec<ObjectRef>),
}

/// Ended work for one object.
struct Ended {
    cause: ObjectRef,
    writes: usize,
    /// An object whose deletion the collector itself began, and goes on with at once.
    next: Option<ObjectRef>,
    result: Result<(), ApiError>,
    answers: Vec<(Question, Answer)>,
    as_of: Revision,
}

/// The decisions on `due` that ask for writes. Objects beyond [`WRITES_MAX`] go back to the queue.
fn decide_all<S: Store>(
    (client, holds): (&Client<S>, &Holds),
    state: &State,
    registry: &Registry,
    watched: &mut Watched,
    due: Vec<ObjectRef>,
) -> Vec<Decided> {
    let (mut all, mut writes) = (Vec::new(), 0);
    for cause in due {
        let queue = &mut watched.queue;
        if writes >= WRITES_MAX {
            queue.put_back(&cause, Duration::ZERO);
            continue;
        }
        let view = View {
            state,
            graph: &watched.graph,
            registry,
            owners: &watched.owners,
            holds,
            now: client.store().elapsed(),
            // date: when deletions began.
            now_ms: client.now_ms(),
        };
        match view.decide(&cause) {
            Ok(Decision { questions, .. }) if !questions.is_empty() => {
                match watched.owners.begin(questions) {
                    Begun::After(wait) => watched.queue.put_back(&cause, wait),
                    Begun::Ask(questions) => all.push(Decided {
                        cause,
                        actions: Vec::new(),
                        misplaced: None,
                        questions,
                        as_of: state.applied(),
                    }),
                }
            }
            Ok(Decision { actions, look, misplaced, unserved, is_owned_elsewhere, is_undecided, .. }) => {
                watched.note_undecided(&cause, is_undecided);
                if unserved {
                    watched.await_kinds(cause.clone());
                }
                let queue = &mut watched.queue;
                look.iter().for_each(|next| queue.add(next, Duration::ZERO));
                if actions.is_empty() && misplaced.is_none() {
                    queue.done(&cause);
                    if is_owned_elsewhere {
                        queue.add(&cause, AGAIN);
                    }
                    continue;
                }
                writes += actions.len();
                let as_of = state.applied();
                all.push(Decided { cause, actions, misplaced, questions: Vec::new(), as_of });
            }
            Err(error) => {
                let ObjectRef { storage, path } = &cause;
                if let Some(left_out) = UNREADABLE.pass_at(client.moment()) {
                    tracing::error!(%error, %storage, %path, left_out, "a stored object cannot be read");
                }
                queue.done(&cause);
            }
        }
    }
    all
}

/// Asks, or reports and writes, for one object; each question and each write waits for a place.
async fn carry_out<S: Store>(
    client: &Client<S>,
    (places, asking): (&Semaphore, &Asking),
    decided: Decided,
) -> Work {
    let Decided { cause, actions, misplaced, questions, as_of } = decided;
    if !questions.is_empty() {
        let answers = asking.ask_all(client, questions, PATIENCE).await;
        return Work::Ended(Ended { cause, writes: 0, next: None, result: Ok(()), answers, as_of });
    }
    let writes = actions.len();
    if let Some(misplaced) = misplaced {
        report(client, &misplaced).await;
    }
    // once: one pass over the writes for one object, which are bounded.
    let next = actions.iter().find(|action| action.leads_on()).map(|action| action.object.clone());
    let written = for_each(actions, CONCURRENT_WRITES_MAX, |action| async move {
        // An error means that the semaphore was closed, which it never is.
        let _place = places.acquire().await;
        write(client, &action).await
    });
    // A failure counts for more than a write that was overtaken.
    let errors = written.await.into_iter().filter_map(Result::err);
    let result = errors.min_by_key(is_overtaken).map_or(Ok(()), Err);
    Work::Ended(Ended { cause, writes, next, result, answers: Vec::new(), as_of })
}

/// Takes in the result of the work for one object.
fn end<S: Store>(client: &Client<S>, watched: &mut Watched, ended: Ended) {
    let Ended { cause, next, result, answers, as_of, .. } = ended;
    let queue = &mut watched.queue;
    match result {
        Ok(()) if !answers.is_empty() => {
            watched.owners.end(answers, as_of, client.store().elapsed());
            queue.put_back(&cause, Duration::ZERO);
        }
        Ok(()) => {
            queue.done(&cause);
            next.iter().for_each(|next| queue.add(next, Duration::ZERO));
        }
        // A client changed the object meanwhile and may change it again: decide once it has settled.
        Err(error) if is_overtaken(&error) => queue.put_back(&cause, SETTLE),
        Err(error) => {
            let ObjectRef { storage, path } = &cause;
            if let Some(left_out) = UNCOLLECTED.pass_at(client.moment()) {
                tracing::warn!(%error, %storage, %path, left_out, "garbage cannot be collected yet");
            }
            queue.failed(&cause);
        }
    }
}
