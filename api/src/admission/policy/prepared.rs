//! Policies and bindings as requests read them.
//!
//! Owns the derived value: policies by the resources that their rules name, with their bindings. A policy holds its stored
//! bytes and what matching needs; its programs are made by the first request that it matches, so that a change of many
//! policies costs requests nothing but matching. Invariant: a policy without a binding is found by no request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::expression::policy::FailurePolicy;
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::admission::matching::Match;
use crate::expression_times::compiling;
use crate::follow::Derived;

/// A kind of policy.
pub(super) trait PolicyKind: Send + Sync + Sized + 'static {
    /// Storage resources of its policies and its bindings.
    const SOURCES: [&'static str; 2];

    /// The kind of its policies.
    const KIND: &'static str;

    /// Whether the objects are converted before parameters are looked for.
    const CONVERTS_FIRST: bool;

    /// The programs of the policy with this spec.
    fn compile(spec: &Value, brand: &'static Brand) -> Self;
}

/// A policy that is stored.
pub(super) struct Policy<K> {
    pub(super) name: Arc<str>,
    pub(super) matching: Match,
    pub(super) failure: FailurePolicy,
    /// `apiVersion` and kind of the parameters.
    param_kind: Option<(Box<str>, Box<str>)>,
    /// It is evaluated again where a later step changed the object.
    pub(super) is_reinvoked: bool,
    /// Expressions may read the namespace: its text is among theirs.
    pub(super) reads_namespace: bool,
    object: SharedObject,
    programs: OnceLock<K>,
}

/// A binding that is stored.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: Arc<str>,
    /// `None` for all that the policy is about.
    pub(super) matching: Option<Match>,
    pub(super) params: Option<ParamRef>,
    pub(super) actions: Vec<Action>,
}

/// The parameters of a binding.
#[derive(Debug)]
pub(super) struct ParamRef {
    /// Empty for that of the request.
    pub(super) namespace: Box<str>,
    pub(super) which: Which,
    /// A request is refused, by the failure policy, where there are none.
    pub(super) denies_absence: bool,
}

#[derive(Debug)]
pub(super) enum Which {
    Named(Box<str>),
    Selected(LabelSelector),
}

/// The consequence of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

/// A policy with its bindings, by name.
pub(super) struct Bound<K> {
    pub(super) policy: Arc<Policy<K>>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// The policies of one kind.
pub(super) struct Policies<K> {
    sources: [Arc<str>; 2],
    policies: HashMap<Arc<str>, Arc<Policy<K>>>,
    /// By policy and name.
    bindings: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Binding>>>,
    /// The policy that a binding names, to find it when it changes.
    bound: HashMap<Arc<str>, Arc<str>>,
    /// Names of policies by the resources of their rules; `*` for those of all resources.
    by_resource: HashMap<Box<str>, HashSet<Arc<str>>>,
}

impl<K: PolicyKind> Policy<K> {
    fn of(name: &Arc<str>, object: &SharedObject) -> Option<Policy<K>> {
        let policy: Value = serde_json::from_slice(&object.json).ok()?;
        let spec = policy.at("spec");
        let kind = spec.at("paramKind");
        Some(Policy {
            name: name.clone(),
            matching: Match::of(spec.at("matchConstraints")),
            failure: FailurePolicy::of(spec.text("failurePolicy")),
            param_kind: (!kind.is_null()).then(|| (kind.text("apiVersion").into(), kind.text("kind").into())),
            is_reinvoked: spec.text("reinvocationPolicy") == "IfNeeded",
            reads_namespace: spec.to_string().contains("namespaceObject"),
            object: object.clone(),
            programs: OnceLock::new(),
        })
    }

    /// `apiVersion` and kind of the parameters.
    pub(super) fn param_kind(&self) -> Option<(&str, &str)> {
        self.param_kind.as_ref().map(|(version, kind)| (&**version, &**kind))
    }

