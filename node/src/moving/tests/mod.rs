//! Moves between two servers in memory.

mod copies;
mod fake;
mod follows;
mod overtaken;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use self::fake::{DEFINITIONS, Fake, definition, object, owned};
use super::carry_out;
use super::stops::Stops;
use crate::cli::ImportArgs;

/// Longest wait for a condition.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two clusters, and the state file of a move between them.
struct Clusters {
    source: Arc<Fake>,
    target: Arc<Fake>,
    folder: TempDir,
}

impl Clusters {
    async fn start() -> Clusters {
        let (source, target) = (Fake::start("source").await, Fake::start("target").await);
        // Of an object that is sent too early, or whose owner goes too early, nothing is left.
        target.collect();
        Clusters { source, target, folder: tempfile::tempdir().unwrap() }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn arguments(&self) -> ImportArgs {
        ImportArgs {
            kubeconfig: PathBuf::new(),
            context: None,
            to: None,
            server: Vec::new(),
            state: self.state(),
            dry_run: false,
            follow: false,
            replace: false,
            with_events: false,
        }
    }

    /// Copies, and returns the exit code and what was told.
    async fn copy(&self) -> (u8, String) {
        self.run(&self.arguments()).await
    }

    async fn run(&self, arguments: &ImportArgs) -> (u8, String) {
        self.try_run(arguments).await.unwrap()
    }

    async fn try_run(&self, arguments: &ImportArgs) -> anyhow::Result<(u8, String)> {
        let (source, target) =
            (self.source.access.lock().take().unwrap(), self.target.access.lock().take().unwrap());
        let mut out = Vec::new();
        let stops = || -> std::io::Result<Stops> { unreachable!("nothing is followed") };
        let code = carry_out(arguments, (&source, &target), stops, &mut out).await;
        (*self.source.access.lock(), *self.target.access.lock()) = (Some(source), Some(target));
        Ok((code?, String::from_utf8(out).unwrap()))
    }

    /// Follows while `changes` runs, and stops then; returns the exit code and what was told.
    async fn follow(&self, changes: impl Future<Output = ()>) -> anyhow::Result<(u8, String)> {
        let (stop, asked) = mpsc::channel(2);
        self.follow_until(asked, async {
            changes.await;
            stop.send(()).await.unwrap();
        })
        .await
    }

    async fn follow_until(
        &self,
        asked: mpsc::Receiver<()>,
        changes: impl Future<Output = ()>,
    ) -> anyhow::Result<(u8, String)> {
        let (source, target) =
            (self.source.access.lock().take().unwrap(), self.target.access.lock().take().unwrap());
        let arguments = ImportArgs { follow: true, ..self.arguments() };
        let (mut out, stops) = (Vec::new(), || Ok(Stops::Asked(asked)));
        let followed = carry_out(&arguments, (&source, &target), stops, &mut out);
        let (code, ()) = tokio::join!(followed, changes);
        (*self.source.access.lock(), *self.target.access.lock()) = (Some(source), Some(target));
        Ok((code?, String::from_utf8(out).unwrap()))
    }

    /// Waits until the target has the object of `uid` at `place`; of none, until it has no object there.
    async fn until_target_has(&self, id: &str, place: &str, uid: Option<&str>) {
        let what = format!("{id} {place} {uid:?}");
        until(&what, || self.target.uid(id, place).as_deref() == uid).await;
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn map(place: &str, uid: &str, value: &str) -> Value {
    let mut map = object(place, uid);
    map["data"] = json!({"k": value});
    map
}

/// Has the server refuse imports to `path`.
fn refuse(fake: &Fake, path: &'static str) {
    fake.script(move |call, _| {
        let is_it = call.starts_with("PUT ") && call.contains(path);
        is_it.then(|| (422, json!({"message": "it does not fit"})))
    });
}
