//! Connections to one server, as many as requests run at once.
//!
//! Owns who has which connection. Which server of several is asked, and repetitions, are `Session`'s.

use parking_lot::Mutex;
use serde_json::Value;

use crate::admin::{Access, Call, Reply, Session, escaped};

/// Requests under way to one server. A sync to disk is shared by those that run at once; more would take seats from the clients that
/// the servers are there for.
pub(super) const UNDER_WAY_MAX: usize = 16;

/// Objects of one page of a list: with all that objects may have, they fit into an answer of a session.
const PAGE: usize = 40;

/// Lists that were broken off by their age, before an import gives up.
const RESTARTS_MAX: usize = 5;

/// The connections that are kept to one of the servers of an access.
pub(super) struct Pool<'a> {
    pub(super) access: &'a Access,
    idle: Mutex<Vec<Session<'a>>>,
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
}

/// The place in a list that is read page by page.
#[derive(Default)]
pub(super) struct Cursor {
    token: String,
    restarts: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn new(access: &'a Access) -> Self {
        Pool { access, idle: Mutex::default() }
    }

    /// The answer to `call`.
    ///
    /// # Errors
    /// No server gave one for half a minute.
    pub(super) async fn ask(&self, call: &Call) -> anyhow::Result<Reply> {
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
        loop {
            let is_first = cursor.token.is_empty();
            let call = format!("{path}?limit={PAGE}&continue={}", escaped(&cursor.token));
            let mut reply = self.ask(&Call::get(call)).await?;
            match reply.status.as_u16() {
                200 => {}
                404 | 405 => return Ok(None),
                410 if !is_first && cursor.restarts < RESTARTS_MAX => {
                    *cursor = Cursor { token: String::new(), restarts: cursor.restarts + 1 };
                    continue;
                }
                _ => anyhow::bail!("{path}: {}", reply.message()),
            }
            let text = |field: &str| reply.body["metadata"][field].as_str().unwrap_or_default().to_owned();
            let (version, next) = (text("resourceVersion"), text("continue"));
            let items = match reply.body["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            cursor.token = next.clone();
            return Ok(Some(Page { items, version, next, is_first }));
        }
    }
}
