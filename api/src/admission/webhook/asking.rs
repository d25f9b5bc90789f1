//! A write on its way through the webhooks of one role.
//!
//! Owns whether a webhook is about the write, one call of it, and what follows from the call's end: a refusal, a failure
//! that refuses, or one that is passed over. A webhook is called once; nothing is called again.
//!
//! Invariant: where the request's own time ends before that of a call, the write is refused, whatever the failure policy, and the
//! call tells nothing of the webhook: a client chooses its own time.
//!
//!     rules, selectors -> conditions -> one call -> answer: allowed | refused
//!                                                -> no answer: failure policy -> refused | goes on
//!                                                -> the request's time is over -> refused

use orch_rules::expression::policy::{ConditionVerdict, FailurePolicy, Input, Matched};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;
use orch_spans::{ActiveSpan, TraceContext};

use super::answer::{self, Answer, Fault};
use super::health::Allotted;
use super::metrics::{self, Ended, Outcome};
use super::prepared::{SideEffects, Webhook};
use super::review::{Request, ReviewVersion};
use super::trace::Call;
use super::{Callers, patched};
use crate::admission::matching::{Names, Objects, Param, Version, Write};
use crate::admission::{Attributes, Refusal, View};
use crate::ambient::uuid_text;
use crate::error::{ApiError, Subject};
use crate::exchange::Step;
use crate::patch::JsonPatch;
use crate::webhook::{ANSWER_BYTES_MAX, Bounds, CallError};

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
    Failed {
        /// The reason.
        fault: Fault,
        /// The code that metrics give the call.
        code: u16,
    },
    /// The write may not be sent to the webhook, whatever the failure policy is.
    Unsendable(ApiError),
    /// The request's own time is over.
    Late,
}

/// Codes of failed calls in metrics, as the reference gives them, which has the webhook's own where that answers with one: without an
/// answer, or with one that breaks the rules; of a configuration that cannot be used; of a write that cannot be sent, or changed so.
const UNANSWERED: u16 = 503;
const UNUSABLE: u16 = 500;
const UNSENDABLE: u16 = 400;

impl Unallowed {
    fn unanswered(fault: Fault) -> Unallowed {
        Unallowed::Failed { fault, code: UNANSWERED }
    }

