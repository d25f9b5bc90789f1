//! `ValidatingAdmissionWebhook`: webhooks that refuse writes.
//!
//! Owns that all of them are called at once, after it is known which ones the write meets: an error of that ends it before any
//! is called. All are awaited; the refusal that came first is given.

use futures::StreamExt;
use futures::future::Either;
use futures::stream::FuturesUnordered;
use orch_schema::value::Value;

use super::answer::Role;
use super::asking::Asking;
use super::prepared::{Configurations, Found};
use super::review::Request;
use super::trace::Call;
use super::{Callers, is_asked_about, keep_named, looked_up};
use crate::admission::matching::{Asked, Converted, Names, Version, converted};
use crate::admission::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;
use crate::follow::Maintained;

/// Bytes of the documents of one write that are on their way at once: each webhook is sent a copy. The largest object goes
/// to ten at once; usual ones go to all.
const SENT_BYTES_MAX: usize = 32 << 20;
/// Calls of one write at once, whatever their size: more would take all places of a target.
const CALLS_MAX: usize = 64;

pub(in crate::admission) struct ValidatingAdmissionWebhook {
    configurations: Maintained<Configurations>,
    callers: Callers,
}

impl ValidatingAdmissionWebhook {
    pub(in crate::admission) fn new(callers: Callers) -> Self {
        let configurations = Maintained::new(|| Configurations::of(Role::Validating));
        ValidatingAdmissionWebhook { configurations, callers }
    }
}

impl Plugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_asked_about(attributes)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let looked = looked_up(&self.configurations, (attributes, Role::Validating), view);
        if looked.as_ref().is_some_and(Vec::is_empty) {
            return rule(Ok(()));
        }
        Either::Right(Box::pin(async move {
            let found = match looked {
                Some(found) => found,
                None => {
                    let plural = &*attributes.resource.plural;
                    let read = self.configurations.read(view.applied(), |known| known.of_resource(plural));
                    let mut found = read.await;
                    keep_named(&mut found, attributes);
                    found
                }
            };
            let mut judging = Judging {
                asking: Asking::new(attributes, view, &self.callers),
                object,
                versions: Vec::new(),
            };
            let met = judging.met(&found).await?;
            match met[..] {
                [] => Ok(()),
                _ => judging.asking.waited(judging.call(&met)).await,
            }
        }))
    }
}

/// A write on its way through validating webhooks.
struct Judging<'a> {
    asking: Asking<'a>,
    object: Option<&'a Value>,
    /// The objects in the versions that were needed.
    versions: Vec<Converted<'a>>,
}

/// A webhook that the write meets, and the place of its version.
struct Met<'f> {
    found: &'f Found,
    version: usize,
}

impl<'a> Judging<'a> {
    /// The webhooks that the write meets.
    ///
    /// # Errors
    /// The first error of matching.
    async fn met<'f>(&mut self, found: &'f [Found]) -> Result<Vec<Met<'f>>, Refusal> {
        let mut met = Vec::new();
        for found in found {
            let Some(version) = self.asking.version(&found.webhook, self.object)? else { continue };
            let version = self.version(&version).await?;
            let Converted { version: names, object, old } = &self.versions[version];
            let objects = (object.as_deref(), old.as_deref());
            if self.asking.is_met(&found.webhook, names, objects).await? {
                met.push(Met { found, version });
            }
        }
        Ok(met)
    }

    /// The place of the objects in `version` among those that were converted.
    async fn version(&mut self, version: &Version<'a>) -> Result<usize, Refusal> {
        let asked: &Asked<'a> = &self.asking.write.asked;
        let names = Names::of(asked, version);
        // few: the versions of one resource.
        if let Some(at) = self.versions.iter().position(|of| of.version == names) {
            return Ok(at);
        }
        let converted = converted(asked, self.object, version).await;
        // The converter may have been another server.
        self.versions.push(converted.map_err(|reason| Refusal::Final(ApiError::WebhookFailed(reason)))?);
        Ok(self.versions.len() - 1)
    }

    /// Calls all of `met`.
    ///
    /// # Errors
    /// The refusal that came first.
    async fn call(&self, met: &[Met<'_>]) -> Result<(), Refusal> {
        let asked = &self.asking.write.asked;
        let own = Names::of(asked, &Version::Own);
        let request = |of: &Converted<'_>| {
            Request::of(asked, (&of.version, &own), of.object.as_deref(), of.old.as_deref())
        };
        let requests: Vec<Request> = self.versions.iter().map(request).collect();
        let largest = requests.iter().map(Request::len).max().unwrap_or_default();
        let calls_max = (SENT_BYTES_MAX / largest.max(1)).clamp(1, CALLS_MAX);
        let mut calls = FuturesUnordered::new();
        let mut refused = Ok(());
        for (at, Met { found, version }) in met.iter().enumerate() {
            if calls.len() >= calls_max
                && let Some(ended) = calls.next().await
            {
                refused = refused.and(ended);
            }
            let call = Call { found, round: 0, at };
            let request = &requests[*version];
            calls.push(async move { self.asking.call(call, request, self.object).await.map(drop) });
        }
        while let Some(ended) = calls.next().await {
            refused = refused.and(ended);
        }
        refused
    }
}
