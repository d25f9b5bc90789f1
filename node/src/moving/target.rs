//! Writes to the target: an object as the source has it, or its removal.
//!
//! Owns what the target's answers mean to a move. Each write may be sent twice without harm.

use std::time::Duration;

use anyhow::bail;
use http::{Method, StatusCode};
use orch_proto::Brand;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::kinds::{Kind, place_of};
use super::left_out::gives_way;
use super::servers::Pool;
use crate::admin::Call;

/// Longest wait for the end of a definition, whose objects the target removes with it.
const DEFINITION_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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

/// What became of an object that was to be removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// It is gone.
    Done,
    /// There was no such object, or another one has the name.
    Absent,
    /// It is still there, for this reason.
    Refused(String),
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
        StatusCode::UNAUTHORIZED | StatusCode::INSUFFICIENT_STORAGE => {
            bail!("the target refuses: {}", reply.message())
        }
        _ => Ok(Put::Refused(reply.message())),
    }
}

/// Has the target remove the object at `place` at once, if it has this `uid`; a definition, whose objects it removes with it, as any client
/// would, and waits for its end.
///
/// # Errors
/// The target cannot be used any further.
pub(super) async fn remove(
    target: &Pool<'_>,
    kind: &Kind,
    is_definition: bool,
    place: &str,
    uid: &str,
) -> anyhow::Result<Removal> {
    let query = if is_definition { "" } else { "?import=exact" };
    let path = kind.path_of(place);
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let call = Call::with_document(Method::DELETE, format!("{path}{query}"), &options);
    let reply = target.ask(&call).await?;
    match reply.status {
        status if status.is_success() && is_definition => await_end(target, &path, uid).await,
        status if status.is_success() => Ok(Removal::Done),
        // It is gone already, or another object has the name.
        StatusCode::NOT_FOUND | StatusCode::CONFLICT => Ok(Removal::Absent),
        StatusCode::UNAUTHORIZED => bail!("the target refuses: {}", reply.message()),
        _ => Ok(Removal::Refused(format!("it is not removed: {}", reply.message()))),
    }
}

async fn await_end(target: &Pool<'_>, path: &str, uid: &str) -> anyhow::Result<Removal> {
    let began = Instant::now();
    loop {
        let found = target.document(path).await?;
        if found.is_none_or(|found| found["metadata"]["uid"] != uid) {
            return Ok(Removal::Done);
        }
        if began.elapsed() > DEFINITION_MAX {
            return Ok(Removal::Refused(
                "it is gone at the source, and still being deleted at the target".to_owned(),
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}
