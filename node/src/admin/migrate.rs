//! `orch cluster migrate-storage`: touches every object of a custom kind, so that it is stored in the storage version, and trims
//! `status.storedVersions` of the definition.
//!
//! Owns the order and the proof that the trimmed versions are no longer stored anywhere:
//!
//!     definition read, with its generation -> every object touched (an empty patch) -> definition read again
//!         -> of the same generation: status written under the condition of that reading
//!         -> of another one with the same storage version: once more, which writes only what is left
//!
//! A server that lags would find an object to be as its own older definition wants it. So nothing is asked of a server before it
//! has shown the definition, in a read that a quorum confirmed. From then on its writes depend on that definition or a newer one.
//!
//! It keeps no state: objects in the storage version are not written again, so that a run after a break goes on by itself.

mod definition;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use self::definition::Definition;
use super::access::Access;
use super::session::{Call, MERGE_PATCH, OnConflict, Reply, Session};
use crate::cli::MigrateArgs;

/// Objects of one page of a list: with all metadata that objects may have, they fit into an answer (`session`).
const PAGE: usize = 40;
/// Passes over the objects, where the definition keeps changing: each after the first writes only what is left.
const PASSES_MAX: usize = 5;
/// Attempts to write the status, between which others wrote the definition.
const TRIMS_MAX: usize = 10;
/// Connections for one request: each but the last ended after the definition was read over it.
const TURNS_MAX: usize = 16;
/// Failures that are told one by one.
const TOLD_MAX: usize = 10;
/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Migrates the objects of the kind that `arguments` name.
///
/// # Errors
/// The kind is not a custom one, an object could not be written, or the definition changed.
pub fn migrate_storage(arguments: &MigrateArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let access = Access::of(&arguments.access)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { Migration::new(&access, arguments).await?.run(out).await })
}

/// The objects that a pass has reached.
#[derive(Debug, Default)]
struct Tally {
    /// Objects in the list, as far as the server told.
    expected: u64,
    reached: u64,
    rewritten: u64,
    /// Deleted between the list and the touch.
    gone: u64,
    failed: u64,
    /// The first failures.
    failures: Vec<String>,
}

impl Tally {
    fn progress(&self) -> String {
        let expected = self.expected.max(self.reached);
        format!("{} of about {expected} objects, {} rewritten", self.reached, self.rewritten)
    }

    fn result(&self, storage: &str) -> String {
        let current = self.reached - self.rewritten - self.gone - self.failed;
        let gone = match self.gone {
            0 => String::new(),
            gone => format!(", {gone} were deleted meanwhile"),
        };
        format!(
            "{} objects: {} rewritten, {current} were already stored in {storage}{gone}",
            self.reached, self.rewritten
        )
    }
}

/// The outcome of touching one object.
#[derive(Debug, PartialEq, Eq)]
enum Touched {
    Rewritten,
    /// It is stored in the storage version.
    Current,
    Gone,
    Failed(String),
}

struct Migration<'a> {
    session: Session<'a>,
    name: &'a str,
    /// Domain of the built-in groups.
    domain: String,
    pace: Interval,
    /// Number of the connection over which the server has shown the definition of the pass.
    turn: u64,
}

impl<'a> Migration<'a> {
    async fn new(access: &'a Access, arguments: &'a MigrateArgs) -> anyhow::Result<Self> {
        let mut pace = interval(Duration::from_secs(1) / arguments.rate);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut session = Session::new(access);
        let groups = session.ask(&Call::get("/apis".to_owned())).await?;
        let domain = definition::domain(&groups.body).context("the server has no custom kinds")?;
        Ok(Migration { session, name: &arguments.definition, domain, pace, turn: 0 })
    }

