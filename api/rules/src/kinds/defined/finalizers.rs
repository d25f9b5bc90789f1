//! Warnings about finalizers of declared kinds, which the reference lets pass where it refuses those of built-in kinds.

use std::collections::BTreeSet;

use orch_schema::budget::count_step;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::validate::Distinct;
use crate::validate::metadata::is_standard_finalizer;
use crate::validate::names::qualified_name;
use crate::validate::tree::Tree;

/// The warnings about the finalizers of `new` that `old` does not have.
pub(super) fn warnings(context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
    let known: Distinct<&str> = match old {
        Some(old) => old.at("metadata").texts("finalizers").into_iter().collect(),
        None => Distinct::default(),
    };
    let mut warnings = Vec::new();
    let added: BTreeSet<&str> = new.at("metadata").texts("finalizers").into_iter().collect();
    for name in added.into_iter().take_while(|_| count_step()) {
        if known.has(&name) {
            continue;
        }
        let shown = quoted(name);
        let told = qualified_name(name);
        warnings.extend(told.into_iter().map(|told| format!("metadata.finalizers: {shown}: {told}")));
        if name.contains('/') || is_standard_finalizer(name, context.brand) {
            continue;
        }
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "metadata.finalizers: {shown}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
             other finalizer writers"
        ));
    }
    warnings
}
