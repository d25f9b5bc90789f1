//! Repair of cluster addresses and node ports: claims and IPAddress objects agree with the services.
//!
//! Owns the comparison, of everything when a leader starts, and of each address whose object changes afterwards. Services are
//! the truth: a claim or an address that no service has is removed, one that a service lacks is made. Writes of services
//! keep both right by themselves; what is found wrong was changed by hand or written by another program.
//!
//! Invariant: a repair is proposed under conditions on all that it was decided on. An address object that is made is the
//! exception: it is looked at once more, as every one that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::WarningLimit;
use orch_raft::object::SharedObject;
use orch_raft::{Change, Condition, Key, ObjectPath, Operation, Outcome, State, Store, Transaction};
use orch_rules::validate::address::Family;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Moment, Place, Propagation, is_overtaken};
use super::turns::any_changed;
use crate::allocation::claims::{Holdings, address_claim, claim, holder};
use crate::allocation::{ADDRESSES, CLAIMS, SERVICES};
use crate::error::ApiError;
use crate::follow::{Derived, Follower};
use crate::pipeline::parent_service;

/// Wait after a change: those that come together are looked at together, and a service that is being made has its address
/// object by then.
const WAIT: Duration = Duration::from_secs(5);

/// Limits the warnings of things found wrong.
static WRONG: WarningLimit<Moment> = WarningLimit::new();

/// A disagreement between services and their claims or addresses.
#[derive(Debug)]
enum Repair {
    /// A service lacks this claim.
    Claim { key: Key, service: String, seen: SharedObject },
    /// No service has this claim.
    Release { key: Key, service: String, seen: SharedObject, owner: Option<SharedObject> },
    /// A service lacks this address object.
    Make { address: IpAddr, service: String },
    /// No service has the address of this object, which the allocator made.
    Remove { name: Arc<str>, seen: SharedObject },
    /// Two services hold the same: a client has to recreate one.
    Conflict { what: String, service: String },
}

/// The address objects that have to be looked at.
#[derive(Debug)]
struct Touched {
    source: Arc<str>,
    /// Everything has to be compared.
    all: bool,
    /// Names of the objects that changed. Each service that is made or removed adds its addresses.
    names: BTreeSet<Arc<str>>,
}

impl Derived for Touched {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.names.insert(change.path.clone());
    }

    fn rebuild(&mut self, _state: &State) {
        self.all = true;
    }
}

/// Repairs everything now, and addresses after their changes. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [store.subscribe(&Arc::from(ADDRESSES))];
    let mut applied = client.newest().await?;
    let touched = Touched { source: ADDRESSES.into(), all: true, names: BTreeSet::new() };
    let mut follower = Follower::new(touched, &applied);
    loop {
        let touched = follower.value_mut();
        let (all, names) = (std::mem::take(&mut touched.all), std::mem::take(&mut touched.names));
        let repairs = match all {
            true => examine(client, &applied.state),
            false => names.iter().filter_map(|name| examine_address(client, &applied.state, name)).collect(),
        };
        for repair in repairs {
            if let Some(left_out) = WRONG.pass_at(client.moment()) {
                tracing::warn!(left_out, "allocation of services: {}", repair.text());
            }
            carry_out(client, repair).await?;
        }
        any_changed(&mut changed).await;
        store.sleep(WAIT).await;
        applied = client.newest().await?;
        follower.advance(&applied);
    }
}

/// The repair that the address object called `name` needs in `state`; the object may be absent.
fn examine_address<S: Store>(client: &Client<S>, state: &State, name: &Arc<str>) -> Option<Repair> {
    let address: IpAddr = name.parse().ok()?;
    let claimed = address_claim(address).and_then(|key| state.object(&key).cloned());
    // A name in another form than the canonical one is of no service.
    let owner = claimed
        .filter(|_| *address.to_string() == **name)
        .map(|claim| holder(&claim.json))
        .filter(|service| holds(state, service, address));
    match (state.collection(ADDRESSES).get(name), owner) {
        (None, Some(service)) => Some(Repair::Make { address, service }),
        (Some(object), owner) => {
            let value: Value = serde_json::from_slice(&object.json).unwrap_or_default();
            let parent = parent_service(&value);
            let is_wrong = is_of_allocator(client, &value) && (parent.is_none() || parent != owner);
            is_wrong.then(|| Repair::Remove { name: name.clone(), seen: object.clone() })
        }
        (None, None) => None,
    }
}

/// Whether the service at `path` has `address`.
fn holds(state: &State, path: &str, address: IpAddr) -> bool {
    state.collection(SERVICES).get(path).is_some_and(|service| {
        let service: Value = serde_json::from_slice(&service.json).unwrap_or_default();
        // set: the addresses of one service.
        Holdings::of(&service).addresses.contains(&address)
    })
}

