//! Identity leases: a Lease in the system's namespace for each member that serves the API, by which others see which servers
//! there are.
//!
//! Owns their names, the renewal of this member's lease by itself, and, on the leader, the removal of leases that have
//! expired. A lease that does not expire says that its server wrote it within the hour, and nothing more: no decision
//! of this server depends on one.
//!
//! A renewal is a write through the log, as often as that of a node's heartbeat: a member costs what a node costs. It is sent
//! only while this member may serve, and one at a time, so that a cluster without a quorum collects none.
//!
//! Invariant: a member writes no lease but its own, under the name that is made of the member's name.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use orch_raft::Store;
use orch_raft::object::SharedObject;
use orch_raft::state::NAMESPACES;
use orch_rules::Action;
use orch_rules::validate::names::label_value;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};
use sha2::{Digest, Sha256};

use super::api_endpoints::Members;
use super::client::{Client, Place, Propagation, is_overtaken};
use super::turns::{Pace, changed_within};
use crate::error::ApiError;

const LEASES: &str = "leases.coordination";

/// Time after which a lease that is not renewed has expired, in seconds: the reference's.
const DURATION_SECONDS: i64 = 3600;

/// Period of renewals: the reference's, and that of the heartbeats of nodes.
const RENEWAL: Duration = Duration::from_secs(10);

/// Period of the look for expired leases: the reference's.
const COLLECTION: Duration = Duration::from_secs(3600);

/// Removals of one look; more are removed by the next ones. There are as many leases as there ever were members within an hour.
const BATCH_MAX: usize = 64;

/// The identity of this member's server, from its start to its end.
pub(super) struct Identity {
    /// Name of the lease.
    name: String,
    /// Name and a random part, which tells a restarted server from its predecessor.
    holder: String,
    /// Host name of the machine; `None` where it is unknown or no valid value of a label.
    hostname: Option<String>,
}

impl Identity {
    /// The identity of the member that `members` calls its own, with the random part `random`.
    pub(super) fn of(members: &dyn Members, random: &str) -> Identity {
        let name = lease_name(&members.own_name());
        let hostname = members.hostname().filter(|host| label_value(host).is_empty());
        Identity { holder: format!("{name}_{random}"), name, hostname }
    }

    /// The members of the lease that a renewal at `now`, with microseconds, sets.
    fn lease(&self, brand: &Brand, now: &str) -> Value {
        let mut labels = json!({(identity_label(brand).as_str()): server_name(brand)});
        if let Some(hostname) = &self.hostname {
            labels[brand.label("hostname").as_str()] = json!(hostname.as_str());
        }
        let spec = json!({
            "holderIdentity": self.holder.as_str(),
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": now,
        });
        json!({"metadata": {"name": self.name.as_str(), "labels": labels}, "spec": spec})
    }
}

/// Name of the lease of the member `member`: `apiserver-` and 26 letters and digits.
fn lease_name(member: &str) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = Sha256::digest(member);
    let bits = hash[..16].iter().fold(0_u128, |bits, &byte| bits << 8 | u128::from(byte));
    let letter = |bits: u128| char::from(ALPHABET[usize::try_from(bits & 31).expect("below 32")]);
    let whole = (0..25).map(|at| letter(bits >> (123 - 5 * at)));
    // The last three of the 128 bits, filled up with zeros.
    format!("apiserver-{}{}", whole.collect::<String>(), letter((bits & 7) << 2))
}

/// The label that tells identity leases from others.
fn identity_label(brand: &Brand) -> String {
    format!("apiserver.{}", brand.label("identity"))
}

/// The value of that label: the kind of server.
fn server_name(brand: &Brand) -> String {
    format!("{}-apiserver", brand.component_prefix)
}

