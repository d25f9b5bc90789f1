//! Writes to the target: an object as the source has it, or its removal.
//!
//! Owns what the target's answers mean to a move. Each write may be sent twice without harm.

use anyhow::bail;
use http::{Method, StatusCode};
use orch_proto::Brand;
use serde_json::{Value, json};

use super::kinds::{Kind, place_of};
use super::left_out::gives_way;
use super::servers::Pool;
use crate::admin::Call;

/// What became of an object at the target.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there as the source has it.
    Present,
    /// It is refused, for this reason.
    Refused(String),
    /// Its namespace is not there.
    Homeless,
}

/// Whether anything is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    Dry,
    Real,
}

/// Which objects of the same name and another uid give way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Namesakes {
    /// Those that every server makes at its start.
    Own,
    /// All.
    All,
}

/// Has the target store `object`, an item of a list of `kind`.
///
/// # Errors
/// The target cannot be used any further.
pub(super) async fn put(
    target: &Pool<'_>,
    (brand, kind): (&Brand, &Kind),
    mut object: Value,
    (trial, namesakes): (Trial, Namesakes),
) -> anyhow::Result<Put> {
    let replaces = namesakes == Namesakes::All || gives_way(brand, kind, &object);
    // Items of lists lack them.
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    let mode = if replaces { "replace" } else { "exact" };
    let dry = if trial == Trial::Dry { "&dryRun=All" } else { "" };
    let path = format!("{}?import={mode}{dry}", kind.path_of(&place_of(&object)));
    let reply = target.ask(&Call::with_document(Method::PUT, path, &object)).await?;
    match reply.status {
        status if status.is_success() => {
            if reply.body["metadata"]["uid"] != object["metadata"]["uid"] {
                bail!("the target gives objects other uids: it is no server that keeps them");
            }
            Ok(Put::Present)
        }
        StatusCode::NOT_FOUND if reply.body["details"]["kind"] == "namespaces" => Ok(Put::Homeless),
        StatusCode::CONFLICT if reply.body["reason"] == "AlreadyExists" => {
            Ok(Put::Refused("the name is taken by another object (--replace has it give way)".to_owned()))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::INSUFFICIENT_STORAGE => {
            bail!("the target refuses: {}", reply.message())
        }
        _ => Ok(Put::Refused(reply.message())),
    }
}

/// Has the target remove the object at `place` at once, if it has this `uid`.
///
/// # Errors
/// The target cannot be used any further, or does not remove it.
pub(super) async fn remove(
    target: &Pool<'_>,
    kind: &Kind,
    is_definition: bool,
    place: &str,
    uid: &str,
) -> anyhow::Result<()> {
    // The target removes the objects of a definition with it.
    let query = if is_definition { "" } else { "?import=exact" };
    let path = format!("{}{query}", kind.path_of(place));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let reply = target.ask(&Call::with_document(Method::DELETE, path, &options)).await?;
    match reply.status {
        status if status.is_success() => Ok(()),
        // It is gone already, or another object has the name.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(()),
        _ => bail!("the target does not remove {} {place}: {}", kind.id(), reply.message()),
    }
}
