//! The groups and versions that other servers answer, as the stored APIServices say.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::kinds::api_service::available;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::follow::Derived;
use crate::registry::Priority;
use crate::webhook::{ServicePort, authorities};

/// Name of the APIServices in the store.
pub(crate) const API_SERVICES: &str = "apiservices.apiregistration";

static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| API_SERVICES.into());

/// The authorities that vouch for the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerTrust {
    /// The authorities of this machine.
    Machine,
    /// The certificates of a bundle, in PEM.
    Bundle(Arc<[u8]>),
    /// A bundle that cannot be read: nobody.
    Unreadable,
    /// None: any certificate is taken.
    Anyone,
}

/// A group and version that another server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Name of its APIService.
    pub(crate) name: Arc<str>,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) priority: Priority,
    pub(crate) service: ServicePort,
    pub(crate) trust: ServerTrust,
    /// Whether the server was there when it was last looked for.
    pub(crate) is_available: bool,
}

impl Remote {
    /// That of an APIService; `None`: it names no service.
    pub(crate) fn of(name: &Arc<str>, object: &Value) -> Option<Remote> {
        let spec = object.at("spec");
        let reference = spec.at("service");
        if reference.is_null() {
            return None;
        }
        let trust = match authorities(spec.text("caBundle")) {
            _ if spec.flag("insecureSkipTLSVerify") => ServerTrust::Anyone,
            Ok(Some(bundle)) => ServerTrust::Bundle(bundle),
            Ok(None) => ServerTrust::Machine,
            Err(_) => ServerTrust::Unreadable,
        };
        let rank = |field: &str| spec.int(field).unwrap_or_default();
        Some(Remote {
            name: name.clone(),
            group: spec.text("group").to_owned(),
            version: spec.text("version").to_owned(),
            priority: Priority { group: rank("groupPriorityMinimum"), version: rank("versionPriority") },
            service: ServicePort::of(reference),
            trust,
            is_available: available(object).text("status") == "True",
        })
    }

    /// Path of its documents and objects.
    pub(crate) fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    /// Path of the objects of `resource` in `namespace`; where that is empty, of all of them.
    pub(crate) fn collection(&self, namespace: &str, resource: &str) -> String {
        let (path, resource) = (self.path(), segment(resource));
        match namespace {
            "" => format!("{path}/{resource}"),
            namespace => format!("{path}/namespaces/{}/{resource}", segment(namespace)),
        }
    }

    /// Path of an object of `resource`; `namespace` is empty for cluster scope.
    pub(crate) fn object(&self, namespace: &str, resource: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace, resource), segment(name))
    }
}

/// `text` as one segment of a path.
pub(crate) fn segment(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

/// All of them. Clients choose the names: keyed hashes.
#[derive(Debug, Default)]
pub(crate) struct Remotes {
    /// By the name of the APIService, which is made of version and group.
    by_name: HashMap<Arc<str>, Arc<Remote>>,
    /// Counts changes.
    generation: u64,
}

impl Remotes {
    /// That of a group and version.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Arc<Remote>> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&*format!("{version}.{group}")).filter(|_| !group.is_empty()).cloned()
    }

    /// The number of changes so far.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Remote>> {
        let mut all: Vec<Arc<Remote>> = self.by_name.values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn set(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        self.generation += 1;
        let object = object.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
        match object.and_then(|object| Remote::of(name, &object)) {
            Some(remote) => drop(self.by_name.insert(name.clone(), Arc::new(remote))),
            None => drop(self.by_name.remove(name)),
        }
    }
}

impl Derived for Remotes {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.by_name.clear();
        for (name, object) in state.collection(API_SERVICES).range_from("") {
            self.set(name, Some(object));
        }
    }
}
