//! The objects of a write in the versions that policies and webhooks ask for.
//!
//! Owns their conversion, once for each version. In the version of the request nothing is copied, unless the kind is stored
//! in another form.

use std::borrow::Cow;
use std::sync::Arc;

use orch_raft::WrittenAs;
use orch_raft::object::SharedObject;
use orch_schema::value::Value;
use orch_spans::ActiveSpan;

use super::asked::Asked;
use super::rules::Version;
use crate::conversion::{Batch, Piece, Staged};
use crate::registry::Resource;

/// The objects of a write in one version, and the version.
#[derive(Debug)]
pub(in crate::admission) struct Converted<'a> {
    pub(in crate::admission) version: Names,
    pub(in crate::admission) object: Option<Cow<'a, Value>>,
    pub(in crate::admission) old: Option<Cow<'a, Value>>,
}

/// Group and version of the resource, `apiVersion` and kind of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Names {
    pub(in crate::admission) group: String,
    pub(in crate::admission) version: String,
    pub(in crate::admission) api_version: String,
    pub(in crate::admission) kind: String,
}

impl Names {
    /// Those of `version` of the write.
    pub(in crate::admission) fn of(asked: &Asked<'_>, version: &Version<'_>) -> Names {
        let (group, version, resource) = match version {
            Version::Own => (asked.group, asked.version, asked.attributes.resource),
            Version::Other(group, version, resource) => (*group, *version, *resource),
        };
        let part = resource.subresource(asked.subresource);
        let own = (&resource.group, &resource.version, &resource.kind);
        let (kind_group, kind_version, kind) =
            part.map_or(own, |part| (&part.group, &part.version, &part.kind));
        let api_version = match &**kind_group {
            "" => kind_version.clone(),
            group => format!("{group}/{kind_version}"),
        };
        Names { group: group.to_owned(), version: version.to_owned(), api_version, kind: kind.clone() }
    }
}

/// The objects of a write in `version`.
///
/// # Errors
/// They cannot be converted: the reason.
pub(in crate::admission) async fn converted<'a>(
    asked: &Asked<'a>,
    object: Option<&'a Value>,
    version: &Version<'a>,
) -> Result<Converted<'a>, String> {
    let (own, trace) = (asked.attributes.resource, asked.attributes.exchange.onward());
    Ok(Converted {
        version: Names::of(asked, version),
        object: shown_in(own, version, object, trace).await?,
        old: shown_in(own, version, asked.attributes.old, trace).await?,
    })
}

/// A stored object in the version of `resource`.
///
/// # Errors
/// It cannot be read or converted: the reason.
pub(in crate::admission) async fn stored_in(
    resource: &Resource,
    object: &SharedObject,
    trace: Option<&ActiveSpan>,
) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(&object.json).map_err(|error| error.to_string())?;
    let Some(staged) = resource.staged() else { return Ok(resource.to_version(value)) };
    let written_as = object.index.written_as.as_ref().unwrap_or(&staged.stored);
    if written_as.version == staged.shown.version {
        return Ok(value);
    }
    convert(staged, written_as.clone(), value, trace).await
}

/// `object`, which is in the form `from`, in the version of `to`.
async fn convert(
    to: &Staged,
    from: Arc<WrittenAs>,
    object: Value,
    trace: Option<&ActiveSpan>,
) -> Result<Value, String> {
    let batch: Batch = std::iter::once(Piece { written_as: from, object }).collect();
    let shown = to.converter.convert(batch, &to.shown, trace).await.map_err(|failure| failure.to_string())?;
    shown.into_iter().next().ok_or_else(|| "the converter returned no object".to_owned())
}

/// `object`, which is in `version`, in the form of the rules of its kind.
///
/// # Errors
/// It cannot be converted: the reason.
pub(in crate::admission) async fn back(
    own: &Resource,
    version: &Version<'_>,
    object: Value,
    trace: Option<&ActiveSpan>,
) -> Result<Value, String> {
    let Version::Other(_, _, from) = version else { return Ok(own.to_rules(object)) };
    match (from.staged(), own.staged()) {
        (Some(from), Some(own)) => convert(own, from.shown.clone(), object, trace).await,
        _ => Ok(from.to_rules(object)),
    }
}

/// `object`, which is in the form of the rules of its kind, in `version`.
///
/// # Errors
/// It cannot be converted: the reason.
pub(in crate::admission) async fn shown_in<'a>(
    own: &Resource,
    version: &Version<'_>,
    object: Option<&'a Value>,
    trace: Option<&ActiveSpan>,
) -> Result<Option<Cow<'a, Value>>, String> {
    let Some(object) = object else { return Ok(None) };
    let to = match version {
        Version::Own => own,
        Version::Other(_, _, resource) => resource,
    };
    if to.direct().is_some() {
        return Ok(Some(Cow::Owned(to.to_version(object.clone()))));
    }
    // Objects of a declared kind are in the form of the request's version.
    let (Version::Other(..), Some(from), Some(into)) = (version, own.staged(), to.staged()) else {
        return Ok(Some(Cow::Borrowed(object)));
    };
    convert(into, from.shown.clone(), object.clone(), trace).await.map(|shown| Some(Cow::Owned(shown)))
}
