//! The scores, each straight from its definition.

use std::collections::{BTreeMap, BTreeSet};

use orch_scheduler::api::core::v1;

use super::filters::{State, allocatable, labels, lets_in, node_term, request, required, spec, tolerated};
use super::world::hostname;

impl State {
    /// The weighted sum of all scores, for each of the nodes that passed.
    pub(crate) fn totals(&self, pod: &v1::Pod, feasible: &[String]) -> Vec<i64> {
        let taints: Vec<i64> = feasible.iter().map(|name| self.preferring_taints(pod, name)).collect();
        let preferred: Vec<i64> = feasible.iter().map(|name| self.preferred_nodes(pod, name)).collect();
        let spread = self.spread(pod, feasible);
        let company = scale_range(&feasible.iter().map(|name| self.company(pod, name)).collect::<Vec<_>>());
        let (taints_max, preferred_max) = (max(&taints), max(&preferred));
        let total = |(at, name): (usize, &String)| {
            let tainted = if taints_max == 0 { 100 } else { 100 - 100 * taints[at] / taints_max };
            let wanted = if preferred_max == 0 { 0 } else { 100 * preferred[at] / preferred_max };
            let alone = self.room(pod, name) + self.balance(pod, name) + self.images(pod, name);
            alone + 3 * tainted + 2 * wanted + 2 * spread[at] + 2 * company[at]
        };
        feasible.iter().enumerate().map(total).collect()
    }

    fn preferring_taints(&self, pod: &v1::Pod, name: &str) -> i64 {
        let taints = self.nodes[name].spec.as_ref().unwrap().taints.iter();
        let hit = taints.filter(|taint| taint.effect == "PreferNoSchedule" && !tolerated(pod, taint));
        i64::try_from(hit.count()).unwrap()
    }

