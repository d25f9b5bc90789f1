//! The status of a cluster with a dead member, as each of the others tells it.

use super::*;

#[test]
fn every_member_tells_who_is_dead_since_when_and_how_far_it_was() {
    simulate(307, async {
        let mut cluster = Cluster::start(3).await;
        let leader = cluster.leader().await;
        let others: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
        let [dead, follower] = others[..] else { unreachable!("three members") };
        for handle in cluster.handles() {
            handle.survey().await;
            let members = handle.status().members;
            assert!(members.iter().all(|member| member.answers == Some(true)), "{members:?}");
            assert!(members.iter().all(|member| member.feature_level_max.is_some()), "{members:?}");
        }
        // Some rounds of questions, so that the last ones heard the dead member just before its end.
        SimRuntime::sleep(Duration::from_secs(5)).await;
        let applied = cluster.handle(dead).status().applied.0;
        cluster.kill(dead).await;
        SimRuntime::sleep(Duration::from_secs(60)).await;
        let written = revision_of(cluster.handle(leader).propose(create("a", "1")).await);
        // A member that starts now never heard the dead one itself.
        cluster.kill(follower).await;
        cluster.restart(follower).await.unwrap();
        eventually("it applies", || (cluster.handle(follower).status().applied >= written).then_some(()))
            .await;
        for n in [leader, follower] {
            let handle = cluster.handle(n);
            handle.survey().await;
            let status = handle.status();
            for member in &status.members {
                let is_dead = member.peer == peer(dead);
                assert_eq!(member.answers, Some(!is_dead), "{member:?}");
                let ago = member.heard_ago.unwrap().as_secs();
                assert!(if is_dead { (60..70).contains(&ago) } else { ago == 0 }, "{member:?}");
                let behind = status.applied.0.saturating_sub(member.applied.unwrap());
                assert_eq!(behind > 0, is_dead, "{member:?}");
                assert!(!is_dead || member.applied.unwrap() <= applied, "{member:?}");
            }
        }
    });
}
