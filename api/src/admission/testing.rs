//! Drives the built-in plugins in tests of kinds as the pipeline would.

use std::sync::LazyLock;

use futures::future::FutureExt;
use orch_proto::brand::ORCH;

use super::{Additions, Attributes, Chain, Operation, View};
use crate::authn::User;
use crate::endpoint::Action;
use crate::error::ApiError;
use crate::registry::Registry;
use crate::schema::value::Value;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::builtin(&ORCH));
static USER: LazyLock<User> = LazyLock::new(User::local_admin);

/// A write of the administrator to an object of the resource that is stored under `storage`.
pub(crate) fn attributes(storage: &str, operation: Operation) -> Attributes<'static> {
    let resource = REGISTRY.resources().find(|resource| *resource.storage == *storage);
    Attributes {
        brand: &ORCH,
        operation,
        resource: resource.expect("a resource that is served"),
        action: Action::Object,
        namespace: "ns",
        name: "n",
        old: None,
        user: &USER,
        dry_run: false,
    }
}

/// A store with these objects, each under its resource, namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Objects(pub(crate) std::collections::BTreeMap<(String, String, String), Value>);

impl View for Objects {
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&(resource.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let within = |key: &(String, String, String)| {
            key.0 == resource && (namespace.is_empty() || key.1 == namespace)
        };
        self.0.iter().filter(|(key, _)| within(key)).map(|(_, object)| object.clone()).collect()
    }

    fn is_terminating(&self, _namespace: &str) -> Option<bool> {
        Some(false)
    }
}

/// Asks the built-in plugins whether `object` may be stored; all of them answer at once.
pub(crate) fn validate(
    attributes: &Attributes<'_>,
    object: &Value,
    objects: &Objects,
) -> Result<(), ApiError> {
    let mut additions = Additions::default();
    let chain = Chain::builtin();
    let ruling = chain.validate(attributes, Some(object), objects, &mut additions).now_or_never();
    ruling.expect("nobody else is asked")
}

/// Has the built-in plugins complete `object`; all of them answer at once.
pub(crate) fn mutate(
    attributes: &Attributes<'_>,
    object: &mut Value,
    objects: &Objects,
) -> Result<(), ApiError> {
    let mut additions = Additions::default();
    let chain = Chain::builtin();
    chain.mutate(attributes, object, objects, &mut additions).now_or_never().expect("nobody else is asked")
}
