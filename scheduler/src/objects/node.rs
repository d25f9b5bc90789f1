//! Nodes.
//!
//! Owns the compiled form of what a node says of itself; what runs on it is the planner's.

use std::sync::Arc;

use crate::api::core::v1;

use super::features::Features;
use super::intern::{Interner, Symbol};
use super::labels::Labels;
use super::quantity;
use super::resources::Resources;
use super::taints::Taint;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Symbol,
    /// Its labels.
    pub labels: Labels,
    /// Its taints, in the order of the object.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// How many pods it takes.
    pub pods_max: i64,
    /// Images that it holds: every name of an image, as the node tells it, and its size in bytes. Sorted by name.
    pub images: Arc<[(Symbol, i64)]>,
    /// `status.declaredFeatures`.
    pub features: Features,
}

impl Node {
    /// Compiles a node.
    pub fn compile(interner: &mut Interner, node: &v1::Node) -> Node {
        let empty = v1::NodeStatus::default();
        let meta = node.metadata.as_ref();
        let status = node.status.as_ref().unwrap_or(&empty);
        let taints = node.spec.iter().flat_map(|spec| &spec.taints);
        let mut images: Vec<(Symbol, i64)> = Vec::new();
        for image in &status.images {
            images.extend(image.names.iter().map(|name| (interner.intern(name), image.size_bytes)));
        }
        // Of a name that is told twice, the first size counts.
        images.sort_by_key(|(name, _)| *name);
        images.dedup_by_key(|(name, _)| *name);
        Node {
            name: interner.intern(meta.map_or("", |meta| &meta.name)),
            labels: meta.map(|meta| Labels::compile(interner, &meta.labels)).unwrap_or_default(),
            taints: taints.map(|taint| Taint::compile(interner, taint)).collect(),
            unschedulable: node.spec.as_ref().is_some_and(|spec| spec.unschedulable),
            allocatable: Resources::compile(interner, &status.allocatable),
            pods_max: status.allocatable.get("pods").map_or(0, |amount| quantity::units(&amount.string)),
            images: images.into(),
            features: Features::declared(interner, status),
        }
    }
}