/// Whether the allocator made the address object, by its label.
fn is_of_allocator<S: Store>(client: &Client<S>, address: &Value) -> bool {
    let brand = client.registry().brand;
    let label = format!("ipaddress.{}/managed-by", brand.label_domain);
    address.at("metadata").at("labels").text(&label) == format!("ipallocator.{}", brand.group_domain)
}

/// The disagreements in `state`.
fn examine<S: Store>(client: &Client<S>, state: &State) -> Vec<Repair> {
    let mut repairs = Vec::new();
    let mut holders: BTreeMap<Key, String> = BTreeMap::new();
    let mut addresses: BTreeMap<String, String> = BTreeMap::new();
    for (path, object) in state.collection(SERVICES).range_from("") {
        let service: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        let holdings = Holdings::of(&service);
        for key in holdings.claims() {
            let held = state.object(&key).map(|held| holder(&held.json));
            if let Some(other) = holders.get(&key).filter(|other| ***other != **path) {
                let what = format!("{} is held by {other}, too", key.path());
                repairs.push(Repair::Conflict { what, service: path.to_string() });
                continue;
            }
            if held.is_none() {
                repairs.push(Repair::Claim {
                    key: key.clone(),
                    service: path.to_string(),
                    seen: object.clone(),
                });
            }
            holders.insert(key, path.to_string());
        }
        for address in holdings.addresses {
            let name = address.to_string();
            if state.collection(ADDRESSES).get(name.as_str()).is_none() {
                repairs.push(Repair::Make { address, service: path.to_string() });
            }
            addresses.entry(name).or_insert_with(|| path.to_string());
        }
    }
    for (path, object) in state.collection(CLAIMS).range_from("") {
        let Ok(key) = Key::new(&CLAIMS.into(), "", path) else { continue };
        let service = holder(&object.json);
        if holders.get(&key) != Some(&service) {
            let owner = state.collection(SERVICES).get(service.as_str()).cloned();
            repairs.push(Repair::Release { key, service, seen: object.clone(), owner });
        }
    }
    for (name, object) in state.collection(ADDRESSES).range_from("") {
        let address: Value = serde_json::from_slice(&object.json).unwrap_or_default();
        let parent = parent_service(&address);
        if is_of_allocator(client, &address)
            && (parent.is_none() || parent.as_ref() != addresses.get(&**name))
        {
            repairs.push(Repair::Remove { name: name.clone(), seen: object.clone() });
        }
    }
    repairs
}

impl Repair {
    fn text(&self) -> String {
        match self {
            Repair::Claim { key, service, .. } => {
                format!("{service} lacks the claim {}; repairing", key.path())
            }
            Repair::Release { key, service, .. } => {
                format!("the claim {} of {service} has no service; releasing", key.path())
            }
            Repair::Make { address, service } => {
                format!("{service} lacks the address object {address}; repairing")
            }
            Repair::Remove { name, .. } => format!("the address object {name} has no service; removing"),
            Repair::Conflict { what, service } => format!("{service}: {what}; please recreate one of them"),
        }
    }
}

async fn carry_out<S: Store>(client: &Client<S>, repair: Repair) -> Result<(), ApiError> {
    let (conditions, operation) = match repair {
        Repair::Conflict { .. } => return Ok(()),
        Repair::Make { address, service } => return make(client, address, &service).await,
        Repair::Remove { name, seen } => {
            let Some(resource) = client.stored_resource(ADDRESSES) else { return Ok(()) };
            let place = Place { resource: &resource, path: &name };
            let (uid, revision) = (&seen.index.uid, Some(seen.revision));
            return passed(client.delete(place, uid, revision, Propagation::Background).await);
        }
        Repair::Claim { key, service, seen } => {
            let of_service = service_key(&service)?;
            let conditions =
                vec![Condition::AtRevision(of_service, seen.revision), Condition::Absent(key.clone())];
            (conditions, Operation::Put(claim(key, &service)))
        }
        Repair::Release { key, service, seen, owner } => {
            let claimed = Condition::AtRevision(key.clone(), seen.revision);
            let of_service = service_key(&service).ok().map(|of_service| match &owner {
                Some(owner) => Condition::AtRevision(of_service, owner.revision),
                None => Condition::Absent(of_service),
            });
            (of_service.into_iter().chain([claimed]).collect(), Operation::Delete(key))
        }
    };
    // date: the log says when.
    let transaction = Transaction { proposed_ms: client.now_ms(), conditions, operations: vec![operation] };
    match client.store().propose(transaction).await? {
        // Refused: it has changed meanwhile, and the next comparison tells.
        Outcome::Applied { .. } | Outcome::Refused { .. } => Ok(()),
        Outcome::Full { used, quota, .. } => Err(ApiError::StateFull { used, quota }),
    }
}

