//! The grants of users as decisions scan them: one array for each user and namespace.
//!
//! Owns a bounded cache of the policy. A change of the policy empties it, so that no decision reads a grant that has ended.
//! It holds no decision and never refuses one.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use parking_lot::RwLock;

use super::grant::Grant;
use super::policy::Role;
use super::rules::{Asked, Sieve};
use crate::authn::User;

/// Grants that are kept in all, about 200 bytes each and the name of the subject: 50 for each of a thousand users. The cache is emptied when it is
/// full, after which each user's next decision collects its grants again (some microseconds).
const GRANTS_MAX: usize = 50_000;

/// Bytes of a holder's texts, for whom grants are kept: names and groups come from credentials, which clients may
/// choose (impersonation), and namespaces of bindings are short.
const HOLDER_BYTES_MAX: usize = 1024;

/// A grant with its role, and with the role's sieve beside it: most roles are ruled out without a look at them.
#[derive(Debug)]
pub(super) struct Resolved {
    sieve: Sieve,
    pub(super) grant: Arc<Grant>,
    /// `None`: the role does not exist.
    pub(super) role: Option<Arc<Role>>,
}

impl Resolved {
    pub(super) fn new(grant: Grant, role: Option<&Arc<Role>>) -> Resolved {
        let sieve = role.map(|role| role.sieve()).unwrap_or_default();
        Resolved { sieve, grant: Arc::new(grant), role: role.cloned() }
    }

    /// Whether the role has a rule that allows `asked`.
    pub(super) fn allows(&self, asked: &Asked<'_>) -> bool {
        self.sieve.passes(asked) && self.role.as_ref().is_some_and(|role| role.matches(asked))
    }
}

/// User and namespace of the grants.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    name: String,
    groups: Vec<String>,
    namespace: String,
}

/// A [`Holder`] that borrows its texts.
struct HolderRef<'a> {
    user: &'a User,
    namespace: &'a str,
}

impl HolderRef<'_> {
    fn bytes(&self) -> usize {
        let groups: usize = self.user.groups.iter().map(|group| group.len() + size_of::<String>()).sum();
        self.user.name.len() + groups + self.namespace.len()
    }
}

fn hash_holder<H: Hasher>(state: &mut H, name: &str, groups: &[String], namespace: &str) {
    name.hash(state);
    groups.hash(state);
    namespace.hash(state);
}

impl Hash for Holder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_holder(state, &self.name, &self.groups, &self.namespace);
    }
}

impl Hash for HolderRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_holder(state, &self.user.name, &self.user.groups, self.namespace);
    }
}

impl Equivalent<Holder> for HolderRef<'_> {
    fn equivalent(&self, holder: &Holder) -> bool {
        let HolderRef { user, namespace } = self;
        user.name == holder.name && user.groups == holder.groups && *namespace == holder.namespace
    }
}

/// The grants by holder, and their number.
#[derive(Debug, Default)]
struct CachedGrants {
    by_holder: HashMap<Holder, Arc<[Resolved]>>,
    grants: usize,
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct Cache(RwLock<CachedGrants>);

impl Cache {
    /// The grants of `user` in `namespace`, from the cache or else by `collect`.
    pub(super) fn get(
        &self,
        user: &User,
        namespace: &str,
        collect: impl FnOnce() -> Vec<Resolved>,
    ) -> Arc<[Resolved]> {
        let holder = HolderRef { user, namespace };
        if let Some(grants) = self.0.read().by_holder.get(&holder) {
            return grants.clone();
        }
        let grants: Arc<[Resolved]> = collect().into();
        if holder.bytes() > HOLDER_BYTES_MAX || grants.len() >= GRANTS_MAX {
            return grants;
        }
        let mut kept = self.0.write();
        // The holder counts as one grant: a user without grants takes room, too.
        if kept.grants + grants.len() + 1 > GRANTS_MAX {
            *kept = CachedGrants::default();
        }
        kept.grants += grants.len() + 1;
        let holder =
            Holder { name: user.name.clone(), groups: user.groups.clone(), namespace: namespace.to_owned() };
        if let Some(old) = kept.by_holder.insert(holder, grants.clone()) {
            // Another request collected the same at once.
            kept.grants -= old.len() + 1;
        }
        grants
    }

    /// Forgets everything, because the policy changes.
    pub(super) fn clear(&mut self) {
        *self.0.get_mut() = CachedGrants::default();
    }

    #[cfg(test)]
    pub(super) fn holders(&self) -> usize {
        self.0.read().by_holder.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: usize) -> User {
        User { name: name.to_string(), ..User::default() }
    }

    #[test]
    fn grants_are_collected_once_for_each_user_and_namespace() {
        let cache = Cache::default();
        let mut collected = 0;
        for (name, namespace) in [(1, "a"), (1, "a"), (1, "b"), (2, "a"), (1, "a")] {
            cache.get(&user(name), namespace, || {
                collected += 1;
                Vec::new()
            });
        }
        assert_eq!(collected, 3);
    }

    #[test]
    fn nothing_is_kept_for_holders_of_long_names() {
        let cache = Cache::default();
        let long = "a".repeat(HOLDER_BYTES_MAX);
        cache.get(&User { groups: vec![long.clone()], ..user(1) }, "", Vec::new);
        cache.get(&user(1), &long, Vec::new);
        assert_eq!(cache.holders(), 0);
    }

    #[test]
    fn the_cache_stays_bounded_by_users_without_grants() {
        let cache = Cache::default();
        for name in 0..GRANTS_MAX + 2 {
            cache.get(&user(name), "", Vec::new);
            assert!(cache.holders() <= GRANTS_MAX);
        }
        assert_eq!(cache.holders(), 2);
    }
}
