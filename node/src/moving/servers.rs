//! Connections to one server, as many as requests run at once, and the patience with it.
//!
//! Owns who has which connection, lists page by page, and how long a server may be away. Which server of several is asked, and
//! repetitions within half a minute, are `Session`'s.
//!
//! A copy ends where a server does not answer for half a minute: the same command goes on with it. While changes are followed, outages are
//! waited for without end, because a copy that has ended misses them; a refusal of this user (401, 403) for ten minutes, because it
//! seldom mends itself.

use std::time::Duration;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::admin::{Access, Call, Reply, Session, escaped};

/// Requests under way to one server. A sync to disk is shared by those that run at once; more would take seats from the clients that
/// the servers are there for.
pub(super) const UNDER_WAY_MAX: usize = 16;

/// Objects of one page of a list: with all that objects may have, they fit into an answer of a session.
const PAGE: usize = 40;

/// Lists that were begun anew because of their age, before an import gives up.
pub(super) const RESTARTS_MAX: usize = 5;

/// The pause after the first attempt of a patient request; each is twice as long as the last one, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest refusal of this user, or failure of a read, that a patient request waits for.
pub(super) const REFUSAL_MAX: Duration = Duration::from_secs(600);

/// The connections that are kept to one of the servers of an access.
pub(super) struct Pool<'a> {
    pub(super) access: &'a Access,
    idle: Mutex<Vec<Session<'a>>>,
    patience: Mutex<Patience>,
}

/// How requests wait for a server that does not serve.
#[derive(Debug, Default)]
struct Patience {
    is_endless: bool,
    outage: Option<Outage>,
}

/// A time in which a server does not serve.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) since: Instant,
    pub(super) reason: String,
}

/// A page of a list.
pub(super) struct Page {
    pub(super) items: Vec<Value>,
    /// The version of the list.
    pub(super) version: String,
    /// Token of the next page; empty at the end.
    pub(super) next: String,
    /// The list was begun anew: pages before this one do not count.
    pub(super) is_first: bool,
    /// The source forgot the version of the first pages, and the list went on at a later one: it is of no moment.
    pub(super) is_torn: bool,
}

/// The place in a list that is read page by page.
#[derive(Default)]
pub(super) struct Cursor {
    token: String,
    restarts: usize,
    is_torn: bool,
}

