//! Dependents that aggregated servers keep.
//!
//! Owns looking for them, by lists of metadata: once a minute, and sooner while an owner waits for what is found. Those whose
//! last owner has ended are deleted, references to others are taken away, and an owner that is deleted with `Orphan` or in the
//! foreground stays until its dependents at these servers have lost their references, or are gone ([`holds`]). Resources count that
//! discovery tells can be listed, changed and deleted. The collector of what this server keeps runs beside all that, and waits for none of it.
//!
//!     pages -> questions to owners' servers -> (barrier) -> verdict -> write
//!
//! Invariant: a server that hangs, lies or is away costs its own dependents alone, and owners a bounded delay.
//!
//! Decision 0055.

mod dependent;
mod ends;
mod holds;
mod look;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use self::ends::Ends;
use self::holds::{DELAY_MAX, Looked};
pub(super) use self::holds::{Held, Holds, Purpose};
use self::look::{AWAY, Look, Outcome, Place, Target};
use self::verdict::Rules;
use super::questions::Asking;
use super::sightings::Sightings;
use super::storages;
use super::undecided::{Keeper, Undecided};
use crate::aggregation::described::Description;
use crate::aggregation::{API_SERVICES, Remote};
use crate::controllers::client::{Client, Moment, for_each};
use crate::controllers::turns::Turns;
use crate::error::ApiError;
use crate::follow::{Applied, Follower};

/// Time between two looks. The reference hears of dependents by watches.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Shortest time between two looks, and between two turns of the loop, whatever wakes it.
const SOON: Duration = Duration::from_secs(1);

/// A look is followed by a rest of this many times its own length, also while an owner waits.
const REST: u32 = 4;

/// Limits warnings of servers that were not looked at as a whole.
static PARTIAL: WarningLimit<Moment> = WarningLimit::new();

/// Servers that are looked at at the same time.
const SERVERS_AT_ONCE: usize = 16;

/// The servers that may keep dependents, as far as is known.
#[derive(Debug, Default)]
struct Servers {
    /// Plural names of the resources that are looked at, as each server told them last. Clients choose the names: keyed hashes.
    resources: HashMap<Arc<str>, Vec<String>>,
    targets: Vec<Target>,
    /// By group and version, as `apiVersion` has them.
    by_version: HashMap<String, Arc<Remote>>,
}

impl Servers {
    /// Takes in the aggregated servers as of `applied`, and what they say of their resources. Whether one can be asked that could not before.
    async fn refresh<S: Store>(&mut self, client: &Client<S>, applied: &Applied) -> bool {
        let registry = client.registry();
        let mut remotes = client.aggregation().all(applied).await;
        // once: each is looked up by hash.
        remotes.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
        let known = std::mem::take(&mut self.resources);
        let before = self.askable();
        (self.targets, self.by_version) = (Vec::new(), HashMap::with_capacity(remotes.len()));
        for remote in remotes {
            self.by_version.insert(format!("{}/{}", remote.group, remote.version), remote.clone());
            let told = client.aggregation().descriptions().find(&remote.name);
            let resources = match &told {
                Some(Description::Current(resources)) => {
                    let collected = resources.iter().filter(|resource| is_collected(resource));
                    collected.map(|resource| resource.text("resource").to_owned()).collect()
                }
                // A server that was never heard of holds up no owner.
                Some(Description::Stale) => known.get(&remote.name).cloned().unwrap_or_default(),
                // It is being asked for the first time.
                None => {
                    self.targets.push((remote, None));
                    continue;
                }
            };
            if resources.is_empty() {
                continue;
            }
            self.resources.insert(remote.name.clone(), resources.clone());
            let is_current = told.is_some_and(|told| told != Description::Stale);
            self.targets.push((remote, is_current.then_some(resources)));
        }
        !self.askable().is_subset(&before)
    }

    /// Names of the servers that can be asked for their objects.
    fn askable(&self) -> HashSet<Arc<str>> {
        let askable = self.targets.iter().filter(|(remote, told)| remote.is_available && told.is_some());
        askable.map(|(remote, _)| remote.name.clone()).collect()
    }
}