    async fn run(&mut self, out: &mut impl Write) -> anyhow::Result<()> {
        let first = self.definition().await?;
        if first.is_trimmed() {
            return Ok(writeln!(out, "{}: every object is stored in {} already", self.name, first.storage)?);
        }
        let mut definition = first;
        for _ in 0..PASSES_MAX {
            let tally = self.pass(&definition, out).await?;
            let storage = definition.storage.clone();
            if let Some(tally) = &tally {
                writeln!(out, "{}", tally.result(&storage))?;
                self.check(tally)?;
            }
            let now = self.definition().await?;
            now.check_follows(&definition)?;
            if tally.is_some() && now.is_same(&definition) && self.trim(now.clone()).await? {
                return Ok(writeln!(out, "status.storedVersions of {} is {storage} alone", self.name)?);
            }
            writeln!(out, "the definition was changed meanwhile, and not its storage version: once more")?;
            definition = self.definition().await?;
            definition.check_follows(&now)?;
        }
        bail!(
            "the definition was changed in each of {PASSES_MAX} passes; give the command again when that has ended"
        )
    }

    /// Refuses to trim after a pass that did not reach every object.
    fn check(&self, tally: &Tally) -> anyhow::Result<()> {
        if tally.failed == 0 {
            return Ok(());
        }
        let more = match tally.failed.saturating_sub(u64::try_from(tally.failures.len())?) {
            0 => String::new(),
            more => format!("\n  and {more} more"),
        };
        let told = tally.failures.join("\n  ");
        bail!(
            "{} objects could not be written, so status.storedVersions stays:\n  {told}{more}",
            tally.failed
        )
    }

    /// Touches every object. `None`: the definition has changed, and the rest was not touched.
    async fn pass(&mut self, definition: &Definition, out: &mut impl Write) -> anyhow::Result<Option<Tally>> {
        let (mut tally, mut token, mut told) = (Tally::default(), String::new(), Instant::now());
        let accept = self.accept("PartialObjectMetadataList");
        self.turn = definition.turn;
        loop {
            let path = format!("{}?limit={PAGE}&continue={}", definition.path, escaped(&token));
            let list = Call { accept: accept.clone(), ..Call::get(path) };
            let Some(Reply { status, body, .. }) = self.ask_under(definition, &list).await? else {
                return Ok(None);
            };
            let metadata = &body["metadata"];
            // Objects created since the first page are stored as the definition says now: an inconsistent rest is as good.
            if status != StatusCode::OK && status != StatusCode::GONE {
                bail!("{}: {}", definition.path, body["message"].as_str().unwrap_or(status.as_str()));
            }
            if token.is_empty() {
                let items = body["items"].as_array().map_or(0, Vec::len);
                tally.expected = metadata["remainingItemCount"].as_u64().unwrap_or(0) + u64::try_from(items)?;
            }
            for item in body["items"].as_array().into_iter().flatten() {
                self.pace.tick().await;
                let Some(touched) = self.touch(definition, &item["metadata"]).await? else { return Ok(None) };
                count(&mut tally, touched);
                if told.elapsed() >= TELL_EVERY {
                    told = Instant::now();
                    writeln!(out, "{}", tally.progress())?;
                }
            }
            token = metadata["continue"].as_str().unwrap_or_default().to_owned();
            match (token.is_empty(), status == StatusCode::OK) {
                (true, true) => return Ok(Some(tally)),
                // The first page was another cluster's.
                (true, false) => bail!("the cluster was made anew meanwhile; give the command again"),
                (false, _) => {}
            }
        }
    }

    /// Has the server write one object in the storage version, if it is not. `None`: the definition has changed.
    async fn touch(&mut self, definition: &Definition, metadata: &Value) -> anyhow::Result<Option<Touched>> {
        let name = metadata["name"].as_str().unwrap_or_default();
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let touch = Call {
            method: Method::PATCH,
            path: definition.path_of(namespace, name),
            accept: self.accept("PartialObjectMetadata"),
            body: Bytes::from_static(b"{}"),
            body_type: MERGE_PATCH,
            on_conflict: OnConflict::Repeat,
        };
        let Some(reply) = self.ask_under(definition, &touch).await? else { return Ok(None) };
        let before = &metadata["resourceVersion"];
        Ok(Some(match reply.status {
            StatusCode::OK if reply.body["metadata"]["resourceVersion"] == *before => Touched::Current,
            StatusCode::OK => Touched::Rewritten,
            StatusCode::NOT_FOUND => Touched::Gone,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::INSUFFICIENT_STORAGE => {
                bail!("{} refuses: {}", self.session.server(), reply.message())
            }
            _ => {
                Touched::Failed(format!("{} {name}: {}", namespace, reply.message()).trim_start().to_owned())
            }
        }))
    }

