//! A write on its way through the webhooks of one role.
//!
//! Owns whether a webhook is about the write, one call of it, and what follows from the call's end: a refusal, a failure
//! that refuses, or one that is passed over. A webhook is called once; nothing is called again.
//!
//!     rules, selectors -> conditions -> one call -> answer: allowed | refused
//!                                                -> no answer: failure policy -> refused | goes on

use std::time::Duration;

use orch_rules::expression::policy::{FailurePolicy, Input, Matched};
use orch_schema::SignedDuration;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::answer::{self, Answer, Fault};
use super::metrics::{self, Ended, Outcome};
use super::prepared::{SideEffects, Webhook};
use super::review::{Request, ReviewVersion};
use super::trace::Call;
use super::{Callers, patched};
use crate::admission::matching::{Names, Objects, Param, Version, Write};
use crate::admission::{Attributes, Refusal, View};
use crate::ambient::uuid_text;
use crate::error::{ApiError, Subject};
use crate::patch::JsonPatch;
use crate::webhook::{ANSWER_BYTES_MAX, Bounds};

/// A write, and who is called about it.
pub(super) struct Asking<'a> {
    pub(super) write: Write<'a>,
    pub(super) callers: &'a Callers,
}

/// The answer of a webhook that allows the write, with its patch.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    /// The text of the patch.
    pub(super) text: Vec<u8>,
    /// `None`: nothing is to be changed.
    pub(super) patch: Option<JsonPatch>,
}

/// The end of a call without an answer that allows.
enum Unallowed {
    /// The webhook refuses.
    Denied(ApiError),
    /// There is no answer.
    Failed(Fault),
    /// The write may not be sent to the webhook, whatever the failure policy is.
    Unsendable(ApiError),
}

