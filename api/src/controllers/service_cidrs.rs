//! Life of the ranges of cluster addresses: a ServiceCIDR that services still draw on is not removed.
//!
//! Owns its finalizer and its condition `Ready`. One that is being deleted goes once every IPAddress in it lies in a
//! range that stays, and not before other members had time to stop drawing from it. The default object is left alone:
//! the members make it anew whenever it is absent (`default_service`).
//!
//! Invariant: a finalizer is removed only from the version of the object that was looked at.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::{State, Store};
use orch_rules::Action;
use orch_rules::validate::address::Cidr;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::FAILED;
use super::client::{Client, Place, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::allocation::{ADDRESSES, CIDRS};
use crate::error::ApiError;

/// Wait for the next look at an object where something is a matter of time: its times are whole seconds.
const WAIT: Duration = Duration::from_secs(1);

/// Seconds by which the time now and the time at which an object was made differ before the object is looked at: a client
/// sees a new one as it made it for a second at least, as in the recordings, which no loop took part in (vectors/kinds).
const NEW_S: i64 = 2;

/// How long after the request to delete it a range is kept at least: other members may be about to give out an
/// address of it. The reference waits as long.
const DRAIN_S: i64 = 10;

const IN_USE: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// The next change of a ServiceCIDR.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The finalizer, which is absent.
    Protect,
    /// The condition `Ready` with this state.
    Report { is_ready: bool },
    /// To be let go.
    Release,
    /// Another look when some time has passed.
    Wait,
}

/// Keeps finalizers and conditions. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut ranges = [store.subscribe(&Arc::from(CIDRS))];
    let mut ranges_and_addresses = [CIDRS, ADDRESSES].map(|storage| store.subscribe(&Arc::from(storage)));
    let mut pace = Pace::new();
    loop {
        client.most_recent().await?;
        match look_at_all(client, &store.state()).await? {
            Next::Soon => {
                store.sleep(WAIT).await;
                continue;
            }
            Next::AddressChange => any_changed(&mut ranges_and_addresses).await,
            Next::Change => any_changed(&mut ranges).await,
        }
        pace.turn(store).await;
    }
}

/// When the objects are looked at again, the soonest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// After the shortest wait, because something is a matter of time.
    Soon,
    /// When addresses change, which they do with every service: a range waits for its last one.
    AddressChange,
    /// When a range changes.
    Change,
}

/// Takes a step for each object that needs one.
async fn look_at_all<S: Store>(client: &Client<S>, state: &State) -> Result<Next, ApiError> {
    let brand = client.registry().brand;
    let finalizer = format!("networking.{}/service-cidr-finalizer", brand.group_domain);
    let mut next = Next::Change;
    for (path, object) in state.collection(CIDRS).range_from("") {
        let object: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        if **path == *brand.api_service {
            continue;
        }
        let steps = steps(&object, &finalizer, now(client), || is_drawn_on(state, path, &object));
        next = next.min(match () {
            // few: two steps at most.
            () if steps.contains(&Step::Wait) => Next::Soon,
            () if object.at("metadata").has("deletionTimestamp") => Next::AddressChange,
            () => Next::Change,
        });
        for step in steps {
            take(client, path, &object, &finalizer, &step).await?;
        }
    }
    Ok(next)
}

fn now<S: Store>(client: &Client<S>) -> i64 {
    // date: objects say when they were made and deleted.
    i64::try_from(client.now_ms() / 1000).unwrap_or(i64::MAX)
}

fn seconds(text: &str) -> Option<i64> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(OffsetDateTime::unix_timestamp)
}

