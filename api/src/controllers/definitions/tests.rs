//! Tests of the loop of definitions over one state machine in memory.

use orch_proto::brand::ORCH;
use orch_rules::kinds::definition::conditions::ConditionType;

use super::*;
use crate::controllers::testing::Fixture;
use crate::definitions::RECORDS;
use crate::follow::Follower;

/// A definition of the kind `kind` under the plural name `plural`.
fn definition(plural: &str, kind: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": format!("one-of-{plural}"), "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    })
}

fn surroundings(fixture: &Fixture) -> (Surroundings<'static>, Duration) {
    let now = fixture.client().now();
    (Surroundings { brand: &ORCH, now, violations: None }, Duration::ZERO)
}

/// The reason of the condition `NamesAccepted` that the loop is about to write for the definition called `name`.
fn planned(work: &mut Work, fixture: &Fixture, name: &str) -> String {
    let planned = plan(work, &fixture.applied(), &name.into(), surroundings(fixture));
    let Some((_, Plan::Write(patch))) = planned else { panic!("{name} has no status to write") };
    let accepted = ConditionType::NamesAccepted.find(&patch).unwrap();
    accepted.text("reason").to_owned()
}

#[tokio::test]
async fn names_are_in_use_from_the_decision_on() {
    let fixture = Fixture::new();
    fixture.create(DEFINITIONS, "", definition("apples", "Fruit")).await;
    fixture.create(DEFINITIONS, "", definition("pears", "Fruit")).await;
    let mut follower = Follower::new(Work::new(Duration::ZERO), &fixture.applied());
    let work = follower.value_mut();
    assert_eq!(planned(work, &fixture, "apples.example.com"), "NoConflicts");
    assert_eq!(planned(work, &fixture, "pears.example.com"), "ListKindConflict", "nothing is written yet");
    // What was not written is decided on again, by itself.
    assert_eq!(planned(work, &fixture, "apples.example.com"), "NoConflicts");
    fixture.remove_by_force(DEFINITIONS, "apples.example.com").await;
    let work = follower.advance(&fixture.applied());
    assert_eq!(planned(work, &fixture, "pears.example.com"), "NoConflicts");
}

#[tokio::test(start_paused = true)]
async fn a_status_written_by_hand_gives_a_definition_that_is_being_deleted_no_other_names() {
    let fixture = Fixture::new();
    let mut held = definition("apples", "Fruit");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    fixture.create(DEFINITIONS, "", held).await;
    let (client, name) = (fixture.client(), "apples.example.com");
    fixture.while_running(run(&client), 2).await;
    let before = fixture.read(DEFINITIONS, name)["status"]["acceptedNames"].clone();
    assert_eq!(before["kind"], "Fruit");
    fixture.delete(DEFINITIONS, name, json!({})).await;
    let resource = client.stored_resource(DEFINITIONS).unwrap();
    let place = Place { resource: &resource, path: name };
    let stolen = json!({"status": {"acceptedNames": {"kind": "Stolen", "plural": "apples"}}});
    client.patch(place, Action::Status, &stolen).await.unwrap();
    assert_eq!(fixture.read(DEFINITIONS, name)["status"]["acceptedNames"]["kind"], "Stolen");
    fixture.while_running(run(&client), 2).await;
    assert_eq!(fixture.read(DEFINITIONS, name)["status"]["acceptedNames"], before);
}

#[tokio::test]
async fn a_name_that_is_freed_is_of_interest_to_those_that_want_it() {
    let fixture = Fixture::new();
    let both = [("apples", "Fruit"), ("nuts", "Nut"), ("pears", "Fruit"), ("corn", "Nut")];
    for (plural, kind) in both {
        fixture.create(DEFINITIONS, "", definition(plural, kind)).await;
    }
    let client = fixture.client();
    let mut work = Work::new(Duration::ZERO);
    work.rebuild(&fixture.applied().state);
    for (plural, _) in both {
        let name: Arc<str> = format!("{plural}.example.com").into();
        if let Some((Some(object), Plan::Write(patch))) =
            plan(&mut work, &fixture.applied(), &name, surroundings(&fixture))
        {
            carry_out(
                &client,
                client.stored_resource(DEFINITIONS).unwrap(),
                name,
                Some(object),
                Plan::Write(patch),
            )
            .await
            .unwrap();
        }
    }
    let mut work = Work::new(Duration::ZERO);
    work.rebuild(&fixture.applied().state);
    let waiting =
        |work: &Work| work.refused["example.com"].keys().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(waiting(&work), ["corn.example.com", "pears.example.com"]);
    work.queue = Queue::default();
    work.release_names(&"apples.example.com".into());
    assert_eq!(work.queue.take_due(10), [Arc::from("pears.example.com")]);
}

#[tokio::test(start_paused = true)]
async fn a_definition_comes_into_force_and_goes_with_its_record() {
    let fixture = Fixture::new();
    fixture.create(DEFINITIONS, "", definition("apples", "Fruit")).await;
    let (client, name) = (fixture.client(), "apples.example.com");
    fixture.while_running(run(&client), 2).await;
    let established = fixture.read(DEFINITIONS, name);
    assert!(ConditionType::Established.is_true(&established), "{established}");
    assert!(fixture.exists(RECORDS, name));
    fixture.delete(DEFINITIONS, name, json!({})).await;
    assert!(fixture.read(DEFINITIONS, name)["metadata"].has("deletionTimestamp"));
    fixture.while_running(run(&client), 2).await;
    assert!(!fixture.exists(DEFINITIONS, name) && !fixture.exists(RECORDS, name));
}
