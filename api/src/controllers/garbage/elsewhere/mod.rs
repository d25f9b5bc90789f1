//! Dependents that aggregated servers keep.
//!
//! Owns looking for them, by lists of metadata: once a minute, and once a second while an owner waits for what is found. Those whose
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

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use self::ends::Ends;
use self::holds::{DELAY_MAX, Looked};
pub(super) use self::holds::{Holds, Purpose};
use self::look::{AWAY, Look, Place, Target};
use self::verdict::Rules;
use super::sightings::Sightings;
use super::storages;
use crate::aggregation::described::Description;
use crate::aggregation::{API_SERVICES, Remote};
use crate::controllers::client::{Client, Moment, for_each};
use crate::controllers::turns::changed_within;
use crate::error::ApiError;
use crate::follow::{Applied, Follower};

/// Time between two looks. The reference hears of dependents by watches.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Time between two looks while an owner waits, and between two questions whether there are servers, or owners that wait.
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
    /// Takes in the aggregated servers as of `applied`, and what they say of their resources.
    async fn refresh<S: Store>(&mut self, client: &Client<S>, applied: &Applied) {
        let registry = client.registry();
        let mut remotes = client.aggregation().all(applied).await;
        // once: each is looked up by hash.
        remotes.retain(|remote| !registry.is_built_in(&remote.group, &remote.version));
        let known = std::mem::take(&mut self.resources);
        (self.targets, self.by_version) = (Vec::new(), HashMap::with_capacity(remotes.len()));
        for remote in remotes {
            self.by_version.insert(format!("{}/{}", remote.group, remote.version), remote.clone());
            let told = client.aggregation().descriptions().find(&remote.name);
            let resources = match &told {
                Some(Description::Current(resources)) => {
                    let collected = resources.iter().filter(|resource| is_collected(resource));
                    collected.map(|resource| resource.text("resource").to_owned()).collect()
                }
                // One that was never heard of holds up no owner.
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
    }
}

/// Takes in which servers there are, before the first owner is decided on.
pub(super) async fn begin<S: Store>(client: &Client<S>, holds: &Holds) {
    let mut servers = Servers::default();
    servers.refresh(client, &client.applied()).await;
    holds.refresh(!servers.targets.is_empty(), client.store().elapsed());
}

/// What a leader remembers from look to look.
#[derive(Default)]
struct Memory {
    /// Where the last look at a server stopped, by the name of its APIService.
    stopped: HashMap<Arc<str>, Place>,
    /// Since when a server has not shown all of its objects, by the same.
    partial: HashMap<Arc<str>, Duration>,
}

/// Collects dependents at aggregated servers. Completes only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    holds: &Holds,
    sightings: &Mutex<Sightings>,
) -> Result<Infallible, ApiError> {
    let (store, mut servers, mut memory) = (client.store(), Servers::default(), Memory::default());
    let mut registered = [store.subscribe(&API_SERVICES.into())];
    let mut ends: Option<Mutex<Follower<Ends>>> = None;
    let (mut due, mut rested) = (Duration::ZERO, Duration::ZERO);
    loop {
        let applied = client.applied();
        servers.refresh(client, &applied).await;
        holds.refresh(!servers.targets.is_empty(), store.elapsed());
        if servers.targets.is_empty() {
            // Ends are read from the history again when there is a server.
            (ends, memory) = (None, Memory::default());
            let wait = (!servers.by_version.is_empty()).then_some(SOON);
            changed_within(store, &mut registered, wait).await;
            continue;
        }
        let storages = storages(&client.registry());
        let ends =
            ends.get_or_insert_with(|| Mutex::new(Follower::new(Ends::new(storages.clone()), &applied)));
        ends.get_mut().advance(&applied).follow(&storages);
        let began = store.elapsed();
        if began >= due || began >= rested && holds.is_any_awaited() {
            look_at_all(client, holds, (&servers, &*ends, sightings), &mut memory).await?;
            let now = store.elapsed();
            (due, rested) = (now + EVERY, now + now.saturating_sub(began) * REST);
        }
        store.sleep(SOON).await;
    }
}

async fn look_at_all<S: Store>(
    client: &Client<S>,
    holds: &Holds,
    (servers, ends, sightings): (&Servers, &Mutex<Follower<Ends>>, &Mutex<Sightings>),
    memory: &mut Memory,
) -> Result<(), ApiError> {
    let (awaited, registry, decoding) = (holds.awaited(), client.registry(), Semaphore::new(1));
    let rules = Rules { registry: &registry, servers: &servers.by_version };
    let Memory { stopped, partial } = memory;
    let look = Look { client, rules, ends, sightings, decoding: &decoding };
    let begin = |(remote, _): &Target| stopped.get(&remote.name).cloned();
    let targets: Vec<(Target, Option<Place>)> =
        servers.targets.iter().map(|target| (target.clone(), begin(target))).collect();
    let look = &look;
    let look_at = |(target, begin): (Target, Option<Place>)| async move {
        let name = target.0.name.clone();
        (name, look.at(target, begin).await)
    };
    let looks = for_each(targets, SERVERS_AT_ONCE, look_at).await;
    let (mut all, now) = (Looked::default(), client.store().elapsed());
    let (before, was_partial) = (std::mem::take(stopped), std::mem::take(partial));
    for (name, outcome) in looks {
        let outcome = outcome?;
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
        partial.insert(name.clone(), since);
        // One that was not asked goes on where it stopped before.
        if let Some(place) = outcome.stopped.or_else(|| before.get(&name).cloned().filter(|_| reason == AWAY))
        {
            stopped.insert(name, place);
        }
    }
    holds.end(&awaited, &all, now);
    Ok(())
}

/// Whether objects of a resource, an item of aggregated discovery, can be listed, changed and deleted.
fn is_collected(resource: &Value) -> bool {
    let verbs = resource.texts("verbs");
    // few: the verbs of one resource, of a document of bounded size.
    ["list", "patch", "delete"].iter().all(|verb| verbs.contains(verb))
}