    fn uncalled(reason: String, code: u16) -> Unallowed {
        Unallowed::Failed { fault: Fault::Uncalled(reason), code }
    }
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
        let request = self.write.asked.requests(names);
        let objects = Objects { version: names, object, old, request: &request };
        let param = Param { object: None, kind: None };
        let run = |input: &Input<'_>| conditions.matched(input, webhook.failure);
        let (verdict, _) = self.write.evaluate(false, objects, param, run).await;
        let micros = self.callers.ambient.now().0.saturating_sub(began.0);
        let ConditionVerdict { matched, errors } = verdict;
        if matched != Matched::Yes {
            metrics::observe_unmet(webhook, attributes.operation, errors, micros);
        }
        match matched {
            Matched::Yes => Ok(true),
            Matched::No => {
                metrics::count_excluded(webhook, attributes.operation);
                Ok(false)
            }
            Matched::Failed(reason) => Err(Refusal::Forbidden(reason)),
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
        let span = attributes.exchange.begin_call();
        let is_changeable = object.is_some();
        let outcome =
            self.outcome(call, (request, is_changeable), span.as_ref().map(ActiveSpan::context)).await;
        let now = self.callers.ambient.now();
        attributes.exchange.note_span(Step::Webhook, span, Some(&webhook.name), (began, now));
        let micros = now.0.saturating_sub(began.0);
        let observe = |outcome: Outcome, is_rejected: bool| {
            let ended = Ended { outcome, is_rejected, micros };
            metrics::observe_call(webhook, attributes.operation, &ended);
        };
        let (fault, code) = match outcome {
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
            Err(Unallowed::Late) => {
                observe(Outcome::Uncalled(UNANSWERED), true);
                return Err(Refusal::Final(ApiError::DeadlineExceeded));
            }
            Err(Unallowed::Failed { fault, code }) => (fault, code),
        };
        let reason = format!("failed calling webhook {}: {fault}", quoted(&webhook.name));
        if webhook.failure == FailurePolicy::Ignore {
            observe(Outcome::Uncalled(code), false);
            metrics::count_fail_open(webhook);
            self.callers.warn(webhook, "goes on without it", &reason);
            call.note_failed_open(attributes);
            return Ok(Allowed::default());
        }
        if webhook.health.is_dead()
            && let Some(passage) =
                webhook.lockout(attributes.brand).passage(webhook, &self.write.asked, object, self.write.view)
        {
            observe(Outcome::Uncalled(code), false);
            metrics::count_passed(webhook, passage.name());
            self.callers.warn(webhook, "lets the write pass", &reason);
            note_passed(attributes, webhook, passage.name());
            return Ok(Allowed::default());
        }
        observe(Outcome::Uncalled(code), true);
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

    async fn outcome(
        &self,
        call: Call<'_>,
        (request, is_changeable): (&Request, bool),
        trace: Option<TraceContext>,
    ) -> Result<Allowed, Unallowed> {
        let (attributes, webhook) = (self.attributes(), &*call.found.webhook);
        let version = sendable(webhook, attributes)?;
        let client = webhook.client().map_err(|reason| {
            Unallowed::uncalled(format!("could not get REST client: {reason}"), UNUSABLE)
        })?;
        let (uid, brand) = (uuid_text(self.callers.ambient.random()), attributes.brand);
        let document = request.document(version, &uid, brand);
        let now = self.callers.webhooks.elapsed();
        let allotted = webhook.health.allot(webhook.timeout, attributes.exchange.time_left(now), now);
        if allotted.timeout.is_zero() {
            return Err(Unallowed::Late);
        }
        let (timeout, answer_bytes_max) = (allotted.timeout, ANSWER_BYTES_MAX);
        let bounds = Bounds { timeout, answer_bytes_max, states_timeout: true, trace };
        let body = self.callers.webhooks.post(client, document, bounds).await;
        let read = match body {
            Ok(body) => answer::read(&body, (&webhook.name, webhook.role), (version, &uid), brand),
            Err(error) => return Err(self.unanswered(webhook, allotted, &error)),
        };
        self.note_health(webhook, allotted, unanswered_by(&read));
        let mut answer = read.map_err(Unallowed::unanswered)?;
        let (warnings, annotations) =
            (std::mem::take(&mut answer.warnings), std::mem::take(&mut answer.annotations));
        call.note_annotations(attributes, annotations);
        // Texts that no header can hold are left out, as in the reference.
        let sendable =
            warnings.into_iter().filter(|text| !text.is_empty() && !text.contains(char::is_control));
        attributes.exchange.warn(sendable);
        if let Some(denial) = answer.denial.take() {
            return Err(Unallowed::Denied(ApiError::DeniedByWebhook(Box::new(denial))));
        }
        let patch =
            patched::read(&attributes.registry.schema, &answer.patch).map_err(Unallowed::unanswered)?;
        // Where there is no object to change, that is told, whatever the type.
        match answer.unsupported().filter(|_| patch.is_some() && is_changeable) {
            Some(fault) => Err(Unallowed::Failed { fault, code: UNSENDABLE }),
            None => Ok(Allowed { text: answer.patch, patch }),
        }
    }

    /// The outcome of a call with the time `allotted` that had no answer.
    fn unanswered(&self, webhook: &Webhook, allotted: Allotted, error: &CallError) -> Unallowed {
        let is_untried = matches!(error, CallError::Untried { .. } | CallError::Unusable(_));
        let left = self.attributes().exchange.time_left(self.callers.webhooks.elapsed());
        let is_cut_off = !allotted.is_whole && matches!(error, CallError::Late { .. });
        if is_cut_off || left.is_some_and(|left| left.is_zero()) {
            return Unallowed::Late;
        }
        let reason = error.to_string();
        if !is_untried {
            self.note_health(webhook, allotted, Some(&reason));
        }
        let code = if let CallError::Status(code) = error { *code } else { UNANSWERED };
        Unallowed::Failed { fault: Fault::Unanswered(reason), code }
    }

    /// Notes the end of a call; `failure`: why it has no answer. One that had less time than the webhook is to have tells of it only
    /// by an answer.
    fn note_health(&self, webhook: &Webhook, allotted: Allotted, failure: Option<&str>) {
        if failure.is_some() && !allotted.is_whole {
            return;
        }
        let (outages, elapsed) = (self.callers.webhooks.outages(), self.callers.webhooks.elapsed());
        let change = match failure {
            Some(reason) => webhook.health.note_failure(reason, elapsed, |calls| {
                let now = self.callers.ambient.now();
                outages.begin(webhook.outage(now, calls, reason))
            }),
            None => webhook.health.note_answer(outages),
        };
        if let Some(change) = change {
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
            return Err(Unallowed::uncalled("Webhook SideEffects is nil".to_owned(), UNSENDABLE));
        }
        (true, SideEffects::Some) => {
            let reason = format!("admission webhook {name} does not support dry run");
            return Err(Unallowed::Unsendable(ApiError::BadRequest(reason)));
        }
    }
    webhook.version.ok_or_else(|| {
        let reason = "could not create admission objects: webhook does not accept known AdmissionReview versions \
                      (v1, v1beta1)";
        Unallowed::uncalled(reason.to_owned(), UNSENDABLE)
    })
}

/// Notes in audit events that the write passed beside a webhook.
fn note_passed(attributes: &Attributes<'_>, webhook: &Webhook, why: &str) {
    let key = || format!("{}/passed-{}", attributes.brand.group(super::lockout::GROUP), webhook.name);
    attributes.annotate(key, || format!("{}: {why}", webhook.configuration));
}

/// The reason why `read` is no answer.
fn unanswered_by(read: &Result<Answer, Fault>) -> Option<&str> {
    match read {
        Err(Fault::Unanswered(reason)) => Some(reason),
        _ => None,
    }
}
