//! The threads of a node: event loops for connections, a runtime for what belongs to no connection, and one for the store.
//!
//! Owns the runtimes. Each event loop is a runtime of one thread, so that a request wakes no thread but those that have work for it
//! (docs/decisions/0057). The store's member, its log and its peers run on threads of their own, so that requests, however
//! many and however large, delay no heartbeat: the kernel's scheduler shares the processors between the threads, and
//! lets a thread that mostly waits run soon after it is woken. With the right to lower nice values (`CAP_SYS_NICE`,
//! `LimitNICE=`), those threads have a higher priority.
//!
//! Invariant: tasks that the store's member spawns run on the store's threads.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::sync::mpsc;
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::server::EventLoops;

/// Most threads of the store: one applies entries while another answers a heartbeat. More would only compete with
/// requests.
const STORE_THREADS_MAX: usize = 2;

/// Processors for each thread of the store: on two, a second one costs a switch between threads for every entry and every
/// quorum read, and saves nothing (a quarter of the processor time of a read, a tenth of a write's).
const PROCESSORS_PER_STORE_THREAD: usize = 2;

/// Processors for each thread of what belongs to no connection: accepting, the controllers, and work on a timer. Nothing there is
/// urgent, and each worker that finds something to do wakes another one.
const PROCESSORS_PER_API_THREAD: usize = 2;

/// Nice value of the store's threads: three times the weight of others, yet too little to starve them.
const STORE_NICENESS: i32 = -5;

/// Tasks that a thread of requests runs before it looks for events of the kernel, and for tasks that other threads woke.
/// By default 61 and more: where each task encrypts and sends a part of a long list, a request waits for so many of
/// them before it is read, and again for the store's answer to it. A look costs less than a microsecond.
const TASKS_BETWEEN_EVENTS: u32 = 8;

/// Bytes of stack of a thread of requests: walks over expressions recurse, a hundred levels of a text deep, of which macros make several each,
/// and one of random texts overflowed the usual 2 MiB. Only what is touched is memory. Tests have as much (`.cargo/config.toml`).
const STACK_BYTES: usize = 8 << 20;

/// Longest wait of an event loop's end for its blocking work, less than that for the thread itself.
const BLOCKING_MAX: Duration = Duration::from_secs(1);

/// All threads of a node.
pub(super) struct Threads {
    /// Accepts connections, and runs everything that belongs to no connection.
    pub(super) api: Runtime,
    /// Serve connections.
    loops: EventThreads,
    /// Runs the store's member.
    pub(super) store: Runtime,
}

/// The threads of the event loops.
struct EventThreads {
    first: EventThread,
    others: Vec<EventThread>,
}

/// A thread that runs one event loop until this is dropped.
struct EventThread {
    runtime: Handle,
    _stop: oneshot::Sender<Infallible>,
    /// Disconnected when the thread has ended.
    ended: mpsc::Receiver<Infallible>,
}

impl Threads {
    /// Starts all of them. Fails if the system starts no threads.
    pub(super) fn start() -> io::Result<Threads> {
        let processors = available_parallelism().map_or(1, NonZero::get);
        let api = of_requests(&mut Builder::new_multi_thread())
            .worker_threads((processors / PROCESSORS_PER_API_THREAD).max(1))
            .build()?;
        let others = (1..processors).map(|_| EventThread::start()).collect::<io::Result<_>>()?;
        let loops = EventThreads { first: EventThread::start()?, others };
        let store = Builder::new_multi_thread()
            .worker_threads((processors / PROCESSORS_PER_STORE_THREAD).clamp(1, STORE_THREADS_MAX))
            .thread_name("store")
            .on_thread_start(raise_priority)
            .enable_all()
            .build()?;
        Ok(Threads { api, loops, store })
    }

    /// The event loops of connections.
    pub(super) fn event_loops(&self) -> EventLoops {
        let EventThreads { first, others } = &self.loops;
        EventLoops::new(first.runtime.clone(), others.iter().map(|thread| thread.runtime.clone()))
    }

