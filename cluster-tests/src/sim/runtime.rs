//! The runtime of members: the seeded single-threaded one, with tasks in groups that can be killed.
//!
//! A killed process loses all of its tasks between two polls; a paused process runs none of them until it resumes.
//! [`SimRuntime`] offers neither, so [`NodeRuntime`] wraps it: every task belongs to the [`TaskGroup`] of the task that
//! spawned it, and a group is killed, paused and resumed as a process is.
//!
//! Invariant: no code of a killed group runs after [`TaskGroup::kill`] returns, except the `Drop` of its values.
//! Invariant: a panic in a group's task is recorded in the group, never lost in an unread join handle.

mod adapter;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use openraft_rt_sim::{SimInstant, SimJoinError, SimJoinHandle, SimRuntime};
use parking_lot::Mutex;

/// [`SimRuntime`] whose tasks inherit the group of their spawner.
#[derive(Debug)]
pub struct NodeRuntime(SimRuntime);

impl NodeRuntime {
    /// A runtime whose random streams derive from `seed`.
    pub fn with_seed(seed: u64) -> Self {
        NodeRuntime(SimRuntime::with_seed(seed))
    }

    /// Virtual time since the start of the run.
    pub fn elapsed() -> Duration {
        <SimInstant as openraft_rt::Instant>::now().elapsed_since_start()
    }
}

/// Tasks that are killed, paused and resumed together: one run of one process, or one connection.
#[derive(Clone)]
pub struct TaskGroup(Arc<Group>);

struct Group {
    /// Called after each poll of one of the group's tasks.
    after_poll: Box<dyn Fn() + Send + Sync>,
    state: Mutex<GroupState>,
}

#[derive(Default)]
struct GroupState {
    phase: Phase,
    next_slot: u64,
    slots: BTreeMap<u64, Arc<dyn Slot>>,
    /// Tasks that became runnable while the group was paused, in that order.
    deferred: Vec<Waker>,
    /// The starved task, which is not polled for now, as if its thread got no CPU time.
    starved: Option<u64>,
    panics: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    Paused,
    Dead,
}

thread_local! {
    static CURRENT: RefCell<Option<TaskGroup>> = const { RefCell::new(None) };
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        write!(f, "TaskGroup({} tasks)", state.slots.len())
    }
}

impl Default for TaskGroup {
    fn default() -> Self {
        TaskGroup::observed(|| ())
    }
}

impl TaskGroup {
    /// A group that calls `after_poll` after each poll of its tasks: every event of a process is one poll.
    pub fn observed(after_poll: impl Fn() + Send + Sync + 'static) -> Self {
        TaskGroup(Arc::new(Group { after_poll: Box::new(after_poll), state: Mutex::default() }))
    }

    /// Spawns `future` as a task of this group.
    pub fn spawn<T>(&self, future: T) -> NodeJoinHandle<T::Output>
    where
        T: Future + Send + 'static,
        T::Output: Send + 'static,
    {
        spawn_in(Some(self.clone()), future)
    }

    /// Calls `make` as code of this group: tasks it spawns belong to the group.
    pub fn enter<R>(&self, make: impl FnOnce() -> R) -> R {
        let _restore = Entered::new(Some(self.clone()));
        make()
    }

    /// Drops every task at its current await point. Further tasks spawned in the group never run.
    pub fn kill(&self) {
        let slots = {
            let mut state = self.0.state.lock();
            state.phase = Phase::Dead;
            state.deferred.clear();
            std::mem::take(&mut state.slots)
        };
        let _restore = Entered::new(Some(self.clone()));
        for slot in slots.into_values() {
            slot.drop_future();
        }
    }

    /// Stops polling. Timers run on, and tasks that they wake wait.
    pub fn pause(&self) {
        let mut state = self.0.state.lock();
        if state.phase == Phase::Running {
            state.phase = Phase::Paused;
        }
    }

