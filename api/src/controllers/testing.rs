//! A pipeline over one state machine in memory, with a clock moved by hand, for tests of the loops.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::Either;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Index, Key, Operation, Put, State, Store, Transaction};
use orch_rules::Action;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::Client;
use crate::admission::{Additions, Attributes, Chain, Operation as Admitted, Plugin, Ruling, View};
use crate::aggregation::Aggregation;
use crate::ambient::{Ambient, Timestamp};
use crate::authn::service_account::ServiceAccounts;
use crate::authn::{AnonymousAccess, Authenticator, TokenTable, User};
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::follow::Applied;
use crate::gate::Gate;
use crate::paging::TokenKey;
use crate::pipeline::{Answer, Features, Pipeline, Request};
use crate::registry::Registry;
use crate::request::{Query, Target, Verb};
use crate::testing::gate;

/// A clock that tests move, and ids that count upwards.
#[derive(Debug)]
struct HandMoved {
    micros: AtomicU64,
    count: AtomicU64,
}

impl Ambient for HandMoved {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::Relaxed))
    }

    fn random(&self) -> u128 {
        u128::from(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// Makes the first objects of a cluster in `store`.
pub(crate) async fn bootstrap<S: Store>(store: S) {
    let fixture = Fixture::new();
    let client = Client::new(fixture.pipeline_over(store), "bootstrap");
    fixture.while_running(super::bootstrap::run(&client, None), 1).await;
}

/// An admission plugin that never rules on the deletion of an object called `hung`, nor on updates and service accounts in a
/// namespace called `stuck`, as a webhook that does not answer.
struct Hanging;

impl Plugin for Hanging {
    fn name(&self) -> &'static str {
        "Hanging"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        match attributes.operation {
            Admitted::Delete => attributes.name == "hung",
            Admitted::Update => attributes.namespace == "stuck",
            Admitted::Create => {
                attributes.namespace == "stuck" && attributes.resource.plural == "serviceaccounts"
            }
            Admitted::Connect => false,
        }
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        Either::Right(Box::pin(std::future::pending()))
    }
}

/// A server over one state machine.
pub(crate) struct Fixture {
    pipeline: Arc<Pipeline<MemoryStore>>,
    ambient: Arc<HandMoved>,
}

impl Fixture {
    /// An empty server in January 2026.
    pub(crate) fn new() -> Self {
        let micros = AtomicU64::new(1_767_322_145_000_000);
        let ambient = Arc::new(HandMoved { micros, count: AtomicU64::new(1) });
        Fixture { pipeline: pipeline(MemoryStore::default(), ambient.clone()), ambient }
    }

    /// The same with these admission plugins.
    pub(super) fn with_plugins(admission: Chain) -> Self {
        let mut fixture = Fixture::new();
        Arc::get_mut(&mut fixture.pipeline).expect("nobody else has it").admission = admission;
        fixture
    }

    /// The same with these aggregated servers.
    pub(super) fn with_aggregation(aggregation: Aggregation) -> Self {
        let mut fixture = Fixture::new();
        Arc::get_mut(&mut fixture.pipeline).expect("nobody else has it").aggregation = aggregation;
        fixture
    }

    /// The same, where the deletion of an object called `hung` never ends, and no update in a namespace called `stuck`.
    pub(super) fn hanging() -> Self {
        Fixture::with_plugins(Chain::new(vec![Box::new(Hanging)]))
    }

    /// The same with tokens of service accounts.
    pub(super) fn with_service_accounts(accounts: Arc<ServiceAccounts>) -> Self {
        let mut fixture = Fixture::new();
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let gate = Gate::with_service_accounts(&ORCH, authenticator, accounts);
        Arc::get_mut(&mut fixture.pipeline).expect("nobody else has it").gate = gate;
        fixture
    }

    /// The same server over a store of its own.
    pub(super) fn pipeline_over<S: Store>(&self, store: S) -> Arc<Pipeline<S>> {
        pipeline(store, self.ambient.clone())
    }

    pub(crate) fn pipeline(&self) -> Arc<Pipeline<MemoryStore>> {
        self.pipeline.clone()
    }

    pub(super) fn client(&self) -> Client<MemoryStore> {
        Client::new(self.pipeline.clone(), "test")
    }

    pub(crate) fn store(&self) -> &MemoryStore {
        &self.pipeline.store
    }

    pub(crate) fn applied(&self) -> Applied {
        Applied::of(self.store())
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.store().state()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.ambient.now().millis()
    }

    /// Moves the ambient clock. Sleeping tasks do not notice.
    pub(crate) fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap();
        self.ambient.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Forgets all history.
    pub(crate) fn forget_history(&self) {
        self.store().forget_history();
    }

    /// Runs `work` for `seconds` of virtual time.
    pub(crate) async fn while_running<T>(&self, work: impl Future<Output = T>, seconds: u64) {
        self.beside(work, self.store().sleep(Duration::from_secs(seconds))).await;
    }

    /// Runs `work` until `steps` are done.
    pub(crate) fn beside<T>(
        &self,
        work: impl Future<Output = T>,
        steps: impl Future<Output = ()>,
    ) -> impl Future<Output = ()> {
        // In boxes: the two together are too large for a future that callers hold.
        let both = futures::future::select(Box::pin(work), Box::pin(steps));
        async move {
            match both.await {
                Either::Left(_) => panic!("a loop ended by itself"),
                Either::Right(_) => {}
            }
        }
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.create("namespaces", "", json!({"metadata": {"name": name}})).await;
    }

    /// Creates an object of a storage resource; returns its uid.
    pub(crate) async fn create(&self, storage: &str, namespace: &str, object: Value) -> String {
        let path = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        match self.send(Verb::Create, storage, &path, "application/json", &object).await {
            Ok(Answer::Written(written)) => written.stored.unwrap().index.uid.clone(),
            Ok(_) => panic!("a create answers with an object"),
            Err(error) => panic!("{storage} {namespace} {object}: {error:?}"),
        }
    }

    pub(crate) async fn merge(&self, storage: &str, path: &str, patch: Value) {
        let sent = self.send(Verb::Patch, storage, path, "application/merge-patch+json", &patch).await;
        assert!(sent.is_ok(), "{storage} {path}: {:?}", sent.err());
    }

    pub(crate) async fn delete(&self, storage: &str, path: &str, options: Value) {
        let sent = self.send(Verb::Delete, storage, path, "application/json", &options).await;
        assert!(sent.is_ok(), "{storage} {path}: {:?}", sent.err());
    }

    pub(crate) async fn send(
        &self,
        verb: Verb,
        storage: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Answer, ApiError> {
        let resource = self.client().stored_resource(storage).unwrap();
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: namespace.to_owned(),
            resource: resource.plural.clone(),
            name: name.to_owned(),
            ..Target::default()
        };
        let request = Request {
            verb,
            registry: &self.pipeline.registry(),
            target: &target,
            resource: &resource,
            action: Action::Object,
            query: &Query::default(),
            exchange: &Exchange::internal(),
            user: &User::local_admin(),
            user_agent: "test",
            content_type,
            body: &Bytes::from(body.to_string()),
            budget: &Budget::default(),
        };
        self.pipeline.run(request).await
    }

    /// Removes an object from the store, finalizers or not.
    pub(crate) async fn remove_by_force(&self, storage: &str, path: &str) {
        self.propose(Operation::Delete(key(storage, path))).await;
    }

    /// Stores an object of a resource that is not served.
    pub(crate) async fn put_raw(&self, storage: &str, namespace: &str, name: &str) {
        let json = Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"\"}}");
        let key = key(storage, &format!("{namespace}/{name}"));
        self.propose(Operation::Put(Put { key, json, revision_at: 32, index: Index::default() })).await;
    }

    async fn propose(&self, operation: Operation) {
        let transaction =
            Transaction { proposed_ms: self.now_ms(), conditions: Vec::new(), operations: vec![operation] };
        self.store().propose(transaction).await.unwrap();
    }

    pub(crate) fn exists(&self, storage: &str, path: &str) -> bool {
        self.state().collection(storage).get(path).is_some()
    }

    pub(crate) fn read(&self, storage: &str, path: &str) -> Value {
        let state = self.state();
        let collection = state.collection(storage);
        let object = collection.get(path).unwrap_or_else(|| panic!("{storage} {path} is not there"));
        serde_json::from_slice(&object.json).unwrap()
    }
}

fn pipeline<S: Store>(store: S, ambient: Arc<HandMoved>) -> Arc<Pipeline<S>> {
    Arc::new(Pipeline::new(
        store,
        Registry::builtin(&ORCH),
        TokenKey::new([7; 32]),
        ambient,
        Features::default(),
        gate(),
    ))
}

fn key(storage: &str, path: &str) -> Key {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    Key::new(&storage.into(), namespace, name).unwrap()
}

/// A pod without a node.
pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// An object with owners: kind, name and uid of each, all of the core group.
pub(crate) fn owned(name: &str, owners: &[(&str, &str, &str)]) -> Value {
    let owners = owners.iter().map(|(kind, name, uid)| {
        json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true})
    });
    json!({"metadata": {"name": name, "ownerReferences": owners.collect::<Vec<_>>()}})
}

/// An event without an involved object of note.
pub(crate) fn event(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p"},
        "reason": "Tested",
    })
}
