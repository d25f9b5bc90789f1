//! Changing a stored object: read it, judge its change, propose the result under the condition that the object is unchanged.
//!
//! Owns the retries; `modified` owns the answer. A request whose first proposal met a newer version waits for its turn (`turns`). A change is first
//! tried on the state that this node has applied. The node may lag, so a refusal is given only after a quorum barrier.
//!
//!     judge      once for each version of the object; may wait, and lets the turns go while it does
//!     reserve    again for each view that the change is proposed in
//!     propose    applied, or: the object is of another version -> judge; another condition does not hold -> reserve

use std::ops::Range;
use std::pin::pin;

use orch_raft::object::SharedObject;
use orch_raft::{Condition, Key, Operation, Outcome, Revision, Store};
use orch_schema::value::Value;

use super::admit::LOOKS;
use super::judged::{Judged, Rejected, Write};
use super::modified::{Last, Modified};
use super::staged::{Asking, is_current, tree_for_rules};
use super::stored::{is_same, tree_of};
use super::turns::{HeldTurns, without_turns};
use super::{Pipeline, Request};
use crate::admission::{self, Additions, Attributes, Extent, Finality, Refused, View};
use crate::error::ApiError;
use crate::request::Verb;

/// A version of an object that is to be changed.
pub(super) struct Current<'a> {
    /// The stored version.
    pub object: SharedObject,
    /// Its tree, in the form of its kind's rules.
    pub value: Value,
    /// All objects at the same revision, for admission, which may make it the newest view.
    pub view: &'a mut View,
}

/// Computes one change from any version of an object.
pub(super) trait Attempt: Send + Sync {
    /// The change of `current`, judged by the kind and the plugins. Called again for each newer version that turns up before
    /// the change is applied.
    fn judge(&mut self, current: Current<'_>) -> impl Future<Output = Result<Judged, Rejected>> + Send;

    /// Adds to `judged` what is counted or claimed with it in `view`. Called again for each view.
    fn reserve(
        &mut self,
        judged: &mut Judged,
        view: &View,
    ) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Whether the client names the `resourceVersion` that it changes. Such a change takes no turn: each change ahead
    /// of it in the queue would make it conflict.
    fn names_version(&self) -> bool;
}

/// The outcome of one proposal.
enum Proposed {
    /// The change is applied, or nothing was to be changed.
    Done(Modified),
    /// The object is no longer of the version that the change is based on, or has to be judged again as it is: another one
    /// took what it was allotted.
    Overtaken,
    /// A condition of this view did not hold. `Some`: the object that the change shares with other writes.
    Contended(Option<Key>),
}

/// Attempts of one request on newer versions before it fails as unavailable. Changes of one object take turns, so few
/// come near this number; creates whose plugins write one shared object (a counter) come near it when a hundred run at
/// once. It bounds the cost of one request.
pub(super) const ATTEMPTS_MAX: usize = 100;

/// The error of a write that conflicted [`ATTEMPTS_MAX`] times.
pub(super) fn changing_too_fast() -> ApiError {
    ApiError::Unavailable("the object changes faster than it can be written".to_owned())
}

/// The error of a write that depends on an object which changed since the plugins were asked.
pub(super) fn dependency_changed() -> ApiError {
    ApiError::Unavailable("what the object depends on changes faster than it can be written".to_owned())
}

/// A change under way.
struct Modification<'a, S, A> {
    pipeline: &'a Pipeline<S>,
    request: Request<'a>,
    key: &'a Key,
    dry_run: bool,
    attempt: A,
    takes_turns: bool,
    turns: HeldTurns<'a>,
    /// Whether the change may still join the queue of an object that it shares with other writes.
    may_join: bool,
    view: View,
    /// The view is no older than the request.
    surely_current: bool,
    /// The last judgement, and the version that it is of.
    judged: Option<(Revision, Judged)>,
    /// Whether a judgement waited for another server: the next one will let a turn go unused.
    waits: bool,
    /// Looks left for what a background loop may be about to make.
    looks: Range<usize>,
}

/// The end of a change, `None` where there is no such object; or another try.
enum Tried {
    Ended(Option<Modified>),
    Again,
}