/// Takes in which servers there are, before the first owner is decided on.
pub(super) async fn begin<S: Store>(client: &Client<S>, holds: &Holds) {
    let mut servers = Servers::default();
    servers.refresh(client, &client.applied()).await;
    holds.refresh(!servers.targets.is_empty(), client.store().elapsed());
}

/// The memory of a leader from look to look.
struct Memory {
    /// Where the last look at a server stopped, by the name of its APIService.
    stopped: HashMap<Arc<str>, Place>,
    /// Since when a server has not shown all of its objects, by the same.
    partial: HashMap<Arc<str>, Duration>,
    /// Numbers of dependents at a server that stay for an owner that is absent, each with one of them, by the same.
    undecided: BTreeMap<Arc<str>, (usize, String)>,
    /// Their sum.
    undecided_all: Undecided,
}

impl Memory {
    fn new() -> Memory {
        let (stopped, partial, undecided) = Default::default();
        Memory { stopped, partial, undecided, undecided_all: Undecided::new(Keeper::Aggregated) }
    }

    /// Forgets servers that are not looked at any more, and sums up the rest.
    fn note_undecided(&mut self, targets: &[Target], now: Moment) {
        let names: HashSet<&Arc<str>> = targets.iter().map(|(remote, _)| &remote.name).collect();
        // once: for each look.
        self.undecided.retain(|name, _| names.contains(name));
        let count = self.undecided.values().map(|(count, _)| *count).sum();
        let example = || {
            let first = self.undecided.first_key_value();
            first.map(|(name, (_, one))| format!("{name} {one}")).unwrap_or_default()
        };
        self.undecided_all.set(count, now, example);
    }

    /// Takes in the number at the server `name`. A look that did not see all of its objects takes nothing back.
    fn note_undecided_at(&mut self, name: &Arc<str>, outcome: &mut Outcome) {
        let known = self.undecided.get(name).map_or(0, |(count, _)| *count);
        if outcome.partial.is_some() && outcome.undecided <= known {
            return;
        }
        match outcome.undecided_one.take() {
            Some(one) => drop(self.undecided.insert(name.clone(), (outcome.undecided, one))),
            None => drop(self.undecided.remove(name)),
        }
    }
}

/// When the next look is due.
#[derive(Default)]
struct Rhythm {
    /// The next one that waits for no owner.
    due: Duration,
    /// The next one at all.
    rested: Duration,
    /// The begin of the last one.
    began: Duration,
}

impl Rhythm {
    fn next(&self, holds: &Holds) -> Duration {
        let awaited = holds.due(self.began);
        awaited.map_or(self.due, |at| at.max(self.rested).min(self.due))
    }

    /// Has owners that wait looked for as soon as may be.
    fn hurry(&mut self, holds: &Holds) {
        if holds.is_any_awaited() {
            self.due = self.due.min(self.rested);
        }
    }

    fn end(&mut self, began: Duration, now: Duration) {
        let took = now.saturating_sub(began);
        (self.began, self.due, self.rested) = (began, now + EVERY, now + (took * REST).max(SOON));
    }
}

