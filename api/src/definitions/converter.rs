//! The converters of declared kinds.
//!
//! Owns the one that changes nothing but the version, which is not part of a stored object, and the one of a definition that names
//! a webhook. It calls no webhook.

use std::sync::Arc;

use orch_raft::WrittenAs;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::conversion::{Batch, Converted, Converter, Converting, Failure, converted};

/// The converter that `definition` names.
pub(super) fn of(definition: &Value) -> Arc<dyn Converter> {
    let spec = definition.at("spec");
    match spec.at("conversion").text("strategy") {
        "Webhook" => Arc::new(Uncalled {
            group: spec.text("group").to_owned(),
            kind: spec.at("names").text("kind").to_owned(),
        }),
        _ => Arc::new(Unchanged),
    }
}

/// All versions have the same objects.
#[derive(Debug)]
struct Unchanged;

impl Converter for Unchanged {
    fn convert(&self, batch: Batch, _to: &Arc<WrittenAs>) -> Converting {
        converted(Ok(batch.into_iter().map(|piece| piece.object).collect::<Converted>()))
    }

    fn asks_others(&self) -> bool {
        false
    }
}

/// Another server would convert the objects, and none is called.
#[derive(Debug)]
struct Uncalled {
    group: String,
    kind: String,
}

impl Converter for Uncalled {
    fn convert(&self, batch: Batch, _to: &Arc<WrittenAs>) -> Converting {
        let Uncalled { group, kind } = self;
        let version = batch.first().map(|piece| piece.written_as.version.to_string()).unwrap_or_default();
        converted(Err(Failure(format!(
            "conversion webhook for {group}/{version}, Kind={kind} failed: this server calls no conversion webhooks"
        ))))
    }

    fn asks_others(&self) -> bool {
        false
    }
}
