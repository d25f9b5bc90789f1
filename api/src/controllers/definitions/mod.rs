//! The loop of definitions of custom kinds: their conditions, when they come into force, and their end.
//!
//! Owns the names in use in each group, and the queue of definitions to look at. What is served follows the status that this loop
//! writes (`crate::definitions`), on every member.
//!
//!     created -> NamesAccepted, Established
//!     deleted -> objects are deleted -> the finalizer is removed (`termination`)
//!     gone    -> what is still stored of the kind is removed
//!
//! Invariant: names that this loop accepts are in use from the decision on, not only from its write: of two definitions that want
//! one name, one has it.

mod status;
mod termination;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, Key, Revision, State, Store};
use orch_rules::Action;
use orch_rules::kinds::definition::conditions::{Condition, ConditionType};
use orch_rules::kinds::definition::names::Pool;
use orch_rules::kinds::definition::non_structural;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use self::status::{Surroundings, next, patch, restored};
use super::client::{Client, Place};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::definitions::{DEFINITIONS, outline_of, storage_of_definition};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};
use crate::registry::{Registry, Resource, Stage};

/// Definitions that are worked on at a time: enough to share syncs to disk among thousands that come together.
const AT_ONCE: usize = 32;

/// Limit of the time for which a definition's end waits without a look: that of `termination`.
const HELD_LOOK: Duration = Duration::from_secs(60);

/// The definitions, by name, and those of a group.
struct Work {
    /// Definitions first, then the objects of those that are being deleted.
    sources: Vec<Arc<str>>,
    known: BTreeMap<Arc<str>, Known>,
    groups: BTreeMap<String, Pool>,
    /// Those that wait for a name, by group, with the names that they want.
    refused: BTreeMap<String, BTreeMap<Arc<str>, BTreeSet<String>>>,
    /// Faults of the schemas of definitions that are not in force, or whose status reports faults: computed once for each version of the object.
    violations: BTreeMap<Arc<str>, (Revision, Option<Condition>)>,
    /// Names of definitions by the name in the store of their objects, while these are being deleted.
    ending: BTreeMap<Arc<str>, Arc<str>>,
    /// Since when the objects of a definition that is being deleted were held.
    held: BTreeMap<Arc<str>, Duration>,
    queue: Queue<Arc<str>>,
}

/// The facts about one definition that the loop compares with others.
struct Known {
    group: String,
    /// The names that it has, or is about to have.
    accepted: Value,
}

impl Work {
    fn new(now: Duration) -> Self {
        let mut queue = Queue::default();
        queue.advance(now);
        let sources = vec![DEFINITIONS.into()];
        let (known, groups, refused, violations) = Default::default();
        let (ending, held) = Default::default();
        Work { sources, known, groups, refused, violations, ending, held, queue }
    }

    /// Takes in the definition called `name`, as it is stored.
    fn take_in(&mut self, name: &Arc<str>, definition: &Value) {
        let group = definition.at("spec").text("group").to_owned();
        self.set_accepted(name, &group, definition.at("status").at("acceptedNames").clone());
        let accepted = ConditionType::NamesAccepted.find(definition);
        if accepted.is_some_and(|found| found.text("status") == "False") {
            let wanted = names_in(definition.at("spec").at("names"));
            self.refused.entry(group).or_default().insert(name.clone(), wanted);
        } else {
            self.forget_refusal(name, &group);
        }
    }

    /// Notes the names that the definition has. Those that wait for a name are looked at where one may have become free.
    fn set_accepted(&mut self, name: &Arc<str>, group: &str, accepted: Value) {
        if self.known.get(name).is_some_and(|known| known.accepted == accepted && known.group == group) {
            return;
        }
        self.release_names(name);
        self.groups.entry(group.to_owned()).or_default().add(&accepted);
        self.known.insert(name.clone(), Known { group: group.to_owned(), accepted });
    }

