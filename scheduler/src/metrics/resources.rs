//! The page `/metrics/resources`: what pods ask for and may take, as the scheduler counts it.
//!
//! Owns the form of the page. The pods come from the executor, through [`PodResources`]; without one the page is empty.

use std::fmt::Write;

use orch_proto::Brand;

/// One amount of one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodAmount {
    /// Whether it is a request or a limit.
    pub kind: AmountKind,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Node of the pod; empty before it is bound.
    pub node: String,
    /// Its profile's scheduler name.
    pub scheduler: String,
    /// Its priority as text; empty where it has none.
    pub priority: String,
    /// The resource.
    pub resource: String,
    /// Unit of the resource: `cores`, `bytes` or `integer`.
    pub unit: &'static str,
    /// The amount in that unit.
    pub amount: f64,
}

/// Kind of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountKind {
    /// What the pod asks for.
    Request,
    /// What it may take.
    Limit,
}

/// Knows the pods.
pub trait PodResources: Send + Sync {
    /// The amounts of all pods that have not ended.
    fn amounts(&self) -> Vec<PodAmount>;
}

/// The text of the page.
pub fn render(brand: &Brand, amounts: &[PodAmount]) -> String {
    let mut text = String::new();
    for (kind, name, help) in [
        (AmountKind::Limit, "limit", "What pods may take of a resource, as the scheduler counts it."),
        (AmountKind::Request, "request", "What pods ask for of a resource, as the scheduler counts it."),
    ] {
        let name = format!("{}_pod_resource_{name}", brand.component_prefix);
        let mut amounts = amounts.iter().filter(|amount| amount.kind == kind).peekable();
        if amounts.peek().is_some() {
            // A string takes every write.
            let _ = writeln!(text, "# HELP {name} [STABLE] {help}\n# TYPE {name} gauge");
        }
        for PodAmount { namespace, pod, node, scheduler, priority, resource, unit, amount, .. } in amounts {
            let _ = writeln!(
                text,
                "{name}{{namespace=\"{namespace}\",pod=\"{pod}\",node=\"{node}\",scheduler=\"{scheduler}\",\
                 priority=\"{priority}\",resource=\"{resource}\",unit=\"{unit}\"}} {amount}"
            );
        }
    }
    text
}