/// The growing pause between two attempts.
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) fn new() -> Self {
        Pause(PAUSE_FIRST)
    }

    pub(super) async fn wait(&mut self) {
        sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

impl<'a> Pool<'a> {
    pub(super) fn new(access: &'a Access) -> Self {
        Pool { access, idle: Mutex::default(), patience: Mutex::default() }
    }

    /// Has requests wait for the server without end, or no longer.
    pub(super) fn set_patience(&self, is_endless: bool) {
        *self.patience.lock() = Patience { is_endless, outage: None };
    }

    /// The outage that lasts.
    pub(super) fn outage(&self) -> Option<Outage> {
        self.patience.lock().outage.clone()
    }

    /// Notes that the server does not serve, for `reason`.
    pub(super) fn note_outage(&self, reason: String) {
        let mut patience = self.patience.lock();
        let since = patience.outage.take().map_or_else(Instant::now, |outage| outage.since);
        patience.outage = Some(Outage { since, reason });
    }

    /// Notes that the server serves.
    pub(super) fn note_service(&self) {
        self.patience.lock().outage = None;
    }

    /// The answer to `call`.
    ///
    /// # Errors
    /// No server gave one for half a minute. With endless patience never.
    pub(super) async fn ask(&self, call: &Call) -> anyhow::Result<Reply> {
        let (began, mut pause) = (Instant::now(), Pause::new());
        loop {
            let reply = self.ask_once(call).await;
            if !self.patience.lock().is_endless {
                return reply;
            }
            let reason = match reply {
                Ok(reply) if !is_worth_waiting(call, reply.status, began.elapsed()) => {
                    self.note_service();
                    return Ok(reply);
                }
                Ok(reply) => reply.message(),
                Err(error) => error.to_string(),
            };
            self.note_outage(reason);
            pause.wait().await;
        }
    }

    async fn ask_once(&self, call: &Call) -> anyhow::Result<Reply> {
        let kept = self.idle.lock().pop();
        let mut session = kept.unwrap_or_else(|| Session::new(self.access));
        let reply = session.ask(call).await?;
        let mut idle = self.idle.lock();
        if idle.len() < UNDER_WAY_MAX {
            idle.push(session);
        }
        Ok(reply)
    }

    /// The document at `path`; `None` where there is none.
    ///
    /// # Errors
    /// The server refuses it, or gives no answer.
    pub(super) async fn document(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let reply = self.ask(&Call::get(path.to_owned())).await?;
        match reply.status.as_u16() {
            200 => Ok(Some(reply.body)),
            404 | 405 => Ok(None),
            _ => anyhow::bail!("{path}: {}", reply.message()),
        }
    }

    /// The page of the list at `path` that `cursor` stands at; `None` where there is no such list.
    ///
    /// # Errors
    /// The server refuses it, gives no answer, or forgets the list faster than it is read.
    pub(super) async fn page(&self, path: &str, cursor: &mut Cursor) -> anyhow::Result<Option<Page>> {
        let mut went_on = false;
        loop {
            let is_first = cursor.token.is_empty();
            let call = format!("{path}?limit={PAGE}&continue={}", escaped(&cursor.token));
            let mut reply = self.ask(&Call::get(call)).await?;
            let text = |field: &str| reply.body["metadata"][field].as_str().unwrap_or_default().to_owned();
            let (version, next) = (text("resourceVersion"), text("continue"));
            match reply.status.as_u16() {
                200 => {}
                404 | 405 => return Ok(None),
                // The refusal may hold a token to go on with at a later version, behind the last object.
                410 if !is_first && !next.is_empty() && !went_on => {
                    went_on = true;
                    (cursor.token, cursor.is_torn) = (next, true);
                    continue;
                }
                410 if !is_first && cursor.restarts < RESTARTS_MAX => {
                    let restarts = cursor.restarts + 1;
                    *cursor = Cursor { token: String::new(), restarts, is_torn: false };
                    continue;
                }
                _ => anyhow::bail!("{path}: {}", reply.message()),
            }
            let items = match reply.body["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            cursor.token.clone_from(&next);
            return Ok(Some(Page { items, version, next, is_first, is_torn: cursor.is_torn }));
        }
    }
}

/// Whether a patient request is sent again after an answer of this status, `waited` after its first attempt.
fn is_worth_waiting(call: &Call, status: StatusCode, waited: Duration) -> bool {
    let is_read = call.method == Method::GET;
    match status {
        // Somebody has to make room.
        StatusCode::INSUFFICIENT_STORAGE => true,
        StatusCode::UNAUTHORIZED => waited < REFUSAL_MAX,
        StatusCode::FORBIDDEN | StatusCode::INTERNAL_SERVER_ERROR => is_read && waited < REFUSAL_MAX,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patient_request_waits_for_what_may_mend_itself() {
        let (read, write) =
            (Call::get("/x".to_owned()), Call::with_document(Method::PUT, "/x".to_owned(), &json!({})));
        let is_worth = |call: &Call, status: u16, waited: Duration| {
            is_worth_waiting(call, StatusCode::from_u16(status).unwrap(), waited)
        };
        assert!(is_worth(&read, 401, Duration::ZERO) && is_worth(&read, 403, Duration::ZERO));
        assert!(!is_worth(&read, 401, REFUSAL_MAX) && !is_worth(&read, 403, REFUSAL_MAX));
        assert!(!is_worth(&write, 403, Duration::ZERO), "one object may be refused");
        assert!(is_worth(&write, 507, REFUSAL_MAX * 9));
        assert!(!is_worth(&read, 404, Duration::ZERO) && !is_worth(&write, 422, Duration::ZERO));
    }
}
