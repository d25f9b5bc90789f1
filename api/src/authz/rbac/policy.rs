//! Roles and bindings of the cluster, by the users that they touch.
//!
//! Owns the view that decisions read: a user's bindings are found by the digests of name and groups, the role of a binding by
//! its number. A change of a role or binding touches only what it is about. Texts of bindings are read from the stored
//! objects, which the view shares with the state.
//!
//! Invariant: a role has a number as long as it exists or a binding names it.

use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use serde::Deserialize;
use smol_str::SmolStr;

use super::grant::{
    Binding, Grant, RoleKey, digest_of_group, digest_of_user, parts, read_binding, read_subject,
};
use super::holders::Holders;
use super::policy_rule::PolicyRule;
use super::resolved::{Cache, Resolved};
use super::rules::{Asked, Rules, Sieve};
use crate::authn::User;
use crate::follow::{Derived, Digest, Slots, shrink};

/// Storage resources of the four kinds.
pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization";
/// Roles of a namespace.
pub const ROLES: &str = "roles.rbac.authorization";
/// Bindings in all namespaces.
pub const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization";
/// Bindings of a namespace.
pub const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization";

/// All four: what a decision by roles depends on.
pub(crate) const SOURCES: [&str; 4] = [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS];

/// Rules from which on a role is large: a decision looks at it once, though many bindings name it.
const LARGE_RULES: usize = 16;

/// The rules of a role.
#[derive(Debug)]
pub struct Role {
    object: SharedObject,
    /// Prepared for matching.
    rules: Rules,
    sieve: Sieve,
    is_large: bool,
}

impl Role {
    /// The role that `object` is. An object that is no role has no rules.
    fn of(object: &SharedObject) -> Role {
        let stored = stored_rules(object);
        let rules = Rules::new(&stored);
        let sieve = Sieve::new(&rules);
        Role { object: object.clone(), rules, sieve, is_large: stored.len() >= LARGE_RULES }
    }

    /// The rules as stored, read anew.
    pub fn stored(&self) -> Vec<PolicyRule> {
        stored_rules(&self.object)
    }

    /// Bytes that a call of [`Role::stored`] parses.
    pub fn stored_bytes(&self) -> usize {
        self.object.json.len()
    }

    /// The prepared rules.
    pub fn prepared(&self) -> &Rules {
        &self.rules
    }

    /// Whether a rule allows what `asked` holds.
    pub fn allows(&self, asked: &Asked<'_>) -> bool {
        self.sieve.passes(asked) && self.matches(asked)
    }

    /// Whether a rule allows what `asked` holds, which the sieve lets through.
    pub(super) fn matches(&self, asked: &Asked<'_>) -> bool {
        self.rules.allow(asked)
    }

    pub(super) fn sieve(&self) -> Sieve {
        self.sieve
    }
}

#[derive(Deserialize)]
struct RoleDocument {
    #[serde(default)]
    rules: Option<Vec<PolicyRule>>,
}

fn stored_rules(object: &SharedObject) -> Vec<PolicyRule> {
    let document = serde_json::from_slice::<RoleDocument>(&object.json).ok();
    document.and_then(|document| document.rules).unwrap_or_default()
}

/// A role and the number of bindings that name it. Its index in `Policy::slots` is the role's number.
#[derive(Debug)]
struct Slot {
    key: RoleKey,
    role: Option<Arc<Role>>,
    /// Bindings that name the role.
    bindings: u32,
}

/// A binding, and its stored form, in which its subjects are.
#[derive(Debug)]
struct StoredBinding {
    binding: Arc<Binding>,
    object: SharedObject,
}

/// Roles and bindings.
#[derive(Debug, Default)]
pub struct Policy {
    numbers: HashMap<RoleKey, u32>,
    slots: Slots<Slot>,
    holders: Holders,
    /// Bindings with subjects, by their numbers.
    bindings: Slots<StoredBinding>,
    by_path: HashMap<Arc<str>, u32>,
    /// Namespaces with bindings, and how many.
    namespaces: HashMap<SmolStr, u32>,
    resolved: Cache,
}

