//! Addresses of the members: each member's note of its own, and the endpoints of the default service.
//!
//! Owns the notes, objects of the internal resource [`NOTES`] under the names of members. Every member keeps its own; the
//! leader makes the Endpoints and the EndpointSlice of them. A member that has left the cluster is left out.
//!
//! As in the reference an address that no other host can reach (loopback, a host name) is no endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;

use orch_raft::state::{CLUSTER_RESOURCE, NAMESPACES};
use orch_raft::{Condition, Index, Key, Operation, Outcome, Put, State, Store, Transaction};
use orch_rules::Action;
use orch_rules::validate::Path;
use orch_rules::validate::address::{Family, validate_ip, validate_ordinary_ip};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Place, is_overtaken};
use super::default_service::NAMESPACE;
use super::meaning::means_same;
use super::turns::{Pace, any_changed};
use crate::error::ApiError;

/// The store's resource of notes; no API serves it.
const NOTES: &str = "_apiservers";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery";

/// The members of the cluster, as this one knows them.
pub trait Members: Debug + Send + Sync {
    /// Name of this member.
    fn own_name(&self) -> String;

    /// Host and port under which clients reach this member.
    fn own_address(&self) -> (String, u16);

    /// Host name of this member's machine; `None`: it is unknown.
    fn hostname(&self) -> Option<String>;

    /// The names of all members.
    fn names(&self) -> BTreeSet<String>;
}

/// Keeps the note of this member. Completes only with an error.
pub(super) async fn announce<S: Store>(
    client: &Client<S>,
    members: &dyn Members,
) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [store.subscribe(&Arc::from(NOTES))];
    client.most_recent().await?;
    let name = members.own_name();
    let key = Key::new(&NOTES.into(), "", &name).map_err(|error| ApiError::Internal(error.to_string()))?;
    let put = note(key.clone(), members.own_address());
    let mut pace = Pace::new();
    loop {
        let stored = store.state().object(&key).cloned();
        let (before, after) = stored.as_ref().map(|object| object.json_around_revision()).unwrap_or_default();
        let at = put.revision_at as usize;
        if put.json[..at] != *before || put.json[at..] != *after {
            let condition = match &stored {
                Some(object) => Condition::AtRevision(key.clone(), object.revision),
                None => Condition::Absent(key.clone()),
            };
            let transaction = Transaction {
                // date: the log says when.
                proposed_ms: client.now_ms(),
                conditions: vec![condition],
                operations: vec![Operation::Put(put.clone())],
            };
            match store.propose(transaction).await? {
                Outcome::Applied { .. } => {}
                Outcome::Refused { .. } => continue,
                Outcome::Full { used, quota, .. } => return Err(ApiError::StateFull { used, quota }),
            }
        }
        any_changed(&mut changed).await;
        pace.turn(store).await;
    }
}

fn note(key: Key, (host, port): (String, u16)) -> Put {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let json = format!("{HEAD}\"}},\"host\":{},\"port\":{port}}}", json!(host));
    let revision_at = u32::try_from(HEAD.len()).unwrap_or_default();
    Put { key, json: json.into(), revision_at, index: Index::default() }
}

/// Keeps the endpoints of the default service. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>, members: &dyn Members) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [NAMESPACES, CLUSTER_RESOURCE, NOTES, ENDPOINTS, SLICES]
        .map(|storage| store.subscribe(&Arc::from(storage)));
    client.most_recent().await?;
    let mut pace = Pace::new();
    loop {
        let state = store.state();
        let reached = Reached::of(&state, &members.names());
        let has_namespace =
            state.collection(NAMESPACES).get(NAMESPACE).is_some_and(|found| !found.index.terminating);
        if let Some(reached) = reached.filter(|_| has_namespace) {
            reconcile(client, ENDPOINTS, &reached.endpoints(client)).await?;
            reconcile(client, SLICES, &reached.slice(client)).await?;
        }
        any_changed(&mut changed).await;
        pace.turn(store).await;
    }
}

/// Addresses of one family under which members serve the API, by port.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    family: Family,
    by_port: BTreeMap<u16, BTreeSet<String>>,
}

impl Reached {
    /// The addresses in the notes of `members`; `None` where no address can be an endpoint.
    fn of(state: &State, members: &BTreeSet<String>) -> Option<Reached> {
        let mut found: BTreeMap<Family, BTreeMap<u16, BTreeSet<String>>> = BTreeMap::new();
        let notes = state.collection(NOTES);
        // set: `members` is one.
        for (_, object) in notes.range_from("").filter(|(name, _)| members.contains(&***name)) {
            let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
            let (host, port) =
                (value.text("host"), value.int("port").and_then(|port| u16::try_from(port).ok()));
            let path = Path::new("ip");
            let is_ordinary =
                validate_ip(&path, host).is_none() && validate_ordinary_ip(&path, host).is_none();
            if let (true, Some(port), Ok(address)) = (is_ordinary, port, host.parse()) {
                found
                    .entry(Family::of(address))
                    .or_default()
                    .entry(port)
                    .or_default()
                    .insert(host.to_owned());
            }
        }
        // IPv4 where there is some: the reference keeps one slice.
        found.into_iter().next().map(|(family, by_port)| Reached { family, by_port })
    }

