//! A plugin for tests that waits, like one that asks another server: until the test lets it answer, or for some time.
//!
//! Owns what the test sees of it: how many writes wait at once, and how often the plugin was asked about each. It is asked
//! about writes of one resource and action, waits while it mutates and, for deletions, while it validates.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{Either, FutureExt};
use orch_rules::Action;
use orch_schema::value::Value;
use tokio::sync::{Semaphore, watch};

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;

/// Longest wait for writes to arrive: less than a request's deadline, so that a test fails before its requests do.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A test's handle on the plugin. Clones share it.
#[derive(Clone)]
pub(crate) struct Slow(Arc<State>);

struct State {
    /// Storage resource of the writes.
    storage: &'static str,
    /// Questions by phase and name of the object.
    asked: Mutex<BTreeMap<(&'static str, String), usize>>,
    waiting: watch::Sender<usize>,
    /// A permit lets one question through.
    answers: Semaphore,
    /// The time that each answer takes instead.
    takes: Option<Duration>,
    /// Whether the answer is a refusal.
    refuses: bool,
}

impl Slow {
    /// A plugin that admits the writes of `storage` when the test says so.
    pub(crate) fn of(storage: &'static str) -> Slow {
        Slow::with(storage, false, None)
    }

    /// A plugin that refuses them, finally.
    pub(crate) fn refusing(storage: &'static str) -> Slow {
        Slow::with(storage, true, None)
    }

    /// A plugin that admits the writes of `storage` after `delay`.
    pub(crate) fn taking(storage: &'static str, delay: Duration) -> Slow {
        Slow::with(storage, false, Some(delay))
    }

    fn with(storage: &'static str, refuses: bool, takes: Option<Duration>) -> Slow {
        let (asked, waiting, answers) = (Mutex::default(), watch::Sender::new(0), Semaphore::new(0));
        Slow(Arc::new(State { storage, asked, waiting, answers, takes, refuses }))
    }

    /// Waits until `count` writes wait for the plugin at once.
    pub(crate) async fn until_waiting(&self, count: usize) {
        let mut waiting = self.0.waiting.subscribe();
        let all = waiting.wait_for(|waiting| *waiting == count);
        let all = tokio::time::timeout(WAIT_MAX, all).await;
        assert!(all.is_ok(), "{} writes wait at once, and not {count}", *self.0.waiting.borrow());
    }

    /// Lets the next `count` questions be answered.
    pub(crate) fn answer(&self, count: usize) {
        self.0.answers.add_permits(count);
    }

    /// The number of questions in `phase` about each object.
    pub(crate) fn asked(&self, phase: &str) -> BTreeMap<String, usize> {
        let asked = self.0.asked.lock().unwrap();
        let of_phase = asked.iter().filter(|((of, _), _)| *of == phase);
        of_phase.map(|((_, name), count)| (name.clone(), *count)).collect()
    }

    fn note(&self, phase: &'static str, attributes: &Attributes<'_>) {
        let key = (phase, attributes.name.to_owned());
        *self.0.asked.lock().unwrap().entry(key).or_default() += 1;
    }

    async fn wait(&self) -> Result<(), Refusal> {
        self.0.waiting.send_modify(|waiting| *waiting += 1);
        match self.0.takes {
            Some(delay) => tokio::time::sleep(delay).await,
            None => self.0.answers.acquire().await.unwrap().forget(),
        }
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
        match self.0.refuses {
            true => Err(Refusal::Final(ApiError::BadRequest("the other server says no".to_owned()))),
            false => Ok(()),
        }
    }
}

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        "Slow"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *self.0.storage && attributes.action == Action::Object
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        self.note("mutate", attributes);
        match attributes.operation {
            Operation::Delete => rule(Ok(())),
            Operation::Create | Operation::Update | Operation::Connect => Either::Right(self.wait().boxed()),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        self.note("validate", attributes);
        match attributes.operation {
            Operation::Delete => Either::Right(self.wait().boxed()),
            Operation::Create | Operation::Update | Operation::Connect => rule(Ok(())),
        }
    }
}
