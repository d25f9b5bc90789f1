//! Bindings of roles, so that the load is sent by a user whose every request takes a decision by rules.
//!
//! Most bindings are of other users. Of those that name the user's group, one grants what the works need; the others grant
//! something else, so that they are looked through in vain.

use anyhow::{Context, Result};
use orch_proto::Brand;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::fixture::each;
use super::target::Target;
use crate::client::{Client, Identity};
use crate::cluster::ALICE_TOKEN;

/// Group of the user whose token a started cluster knows.
const GROUP: &str = "devs";
/// Bindings that name the group, at most.
const TOUCHING_MAX: u32 = 50;
/// The role that the works need.
const GRANTED: &str = "bench-granted";
/// A role that no work needs.
const OTHER: &str = "bench-other";

/// Makes `count` cluster role bindings through the administrator's `target`.
pub(super) fn make(target: &Target, brand: &Brand, count: u32) -> Result<()> {
    let group = brand.group("rbac.authorization");
    let path = |resource: &str| format!("/apis/{group}/v1/{resource}");
    let client = Client::new(target.endpoint.clone(), target.access.clone());
    let client = client.with_timeout(super::OPERATION_TIMEOUT);
    let (roles, bindings) = (path("clusterroles"), path("clusterrolebindings"));
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        post(&client, &roles, &role(GRANTED, "configmaps")).await?;
        post(&client, &roles, &role(OTHER, "nodes")).await?;
        each(count, async |number| post(&client, &bindings, &binding(&group, number, count)).await).await
    })
}

/// `target` for the user whom the bindings name.
pub(super) fn bound(target: &Target) -> Target {
    let access = target.access.with_identity(Identity::Token(ALICE_TOKEN.into()));
    Target { endpoint: target.endpoint.clone(), access }
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let answer = client.post(path, body).await?;
    answer.success().with_context(|| format!("cannot make {}", body["metadata"]["name"]))?;
    Ok(())
}

fn role(name: &str, resource: &str) -> Value {
    let rule = json!({"apiGroups": [""], "resources": [resource], "verbs": ["*"]});
    json!({"metadata": {"name": name}, "rules": [rule]})
}

/// The binding numbered `number` of `count`; the last one grants what the works need.
fn binding(group: &str, number: u32, count: u32) -> Value {
    let touching = TOUCHING_MAX.min(count);
    let (role, subject) = match number {
        last if last + 1 == count => (GRANTED, json!({"apiGroup": group, "kind": "Group", "name": GROUP})),
        other if other + touching >= count => {
            (OTHER, json!({"apiGroup": group, "kind": "Group", "name": GROUP}))
        }
        other => (OTHER, json!({"apiGroup": group, "kind": "User", "name": format!("user-{other}")})),
    };
    let reference = json!({"apiGroup": group, "kind": "ClusterRole", "name": role});
    json!({"metadata": {"name": format!("bench-{number:06}")}, "roleRef": reference, "subjects": [subject]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_bindings_touch_the_user_and_one_grants() {
        for (count, touching) in [(1, 1), (10, 10), (200, 50)] {
            let made: Vec<Value> = (0..count).map(|number| binding("g", number, count)).collect();
            let of_group = made.iter().filter(|binding| binding["subjects"][0]["name"] == GROUP);
            let grants = made.iter().filter(|binding| binding["roleRef"]["name"] == GRANTED);
            assert_eq!((of_group.count(), grants.count()), (touching, 1), "{count}");
        }
    }
}
