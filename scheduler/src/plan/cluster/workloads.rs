//! Services and controllers, as far as pods are spread by them without constraints of their own.
//!
//! Owns their selectors by namespace, and the selector that the default constraints of a pod use.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::objects::controller::Controller;
use crate::objects::intern::{Interner, Symbol};
use crate::objects::labels::Selector;
use crate::objects::pod::Shape;

/// The selectors.
#[derive(Debug, Default)]
pub struct Workloads {
    services: HashMap<Symbol, BTreeMap<String, Selector>>,
    controllers: HashMap<(Controller, Symbol, Symbol), Selector>,
}

impl Workloads {
    /// Sets the selector of a service; `None` if it is gone or has no selector.
    pub(super) fn set_service(&mut self, namespace: Symbol, name: &str, selector: Option<Selector>) {
        let services = self.services.entry(namespace).or_default();
        match selector {
            Some(selector) => services.insert(name.to_owned(), selector),
            None => services.remove(name),
        };
        if services.is_empty() {
            self.services.remove(&namespace);
        }
    }

    /// Sets the selector of a controller; `None` if it is gone.
    pub(super) fn set_controller(
        &mut self,
        controller: Controller,
        namespace: Symbol,
        name: Symbol,
        selector: Option<Selector>,
    ) {
        match selector {
            Some(selector) => self.controllers.insert((controller, namespace, name), selector),
            None => self.controllers.remove(&(controller, namespace, name)),
        };
    }

    /// The selector of a pod's services and controller together; empty without any.
    pub fn selector_for(&self, shape: &Shape, texts: &Interner) -> Selector {
        let mut selector = Selector::default();
        for service in self.services.get(&shape.namespace).into_iter().flatten().map(|(_, selector)| selector)
        {
            if service.matches(&shape.labels, texts) {
                selector.require_all(service);
            }
        }
        let controller =
            shape.owner.and_then(|(kind, name)| self.controllers.get(&(kind, shape.namespace, name)));
        if let Some(controller) = controller {
            selector.require_all(controller);
        }
        selector
    }
}