fn service_key(path: &str) -> Result<Key, ApiError> {
    let (namespace, name) = ObjectPath::of(path).parts();
    Key::new(&SERVICES.into(), namespace, name).map_err(|error| ApiError::Internal(error.to_string()))
}

async fn make<S: Store>(client: &Client<S>, address: IpAddr, service: &str) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(ADDRESSES) else { return Ok(()) };
    let (namespace, name) = ObjectPath::of(service).parts();
    let brand = client.registry().brand;
    let label = |name: &str| format!("ipaddress.{}/{name}", brand.label_domain);
    let mut labels = json!({});
    labels[label("ip-family").as_str()] = json!(Family::of(address).name());
    labels[label("managed-by").as_str()] = json!(format!("ipallocator.{}", brand.group_domain));
    let object = json!({
        "metadata": {"name": address.to_string(), "labels": labels},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}}
    });
    passed(client.create(&resource, "", &object).await)
}

fn passed(result: Result<(), ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;

    async fn fixture() -> Fixture {
        let fixture = Fixture::new();
        fixture.namespace("ns").await;
        let range = json!({"metadata": {"name": "orch"}, "spec": {"cidrs": ["10.0.0.0/24"]}});
        fixture.create("servicecidrs.networking", "", range).await;
        let spec =
            json!({"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80, "nodePort": 30_001}]});
        fixture.create(SERVICES, "ns", json!({"metadata": {"name": "a"}, "spec": spec})).await;
        fixture
    }

    fn claims(fixture: &Fixture) -> Vec<String> {
        let all = fixture.state().collection(CLAIMS);
        all.range_from("").map(|(path, object)| format!("{path} {}", holder(&object.json))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn right_claims_are_left_alone() {
        let fixture = fixture().await;
        let before = fixture.state().applied();
        fixture.while_running(run(&fixture.client()), 20).await;
        assert_eq!(fixture.state().applied(), before);
        assert_eq!(claims(&fixture), ["address:10.0.0.9 ns/a", "port:30001 ns/a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_holds_its_own_until_its_last_finalizer_is_gone() {
        let fixture = fixture().await;
        fixture.merge(SERVICES, "ns/a", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
        fixture.delete(SERVICES, "ns/a", json!({})).await;
        assert_eq!(claims(&fixture).len(), 2);
        fixture
            .merge(SERVICES, "ns/a", json!({"metadata": {"finalizers": []}, "spec": {"type": "ClusterIP"}}))
            .await;
        assert!(claims(&fixture).is_empty() && !fixture.exists(ADDRESSES, "10.0.0.9"));
    }

    #[tokio::test(start_paused = true)]
    async fn lost_claims_and_addresses_come_back_and_leaked_ones_go() {
        let fixture = fixture().await;
        let leaked = crate::allocation::claims::port_claim(30_002).unwrap();
        let lost = crate::allocation::claims::port_claim(30_001).unwrap();
        let operations = vec![Operation::Put(claim(leaked, "ns/gone")), Operation::Delete(lost)];
        let transaction = Transaction { proposed_ms: 0, conditions: Vec::new(), operations };
        fixture.store().propose(transaction).await.unwrap();
        fixture.delete(ADDRESSES, "10.0.0.9", json!({})).await;
        fixture.while_running(run(&fixture.client()), 20).await;
        assert_eq!(claims(&fixture), ["address:10.0.0.9 ns/a", "port:30001 ns/a"]);
        let address = fixture.read(ADDRESSES, "10.0.0.9");
        assert_eq!(address["spec"]["parentRef"]["name"], "a");
        let steps = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            fixture.delete(ADDRESSES, "10.0.0.9", json!({})).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert!(fixture.exists(ADDRESSES, "10.0.0.9"), "an administrator deleted it while the loop ran");
            let mut stray = fixture.read(ADDRESSES, "10.0.0.9");
            stray["metadata"] = json!({"name": "10.0.0.77", "labels": stray["metadata"]["labels"].clone()});
            fixture.create(ADDRESSES, "", stray.clone()).await;
            stray["metadata"] = json!({"name": "10.0.0.78"});
            fixture.create(ADDRESSES, "", stray).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert!(!fixture.exists(ADDRESSES, "10.0.0.77"), "no service has it");
            assert!(fixture.exists(ADDRESSES, "10.0.0.78"), "somebody else's");
        };
        fixture.beside(run(&fixture.client()), steps).await;
    }
}
