//! The promises, recomputed from the history of the store and from what was sent and told.
//!
//! Owns what must hold at each moment of a run. It shares no code with the product: sums are added up anew, texts are
//! read as a user would. What a run must have come to in the end stands in `settled`.

use std::collections::{BTreeMap, HashMap};

use super::Moment;
use super::api::{Changed, Entry, is_finished, name_of, node_of, uid_of};
use super::devices;
use super::extenders;
use super::lease::{self, Deed};
use super::network::{Life, World};
use super::users::ELSEWHERE;
use super::volumes;
use crate::api::core::v1::{Node, Pod};

/// How old the view of a leader may be that is cut off, stopped or far behind. What a node offered within this time
/// excuses a binding; more than it ever offered does not.
pub(super) const VIEW_AGE_MAX: Moment = 60_000;

/// What the lease's one assumption excused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Excused {
    /// Bindings that travelled for too long.
    pub(super) late: usize,
    /// Nodes that got too much by them.
    pub(super) overloads: usize,
}

/// An event that users can read.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) by: Life,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) uid: String,
}

/// What a pod takes, or a node offers: thousandths of CPU, and pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) cpu: u64,
    pub(super) pods: u64,
}

impl Room {
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let requests = containers.filter_map(|container| container.resources.as_ref());
        let cpu = requests.filter_map(|all| all.requests.get("cpu")).map(|one| number(&one.string)).sum();
        Self { cpu, pods: 1 }
    }

    pub(super) fn of_node(node: &Node) -> Self {
        let offered = |name: &str| {
            let status = node.status.as_ref();
            status.and_then(|status| status.allocatable.get(name)).map_or(0, |one| number(&one.string))
        };
        Self { cpu: offered("cpu"), pods: offered("pods") }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.pods += other.pods;
    }

    fn subtract(&mut self, other: Self) {
        self.cpu -= other.cpu;
        self.pods -= other.pods;
    }

    pub(super) fn fits(self, into: Self) -> bool {
        self.cpu <= into.cpu && self.pods <= into.pods
    }

    fn larger(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), pods: self.pods.max(other.pods) }
    }
}

/// Users of a run write thousandths of CPU, and whole pods.
fn number(text: &str) -> u64 {
    text.trim_end_matches('m').parse().expect("users write numbers")
}

/// Checks everything that must hold at each moment.
pub(super) fn check(world: &World) -> Result<Excused, String> {
    // First: a broken lease is the cause of much that is found below.
    lease::check(world)?;
    let bindings = world.arrived.iter().filter(|arrived| matches!(arrived.deed, Deed::Binding(_)));
    let late = bindings.filter(|arrived| arrived.is_late(world));
    let late: HashMap<String, Moment> = late.map(|arrived| (arrived.uid.clone(), arrived.at)).collect();
    let mut ledger = Ledger { late, ..Ledger::default() };
    for entry in &world.store.history {
        ledger.take(entry)?;
    }
    devices::check(world)?;
    volumes::check(world)?;
    extenders::check(world)?;
    told(world, &ledger)?;
    Ok(Excused { late: ledger.late.len(), overloads: ledger.overloads })
}

/// What the history adds up to.
#[derive(Default)]
struct Ledger {
    // The node of each pod that ever had one, by UID.
    bound: HashMap<String, String>,
    load: BTreeMap<String, Room>,
    // What each node offered from when on; `None` while it was away.
    offers: BTreeMap<String, Vec<(Moment, Option<Room>)>>,
    // Pods whose binding travelled for too long, by UID, and when it arrived.
    late: HashMap<String, Moment>,
    overloads: usize,
}

impl Ledger {
    fn take(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.changed {
            Changed::Node(step) => {
                let node = step.after.as_ref().or(step.before.as_ref()).expect("a change has a state");
                let name = name_of(node.metadata.as_ref()).to_owned();
                let offer = step.after.as_ref().map(|node| Room::of_node(node));
                self.offers.entry(name).or_default().push((entry.at, offer));
                Ok(())
            }
            Changed::Pod(step) => {
                if let Some(pod) = step.before.as_ref().filter(|pod| takes_room(pod)) {
                    let load = self.load.get_mut(node_of(pod)).expect("its room was counted");
                    load.subtract(Room::of_pod(pod));
                }
                let Some(after) = &step.after else { return Ok(()) };
                if takes_room(after) {
                    self.load.entry(node_of(after).to_owned()).or_default().add(Room::of_pod(after));
                }
                says_its_node(entry.at, after)?;
                let had_node = step.before.as_ref().is_some_and(|pod| !node_of(pod).is_empty());
                if !node_of(after).is_empty() && !had_node {
                    return self.bind(entry, after);
                }
                Ok(())
            }
            Changed::Lease(_) | Changed::Claim(_) | Changed::Volume(_) | Changed::VolumeClaim(_) => Ok(()),
        }
    }