    /// Takes the names of a definition out of use. Those that want one of them are looked at.
    fn release_names(&mut self, name: &Arc<str>) {
        let Some(Known { group, accepted }) = self.known.remove(name) else { return };
        if let Some(pool) = self.groups.get_mut(&group) {
            pool.remove(&accepted);
        }
        let freed = names_in(&accepted);
        for (waiting, wanted) in self.refused.get(&group).into_iter().flatten() {
            if waiting != name && !freed.is_disjoint(wanted) {
                self.queue.add(waiting, Duration::ZERO);
            }
        }
    }

    fn forget_refusal(&mut self, name: &Arc<str>, group: &str) {
        if let Some(refused) = self.refused.get_mut(group) {
            refused.remove(name);
            if refused.is_empty() {
                self.refused.remove(group);
            }
        }
    }

    fn remove(&mut self, name: &Arc<str>) {
        let group = self.known.get(name).map(|known| known.group.clone()).unwrap_or_default();
        self.forget_refusal(name, &group);
        self.release_names(name);
        // once: for each definition that has gone.
        let is_alone = !self.known.values().any(|known| known.group == group);
        if is_alone {
            self.groups.remove(&group);
        }
        self.held.remove(name);
        self.violations.remove(name);
    }

    /// The faults in the structure of the schemas of the definition called `name`, which only one stored by an earlier program can have. They are
    /// computed when a definition comes into force, and while its status reports them: schemas are many times the rest.
    fn violations(
        &mut self,
        brand: &'static Brand,
        name: &Arc<str>,
        object: &SharedObject,
        outline: &Value,
    ) -> Option<Condition> {
        let is_told = ConditionType::NonStructuralSchema.find(outline).is_some();
        if ConditionType::Established.is_true(outline) && !is_told {
            self.violations.remove(name);
            return None;
        }
        if let Some((revision, found)) = self.violations.get(name)
            && *revision == object.revision
        {
            return found.clone();
        }
        let definition: Value = serde_json::from_slice(&object.json).ok()?;
        let found = non_structural(brand, &definition);
        self.violations.insert(name.clone(), (object.revision, found.clone()));
        found
    }

    /// The names in use in the group of `definition`.
    fn pool(&mut self, definition: &Value) -> &Pool {
        self.groups.entry(definition.at("spec").text("group").to_owned()).or_default()
    }
}

/// All names that `names` has, of resources and of kinds.
fn names_in(names: &Value) -> BTreeSet<String> {
    let single = ["plural", "singular", "kind", "listKind"].map(|field| names.text(field));
    let all = single.into_iter().chain(names.texts("shortNames"));
    all.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl Derived for Work {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if **source != *DEFINITIONS {
            if let Some(name) = self.ending.get(source) {
                self.queue.add(name, Duration::ZERO);
            }
            return;
        }
        match change.new.as_ref().map(outline_of) {
            Some(Some(definition)) => self.take_in(&change.path, &definition),
            // One that cannot be read is not served.
            Some(None) => {}
            None => self.remove(&change.path),
        }
        self.queue.add(&change.path, Duration::ZERO);
    }

    fn rebuild(&mut self, state: &State) {
        (self.known, self.groups, self.refused, self.violations) = Default::default();
        for (name, object) in state.collection(DEFINITIONS).range_from("") {
            if let Some(definition) = outline_of(object) {
                self.take_in(name, &definition);
            }
            self.queue.add(name, Duration::ZERO);
        }
        // Objects that an earlier leader has left of kinds that are gone.
        for (storage, _) in state.collections().filter(|(_, collection)| !collection.is_empty()) {
            let Some(name) = storage.strip_suffix('.') else { continue };
            if !self.known.contains_key(name) {
                self.queue.add(&name.into(), Duration::ZERO);
            }
        }
    }
}

impl Queued for Work {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }

    fn sources_of(served: &Registry) -> Option<Vec<Arc<str>>> {
        let ending = served.stored_resources().filter(|resource| resource.stage == Stage::Terminating);
        let ending = ending.map(|resource| resource.storage.clone());
        Some(std::iter::once(DEFINITIONS.into()).chain(ending).collect())
    }

    fn follow(&mut self, sources: Vec<Arc<str>>, _state: &State) {
        let name = |storage: &Arc<str>| -> Arc<str> { storage.strip_suffix('.').unwrap_or(storage).into() };
        self.ending = sources.iter().skip(1).map(|storage| (storage.clone(), name(storage))).collect();
        self.sources = sources;
        for name in self.ending.values() {
            self.queue.add(name, Duration::ZERO);
        }
    }
}

