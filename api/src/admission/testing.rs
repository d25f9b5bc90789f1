//! Calls the built-in plugins in tests of kinds as the pipeline does.

use std::sync::{Arc, LazyLock, Mutex};

use futures::future::FutureExt;
use orch_proto::brand::ORCH;
use orch_raft::state::NAMESPACES;
use orch_raft::{Index, Key, Operation as Write, Put, Revision, State, Transaction};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::budget::Budget;
use orch_schema::value::Value;

use super::{Additions, Attributes, Chain, Operation, Plugin, PluginSelection, Ruling, View, rule};
use crate::ambient::Timestamp;
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::gate::Gate;
use crate::registry::Registry;
use crate::request::Query;

static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(|| Registry::builtin(&ORCH));
static GATE: LazyLock<Arc<Gate>> = LazyLock::new(crate::testing::gate);
static EXCHANGE: LazyLock<Exchange> = LazyLock::new(Exchange::internal);
static BUDGET: LazyLock<Budget> = LazyLock::new(Budget::default);
static QUERY: LazyLock<Query> = LazyLock::new(Query::default);
static USER: LazyLock<User> = LazyLock::new(User::local_admin);

/// A write of the administrator to an object of the resource that is stored under `storage`.
pub(crate) fn attributes(storage: &str, operation: Operation) -> Attributes<'static> {
    let resource = REGISTRY.resources().find(|resource| *resource.storage == *storage);
    Attributes {
        brand: &ORCH,
        operation,
        registry: &REGISTRY,
        resource: resource.expect("a resource that is served"),
        action: Action::Object,
        path_version: "v1",
        namespace: "ns",
        name: "n",
        path_name: "n",
        draws_name: false,
        old: None,
        query: &QUERY,
        deletion: None,
        user: &USER,
        gate: &GATE,
        exchange: &EXCHANGE,
        budget: &BUDGET,
        dry_run: false,
        is_removal: false,
        now: Timestamp::default(),
    }
}

/// A store with these objects, each under its resource, namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Objects(pub(crate) std::collections::BTreeMap<(String, String, String), Value>);

impl Objects {
    /// A copy of the object; `None` where there is none.
    pub(crate) fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&(resource.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The view of a state with these objects and with `namespace`, which is active.
    pub(crate) fn view(&self, namespace: &str) -> View {
        let namespaced = (NAMESPACES.to_owned(), String::new(), namespace.to_owned());
        let active = [(&namespaced, &Value::Null)];
        let objects = self.0.iter().chain(active.into_iter().filter(|_| !self.0.contains_key(&namespaced)));
        let mut state = State::default();
        for (revision, ((resource, namespace, name), object)) in (1..).zip(objects) {
            let Ok(key) = Key::new(&resource.as_str().into(), namespace, name) else { continue };
            let json = format!(r#"{{"resourceVersion":"",{}"#, &object.to_string()[1..]);
            let json = if object.is_object() { json } else { r#"{"resourceVersion":""}"#.to_owned() };
            let put = Put { key, json: json.into(), revision_at: 20, index: index_of(object) };
            let operations = vec![Write::Put(put)];
            state.apply(
                Revision(revision),
                &Transaction { proposed_ms: 0, conditions: Vec::new(), operations },
            );
        }
        View::certain(state)
    }
}

/// The index entry of an object: its labels and owners.
fn index_of(object: &Value) -> Index {
    let labels = object.at("metadata").entries("labels").into_iter();
    let labels = labels.map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()));
    let owners = object.at("metadata").items("ownerReferences").iter();
    let owners = owners.map(|owner| owner.text("uid").to_owned());
    Index { labels: labels.collect(), owners: owners.collect(), ..Index::default() }
}

/// The built-in plugins with `plugin`, which is asked before quotas are charged.
pub(crate) fn builtin_with(plugin: Box<dyn Plugin>) -> Chain {
    let mut plugins = Chain::builtin().plugins;
    let last = plugins.len() - 1;
    assert_eq!(plugins[last].name(), super::resource_quota::NAME);
    plugins.insert(last, plugin);
    Chain::new(plugins)
}

/// The selected plugins, and one behind them that has all of them asked twice and notes each of its rounds.
pub(crate) fn selected_twice(selection: &PluginSelection, rounds: Arc<Mutex<Vec<String>>>) -> Chain {
    let mut plugins = Chain::selected(selection).plugins;
    plugins.push(Box::new(AskingAgain(rounds)));
    Chain::new(plugins)
}

struct AskingAgain(Arc<Mutex<Vec<String>>>);

impl Plugin for AskingAgain {
    fn name(&self) -> &'static str {
        "AskingAgain"
    }

    fn handles(&self, _attributes: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        additions.ask_again();
        self.0.lock().unwrap().push(format!("second {}", additions.is_second_round()));
        rule(Ok(()))
    }
}

/// The validating and the reserving phase of the built-in plugins, all of which rule at once.
pub(crate) fn validate(
    attributes: &Attributes<'_>,
    object: &Value,
    objects: &Objects,
) -> Result<(), ApiError> {
    let (view, mut additions) = (objects.view(attributes.namespace), Additions::default());
    let chain = Chain::builtin();
    let ruling = chain.validate(attributes, Some(object), &view, &mut additions, 0).now_or_never();
    ruling.expect("nobody else is asked").map_err(|refused| refused.error)?;
    chain.reserve(attributes, Some(object), &view, &mut additions).map_err(|refused| refused.error)
}

/// The mutating phase of the built-in plugins, all of which rule at once.
pub(crate) fn mutate(
    attributes: &Attributes<'_>,
    object: &mut Value,
    objects: &Objects,
) -> Result<(), ApiError> {
    let (view, mut additions) = (objects.view(attributes.namespace), Additions::default());
    let chain = Chain::builtin();
    let mutated = chain.mutate(attributes, Some(object), &view, &mut additions, 0).now_or_never();
    mutated.expect("nobody else is asked").map_err(|refused| refused.error)
}
