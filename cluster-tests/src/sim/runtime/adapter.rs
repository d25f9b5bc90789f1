//! [`NodeRuntime`] as the runtime that a member is generic over: [`SimRuntime`] does everything but the spawning of
//! tasks.

use std::future::Future;
use std::time::Duration;

use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_sim::{Elapsed, SimInstant, SimJoinError, SimRuntime, SimSleep, SimTimeout};

use super::{CURRENT, NodeJoinHandle, NodeRuntime, spawn_in};

impl AsyncRuntime for NodeRuntime {
    type JoinError = SimJoinError;
    type JoinHandle<T: OptionalSend + 'static> = NodeJoinHandle<T>;
    type Sleep = SimSleep;
    type Instant = SimInstant;
    type TimeoutError = Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = SimTimeout<T>;
    type ThreadLocalRng = <SimRuntime as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <SimRuntime as AsyncRuntime>::Mpsc;
    type Watch = <SimRuntime as AsyncRuntime>::Watch;
    type Oneshot = <SimRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <SimRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        spawn_in(CURRENT.with(|current| current.borrow().clone()), future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        SimRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        SimRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        SimRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F>
    where
        F: Future<Output = R> + OptionalSend,
    {
        SimRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        SimRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        SimRuntime::thread_rng()
    }

    fn new(threads: usize) -> Self {
        NodeRuntime(SimRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(work: F) -> impl Future<Output = Result<T, std::io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        SimRuntime::spawn_blocking(work)
    }
}
