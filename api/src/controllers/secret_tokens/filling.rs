//! Fills secrets of the type `service-account-token` with a token, the authority of the servers and the namespace.
//!
//! Owns the life of such a secret: it is filled once its account exists, keeps the fields that are set, follows a new
//! authority, and is deleted with its account. The name of a deleted secret is taken out of its account's list. As in the
//! reference no secret is made here.
//!
//! Invariant: a secret is written and deleted only in the version or with the uid that was looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::future::{Either, select};
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use tokio::sync::watch;

use super::{ACCOUNTS, AccountRef, SECRETS, keeps_token};
use crate::authn::service_account::{ObjectRef, SecretClaims, ServiceAccounts};
use crate::controllers::client::{Client, Place, Propagation, is_overtaken};
use crate::controllers::queue::Queue;
use crate::controllers::rounds::{self, Progress, Queued, Round, Rounds};
use crate::controllers::turns::SETTLE;
use crate::error::ApiError;
use crate::follow::Derived;
use crate::registry::Resource;

/// Secrets and accounts that are written at a time: signing takes a thread for a millisecond with the slowest keys.
const AT_ONCE: usize = 8;

/// Logged where a secret or an account cannot be written.
const WARNING: &str = "a secret of a service account cannot be looked after yet";

/// An object to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// The secret at this path.
    Secret(Arc<str>),
    /// The account that may still list the secret of this name, which is gone.
    Listing(AccountRef, Arc<str>),
}

/// The secrets of each account, and the queue of secrets and accounts to look at.
struct TokenSecrets {
    brand: &'static Brand,
    sources: [Arc<str>; 2],
    owners: BTreeMap<Arc<str>, AccountRef>,
    by_account: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    queue: Queue<Work>,
}

impl TokenSecrets {
    fn new(brand: &'static Brand) -> TokenSecrets {
        let (owners, by_account) = (BTreeMap::new(), BTreeMap::new());
        TokenSecrets {
            brand,
            sources: [SECRETS.into(), ACCOUNTS.into()],
            owners,
            by_account,
            queue: Queue::default(),
        }
    }

    fn set_secret(&mut self, path: &Arc<str>, secret: Option<&SharedObject>) {
        let owner = secret.filter(|secret| keeps_token(self.brand, secret)).and_then(|secret| {
            AccountRef::of(self.brand, path, &serde_json::from_slice(&secret.json).unwrap_or_default())
        });
        if let Some(before) = self.owners.remove(path) {
            if let Some(paths) = self.by_account.get_mut(&before.path) {
                paths.remove(path);
                if paths.is_empty() {
                    self.by_account.remove(&before.path);
                }
            }
            if secret.is_none() {
                self.queue.add(&Work::Listing(before, path.clone()), Duration::ZERO);
            }
        }
        if let Some(owner) = owner {
            self.by_account.entry(owner.path.clone()).or_default().insert(path.clone());
            self.owners.insert(path.clone(), owner);
            self.queue.add(&Work::Secret(path.clone()), Duration::ZERO);
        }
    }
}

impl Derived for TokenSecrets {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if **source == *SECRETS {
            self.set_secret(&change.path, change.new.as_ref());
            return;
        }
        let uid = |object: &Option<SharedObject>| object.as_ref().map(|object| object.index.uid.clone());
        if uid(&change.old) != uid(&change.new) {
            for path in self.by_account.get(&change.path).into_iter().flatten() {
                self.queue.add(&Work::Secret(path.clone()), Duration::ZERO);
            }
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.owners.clear();
        self.by_account.clear();
        for (path, secret) in state.collection(SECRETS).range_from("") {
            self.set_secret(path, Some(secret));
        }
    }
}

impl Queued for TokenSecrets {
    type Key = Work;

    fn queue(&mut self) -> &mut Queue<Work> {
        &mut self.queue
    }
}

/// Fills secrets, and follows later versions of the authority `root_ca` where there is one. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(
    client: &Client<S>,
    root_ca: Option<watch::Receiver<String>>,
) -> Result<Infallible, ApiError> {
    let Some(accounts) = client.gate().service_accounts().cloned() else {
        return std::future::pending().await;
    };
    let Some(mut root_ca) = root_ca else { return fill(client, &accounts, "").await };
    loop {
        let current = root_ca.borrow_and_update().clone();
        let filling = pin!(fill(client, &accounts, &current));
        let changed = pin!(async {
            if root_ca.changed().await.is_err() {
                // There are no later versions.
                std::future::pending().await
            }
        });
        if let Either::Left((Err(error), _)) = select(filling, changed).await {
            return Err(error);
        }
    }
}

async fn fill<S: Store>(
    client: &Client<S>,
    accounts: &ServiceAccounts,
    root_ca: &str,
) -> Result<Infallible, ApiError> {
    let brand = client.registry().brand;
    let resource = |storage: &str| {
        let found = client.stored_resource(storage);
        found.ok_or_else(|| ApiError::Internal(format!("{storage} are not served")))
    };
    let filler = Filler {
        client,
        accounts,
        root_ca: BASE64_STANDARD.encode(root_ca),
        secrets: resource(SECRETS)?,
        listings: resource(ACCOUNTS)?,
    };
    let secrets = TokenSecrets::new(brand);
    let mut rounds =
        Rounds::new((client, "serviceaccount_tokens_secret"), secrets.sources.clone(), secrets, AT_ONCE)
            .await?;
    loop {
        let Round { due, .. } =
            rounds.next(|secrets, work, result| end(client, &mut secrets.queue, work, result)).await;
        if due.is_empty() {
            continue;
        }
        // An account that is absent in this state is gone: its secrets are deleted.
        let state = client.most_recent().await?;
        for work in due {
            let (filler, state, key) = (&filler, state.clone(), work.clone());
            rounds.start(key, async move { filler.carry_out(&work, &state).await });
        }
    }
}

