//! Closes connections that nobody has used for a while.
//!
//! Owns when that is looked for: every half minute while there are connections, by a task of their own that ends with the last of them.
//! Connections are looked at when the next request takes one, too; without this task those to a server that is asked no more
//! would stay until the server ends them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

/// Time after which a connection that carried nothing is closed: as clients of the reference do. A server whose certificate or
/// address changed meanwhile is asked anew.
pub(super) const IDLE_TIME_MAX: Duration = Duration::from_secs(90);

/// Time between two looks for such connections: they stay open for two minutes at most.
const EVERY: Duration = Duration::from_secs(30);

/// Connections that are kept, and whether a task looks after them.
#[derive(Debug, Default)]
pub(super) struct Swept<T> {
    pub(super) kept: T,
    has_task: bool,
}

/// A holder of connections that may be idle.
pub(super) trait Sweep: Default + Send + 'static {
    /// Closes those that are idle; whether there are others.
    fn sweep(&mut self) -> bool;
}

/// Has a task look after the connections of `shared`, one of which was just added.
pub(super) fn look_after<T: Sweep>(shared: &Arc<Mutex<Swept<T>>>) {
    let had_task = std::mem::replace(&mut shared.lock().has_task, true);
    if !had_task {
        tokio::spawn(sweep(Arc::downgrade(shared)));
    }
}

async fn sweep<T: Sweep>(shared: Weak<Mutex<Swept<T>>>) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut swept = shared.lock();
        if !swept.kept.sweep() {
            // The next connection has a task of its own.
            swept.has_task = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of which one is idle at each look.
    #[derive(Default)]
    struct Counted(usize);

    impl Sweep for Counted {
        fn sweep(&mut self) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_task_looks_after_connections_while_there_are_any() {
        let shared: Arc<Mutex<Swept<Counted>>> = Arc::default();
        let add = |count: usize| {
            shared.lock().kept.0 += count;
            look_after(&shared);
        };
        let left = async |looks: u32| {
            tokio::time::sleep(EVERY * looks + EVERY / 2).await;
            let swept = shared.lock();
            (swept.kept.0, swept.has_task)
        };
        add(1);
        add(2);
        assert_eq!(left(2).await, (1, true), "by one task");
        assert_eq!(left(2).await, (0, false));
        add(1);
        assert_eq!(left(1).await, (0, false), "by another one");
    }
}