/// Keeps the lease of this member. Completes only with an error.
pub(super) async fn renew<S: Store>(client: &Client<S>, identity: &Identity) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut namespaces = [store.subscribe(&Arc::from(NAMESPACES))];
    let mut pace = Pace::new();
    client.most_recent().await?;
    loop {
        if store.may_serve().is_ok() && write(client, identity).await? {
            store.sleep(RENEWAL).await;
        } else {
            // A new cluster makes the namespace within moments.
            changed_within(store, &mut namespaces, Some(RENEWAL)).await;
            pace.turn(store).await;
        }
    }
}

/// Creates or renews the lease; `false`: its namespace is missing, or another write came between.
async fn write<S: Store>(client: &Client<S>, identity: &Identity) -> Result<bool, ApiError> {
    let Some(resource) = client.stored_resource(LEASES) else { return Ok(false) };
    let brand = client.registry().brand;
    let path = format!("{}/{}", brand.system_namespace, identity.name);
    // date: the lease says when it was renewed.
    let lease = identity.lease(brand, &client.now().micros_text());
    let is_there = client.store().state().collection(LEASES).get(path.as_str()).is_some();
    let sent = match is_there {
        true => client.patch(Place { resource: &resource, path: &path }, Action::Object, &lease).await,
        false => client.create(&resource, brand.system_namespace, &lease).await,
    };
    match sent {
        Ok(()) => Ok(true),
        Err(error) if is_overtaken(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes the leases that have expired. Completes only with an error.
pub(super) async fn collect<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    loop {
        remove_expired(client).await?;
        client.store().sleep(COLLECTION).await;
    }
}

async fn remove_expired<S: Store>(client: &Client<S>) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(LEASES) else { return Ok(()) };
    // date: leases say when they were renewed.
    let (brand, now) = (client.registry().brand, i64::try_from(client.now_ms() / 1000).unwrap_or(i64::MAX));
    let (key, value) = (identity_label(brand), server_name(brand));
    let state = client.most_recent().await?;
    let leases = state.collection(LEASES);
    let leases = leases.within(brand.system_namespace, "");
    // once: one pass an hour; a lease has few labels.
    let expired =
        leases.filter(|(_, lease)| lease.index.labels.find(&key) == Some(&*value) && is_expired(lease, now));
    for (path, lease) in expired.take(BATCH_MAX) {
        let place = Place { resource: &resource, path };
        // A lease that was renewed meanwhile stays.
        let revision = Some(lease.revision);
        match client.delete(place, &lease.index.uid, revision, Propagation::Background).await {
            Err(error) if !is_overtaken(&error) => return Err(error),
            Err(_) => {}
            Ok(()) => tracing::info!(path = %path, "the lease of a server that is gone was removed"),
        }
    }
    Ok(())
}

/// Whether the lease has ended before `now`, seconds since 1970. One without an end is not this server's work.
fn is_expired(lease: &SharedObject, now: i64) -> bool {
    let object: Value = serde_json::from_slice(&lease.json).unwrap_or_default();
    let spec = &object["spec"];
    let renewed = spec["renewTime"].as_str().and_then(|text| Instant::parse(text, Precision::Micros));
    let (Some(renewed), Some(duration)) = (renewed, spec["leaseDurationSeconds"].as_i64()) else {
        return true;
    };
    renewed.seconds.saturating_add(duration) < now
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use orch_proto::brand::KUBERNETES;

    use super::*;
    use crate::controllers::testing::Fixture;

    #[derive(Debug)]
    struct Member(&'static str, Option<&'static str>);

    impl Members for Member {
        fn own_name(&self) -> String {
            self.0.to_owned()
        }

        fn own_address(&self) -> (String, u16) {
            ("192.0.2.1".to_owned(), 6443)
        }

        fn hostname(&self) -> Option<String> {
            self.1.map(str::to_owned)
        }

        fn names(&self) -> BTreeSet<String> {
            BTreeSet::from([self.0.to_owned()])
        }
    }

    const SYSTEM: &str = "orch-system";

    #[test]
    fn names_have_the_form_that_programs_look_for() {
        // By `printf one | sha256sum | head -c 32 | xxd -r -p | base32`.
        assert_eq!(lease_name("one"), "apiserver-o2jmhljvic5yapacbm5o4zwnra");
        assert_ne!(lease_name("one"), lease_name("two"));
        let identity = Identity::of(&Member("one", Some("host-1")), "r");
        let labels = identity.lease(&KUBERNETES, "now")["metadata"]["labels"].clone();
        let expected =
            json!({"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "host-1"});
        assert_eq!(labels, expected);
        let strange = Identity::of(&Member("one", Some("-no label-")), "r");
        assert_eq!(strange.lease(&KUBERNETES, "now")["metadata"]["labels"].as_object().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_keeps_its_lease_and_takes_it_over_after_a_restart() {
        let fixture = Fixture::new();
        let client = fixture.client();
        let member = Member("one", Some("host-1"));
        let path = format!("{SYSTEM}/{}", lease_name("one"));
        let lease = || fixture.read(LEASES, &path);
        let first = Identity::of(&member, "first");
        let steps = async {
            fixture.namespace(SYSTEM).await;
            fixture.store().sleep(Duration::from_secs(1)).await;
            let spec = json!({"holderIdentity": format!("{}_first", lease_name("one")),
                "leaseDurationSeconds": 3600, "renewTime": "2026-01-02T02:49:05.000000Z"});
            assert_eq!(lease()["spec"], spec);
            let before = fixture.state().applied();
            fixture.advance(Duration::from_secs(60));
            fixture.store().sleep(Duration::from_secs(60)).await;
            assert_eq!(lease()["spec"]["renewTime"], "2026-01-02T02:50:05.000000Z");
            assert!(fixture.state().applied().0 - before.0 <= 6, "a write each ten seconds");
            fixture.remove_by_force(LEASES, &path).await;
            fixture.store().sleep(RENEWAL).await;
            assert!(fixture.exists(LEASES, &path), "made again");
        };
        fixture.beside(renew(&client, &first), steps).await;
        let uid = lease()["metadata"]["uid"].clone();
        let second = Identity::of(&member, "second");
        fixture.while_running(renew(&client, &second), 1).await;
        assert_eq!(lease()["spec"]["holderIdentity"], format!("{}_second", lease_name("one")));
        assert_eq!(lease()["metadata"]["uid"], uid);
    }

    #[tokio::test(start_paused = true)]
    async fn leases_of_servers_that_are_gone_are_removed_and_no_others() {
        let fixture = Fixture::new();
        let client = fixture.client();
        fixture.namespace(SYSTEM).await;
        fixture.namespace("n").await;
        let gone = Identity::of(&Member("gone", None), "r");
        let object = gone.lease(client.registry().brand, "2026-01-02T02:49:05.000000Z");
        fixture.create(LEASES, SYSTEM, object.clone()).await;
        fixture.create(LEASES, "n", object.clone()).await;
        let (mut endless, mut unlabelled) = (object.clone(), object);
        endless["metadata"]["name"] = json!("endless");
        endless["spec"]["renewTime"] = Value::Null;
        unlabelled["metadata"] = json!({"name": "unlabelled"});
        fixture.create(LEASES, SYSTEM, endless).await;
        fixture.create(LEASES, SYSTEM, unlabelled).await;
        let kept = Identity::of(&Member("kept", None), "r");
        let left = || {
            let state = fixture.state();
            state.collection(LEASES).range_from("").map(|(path, _)| path.to_string()).collect::<BTreeSet<_>>()
        };
        let path = |name: &str| format!("{SYSTEM}/{name}");
        fixture.while_running(collect(&client), 1).await;
        let others = BTreeSet::from([format!("n/{}", gone.name), path("unlabelled")]);
        assert_eq!(left(), others.clone().into_iter().chain([path(&gone.name)]).collect(), "without an end");
        fixture.advance(Duration::from_secs(3601));
        fixture.while_running(renew(&client, &kept), 1).await;
        fixture.while_running(collect(&client), 1).await;
        assert_eq!(left(), others.into_iter().chain([path(&kept.name)]).collect());
    }
}
