//! Decides on one dependent at an aggregated server: a function of a state, the ends that were seen, and the answers about owners that
//! other servers keep.
//!
//! Owns the rules, which are those of [`super::super::decide`] but for one: an owner that this cluster keeps is gone only if its end
//! was seen. An absent one may be yet to come with an import, or be of a time that the state was taken back behind.
//!
//! Invariant: a dependent is deleted only if all of its owners are gone or wait for it; one that cannot be looked up keeps it.
//! Invariant: the state and the answers are newer than the dependent: an owner absent in them is gone for good.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use orch_raft::State;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::super::graph::ObjectRef;
use super::super::remote_owners::{Answer, Question};
use super::dependent::Dependent;
use super::ends::Ends;
use super::holds::Purpose;
use crate::aggregation::Remote;
use crate::registry::Registry;

/// Owners of one dependent that are asked for at other servers. One that names more stays.
const OWNERS_MAX: usize = 16;

/// State of the object that an owner reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Live,
    Absent,
    /// It is being deleted with `Orphan`.
    Orphaning,
    /// It is being deleted in the foreground.
    Waiting,
    /// Nobody says whether it exists.
    Unknown,
}

/// The write to a dependent.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Nothing,
    Delete,
    /// These owner references are left.
    Owners(Vec<Value>),
}

/// Input of verdicts, but for the state.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) registry: &'a Registry,
    /// Aggregated servers by group and version, as `apiVersion` has them. Clients choose the names: keyed hashes.
    pub(super) servers: &'a HashMap<String, Arc<Remote>>,
    /// Owners that are held until no dependent names them.
    pub(super) awaited: &'a BTreeMap<String, Purpose>,
}

impl Rules<'_> {
    /// The questions for owners of `dependent` at other servers.
    pub(super) fn questions(&self, dependent: &Dependent) -> Vec<(Question, Arc<Remote>)> {
        if dependent.owners.len() > OWNERS_MAX {
            return Vec::new();
        }
        let asked = dependent.owners.iter().filter_map(|reference| {
            // once: looked up by hash.
            let server = self.servers.get(reference.text("apiVersion"))?;
            Some((Question::of(server, reference, &dependent.namespace), server.clone()))
        });
        asked.collect()
    }

    /// The verdict on `dependent` in `state`, and which awaited owners it is in the way of.
    pub(super) fn judge(
        &self,
        dependent: &Dependent,
        state: &State,
        ends: &Ends,
        answers: &BTreeMap<Question, Answer>,
    ) -> (Verdict, BTreeSet<String>) {
        let find = |reference| (self.owner(dependent, reference, (state, ends), answers), reference);
        let owners: Vec<(Owner, &Value)> = dependent.owners.iter().map(find).collect();
        let is_in_the_way = |owner: Owner, reference: &Value| match owner {
            Owner::Orphaning => true,
            Owner::Waiting => reference.flag("blockOwnerDeletion"),
            _ => false,
        };
        let in_the_way = owners.iter().filter(|(owner, reference)| is_in_the_way(*owner, reference));
        let in_the_way = in_the_way.map(|(_, reference)| reference.text("uid").to_owned()).collect();
        (verdict(&owners, dependent.is_terminating), in_the_way)
    }

    fn owner(
        &self,
        dependent: &Dependent,
        reference: &Value,
        (state, ends): (&State, &Ends),
        answers: &BTreeMap<Question, Answer>,
    ) -> Owner {
        let uid = reference.text("uid");
        match self.awaited.get(uid) {
            Some(Purpose::Orphan) => return Owner::Orphaning,
            Some(Purpose::Foreground) => return Owner::Waiting,
            None => {}
        }
        if let Some(server) = self.servers.get(reference.text("apiVersion")) {
            return match answers.get(&Question::of(server, reference, &dependent.namespace)) {
                Some(Answer::Missing) => Owner::Absent,
                Some(Answer::Found { uid: found, .. }) if found != uid => Owner::Absent,
                Some(Answer::Found { is_waiting: true, .. }) => Owner::Waiting,
                Some(Answer::Found { is_waiting: false, .. }) => Owner::Live,
                Some(Answer::Unknown) | None => Owner::Unknown,
            };
        }
        match self.is_stored(dependent, reference, state) {
            true => Owner::Live,
            false if ends.has_ended(uid) => Owner::Absent,
            false => Owner::Unknown,
        }
    }

    /// Whether this cluster keeps the owner.
    fn is_stored(&self, dependent: &Dependent, reference: &Value, state: &State) -> bool {
        let found = self.registry.find_named(reference.text("apiVersion"), reference.text("kind"));
        let Some(resource) = found else { return false };
        let name = reference.text("name");
        let path = match (resource.namespaced, &*dependent.namespace) {
            (true, namespace) => format!("{namespace}/{name}"),
            (false, _) => name.to_owned(),
        };
        let owner = ObjectRef { storage: resource.storage.clone(), path: path.into() };
        owner.find(state).is_some_and(|owner| owner.index.uid == reference.text("uid"))
    }
}

/// The verdict on a dependent with these owners.
fn verdict(owners: &[(Owner, &Value)], is_terminating: bool) -> Verdict {
    // once: a few questions.
    let any = |kind: Owner| owners.iter().any(|(owner, _)| *owner == kind);
    let without = |is_lost: fn(Owner) -> bool| {
        let left = owners.iter().filter(|(owner, _)| !is_lost(*owner));
        Verdict::Owners(left.map(|(_, reference)| (*reference).clone()).collect())
    };
    if any(Owner::Orphaning) {
        return without(|owner| owner == Owner::Orphaning);
    }
    let is_lost = any(Owner::Absent) || any(Owner::Waiting);
    if is_terminating || any(Owner::Unknown) || !is_lost {
        return Verdict::Nothing;
    }
    if any(Owner::Live) {
        return without(|owner| owner != Owner::Live);
    }
    Verdict::Delete
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn a_dependent_goes_with_its_last_owner_and_stays_where_one_is_unknown() {
        let names = ["live", "absent", "orphaning", "waiting", "unknown"].map(|name| json!({"name": name}));
        let kinds = [Owner::Live, Owner::Absent, Owner::Orphaning, Owner::Waiting, Owner::Unknown];
        let judged = |of: &[usize], is_terminating| {
            let owners: Vec<(Owner, &Value)> = of.iter().map(|at| (kinds[*at], &names[*at])).collect();
            match verdict(&owners, is_terminating) {
                Verdict::Nothing => "stays".to_owned(),
                Verdict::Delete => "goes".to_owned(),
                Verdict::Owners(left) => {
                    let left: Vec<&str> = left.iter().map(|owner| owner.text("name")).collect();
                    format!("keeps {}", left.join(" "))
                }
            }
        };
        for (owners, alone, leaving) in [
            (&[0][..], "stays", "stays"),
            (&[1], "goes", "stays"),
            (&[3], "goes", "stays"),
            (&[4], "stays", "stays"),
            (&[1, 3], "goes", "stays"),
            (&[1, 4], "stays", "stays"),
            (&[0, 1], "keeps live", "stays"),
            (&[0, 1, 3], "keeps live", "stays"),
            (&[0, 1, 4], "stays", "stays"),
            (&[2], "keeps ", "keeps "),
            (&[1, 2], "keeps absent", "keeps absent"),
            (&[0, 2, 4], "keeps live unknown", "keeps live unknown"),
        ] {
            assert_eq!((&*judged(owners, false), &*judged(owners, true)), (alone, leaving), "{owners:?}");
        }
    }
}
