//! Owners at aggregated servers over changes of the leader.

use super::*;

/// Whether the objects that the widget `a` owns have gone: both or none.
fn are_gone(scene: &Scene) -> bool {
    let gone = [!scene.fixture.exists("secrets", "n/here"), scene.server.writes() == ["DELETE there"]];
    assert_eq!(gone[0], gone[1], "{:?}", scene.server.writes());
    gone[0]
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_during_a_change_of_leaders_takes_its_dependents_along() {
    let scene = Scene::with_owner_elsewhere().await;
    scene.run(scene.pass(20)).await;
    scene.remove("a");
    scene.pass(30).await;
    scene.run_as(&Arc::default(), scene.pass(10)).await;
    assert!(are_gone(&scene), "the leader before has seen it");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_found_to_be_gone_stays_so_for_the_next_leader() {
    let scene = Scene::with_owner_elsewhere().await;
    *scene.server.mood.lock() = Mood::RefusesWrites;
    scene
        .run(async {
            scene.pass(20).await;
            scene.remove("a");
            scene.pass(2 * LOOK).await;
        })
        .await;
    *scene.server.mood.lock() = Mood::Serves;
    scene.server.written.lock().clear();
    scene.pass(600).await;
    scene.run_as(&Arc::default(), scene.pass(10)).await;
    assert_eq!(scene.server.writes(), ["DELETE there"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_orphaned_under_another_leader_takes_nothing_along_under_the_first_one() {
    let scene = Scene::with_owner_elsewhere().await;
    scene.run(scene.pass(20)).await;
    scene.orphan("a");
    // It ends right after it has seen that.
    scene.run_as(&Arc::default(), scene.pass(1)).await;
    scene.remove("a");
    scene.run(scene.pass(2 * LOOK)).await;
    assert!(!are_gone(&scene));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_while_nobody_leads_for_long_takes_nothing_along() {
    let scene = Scene::with_owner_elsewhere().await;
    scene.run(scene.pass(20)).await;
    scene.remove("a");
    scene.pass(150).await;
    scene.run(scene.pass(2 * LOOK)).await;
    assert!(!are_gone(&scene), "it may have orphaned meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_leader_counts_on_nothing_that_it_saw_itself_and_did_not_record() {
    let scene = Scene::with_owner_elsewhere().await;
    // Sightings are gathered for longer.
    scene.run(scene.pass(5)).await;
    assert!(!scene.fixture.exists("_sightings", "owners"));
    scene.remove("a");
    scene.run(scene.pass(2 * LOOK)).await;
    assert!(!are_gone(&scene), "another leader may have seen it orphaning");
}