impl<S: Store> Pipeline<S> {
    /// Applies the change that `attempt` makes to the object under `key`. `None`: there is no such object.
    pub(super) async fn modify(
        &self,
        request: Request<'_>,
        key: &Key,
        dry_run: bool,
        attempt: impl Attempt,
    ) -> Result<Option<Modified>, ApiError> {
        let takes_turns = !dry_run && !attempt.names_version();
        let object = if takes_turns { self.turns.join(key, &self.store).await } else { None };
        let mut modification = Modification {
            pipeline: self,
            request,
            key,
            dry_run,
            attempt,
            takes_turns,
            turns: HeldTurns { object, shared: None },
            may_join: !dry_run,
            view: if dry_run { self.newest_view().await? } else { View::of(&self.store) },
            surely_current: dry_run,
            judged: None,
            waits: false,
            looks: LOOKS,
        };
        for _ in 0..ATTEMPTS_MAX {
            if let Tried::Ended(modified) = modification.try_once().await? {
                return Ok(modified);
            }
        }
        Err(changing_too_fast())
    }
}

impl<S: Store, A: Attempt> Modification<'_, S, A> {
    /// Tries the change in the present view. [`Tried::Again`] leaves another view.
    async fn try_once(&mut self) -> Result<Tried, ApiError> {
        let Some(before) = self.view.applied().state.object(self.key).cloned() else {
            return Ok(if self.stands(None).await? { Tried::Ended(None) } else { Tried::Again });
        };
        let kept = self.judged.take().filter(|(revision, _)| *revision == before.revision);
        let judged = match kept {
            Some((_, judged)) => Some(judged),
            None => self.judge(&before).await?,
        };
        let Some(mut judged) = judged else { return Ok(Tried::Again) };
        if !self.reserve(&mut judged).await? {
            self.judged = Some((before.revision, judged));
            return Ok(Tried::Again);
        }
        // A change without effect is not proposed, so only a barrier shows whether this is the newest version.
        if judged.is_nothing(&before) && !self.stands(Some(&before)).await? {
            return Ok(Tried::Again);
        }
        if let Some(shared) =
            judged.additions.contended().filter(|_| self.may_join && self.turns.shared.is_none())
        {
            self.may_join = false;
            // Always taken after the turn of the object itself, so that no two requests wait for each other.
            self.turns.shared = self.pipeline.turns.join(shared, &self.pipeline.store).await;
            if self.turns.shared.is_some() {
                self.judged = Some((before.revision, judged));
                (self.view, self.surely_current) = (View::of(&self.pipeline.store), false);
                return Ok(Tried::Again);
            }
        }
        self.propose(before, judged).await
    }

    /// Whether nothing newer than `found` is under the key. Makes the view one that is no older than the request.
    async fn stands(&mut self, found: Option<&SharedObject>) -> Result<bool, ApiError> {
        if !self.surely_current {
            (self.view, self.surely_current) = (self.pipeline.newest_view().await?, true);
        }
        Ok(self.view.has(self.key, found))
    }

    /// Judges the change of `before`. `None`: it is no longer the newest version.
    ///
    /// # Errors
    /// A refusal that stands.
    async fn judge(&mut self, before: &SharedObject) -> Result<Option<Judged>, ApiError> {
        let seen = self.view.clone();
        let resource = self.request.resource;
        let value = match is_current(resource, before) {
            true => tree_of(before)?,
            false => self.converted(before).await?,
        };
        let object = before.clone();
        let (judged, waited) = {
            let judging = pin!(self.attempt.judge(Current { object, value, view: &mut self.view }));
            without_turns(judging, self.request.budget, &mut self.turns).await
        };
        if waited {
            self.waits = true;
            (self.view, self.surely_current) = (View::of(&self.pipeline.store), false);
        } else if !self.view.is_same(&seen) {
            // Admission moves to no view but the newest.
            self.surely_current = true;
        }
        match judged {
            Ok(judged) => Ok(self.view.has(self.key, Some(before)).then_some(judged)),
            Err(Rejected::Finally(error)) => Err(error),
            Err(Rejected::ThisVersion(error)) => match self.stands(Some(before)).await? {
                true => Err(error),
                false => Ok(None),
            },
        }
    }

    /// The tree of `before` in the form of its kind's rules, by the conversion stage. The turns are let go while it waits.
    async fn converted(&mut self, before: &SharedObject) -> Result<Value, ApiError> {
        let Request { verb, resource, budget, .. } = self.request;
        let asking = if verb == Verb::Delete { Asking::Anew } else { Asking::Once };
        let converting = pin!(tree_for_rules(resource, before, asking, self.request));
        without_turns(converting, budget, &mut self.turns).await.0
    }

    /// Reserves in the present view. `false`: refused there, and the view is a newer one now.
    ///
    /// # Errors
    /// A refusal that stands.
    async fn reserve(&mut self, judged: &mut Judged) -> Result<bool, ApiError> {
        judged.begin_view();
        let (reserved, _) = {
            let reserving = pin!(self.attempt.reserve(judged, &self.view));
            without_turns(reserving, self.request.budget, &mut self.turns).await
        };
        let Err(refused) = reserved else { return Ok(true) };
        match refused.finality {
            Finality::OfView if self.surely_current => return Err(refused.error),
            Finality::OfView | Finality::Final => {}
            // The object may be long in coming.
            Finality::Awaited => self.turns = HeldTurns::default(),
        }
        let looks = &mut self.looks;
        self.pipeline.look_again(self.request.budget, refused, looks, &mut self.view).await?;
        self.surely_current = true;
        Ok(false)
    }

    /// Proposes the change of `before`.
    async fn propose(&mut self, before: SharedObject, judged: Judged) -> Result<Tried, ApiError> {
        let revision = before.revision;
        let (carried_out, kept) = if judged.reserves() {
            let (write, once) = (judged.write.clone(), judged.once());
            let carried_out = self.carry_out(before, write, &judged.additions, once).await?;
            (carried_out, Some((revision, judged)))
        } else {
            let once = judged.once();
            // The trees are freed before the quorum is waited for.
            let (write, additions) = judged.into_write();
            (self.carry_out(before, write, &additions, once).await?, None)
        };
        match carried_out {
            Proposed::Done(modified) => return Ok(Tried::Ended(Some(modified))),
            Proposed::Overtaken => {
                self.may_join = !self.dry_run;
                if self.takes_turns && !self.waits && self.turns.object.is_none() {
                    self.turns.shared = None;
                    let turn = self.pipeline.turns.take(self.key, &self.pipeline.store).await;
                    self.turns.object = Some(turn);
                }
            }
            Proposed::Contended(shared) => {
                self.judged = kept;
                if let Some(shared) = shared.filter(|_| self.turns.shared.is_none()) {
                    let turn = self.pipeline.turns.take(&shared, &self.pipeline.store).await;
                    self.turns.shared = Some(turn);
                }
            }
        }
        // The refused entry was applied here, so this node has the version that caused the refusal.
        (self.view, self.surely_current) = (View::of(&self.pipeline.store), true);
        Ok(Tried::Again)
    }

    /// Proposes `write`, the change of `before`, with `additions`, of which `once` were made by the phases that are asked once.
    async fn carry_out(
        &self,
        before: SharedObject,
        write: Write,
        additions: &Additions,
        once: Extent,
    ) -> Result<Proposed, ApiError> {
        let key = self.key;
        let (operation, last) = match write {
            Write::Put(put) if is_same(&put, &before) => {
                return Ok(Proposed::Done(Modified::unchanged(before)));
            }
            write if self.dry_run => return Ok(Proposed::Done(Modified::dry(write, before))),
            Write::Put(put) => (Operation::Put(put), Last::Stored),
            Write::Remove(None) => (Operation::Delete(key.clone()), Last::Before),
            Write::Remove(Some(put)) => (Operation::Delete(key.clone()), Last::Removed(put)),
            Write::Free(put) => (Operation::Delete(key.clone()), Last::Freed(put)),
        };
        let unchanged = Condition::AtRevision(key.clone(), before.revision);
        self.request.budget.begin_write()?;
        let Request { exchange, resource, .. } = self.request;
        match self.pipeline.propose(exchange, resource, unchanged, operation, additions).await? {
            Outcome::Refused { condition: 0, .. } => Ok(Proposed::Overtaken),
            Outcome::Refused { condition, current, .. } => {
                let operation = match last {
                    Last::Before | Last::Removed(_) => admission::Operation::Delete,
                    Last::Stored | Last::Freed(_) => admission::Operation::Update,
                };
                let attributes = Attributes {
                    namespace: key.namespace(),
                    name: key.name(),
                    ..self.pipeline.attributes(self.request, operation)
                };
                self.broken(attributes, additions, once, (condition - 1, current.as_ref()))
            }
            Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
            Outcome::Applied { object, revision, .. } => {
                Ok(Proposed::Done(Modified::applied(object, revision, last, before)))
            }
        }
    }

    /// The next step after condition number `at` of `additions` did not hold, since `found` was under its key.
    fn broken(
        &self,
        attributes: Attributes<'_>,
        additions: &Additions,
        once: Extent,
        (at, found): (usize, Option<&SharedObject>),
    ) -> Result<Proposed, ApiError> {
        if additions.is_allotment(at) {
            return Ok(Proposed::Overtaken);
        }
        match self.pipeline.admission.broken_condition(&attributes, additions, at, found.is_some()) {
            Some(error) => Err(error),
            // The plugin that relies on it is not asked again.
            None if at < once.conditions => Err(dependency_changed()),
            None => Ok(Proposed::Contended(additions.contended().cloned())),
        }
    }
}
