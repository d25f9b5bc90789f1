//! Requests of a node's pods, summed.
//!
//! Owns exact sums. A pod may ask for as much as 64 bits hold, and two of them for more: a sum that saturated, or wrapped,
//! would say something else once they are gone. Readers get sums that are cut to 64 bits, which is more than any node has.

use crate::objects::intern::Symbol;
use crate::objects::pod::Pod;
use crate::objects::ports::HostPort;
use crate::objects::requests::Requests;
use crate::objects::resources::Resources;

/// Amounts of a node that pods take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The sum of requests.
    pub requested: Resources,
    /// The sum of CPU as scores count it.
    pub scored_cpu_milli: i64,
    /// The sum of memory as scores count it.
    pub scored_memory: i64,
    /// How many pods there are.
    pub pods: i64,
    /// Ports of the node that are taken, once per pod that takes them.
    pub ports: Vec<HostPort>,
    exact: Exact,
}

/// The sums before they are cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Exact {
    cpu_milli: i128,
    memory: i128,
    ephemeral_storage: i128,
    scored_cpu_milli: i128,
    scored_memory: i128,
    /// Sorted by name.
    scalars: Vec<(Symbol, i128)>,
}

impl Load {
    /// Adds what a pod takes.
    pub fn add(&mut self, pod: &Pod) {
        let local = &pod.shape.local;
        self.sum(&local.requests, 1);
        self.pods += 1;
        self.ports.extend_from_slice(&local.ports);
    }

    /// Takes away what a pod took that was added before.
    pub fn remove(&mut self, pod: &Pod) {
        let local = &pod.shape.local;
        self.sum(&local.requests, -1);
        self.pods -= 1;
        for port in &local.ports {
            if let Some(at) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(at);
            }
        }
    }

    fn sum(&mut self, requests: &Requests, times: i128) {
        let (exact, total) = (&mut self.exact, &requests.total);
        let plus = |sum: &mut i128, amount: i64| -> i64 {
            *sum += times * i128::from(amount);
            cut(*sum)
        };
        self.requested.cpu_milli = plus(&mut exact.cpu_milli, total.cpu_milli);
        self.requested.memory = plus(&mut exact.memory, total.memory);
        self.requested.ephemeral_storage = plus(&mut exact.ephemeral_storage, total.ephemeral_storage);
        self.scored_cpu_milli = plus(&mut exact.scored_cpu_milli, requests.scored_cpu_milli);
        self.scored_memory = plus(&mut exact.scored_memory, requests.scored_memory);
        for (name, amount) in &total.scalars {
            *self.requested.scalar_mut(*name) = plus(exact.scalar_mut(*name), *amount);
        }
    }
}

impl Exact {
    fn scalar_mut(&mut self, name: Symbol) -> &mut i128 {
        let at = self.scalars.binary_search_by_key(&name, |(other, _)| *other).unwrap_or_else(|at| {
            self.scalars.insert(at, (name, 0));
            at
        });
        &mut self.scalars[at].1
    }
}

fn cut(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}
