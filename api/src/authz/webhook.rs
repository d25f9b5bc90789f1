//! Authorization by a webhook: another server rules on a SubjectAccessReview.
//!
//! Owns the question, its conditions, the caches of answers, and what follows when there is none. Invariant: an answer
//! is used for no longer than its time, and only for the very same question.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orch_bounded::{ExpiringMap, WarningLimit};
use orch_rules::selector::{FieldSelector, LabelSelector, Operator};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::conditions::Conditions;
use super::review::UserRules;
use super::{
    Attributes, Authorizer, Deciding, Decision, Listing, OnFailure, Reason, ResourceAttributes, decided,
    listed,
};
use crate::ambient::{Ambient, Timestamp};
use crate::authn::User;
use crate::egress::{Askers, ReviewHook};
use crate::follow::Applied;

/// Answers that are remembered, as in the reference.
const ANSWERS_MAX: usize = 8 << 10;
/// Bytes of their reasons together: none has more than [`REASON_BYTES_MAX`].
const ANSWERS_BYTES_MAX: usize = ANSWERS_MAX * REASON_BYTES_MAX;
/// Bytes of attributes whose answer is remembered, as in the reference: a client that chooses longer ones gains nothing
/// by them.
const REMEMBERED_BYTES_MAX: usize = 10_000;
/// Bytes of a webhook's reason that are kept.
const REASON_BYTES_MAX: usize = 1024;

/// Asks a webhook whether a user may.
pub struct Webhook {
    settings: Settings,
    hook: ReviewHook,
    ambient: Arc<dyn Ambient>,
    answers: ExpiringMap<[u8; 32], Answer, Timestamp>,
    /// Names of the users that questions are about: one user must not take all places of the target.
    askers: Askers<String>,
    /// Limits the log: any request asks.
    warnings: WarningLimit,
}

/// Settings of a webhook.
#[derive(Debug)]
pub struct Settings {
    /// Name in the configuration, for the log.
    pub name: String,
    /// How long a permission counts.
    pub authorized_span: Duration,
    /// How long any other answer counts.
    pub unauthorized_span: Duration,
    /// Version of the documents.
    pub version: ReviewVersion,
    /// The decision on a request for which the webhook gives no answer.
    pub on_failure: OnFailure,
    /// When the webhook is asked.
    pub conditions: Conditions,
}

/// Versions of the review that differ in the spelling of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `groups`.
    V1,
    /// `group`.
    V1Beta1,
}

impl ReviewVersion {
    /// The version called `name`.
    pub fn named(name: &str) -> Option<ReviewVersion> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// The status of a review.
#[derive(Deserialize)]
struct Status {
    allowed: Option<bool>,
    denied: Option<bool>,
    reason: Option<String>,
}

/// A webhook's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    is_allowed: bool,
    is_denied: bool,
    reason: Arc<String>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("name", &self.settings.name)
            .field("hook", &self.hook)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// Asks `hook` as `settings` say.
    pub fn new(settings: Settings, hook: ReviewHook, ambient: Arc<dyn Ambient>) -> Self {
        Webhook {
            settings,
            hook,
            ambient,
            answers: ExpiringMap::new(ANSWERS_MAX, ANSWERS_BYTES_MAX),
            askers: Askers::default(),
            warnings: WarningLimit::new(),
        }
    }

    /// The decision on the question `spec` about `user`.
    async fn ask(&self, user: &User, spec: Map<String, Value>, is_remembered: bool) -> Decision {
        let now = self.ambient.now();
        let id = id_of(&spec);
        if is_remembered && let Some(answer) = self.answers.get(&id, now) {
            return answer.into_decision();
        }
        let Some(_question) = self.askers.begin(user.name.clone()) else {
            return self.unanswered("too many questions about one user are under way");
        };
        match self.hook.ask::<Status>(Value::Object(self.spelled(spec))).await {
            Ok(status) => {
                let answer = Answer::from(status);
                if is_remembered {
                    self.remember(id, &answer, now);
                }
                answer.into_decision()
            }
            Err(error) => self.unanswered(&error.to_string()),
        }
    }

    fn unanswered(&self, error: &str) -> Decision {
        if let Some(left_out) = self.warnings.pass() {
            let webhook = self.settings.name.as_str();
            tracing::warn!(webhook, error, left_out, "the authorization webhook gives no answer");
        }
        self.failed("the authorization webhook gives no answer")
    }

    fn remember(&self, id: [u8; 32], answer: &Answer, now: Timestamp) {
        let Settings { authorized_span, unauthorized_span, .. } = &self.settings;
        let span = if answer.is_allowed { authorized_span } else { unauthorized_span };
        if !span.is_zero() {
            self.answers.put(id, answer.clone(), answer.reason.len(), now, *span);
        }
    }

    fn failed(&self, error: &str) -> Decision {
        Decision::Failed { then: self.settings.on_failure, reason: String::new(), error: error.to_owned() }
    }

    /// The spec as the version of the documents spells it.
    fn spelled(&self, mut spec: Map<String, Value>) -> Map<String, Value> {
        if self.settings.version == ReviewVersion::V1Beta1
            && let Some(groups) = spec.remove("groups")
        {
            spec.insert("group".to_owned(), groups);
        }
        spec
    }
}

impl From<Status> for Answer {
    fn from(Status { allowed, denied, reason }: Status) -> Answer {
        let is = |member: Option<bool>| member == Some(true);
        let reason = reason.unwrap_or_default();
        let reason = orch_schema::excerpt::fitting(&reason, REASON_BYTES_MAX).to_owned();
        Answer { is_allowed: is(allowed), is_denied: is(denied), reason: Arc::new(reason) }
    }
}