    /// Leaves the storage version alone in the status, unless the definition's `spec` has changed since `definition` was read:
    /// `false`.
    async fn trim(&mut self, mut definition: Definition) -> anyhow::Result<bool> {
        for _ in 0..TRIMS_MAX {
            let metadata = json!({"uid": definition.uid, "resourceVersion": definition.revision});
            let patch = json!({"metadata": metadata, "status": {"storedVersions": [definition.storage]}});
            let path = format!("{}/status", self.path());
            let trim = Call { body_type: MERGE_PATCH, ..Call::with_document(Method::PATCH, path, &patch) };
            match self.session.ask(&trim).await? {
                reply if reply.status.is_success() => return Ok(true),
                reply if reply.status == StatusCode::CONFLICT => {}
                reply => bail!("{} refuses: {}", self.session.server(), reply.message()),
            }
            let now = self.definition().await?;
            now.check_follows(&definition)?;
            if !now.is_same(&definition) {
                return Ok(false);
            }
            if now.is_trimmed() {
                return Ok(true);
            }
            definition = now;
        }
        bail!("the status was written by others in each of {TRIMS_MAX} attempts; give the command again")
    }

    /// The answer to `call` of a server that has applied `definition`. `None`: it has another one.
    async fn ask_under(&mut self, definition: &Definition, call: &Call) -> anyhow::Result<Option<Reply>> {
        for _ in 0..TURNS_MAX {
            if let Some(reply) = self.session.ask_in(call, self.turn).await? {
                return Ok(Some(reply));
            }
            let now = self.definition().await?;
            if !now.is_same(definition) {
                return Ok(None);
            }
            self.turn = now.turn;
        }
        bail!("{}: it ends each connection after one answer", self.session.server())
    }

    /// The definition as a quorum has it.
    async fn definition(&mut self) -> anyhow::Result<Definition> {
        let reply = self.session.ask(&Call::get(self.path())).await?;
        match reply.status {
            StatusCode::OK => Definition::of(&reply.body, self.session.turn()),
            StatusCode::NOT_FOUND => bail!(
                "there is no definition {}: only kinds that a CustomResourceDefinition declares have a storage version that changes",
                self.name
            ),
            _ => bail!("{} refuses: {}", self.session.server(), reply.message()),
        }
    }

    fn path(&self) -> String {
        definition::path(&self.domain, self.name)
    }

    fn accept(&self, kind: &str) -> String {
        format!("application/json;as={kind};v=v1;g=meta.{}", self.domain)
    }
}

fn count(tally: &mut Tally, touched: Touched) {
    tally.reached += 1;
    match touched {
        Touched::Rewritten => tally.rewritten += 1,
        Touched::Current => {}
        Touched::Gone => tally.gone += 1,
        Touched::Failed(reason) => {
            tally.failed += 1;
            if tally.failures.len() < TOLD_MAX {
                tally.failures.push(reason);
            }
        }
    }
}

/// `text` as a value of a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte))
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_result_are_lines() {
        let mut tally = Tally { expected: 5, ..Tally::default() };
        count(&mut tally, Touched::Rewritten);
        count(&mut tally, Touched::Current);
        assert_eq!(tally.progress(), "2 of about 5 objects, 1 rewritten");
        count(&mut tally, Touched::Rewritten);
        count(&mut tally, Touched::Gone);
        assert_eq!(
            tally.result("v2"),
            "4 objects: 2 rewritten, 1 were already stored in v2, 1 were deleted meanwhile"
        );
        (0..20).for_each(|at| count(&mut tally, Touched::Failed(format!("ns w{at}: no"))));
        assert_eq!((tally.failed, tally.failures.len()), (20, TOLD_MAX));
    }

    #[test]
    fn tokens_stand_in_a_query() {
        assert_eq!(escaped("aB0-_.~"), "aB0-_.~");
        assert_eq!(escaped("a+/=&"), "a%2B%2F%3D%26");
    }
}
