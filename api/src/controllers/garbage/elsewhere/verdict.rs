//! Decides on one dependent at an aggregated server: a function of a state, the ends that were seen, and the answers about owners that
//! other servers keep.
//!
//! Owns the rules, which are those of [`super::super::decide`] but for two. An owner that this cluster keeps is gone only if its end
//! was seen: an absent one may be yet to come with an import, or be of a time that the state was taken back behind. And an owner that waits is
//! waited for no longer by a dependent of which another owner is unknown.
//!
//! Invariant: a dependent is deleted only if all of its owners are gone or wait for it; one that cannot be looked up keeps it.
//! Invariant: the state and the answers are newer than the dependent: an owner absent in them is gone for good.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use orch_raft::State;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::super::graph::ObjectRef;
use super::super::ownership::{FOREGROUND, ORPHAN, Ownership};
use super::super::remote_owners::{Answer, Question};
use super::super::sightings::Sightings;
use super::dependent::Dependent;
use super::ends::Ends;
use crate::aggregation::Remote;
use crate::registry::Registry;

/// State of the object that an owner reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Live,
    Absent,
    /// It is being deleted with `Orphan`.
    Orphaning,
    /// It is being deleted in the foreground.
    Waiting,
    /// No server says whether the owner exists.
    Unknown,
    /// It does not exist, and nobody has seen its end: it may be yet to come.
    Unseen,
}

/// The write to a dependent.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Nothing,
    Delete,
    /// These owner references are left.
    Owners(Vec<Value>),
}

/// The judgement of one dependent.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// Awaited owners that it is in the way of.
    pub(super) in_the_way: BTreeSet<String>,
    /// It stays because an owner is absent whose end nobody has seen.
    pub(super) is_undecided: bool,
}

/// The kinds of owners, and where they are.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) registry: &'a Registry,
    /// Aggregated servers by group and version, as `apiVersion` has them. Clients choose the names: keyed hashes.
    pub(super) servers: &'a HashMap<String, Arc<Remote>>,
}

/// The sources of a verdict: what servers answered about owners, and what was seen of them before.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Behind a barrier.
    pub(super) state: &'a State,
    pub(super) ends: &'a Ends,
    /// Of other servers.
    pub(super) answers: &'a BTreeMap<Question, Answer>,
    pub(super) sightings: &'a Mutex<Sightings>,
    /// The time, of `Store::elapsed`.
    pub(super) now: Duration,
}

