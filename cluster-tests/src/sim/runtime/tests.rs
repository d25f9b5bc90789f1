//! Groups of tasks are killed, paused and resumed as processes are.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

async fn ticking(count: Arc<AtomicU64>) {
    loop {
        NodeRuntime::sleep(Duration::from_millis(1)).await;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn pass(milliseconds: u64) {
    NodeRuntime::sleep(Duration::from_millis(milliseconds)).await;
}

#[test]
fn a_killed_group_takes_the_tasks_its_tasks_spawned_with_it() {
    NodeRuntime::with_seed(1).block_on(async {
        let (group, count) = (TaskGroup::default(), Arc::new(AtomicU64::new(0)));
        let inner = count.clone();
        let handle = group.spawn(async move {
            NodeRuntime::spawn(ticking(inner));
            std::future::pending::<()>().await;
        });
        pass(10).await;
        let before = count.load(Ordering::Relaxed);
        assert!(before > 5, "{before}");
        group.kill();
        pass(10).await;
        assert_eq!(count.load(Ordering::Relaxed), before);
        assert_eq!(handle.await, Err(SimJoinError::Cancelled));
        assert_eq!(group.spawn(async {}).await, Err(SimJoinError::Cancelled));
    });
}

#[test]
fn a_paused_group_stands_still_and_runs_on_when_resumed() {
    NodeRuntime::with_seed(1).block_on(async {
        let (group, count) = (TaskGroup::default(), Arc::new(AtomicU64::new(0)));
        group.spawn(ticking(count.clone()));
        pass(5).await;
        group.pause();
        let before = count.load(Ordering::Relaxed);
        pass(50).await;
        assert_eq!(count.load(Ordering::Relaxed), before);
        group.resume();
        pass(5).await;
        assert!(count.load(Ordering::Relaxed) > before);
    });
}

#[test]
fn a_task_may_kill_its_own_group() {
    NodeRuntime::with_seed(1).block_on(async {
        let group = TaskGroup::default();
        let own = group.clone();
        let handle = group.spawn(async move {
            own.kill();
            pass(1).await;
            unreachable!("the group is dead");
        });
        assert_eq!(handle.await, Err(SimJoinError::Cancelled));
        assert!(group.take_panics().is_empty());
    });
}

#[test]
fn a_panic_is_kept_for_the_world_to_see() {
    NodeRuntime::with_seed(1).block_on(async {
        let group = TaskGroup::default();
        group.spawn(async { panic!("planted") });
        pass(1).await;
        assert_eq!(group.take_panics(), ["planted"]);
    });
}

#[test]
fn a_starved_task_stands_still_while_the_others_of_its_group_run() {
    NodeRuntime::with_seed(1).block_on(async {
        let group = TaskGroup::default();
        let (first, second) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        group.spawn(ticking(first.clone()));
        group.spawn(ticking(second.clone()));
        pass(5).await;
        let starved = group.starve(|_| 0).expect("there are tasks");
        let (before, other) = (first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
        pass(20).await;
        assert_eq!(first.load(Ordering::Relaxed), before);
        assert!(second.load(Ordering::Relaxed) > other + 10);
        group.feed();
        pass(5).await;
        let fed = first.load(Ordering::Relaxed);
        assert!(fed > before);
        group.starve_again(starved);
        pass(20).await;
        assert!(first.load(Ordering::Relaxed) <= fed + 1);
    });
}
