//! Roles and bindings of the cluster, by the users that they touch.
//!
//! Owns the view that decisions read: a user's bindings are found by name and groups, the role of a binding by its
//! number. A change of a role or binding touches only what it is about; versions share the rest.
//!
//! Invariant: a role has a number as long as it exists or a binding names it.

use std::sync::{Arc, LazyLock};

use imbl::{HashMap, OrdMap, Vector};
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use serde::Deserialize;
use smol_str::SmolStr;

use super::grant::{BindingKey, Grant, RoleKey, Subject};
use super::resolved::{Cache, Resolved};
use super::rules::{Asked, PolicyRule, Rule, Sieve};
use crate::authn::User;
use crate::follow::Derived;

/// Storage resources of the four kinds.
pub const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization";
/// Roles of a namespace.
pub const ROLES: &str = "roles.rbac.authorization";
/// Bindings in all namespaces.
pub const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization";
/// Bindings of a namespace.
pub const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization";

/// Rules from which on a role is large: a decision looks at it once, though many bindings name it.
const LARGE_RULES: usize = 16;

/// The rules of a role.
#[derive(Debug)]
pub struct Role {
    /// As stored.
    pub stored: Vec<PolicyRule>,
    /// Prepared for matching.
    prepared: Vec<Rule>,
    sieve: Sieve,
}

impl Role {
    /// A role with these rules.
    pub fn new(stored: Vec<PolicyRule>) -> Role {
        let prepared = Rule::prepare(&stored);
        let sieve = Sieve::new(&prepared);
        Role { stored, prepared, sieve }
    }

    /// Number of rules that a decision looks at.
    #[cfg(test)]
    pub(super) fn prepared(&self) -> usize {
        self.prepared.len()
    }

    fn is_large(&self) -> bool {
        self.stored.len() >= LARGE_RULES
    }

    /// Whether a rule allows what `asked` holds.
    pub fn allows(&self, asked: &Asked<'_>) -> bool {
        self.sieve.passes(asked) && self.matches(asked)
    }

    /// Whether a rule allows what `asked` holds, which the sieve lets through.
    pub(super) fn matches(&self, asked: &Asked<'_>) -> bool {
        // few: the rules of one role.
        self.prepared.iter().any(|rule| rule.allows(asked))
    }

    pub(super) fn sieve(&self) -> Sieve {
        self.sieve
    }
}

/// Grants by the name of their subject: one for each binding, however often that names the subject.
type BySubject = HashMap<SmolStr, OrdMap<BindingKey, Arc<Grant>>>;

/// The subjects of a scope, each with its grants.
#[derive(Clone, Debug, Default)]
struct Scope {
    users: BySubject,
    groups: BySubject,
}

/// A role's number, with the count of what holds it.
#[derive(Clone, Debug)]
struct Slot {
    key: RoleKey,
    role: Option<Arc<Role>>,
    /// Grants that name the role.
    grants: u32,
}

/// Roles and bindings. Cheap to copy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    numbers: HashMap<RoleKey, u32>,
    slots: Vector<Option<Slot>>,
    free: Vector<u32>,
    /// By namespace; the empty one holds the cluster's.
    scopes: HashMap<SmolStr, Scope>,
    /// Grants of each binding.
    bindings: HashMap<BindingKey, Vector<Arc<Grant>>>,
    resolved: Cache,
}

#[derive(Deserialize)]
struct RoleDocument {
    #[serde(default)]
    rules: Option<Vec<PolicyRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingDocument {
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Deserialize)]
struct RoleRef {
    kind: SmolStr,
    name: SmolStr,
}

/// The two parts of a path: namespace, empty for cluster scope, and name.
fn parts(path: &str) -> (SmolStr, SmolStr) {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    (namespace.into(), name.into())
}

/// The rules of a stored role. An object that is no role has none.
fn rules_of(object: &SharedObject) -> Arc<Role> {
    let document = serde_json::from_slice::<RoleDocument>(&object.json).ok();
    Arc::new(Role::new(document.and_then(|document| document.rules).unwrap_or_default()))
}

impl Policy {
    /// The grants of `user` in `namespace` with their roles, those of the whole cluster first; a role that does not
    /// exist is `None`. Each is passed to `visit` until that returns `false`; those of a large role but the first are
    /// left out.
    pub fn visit(
        &self,
        user: &User,
        namespace: &str,
        mut visit: impl FnMut(&Arc<Grant>, Option<&Arc<Role>>) -> bool,
    ) {
        let names = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        let mut large = hashbrown::HashSet::new();
        for scope in names.into_iter().flatten().filter_map(|name| self.scopes.get(name)) {
            let of_user = scope.users.get(user.name.as_str());
            let of_groups = user.groups.iter().filter_map(|group| scope.groups.get(group.as_str()));
            for grant in of_user.into_iter().chain(of_groups).flat_map(OrdMap::values) {
                let slot = self.slots.get(grant.role as usize).and_then(Option::as_ref);
                let role = slot.and_then(|slot| slot.role.as_ref());
                if role.is_some_and(|role| role.is_large()) && !large.insert(grant.role) {
                    continue;
                }
                if !visit(grant, role) {
                    return;
                }
            }
        }
    }

    /// The grants that [`Policy::visit`] passes, as an array for decisions.
    pub(super) fn resolved(&self, user: &User, namespace: &str) -> Arc<[Resolved]> {
        // A namespace without bindings has the cluster's grants alone: names that clients invent share one entry.
        let namespace = if self.scopes.contains_key(namespace) { namespace } else { "" };
        self.resolved.get(user, namespace, || {
            let mut grants = Vec::new();
            self.visit(user, namespace, |grant, role| {
                grants.push(Resolved::new(grant, role));
                true
            });
            grants
        })
    }