/// Work for one definition.
enum Plan {
    /// The patch of a status.
    Write(Value),
    /// The end of the definition goes on.
    End { had_time: bool },
    /// The definition is gone.
    CleanUp,
}

/// Keeps the status of definitions, and ends them. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let Some(resource) = client.stored_resource(DEFINITIONS) else {
        return Err(ApiError::Internal("definitions are not served".to_owned()));
    };
    let work = Work::new(client.store().elapsed());
    let mut rounds =
        Rounds::new((client, "customresourcedefinition"), work.sources.clone(), work, AT_ONCE).await?;
    loop {
        let ended = |work: &mut Work, name: &Arc<str>, result| {
            end(client, &mut work.queue, (name, name), result, "a definition cannot be looked after yet");
        };
        let Round { due, .. } = rounds.next(ended).await;
        let surroundings = Surroundings {
            brand: client.registry().brand,
            // date: written into conditions.
            now: client.now(),
            violations: None,
        };
        let elapsed = client.store().elapsed();
        let plan = |work: &mut Work, applied: &Applied, name: &Arc<str>| {
            let (object, plan) = plan(work, applied, name, (surroundings, elapsed))?;
            Some(carry_out(client, resource.clone(), name.clone(), object, plan))
        };
        rounds.start_all(due, plan).await?;
    }
}

/// The work for the definition called `name`; `None`: there is none until it changes.
fn plan(
    work: &mut Work,
    applied: &Applied,
    name: &Arc<str>,
    (surroundings, elapsed): (Surroundings<'_>, Duration),
) -> Option<(Option<SharedObject>, Plan)> {
    let state = &applied.state;
    let Some(object) = state.collection(DEFINITIONS).get(name).cloned() else {
        let is_left = !state.collection(&storage_of_definition(name)).is_empty();
        return is_left.then_some((None, Plan::CleanUp));
    };
    let definition = outline_of(&object)?;
    if definition.at("metadata").has("deletionTimestamp") {
        work.take_in(name, &definition);
        if let Some(patch) = restored(&definition, work.pool(&definition), surroundings) {
            return Some((Some(object), Plan::Write(patch)));
        }
        let since = *work.held.entry(name.clone()).or_insert(elapsed);
        return Some((Some(object), Plan::End { had_time: elapsed.saturating_sub(since) >= HELD_LOOK }));
    }
    // The names that an earlier look accepted may not have been written.
    work.take_in(name, &definition);
    let violations = work.violations(surroundings.brand, name, &object, &definition);
    let surroundings = Surroundings { violations: violations.as_ref(), ..surroundings };
    let after = next(&definition, work.pool(&definition), surroundings);
    let group = definition.at("spec").text("group").to_owned();
    work.set_accepted(name, &group, after.at("status").at("acceptedNames").clone());
    patch(&definition, &after).map(|patch| (Some(object), Plan::Write(patch)))
}

async fn carry_out<S: Store>(
    client: &Client<S>,
    resource: Arc<Resource>,
    name: Arc<str>,
    object: Option<SharedObject>,
    plan: Plan,
) -> Result<Progress, ApiError> {
    match (plan, object) {
        (Plan::Write(mut patch), Some(object)) => {
            let (uid, revision) = (&object.index.uid, object.revision.to_string());
            patch["metadata"] = json!({"uid": uid, "resourceVersion": revision});
            let place = Place { resource: &resource, path: &name };
            client.patch(place, Action::Status, &patch).await?;
            Ok(Progress::Settled)
        }
        (Plan::End { had_time }, _) => termination::go_on(client, &resource, &name, had_time).await,
        (Plan::CleanUp | Plan::Write(_), _) => {
            let key = Key::new(&DEFINITIONS.into(), "", &name);
            let key = key.map_err(|error| ApiError::Internal(error.to_string()))?;
            client.remove_leftovers(&key).await?;
            Ok(Progress::Settled)
        }
    }
}