/// Collects dependents at aggregated servers. Completes only with an error.
///
/// A turn follows a change of the servers or of what they say, an owner that begins to wait, the time of the next look, and any change of
/// an object: an end is to be seen before the history loses it.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    holds: &Holds,
    sightings: &Mutex<Sightings>,
) -> Result<Infallible, ApiError> {
    let (store, mut servers, mut memory) = (client.store(), Servers::default(), Memory::new());
    let mut told = client.aggregation().descriptions().follow();
    let mut turns: Turns<'_, S, ()> = Turns::new(store, [API_SERVICES.into()]).following(client.follow());
    let (mut ends, mut rhythm): (Option<Mutex<Follower<Ends>>>, _) = (None, Rhythm::default());
    loop {
        turns.newly_served();
        told.mark_unchanged();
        let applied = client.applied();
        let is_news = servers.refresh(client, &applied).await;
        holds.refresh(!servers.targets.is_empty(), store.elapsed());
        let mut next = None;
        if servers.targets.is_empty() {
            // Ends are read from the history again when there is a server.
            (ends, memory) = (None, Memory::new());
            turns.hear(vec![API_SERVICES.into()]);
        } else {
            let storages = storages(&turns.served());
            turns.hear(storages.clone());
            let ends =
                ends.get_or_insert_with(|| Mutex::new(Follower::new(Ends::new(storages.clone()), &applied)));
            ends.get_mut().advance(&applied).follow(&storages);
            if is_news {
                rhythm.hurry(holds);
            }
            let began = store.elapsed();
            if began >= rhythm.next(holds) {
                look_at_all(client, holds, (&servers, &*ends, sightings), &mut memory).await?;
                rhythm.end(began, store.elapsed());
            }
            next = Some(rhythm.next(holds));
        }
        store.sleep(SOON).await;
        let wait = next.map(|at| at.saturating_sub(store.elapsed()));
        select(pin!(turns.next(wait)), pin!(heard(&mut told, holds))).await;
    }
}

/// Waits until servers tell of other resources, or an owner begins to wait.
async fn heard(told: &mut watch::Receiver<u64>, holds: &Holds) {
    select(pin!(told.changed()), pin!(holds.asked())).await;
}

async fn look_at_all<S: Store>(
    client: &Client<S>,
    holds: &Holds,
    (servers, ends, sightings): (&Servers, &Mutex<Follower<Ends>>, &Mutex<Sightings>),
    memory: &mut Memory,
) -> Result<(), ApiError> {
    let (awaited, registry, decoding) = (holds.awaited(), client.registry(), Semaphore::new(1));
    let (rules, asking) = (Rules { registry: &registry, servers: &servers.by_version }, Asking::new());
    let look = Look { client, rules, ends, sightings, asking: &asking, decoding: &decoding };
    let begin = |(remote, _): &Target| memory.stopped.get(&remote.name).cloned();
    let targets: Vec<(Target, Option<Place>)> =
        servers.targets.iter().map(|target| (target.clone(), begin(target))).collect();
    let look = &look;
    let look_at = |(target, begin): (Target, Option<Place>)| async move {
        let name = target.0.name.clone();
        (name, look.at(target, begin).await)
    };
    let looks = for_each(targets, SERVERS_AT_ONCE, look_at).await;
    let (mut all, now) = (Looked::default(), client.store().elapsed());
    let (before, was_partial) = (std::mem::take(&mut memory.stopped), std::mem::take(&mut memory.partial));
    for (name, outcome) in looks {
        let mut outcome = outcome?;
        memory.note_undecided_at(&name, &mut outcome);
        all.named.extend(outcome.named.into_iter().map(|uid| (uid, name.to_string())));
        let Some(reason) = outcome.partial else { continue };
        if !was_partial.contains_key(&name)
            && let Some(left_out) = PARTIAL.pass_at(client.moment())
        {
            tracing::warn!(
                server = &*name,
                reason,
                left_out,
                "not all objects of an aggregated server were looked at"
            );
        }
        let since = was_partial.get(&name).copied().unwrap_or(now);
        // One that stays so holds up nobody for ever.
        if now.saturating_sub(since) < DELAY_MAX {
            all.away.insert(name.to_string());
        }
        memory.partial.insert(name.clone(), since);
        // One that was not asked goes on where it stopped before.
        if let Some(place) = outcome.stopped.or_else(|| before.get(&name).cloned().filter(|_| reason == AWAY))
        {
            memory.stopped.insert(name, place);
        }
    }
    memory.note_undecided(&servers.targets, client.moment());
    holds.end(&awaited, &all, now);
    Ok(())
}

/// Whether objects of a resource, an item of aggregated discovery, can be listed, changed and deleted.
fn is_collected(resource: &Value) -> bool {
    let verbs = resource.texts("verbs");
    // few: the verbs of one resource, of a document of bounded size.
    ["list", "patch", "delete"].iter().all(|verb| verbs.contains(verb))
}
