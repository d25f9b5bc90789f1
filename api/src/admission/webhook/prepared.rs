//! Webhooks of one role as requests read them.
//!
//! Owns the derived value: webhooks by the resources that their rules name, in the order in which they are asked
//! (configurations by name, webhooks as they are listed). A change parses selectors and rules; expressions and certificates
//! are read by the first request that needs them, outside of any lock. Invariant: a webhook without rules is found by no
//! request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::expression::policy::{Conditions, FailurePolicy};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::answer::Role;
use super::health::{Change as HealthChange, Health};
use super::lockout::Lockout;
use super::metrics;
use super::review::ReviewVersion;
use crate::admission::matching::Match;
use crate::ambient::Timestamp;
use crate::follow::Derived;
use crate::webhook::{ClientConfig, Outage};

/// The time that a webhook has where its configuration names none: the default of the field.
const TIMEOUT_SECONDS: i64 = 10;

/// The side effects that a webhook declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// None for a dry run.
    NoneOnDryRun,
    /// Some, or unknown ones.
    Some,
    /// It declares nothing.
    Undeclared,
}

/// A webhook of a stored configuration.
#[derive(Debug)]
pub(super) struct Webhook {
    /// Name of the configuration.
    pub(super) configuration: Arc<str>,
    pub(super) name: Box<str>,
    pub(super) role: Role,
    pub(super) matching: Match,
    pub(super) failure: FailurePolicy,
    pub(super) timeout: Duration,
    pub(super) side_effects: SideEffects,
    /// `None`: it accepts no version that this server writes.
    pub(super) version: Option<ReviewVersion>,
    /// It is asked again where a later step changed the object.
    pub(super) is_reinvoked: bool,
    /// Its calls of late.
    pub(super) health: Health,
    has_conditions: bool,
    /// The webhook as it is stored.
    stored: Value,
    conditions: OnceLock<Conditions>,
    client: OnceLock<Result<ClientConfig, String>>,
    /// Annotations of the configuration.
    annotations: Arc<Value>,
    lockout: OnceLock<Lockout>,
}

/// A webhook that a request may meet, and its place among all of its role.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) webhook: Arc<Webhook>,
    pub(super) at: usize,
}

#[derive(Debug, Default)]
struct Configuration {
    webhooks: Vec<Arc<Webhook>>,
    /// The place of the first of them among all webhooks.
    first: usize,
}

/// The webhooks of one role.
#[derive(Debug)]
pub(super) struct Configurations {
    role: Role,
    source: Arc<str>,
    configurations: BTreeMap<Arc<str>, Configuration>,
    /// Configuration and place in it, by the resources of the rules; `*` for those of all resources.
    by_resource: HashMap<Box<str>, BTreeSet<(Arc<str>, usize)>>,
}

impl Webhook {
    fn of((configuration, role): (&Arc<str>, Role), stored: &Value, annotations: &Arc<Value>) -> Webhook {
        let seconds = stored.at("timeoutSeconds").as_i64().unwrap_or(TIMEOUT_SECONDS);
        Webhook {
            configuration: configuration.clone(),
            name: stored.text("name").into(),
            role,
            matching: Match::of_webhook(stored),
            failure: FailurePolicy::of(stored.text("failurePolicy")),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default().max(1)),
            side_effects: match stored.text("sideEffects") {
                "None" | "NoneOnDryRun" => SideEffects::NoneOnDryRun,
                "" => SideEffects::Undeclared,
                _ => SideEffects::Some,
            },
            version: ReviewVersion::first_of(&stored.texts("admissionReviewVersions")),
            is_reinvoked: stored.text("reinvocationPolicy") == "IfNeeded",
            health: Health::default(),
            has_conditions: !stored.items("matchConditions").is_empty(),
            stored: stored.clone(),
            conditions: OnceLock::new(),
            client: OnceLock::new(),
            annotations: annotations.clone(),
            lockout: OnceLock::new(),
        }
    }

    /// The match conditions; `None` where there are none.
    pub(super) fn conditions(&self, brand: &'static Brand) -> Option<&Conditions> {
        self.has_conditions
            .then(|| self.conditions.get_or_init(|| Conditions::of_webhook(&self.stored, brand)))
    }

    /// Where it is called.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(super) fn client(&self) -> Result<&ClientConfig, &str> {
        let config = || ClientConfig::of(self.stored.at("clientConfig"));
        self.client.get_or_init(config).as_ref().map_err(String::as_str)
    }

    /// Writes that the configuration lets pass although the webhook is dead.
    pub(super) fn lockout(&self, brand: &Brand) -> &Lockout {
        self.lockout.get_or_init(|| Lockout::of(&self.annotations, brand))
    }

    /// Ends what is told of a webhook that is stored no more.
    fn retire(&self) {
        if self.health.is_dead() {
            metrics::note_health(self, HealthChange::CameBack);
        }
    }

    /// The outage of this webhook, which begins at `now` behind `calls` calls that have no answer, the last for `reason`.
    pub(super) fn outage(&self, now: Timestamp, calls: u64, reason: &str) -> Outage {
        let of = match self.role {
            Role::Mutating => ("MutatingWebhookConfiguration", super::MUTATING),
            Role::Validating => ("ValidatingWebhookConfiguration", super::VALIDATING),
        };
        let refuses = self.failure == FailurePolicy::Fail;
        Outage::new(of, (&self.configuration, &self.name), refuses, now, (calls, reason))
    }

    /// Namespace and name of the service that is called; `None` of one with a URL.
    pub(super) fn service(&self) -> Option<(&str, &str)> {
        let service = self.stored.at("clientConfig").at("service");
        (!service.is_null()).then(|| (service.text("namespace"), service.text("name")))
    }
}