/// The changes that `object` needs at `now_s`, in seconds since 1970. `is_drawn_on` is called only for an object that is being deleted.
fn steps(object: &Value, finalizer: &str, now_s: i64, is_drawn_on: impl FnOnce() -> bool) -> Vec<Step> {
    let metadata = object.at("metadata");
    // once: one finalizer is looked for.
    let is_protected = metadata.texts("finalizers").contains(&finalizer);
    // once: one condition is looked for.
    let ready = object.at("status").items("conditions").iter().find(|one| one.text("type") == "Ready");
    let is_reported = |status: &str| ready.is_some_and(|ready| ready.text("status") == status);
    if let Some(deleted_s) = seconds(metadata.text("deletionTimestamp")) {
        return match () {
            () if !is_protected => Vec::new(),
            () if is_drawn_on() => {
                (!is_reported("False")).then_some(Step::Report { is_ready: false }).into_iter().collect()
            }
            () if now_s < deleted_s.saturating_add(DRAIN_S) => vec![Step::Wait],
            () => vec![Step::Release],
        };
    }
    if seconds(metadata.text("creationTimestamp")).is_some_and(|made_s| now_s - made_s < NEW_S) {
        return vec![Step::Wait];
    }
    let protect = (!is_protected).then_some(Step::Protect);
    let report = (!is_reported("True")).then_some(Step::Report { is_ready: true });
    protect.into_iter().chain(report).collect()
}

/// Whether some IPAddress lies in the ranges of the object at `path`, and in none that stays.
fn is_drawn_on(state: &State, path: &str, object: &Value) -> bool {
    let ranges_of = |object: &Value| -> Vec<Cidr> {
        object.at("spec").texts("cidrs").into_iter().filter_map(Cidr::parse).collect()
    };
    let own = ranges_of(object);
    let mut staying = Vec::new();
    for (_, other) in state.collection(CIDRS).range_from("").filter(|(other, _)| ***other != *path) {
        if !other.index.terminating {
            staying.extend(ranges_of(&serde_json::from_slice(&other.json).unwrap_or_default()));
        }
    }
    let addresses = state.collection(ADDRESSES);
    // once: each address is looked at one time.
    addresses.range_from("").filter_map(|(name, _)| name.parse::<IpAddr>().ok()).any(|address| {
        // few: ranges are made by administrators.
        let is_in = |ranges: &[Cidr]| ranges.iter().any(|range| range.holds(address));
        is_in(&own) && !is_in(&staying)
    })
}

async fn take<S: Store>(
    client: &Client<S>,
    path: &str,
    object: &Value,
    finalizer: &str,
    step: &Step,
) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(CIDRS) else { return Ok(()) };
    let metadata = object.at("metadata");
    let (uid, revision) = (metadata.text("uid"), metadata.text("resourceVersion"));
    let with_finalizers = |finalizers: Vec<&str>| json!({"metadata": {"uid": uid, "resourceVersion": revision, "finalizers": finalizers}});
    let held = metadata.texts("finalizers");
    let (action, patch) = match step {
        Step::Wait => return Ok(()),
        Step::Protect => (Action::Object, with_finalizers(held.into_iter().chain([finalizer]).collect())),
        Step::Release => {
            let others = held.into_iter().filter(|held| *held != finalizer).collect();
            (Action::Object, with_finalizers(others))
        }
        Step::Report { is_ready } => {
            let product = client.registry().brand.product;
            let conditions = with_ready(object, *is_ready, product, &client.now_text());
            (Action::Status, json!({"metadata": {"uid": uid}, "status": {"conditions": conditions}}))
        }
    };
    match client.patch(Place { resource: &resource, path }, action, &patch).await {
        Err(error) if is_overtaken(&error) => Ok(()),
        // An object that its rules or an admission plugin keep from being written holds up no other.
        Err(error @ (ApiError::Invalid { .. } | ApiError::Forbidden { .. })) => {
            if let Some(left_out) = FAILED.pass_at(client.moment()) {
                tracing::warn!(%error, path, left_out, "a range of cluster addresses cannot be written");
            }
            Ok(())
        }
        written => written,
    }
}

