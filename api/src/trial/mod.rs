//! Writes that are tried against admission policies in memory, without a cluster.
//!
//! Owns two pipelines over a store of their own, one without admission for what policies need, and one whose only admission plugins
//! are the two kinds of policies, with what is known of their evaluations. Everything else is the pipeline's: objects are decoded, defaulted and validated as on a node, definitions of
//! custom kinds are in force, parameters and namespaces are looked up, rights are those of the stored roles. Nothing of a
//! tried write is stored. Conversion webhooks and admission webhooks are not called.

mod requests;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use orch_proto::Brand;
use orch_raft::Store;
use orch_raft::memory::MemoryStore;
use orch_raft::state::NAMESPACES;
use orch_rules::validate::tree::{Tree, child_mut, unset};
use orch_schema::json;
use orch_schema::value::Value;

use self::requests::Sent;
use crate::admission::{Chain, Witness};
pub use crate::admission::{Evaluation, Mutated, Outcome};
use crate::ambient::SystemAmbient;
use crate::answer::Answer;
use crate::authn::{AnonymousAccess, Authenticator, TokenTable, User};
use crate::controllers::establish;
use crate::definitions::DEFINITIONS;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::gate::Gate;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::{Registry, Resource};
use crate::status::Status;

/// The evaluations of the write that is tried.
#[derive(Debug, Default)]
struct Ledger(Mutex<Vec<Evaluation>>);

impl Ledger {
    fn take(&self) -> Vec<Evaluation> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Witness for Ledger {
    fn evaluated(&self, evaluation: Evaluation) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_again = |of: &Evaluation| {
            let (one, other) = (of, &evaluation);
            (one.kind, &one.policy, &one.binding, &one.param)
                == (other.kind, &other.policy, &other.binding, &other.param)
        };
        // A refused write is judged again by the newest state. Mutating policies have two rounds of their own.
        if !matches!(evaluation.outcome, Outcome::Mutated(_)) {
            // few: policies that are tried by hand.
            seen.retain(|of| matches!(of.outcome, Outcome::Mutated(_)) || !is_again(of));
        }
        seen.push(evaluation);
    }
}

/// A kind of write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The object is created.
    Create,
    /// The object before is changed to it.
    Update,
    /// The object is removed.
    Delete,
}

/// The result of a tried write.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The evaluations of the policies, in order.
    pub evaluations: Vec<Evaluation>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The object as it would be stored; the refusal of the write.
    pub result: Result<Value, Refused>,
}

/// The refusal of a write.
#[derive(Clone, Debug)]
pub struct Refused {
    /// HTTP status.
    pub code: u16,
    /// The message for the client.
    pub message: String,
    /// A policy refused it, and not the rules of the kind.
    pub is_by_policy: bool,
}

/// The reason why an object cannot be used for a trial.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Its kind is not served.
    #[error(
        "there is no kind {kind} in {api_version}: give the definition of a custom kind before its objects"
    )]
    UnknownKind {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
    /// The rules of its kind refuse it.
    #[error("{0}")]
    Refused(String),
}

/// A cluster in memory with the policies and objects that were given to it.
pub struct Trial {
    /// Takes what the policies need; without admission.
    needed: Arc<Pipeline<MemoryStore>>,
    /// Takes the writes that are tried.
    tried: Pipeline<MemoryStore>,
    ledger: Arc<Ledger>,
}

impl Trial {
    /// An empty cluster with the names of `brand`.
    pub fn new(brand: &'static Brand) -> Trial {
        let (store, ledger) = (MemoryStore::default(), Arc::new(Ledger::default()));
        let pipeline = |admission: Chain| {
            let authenticator = Authenticator::new(brand, TokenTable::default(), AnonymousAccess::Refused);
            let mut pipeline = Pipeline::new(
                store.clone(),
                Registry::builtin(brand),
                TokenKey::new([0; 32]),
                Arc::new(SystemAmbient),
                Features::default(),
                Gate::builtin(brand, authenticator),
            );
            pipeline.admission = admission;
            pipeline
        };
        let needed = Arc::new(pipeline(Chain::new(Vec::new())));
        Trial { needed, tried: pipeline(Chain::of_policies(ledger.clone())), ledger }
    }

