//! The page `/metrics/resources`: requests and limits of pods, as the scheduler counts them.
//!
//! Owns the form of the page. [`ledger`] knows the pods. The page is made anew for each reader and has a line for each
//! resource of each pod, so that its size, and the memory for it while it is read, grow with the cluster.

pub mod ledger;

use std::fmt::Write;

use orch_proto::Brand;
use orch_schema::quantity::Quantity;

use crate::queue::requests::Amounts;

pub use ledger::{Demand, Ledger, PodDemand};

/// The amounts that a family of series shows.
#[derive(Clone, Copy)]
enum Kind {
    Limit,
    Request,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Limit => "limit",
            Kind::Request => "request",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Kind::Limit => "What pods may take of a resource, as the scheduler counts it.",
            Kind::Request => "What pods ask for of a resource, as the scheduler counts it.",
        }
    }

    fn of(self, demand: &Demand) -> &Amounts {
        match self {
            Kind::Limit => &demand.limits,
            Kind::Request => &demand.requests,
        }
    }
}

/// The text of the page.
pub fn render(brand: &Brand, ledger: &Ledger) -> String {
    let pods = ledger.pods();
    let mut text = String::new();
    for kind in [Kind::Limit, Kind::Request] {
        let name = format!("{}_pod_resource_{}", brand.component_prefix, kind.name());
        let mut is_described = false;
        for pod in &pods {
            let amounts = kind.of(&pod.demand).iter().filter(|(_, amount)| !amount.is_zero());
            for (resource, amount) in amounts {
                if !is_described {
                    // A string takes every write.
                    let _ = writeln!(text, "# HELP {name} [STABLE] {}\n# TYPE {name} gauge", kind.help());
                    is_described = true;
                }
                line(&mut text, &name, pod, resource, *amount);
            }
        }
    }
    text
}

/// Appends one series. Names of objects and resources need no escapes: the API allows no quotes in them.
fn line(text: &mut String, name: &str, pod: &PodDemand, resource: &str, amount: Quantity) {
    let PodDemand { namespace, name: pod_name, node, scheduler, priority, .. } = pod;
    let priority = priority.map(|priority| priority.to_string()).unwrap_or_default();
    let unit = unit(resource);
    let amount = amount.ratio_to(Quantity::of_units(1));
    // A string takes every write.
    let _ = writeln!(
        text,
        "{name}{{namespace=\"{namespace}\",node=\"{node}\",pod=\"{pod_name}\",priority=\"{priority}\",\
         resource=\"{resource}\",scheduler=\"{scheduler}\",unit=\"{unit}\"}} {amount}"
    );
}

/// The unit of a resource; empty for those of which only their makers know it.
fn unit(resource: &str) -> &'static str {
    match resource {
        "cpu" => "cores",
        "memory" | "storage" | "ephemeral-storage" => "bytes",
        resource if resource.starts_with("hugepages-") => "bytes",
        resource if resource.starts_with("attachable-volumes-") => "integer",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
