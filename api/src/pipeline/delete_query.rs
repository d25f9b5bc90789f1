//! Options of a delete in the query, beside those of the body.
//!
//! Owns their combination: an option counts wherever it stands. The two places may say the same; where they differ, the
//! request is refused, because a deletion that the client did not mean cannot be undone. (In the reference a body makes
//! the query ignored, so that `?dryRun=All` with the body `{}` deletes.)

use orch_rules::validate::tree::{Tree, child_mut, set};
use orch_schema::excerpt::beginning;
use orch_schema::json;
use orch_schema::value::Value;

use super::Request;
use crate::error::ApiError;
use crate::request::Verb;

/// Adds the options of the query to `options`, those of the body.
///
/// # Errors
/// `BadRequest` where the query has no valid number, or says something else than the body.
pub(super) fn add_query_options(request: Request<'_>, options: &mut Value) -> Result<(), ApiError> {
    let query = request.query;
    if let Some(seconds) = query.integer("gracePeriodSeconds")? {
        add(options, "gracePeriodSeconds", json!(seconds))?;
    }
    if let Some(orphan) = query.optional_flag("orphanDependents") {
        add(options, "orphanDependents", json!(orphan))?;
    }
    if let Some(policy) = query.value("propagationPolicy") {
        add(options, "propagationPolicy", json!(policy))?;
    }
    add_dry_run(options, query.values("dryRun"));
    let preconditions = ["uid", "resourceVersion"].into_iter().filter(|name| {
        // Beside a body the version in the query of a collection is that of the list.
        *name == "uid" || request.verb != Verb::DeleteCollection || request.body.is_empty()
    });
    for name in preconditions {
        let Some(wanted) = query.value(name).filter(|text| !text.is_empty()) else { continue };
        add(child_mut(options, "preconditions"), name, json!(wanted))?;
    }
    Ok(())
}

/// Adds the values of `dryRun` in the query. All values that are valid mean the same, so the places cannot differ.
pub(super) fn add_dry_run<'q>(options: &mut Value, asked: impl Iterator<Item = &'q str>) {
    let mut values = options.items("dryRun").to_vec();
    let given = values.len();
    values.extend(asked.map(|value| json!(value)));
    if values.len() > given {
        set(options, "dryRun", json!(values));
    }
}

fn add(options: &mut Value, name: &str, asked: Value) -> Result<(), ApiError> {
    if !options.has(name) {
        set(options, name, asked);
        return Ok(());
    }
    let given = options.at(name);
    if *given == asked {
        return Ok(());
    }
    let (asked, given) = (asked.to_string(), given.to_string());
    Err(ApiError::BadRequest(format!(
        "{name} is {} in the query and {} in the body",
        beginning(&asked),
        beginning(&given)
    )))
}
