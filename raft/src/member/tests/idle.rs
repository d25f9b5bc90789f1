//! Tests of an idle member: without a cause it does nothing.

use super::*;
use crate::Runtime;

/// Timers of a member that fire in a second without a write: looks at the log, the disk, the membership, the limits.
const TIMERS_MAX: usize = 40;

/// Timers that fire in a second of `runtime`.
fn timers_in_a_second(runtime: &mut SimRuntime) -> usize {
    runtime.record_trace(true);
    runtime.block_on(async { SimRuntime::sleep(Duration::from_secs(1)).await });
    runtime.record_trace(false);
    runtime.take_trace().iter().filter(|event| event.starts_with("fire ")).count()
}

#[test]
fn a_leader_without_others_has_no_ticks_until_there_are_some() {
    let mut runtime = SimRuntime::with_seed(311);
    let mut cluster = runtime.block_on(async {
        let cluster = Cluster::start(1).await;
        cluster.leader().await;
        SimRuntime::sleep(Duration::from_secs(5)).await;
        cluster
    });
    let alone = timers_in_a_second(&mut runtime);
    assert!(alone <= TIMERS_MAX, "{alone} timers fired");
    runtime.block_on(async move {
        let first = cluster.handle(0);
        for _ in 0..2 {
            let n = cluster.join().await;
            first.add_learner(&peer(n)).await.unwrap();
            first.promote(peer(n).id).await.unwrap();
        }
        // Many times as long as the others would wait for a heartbeat.
        SimRuntime::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.leader().await, 0, "no other was elected");
    });
}