    /// The first subject of the binding of `grant`, in its order, that is `user` or a group of theirs.
    pub fn first_of_binding(&self, user: &User, grant: &Arc<Grant>) -> Arc<Grant> {
        let Some(scope) = self.scopes.get(&grant.binding.0).filter(|_| grant.place > 0) else {
            return grant.clone();
        };
        let of_user = scope.users.get(user.name.as_str());
        let of_groups = user.groups.iter().filter_map(|group| scope.groups.get(group.as_str()));
        let of_binding = of_user.into_iter().chain(of_groups).filter_map(|grants| grants.get(&grant.binding));
        of_binding.min_by_key(|grant| grant.place).unwrap_or(grant).clone()
    }

    /// The role under `key`.
    pub fn role(&self, key: &RoleKey) -> Option<&Arc<Role>> {
        let number = *self.numbers.get(key)?;
        self.slots.get(number as usize)?.as_ref()?.role.as_ref()
    }

    /// All roles, by namespace and name.
    pub(super) fn roles(&self) -> impl Iterator<Item = (&RoleKey, &Arc<Role>)> {
        let slots = self.slots.iter().flatten();
        slots.filter_map(|slot| Some((&slot.key, slot.role.as_ref()?)))
    }

    /// Numbers of roles in use, and all that were ever given.
    #[cfg(test)]
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.numbers.len(), self.slots.len())
    }

    fn set_role(&mut self, key: RoleKey, role: Option<Arc<Role>>) {
        if role.is_none() && !self.numbers.contains_key(&key) {
            return;
        }
        let number = self.number(key);
        if let Some(Some(slot)) = self.slots.get_mut(number as usize) {
            slot.role = role;
        }
        self.release_if_unused(number);
    }

    /// The number of the role under `key`, a new one where it has none.
    fn number(&mut self, key: RoleKey) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let slot = Some(Slot { key: key.clone(), role: None, grants: 0 });
        let number = match self.free.pop_back() {
            Some(number) => {
                self.slots.set(number as usize, slot);
                number
            }
            None => {
                self.slots.push_back(slot);
                // A cluster's objects are far fewer than 2^32: each takes more than a byte of memory.
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.numbers.insert(key, number);
        number
    }

    fn release_if_unused(&mut self, number: u32) {
        let slot = self.slots.get(number as usize).and_then(Option::as_ref);
        let Some(slot) = slot.filter(|slot| slot.role.is_none() && slot.grants == 0) else { return };
        self.numbers.remove(&slot.key.clone());
        self.slots.set(number as usize, None);
        self.free.push_back(number);
    }

    fn count(&mut self, number: u32, more: bool) {
        if let Some(Some(slot)) = self.slots.get_mut(number as usize) {
            slot.grants = if more { slot.grants.saturating_add(1) } else { slot.grants.saturating_sub(1) };
        }
        self.release_if_unused(number);
    }

    fn set_binding(&mut self, binding: BindingKey, object: Option<&SharedObject>) {
        for grant in self.bindings.remove(&binding).unwrap_or_default() {
            self.remove_grant(&grant);
        }
        let document = object.and_then(|object| serde_json::from_slice::<BindingDocument>(&object.json).ok());
        let Some(BindingDocument { subjects, role_ref }) = document else { return };
        let of_namespace = if role_ref.kind == "Role" { binding.0.clone() } else { SmolStr::default() };
        let key = (of_namespace, role_ref.name);
        let role = self.number(key.clone());
        let mut grants = Vector::new();
        for (place, subject) in subjects.unwrap_or_default().into_iter().enumerate() {
            let grant = Arc::new(Grant { role, key: key.clone(), binding: binding.clone(), place, subject });
            let Some((by_subject, subject)) = self.place(&grant) else { continue };
            let of_subject = by_subject.entry(subject).or_default();
            if of_subject.contains_key(&binding) {
                continue;
            }
            of_subject.insert(binding.clone(), grant.clone());
            self.count(role, true);
            grants.push_back(grant);
        }
        self.release_if_unused(role);
        if !grants.is_empty() {
            self.bindings.insert(binding, grants);
        }
    }

    fn remove_grant(&mut self, grant: &Arc<Grant>) {
        if let Some((grants, subject)) = self.place(grant)
            && let Some(of_subject) = grants.get_mut(&subject)
        {
            of_subject.remove(&grant.binding);
            if of_subject.is_empty() {
                grants.remove(&subject);
            }
        }
        let namespace = &grant.binding.0;
        if self.scopes.get(namespace).is_some_and(|scope| scope.users.is_empty() && scope.groups.is_empty()) {
            self.scopes.remove(namespace);
        }
        self.count(grant.role, false);
    }

    /// The place of the subject of `grant` in its scope; `None` for a subject that is nobody.
    fn place(&mut self, grant: &Grant) -> Option<(&mut BySubject, SmolStr)> {
        let name = grant.subject_name()?;
        let scope = self.scopes.entry(grant.binding.0.clone()).or_default();
        Some((if grant.subject.kind == "Group" { &mut scope.groups } else { &mut scope.users }, name))
    }

    fn set(&mut self, source: &str, path: &str, object: Option<&SharedObject>) {
        self.resolved.clear();
        match source {
            CLUSTER_ROLES | ROLES => self.set_role(parts(path), object.map(rules_of)),
            _ => self.set_binding(parts(path), object),
        }
    }
}

impl Derived for Policy {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCES: LazyLock<[Arc<str>; 4]> =
            LazyLock::new(|| [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS].map(Into::into));
        SOURCES.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        self.set(source, &change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        *self = Policy::default();
        for source in [CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS] {
            for (path, object) in state.collection(source).range_from("") {
                self.set(source, path, Some(object));
            }
        }
    }
}
