//! The loop of a contender: attempts, pauses, the deadline, and the signal that starts and stops scheduling.
//!
//! Owns the rim of [`Machine`]: clock, randomness and requests. The deadline is kept even while a request hangs, since
//! every wait is cut at the time until which this contender may work. An attempt takes at most half of the renew
//! deadline, so that two fit into it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use rand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::ambient;
use crate::api::core::v1::ObjectReference;
use crate::client::Reason;

use super::lease::{Lock, LockError};
use super::machine::{Attempt, Machine, Monotonic, Written};
use super::record::Record;
use crate::wall_time::WallTime;

/// Told of each change of leadership: the lock, the change, and the sentence for an event.
pub type Announce = Box<dyn Fn(ObjectReference, Turn, String) + Send + Sync>;

/// A change of leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// This contender leads.
    Became,
    /// It led.
    Stopped,
}

impl Turn {
    /// The action of its event. Each turn has its own: events of one action are told as repetitions of the first.
    pub fn action(self) -> &'static str {
        match self {
            Turn::Became => "BecomeLeader",
            Turn::Stopped => "StopLeading",
        }
    }

    fn described(self) -> &'static str {
        match self {
            Turn::Became => "became leader",
            Turn::Stopped => "stopped leading",
        }
    }
}

/// A name for a contender on the machine `host`, which no other contender has, not even the next one on that machine.
pub fn identity(host: &str) -> String {
    let unique: u128 = ambient::rng().random();
    format!("{host}_{unique:032x}")
}

/// How a contender's time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionEnd {
    /// It led and could not renew in time: the process must end, as another may be about to lead.
    Lost,
    /// It was told to stop, and let the lock go if it had it.
    Stopped,
}

/// Whether this process may work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Leadership {
    // `None`: there is no election.
    until: Option<watch::Receiver<Option<Instant>>>,
}

impl Leadership {
    /// For `--leader-elect=false`: this process always leads.
    pub fn always() -> Self {
        Self { until: None }
    }

    /// The leadership of a process that a test lets lead until the moment in `until`.
    #[cfg(test)]
    pub(crate) fn until(until: watch::Receiver<Option<Instant>>) -> Self {
        Self { until: Some(until) }
    }

    /// Whether this process may work at `now`.
    pub fn holds(&self, now: Instant) -> bool {
        match &self.until {
            None => true,
            Some(until) => until.borrow().is_some_and(|until| now < until),
        }
    }

    /// Does `work` while this process leads. `None`: it leads no more, and the work was dropped where it stood.
    ///
    /// The clock is read before every step of the work. A timer alone would not do: a process that stood still finds tasks
    /// that can go on before its timers tell that time has passed. So whatever the work waits for (the limit of requests a
    /// second, credentials, a connection, a pause before the next attempt), nothing lies between the last look and the
    /// bytes that it then hands over but the code of that one step.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            if !self.holds(Instant::now()) {
                return None;
            }
            let Some(until) = self.until.as_ref().and_then(|until| *until.borrow()) else {
                return Some(work.await);
            };
            // A renewal moves the end while the work goes on.
            let mut end = std::pin::pin!(sleep_until(until));
            let step = poll_fn(|context| match self.holds(Instant::now()) {
                false => Poll::Ready(None),
                true => match work.as_mut().poll(context) {
                    Poll::Ready(done) => Poll::Ready(Some(done)),
                    Poll::Pending => end.as_mut().poll(context).map(|()| None),
                },
            });
            if let Some(done) = step.await {
                return Some(done);
            }
        }
    }

    /// Whether this process led, its time ended more than `tolerance` before `now`, and it has not stopped leading:
    /// the contender is stuck.
    pub fn is_overdue(&self, now: Instant, tolerance: Duration) -> bool {
        let until = self.until.as_ref().and_then(|until| *until.borrow());
        until.is_some_and(|until| now > until + tolerance)
    }

    /// Waits until this process leads. `false`: it never will, because the contender is gone.
    pub async fn acquired(&mut self) -> bool {
        match &mut self.until {
            None => true,
            Some(until) => {
                until.wait_for(|until| until.is_some_and(|until| Instant::now() < until)).await.is_ok()
            }
        }
    }
}