impl Configurations {
    /// Those of `role`, none so far.
    pub(super) fn of(role: Role) -> Configurations {
        let source = match role {
            Role::Mutating => super::MUTATING,
            Role::Validating => super::VALIDATING,
        };
        Configurations {
            role,
            source: source.into(),
            configurations: BTreeMap::new(),
            by_resource: HashMap::new(),
        }
    }

    /// The webhooks whose rules name `resource`, in order.
    pub(super) fn of_resource(&self, resource: &str) -> Vec<Found> {
        let places = |name: &str| self.by_resource.get(name).into_iter().flatten();
        let mut places: Vec<&(Arc<str>, usize)> = places(resource).chain(places("*")).collect();
        places.sort_unstable();
        places.dedup();
        let found = |(name, at): &(Arc<str>, usize)| {
            let configuration = self.configurations.get(name)?;
            let webhook = configuration.webhooks.get(*at)?.clone();
            Some(Found { webhook, at: configuration.first + at })
        };
        places.into_iter().filter_map(found).collect()
    }

    fn set(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        if let Some(old) = self.configurations.remove(name) {
            for (at, webhook) in old.webhooks.iter().enumerate() {
                webhook.retire();
                for resource in webhook.matching.resources() {
                    let is_empty = self.by_resource.get_mut(resource).is_some_and(|places| {
                        places.remove(&(name.clone(), at));
                        places.is_empty()
                    });
                    if is_empty {
                        self.by_resource.remove(resource);
                    }
                }
            }
        }
        let stored = object.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
        let Some(stored) = stored else { return };
        let annotations = Arc::new(stored.at("metadata").at("annotations").clone());
        let webhooks: Vec<Arc<Webhook>> = stored
            .items("webhooks")
            .iter()
            .map(|webhook| Arc::new(Webhook::of((name, self.role), webhook, &annotations)))
            .collect();
        for (at, webhook) in webhooks.iter().enumerate() {
            for resource in webhook.matching.resources() {
                match self.by_resource.get_mut(resource) {
                    Some(places) => drop(places.insert((name.clone(), at))),
                    None => drop(self.by_resource.insert(resource.into(), [(name.clone(), at)].into())),
                }
            }
        }
        self.configurations.insert(name.clone(), Configuration { webhooks, first: 0 });
    }

    fn count(&mut self) {
        let mut first = 0;
        for configuration in self.configurations.values_mut() {
            configuration.first = first;
            first += configuration.webhooks.len();
        }
    }
}

impl Derived for Configurations {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
        self.count();
    }

    fn rebuild(&mut self, state: &State) {
        // few: the webhooks that administrators have.
        for webhook in self.configurations.values().flat_map(|configuration| &configuration.webhooks) {
            webhook.retire();
        }
        self.configurations.clear();
        self.by_resource.clear();
        let source = self.source.clone();
        for (name, object) in state.collection(&source).range_from("") {
            self.set(name, Some(object));
        }
        self.count();
    }
}
