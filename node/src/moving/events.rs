//! A change of the source, brought to the target.
//!
//! Owns the reading of one watch, and what has to come before an object: its namespace and its owners, whose events come over
//! other watches.

use std::collections::BTreeSet;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::Move;
use super::copy::{Survey, is_namespaces};
use super::kinds::{Kind, definitions_id, place_of};
use super::owners::Owner;
use super::waiting::{Found, Pending, Waiting};
use crate::admin::open_stream;

/// Longest life of a watch, in seconds: the source ends it, and the next one goes on.
const WATCH_S: u64 = 300;
/// Longest silence of a watch; the source ends it before.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_S + 60);
/// Bytes of one event: an object of the greatest size with all escapes.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Longest wait for the events of owners that the source has; then they are copied first.
const COMING_MAX: Duration = Duration::from_secs(5);
/// Longest wait until the target serves the kind of an owner by its definition, which takes milliseconds as a rule.
const IN_FORCE_MAX: Duration = Duration::from_secs(20);
/// Longest wait for a namespace, without which the object would be refused: its watch may have to be begun anew.
const HOME_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether they came.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same where a server has to be asked.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Changes of a kind between two notes of its version in the state file.
const CHANGES_A_NOTE: u32 = 100;

/// Why a watch ended.
pub(super) enum Ended {
    /// It goes on with another one.
    Closed,
    /// The source has forgotten the version: the list is to be read again.
    Gap,
    /// The kind is not served any more.
    Unserved,
    /// The definition of the kind was removed: another one may have brought it back.
    Undeclared,
}

/// What became of the wait for a namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    There,
    /// It did not come in time, or the target refused it.
    Missing,
    /// The source has no such namespace, or is deleting it.
    Gone,
}

