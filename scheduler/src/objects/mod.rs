//! Compact forms of the API's objects: interned labels, quantities as integers, compiled selectors.
//!
//! Owns the translation of the structs of [`crate::api`] into what the planner computes with, once per object. Nothing
//! here knows other objects or makes a choice. Strings that are compared (keys and values of labels, taints, resource
//! names, namespaces, node names) become [`intern::Symbol`]s of one [`intern::Interner`]; forms of different interners
//! must not be mixed.

pub mod affinity;
pub mod controller;
pub mod features;
pub mod images;
pub mod in_tree;
pub mod intern;
pub mod labels;
pub mod node;
pub mod node_selector;
pub mod pod;
pub mod ports;
pub mod quantity;
pub mod requests;
pub mod resources;
pub mod spread;
pub mod taints;
pub mod volumes;
