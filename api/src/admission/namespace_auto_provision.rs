//! `NamespaceAutoProvision`: makes the namespace of an object that is to be created, if there is none.
//!
//! Owns when a namespace is made, not how: whoever owns the pipeline hands in a [`MakeNamespace`], and the namespace
//! passes the same chain as any other.

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, Either, FutureExt};
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;

/// Makes namespaces.
pub trait MakeNamespace: Send + Sync {
    /// Makes a namespace called `name`, unless there is one.
    fn make<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// A place for the maker of namespaces, which is filled when the pipeline is there. Clones share it.
#[derive(Clone, Default)]
pub struct NamespaceMaker(Arc<OnceLock<Box<dyn MakeNamespace>>>);

impl NamespaceMaker {
    /// Has `maker` make the namespaces from now on; the first one stays.
    pub fn provide(&self, maker: Box<dyn MakeNamespace>) {
        // A second call changes nothing.
        let _ = self.0.set(maker);
    }
}

impl fmt::Debug for NamespaceMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamespaceMaker({})", if self.0.get().is_some() { "provided" } else { "none" })
    }
}

#[derive(Debug, Default)]
pub(super) struct NamespaceAutoProvision {
    pub(super) maker: NamespaceMaker,
}

impl Plugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        // A dry run makes nothing.
        attributes.operation == Operation::Create && !attributes.namespace.is_empty() && !attributes.dry_run
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        match self.maker.0.get() {
            Some(maker) if view.is_terminating(attributes.namespace).is_none() => {
                let made = maker.make(attributes.namespace);
                Either::Right(made.map(|made| made.map_err(Refusal::Error)).boxed())
            }
            _ => rule(Ok(())),
        }
    }
}