    fn preferred_nodes(&self, pod: &v1::Pod, name: &str) -> i64 {
        let affinity = spec(pod).affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let terms = affinity.iter().flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution);
        let matching = terms.filter(|t| node_term(t.preference.as_ref().unwrap(), &self.nodes[name]));
        matching.map(|term| i64::from(term.weight)).sum()
    }

    fn room(&self, pod: &v1::Pod, name: &str) -> i64 {
        let score = |resource: &str, missing: i64| {
            let used: i64 = self.on(name).map(|other| request(other, resource, missing)).sum();
            let (all, used) =
                (allocatable(&self.nodes[name], resource), used + request(pod, resource, missing));
            if used > all { 0 } else { (all - used) * 100 / all }
        };
        i64::midpoint(score("cpu", 100), score("memory", (200 << 20) * 1000))
    }

    fn balance(&self, pod: &v1::Pod, name: &str) -> i64 {
        if ["cpu", "memory"].iter().all(|resource| request(pod, resource, 0) == 0) {
            return 0;
        }
        let fraction = |resource: &str, own: i64| {
            let used: i64 = self.on(name).map(|other| request(other, resource, 0)).sum();
            ((used + own) as f64 / allocatable(&self.nodes[name], resource) as f64).min(1.0)
        };
        let evenness = |cpu: f64, memory: f64| ((1.0 - ((cpu - memory) / 2.0).abs()) * 100.0) as i64;
        let own = |resource: &str| fraction(resource, request(pod, resource, 0));
        let (with, without) =
            (evenness(own("cpu"), own("memory")), evenness(fraction("cpu", 0), fraction("memory", 0)));
        50 + (50 + with - without) / 2
    }

    fn images(&self, pod: &v1::Pod, name: &str) -> i64 {
        let size_on = |node: &v1::Node, image: &str| {
            let images = &node.status.as_ref().unwrap().images;
            let sizes = images.iter().filter(|held| held.names[0] == image).map(|held| held.size_bytes);
            sizes.min()
        };
        let containers: Vec<_> = spec(pod).containers.iter().chain(&spec(pod).init_containers).collect();
        let mut sum = 0;
        for container in &containers {
            let image = if container.image == "img" { "img:latest" } else { &container.image };
            if let Some(size) = size_on(&self.nodes[name], image) {
                let holders = self.nodes.values().filter(|node| size_on(node, image).is_some()).count();
                sum += (size as f64 * (holders as f64 / self.nodes.len() as f64)) as i64;
            }
        }
        let (least, most) = (23 << 20, (1000 << 20) * containers.len() as i64);
        100 * (sum.clamp(least, most) - least) / (most - least)
    }

    fn spread(&self, pod: &v1::Pod, feasible: &[String]) -> Vec<i64> {
        let soft: Vec<_> = spec(pod)
            .topology_spread_constraints
            .iter()
            .filter(|c| c.when_unsatisfiable == "ScheduleAnyway")
            .collect();
        if soft.is_empty() {
            return vec![0; feasible.len()];
        }
        let domain = |name: &str, key: &str| labels(&self.nodes[name].metadata).get(key);
        let complete = |name: &String| soft.iter().all(|c| domain(name, &c.topology_key).is_some());
        let scored: Vec<&String> = feasible.iter().filter(|name| complete(name)).collect();
        let mut raw: BTreeMap<&String, f64> = scored.iter().map(|name| (*name, 0.0)).collect();
        for constraint in &soft {
            let key = &constraint.topology_key;
            let by_host = *key == hostname();
            let domains: BTreeSet<_> = scored.iter().map(|name| domain(name, key)).collect();
            let size = if by_host { scored.len() } else { domains.len() };
            for (name, score) in &mut raw {
                let same = self.nodes.iter().filter(|(other, node)| {
                    complete(other)
                        && lets_in(pod, node, constraint)
                        && domain(other, key) == domain(name, key)
                });
                let count: i64 = if by_host {
                    self.counted_pods(pod, constraint, name)
                } else {
                    same.map(|(other, _)| self.counted_pods(pod, constraint, other)).sum()
                };
                *score += count as f64 * (size as f64 + 2.0).ln() + f64::from(constraint.max_skew - 1);
            }
        }
        let raw: BTreeMap<&String, i64> =
            raw.into_iter().map(|(name, score)| (name, score.round() as i64)).collect();
        let most = raw.values().max().copied().unwrap_or(0);
        let least = raw.values().min().copied().unwrap_or(0);
        let scaled = |name| match raw.get(name) {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(score) => 100 * (most + least - score) / most,
        };
        feasible.iter().map(scaled).collect()
    }

    /// What the pods near a node are worth to a pod, and it to them.
    fn company(&self, pod: &v1::Pod, name: &str) -> i64 {
        let own = labels(&self.nodes[name].metadata);
        let mut sum = 0;
        for other in self.pods.values() {
            let near = |term: &v1::PodAffinityTerm| {
                own.get(&term.topology_key)
                    .is_some_and(|d| self.domain_of(other, &term.topology_key) == Some(d))
            };
            for (weight, term) in preferences(pod) {
                sum += weight * i64::from(near(term) && self.selects(pod, term, other));
            }
            for (weight, term) in preferences(other) {
                sum += weight * i64::from(near(term) && self.selects(other, term, pod));
            }
            for term in required(other).0 {
                sum += i64::from(near(term) && self.selects(other, term, pod));
            }
        }
        sum
    }
}

fn preferences(pod: &v1::Pod) -> Vec<(i64, &v1::PodAffinityTerm)> {
    let affinity = spec(pod).affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let near = near.iter().flat_map(|n| &n.preferred_during_scheduling_ignored_during_execution);
    let apart = apart.iter().flat_map(|a| &a.preferred_during_scheduling_ignored_during_execution);
    let near = near.map(|w| (i64::from(w.weight), w.pod_affinity_term.as_ref().unwrap()));
    let apart = apart.map(|w| (-i64::from(w.weight), w.pod_affinity_term.as_ref().unwrap()));
    near.chain(apart).collect()
}

fn max(values: &[i64]) -> i64 {
    values.iter().max().copied().unwrap_or(0)
}

fn scale_range(raw: &[i64]) -> Vec<i64> {
    let (most, least) = (max(raw), raw.iter().min().copied().unwrap_or(0));
    let scaled = |score: &i64| {
        if most == least { 0 } else { (100.0 * ((score - least) as f64 / (most - least) as f64)) as i64 }
    };
    raw.iter().map(scaled).collect()
}
