//! The converters of declared kinds.
//!
//! Owns which converter a definition names: the one that changes nothing but the version, which is not part of a stored object, or
//! one that asks the server of a webhook, and how that server is called. What is asked and answered is `conversion`'s.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::Brand;
use orch_raft::WrittenAs;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_spans::{ActiveSpan, TraceContext};

use crate::ambient::Ambient;
use crate::conversion::{
    Batch, Converted, Converter, Converting, Hook, HookParts, HookedKind, Post, Reviews, Unposted, Way,
    converted,
};
use crate::webhook::{Bounds, CallError, ClientConfig, Webhooks};

/// Bytes of an answer: three times those of a batch, and four times those of the largest object. A converter whose objects grow more is
/// asked about fewer of them.
const ANSWER_BYTES_MAX: usize = 6 << 20;

/// The servers of conversion webhooks, as the converters of one node reach them. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    webhooks: Webhooks,
    parts: HookParts,
}

impl Servers {
    /// The servers that `webhooks` calls.
    pub(super) fn new(webhooks: Webhooks, ambient: Arc<dyn Ambient>) -> Servers {
        let clock = webhooks.clone();
        let elapsed = Arc::new(move || clock.elapsed());
        let parts = HookParts { ambient, elapsed, kept: Arc::default(), measures: Arc::default() };
        Servers { webhooks, parts }
    }
}

/// The converter that `definition`, called `name`, names; a webhook's is one of `servers`.
pub(super) fn of(
    name: &str,
    definition: &Value,
    brand: &'static Brand,
    servers: Option<&Servers>,
) -> Arc<dyn Converter> {
    let (spec, accepted) = (definition.at("spec"), definition.at("status").at("acceptedNames"));
    if spec.at("conversion").text("strategy") != "Webhook" {
        return Arc::new(Unchanged);
    }
    let kind = accepted.text("kind");
    let versions = spec.items("versions").iter().map(|version| version.text("name").to_owned());
    let of = HookedKind {
        definition: name.to_owned(),
        group: spec.text("group").to_owned(),
        kind: if kind.is_empty() { spec.at("names").text("kind") } else { kind }.to_owned(),
        versions: versions.collect(),
    };
    Arc::new(Hook::new(of, way(spec.at("conversion").at("webhook"), brand, servers)))
}

/// The way to the server of `webhook`.
///
/// # Errors
/// There is none: the reason, which is part of the answer to clients.
fn way(webhook: &Value, brand: &Brand, servers: Option<&Servers>) -> Result<Way, String> {
    let servers =
        servers.ok_or_else(|| "this server was started without a way to call webhooks".to_owned())?;
    let reviews = Reviews::of(brand, &webhook.texts("conversionReviewVersions"))?;
    let config = ClientConfig::of(webhook.at("clientConfig"))
        .map_err(|reason| format!("the conversion webhook cannot be called: {reason}"))?;
    let post = Arc::new(Server { webhooks: servers.webhooks.clone(), config });
    Ok(Way { reviews, post, parts: servers.parts.clone() })
}

/// The server of one definition.
#[derive(Debug)]
struct Server {
    webhooks: Webhooks,
    config: ClientConfig,
}

impl Post for Server {
    fn post(
        &self,
        document: Bytes,
        timeout: Duration,
        trace: Option<TraceContext>,
    ) -> BoxFuture<'static, Result<Bytes, Unposted>> {
        let answer_bytes_max = ANSWER_BYTES_MAX;
        let bounds = Bounds { timeout, answer_bytes_max, states_timeout: true, trace };
        let posted = self.webhooks.post(&self.config, document, bounds);
        let posted = posted.map(|answer| answer.map_err(|error| unposted(&error)));
        posted.boxed()
    }
}

fn unposted(error: &CallError) -> Unposted {
    Unposted { reason: error.to_string(), is_too_large: matches!(error, CallError::TooLarge { .. }) }
}

/// All versions have the same objects.
#[derive(Debug)]
struct Unchanged;

impl Converter for Unchanged {
    fn convert(&self, batch: Batch, _: &Arc<WrittenAs>, _: Option<&ActiveSpan>) -> Converting {
        converted(Ok(batch.into_iter().map(|piece| piece.object).collect::<Converted>()))
    }

    fn asks_others(&self) -> bool {
        false
    }
}