    /// Stores `object`, as an administrator. One that is there already is left as it is.
    ///
    /// # Errors
    /// Its kind is not known, or refuses it.
    pub async fn store(&self, object: &Value) -> Result<(), Unusable> {
        let resource = self.resource_of(object)?;
        self.make_namespace(&resource, object).await?;
        match self.create(&resource, &without_version(object)).await {
            Ok(_) | Err(ApiError::AlreadyExists(_)) => {}
            Err(error) => return Err(Unusable::Refused(self.status_of(&error).message)),
        }
        if *resource.storage != *DEFINITIONS {
            return Ok(());
        }
        let is_in_force = establish(self.needed.clone(), object.at("metadata").text("name")).await;
        self.tried.definitions.catch_up(&self.tried.store, &self.tried.served).await;
        match is_in_force {
            true => Ok(()),
            false => Err(Unusable::Refused("the names of the definition are in use".to_owned())),
        }
    }

    async fn create(&self, resource: &Arc<Resource>, object: &Value) -> Result<Answer, ApiError> {
        let (sent, user) = (Sent::create(resource, object), User::local_admin());
        requests::send(&self.needed, sent, &user, &Exchange::internal()).await
    }

    /// Tries `operation` on `object` as `user`. For an update and a removal the object before was stored.
    ///
    /// # Errors
    /// The kind is not known.
    pub async fn attempt(
        &self,
        operation: Operation,
        object: &Value,
        user: &User,
    ) -> Result<Tried, Unusable> {
        let resource = self.resource_of(object)?;
        self.make_namespace(&resource, object).await?;
        let object = without_version(object);
        let sent = match operation {
            Operation::Create => Sent::create(&resource, &object),
            Operation::Update => Sent::update(&resource, &object),
            Operation::Delete => Sent::delete(&resource, &object),
        };
        let exchange = Exchange::internal();
        let answer = requests::send(&self.tried, sent.dry_run(), user, &exchange).await;
        let result = match answer {
            Ok(answer) => Ok(written(&answer)),
            Err(error) => {
                let Status { code, message, .. } = self.status_of(&error);
                let is_by_policy = matches!(error, ApiError::DeniedByPolicy { .. });
                Err(Refused { code, message, is_by_policy })
            }
        };
        Ok(Tried { evaluations: self.ledger.take(), warnings: exchange.warnings(), result })
    }

    /// The resource of the kind of `object`.
    fn resource_of(&self, object: &Value) -> Result<Arc<Resource>, Unusable> {
        let (api_version, kind) = (object.text("apiVersion"), object.text("kind"));
        let registry = self.tried.registry();
        registry.find_named(api_version, kind).cloned().ok_or_else(|| Unusable::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// Makes the namespace of `object`, unless it is there.
    async fn make_namespace(&self, resource: &Resource, object: &Value) -> Result<(), Unusable> {
        let name = requests::namespace_of(resource, object);
        let state = self.needed.store.state();
        if name.is_empty() || state.collection(NAMESPACES).get(name).is_some() {
            return Ok(());
        }
        let registry = self.tried.registry();
        let Some(namespaces) = registry.stored(NAMESPACES) else { return Ok(()) };
        let namespace = json!({"metadata": {"name": name}});
        let made = self.create(namespaces, &namespace).await;
        made.map(drop).map_err(|error| Unusable::Refused(self.status_of(&error).message))
    }

    fn status_of(&self, error: &ApiError) -> Status {
        Status::of(error, self.tried.registry().brand)
    }
}

/// The object without what a server gave it, which conditions a write of another one.
fn without_version(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = child_mut(&mut object, "metadata");
    for field in ["resourceVersion", "uid", "managedFields", "creationTimestamp", "generation", "selfLink"] {
        unset(metadata, field);
    }
    object
}

/// The object that a write would store; null of a removal.
fn written(answer: &Answer) -> Value {
    let Answer::Written(written) = answer else { return Value::Null };
    let mut object: Value = serde_json::from_slice(&written.json).unwrap_or_default();
    for field in ["resourceVersion", "managedFields", "uid", "creationTimestamp"] {
        unset(child_mut(&mut object, "metadata"), field);
    }
    object
}