    /// Polls again, first the tasks that waited longest.
    pub fn resume(&self) {
        let wakers = {
            let mut state = self.0.state.lock();
            if state.phase == Phase::Paused {
                state.phase = Phase::Running;
            }
            std::mem::take(&mut state.deferred)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Stops polling one of the group's tasks until [`TaskGroup::feed`]; `pick` draws its index from the number of
    /// tasks.
    pub fn starve(&self, pick: impl FnOnce(usize) -> usize) -> Option<u64> {
        let mut state = self.0.state.lock();
        let tasks: Vec<u64> = state.slots.keys().copied().collect();
        let starved = if tasks.is_empty() { None } else { tasks.get(pick(tasks.len())).copied() };
        state.starved = starved;
        starved
    }

    /// Stops polling this task again.
    pub fn starve_again(&self, task: u64) {
        self.0.state.lock().starved = Some(task);
    }

    /// Polls every task again.
    pub fn feed(&self) {
        let wakers = {
            let mut state = self.0.state.lock();
            state.starved = None;
            // Tasks that wait because the group is paused go on waiting: they are deferred again when polled.
            std::mem::take(&mut state.deferred)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// [`TaskGroup::kill`] was called.
    pub fn is_dead(&self) -> bool {
        self.0.state.lock().phase == Phase::Dead
    }

    /// The group is paused.
    pub fn is_paused(&self) -> bool {
        self.0.state.lock().phase == Phase::Paused
    }

    /// Takes the messages of panics in the group's tasks.
    pub fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().panics)
    }

    fn same(&self, other: &TaskGroup) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Restores the spawner's group when code of another group has run.
struct Entered {
    previous: Option<TaskGroup>,
}

impl Entered {
    fn new(group: Option<TaskGroup>) -> Self {
        Entered { previous: CURRENT.with(|current| current.replace(group)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.replace(self.previous.take()));
    }
}

trait Slot: Send + Sync {
    fn drop_future(&self);
}

struct TaskSlot<F> {
    future: Mutex<Option<Pin<Box<F>>>>,
    /// Wakes the executor's side of the task, so that its join handle learns of the kill.
    waker: Mutex<Option<Waker>>,
}

impl<F: Future + Send> Slot for TaskSlot<F> {
    fn drop_future(&self) {
        // A task that kills its own group is being polled: it is dropped when that poll returns.
        if let Some(mut future) = self.future.try_lock() {
            let taken = future.take();
            drop(future);
            drop(taken);
        }
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }
}

/// A task of a group, as the executor sees it. Resolves to `None` if the group was killed first.
struct Fenced<F> {
    group: Option<TaskGroup>,
    number: u64,
    slot: Arc<TaskSlot<F>>,
}

impl<F> Fenced<F> {
    /// The group forbids polling now. The waker is kept until the group allows it again.
    fn held_back(&self, waker: &Waker) -> bool {
        let Some(group) = &self.group else { return false };
        let mut state = group.0.state.lock();
        let starved = state.phase == Phase::Running && state.starved == Some(self.number);
        let held_back = state.phase == Phase::Paused || starved;
        if held_back {
            state.deferred.push(waker.clone());
        }
        held_back
    }

    fn is_dead(&self) -> bool {
        self.group.as_ref().is_some_and(TaskGroup::is_dead)
    }

    fn record_panic(&self, payload: &(dyn std::any::Any + Send)) {
        if let Some(group) = &self.group {
            group.0.state.lock().panics.push(panic_message(payload));
        }
    }

    fn forget(&self) {
        if let Some(group) = &self.group {
            group.0.state.lock().slots.remove(&self.number);
        }
    }
}

impl<F: Future + Send> Future for Fenced<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.held_back(context.waker()) {
            return Poll::Pending;
        }
        *self.slot.waker.lock() = Some(context.waker().clone());
        let _restore = Entered::new(self.group.clone());
        let mut guard = self.slot.future.lock();
        let Some(future) = guard.as_mut().filter(|_| !self.is_dead()) else { return Poll::Ready(None) };
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        let ended = !matches!(polled, Ok(Poll::Pending)) || self.is_dead();
        let finished = if ended { guard.take() } else { None };
        drop(guard);
        drop(finished);
        if ended {
            self.forget();
        }
        let output = match polled {
            Ok(Poll::Pending) if !ended => Poll::Pending,
            Ok(Poll::Pending) => Poll::Ready(None),
            Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
            Err(payload) => {
                self.record_panic(payload.as_ref());
                std::panic::resume_unwind(payload)
            }
        };
        if let Some(group) = &self.group {
            let looked = std::panic::catch_unwind(AssertUnwindSafe(|| (group.0.after_poll)()));
            looked.unwrap_or_else(|payload| self.record_panic(payload.as_ref()));
        }
        output
    }
}

/// Message of a panic, if it is text.
fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without text".to_owned())
}

fn spawn_in<T>(group: Option<TaskGroup>, future: T) -> NodeJoinHandle<T::Output>
where
    T: Future + Send + 'static,
    T::Output: Send + 'static,
{
    let slot = Arc::new(TaskSlot { future: Mutex::new(Some(Box::pin(future))), waker: Mutex::new(None) });
    let mut number = 0;
    if let Some(group) = &group {
        let mut state = group.0.state.lock();
        number = state.next_slot;
        state.next_slot += 1;
        if state.phase != Phase::Dead {
            state.slots.insert(number, slot.clone());
        }
    }
    NodeJoinHandle(SimRuntime::spawn(Fenced { group, number, slot }))
}

/// Resolves to a task's output, or to [`SimJoinError::Cancelled`] when its group was killed.
pub struct NodeJoinHandle<T>(SimJoinHandle<Option<T>>);

impl<T> Future for NodeJoinHandle<T> {
    type Output = Result<T, SimJoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|joined| match joined {
            Ok(Some(output)) => Ok(output),
            Ok(None) => Err(SimJoinError::Cancelled),
            Err(error) => Err(error),
        })
    }
}

/// The group whose code is running, if any.
pub fn current_group() -> Option<TaskGroup> {
    CURRENT.with(|current| current.borrow().clone())
}

/// Spawns `future` outside every group, as part of the world: a message on a wire, for example.
pub fn spawn_detached<T>(future: T) -> NodeJoinHandle<T::Output>
where
    T: Future + Send + 'static,
    T::Output: Send + 'static,
{
    spawn_in(None, future)
}

impl PartialEq for TaskGroup {
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

#[cfg(test)]
mod tests;