    fn bind(&mut self, entry: &Entry, pod: &Pod) -> Result<(), String> {
        let (at, node) = (entry.at, node_of(pod));
        let name = name_of(pod.metadata.as_ref());
        if let Some(before) = self.bound.insert(uid_of(pod).to_owned(), node.to_owned()) {
            return Err(format!("at {at} pod {name} is bound to {node}, and was to {before}"));
        }
        let spec = pod.spec.clone().unwrap_or_default();
        if !spec.scheduling_gates.is_empty() {
            return Err(format!("at {at} pod {name} is bound, although it has gates"));
        }
        if node == ELSEWHERE {
            return Ok(());
        }
        let zone = if node.ends_with(['0', '2', '4']) { "even" } else { "odd" };
        if spec.node_selector.get("zone").is_some_and(|wanted| wanted != zone) {
            return Err(format!("at {at} pod {name} is bound to {node}, which it does not select"));
        }
        let load = self.load[node];
        match self.offered(node, at) {
            Some(offer) if load.fits(offer) => Ok(()),
            _ if self.has_late(node, at) => {
                self.overloads += 1;
                Ok(())
            }
            Some(offer) => Err(format!(
                "at {at} node {node} offers {offer:?} and has {load:?}, with pod {name} that was bound now"
            )),
            None => Err(format!("at {at} pod {name} is bound to {node}, which is gone for long")),
        }
    }

    /// A binding to `node` has come too late, within the age of a view before `at`.
    fn has_late(&self, node: &str, at: Moment) -> bool {
        let on_node =
            self.late.iter().filter(|(uid, _)| self.bound.get(*uid).is_some_and(|bound| bound == node));
        on_node.into_iter().any(|(_, since)| *since <= at && at - since < VIEW_AGE_MAX)
    }

    /// The most that `node` offered within the age of a view before `at`.
    fn offered(&self, node: &str, at: Moment) -> Option<Room> {
        let offers = self.offers.get(node)?;
        let since = at.saturating_sub(VIEW_AGE_MAX);
        // The offer that was in force when that time began, and all later ones.
        let first = offers.partition_point(|(from, _)| *from <= since).saturating_sub(1);
        offers[first..].iter().filter_map(|(_, offer)| *offer).reduce(Room::larger)
    }
}

/// A pod with a node says so, and names no other as where it is expected.
fn says_its_node(at: Moment, pod: &Pod) -> Result<(), String> {
    let (name, node) = (name_of(pod.metadata.as_ref()), node_of(pod));
    let status = pod.status.clone().unwrap_or_default();
    let nominated = &status.nominated_node_name;
    let told = status.conditions.iter().find(|condition| condition.r#type == "PodScheduled");
    match told.map(|told| told.status.as_str()) {
        _ if node.is_empty() => Ok(()),
        Some("True") if nominated.is_empty() => Ok(()),
        Some("True") => Err(format!("at {at} pod {name} is on {node}, and is said to come to {nominated}")),
        _ => Err(format!("at {at} pod {name} is on {node}, and says that it has none: {told:?}")),
    }
}

fn takes_room(pod: &Pod) -> bool {
    !node_of(pod).is_empty() && !is_finished(pod)
}

/// What users were told of bindings is what happened.
fn told(world: &World, ledger: &Ledger) -> Result<(), String> {
    for told in world.told.iter().filter(|told| told.reason == "Scheduled") {
        let node = told.note.rsplit(' ').next().unwrap_or_default();
        let bound = ledger.bound.get(&told.uid).map(String::as_str);
        if bound != Some(node) {
            return Err(format!(
                "{:?} told `{}` of {}, whose node is {bound:?}",
                told.by, told.note, told.uid
            ));
        }
    }
    Ok(())
}
