//! A client that lists: in pages on changing members, at the newest version, at any version and at older ones.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::error::ApiError;
use orch_api::index::Way;
use orch_api::pipeline::{Answer, ListAnswer};
use orch_api::request::Verb;
use orch_raft::Revision;

use super::wire;
use crate::sim::history::Version;
use crate::sim::ledger::{MIRRORS, THINGS};
use crate::sim::server::Ask;
use crate::sim::session::{Driver, Gone, Session};
use crate::sim::sightings::{Filter, Listed};
use crate::sim::things;

/// Longest time between two lists.
const THINK_MS_MAX: u64 = 150;

/// Revisions that a list may go back: sometimes beyond the history.
const BACK_MAX: u64 = 80;

/// Lists of which one is by the value of a label: every run goes through the indexes of the state.
const BY_LABEL_EVERY: u64 = 4;

/// Attempts at one page on one member after another.
const PAGE_ATTEMPTS_MAX: u32 = 6;

/// A listing client.
pub struct Lister;

impl Driver for Lister {
    fn name(&self) -> &'static str {
        "lister"
    }

    fn drive(self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            for turn in 0_u64.. {
                if !session.world().is_busy() {
                    return;
                }
                session.think(THINK_MS_MAX).await;
                let dice = session.dice();
                let storage = if dice.percent(30) { MIRRORS } else { THINGS };
                let picked = pick_filter(&session, storage);
                let filter = if turn.is_multiple_of(BY_LABEL_EVERY) { Filter::Labelled } else { picked };
                let known = session.world().acknowledged().0;
                let back = dice.number(0..BACK_MAX);
                let (options, not_before) = match dice.number(0..10) {
                    0..5 => (String::new(), known),
                    5..6 => ("resourceVersion=0".to_owned(), 0),
                    6..8 => {
                        let revision = known.saturating_sub(back).max(1);
                        (format!("resourceVersion={revision}&resourceVersionMatch=Exact"), revision)
                    }
                    _ => {
                        let revision = (known + dice.number(0..4)).max(1);
                        (format!("resourceVersion={revision}&resourceVersionMatch=NotOlderThan"), revision)
                    }
                };
                if let Some(listed) = list(&session, storage, filter, &options, Revision(not_before)).await {
                    session.world().record_list(listed);
                }
            }
        }
        .boxed()
    }
}

/// A random filter for a list or a watch.
pub(super) fn pick_filter(session: &Session, storage: &str) -> Filter {
    match session.dice().number(0..7) {
        0 => Filter::All,
        1 => Filter::Marked,
        // Only mirrors have a selectable field.
        2 if storage == MIRRORS => Filter::Numbered,
        2 | 3 => Filter::Labelled,
        4 => Filter::Namespace(Arc::from(things::NAMESPACE)),
        5 => Filter::Name(Arc::from("a")),
        _ => Filter::Path(Arc::from("things/a")),
    }
}

/// The request for all objects that `filter` admits.
pub(super) fn collection(verb: Verb, storage: &'static str, filter: &Filter, options: &str) -> Ask {
    let (namespace, selector) = match filter {
        Filter::All => (String::new(), String::new()),
        Filter::Marked => (String::new(), "labelSelector=mark&".to_owned()),
        Filter::Labelled => (String::new(), "labelSelector=mark%3Dyes&".to_owned()),
        Filter::Numbered => {
            (String::new(), format!("fieldSelector={}%3D{}&", things::MARKED_FIELD, things::MARKED_VALUE))
        }
        Filter::Name(name) => (String::new(), format!("fieldSelector=metadata.name={name}&")),
        Filter::Namespace(namespace) => (namespace.to_string(), String::new()),
        Filter::Path(path) => {
            let (namespace, name) = path.split_once('/').unwrap_or(("", path));
            (namespace.to_owned(), format!("fieldSelector=metadata.name={name}&"))
        }
    };
    Ask::new(verb, storage, &namespace, "").query(format!("{selector}{options}"))
}

/// Lists in pages of a random size, each page on a random member. `None` if no consistent list could be had.
pub(super) async fn list(
    session: &Session,
    storage: &'static str,
    filter: Filter,
    options: &str,
    not_before: Revision,
) -> Option<Listed> {
    let limit = [0, 0, 1, 2, 3, 500][session.dice().index(6)];
    let paging = if limit > 0 { format!("&limit={limit}") } else { String::new() };
    let mut items: Vec<(Arc<str>, Version)> = Vec::new();
    let mut token: Option<String> = None;
    let (mut revision, mut way) = (None, Way::Scan);
    loop {
        let options = match &token {
            Some(token) => format!("continue={token}{paging}"),
            None => format!("{options}{paging}"),
        };
        let ask = collection(Verb::List, storage, &filter, &options);
        let page = page(session, &ask).await?;
        let read = page.objects.iter().map(|object| wire::item(&object.json));
        let Some(read) = read.collect::<Option<Vec<_>>>() else {
            session.world().fail(format_args!("a list of {storage} holds an object that cannot be read"));
            return None;
        };
        items.extend(read);
        if page.effort.way == Way::Index {
            way = Way::Index;
        }
        let first = *revision.get_or_insert(page.revision);
        if page.revision != first {
            let (one, other) = (first, page.revision);
            session.world().fail(format_args!("pages of one list are as of {one} and of {other}"));
            return None;
        }
        token = page.continue_token;
        if token.is_none() {
            break;
        }
    }
    let revision = revision?;
    session.world().acknowledge(revision);
    let (count, client) = (items.len(), session.client());
    session.world().trace().event(format_args!("c{client} list {storage} {filter:?} at {revision}: {count}"));
    Some(Listed { resource: Arc::from(storage), filter, revision, not_before, items, way })
}

/// Requests one page, from one member after another. `None`: its continue token has expired, or no member answers.
async fn page(session: &Session, ask: &Ask) -> Option<ListAnswer> {
    for _ in 0..PAGE_ATTEMPTS_MAX {
        let node = session.pick();
        match session.ask(node, ask).await {
            Ok(Ok(Answer::List(list))) => return Some(list),
            Ok(Err(ApiError::Expired { .. })) => return None,
            Ok(Err(ApiError::Unavailable(_) | ApiError::RevisionTooLarge { .. }))
            | Err(Gone::NotSent | Gone::Lost) => {
                session.think(20).await;
            }
            Ok(Err(error)) => {
                session.world().fail(format_args!("n{} refuses {ask:?}: {error}", node.0));
                return None;
            }
            Ok(Ok(_)) => {
                session.world().fail("a list is answered with something else");
                return None;
            }
        }
    }
    None
}
