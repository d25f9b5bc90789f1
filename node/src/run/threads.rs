//! The threads of a node: a runtime for requests and one for the store.
//!
//! Owns both runtimes. The store's member, its log and its peers run on threads of their own, so that requests, however
//! many and however large, delay no heartbeat: the kernel's scheduler shares the processors between the threads, and
//! lets a thread that mostly waits run soon after it is woken. With the right to lower nice values (`CAP_SYS_NICE`,
//! `LimitNICE=`), those threads have a higher priority.
//!
//! Invariant: tasks that the store's member spawns run on the store's threads.

use std::future::poll_fn;
use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::thread::available_parallelism;

use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Handle, Runtime};

/// Most threads of the store: one applies entries while another answers a heartbeat. More would only compete with
/// requests.
const STORE_THREADS_MAX: usize = 2;

/// Processors for each thread of the store: on two, a second one costs a switch between threads for every entry and every
/// quorum read, and saves nothing (a quarter of the processor time of a read, a tenth of a write's).
const PROCESSORS_PER_STORE_THREAD: usize = 2;

/// Nice value of the store's threads: three times the weight of others, yet too little to starve them.
const STORE_NICENESS: i32 = -5;

/// Tasks that a thread of requests runs before it looks for events of the kernel, and for tasks that other threads woke.
/// By default 61 and more: where each task encrypts and sends a part of a long list, a request waits for so many of
/// them before it is read, and again for the store's answer to it. A look costs less than a microsecond.
const TASKS_BETWEEN_EVENTS: u32 = 8;

/// Bytes of stack of a thread of requests: walks over expressions recurse, a hundred levels of a text deep, of which macros make several each,
/// and one of random texts overflowed the usual 2 MiB. Only what is touched is memory. Tests have as much (`.cargo/config.toml`).
const STACK_BYTES: usize = 8 << 20;

/// Both runtimes.
pub(super) struct Threads {
    /// Accepts connections and answers requests.
    pub(super) api: Runtime,
    /// Runs the store's member.
    pub(super) store: Runtime,
}

impl Threads {
    /// Starts both runtimes. Fails if the system starts no threads.
    pub(super) fn start() -> io::Result<Threads> {
        let api = Builder::new_multi_thread()
            .thread_name("api")
            .thread_stack_size(STACK_BYTES)
            .event_interval(TASKS_BETWEEN_EVENTS)
            .global_queue_interval(TASKS_BETWEEN_EVENTS)
            .enable_all()
            .build()?;
        let processors = available_parallelism().map_or(1, NonZero::get);
        let store = Builder::new_multi_thread()
            .worker_threads((processors / PROCESSORS_PER_STORE_THREAD).clamp(1, STORE_THREADS_MAX))
            .thread_name("store")
            .on_thread_start(raise_priority)
            .enable_all()
            .build()?;
        Ok(Threads { api, store })
    }
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

    #[test]
    fn tasks_spawned_within_a_runtime_run_on_its_threads() {
        let Threads { api, store } = Threads::start().unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        let (outside, inside) = api.block_on(async {
            let outside = tokio::spawn(async move { name() }).await.unwrap();
            let spawned =
                within(store.handle(), async { tokio::spawn(async move { name() }).await.unwrap() });
            (outside, spawned.await)
        });
        assert_eq!((outside.as_deref(), inside.as_deref()), (Some("api"), Some("store")));
        api.shutdown_background();
        store.shutdown_background();
    }
}