/// A contender for a lock.
pub struct Elector<L> {
    lock: L,
    machine: Machine,
    origin: Instant,
    until: watch::Sender<Option<Instant>>,
    announce: Announce,
    holder: String,
}

impl<L: Lock> Elector<L> {
    /// A contender, and what it tells the rest of the process.
    pub fn new(lock: L, machine: Machine, announce: Announce) -> (Self, Leadership) {
        let (until, receiver) = watch::channel(None);
        let origin = Instant::now();
        let elector = Self { lock, machine, origin, until, announce, holder: String::new() };
        (elector, Leadership { until: Some(receiver) })
    }

    /// Contends until leadership is lost, or until `stop`. The executor must have stopped before `stop`: the lock is
    /// free for others right after.
    pub async fn run(mut self, stop: CancellationToken) -> ElectionEnd {
        loop {
            let patience = self.patience();
            let attempting = self.attempt(patience);
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.stop().await,
                () = attempting => {}
            }
            if self.is_lost() {
                return self.lose();
            }
            let pause = self.origin + self.machine.next_attempt(self.now(), ambient::rng().random()).0;
            let until = self.machine.leads_until().map(|until| self.origin + until.0);
            let wake = until.map_or(pause, |until| pause.min(until));
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.stop().await,
                () = sleep_until(wake) => {}
            }
            if self.is_lost() {
                return self.lose();
            }
        }
    }

    fn now(&self) -> Monotonic {
        Monotonic(self.origin.elapsed())
    }

    /// How long an attempt may take: never beyond the time until which this contender may work.
    fn patience(&self) -> Duration {
        let half = self.machine.timing().renew_deadline() / 2;
        match self.machine.leads_until() {
            Some(until) => half.min(until.0.saturating_sub(self.now().0)),
            None => half,
        }
    }

    /// Makes one attempt: reads the lock if need be, and writes it if it may be taken or renewed.
    async fn attempt(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut attempt = self.machine.begin(self.now(), WallTime::now());
        if attempt == Attempt::Read {
            if self.machine.leads_until().is_some() {
                let name = self.lock.reference().name;
                ::metrics::counter!("leader_election_slowpath_total", "name" => name).increment(1);
            }
            let read = tokio::time::timeout_at(deadline, self.lock.read()).await;
            let found = match read {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => return report("read", &error),
                Err(_) => return tracing::warn!("reading the lock took too long"),
            };
            let Some(next) = self.machine.observe(self.now(), WallTime::now(), found) else {
                return self.tell_holder();
            };
            attempt = next;
        }
        self.write(attempt, deadline).await;
    }

    async fn write(&mut self, attempt: Attempt, deadline: Instant) {
        let began = self.now();
        let (record, written) = match attempt {
            Attempt::Read => return,
            Attempt::Create(record) => {
                let written = tokio::time::timeout_at(deadline, self.lock.create(&record)).await;
                (record, written)
            }
            Attempt::Update(version, record) => {
                let written = tokio::time::timeout_at(deadline, self.lock.update(&version, &record)).await;
                (record, written)
            }
        };
        let outcome = match written {
            Ok(Ok(version)) => Written::Done(version),
            Ok(Err(error)) => {
                report("write", &error);
                Written::Unsure
            }
            Err(_) => {
                tracing::warn!("writing the lock took too long");
                Written::Unsure
            }
        };
        let is_done = outcome != Written::Unsure;
        self.machine.wrote(began, self.now(), record.clone(), outcome);
        if is_done {
            self.publish();
            self.tell_holder();
            self.mirror(&record).await;
        }
    }

    /// Writes the second object. It must not cost the lease: at most a retry period.
    async fn mirror(&self, record: &Record) {
        let patience = self.machine.timing().retry_period();
        if timeout(patience, self.lock.mirror(record)).await.is_err() {
            tracing::warn!("writing the second lock object took too long");
        }
    }

    /// Tells the process until when it may work, and the world when that is new.
    fn publish(&mut self) {
        let until = self.machine.leads_until().map(|until| self.origin + until.0);
        let before = self.until.send_replace(until);
        if before.is_none() && until.is_some() {
            self.tell(Turn::Became);
        }
    }

    /// Logs a new holder once.
    fn tell_holder(&mut self) {
        if self.machine.holder() != self.holder {
            self.machine.holder().clone_into(&mut self.holder);
            tracing::info!(holder = self.holder, "new leader");
        }
    }

    fn is_lost(&self) -> bool {
        self.machine.leads_until().is_some() && !self.machine.is_leading(self.now())
    }

    fn lose(mut self) -> ElectionEnd {
        self.until.send_replace(None);
        self.machine.stop();
        tracing::error!("could not renew the lock in time, leadership is lost");
        self.tell(Turn::Stopped);
        ElectionEnd::Lost
    }

    async fn stop(mut self) -> ElectionEnd {
        self.until.send_replace(None);
        let patience = self.patience();
        if let Some(Attempt::Update(version, record)) = self.machine.release(WallTime::now()) {
            match timeout(patience, self.lock.update(&version, &record)).await {
                Ok(Ok(_)) => self.mirror(&record).await,
                Ok(Err(error)) => report("release", &error),
                Err(_) => tracing::warn!("releasing the lock took too long"),
            }
            self.tell(Turn::Stopped);
        }
        ElectionEnd::Stopped
    }

    fn tell(&self, turn: Turn) {
        let note = format!("{} {}", self.machine.identity(), turn.described());
        (self.announce)(self.lock.reference(), turn, note);
    }
}

