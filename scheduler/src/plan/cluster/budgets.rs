//! Disruption budgets.
//!
//! Owns the number of further evictions that each budget allows.

use std::collections::BTreeMap;

use crate::api::policy::v1::PodDisruptionBudget;
use crate::objects::intern::{Interner, Symbol};
use crate::objects::labels::Selector;
use crate::objects::pod::Pod;

/// A budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    namespace: Symbol,
    selector: Selector,
    /// How many more pods may be evicted.
    pub allowed: i32,
    /// Pods whose eviction was granted and is counted already.
    disrupted: Vec<String>,
}

impl Budget {
    /// Compiles a budget.
    pub fn compile(texts: &mut Interner, object: &PodDisruptionBudget) -> Budget {
        let status = object.status.as_ref();
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        Budget {
            namespace: texts.intern(object.metadata.as_ref().map_or("", |meta| &meta.namespace)),
            selector: Selector::compile(texts, selector),
            allowed: status.map_or(0, |status| status.disruptions_allowed),
            disrupted: status.map(|s| s.disrupted_pods.keys().cloned().collect()).unwrap_or_default(),
        }
    }

    /// Whether the eviction of `pod` takes from the budget. Pods without labels and budgets with an empty selector
    /// are left out, as the reference does.
    pub fn covers(&self, pod: &Pod, texts: &Interner) -> bool {
        self.namespace == pod.shape.namespace
            && !pod.shape.labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches(&pod.shape.labels, texts)
            && !self.disrupted.iter().any(|name| **name == *pod.name)
    }
}

/// Budgets by namespace and name: the order in which they are charged.
pub type Budgets = BTreeMap<(String, String), Budget>;
