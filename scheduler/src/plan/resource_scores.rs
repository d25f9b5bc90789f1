//! Scores of one node by its resources and images: NodeResourcesFit, NodeResourcesBalancedAllocation, ImageLocality.
//!
//! Owns the arithmetic; scores are 0 to 100.

use crate::objects::pod::LocalShape;

use super::cluster::Cluster;
use super::cluster::nodes::{Load, Slot};
use super::compiled_profile::{CompiledProfile, ResourceKey};
use super::device_claims::device_counts;
use super::profile::{ShapePoint, Strategy};

/// The best score.
pub(super) const SCORE_MAX: i64 = 100;
const MEBIBYTE: i64 = 1 << 20;
/// Images below this size in all are not worth a preference.
const IMAGES_MIN: i64 = 23 * MEBIBYTE;
/// The size per container from which on more does not matter.
const IMAGES_MAX: i64 = 1000 * MEBIBYTE;

/// NodeResourcesFit.
pub(super) fn fit(
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
) -> i64 {
    let strategy = rules.fit_strategy();
    let (mut sum, mut weights) = (0, 0);
    for (key, weight) in &rules.fit_resources {
        let request = scored_request(*key, local);
        if request == 0 && matches!(key, ResourceKey::Scalar(_)) {
            continue;
        }
        let (allocatable, used) = capacity(cluster, *key, slot, scored_load(*key, load));
        if allocatable == 0 {
            continue;
        }
        let requested = used.saturating_add(request);
        let score = match strategy {
            Strategy::LeastAllocated if requested > allocatable => 0,
            Strategy::LeastAllocated => percent(allocatable - requested, allocatable),
            Strategy::MostAllocated => percent(requested.min(allocatable), allocatable),
            Strategy::RequestedToCapacityRatio(shape) => ratio_score(shape, requested, allocatable),
        };
        if matches!(strategy, Strategy::RequestedToCapacityRatio(_)) && score <= 0 {
            continue;
        }
        sum += score * weight;
        weights += weight;
    }
    match strategy {
        _ if weights == 0 => 0,
        Strategy::RequestedToCapacityRatio(_) => (2 * sum + weights) / (2 * weights),
        Strategy::LeastAllocated | Strategy::MostAllocated => sum / weights,
    }
}

/// How much `part` is of `whole`, rounded down. Neither times 100 need fit 64 bits.
fn percent(part: i64, whole: i64) -> i64 {
    i64::try_from(i128::from(part) * 100 / i128::from(whole)).unwrap_or(SCORE_MAX)
}

/// How much of a resource a node has, and how much of that is in use: `used`, or where devices stand for the resource, what
/// is in use of them.
fn capacity(cluster: &Cluster, key: ResourceKey, slot: &Slot, used: i64) -> (i64, i64) {
    match (key.of(&slot.node.allocatable), key) {
        (0, ResourceKey::Scalar(name)) => device_counts(cluster, slot, name),
        (allocatable, _) => (allocatable, used),
    }
}

fn scored_request(key: ResourceKey, local: &LocalShape) -> i64 {
    match key {
        ResourceKey::Cpu => local.requests.scored_cpu_milli,
        ResourceKey::Memory => local.requests.scored_memory,
        key => key.of(&local.requests.total),
    }
}

fn scored_load(key: ResourceKey, load: &Load) -> i64 {
    match key {
        ResourceKey::Cpu => load.scored_cpu_milli,
        ResourceKey::Memory => load.scored_memory,
        key => key.of(&load.requested),
    }
}

/// The broken line at the utilisation in percent; more than all is as bad as all.
fn ratio_score(shape: &[ShapePoint], requested: i64, allocatable: i64) -> i64 {
    let utilization = if requested > allocatable { 100 } else { percent(requested, allocatable) };
    let at = |score: i64| score * SCORE_MAX / 10;
    let Some(next) = shape.iter().position(|point| utilization <= point.utilization) else {
        return shape.last().map_or(0, |point| at(point.score));
    };
    let upper = shape[next];
    let Some(lower) = next.checked_sub(1).map(|previous| shape[previous]) else { return at(upper.score) };
    let (rise, run) = (at(upper.score) - at(lower.score), upper.utilization - lower.utilization);
    at(lower.score) + rise * (utilization - lower.utilization) / run
}

/// NodeResourcesBalancedAllocation: how evenly the resources are in use with the pod, and how that compares with before. A
/// pod that changes nothing scores 75 everywhere. Pods without requests of these resources are not scored.
pub(super) fn balanced(
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
) -> i64 {
    let requests = &local.requests.total;
    if rules.balanced_resources.iter().all(|key| key.of(requests) == 0) {
        return 0;
    }
    let evenness = |with_pod| evenness(rules, cluster, local, slot, load, with_pod);
    let (with, without) = (evenness(true), evenness(false));
    SCORE_MAX / 2 + (SCORE_MAX / 2 + with - without) / 2
}

/// 100 less the standard deviation of the fractions that are in use, with what the pod asks for or without.
#[expect(clippy::cast_possible_truncation, reason = "fractions, and 0 to 100")]
fn evenness(
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
    with_pod: bool,
) -> i64 {
    let mut fractions = [0f64; BALANCED_INLINE];
    let mut more = Vec::new();
    let mut len = 0;
    for key in &rules.balanced_resources {
        let request = key.of(&local.requests.total);
        if request == 0 && matches!(key, ResourceKey::Scalar(_)) {
            continue;
        }
        let (allocatable, used) = capacity(cluster, *key, slot, key.of(&load.requested));
        if allocatable == 0 {
            continue;
        }
        let used = if with_pod { used.saturating_add(request) } else { used };
        let fraction = (used as f64 / allocatable as f64).min(1.0);
        match fractions.get_mut(len) {
            Some(place) => *place = fraction,
            None => more.push(fraction),
        }
        len += 1;
    }
    let all = || fractions[..len.min(BALANCED_INLINE)].iter().chain(&more);
    let deviation = match len {
        0 | 1 => 0.0,
        2 => ((fractions[0] - fractions[1]) / 2.0).abs(),
        len => {
            let mean = all().sum::<f64>() / len as f64;
            (all().map(|fraction| (fraction - mean) * (fraction - mean)).sum::<f64>() / len as f64).sqrt()
        }
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

/// Fractions that are kept without an allocation.
const BALANCED_INLINE: usize = 4;

/// ImageLocality: prefers nodes that hold large images of the pod, less so if few nodes do.
#[expect(clippy::cast_possible_truncation, reason = "sizes scaled by a fraction")]
pub(super) fn images(cluster: &Cluster, local: &LocalShape, slot: &Slot) -> i64 {
    let held = &slot.node.images;
    if held.is_empty() || local.containers == 0 {
        return 0;
    }
    let total = cluster.nodes().len() as f64;
    let mut sum = 0;
    for name in &local.images {
        let is_held = held.binary_search_by_key(name, |(held, _)| *held).is_ok();
        if is_held && let Some(image) = cluster.images().find(*name) {
            sum += (image.size as f64 * (image.nodes as f64 / total)) as i64;
        }
    }
    let max = IMAGES_MAX * i64::try_from(local.containers).unwrap_or(i64::MAX / IMAGES_MAX);
    SCORE_MAX * (sum.clamp(IMAGES_MIN, max) - IMAGES_MIN) / (max - IMAGES_MIN)
}