    /// The programs, made where that was not done.
    pub(super) fn programs(&self, brand: &'static Brand) -> &K {
        self.programs.get_or_init(|| {
            // It was read before.
            let policy: Value = serde_json::from_slice(&self.object.json).unwrap_or_default();
            compiling(|| K::compile(policy.at("spec"), brand))
        })
    }
}

impl Binding {
    fn of(name: &Arc<str>, spec: &Value) -> Binding {
        let resources = spec.at("matchResources");
        let action = |text: &str| match text {
            "Warn" => Action::Warn,
            "Audit" => Action::Audit,
            _ => Action::Deny,
        };
        Binding {
            name: name.clone(),
            matching: (!resources.is_null()).then(|| Match::of(resources)),
            params: spec.has("paramRef").then(|| ParamRef::of(spec.at("paramRef"))),
            actions: spec.texts("validationActions").into_iter().map(action).collect(),
        }
    }

    /// The actions, as the policy's author wrote them.
    pub(super) fn action_names(&self) -> Vec<&'static str> {
        let name = |action: &Action| match action {
            Action::Deny => "Deny",
            Action::Warn => "Warn",
            Action::Audit => "Audit",
        };
        self.actions.iter().map(name).collect()
    }
}

impl ParamRef {
    fn of(reference: &Value) -> ParamRef {
        let which = match reference.text("name") {
            "" => Which::Selected(LabelSelector::of_field(reference.at("selector")).unwrap_or_default()),
            name => Which::Named(name.into()),
        };
        ParamRef {
            namespace: reference.text("namespace").into(),
            which,
            denies_absence: reference.text("parameterNotFoundAction") == "Deny",
        }
    }
}

impl<K: PolicyKind> Default for Policies<K> {
    fn default() -> Self {
        Policies {
            sources: K::SOURCES.map(Arc::from),
            policies: HashMap::new(),
            bindings: HashMap::new(),
            bound: HashMap::new(),
            by_resource: HashMap::new(),
        }
    }
}

impl<K: PolicyKind> Policies<K> {
    /// The bound policies whose rules name `resource`, ordered by name.
    pub(super) fn of_resource(&self, resource: &str) -> Vec<Bound<K>> {
        let mut names: Vec<&Arc<str>> =
            [resource, "*"].iter().filter_map(|name| self.by_resource.get(*name)).flatten().collect();
        names.sort_unstable();
        names.dedup();
        let bound = |name: &Arc<str>| {
            let bindings = self.bindings.get(name)?;
            let policy = self.policies.get(name)?.clone();
            Some(Bound { policy, bindings: bindings.values().cloned().collect() })
        };
        names.into_iter().filter_map(bound).collect()
    }

    fn set_policy(&mut self, name: &Arc<str>, policy: Option<Policy<K>>) {
        if let Some(old) = self.policies.remove(name) {
            for resource in old.matching.resources() {
                let is_empty = self.by_resource.get_mut(resource).is_some_and(|names| {
                    names.remove(name);
                    names.is_empty()
                });
                if is_empty {
                    self.by_resource.remove(resource);
                }
            }
        }
        let Some(policy) = policy else { return };
        for resource in policy.matching.resources() {
            match self.by_resource.get_mut(resource) {
                Some(names) => drop(names.insert(name.clone())),
                None => drop(self.by_resource.insert(resource.into(), [name.clone()].into())),
            }
        }
        self.policies.insert(name.clone(), Arc::new(policy));
    }

    fn set_binding(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        if let Some(policy) = self.bound.remove(name)
            && let Some(bindings) = self.bindings.get_mut(&policy)
        {
            bindings.remove(name);
            if bindings.is_empty() {
                self.bindings.remove(&policy);
            }
        }
        let Some(object) = object else { return };
        let Ok(binding) = serde_json::from_slice::<Value>(&object.json) else { return };
        let spec = binding.at("spec");
        let policy: Arc<str> = spec.text("policyName").into();
        self.bound.insert(name.clone(), policy.clone());
        self.bindings.entry(policy).or_default().insert(name.clone(), Arc::new(Binding::of(name, spec)));
    }
}

impl<K: PolicyKind> Derived for Policies<K> {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if *source == self.sources[0] {
            let policy = change.new.as_ref().and_then(|object| Policy::of(&change.path, object));
            self.set_policy(&change.path, policy);
        } else {
            self.set_binding(&change.path, change.new.as_ref());
        }
    }

    fn rebuild(&mut self, state: &State) {
        *self = Policies::default();
        for (name, object) in state.collection(K::SOURCES[0]).range_from("") {
            self.set_policy(name, Policy::of(name, object));
        }
        for (name, object) in state.collection(K::SOURCES[1]).range_from("") {
            self.set_binding(name, Some(object));
        }
    }
}