impl<'a> Asking<'a> {
    pub(super) fn new(attributes: &'a Attributes<'a>, view: &'a View, callers: &'a Callers) -> Asking<'a> {
        Asking { write: Write::new(attributes, view), callers }
    }

    pub(super) fn attributes(&self) -> &'a Attributes<'a> {
        self.write.attributes()
    }

    /// The version by which rules and selectors of `webhook` are about the write of `object`.
    ///
    /// # Errors
    /// The namespace, whose labels are asked for, is not there.
    pub(super) fn version(
        &self,
        webhook: &Webhook,
        object: Option<&Value>,
    ) -> Result<Option<Version<'a>>, Refusal> {
        let attributes = self.attributes();
        let version = self.write.matched(&webhook.matching, object).map_err(|_| {
            let subject = Subject {
                kind: "namespaces".to_owned(),
                name: attributes.namespace.to_owned(),
                ..Subject::default()
            };
            Refusal::Error(ApiError::NotFound(subject))
        })?;
        let is_bypassed = version.is_some() && webhook.lockout(attributes.brand).is_bypassed(attributes.now);
        if is_bypassed {
            metrics::count_passed(webhook, "bypass");
            note_passed(attributes, webhook, "bypass");
            return Ok(None);
        }
        Ok(version)
    }

    /// Whether the conditions of `webhook` hold, over objects in the version of `names`.
    ///
    /// # Errors
    /// A condition has no value, and failures refuse.
    pub(super) async fn is_met(
        &self,
        webhook: &Webhook,
        names: &Names,
        (object, old): (Option<&Value>, Option<&Value>),
    ) -> Result<bool, Refusal> {
        let attributes = self.attributes();
        let Some(conditions) = webhook.conditions(attributes.brand) else { return Ok(true) };
        let began = self.callers.ambient.now();
        let own = Names::of(&self.write.asked, &Version::Own);
        let request = self.write.asked.document(names, &own);
        let objects = Objects { version: names, object, old, request: &request };
        let param = Param { object: None, kind: None };
        let matched = |input: &Input<'_>| conditions.matched(input, FailurePolicy::Fail);
        let (matched, _) = self.write.evaluate(false, objects, param, matched).await;
        let micros = self.callers.ambient.now().0.saturating_sub(began.0);
        metrics::observe_conditions(webhook, attributes.operation, micros);
        match matched {
            Matched::Yes => Ok(true),
            Matched::No => {
                metrics::count_excluded(webhook, attributes.operation);
                Ok(false)
            }
            Matched::Failed(reason) => {
                metrics::count_condition_error(webhook, attributes.operation);
                match webhook.failure {
                    FailurePolicy::Fail => Err(Refusal::Forbidden(reason)),
                    FailurePolicy::Ignore => Ok(false),
                }
            }
        }
    }

    /// Calls the webhook of `call` with `request`, about `object`.
    ///
    /// # Errors
    /// The write is refused, finally.
    pub(super) async fn call(
        &self,
        call: Call<'_>,
        request: &Request,
        object: Option<&Value>,
    ) -> Result<Allowed, Refusal> {
        let (attributes, webhook) = (self.attributes(), &*call.found.webhook);
        let began = self.callers.ambient.now();
        let outcome = self.outcome(call, request).await;
        let micros = self.callers.ambient.now().0.saturating_sub(began.0);
        let observe = |outcome: Outcome, is_rejected: bool| {
            let ended = Ended { outcome, is_rejected, micros };
            metrics::observe_call(webhook, attributes.operation, &ended);
        };
        let fault = match outcome {
            Ok(allowed) => {
                observe(Outcome::Answered(200), false);
                return Ok(allowed);
            }
            Err(Unallowed::Denied(error)) => {
                let code = match &error {
                    ApiError::DeniedByWebhook(denial) => denial.code,
                    _ => 0,
                };
                observe(Outcome::Answered(code), true);
                return Err(Refusal::Final(error));
            }
            Err(Unallowed::Unsendable(error)) => {
                observe(Outcome::Broken, true);
                return Err(Refusal::Final(error));
            }
            Err(Unallowed::Failed(fault)) => fault,
        };
        let reason = format!("failed calling webhook {}: {fault}", quoted(&webhook.name));
        if webhook.failure == FailurePolicy::Ignore {
            observe(Outcome::Uncalled, false);
            metrics::count_fail_open(webhook);
            self.callers.warn(webhook, "goes on without it", &reason);
            call.note_failed_open(attributes);
            return Ok(Allowed::default());
        }
        if webhook.health.is_dead()
            && let Some(passage) =
                webhook.lockout(attributes.brand).passage(webhook, &self.write.asked, object, self.write.view)
        {
            observe(Outcome::Uncalled, false);
            metrics::count_passed(webhook, passage.name());
            self.callers.warn(webhook, "lets the write pass", &reason);
            note_passed(attributes, webhook, passage.name());
            return Ok(Allowed::default());
        }
        observe(Outcome::Uncalled, true);
        self.callers.warn(webhook, "refuses the write", &reason);
        Err(Refusal::Final(ApiError::WebhookFailed(reason)))
    }

    /// The result of `calls`, whose time counts as the request's wait for webhooks. Calls at the same time are one wait.
    pub(super) async fn waited<T>(&self, calls: impl Future<Output = T>) -> T {
        let began = self.callers.ambient.now();
        let result = calls.await;
        let micros = self.callers.ambient.now().0.saturating_sub(began.0);
        self.attributes().exchange.add_wait(micros);
        result
    }

    async fn outcome(&self, call: Call<'_>, request: &Request) -> Result<Allowed, Unallowed> {
        let (attributes, webhook) = (self.attributes(), &*call.found.webhook);
        let version = sendable(webhook, attributes)?;
        let client = webhook.client().map_err(|reason| {
            Unallowed::Failed(Fault::Uncalled(format!("could not get REST client: {reason}")))
        })?;
        let (uid, brand) = (uuid_text(self.callers.ambient.random()), attributes.brand);
        let document = request.document(version, &uid, brand);
        let timeout = webhook.health.timeout(self.timeout(webhook));
        let bounds = Bounds { timeout, answer_bytes_max: ANSWER_BYTES_MAX, states_timeout: true };
        let body = self.callers.webhooks.post(client, document, bounds).await;
        let read = match body {
            Ok(body) => answer::read(&body, (&webhook.name, webhook.role), (version, &uid), brand),
            Err(error) => Err(Fault::Unanswered(error.to_string())),
        };
        self.note_health(webhook, !matches!(read, Err(Fault::Unanswered(_))));
        let Answer { denial, patch: text, warnings, annotations } = read.map_err(Unallowed::Failed)?;
        call.note_annotations(attributes, annotations);
        // Texts that no header can hold are left out, as in the reference.
        let sendable =
            warnings.into_iter().filter(|text| !text.is_empty() && !text.contains(char::is_control));
        attributes.exchange.warn(sendable);
        if let Some(denial) = denial {
            return Err(Unallowed::Denied(ApiError::DeniedByWebhook(Box::new(denial))));
        }
        let patch = patched::read(&attributes.registry.schema, &text).map_err(Unallowed::Failed)?;
        Ok(Allowed { text, patch })
    }

    /// The time of one call: that of the webhook, or what is left of the request's own.
    fn timeout(&self, webhook: &Webhook) -> Duration {
        let attributes = self.attributes();
        let asked =
            attributes.query.values("timeout").next().and_then(|text| SignedDuration::parse(text).ok());
        let asked = asked.filter(|asked| asked.is_positive());
        asked.map_or(webhook.timeout, |asked| {
            let passed = attributes.exchange.micros_until(self.callers.ambient.now());
            let left = asked.duration().saturating_sub(Duration::from_micros(passed));
            webhook.timeout.min(left)
        })
    }

    fn note_health(&self, webhook: &Webhook, is_answered: bool) {
        if let Some(change) = webhook.health.note(is_answered) {
            metrics::note_health(webhook, change);
        }
    }
}

/// The version of the review for `webhook`.
///
/// # Errors
/// It cannot be sent the write.
fn sendable(webhook: &Webhook, attributes: &Attributes<'_>) -> Result<ReviewVersion, Unallowed> {
    let name = quoted(&webhook.name);
    match (attributes.dry_run, webhook.side_effects) {
        (false, _) | (true, SideEffects::NoneOnDryRun) => {}
        (true, SideEffects::Undeclared) => {
            return Err(Unallowed::Failed(Fault::Uncalled("Webhook SideEffects is nil".to_owned())));
        }
        (true, SideEffects::Some) => {
            let reason = format!("admission webhook {name} does not support dry run");
            return Err(Unallowed::Unsendable(ApiError::BadRequest(reason)));
        }
    }
    webhook.version.ok_or_else(|| {
        let reason = "could not create admission objects: webhook does not accept known AdmissionReview versions \
                      (v1, v1beta1)";
        Unallowed::Failed(Fault::Uncalled(reason.to_owned()))
    })
}

/// Notes in audit events that the write passed beside a webhook.
fn note_passed(attributes: &Attributes<'_>, webhook: &Webhook, why: &str) {
    let key = || format!("{}/passed-{}", attributes.brand.group(super::lockout::GROUP), webhook.name);
    attributes.annotate(key, || format!("{}: {why}", webhook.configuration));
}