impl Move<'_> {
    /// Copies the changes of one watch of `kind` from `version` on.
    pub(super) async fn watch_once(
        &self,
        kind: &Kind,
        id: &str,
        version: &str,
        server: &str,
    ) -> Result<Ended, Broken> {
        let list = kind.list();
        let path = format!(
            "{list}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        );
        let response = open_stream(self.source.access, server, &path).await.map_err(Broken::Again)?;
        match response.status().as_u16() {
            200 => self.source.note_service(),
            410 => return Ok(Ended::Gap),
            404 | 405 => return Ok(Ended::Unserved),
            401 | 403 => return Err(Broken::Refused(format!("{server} refuses to have {id} watched"))),
            _ => return Err(Broken::Again(response.status().to_string())),
        }
        let (mut lines, mut changes) = (Lines::new(response.into_body()), 0);
        loop {
            if self.copied.lock().is_undeclared(id) {
                return Ok(Ended::Undeclared);
            }
            let event = tokio::select! {
                event = lines.next() => event?,
                () = self.is_undeclared.notified() => continue,
            };
            let Some(event) = event else { return Ok(Ended::Closed) };
            let object = &event["object"];
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let is_change = match event["type"].as_str().unwrap_or_default() {
                "ADDED" | "MODIFIED" => {
                    self.apply(kind, id, object.clone()).await.map_err(Broken::Final)?;
                    true
                }
                "DELETED" => {
                    self.apply_end(kind, id, object).await.map_err(Broken::Final)?;
                    true
                }
                "BOOKMARK" => false,
                _ if object["code"] == 410 => return Ok(Ended::Gap),
                _ => return Err(Broken::Again(object["message"].to_string())),
            };
            changes += u32::from(is_change);
            if is_change && changes % CHANGES_A_NOTE != 0 {
                self.copied.lock().set_version(id, &version);
            } else {
                self.finish(id, &version).map_err(Broken::Final)?;
            }
        }
    }

    /// Brings the target's object up to `object`.
    async fn apply(&self, kind: &Kind, id: &str, object: Value) -> anyhow::Result<()> {
        self.look_at_endings(std::slice::from_ref(&object)).await?;
        if !self.is_moving(kind, id, &object) {
            return Ok(());
        }
        let later = Waiting::of(self.brand, kind, &object);
        // What is in no namespace of the source any more is gone, or goes: its end follows.
        if self.wait_for_home(kind, later.namespace()).await? == Home::Gone {
            return Ok(());
        }
        let have_come = self.have_owners_come(&later.owners, later.namespace()).await?;
        // An owner that is absent at the source, too, may be one that the object has left behind since.
        let is_current = have_come && self.copied.lock().are_present(&later.owners);
        let late = if is_current { self.send_object(kind, id, object).await? } else { Some(later) };
        match late {
            None => self.copy_later_ones().await?,
            Some(later) => self.copy_waiting(vec![later], Pending::Nothing).await?,
        }
        if id == definitions_id(self.brand) {
            self.is_declared.notify_one();
        }
        Ok(())
    }

    /// Removes `object`, which the source has deleted.
    async fn apply_end(&self, kind: &Kind, id: &str, object: &Value) -> anyhow::Result<()> {
        let (place, uid) = (place_of(object), object["metadata"]["uid"].as_str().unwrap_or_default());
        if is_namespaces(kind) {
            self.copied.lock().note_lasting(&place);
        }
        // Another object of the name may have been copied ahead of its event.
        let is_other = self.copied.lock().has_other_at((id, &place), uid);
        if !is_other {
            self.apply_removal(kind, id, &place).await?;
        }
        self.copy_later_ones().await
    }

    /// Copies what a removal has put off.
    async fn copy_later_ones(&self) -> anyhow::Result<()> {
        let is_empty = self.later.lock().is_empty();
        if is_empty { Ok(()) } else { self.copy_waiting(Vec::new(), Pending::Nothing).await }
    }

    /// Waits for the events of `owners`, as long as the source has them. False: some did not come in time.
    async fn have_owners_come(&self, owners: &[Owner], namespace: &str) -> anyhow::Result<bool> {
        let began = Instant::now();
        loop {
            let unsettled: Vec<Owner> = {
                let copied = self.copied.lock();
                let is_settled = |owner: &&Owner| copied.are_settled(std::slice::from_ref(*owner));
                owners.iter().filter(|owner| !is_settled(owner)).cloned().collect()
            };
            let Some(owner) = unsettled.first() else { return Ok(true) };
            if self.copied.lock().barrier(&unsettled).is_some() {
                return Ok(false);
            }
            // A kind may have come with its first objects, behind the last survey.
            if !self.kinds.lock().knows(owner) {
                self.survey(Survey::Now).await?;
            }
            let found = self.find(owner, namespace).await?;
            let is_settled = self.copied.lock().are_settled(std::slice::from_ref(owner));
            if is_settled {
                continue;
            }
            match found {
                // It is on its way.
                Found::Moving(_) => {}
                Found::Unserved(id)
                    if began.elapsed() < IN_FORCE_MAX && self.comes_into_force(&id).await? =>
                {
                    self.is_declared.notify_one();
                    sleep(ASK_EVERY).await;
                    continue;
                }
                Found::Unserved(_) | Found::Gone => return Ok(false),
            }
            while !self.copied.lock().are_present(std::slice::from_ref(owner)) {
                if began.elapsed() > COMING_MAX {
                    return Ok(false);
                }
                sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Whether the source has a definition of the kind called `id`, which the target has not refused.
    async fn comes_into_force(&self, id: &str) -> anyhow::Result<bool> {
        let Some(definitions) = self.kind(&definitions_id(self.brand)) else { return Ok(false) };
        let at = (definitions.id(), id.to_owned());
        if self.copied.lock().refusals().contains_key(&at) {
            return Ok(false);
        }
        Ok(self.source.document(&definitions.path_of(id)).await?.is_some())
    }

    /// Waits until `namespace` is at the target, as long as it is on its way there.
    async fn wait_for_home(&self, kind: &Kind, namespace: &str) -> anyhow::Result<Home> {
        let (began, mut next_question) = (Instant::now(), Instant::now() + LOOK_EVERY);
        let at = ("namespaces".to_owned(), namespace.to_owned());
        while began.elapsed() < HOME_MAX {
            {
                let copied = self.copied.lock();
                if copied.has_home(kind, namespace) {
                    return Ok(Home::There);
                }
                if copied.refusals().contains_key(&at) {
                    return Ok(Home::Missing);
                }
            }
            if Instant::now() >= next_question {
                let found = self.source.document(&format!("/api/v1/namespaces/{namespace}")).await?;
                if found.is_none_or(|found| found["metadata"]["deletionTimestamp"].is_string()) {
                    return Ok(Home::Gone);
                }
                next_question = Instant::now() + ASK_EVERY;
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(Home::Missing)
    }

    /// Waits until the target serves `kind` by its new definition, as long as the source has one.
    pub(super) async fn wait_until_served(&self, kind: &Kind) -> anyhow::Result<()> {
        let (id, began) = (kind.id(), Instant::now());
        let Some(definitions) = self.kind(&definitions_id(self.brand)) else { return Ok(()) };
        while began.elapsed() < HOME_MAX {
            let is_stored = self.copied.lock().is_present_at((&definitions.id(), &id));
            if is_stored && self.target.document(&format!("{}?limit=1", kind.list())).await?.is_some() {
                break;
            }
            if self.source.document(&definitions.path_of(&id)).await?.is_none() {
                break;
            }
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until the namespaces of listed objects that wait are at the target: they come over the watch of namespaces.
    pub(super) async fn wait_for_homes(&self, kind: &Kind, waiting: &[Waiting]) -> anyhow::Result<()> {
        let homes: BTreeSet<&str> = waiting.iter().map(Waiting::namespace).collect();
        for namespace in homes {
            self.wait_for_home(kind, namespace).await?;
        }
        Ok(())
    }
}

/// Why a watch did not go on.
pub(super) enum Broken {
    /// Another attempt may succeed.
    Again(String),
    /// The source refuses this user.
    Refused(String),
    Final(anyhow::Error),
}

/// The events of a watch, one a line.
struct Lines {
    body: Incoming,
    /// What was received and is not taken.
    buffer: Vec<u8>,
    /// Bytes of it without an end of line.
    searched: usize,
}

impl Lines {
    fn new(body: Incoming) -> Self {
        Lines { body, buffer: Vec::new(), searched: 0 }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Result<Option<Value>, Broken> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                let event = serde_json::from_slice(&line);
                return event.map(Some).map_err(|error| Broken::Again(error.to_string()));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Err(Broken::Again(format!("an event of more than {EVENT_BYTES_MAX} bytes")));
            }
            let frame = timeout(SILENCE_MAX, self.body.frame()).await;
            match frame.map_err(|_| Broken::Again("it is silent".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(Broken::Again(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
