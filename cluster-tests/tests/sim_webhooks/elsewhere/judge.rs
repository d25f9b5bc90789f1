//! The promises of conversions and of aggregation, recomputed from the ledger of all changes and from what servers and clients saw.
//!
//! - nothing that a converter made up is stored or shown; objects keep their names and uids;
//! - what is stored is what a client wrote, in one of the two forms;
//! - an object that is shown is the conversion of what is stored at its revision, and a list that of all that is stored at its own;
//! - a request is carried out by an aggregated server once at most, for its user, and without what clients forge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orch_cluster_tests::sim::ledger::Ledger;
use orch_cluster_tests::sim::search::Counted;
use orch_raft::Revision;
use serde_json::Value;

use super::backends::{Done, FORGED, Sent};
use super::converter::{LIE, STORED, converted};
use super::writers::{Shown, Sightings, revision_of};

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Versions of objects.
    pub(crate) stored: usize,
    /// Objects that were shown, and lists.
    pub(crate) shown: usize,
    pub(crate) lists: usize,
    /// Questions that reached the converter.
    pub(crate) questions: usize,
    /// Requests that aggregated servers carried out.
    pub(crate) relayed: usize,
}

impl Counted for Counts {
    fn add(&mut self, other: &Counts) {
        self.stored += other.stored;
        self.shown += other.shown;
        self.lists += other.lists;
        self.questions += other.questions;
        self.relayed += other.relayed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { stored, shown, lists, questions, relayed } = self;
        write!(
            f,
            "{stored} versions stored, {shown} objects shown, {lists} lists, {questions} questions to a \
             converter, {relayed} requests carried out by aggregated servers"
        )
    }
}

/// Judges the custom kind; `None`: a change may be unknown.
///
/// # Errors
/// The first broken promise.
pub(crate) fn judge_conversions(ledger: &Ledger, seen: &Sightings) -> Result<Option<Counts>, String> {
    let Some((_, changes)) = ledger.kept_after(Revision(0)) else { return Ok(None) };
    let mut counts = Counts::default();
    // The objects by name, as of each revision that changed one.
    let mut now: BTreeMap<String, Value> = BTreeMap::new();
    let mut states = BTreeMap::from([(0, now.clone())]);
    for change in changes.iter().filter(|change| *change.resource == *STORED) {
        let (revision, path) = (change.revision, &*change.path);
        let name = path.rsplit('/').next().unwrap_or_default();
        match &change.new {
            None => drop(now.remove(name)),
            Some(object) => {
                counts.stored += 1;
                let object: Value = serde_json::from_slice(&object.json).unwrap_or_default();
                let broken = judge_stored(name, &object, now.get(name), seen);
                broken.map_err(|broken| format!("{path}, stored at {revision}, {broken}"))?;
                now.insert(name.to_owned(), object);
            }
        }
        states.insert(revision.0, now.clone());
    }
    for shown in &seen.shown {
        let Shown { node, version, revision, items } = shown;
        let broken = match revision {
            Some(revision) => {
                counts.lists += 1;
                judge_list(&states, *revision, version, items)
            }
            None => judge_one(&states, version, &items[0]),
        };
        counts.shown += items.len();
        broken.map_err(|broken| format!("n{} shows in {version} at {revision:?} {broken}", node.0))?;
    }
    Ok(Some(counts))
}

fn judge_stored(name: &str, object: &Value, before: Option<&Value>, seen: &Sightings) -> Result<(), String> {
    let text = object.to_string();
    if text.contains(LIE) {
        return Err(format!("has a lie: {text}"));
    }
    if object["metadata"]["name"] != name {
        return Err(format!("has another name: {text}"));
    }
    for field in ["uid", "creationTimestamp"] {
        if before.is_some_and(|before| before["metadata"][field] != object["metadata"][field]) {
            return Err(format!("has another {field} than before: {text}"));
        }
    }
    let written = object["spec"]["token"].as_u64().and_then(|token| seen.written.get(&token));
    let is_written = written.is_some_and(|(own, size)| {
        *own == name && converted(&object["spec"], "v1")["size"].as_u64() == Some(*size)
    });
    if is_written { Ok(()) } else { Err(format!("is what no client wrote: {text}")) }
}

/// Judges a list of all objects at `revision`.
fn judge_list(
    states: &BTreeMap<u64, BTreeMap<String, Value>>,
    revision: u64,
    version: &str,
    items: &[Value],
) -> Result<(), String> {
    let Some((_, state)) = states.range(..=revision).next_back() else { return Ok(()) };
    let names: Vec<&str> = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    if !names.iter().eq(state.keys()) {
        return Err(format!("a list of {names:?} where there are {:?}", state.keys()));
    }
    items.iter().zip(state.values()).try_for_each(|(item, stored)| judge_form(version, item, stored))
}

/// Judges an object that was shown alone.
fn judge_one(
    states: &BTreeMap<u64, BTreeMap<String, Value>>,
    version: &str,
    item: &Value,
) -> Result<(), String> {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    let state = revision_of(item).and_then(|revision| states.get(&revision));
    match state.and_then(|state| state.get(name)) {
        Some(stored) => judge_form(version, item, stored),
        None => Err(format!("an object that is not stored: {item}")),
    }
}

fn judge_form(version: &str, item: &Value, stored: &Value) -> Result<(), String> {
    if item.to_string().contains(LIE) {
        return Err(format!("a lie: {item}"));
    }
    // Managed fields name the versions that managers wrote in.
    let metadata = |object: &Value| {
        let mut metadata = object["metadata"].clone();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("managedFields");
        }
        metadata
    };
    if item["spec"] != converted(&stored["spec"], version) || metadata(item) != metadata(stored) {
        return Err(format!("{item}, which is not the conversion of what is stored, {stored}"));
    }
    Ok(())
}

/// Judges what aggregated servers have carried out of the requests `sent`.
///
/// # Errors
/// The first broken promise.
pub(crate) fn judge_relayed(done: &[Done], sent: &Sent) -> Result<(), String> {
    let mut tokens = BTreeSet::new();
    for Done { token, users, forbidden } in done {
        if !tokens.insert(token) {
            return Err(format!("the request {token} is carried out twice"));
        }
        let user = sent.get(token);
        if user.is_none_or(|user| !users.iter().eq([user])) {
            return Err(format!(
                "the request {token} of {user:?} is carried out for another user: {users:?}"
            ));
        }
        // few: the headers of one request.
        if !forbidden.is_empty() || users.iter().any(|user| user == FORGED) {
            return Err(format!("the request {token} brings along {forbidden:?}"));
        }
    }
    Ok(())
}
