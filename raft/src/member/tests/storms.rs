//! Members are killed, restarted and cut off under writes: each acknowledged write stays, once, on every member.

use parking_lot::Mutex;

use super::*;
use crate::Runtime;

/// A deterministic generator of choices from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Creates objects through one member until `stop`; records the names of acknowledged ones.
async fn write(handle: SimHandle, by: String, acknowledged: Arc<Mutex<Vec<String>>>, stop: Arc<Mutex<bool>>) {
    for i in 0.. {
        if *stop.lock() {
            return;
        }
        let name = format!("{by}-{i}");
        match handle.propose(create(&name, "x")).await {
            Ok(Outcome::Applied { .. }) => {
                acknowledged.lock().push(name);
                SimRuntime::sleep(Duration::from_millis(10)).await;
            }
            Ok(Outcome::Refused { .. }) => panic!("{name} was written twice"),
            Ok(Outcome::Full { .. }) => panic!("{name} was refused without a quota"),
            Err(_) => SimRuntime::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn storm(seed: u64) -> usize {
    let mut dice = Dice(seed);
    let mut cluster = Cluster::new(3);
    cluster.log = LogOptions { snapshot_every: 60, keep: 40, ..LogOptions::default() };
    cluster.history = HistoryOptions { entries_max: 30, ..HistoryOptions::default() };
    let (acknowledged, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(false)));
    let mut starts = 0;
    let mut begin = |cluster: &Cluster, n: usize| {
        for _ in 0..2 {
            starts += 1;
            let by = format!("{n}-{starts}");
            drop(SimRuntime::spawn(write(cluster.handle(n), by, acknowledged.clone(), stop.clone())));
        }
    };
    for n in 0..3 {
        cluster.restart(n).await.unwrap();
        begin(&cluster, n);
    }
    cluster.handle(0).found().await.unwrap();
    for _ in 0..8 {
        SimRuntime::sleep(Duration::from_millis(u64::try_from(100 + dice.below(1500)).unwrap())).await;
        let n = dice.below(3);
        match dice.below(4) {
            0 if cluster.members[n].is_some() => cluster.kill(n).await,
            1 => cluster.network.isolate(peer(n).id, (0..3).map(|n| peer(n).id)),
            2 => cluster.network.heal(),
            _ => {
                if cluster.members[n].is_none() {
                    cluster.restart(n).await.unwrap();
                    begin(&cluster, n);
                }
            }
        }
    }
    cluster.network.heal();
    for n in 0..3 {
        if cluster.members[n].is_none() {
            cluster.restart(n).await.unwrap();
        }
    }
    *stop.lock() = true;
    cluster.leader().await;
    // By then the writes under way have their outcome.
    SimRuntime::sleep(Duration::from_secs(12)).await;
    let at = cluster.handle(0).barrier().await.unwrap();
    let digest = cluster.handle(0).digest(at).unwrap();
    for handle in cluster.handles() {
        assert!(handle.wait_applied(at, Duration::from_secs(5)).await);
        assert_eq!(handle.digest(at).unwrap(), digest);
        for name in acknowledged.lock().iter() {
            assert!(value(&handle, name).is_some(), "{name} was acknowledged and is gone");
        }
    }
    acknowledged.lock().len()
}

#[test]
fn acknowledged_writes_survive_any_storm() {
    for seed in 100..103 {
        let written = simulate(seed, storm(seed));
        assert!(written > 200, "seed {seed}: a storm without load proves nothing: {written}");
    }
}