fn report(verb: &str, error: &LockError) {
    match error {
        LockError::Conflict => tracing::debug!(verb, "another contender was first"),
        // No later attempt mends a missing namespace or a missing right.
        LockError::Client(error) if error.is(Reason::NotFound) || error.is(Reason::Forbidden) => {
            tracing::error!(verb, error = crate::client::chain(error), "cannot use the lock")
        }
        LockError::Client(error) => {
            tracing::warn!(verb, error = crate::client::chain(error), "cannot use the lock")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;
    use tokio::time::advance;

    use super::*;

    /// A process that stood still: a task can go on, time has passed, and no timer has told so yet.
    #[tokio::test(start_paused = true)]
    async fn work_that_can_go_on_after_a_standstill_is_dropped_where_it_stood() {
        for (standstill, is_done) in [(Duration::from_secs(9), true), (Duration::from_secs(25), false)] {
            let (_sender, until) = watch::channel(Some(Instant::now() + Duration::from_secs(10)));
            let leadership = Leadership::until(until);
            let (connected, sent) = (Arc::<Notify>::default(), Arc::<AtomicBool>::default());
            let work = {
                let (connected, sent) = (connected.clone(), sent.clone());
                async move {
                    connected.notified().await;
                    sent.store(true, Ordering::Relaxed);
                }
            };
            let held = tokio::spawn(async move { leadership.while_held(work).await });
            tokio::task::yield_now().await;
            connected.notify_one();
            advance(standstill).await;
            assert_eq!(held.await.unwrap().is_some(), is_done);
            assert_eq!(sent.load(Ordering::Relaxed), is_done);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_while_the_lease_is_renewed_and_ends_with_it() {
        let second = Duration::from_secs(1);
        let (sender, until) = watch::channel(Some(Instant::now() + second));
        let leadership = Leadership::until(until);
        let renewing = tokio::spawn(async move {
            for _ in 0..4 {
                tokio::time::sleep(second / 2).await;
                sender.send_replace(Some(Instant::now() + second));
            }
            sender
        });
        assert_eq!(leadership.while_held(tokio::time::sleep(2 * second)).await, Some(()));
        assert_eq!(leadership.while_held(std::future::pending::<()>()).await, None);
        assert!(!leadership.holds(Instant::now()));
        drop(renewing.await.unwrap());
    }
}
