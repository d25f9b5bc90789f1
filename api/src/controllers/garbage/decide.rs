//! Decides on one object: a function of a state and the graph of that state.
//!
//! Owns the rules of collection. A dependent is deleted when none of its owners exists; while another owner exists it
//! only loses the references to absent ones. An owner exists if the object with the reference's kind, scope and name
//! has its uid: another kind, another namespace or a successor of the same name is another object. If an owner cannot
//! be looked up (its kind is not served, or it is namespaced and the dependent is not) the dependent is left alone; where the kind
//! is not served, until other kinds are. An owner whose end was seen is gone, also after its kind. Owners at aggregated servers are
//! asked for ([`super::remote_owners`]), and nothing is done before their answers are there. An owner that is deleted with `Orphan` or in
//! the foreground stays until its dependents at such servers were looked for, too ([`super::elsewhere`]).
//!
//! The state must be no older than a read barrier: an object absent in it is gone for good, for no uid comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Revision, State};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::elsewhere::{Held, Holds, Purpose};
use super::graph::{Graph, ObjectRef};
use super::misplaced::CrossNamespaceOwner;
use super::ownership::{FOREGROUND, ORPHAN, Ownership};
use super::remote_owners::{Answer, Asked, QUESTIONS_MAX, Question, RemoteOwners};
use crate::controllers::client::Propagation;
use crate::registry::{Registry, Resource};

/// Actions on the dependents of one owner at a time; the rest follows when these are done.
pub(super) const DEPENDENTS_MAX: usize = 256;

/// The decision on an object.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Writes to carry out concurrently, in any order.
    pub actions: Vec<Action>,
    /// Objects to decide on next.
    pub look: Vec<ObjectRef>,
    /// A reference to an owner in another namespace, to be reported.
    pub misplaced: Option<CrossNamespaceOwner>,
    /// The kind of an owner is not served: the object is looked at again when other kinds are.
    pub unserved: bool,
    /// Owners at aggregated servers that have to be asked for first; nothing else is decided then.
    pub questions: Vec<Asked>,
    /// An aggregated server keeps an owner: no change shows when that goes.
    pub is_owned_elsewhere: bool,
    /// An aggregated server keeps an owner that is absent, and nobody has seen its end.
    pub is_undecided: bool,
}

/// A write, conditional on the object's revision.
#[derive(Debug)]
pub(super) struct Action {
    /// The object to write to.
    pub object: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// Its revision when this was decided.
    pub revision: Revision,
    /// The write.
    pub write: Write,
}

/// Kind of a write.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    /// Delete the object if it still has these owners and finalizers; other changes do not matter.
    Delete(Propagation, Ownership),
    /// Replace these fields of the object's metadata.
    Metadata(Value),
}

/// State of the object that an owner reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The owner exists and is not waiting for its dependents.
    Live,
    /// The owner does not exist.
    Absent,
    /// The owner is being deleted in the foreground: it waits for its dependents.
    WaitingForDependents,
    /// The owner cannot be looked up from where the dependent is.
    Unresolvable,
    /// The owner's kind is not served.
    Unserved,
    /// An aggregated server keeps the owner, and was not asked for it yet.
    Unasked,
    /// An aggregated server keeps the owner, and does not say whether it exists.
    Unknown,
    /// An aggregated server does not have the owner, and nobody has seen it there: it may be yet to come.
    Unseen,
}

/// Input of decisions.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The objects.
    pub state: &'a State,
    /// The owner edges between the objects, of the same state.
    pub graph: &'a Graph,
    /// The served kinds.
    pub registry: &'a Registry,
    /// Answers of aggregated servers about owners.
    pub owners: &'a RemoteOwners,
    /// Owners that dependents at aggregated servers keep.
    pub holds: &'a Holds,
    /// The time, of `Store::elapsed`.
    pub now: Duration,
    /// The time in milliseconds since 1970.
    pub now_ms: u64,
}