    fn endpoints<S: Store>(&self, client: &Client<S>) -> Value {
        let brand = client.registry().brand;
        let subset = |(port, addresses): (&u16, &BTreeSet<String>)| {
            let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
        };
        let subsets: Vec<Value> = self.by_port.iter().map(subset).collect();
        let mut labels = json!({});
        labels[format!("endpointslice.{}/skip-mirror", brand.label_domain).as_str()] = json!("true");
        json!({"metadata": {"name": brand.api_service, "labels": labels}, "subsets": subsets})
    }

    /// The slice: its ports hold for all its addresses, so that it has those of the commonest port.
    fn slice<S: Store>(&self, client: &Client<S>) -> Value {
        let brand = client.registry().brand;
        let commonest =
            self.by_port.iter().max_by_key(|(port, addresses)| (addresses.len(), u16::MAX - **port));
        let (port, addresses) =
            commonest.map(|(port, addresses)| (*port, addresses.clone())).unwrap_or_default();
        let endpoint = |address: &String| json!({"addresses": [address], "conditions": {"ready": true}});
        let mut labels = json!({});
        labels[brand.label("service-name").as_str()] = json!(brand.api_service);
        json!({
            "metadata": {"name": brand.api_service, "labels": labels},
            "addressType": self.family.name(),
            "endpoints": addresses.iter().map(endpoint).collect::<Vec<Value>>(),
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}]
        })
    }
}

/// Creates the object, or mends what it is to say.
async fn reconcile<S: Store>(client: &Client<S>, storage: &str, wanted: &Value) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(storage) else { return Ok(()) };
    let path = format!("{NAMESPACE}/{}", wanted.at("metadata").text("name"));
    let state = client.store().state();
    let sent = match state.collection(storage).get(path.as_str()) {
        None => client.create(&resource, NAMESPACE, wanted).await,
        Some(object) => {
            let stored: Value = serde_json::from_slice(&object.json).unwrap_or_default();
            let content = ["subsets", "endpoints", "ports"];
            let changed: Vec<&str> =
                content.into_iter().filter(|field| !means_same(stored.at(field), wanted.at(field))).collect();
            if changed.is_empty() {
                return Ok(());
            }
            let mut patch =
                json!({"metadata": {"resourceVersion": stored.at("metadata").text("resourceVersion")}});
            for field in changed {
                patch[field] = wanted.at(field).clone();
            }
            client.patch(Place { resource: &resource, path: &path }, Action::Object, &patch).await
        }
    };
    match sent {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Mutex;

    use super::*;
    use crate::controllers::testing::Fixture;

    #[derive(Debug)]
    struct Known {
        name: &'static str,
        host: &'static str,
        names: Mutex<BTreeSet<String>>,
    }

    impl Members for Known {
        fn own_name(&self) -> String {
            self.name.to_owned()
        }

        fn own_address(&self) -> (String, u16) {
            (self.host.to_owned(), 6443)
        }

        fn hostname(&self) -> Option<String> {
            None
        }

        fn names(&self) -> BTreeSet<String> {
            self.names.lock().unwrap().clone()
        }
    }

    fn member(name: &'static str, host: &'static str) -> Known {
        Known { name, host, names: Mutex::new(["a", "b"].map(str::to_owned).into()) }
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_are_those_of_the_members() {
        let fixture = Fixture::new();
        fixture.namespace("default").await;
        let members = [("a", "192.0.2.1"), ("b", "192.0.2.2"), ("gone", "192.0.2.3")];
        for (name, host) in members {
            fixture.while_running(announce(&fixture.client(), &member(name, host)), 2).await;
        }
        let noted = fixture.state().applied();
        fixture.while_running(announce(&fixture.client(), &member("a", "192.0.2.1")), 2).await;
        assert_eq!(fixture.state().applied(), noted, "a note that is right is not written again");
        let leader = member("a", "192.0.2.1");
        let steps = async {
            let settled = || tokio::time::sleep(Duration::from_secs(3));
            settled().await;
            let endpoints = fixture.read(ENDPOINTS, "default/orch");
            assert_eq!(
                endpoints["subsets"],
                json!([{"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}],
                    "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}])
            );
            let slice = fixture.read(SLICES, "default/orch");
            assert_eq!(slice["metadata"]["labels"], json!({"orch.io/service-name": "orch"}));
            assert_eq!(slice["endpoints"].as_array().unwrap().len(), 2);
            leader.names.lock().unwrap().remove("b");
            fixture.delete(SLICES, "default/orch", json!({})).await;
            settled().await;
            let slice = fixture.read(SLICES, "default/orch");
            assert_eq!(
                slice["endpoints"],
                json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}])
            );
            assert_eq!(
                fixture.read(ENDPOINTS, "default/orch")["subsets"][0]["addresses"].as_array().unwrap().len(),
                1
            );
            let before = fixture.state().applied();
            settled().await;
            assert_eq!(fixture.state().applied(), before, "nothing is written without need");
        };
        fixture.beside(run(&fixture.client(), &leader), steps).await;
    }

    #[tokio::test(start_paused = true)]
    async fn loopback_and_host_names_are_no_endpoints() {
        let fixture = Fixture::new();
        fixture.namespace("default").await;
        for (name, host) in [("a", "127.0.0.1"), ("b", "b.example.com")] {
            fixture.while_running(announce(&fixture.client(), &member(name, host)), 2).await;
        }
        fixture.while_running(run(&fixture.client(), &member("a", "127.0.0.1")), 3).await;
        assert!(!fixture.exists(ENDPOINTS, "default/orch") && !fixture.exists(SLICES, "default/orch"));
    }
}
