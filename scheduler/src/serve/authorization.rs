//! Authorization: paths that are open to everybody, administrators, and the decisions of another server.

use std::sync::Arc;
use std::time::Duration;

use orch_bounded::ExpiringMap;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::review::{Access, AccessVerdict, ReviewError, Reviewer};
use super::user::{MASTERS, User};

/// Most decisions that are remembered.
const DECISIONS_MAX: usize = 8192;
/// Most bytes of their reasons: half a kilobyte a decision.
const DECISIONS_BYTES_MAX: usize = 4 << 20;

/// A list of open paths cannot be used: a `*` stands elsewhere than at the end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("only trailing * allowed in {0:?}")]
pub(crate) struct PathError(String);

/// Paths that everybody may use.
#[derive(Debug, Default)]
pub(crate) struct OpenPaths {
    whole: Vec<String>,
    prefixes: Vec<String>,
}

impl OpenPaths {
    /// Parses paths; a `*` at the end stands for any rest. The slash at the beginning may be missing: an empty path is
    /// the root.
    pub(crate) fn parse(paths: &[String]) -> Result<OpenPaths, PathError> {
        let mut open = OpenPaths::default();
        for path in paths {
            let trimmed = without_slash(path);
            match trimmed.strip_suffix('*') {
                Some(prefix) if !prefix.contains('*') => open.prefixes.push(prefix.to_owned()),
                None if !trimmed.contains('*') => open.whole.push(trimmed.to_owned()),
                _ => return Err(PathError(trimmed.to_owned())),
            }
        }
        Ok(open)
    }

    fn contain(&self, path: &str) -> bool {
        let path = without_slash(path);
        self.whole.iter().any(|open| open == path) || self.prefixes.iter().any(|open| path.starts_with(open))
    }
}

/// The path without the slash that begins it; a second one is part of the path.
fn without_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

/// How long decisions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecisionTimes {
    /// Permissions.
    pub allowed: Duration,
    /// Refusals.
    pub refused: Duration,
}

/// Decides.
pub(crate) struct Authorizer {
    open: OpenPaths,
    reviewer: Option<Arc<dyn Reviewer>>,
    decisions: ExpiringMap<[u8; 32], AccessVerdict>,
    times: DecisionTimes,
}

impl Authorizer {
    /// Paths that are not in `open` are decided by `reviewer`; without one they are forbidden.
    pub(crate) fn new(
        open: OpenPaths,
        reviewer: Option<Arc<dyn Reviewer>>,
        times: DecisionTimes,
    ) -> Authorizer {
        Authorizer { open, reviewer, decisions: ExpiringMap::new(DECISIONS_MAX, DECISIONS_BYTES_MAX), times }
    }

    /// Whether `user` may use `verb` on `path`.
    pub(crate) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<AccessVerdict, ReviewError> {
        let plain = |is_allowed| AccessVerdict { is_allowed, reason: String::new() };
        if self.open.contain(path) || user.groups.iter().any(|group| group == MASTERS) {
            return Ok(plain(true));
        }
        let Some(reviewer) = &self.reviewer else { return Ok(plain(false)) };
        let access = Access { user, path, verb };
        let key = key(&access);
        if let Some(known) = self.decisions.get(&key, Instant::now()) {
            return Ok(known);
        }
        let verdict = reviewer.review_access(access).await?;
        let time = if verdict.is_allowed { self.times.allowed } else { self.times.refused };
        self.decisions.put(key, verdict.clone(), verdict.reason.len(), Instant::now(), time);
        Ok(verdict)
    }
}

