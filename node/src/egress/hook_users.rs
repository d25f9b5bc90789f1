//! Who this server is to the webhooks that the two admission plugins call: the users of client configurations.
//!
//! Owns which user a host is shown, by the reference's rules: the one with the name `HOST:PORT`, or `HOST` for port 443; then those of its
//! domains (`*.DOMAIN`), the nearest first; then `*`; then the user of the current context. Services have the host
//! `NAME.NAMESPACE.svc`. A host that none of them is for is called as nobody, and so are webhooks of conversion. The files are read when the
//! node starts.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use orch_api::webhook::Purpose;

use super::TargetFileError;
use super::target_file::{Identity, Users, read_users};

/// The port that a name need not have.
const HTTPS: u16 = 443;

/// The name for all hosts.
const ANY: &str = "*";

/// The plugin that calls, and the number of the user in its file.
pub(super) type UserKey = (Purpose, usize);

/// The users of both plugins. Clones share them.
#[derive(Clone, Default)]
pub struct HookUsers {
    mutating: Option<Arc<Known>>,
    validating: Option<Arc<Known>>,
}

/// The users of one file.
struct Known {
    identities: Vec<Identity>,
    by_name: HashMap<String, usize>,
    current: String,
}

impl HookUsers {
    /// Reads the client configurations of the two plugins; `None`: the plugin has none.
    ///
    /// # Errors
    /// A file, or one that it names, cannot be read or used.
    pub fn read(mutating: Option<&Path>, validating: Option<&Path>) -> Result<HookUsers, TargetFileError> {
        Ok(HookUsers { mutating: Known::read(mutating)?, validating: Known::read(validating)? })
    }

    /// As whom the webhook at `host` and `port` is called; `None`: as nobody.
    pub(super) fn find(&self, purpose: Purpose, host: &str, port: u16) -> Option<(UserKey, &Identity)> {
        let known = match purpose {
            Purpose::Mutating => self.mutating.as_ref()?,
            Purpose::Validating => self.validating.as_ref()?,
            Purpose::Conversion => return None,
        };
        let at = known.find(host, port)?;
        Some(((purpose, at), known.identities.get(at)?))
    }
}

impl Known {
    fn read(path: Option<&Path>) -> Result<Option<Arc<Known>>, TargetFileError> {
        let Some(path) = path else { return Ok(None) };
        Ok(Some(Arc::new(Known::of(read_users(path)?))))
    }

    fn of(Users { named, current }: Users) -> Known {
        let mut by_name = HashMap::new();
        let mut identities = Vec::new();
        for (name, identity) in named {
            // The first of several of one name counts.
            by_name.entry(name).or_insert(identities.len());
            identities.push(identity);
        }
        Known { identities, by_name, current }
    }

    fn find(&self, host: &str, port: u16) -> Option<usize> {
        let with_port = format!("{host}:{port}");
        let targets = [Some(with_port.as_str()), (port == HTTPS).then_some(host)];
        let targets = || targets.into_iter().flatten();
        let exact = targets().find_map(|target| self.by_name.get(target));
        // Each looks up the domains of one host, of which a name has a hundred at most.
        let in_domain = || {
            targets().find_map(|target| {
                let mut rest = target;
                std::iter::from_fn(|| {
                    let (_, domain) = rest.split_once('.')?;
                    rest = domain;
                    Some(domain)
                })
                .find_map(|domain| self.by_name.get(&format!("*.{domain}")))
            })
        };
        let all = || self.by_name.get(ANY);
        let current = || self.by_name.get(&self.current).filter(|_| !self.current.is_empty());
        exact.or_else(in_domain).or_else(all).or_else(current).copied()
    }
}

/// Credentials are not shown.
impl fmt::Debug for HookUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |known: &Option<Arc<Known>>| known.as_ref().map_or(0, |known| known.identities.len());
        f.debug_struct("HookUsers")
            .field("mutating", &count(&self.mutating))
            .field("validating", &count(&self.validating))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(names: &[&str], current: &str) -> HookUsers {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hooks.conf");
        let entry = |name: &&str| serde_json::json!({"name": name, "user": {"token": format!("t-{name}")}});
        let users: Vec<_> = names.iter().map(entry).collect();
        let context = serde_json::json!({"name": "c", "context": {"cluster": "", "user": current}});
        let current = if current.is_empty() { "" } else { "c" };
        let config = serde_json::json!({"users": users, "contexts": [context], "current-context": current});
        std::fs::write(&path, config.to_string()).unwrap();
        HookUsers::read(None, Some(&path)).unwrap()
    }

    #[test]
    fn a_host_is_shown_the_user_of_its_nearest_name() {
        let names = ["hook.ns.svc", "hook.ns.svc:8443", "*.ns.svc", "*.svc:444", "*"];
        let users = users(&names, "");
        let found = |host: &str, port: u16| {
            users.find(Purpose::Validating, host, port).map_or("nobody", |((_, at), _)| names[at])
        };
        assert_eq!(found("hook.ns.svc", 443), "hook.ns.svc");
        assert_eq!(found("hook.ns.svc", 8443), "hook.ns.svc:8443");
        assert_eq!(found("other.ns.svc", 443), "*.ns.svc");
        assert_eq!(found("other.ms.svc", 444), "*.svc:444");
        assert_eq!(found("hook.ns.svc", 80), "*", "a name without a port is for 443");
        assert!(users.find(Purpose::Mutating, "hook.ns.svc", 443).is_none(), "each plugin has its own file");
        assert!(users.find(Purpose::Conversion, "hook.ns.svc", 443).is_none());
    }

    #[test]
    fn the_user_of_the_current_context_is_for_all_other_hosts() {
        let of = |current: &str| {
            let users = users(&["a.example.com", "mine"], current);
            users.find(Purpose::Validating, "b.example.com", 443).map(|((_, at), _)| at)
        };
        assert_eq!((of(""), of("mine")), (None, Some(1)));
    }
}