/// The conditions of `object` with this state of `Ready`.
fn with_ready(object: &Value, is_ready: bool, product: &str, now: &str) -> Vec<Value> {
    let (status, reason, message) = match is_ready {
        true => ("True", "", format!("{product} Service CIDR is ready")),
        false => ("False", "Terminating", IN_USE.to_owned()),
    };
    let ready = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": now
    });
    let others = object.at("status").items("conditions").iter().filter(|one| one.text("type") != "Ready");
    others.cloned().chain([ready]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;

    const FINALIZER: &str = "networking.orch.io/service-cidr-finalizer";

    fn object(metadata: Value, ready: &str) -> Value {
        let conditions = match ready {
            "" => json!([]),
            status => json!([{"type": "Ready", "status": status}]),
        };
        json!({"metadata": metadata, "spec": {"cidrs": ["10.1.0.0/24"]}, "status": {"conditions": conditions}})
    }

    #[test]
    fn a_range_is_protected_reported_and_let_go() {
        let made = "2026-01-02T03:04:05Z";
        let now = seconds(made).unwrap() + 100;
        let living = |finalizers: Value| json!({"creationTimestamp": made, "finalizers": finalizers});
        let ending =
            |at: &str| json!({"creationTimestamp": made, "finalizers": [FINALIZER], "deletionTimestamp": at});
        let (long_ago, just_now) = ("2026-01-02T03:05:00Z", "2026-01-02T03:05:40Z");
        let report = |is_ready| Step::Report { is_ready };
        for (object, is_drawn_on, expected) in [
            (object(living(json!([])), ""), true, vec![Step::Protect, report(true)]),
            (object(living(json!([FINALIZER])), "False"), true, vec![report(true)]),
            (object(living(json!([FINALIZER])), "True"), true, vec![]),
            (object(json!({"creationTimestamp": "2026-01-02T03:05:44Z"}), ""), true, vec![Step::Wait]),
            (object(ending(long_ago), "True"), true, vec![report(false)]),
            (object(ending(long_ago), "False"), true, vec![]),
            (object(ending(just_now), "True"), false, vec![Step::Wait]),
            (object(ending(long_ago), "False"), false, vec![Step::Release]),
            (object(json!({"deletionTimestamp": long_ago, "finalizers": ["a/b"]}), ""), false, vec![]),
        ] {
            assert_eq!(steps(&object, FINALIZER, now, || is_drawn_on), expected, "{object}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_range_outlives_its_addresses_unless_another_has_them() {
        let fixture = Fixture::new();
        let range = |name: &str, range: &str| json!({"metadata": {"name": name}, "spec": {"cidrs": [range]}});
        fixture.create(CIDRS, "", range("orch", "10.0.0.0/24")).await;
        fixture.create(CIDRS, "", range("one", "10.1.0.0/24")).await;
        let parent = json!({"resource": "services", "namespace": "n", "name": "s"});
        let address = json!({"metadata": {"name": "10.1.0.9"}, "spec": {"parentRef": parent}});
        fixture.create(ADDRESSES, "", address).await;
        let steps = async {
            let settled = async |seconds: u32| {
                for _ in 0..seconds {
                    fixture.advance(WAIT);
                    tokio::time::sleep(WAIT).await;
                }
            };
            settled(5).await;
            let one = fixture.read(CIDRS, "one");
            assert_eq!(one["metadata"]["finalizers"], json!([FINALIZER]));
            assert_eq!(one["status"]["conditions"][0]["message"], json!("Orch Service CIDR is ready"));
            assert_eq!(
                fixture.read(CIDRS, "orch")["metadata"].get("finalizers"),
                None,
                "the members keep it"
            );
            fixture.delete(CIDRS, "one", json!({})).await;
            settled(20).await;
            let ready = fixture.read(CIDRS, "one")["status"]["conditions"][0].clone();
            assert_eq!((&ready["status"], &ready["message"]), (&json!("False"), &json!(IN_USE)));
            fixture.create(CIDRS, "", range("wider", "10.1.0.0/16")).await;
            settled(5).await;
            assert!(!fixture.exists(CIDRS, "one"), "its address lies in another range");
            fixture.delete(CIDRS, "wider", json!({})).await;
            settled(20).await;
            assert!(fixture.exists(CIDRS, "wider"));
            fixture.remove_by_force(ADDRESSES, "10.1.0.9").await;
            settled(5).await;
            assert!(!fixture.exists(CIDRS, "wider"), "nothing draws on it");
        };
        fixture.beside(run(&fixture.client()), steps).await;
    }
}