impl Answer {
    fn into_decision(self) -> Decision {
        let reason = || self.reason.to_string();
        match (self.is_denied, self.is_allowed) {
            (true, true) => Decision::Failed {
                then: OnFailure::Deny,
                reason: reason(),
                error: "webhook subject access review returned both allow and deny response".to_owned(),
            },
            (true, false) => Decision::Deny(reason()),
            (false, true) if self.reason.is_empty() => Decision::Allow(Reason::default()),
            (false, true) => Decision::Allow(Reason::shared(&self.reason)),
            (false, false) => Decision::NoOpinion(reason()),
        }
    }
}

impl Authorizer for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn decide<'a>(&'a self, user: &'a User, attributes: Attributes<'a>, _: &'a Applied) -> Deciding<'a> {
        let spec = spec(user, attributes);
        match self.settings.conditions.hold(&spec) {
            Ok(true) => Deciding::Right(Box::pin(self.ask(user, spec, is_remembered(attributes)))),
            Ok(false) => decided(Decision::NoOpinion(String::new())),
            Err(error) => {
                tracing::debug!(webhook = self.settings.name, %error, "a match condition has no value");
                decided(self.failed(&error.to_string()))
            }
        }
    }

    fn rules_of<'a>(&'a self, _: &'a User, _: &'a str, _: &'a Applied) -> Listing<'a> {
        let faults = vec!["webhook authorizer does not support user rule resolution".to_owned()];
        listed(UserRules { is_incomplete: true, faults, ..UserRules::default() })
    }
}

fn id_of(spec: &Map<String, Value>) -> [u8; 32] {
    let mut id = [0; 32];
    let text = serde_json::to_vec(spec).unwrap_or_default();
    id.copy_from_slice(digest(&SHA256, &text).as_ref());
    id
}

/// Whether the answer to these attributes is remembered.
fn is_remembered(attributes: Attributes<'_>) -> bool {
    let bytes = match attributes {
        Attributes::Path { verb, path } => verb.len() + path.len(),
        Attributes::Resource(asked) => {
            let ResourceAttributes { verb, group, version, resource, subresource, namespace, name, .. } =
                asked;
            [verb, group, version, resource, subresource, namespace, name].iter().map(|text| text.len()).sum()
        }
    };
    bytes < REMEMBERED_BYTES_MAX
}

/// The spec of the review, without empty members.
fn spec(user: &User, attributes: Attributes<'_>) -> Map<String, Value> {
    let mut spec = Map::new();
    match attributes {
        Attributes::Path { verb, path } => {
            spec.insert("nonResourceAttributes".to_owned(), texts([("path", path), ("verb", verb)]).into());
        }
        Attributes::Resource(asked) => {
            spec.insert("resourceAttributes".to_owned(), resource(asked).into());
        }
    }
    spec.extend(texts([("user", user.name.as_str())]));
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
    spec.extend(texts([("uid", user.uid.as_str())]));
    spec
}

fn resource(asked: ResourceAttributes<'_>) -> Map<String, Value> {
    let mut attributes = texts([
        ("namespace", asked.namespace),
        ("verb", asked.verb),
        ("group", asked.group),
        ("version", asked.version),
        ("resource", asked.resource),
        ("subresource", asked.subresource),
        ("name", asked.name),
    ]);
    for (name, requirements) in [
        ("fieldSelector", field_requirements(asked.field_selector)),
        ("labelSelector", label_requirements(asked.label_selector)),
    ] {
        if !requirements.is_empty() {
            attributes.insert(name.to_owned(), json!({"requirements": requirements}));
        }
    }
    attributes
}

/// Requirements of a field selector; none where it cannot be parsed, as for the request itself, which is refused later.
fn field_requirements(text: &str) -> Vec<Value> {
    let terms = FieldSelector::terms_of(text).unwrap_or_default();
    let requirement = |term: orch_rules::selector::FieldTerm| {
        let operator = if term.is_equal { "In" } else { "NotIn" };
        json!({"key": term.field, "operator": operator, "values": [term.value]})
    };
    terms.into_iter().map(requirement).collect()
}

/// Requirements of a label selector. Comparisons of numbers have no form in a review and are left out.
fn label_requirements(text: &str) -> Vec<Value> {
    let requirements = LabelSelector::requirements_of(text).unwrap_or_default();
    let shown = requirements.into_iter().filter_map(|requirement| {
        let key = &*requirement.key;
        let values = |values: &[Box<str>]| values.iter().map(|value| json!(&**value)).collect::<Vec<_>>();
        Some(match &requirement.operator {
            Operator::In(of) => json!({"key": key, "operator": "In", "values": values(of)}),
            Operator::NotIn(of) => json!({"key": key, "operator": "NotIn", "values": values(of)}),
            Operator::Exists => json!({"key": key, "operator": "Exists"}),
            Operator::DoesNotExist => json!({"key": key, "operator": "DoesNotExist"}),
            Operator::GreaterThan(_) | Operator::LessThan(_) => return None,
        })
    });
    shown.collect()
}

fn texts<const N: usize>(members: [(&str, &str); N]) -> Map<String, Value> {
    let given = members.into_iter().filter(|(_, text)| !text.is_empty());
    given.map(|(name, text)| (name.to_owned(), json!(text))).collect()
}

#[cfg(test)]
mod tests;