impl Policy {
    /// The grants of `user` in `namespace` with their roles, those of the whole cluster first; a role that does not
    /// exist is `None`. Each is passed to `visit` until that returns `false`; those of a large role but the first are
    /// left out.
    pub fn visit(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(Grant, Option<&Arc<Role>>) -> bool,
    ) {
        let mut large = HashSet::new();
        let names = ["", namespace];
        for scope in &names[..if namespace.is_empty() { 1 } else { 2 }] {
            for (StoredBinding { binding, object }, place) in self.held(user, scope) {
                let role = self.slots.get(binding.role).and_then(|slot| slot.role.as_ref());
                if role.is_some_and(|role| role.is_large) && !large.insert(binding.role) {
                    continue;
                }
                let Some(subject) = read_subject(object, place) else { continue };
                if !visit(Grant::new(binding.clone(), subject), role) {
                    return;
                }
            }
        }
    }

    /// The bindings of `scope` that name `user` or a group of theirs, each once, with the first place at which it does:
    /// in the order of the bindings' names those of the user, then those of each group.
    fn held(&self, user: &User, scope: &str) -> impl Iterator<Item = (&StoredBinding, u32)> {
        let of_groups = user.groups.iter().map(|group| digest_of_group(scope, group));
        let subjects = std::iter::once(digest_of_user(scope, &user.name)).chain(of_groups);
        let mut found: Vec<(u32, u32)> = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        for subject in subjects {
            let start = found.len();
            for (number, place) in self.holders.of(subject) {
                match places.get(&number) {
                    Some(&at) => found[at].1 = found[at].1.min(place),
                    None => found.push((number, place)),
                }
            }
            let path = |number: u32| self.bindings.get(number).map(|stored| &*stored.binding.path);
            found[start..].sort_unstable_by(|one, other| path(one.0).cmp(&path(other.0)));
            places.extend(found.iter().enumerate().skip(start).map(|(at, (number, _))| (*number, at)));
        }
        found.into_iter().filter_map(move |(number, place)| Some((self.bindings.get(number)?, place)))
    }

    /// The grants that [`Policy::visit`] passes, as an array for decisions.
    pub(super) fn resolved(&self, user: &User, namespace: &str) -> Arc<[Resolved]> {
        // A namespace without bindings has the cluster's grants alone: names that clients invent share one entry.
        let namespace = if self.namespaces.contains_key(namespace) { namespace } else { "" };
        self.resolved.get(user, namespace, || {
            let mut grants = Vec::new();
            self.visit(user, namespace, |grant, role| {
                grants.push(Resolved::new(grant, role));
                true
            });
            grants
        })
    }

    /// The role under `key`.
    #[cfg(test)]
    pub(super) fn role(&self, key: &RoleKey) -> Option<&Arc<Role>> {
        let number = *self.numbers.get(key)?;
        self.slots.get(number)?.role.as_ref()
    }

    /// All roles, by namespace and name.
    pub(super) fn roles(&self) -> impl Iterator<Item = (&RoleKey, &Arc<Role>)> {
        self.slots.iter().filter_map(|slot| Some((&slot.key, slot.role.as_ref()?)))
    }