/// Takes in the result of the work on one object.
fn end<S: Store>(client: &Client<S>, queue: &mut Queue<Work>, work: &Work, result: Result<(), ApiError>) {
    let (Work::Secret(path) | Work::Listing(_, path)) = work;
    match (work, result) {
        // An account that changed meanwhile may still list the secret. A secret's change makes it due by itself.
        (Work::Listing(..), Err(error)) if is_overtaken(&error) => queue.put_back(work, SETTLE),
        (_, result) => {
            rounds::end(client, queue, (work, path), result.map(|()| Progress::Settled), WARNING);
        }
    }
}

/// The client and the state of the loop that fills secrets.
struct Filler<'a, S> {
    client: &'a Client<S>,
    accounts: &'a ServiceAccounts,
    /// In base64; empty where none is published.
    root_ca: String,
    secrets: Arc<Resource>,
    listings: Arc<Resource>,
}

impl<S: Store> Filler<'_, S> {
    async fn carry_out(&self, work: &Work, state: &State) -> Result<(), ApiError> {
        match work {
            Work::Secret(path) => self.look_after(path, state).await,
            Work::Listing(owner, path) => self.take_off(owner, path, state).await,
        }
    }

    /// Deletes the secret at `path` where its account is gone, or else gives it what it lacks.
    async fn look_after(&self, path: &Arc<str>, state: &State) -> Result<(), ApiError> {
        let brand = self.client.registry().brand;
        let collection = state.collection(SECRETS);
        let Some(secret) = collection.get(path).filter(|secret| keeps_token(brand, secret)) else {
            return Ok(());
        };
        let object: Value = serde_json::from_slice(&secret.json).unwrap_or_default();
        let Some(owner) = AccountRef::of(brand, path, &object).filter(|_| !secret.index.terminating) else {
            return Ok(());
        };
        let place = Place { resource: &self.secrets, path };
        let collection = state.collection(ACCOUNTS);
        let Some(account) = collection.get(&owner.path).filter(|account| owner.is(account)) else {
            return self.client.delete(place, &secret.index.uid, None, Propagation::Background).await;
        };
        let Some(data) = self.missing(path, &owner, account, object.at("data"))? else { return Ok(()) };
        let patch = json!({
            "metadata": {
                "uid": secret.index.uid,
                "resourceVersion": secret.revision.to_string(),
                "annotations": {(brand.label("service-account.uid").as_str()): account.index.uid},
            },
            "data": data,
        });
        self.client.patch(place, Action::Object, &patch).await
    }

    /// The data that the secret lacks; `None`: it has everything.
    fn missing(
        &self,
        path: &str,
        owner: &AccountRef,
        account: &SharedObject,
        data: &Value,
    ) -> Result<Option<Value>, ApiError> {
        let (mut missing, mut is_whole) = (json!({}), true);
        let mut add = |key: &str, value: String| {
            orch_rules::validate::tree::set(&mut missing, key, value);
            is_whole = false;
        };
        let (namespace, name) = ObjectPath::of(path).parts();
        if !self.root_ca.is_empty() && data.text("ca.crt") != self.root_ca {
            add("ca.crt", self.root_ca.clone());
        }
        if data.is_empty_at("namespace") {
            add("namespace", BASE64_STANDARD.encode(namespace));
        }
        if data.is_empty_at("token") && self.accounts.keys().signer().is_some() {
            let account_name = ObjectPath::of(&owner.path).name();
            let claims = SecretClaims {
                namespace: namespace.to_owned(),
                secret: name.to_owned(),
                account: ObjectRef { name: account_name.to_owned(), uid: account.index.uid.clone() },
            };
            let token = self.accounts.issue_kept(&claims);
            let token = token.map_err(|error| ApiError::Internal(error.to_string()))?;
            add("token", BASE64_STANDARD.encode(token));
        }
        Ok((!is_whole).then_some(missing))
    }

    /// Takes the secret at `path`, which is gone, off the list of its account.
    async fn take_off(&self, owner: &AccountRef, path: &str, state: &State) -> Result<(), ApiError> {
        let collection = state.collection(ACCOUNTS);
        let Some(account) = collection.get(&owner.path).filter(|account| owner.is(account)) else {
            return Ok(());
        };
        if state.collection(SECRETS).get(path).is_some() {
            return Ok(());
        }
        let name = ObjectPath::of(path).name();
        let object: Value = serde_json::from_slice(&account.json).unwrap_or_default();
        let listed = object.items("secrets");
        let left: Vec<Value> = listed.iter().filter(|one| one.text("name") != name).cloned().collect();
        if left.len() == listed.len() {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": account.index.uid, "resourceVersion": account.revision.to_string()},
            "secrets": left,
        });
        let place = Place { resource: &self.listings, path: &owner.path };
        self.client.patch(place, Action::Object, &patch).await
    }
}