/// A hash of everything that a decision depends on. Each text is preceded by its length, so that no two questions have
/// the same bytes.
fn key(access: &Access<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    };
    let Access { user, path, verb } = access;
    for text in [path, verb, user.name.as_str(), user.uid.as_str(), &user.groups.len().to_string()] {
        add(text);
    }
    user.groups.iter().for_each(|group| add(group));
    for (name, values) in &user.extra {
        add(name);
        add(&values.len().to_string());
        values.iter().for_each(|value| add(value));
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use parking_lot::Mutex;

    use super::*;

    /// Allows `get`, refuses everything else, and notes what it was asked.
    #[derive(Default)]
    struct Asked(Mutex<Vec<String>>);

    impl Reviewer for Asked {
        fn review_token<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
            unreachable!("authorization asks about access")
        }

        fn review_access<'a>(
            &'a self,
            access: Access<'a>,
        ) -> BoxFuture<'a, Result<AccessVerdict, ReviewError>> {
            self.0.lock().push(format!("{} {} {}", access.user.name, access.verb, access.path));
            let verdict = AccessVerdict { is_allowed: access.verb == "get", reason: "why".into() };
            async move { Ok(verdict) }.boxed()
        }

        fn config_map<'a>(
            &'a self,
            _: &'a str,
            _: &'a str,
        ) -> BoxFuture<'a, Result<Option<BTreeMap<String, String>>, ReviewError>> {
            unreachable!("authorization asks about access")
        }
    }

    fn paths(paths: &[&str]) -> Result<OpenPaths, PathError> {
        OpenPaths::parse(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn open_paths_are_whole_or_end_in_a_star() {
        let open = paths(&["/healthz", "/debug/*", "//twice", ""]).unwrap();
        for (path, expected) in [
            ("/", true),
            ("//twice", true),
            ("/twice", false),
            ("//healthz", false),
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/debug/pprof/", true),
            ("/debug", false),
            ("/metrics", false),
        ] {
            assert_eq!(open.contain(path), expected, "{path}");
        }
        assert_eq!(paths(&["/a*b"]).unwrap_err().to_string(), "only trailing * allowed in \"a*b\"");
        assert!(paths(&["*"]).unwrap().contain("/anything"));
    }

    #[tokio::test(start_paused = true)]
    async fn permissions_and_refusals_are_kept_for_their_own_times() {
        let reviewer = Arc::new(Asked::default());
        let times = DecisionTimes { allowed: Duration::from_secs(10), refused: Duration::from_secs(2) };
        let asking: Arc<dyn Reviewer> = Arc::clone(&reviewer) as _;
        let authorizer = Authorizer::new(OpenPaths::default(), Some(asking), times);
        let alice = User { name: "alice".into(), ..User::default() };
        let both = async || {
            assert!(authorizer.authorize(&alice, "get", "/metrics").await.unwrap().is_allowed);
            assert!(!authorizer.authorize(&alice, "delete", "/metrics").await.unwrap().is_allowed);
        };
        both().await;
        both().await;
        assert_eq!(reviewer.0.lock().len(), 2);
        tokio::time::advance(Duration::from_secs(2)).await;
        both().await;
        assert_eq!(reviewer.0.lock().last().unwrap(), "alice delete /metrics");
        assert_eq!(reviewer.0.lock().len(), 3);
        tokio::time::advance(Duration::from_secs(8)).await;
        both().await;
        assert_eq!(reviewer.0.lock().len(), 5);
    }

    #[tokio::test]
    async fn without_a_reviewer_administrators_and_open_paths_are_left() {
        let times = DecisionTimes { allowed: Duration::ZERO, refused: Duration::ZERO };
        let authorizer = Authorizer::new(paths(&["/healthz"]).unwrap(), None, times);
        let master = User { name: "a".into(), groups: vec![MASTERS.into()], ..User::default() };
        for (user, path, expected) in [
            (&User::anonymous(), "/healthz", true),
            (&User::anonymous(), "/metrics", false),
            (&master, "/metrics", true),
        ] {
            assert_eq!(authorizer.authorize(user, "get", path).await.unwrap().is_allowed, expected, "{path}");
        }
    }

    #[test]
    fn questions_with_the_same_texts_in_other_places_differ() {
        let user = |groups: &[&str], extra: &[(&str, &[&str])]| User {
            name: "u".into(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            extra: extra
                .iter()
                .map(|(key, values)| ((*key).to_owned(), values.iter().map(|v| (*v).to_owned()).collect()))
                .collect(),
            ..User::default()
        };
        let users = [
            user(&["a", "b"], &[]),
            user(&["ab"], &[]),
            user(&["a"], &[("b", &[])]),
            user(&[], &[("a", &["b"])]),
        ];
        let keys: std::collections::BTreeSet<_> =
            users.iter().map(|user| key(&Access { user, path: "/", verb: "get" })).collect();
        assert_eq!(keys.len(), users.len());
    }
}