impl Rules<'_> {
    /// The questions for owners of `dependent` at other servers.
    pub(super) fn questions(&self, dependent: &Dependent) -> Vec<(Question, Arc<Remote>)> {
        let asked = dependent.owners.iter().filter_map(|reference| {
            // once: looked up by hash.
            let server = self.servers.get(reference.text("apiVersion"))?;
            Some((Question::of(server, reference, &dependent.namespace), server.clone()))
        });
        asked.collect()
    }

    /// The judgement of `dependent` by what is `known`.
    ///
    /// # Errors
    /// A stored owner cannot be read.
    pub(super) fn judge(&self, dependent: &Dependent, known: Known<'_>) -> Result<Judged, serde_json::Error> {
        let find = |reference| Ok((self.owner(dependent, reference, known)?, reference));
        let owners: Vec<(Owner, &Value)> =
            dependent.owners.iter().map(find).collect::<Result<_, serde_json::Error>>()?;
        let is_in_the_way = |owner: Owner, reference: &Value| match owner {
            Owner::Orphaning => true,
            Owner::Waiting => reference.flag("blockOwnerDeletion"),
            _ => false,
        };
        let in_the_way = owners.iter().filter(|(owner, reference)| is_in_the_way(*owner, reference));
        let in_the_way = in_the_way.map(|(_, reference)| reference.text("uid").to_owned()).collect();
        let verdict = verdict(&owners, dependent.is_terminating);
        // once: a few owners.
        let is_unseen = owners.iter().any(|(owner, _)| *owner == Owner::Unseen);
        let is_undecided = is_unseen && verdict == Verdict::Nothing && !dependent.is_terminating;
        Ok(Judged { verdict, in_the_way, is_undecided })
    }

    fn owner(
        &self,
        dependent: &Dependent,
        reference: &Value,
        known: Known<'_>,
    ) -> Result<Owner, serde_json::Error> {
        let uid = reference.text("uid");
        if let Some(server) = self.servers.get(reference.text("apiVersion")) {
            let question = Question::of(server, reference, &dependent.namespace);
            let absent = || match known.sightings.lock().took_along(&question, uid, known.now) {
                true => Owner::Absent,
                false => Owner::Unseen,
            };
            return Ok(match known.answers.get(&question) {
                Some(Answer::Missing) => absent(),
                Some(Answer::Found { uid: found, .. }) if found != uid => absent(),
                // The policy of its deletion may change until it is gone.
                Some(Answer::Found { is_waiting: true, .. } | Answer::Unknown) | None => Owner::Unknown,
                Some(Answer::Found { is_waiting: false, .. }) => Owner::Live,
            });
        }
        let ended = |unless: Owner| if known.ends.has_ended(uid) { Owner::Absent } else { unless };
        let found = self.registry.find_named(reference.text("apiVersion"), reference.text("kind"));
        let Some(resource) = found else { return Ok(ended(Owner::Unknown)) };
        let name = reference.text("name");
        let path = match (resource.namespaced, &*dependent.namespace) {
            // It names no namespace to look in.
            (true, "") => return Ok(Owner::Unknown),
            (true, namespace) => format!("{namespace}/{name}"),
            (false, _) => name.to_owned(),
        };
        let owner = ObjectRef { storage: resource.storage.clone(), path: path.into() };
        match owner.find(known.state).filter(|owner| owner.index.uid == uid) {
            None => Ok(ended(Owner::Unseen)),
            Some(owner) if !owner.index.terminating => Ok(Owner::Live),
            // As it is now: the policy of its deletion may change.
            Some(owner) => Ok(match Ownership::of(&owner)? {
                held if held.is_held_by(ORPHAN) => Owner::Orphaning,
                held if held.is_held_by(FOREGROUND) => Owner::Waiting,
                _ => Owner::Live,
            }),
        }
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
    if is_terminating || !is_lost {
        return Verdict::Nothing;
    }
    if any(Owner::Unknown) || any(Owner::Unseen) {
        // An owner that waits goes without it, as beside one that is live; whether others are gone is not known.
        return match any(Owner::Waiting) {
            true => without(|owner| owner == Owner::Waiting),
            false => Verdict::Nothing,
        };
    }
    if any(Owner::Live) {
        return without(|owner| owner != Owner::Live);
    }
    Verdict::Delete
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::super::dependent::Page;
    use super::*;
    use crate::controllers::testing::Fixture;

    /// An object in `namespace` that names `owner`, of a kind of the core group.
    fn dependent(namespace: &str, (kind, name, uid): (&str, &str, &str)) -> Dependent {
        let owner = json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
        let metadata = json!({
            "name": "d", "namespace": namespace, "uid": "u-d", "resourceVersion": "7", "ownerReferences": [owner],
        });
        let list = json!({"kind": "ThingList", "items": [{"metadata": metadata}]});
        Page::read(list.to_string().as_bytes(), 1).unwrap().dependents.remove(0)
    }

    /// The judgement of `dependent` in the state of `fixture`, where the objects `ended` have ended.
    fn judged(fixture: &Fixture, dependent: &Dependent, ended: &[&str]) -> Judged {
        let (registry, servers) = (Registry::builtin(&ORCH), HashMap::new());
        let mut ends = Ends::default();
        ended.iter().for_each(|uid| ends.remember_uid(uid));
        let known = Known {
            state: &fixture.state(),
            ends: &ends,
            answers: &BTreeMap::new(),
            sightings: &Mutex::default(),
            now: Duration::ZERO,
        };
        Rules { registry: &registry, servers: &servers }.judge(dependent, known).unwrap()
    }

    fn verdict_on(fixture: &Fixture, dependent: &Dependent, ended: &[&str]) -> Verdict {
        judged(fixture, dependent, ended).verdict
    }

    #[tokio::test]
    async fn the_policy_of_an_owners_deletion_counts_as_it_is_now() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let metadata = json!({"name": "o", "finalizers": ["example.com/hold"]});
        let uid = fixture.create("configmaps", "n", json!({"metadata": metadata})).await;
        let dependent = dependent("n", ("ConfigMap", "o", &uid));
        assert_eq!(verdict_on(&fixture, &dependent, &[]), Verdict::Nothing);
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Foreground"})).await;
        assert_eq!(verdict_on(&fixture, &dependent, &[]), Verdict::Delete);
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Orphan"})).await;
        assert_eq!(verdict_on(&fixture, &dependent, &[]), Verdict::Owners(Vec::new()));
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Background"})).await;
        assert_eq!(verdict_on(&fixture, &dependent, &[]), Verdict::Nothing, "it is there until it is gone");
        assert_eq!(verdict_on(&fixture, &dependent, &[&uid]), Verdict::Nothing, "also if it ended before");
        fixture.merge("configmaps", "n/o", json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(verdict_on(&fixture, &dependent, &[]), Verdict::Nothing, "nobody has seen its end");
        assert_eq!(verdict_on(&fixture, &dependent, &[&uid]), Verdict::Delete);
    }

    #[tokio::test]
    async fn an_object_outside_of_namespaces_never_goes_with_one_that_is_in_a_namespace() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
        let of_map = dependent("", ("ConfigMap", "o", &uid));
        assert_eq!(verdict_on(&fixture, &of_map, &[&uid]), Verdict::Nothing);
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Foreground"})).await;
        assert_eq!(verdict_on(&fixture, &of_map, &[&uid]), Verdict::Nothing);
        let of_node = dependent("", ("Node", "n", "u-n"));
        assert_eq!(verdict_on(&fixture, &of_node, &["u-n"]), Verdict::Delete);
    }

    #[tokio::test]
    async fn a_dependent_whose_owner_is_absent_and_was_not_seen_to_end_is_undecided() {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let is_undecided =
            |dependent: &Dependent, ended: &[&str]| judged(&fixture, dependent, ended).is_undecided;
        let mut of_absent = dependent("n", ("ConfigMap", "o", "u-o"));
        assert!(is_undecided(&of_absent, &[]) && !is_undecided(&of_absent, &["u-o"]));
        assert!(!is_undecided(&dependent("n", ("Unserved", "o", "u-o")), &[]), "its kind is not served");
        of_absent.is_terminating = true;
        assert!(!is_undecided(&of_absent, &[]), "it goes");
    }

    #[test]
    fn a_dependent_goes_with_its_last_owner_and_stays_where_one_is_unknown() {
        let names =
            ["live", "absent", "orphaning", "waiting", "unknown", "unseen"].map(|name| json!({"name": name}));
        let kinds =
            [Owner::Live, Owner::Absent, Owner::Orphaning, Owner::Waiting, Owner::Unknown, Owner::Unseen];
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
            (&[1, 5], "stays", "stays"),
            (&[3, 5], "keeps unseen", "stays"),
            (&[3, 4], "keeps unknown", "stays"),
            (&[1, 3, 4], "keeps absent unknown", "stays"),
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