    /// Numbers of roles in use, and those up to the highest in use.
    #[cfg(test)]
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.numbers.len(), self.slots.extent())
    }

    /// Bytes of memory behind this value, but for the objects that it shares with the state and the bounded cache.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let binding = size_of::<Binding>() + size_of::<[usize; 2]>();
        let role = size_of::<Role>() + size_of::<[usize; 2]>();
        self.numbers.allocation_size()
            + self.slots.bytes()
            + self.roles().map(|(_, of)| role + of.rules.bytes()).sum::<usize>()
            + self.holders.bytes()
            + self.bindings.bytes()
            + self.bindings.iter().count() * binding
            + self.by_path.allocation_size()
            + self.namespaces.allocation_size()
    }

    fn set_role(&mut self, path: &str, role: Option<Arc<Role>>) {
        let (namespace, name) = parts(path);
        let key = (namespace.into(), name.into());
        if role.is_none() && !self.numbers.contains_key(&key) {
            return;
        }
        let number = self.number(key);
        if let Some(slot) = self.slots.get_mut(number) {
            slot.role = role;
        }
        self.release_if_unused(number);
    }

    /// The number of the role under `key`, a new one where it has none.
    fn number(&mut self, key: RoleKey) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.slots.insert(Slot { key: key.clone(), role: None, bindings: 0 });
        self.numbers.insert(key, number);
        number
    }

    fn release_if_unused(&mut self, number: u32) {
        let is_unused = |slot: &&Slot| slot.role.is_none() && slot.bindings == 0;
        if self.slots.get(number).filter(is_unused).is_none() {
            return;
        }
        if let Some(slot) = self.slots.remove(number) {
            self.numbers.remove(&slot.key);
            shrink(&mut self.numbers);
        }
    }

    fn set_binding(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        self.remove_binding(path);
        let read = object.and_then(|object| Some((object, read_binding(path, object)?)));
        let Some((object, (key, subjects))) = read else { return };
        let scope = parts(path).0;
        let mut seen = HashSet::new();
        let digests = subjects.iter().filter_map(|(place, subject)| Some((subject.digest(scope)?, *place)));
        let digests: Vec<(Digest, u32)> = digests.filter(|(digest, _)| seen.insert(*digest)).collect();
        if digests.is_empty() {
            return;
        }
        let role = self.number(key.clone());
        if let Some(slot) = self.slots.get_mut(role) {
            slot.bindings = slot.bindings.saturating_add(1);
        }
        let binding = Arc::new(Binding { path: path.clone(), role, key });
        let number = self.bindings.insert(StoredBinding { binding, object: object.clone() });
        for (digest, place) in digests {
            self.holders.add(digest, number, place);
        }
        self.by_path.insert(path.clone(), number);
        *self.namespaces.entry(scope.into()).or_default() += 1;
    }

    fn remove_binding(&mut self, path: &str) {
        let Some(number) = self.by_path.remove(path) else { return };
        shrink(&mut self.by_path);
        let Some(StoredBinding { binding, object }) = self.bindings.remove(number) else { return };
        let scope = parts(path).0;
        let subjects = read_binding(path, &object).map(|(_, subjects)| subjects);
        for digest in subjects.iter().flatten().filter_map(|(_, subject)| subject.digest(scope)) {
            self.holders.remove(digest, number);
        }
        if let Some(count) = self.namespaces.get_mut(scope) {
            *count -= 1;
            if *count == 0 {
                self.namespaces.remove(scope);
                shrink(&mut self.namespaces);
            }
        }
        if let Some(slot) = self.slots.get_mut(binding.role) {
            slot.bindings = slot.bindings.saturating_sub(1);
        }
        self.release_if_unused(binding.role);
    }

    fn set(&mut self, source: &str, path: &Arc<str>, object: Option<&SharedObject>) {
        self.resolved.clear();
        match source {
            CLUSTER_ROLES | ROLES => self.set_role(path, object.map(|object| Arc::new(Role::of(object)))),
            _ => self.set_binding(path, object),
        }
    }
}

impl Derived for Policy {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SHARED: LazyLock<[Arc<str>; 4]> = LazyLock::new(|| SOURCES.map(Into::into));
        SHARED.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        self.set(source, &change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        *self = Policy::default();
        for source in SOURCES {
            for (path, object) in state.collection(source).range_from("") {
                self.set(source, path, Some(object));
            }
        }
    }
}
