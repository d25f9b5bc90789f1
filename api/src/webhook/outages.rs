//! Outages: the webhooks that do not answer this node, for events and for the status of the cluster.
//!
//! Owns the list and its news, no decision: how a webhook becomes a dead one is `admission::webhook::health`'s, which holds each
//! outage as long as it lasts. An outage whose webhook is stored no more leaves the list by itself.
//!
//! Invariant: the list and the news have bounds, whatever configurations there are; beyond them outages are left out here, and
//! still count in metrics.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use orch_schema::excerpt::part;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ambient::Timestamp;

/// Outages in the list: more than an operator reads. Each takes about a kilobyte.
const OUTAGES_MAX: usize = 256;

/// News that nobody has taken yet: an end for each outage, and a beginning.
const NEWS_MAX: usize = 2 * OUTAGES_MAX;

/// A webhook that does not answer.
#[derive(Debug)]
pub struct Outage {
    /// Kind of the configuration.
    pub kind: &'static str,
    /// Storage resource of the configuration.
    pub(crate) resource: &'static str,
    /// Name of the configuration.
    pub configuration: Arc<str>,
    /// Name of the webhook in it.
    pub webhook: Box<str>,
    /// Whether its failures refuse writes.
    pub refuses: bool,
    /// The time at which this node took it for dead.
    pub since: Timestamp,
    calls: AtomicU64,
    reason: Mutex<String>,
}

/// A change of the list.
#[derive(Debug)]
pub(crate) enum News {
    /// An outage began; dangling where it has ended, or its configuration has changed.
    Began(Weak<Outage>),
    /// The webhook answers again.
    Ended(Arc<Outage>),
}

/// The outages of a node. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lists: Mutex<Lists>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Lists {
    // Invariant: at most OUTAGES_MAX.
    known: Vec<Weak<Outage>>,
    // Invariant: at most NEWS_MAX.
    news: VecDeque<News>,
}

impl Outage {
    /// An outage of the webhook `webhook` of a configuration that begins at `since`, for `reason`, after `calls` calls.
    pub(crate) fn new(
        (kind, resource): (&'static str, &'static str),
        (configuration, webhook): (&Arc<str>, &str),
        refuses: bool,
        since: Timestamp,
        (calls, reason): (u64, &str),
    ) -> Outage {
        Outage {
            kind,
            resource,
            configuration: configuration.clone(),
            webhook: webhook.into(),
            refuses,
            since,
            calls: AtomicU64::new(calls),
            reason: Mutex::new(part(reason).into_owned()),
        }
    }

    /// Calls without an answer, those that began the outage included.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The reason why the last call has no answer.
    pub fn reason(&self) -> String {
        self.reason.lock().clone()
    }

    /// Notes a further call without an answer.
    pub(crate) fn note_call(&self, reason: &str) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.reason.lock() = part(reason).into_owned();
    }
}

impl Outages {
    /// Lists `outage` for as long as the result is held.
    pub(crate) fn begin(&self, outage: Outage) -> Arc<Outage> {
        let outage = Arc::new(outage);
        let mut lists = self.0.lists.lock();
        lists.known.retain(|known| known.strong_count() > 0);
        if lists.known.len() < OUTAGES_MAX {
            lists.known.push(Arc::downgrade(&outage));
            lists.tell(News::Began(Arc::downgrade(&outage)));
        }
        drop(lists);
        self.0.changed.notify_one();
        outage
    }

    /// Takes `outage` from the list: its webhook answers.
    pub(crate) fn end(&self, outage: Arc<Outage>) {
        let mut lists = self.0.lists.lock();
        let before = lists.known.len();
        lists.known.retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(&outage)));
        if lists.known.len() < before {
            lists.tell(News::Ended(outage));
        }
        drop(lists);
        self.0.changed.notify_one();
    }

    /// The outages that last, by configuration and webhook.
    pub fn all(&self) -> Vec<Arc<Outage>> {
        let mut all: Vec<Arc<Outage>> = self.0.lists.lock().known.iter().filter_map(Weak::upgrade).collect();
        all.sort_by(|a, b| {
            (&a.configuration, &a.webhook, a.kind).cmp(&(&b.configuration, &b.webhook, b.kind))
        });
        all
    }

    /// Takes the news since the last call, the oldest first.
    pub(crate) fn take_news(&self) -> VecDeque<News> {
        mem::take(&mut self.0.lists.lock().news)
    }

    /// Waits for news. For one loop: a second one that waits would miss them.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

impl Lists {
    fn tell(&mut self, news: News) {
        if self.news.len() == NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outage(webhook: &str) -> Outage {
        let of = ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations.admissionregistration");
        Outage::new(of, (&"c".into(), webhook), true, Timestamp(1), (3, "refused"))
    }

    #[test]
    fn an_outage_is_listed_until_its_webhook_answers_or_is_gone() {
        let outages = Outages::default();
        let (b, a) = (outages.begin(outage("b")), outages.begin(outage("a")));
        let names =
            || -> Vec<String> { outages.all().iter().map(|outage| outage.webhook.to_string()).collect() };
        assert_eq!(names(), ["a", "b"]);
        a.note_call("hangs");
        assert_eq!((a.calls(), a.reason().as_str(), b.calls()), (4, "hangs", 3));
        drop(b);
        assert_eq!(names(), ["a"], "its configuration has changed");
        outages.end(a);
        assert!(outages.all().is_empty());
        let news: Vec<bool> = outages.take_news().iter().map(|news| matches!(news, News::Ended(_))).collect();
        assert_eq!(news, [false, false, true]);
        assert!(outages.take_news().is_empty());
    }

    #[test]
    fn the_list_and_the_news_have_bounds() {
        let outages = Outages::default();
        let held: Vec<Arc<Outage>> =
            (0..OUTAGES_MAX + 5).map(|at| outages.begin(outage(&at.to_string()))).collect();
        assert_eq!(outages.all().len(), OUTAGES_MAX);
        for outage in held {
            outages.end(outage);
        }
        assert_eq!(outages.take_news().len(), NEWS_MAX);
    }
}
