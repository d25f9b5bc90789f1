//! Warnings about finalizers of declared kinds, which the reference lets pass where it refuses those of built-in kinds.

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
    for name in new.at("metadata").texts("finalizers").into_iter().take_while(|_| count_step()) {
        if known.has(&name) || is_standard_finalizer(name, context.brand) {
            continue;
        }
        let shown = quoted(name);
        let told = qualified_name(name);
        if !told.is_empty() {
            warnings.extend(told.into_iter().map(|told| format!("metadata.finalizers: {shown}: {told}")));
        } else if !name.contains('/') {
            let better = if name.contains('.') {
                "name including a path (/)"
            } else {
                "domain-qualified finalizer name"
            };
            warnings.push(format!(
                "metadata.finalizers: {shown}: prefer a {better} to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    warnings
}