impl View<'_> {
    /// The decision on `object`.
    ///
    /// # Errors
    /// A stored object cannot be read.
    pub(super) fn decide(&self, object: &ObjectRef) -> Result<Decision, serde_json::Error> {
        let Some(stored) = object.find(self.state) else { return Ok(Decision::default()) };
        if !stored.index.terminating && stored.index.owners.is_empty() {
            return Ok(Decision::default());
        }
        let ownership = Ownership::of(&stored)?;
        match stored.index.terminating {
            false => self.dependent(object, &stored, &ownership),
            true if ownership.is_held_by(ORPHAN) => self.orphan(object, &stored, &ownership),
            true if ownership.is_held_by(FOREGROUND) => self.foreground(object, &stored, &ownership),
            true => Ok(Decision::default()),
        }
    }

    /// Decides on an object with owners that is not being deleted.
    fn dependent(
        &self,
        object: &ObjectRef,
        stored: &SharedObject,
        ownership: &Ownership,
    ) -> Result<Decision, serde_json::Error> {
        let mut owners = Vec::with_capacity(ownership.references().len());
        // Thousands of references may name one owner, which is decoded for its finalizers: once.
        let mut known: BTreeMap<[&str; 4], Owner> = BTreeMap::new();
        for reference in ownership.references() {
            let asked = ["apiVersion", "kind", "name", "uid"].map(|member| reference.text(member));
            let owner = match known.get(&asked) {
                Some(&owner) => owner,
                None => {
                    let owner = self.owner(object, stored, reference)?;
                    known.insert(asked, owner);
                    owner
                }
            };
            owners.push((owner, reference.text("uid")));
        }
        if owners.is_empty() {
            return Ok(Decision::default());
        }
        let references = ownership.references();
        // once: each is looked up by hash.
        let is_owned_elsewhere = references.iter().any(|of| self.owners.server(of).is_some());
        let questions = self.questions(object, ownership, &owners);
        if !questions.is_empty() {
            return Ok(Decision { questions, is_owned_elsewhere, ..Decision::default() });
        }
        let lost = ownership.references().iter().zip(&owners);
        let lost = lost
            .filter(|(_, (owner, _))| matches!(owner, Owner::Absent | Owner::Unresolvable | Owner::Unserved));
        let misplaced = self.misplaced(object, &stored.index.uid, lost.map(|(reference, _)| reference));
        let decision = self.by_owners(object, stored, ownership, &owners)?;
        // once: as above.
        let is_unseen = owners.iter().any(|(owner, _)| *owner == Owner::Unseen);
        let is_undecided = is_unseen && decision.actions.is_empty();
        Ok(Decision { misplaced, is_owned_elsewhere, is_undecided, ..decision })
    }

    /// The owners that have to be asked for, each once.
    fn questions(&self, object: &ObjectRef, ownership: &Ownership, owners: &[(Owner, &str)]) -> Vec<Asked> {
        let unasked = ownership.references().iter().zip(owners);
        let unasked = unasked.filter(|(_, (owner, _))| *owner == Owner::Unasked).take(QUESTIONS_MAX);
        let question = |(reference, _): (&Value, &(Owner, &str))| {
            let server = self.owners.server(reference)?;
            Some((server.clone(), Question::of(server, reference, object.namespace())))
        };
        unasked.filter_map(question).collect()
    }

    fn by_owners(
        &self,
        object: &ObjectRef,
        stored: &SharedObject,
        ownership: &Ownership,
        owners: &[(Owner, &str)],
    ) -> Result<Decision, serde_json::Error> {
        // once: a few questions.
        let any = |kind: Owner| owners.iter().any(|(owner, _)| *owner == kind);
        let is_unclear = [Owner::Unresolvable, Owner::Unserved, Owner::Unknown, Owner::Unseen];
        if is_unclear.into_iter().any(any) {
            return Ok(Decision { unserved: any(Owner::Unserved), ..Decision::default() });
        }
        if any(Owner::Live) {
            let gone = owners.iter().filter(|(owner, _)| *owner != Owner::Live).map(|(_, uid)| *uid);
            let gone: BTreeSet<&str> = gone.collect();
            if gone.is_empty() {
                return Ok(Decision::default());
            }
            let left = ownership.references_without(&gone);
            return Ok(metadata(object, stored, json!({"ownerReferences": left})));
        }
        let delete = |propagation| Ok(act(object, stored, Write::Delete(propagation, ownership.clone())));
        if any(Owner::WaitingForDependents) && self.graph.dependents(&stored.index.uid).next().is_some() {
            // Two objects that wait for each other would wait for ever.
            if ownership.blocks_any() && self.has_waiting_dependent(stored)? {
                let unblocked = ownership.references_unblocked();
                return Ok(metadata(object, stored, json!({"ownerReferences": unblocked})));
            }
            return delete(Propagation::Foreground);
        }
        delete(match ownership {
            held if held.is_held_by(ORPHAN) => Propagation::Orphan,
            held if held.is_held_by(FOREGROUND) => Propagation::Foreground,
            _ => Propagation::Background,
        })
    }

    /// Decides on an owner deleted with orphaning: its dependents lose their references to it, then it is removed.
    fn orphan(
        &self,
        object: &ObjectRef,
        stored: &SharedObject,
        ownership: &Ownership,
    ) -> Result<Decision, serde_json::Error> {
        let uid = stored.index.uid.as_str();
        // Asked for at once: other servers are looked at meanwhile.
        let is_held_elsewhere = self.is_held_elsewhere(object, stored, ownership, Purpose::Orphan);
        let mut decision = Decision::default();
        for dependent in self.graph.dependents(uid).filter(|dependent| *dependent != object) {
            let Some(found) = dependent.find(self.state) else { continue };
            let left = Ownership::of(&found)?.references_without(&BTreeSet::from([uid]));
            decision.actions.push(Action::on(dependent, &found, references(left)));
            if decision.actions.len() == DEPENDENTS_MAX {
                break;
            }
        }
        if decision.actions.is_empty() {
            return Ok(match is_held_elsewhere {
                true => decision,
                false => {
                    let finalizers = ownership.finalizers_without(ORPHAN);
                    metadata(object, stored, json!({"finalizers": finalizers}))
                }
            });
        }
        Ok(decision)
    }

    /// Decides on an owner deleted in the foreground: dependents that block it must be gone before it is removed.
    fn foreground(
        &self,
        object: &ObjectRef,
        stored: &SharedObject,
        ownership: &Ownership,
    ) -> Result<Decision, serde_json::Error> {
        let uid = stored.index.uid.as_str();
        let is_held_elsewhere = self.is_held_elsewhere(object, stored, ownership, Purpose::Foreground);
        let mut blocked = false;
        let mut look = Vec::new();
        for dependent in self.graph.dependents(uid).filter(|dependent| *dependent != object) {
            let Some(found) = dependent.find(self.state) else { continue };
            if !found.index.terminating {
                look.push(dependent.clone());
            }
            blocked = blocked || Ownership::of(&found)?.blocks(uid);
            if blocked && look.len() >= DEPENDENTS_MAX {
                break;
            }
        }
        if blocked || is_held_elsewhere {
            return Ok(Decision { look, ..Decision::default() });
        }
        let finalizers = ownership.finalizers_without(FOREGROUND);
        let decision = metadata(object, stored, json!({"finalizers": finalizers}));
        Ok(Decision { look, ..decision })
    }

    /// Whether the owner `object`, which is being deleted, waits for dependents at aggregated servers; the holds tell when it does no longer.
    fn is_held_elsewhere(
        &self,
        object: &ObjectRef,
        stored: &SharedObject,
        ownership: &Ownership,
        purpose: Purpose,
    ) -> bool {
        let age = ownership.deleting_for(self.now_ms);
        self.holds.keep(Held { object, uid: &stored.index.uid, purpose, age, now: self.now })
    }

    fn owner(
        &self,
        dependent: &ObjectRef,
        stored: &SharedObject,
        reference: &Value,
    ) -> Result<Owner, serde_json::Error> {
        if let Some(server) = self.owners.server(reference) {
            let question = Question::of(server, reference, dependent.namespace());
            let (answer, uid) = (self.owners.answer(&question, stored.revision), reference.text("uid"));
            return Ok(remote_owner(answer, uid, || self.owners.took_along(&question, uid)));
        }
        let Some(resource) = self.resource(reference) else {
            // The end of the owner was seen, and after it that of its kind.
            let is_gone = self.graph.is_gone(reference.text("uid"));
            return Ok(if is_gone { Owner::Absent } else { Owner::Unserved });
        };
        let name = reference.text("name");
        let path = match (resource.namespaced, dependent.namespace()) {
            (true, "") => return Ok(Owner::Unresolvable),
            (true, namespace) => format!("{namespace}/{name}"),
            (false, _) => name.to_owned(),
        };
        let owner = ObjectRef { storage: resource.storage.clone(), path: path.into() };
        let found = owner.find(self.state).filter(|found| found.index.uid == reference.text("uid"));
        Ok(match found {
            None => Owner::Absent,
            Some(found) if is_waiting(&found)? => Owner::WaitingForDependents,
            Some(_) => Owner::Live,
        })
    }

    /// The resource of the kind that a reference names; `None` where it is not served.
    pub(super) fn resource(&self, reference: &Value) -> Option<&Arc<Resource>> {
        self.registry.find_named(reference.text("apiVersion"), reference.text("kind"))
    }

    fn has_waiting_dependent(&self, stored: &SharedObject) -> Result<bool, serde_json::Error> {
        for dependent in self.graph.dependents(&stored.index.uid) {
            if let Some(found) = dependent.find(self.state)
                && is_waiting(&found)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Action {
    /// Whether the object stays until the collector has dealt with its dependents.
    pub(super) fn leads_on(&self) -> bool {
        matches!(self.write, Write::Delete(Propagation::Foreground | Propagation::Orphan, _))
    }

    fn on(object: &ObjectRef, stored: &SharedObject, write: Write) -> Self {
        Action { object: object.clone(), uid: stored.index.uid.clone(), revision: stored.revision, write }
    }
}

/// The owner with `uid`, of which an aggregated server says `answer`. `took_along`: whether it took its dependents along, where it is absent.
fn remote_owner(answer: Option<&Answer>, uid: &str, took_along: impl Fn() -> bool) -> Owner {
    let absent = || if took_along() { Owner::Absent } else { Owner::Unseen };
    match answer {
        None => Owner::Unasked,
        Some(Answer::Unknown) => Owner::Unknown,
        Some(Answer::Missing) => absent(),
        Some(Answer::Found { uid: found, .. }) if found != uid => absent(),
        Some(Answer::Found { is_orphaning: true, .. }) => Owner::Unknown,
        Some(Answer::Found { is_waiting: true, .. }) => Owner::WaitingForDependents,
        Some(Answer::Found { is_waiting: false, .. }) => Owner::Live,
    }
}

/// Whether the object is being deleted in the foreground and waits for its dependents.
fn is_waiting(object: &SharedObject) -> Result<bool, serde_json::Error> {
    Ok(object.index.terminating && Ownership::of(object)?.is_held_by(FOREGROUND))
}

fn act(object: &ObjectRef, stored: &SharedObject, write: Write) -> Decision {
    Decision { actions: vec![Action::on(object, stored, write)], ..Decision::default() }
}

fn metadata(object: &ObjectRef, stored: &SharedObject, fields: Value) -> Decision {
    act(object, stored, Write::Metadata(fields))
}

fn references(left: Vec<Value>) -> Write {
    Write::Metadata(json!({"ownerReferences": left}))
}

#[cfg(test)]
mod tests;