    /// Ends all threads at the next wait of their tasks, those of the store last, and waits for each part for `at_most`.
    pub(super) fn end(self, at_most: Duration) {
        let Threads { api, loops, store } = self;
        api.shutdown_timeout(at_most);
        loops.end(at_most);
        store.shutdown_timeout(at_most);
    }
}

impl EventThreads {
    fn end(self, at_most: Duration) {
        let EventThreads { first, others } = self;
        let ends: Vec<_> = others.into_iter().chain([first]).map(EventThread::stop).collect();
        let deadline = Instant::now() + at_most;
        for ended in ends {
            // Nothing is ever sent: it is disconnected, or the time is over.
            let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

impl EventThread {
    fn start() -> io::Result<EventThread> {
        let runtime = of_requests(&mut Builder::new_current_thread()).build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (running, ended) = mpsc::channel();
        let run = move || {
            let _running = running;
            // Completes with an error when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(BLOCKING_MAX);
        };
        thread::Builder::new().name("connections".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(EventThread { runtime: handle, _stop: stop, ended })
    }

    /// Lets the thread end; the receiver is disconnected when it has.
    fn stop(self) -> mpsc::Receiver<Infallible> {
        self.ended
    }
}

/// The settings of runtimes that run parts of requests. Name and stack are those of its threads for blocking work, too.
fn of_requests(builder: &mut Builder) -> &mut Builder {
    builder
        .thread_name("api")
        .thread_stack_size(STACK_BYTES)
        .event_interval(TASKS_BETWEEN_EVENTS)
        .global_queue_interval(TASKS_BETWEEN_EVENTS)
        .enable_all()
}

/// Raises the priority of the calling thread above those of requests, where the system allows it.
fn raise_priority() {
    if let Err(error) = setpriority_process(None, STORE_NICENESS) {
        tracing::debug!(%error, "the store's threads have no higher priority");
    }
}

/// Polls `work` on the calling task with `runtime` entered: its spawned tasks, sockets and timers belong to `runtime`.
pub(super) async fn within<F: Future>(runtime: &Handle, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _entered = runtime.enter();
        work.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[test]
    fn tasks_spawned_within_a_runtime_run_on_its_threads() {
        let threads = Threads::start().unwrap();
        let (outside, inside) = threads.api.block_on(async {
            let outside = tokio::spawn(async move { name() }).await.unwrap();
            let spawned =
                within(threads.store.handle(), async { tokio::spawn(async move { name() }).await.unwrap() });
            (outside, spawned.await)
        });
        assert_eq!((outside.as_deref(), inside.as_deref()), (Some("api"), Some("store")));
        threads.end(Duration::ZERO);
    }

    #[test]
    fn the_end_does_not_wait_for_a_task_that_never_waits() {
        let threads = Threads::start().unwrap();
        let (go_on, held) = mpsc::channel::<()>();
        let (running, runs) = mpsc::channel();
        let held_up = threads.loops.first.runtime.spawn(async move {
            running.send(()).unwrap();
            held.recv().unwrap();
        });
        runs.recv().unwrap();
        threads.end(Duration::ZERO);
        go_on.send(()).unwrap();
        // It ends with its poll.
        futures::executor::block_on(held_up).unwrap();
    }

    #[test]
    fn an_event_loop_runs_until_its_thread_is_ended_and_drops_its_tasks() {
        let thread = EventThread::start().unwrap();
        let ran = thread.runtime.spawn(async move { name() });
        assert_eq!(futures::executor::block_on(ran).unwrap().as_deref(), Some("connections"));
        let held = std::sync::Arc::new(());
        let holds = held.clone();
        thread.runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(holds);
        });
        let ended = thread.stop();
        assert_eq!(ended.recv(), Err(mpsc::RecvError));
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }
}
