//! The end of a run, when nothing is wrong any more: definitions are in force on every member, informers have what is stored, and
//! loops have done what they owe.
//!
//! Owns the last requests, and the time within which each must have its effect.

use std::time::Duration;

use orch_cluster_tests::sim::requests::Patience;
use orch_raft::Store;
use orch_raft::object::SharedObject;
use orch_raft::transport::NodeId;
use serde_json::Value;

use super::clients::{CODES, Client, is_in_force};
use super::documents::{Custom, KINDS, LATE, VERSIONS, definitions, is_selected};
use super::informer::{Informer, Objects, Selection};
use super::judge::{document, orphan};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Within this time every member must serve once nothing is wrong, and every definition must be in force.
const SERVED: Patience = Patience { look: LOOK, longest: Duration::from_secs(40) };

/// Within this time loops must have done what they owe: twice their longest back-off after failures.
const OWED: Patience = Patience { look: LOOK, longest: Duration::from_secs(60) };

/// Waits until every member answers.
pub(crate) async fn await_service(client: &Client, when: &str) {
    SERVED.await_service(&client.session, &CODES, when).await;
}

/// Has `kind` in force, whatever became of it in the run.
pub(crate) async fn define(client: &Client, kind: Custom) {
    let what = format!("{} are not in force", kind.0);
    let path = format!("{}/{}", definitions(), kind.definition());
    SERVED
        .until(client.world(), &what, async || {
            let node = client.session.pick();
            let document = kind.document(client.seen.next_edition(), VERSIONS[0]);
            drop(client.ask(node, kind, ("POST", &definitions()), &document).await);
            let found = client.ask(node, kind, ("GET", &path), &Value::Null).await;
            found.is_some_and(|answer| answer.code == 200 && is_in_force(&answer.body))
        })
        .await;
}

/// Settles a run.
pub(crate) async fn settle(client: &Client, informers: &[Informer]) {
    await_service(client, "the last fault").await;
    for kind in KINDS.into_iter().chain([LATE]) {
        define(client, kind).await;
        change_and_go_on(client, kind).await;
    }
    // A kind that came when all loops ran.
    let what = "no dependent can be made";
    let mut number = 0;
    SERVED
        .until(client.world(), what, async || {
            number += 1;
            client.leave_dependent(LATE, &format!("late-{number}")).await
        })
        .await;
    OWED.until(client.world(), "the loops have not done what they owe", async || orphans(client).is_none())
        .await;
    for informer in informers {
        let what = format!("the copy of an informer of {} does not equal what is stored", informer.kind.0);
        OWED.until(client.world(), &what, async || stored(client, informer) == Some(informer.copy())).await;
    }
    agree(client).await;
}

/// Changes a definition through one member, and goes on to each other one at once.
async fn change_and_go_on(client: &Client, kind: Custom) {
    let members = client.world().members();
    let first = client.session.pick();
    let what = format!("no edition of {} is acknowledged by n{}", kind.0, first.0);
    SERVED.until(client.world(), &what, async || client.change_definition(first, kind).await.is_some()).await;
    for node in members {
        client.go_on(node, kind).await;
        client.create(node, kind, "never", "?dryRun=All").await;
        let name = format!("last-{}", node.0);
        let what = format!("nothing can be created through n{}", node.0);
        SERVED
            .until(client.world(), &what, async || {
                matches!(client.create(node, kind, &name, "").await, Some(201 | 409))
            })
            .await;
    }
}

/// An object that should be gone, on any member.
fn orphans(client: &Client) -> Option<String> {
    let world = client.world();
    let states = world.members().into_iter().filter_map(|node| Some(world.store(node)?.state()));
    states.into_iter().find_map(|state| orphan(&state))
}

/// An informer's objects, as the newest member has stored them.
fn stored(client: &Client, informer: &Informer) -> Option<Objects> {
    let world = client.world();
    let states = world.members().into_iter().filter_map(|node| Some(world.store(node)?.state()));
    let state = states.max_by_key(|state| state.applied())?;
    let objects = state.collection(&informer.kind.storage());
    let is_asked_for = |object: &SharedObject| match informer.selection {
        Selection::All => true,
        Selection::ByField => is_selected(&document(object)),
    };
    let asked_for = objects.range_from("").filter(|(_, object)| is_asked_for(object));
    Some(asked_for.map(|(path, object)| (path.to_string(), object.revision.0)).collect())
}

/// Every member has the same in the end.
async fn agree(client: &Client) {
    let world = client.world();
    SERVED
        .until(client.world(), "the members do not converge", async || {
            let applied: Vec<_> =
                world.members().into_iter().map(|node: NodeId| world.applied(node)).collect();
            applied.iter().all(|one| one.is_some() && *one == applied[0])
        })
        .await;
    world.members().into_iter().for_each(|node| world.observe_whole(node));
}
