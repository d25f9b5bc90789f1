//! The answer of a webhook, read and checked.
//!
//! Owns the faults of an answer, in the reference's words and order. Lists of an answer have bounds: elements beyond them are
//! read and left out.
//!
//! Invariant: an answer with a member of a wrong type, or with a member twice, is a fault. Were such a member passed over, an
//! unreadable `allowed` would count as a refusal or an approval.

use std::fmt;
use std::marker::PhantomData;

use orch_proto::Brand;
use orch_schema::decode_base64;
use orch_schema::excerpt::{part, quoted};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::review::{KIND, ReviewVersion};
use crate::error::{DenialDetails, Subject, WebhookDenial};

/// Warnings, causes, and annotations of one answer: what a response and an audit event have room for.
const LISTED_MAX: usize = 128;

/// The least code of a refusal, and that of one without a code.
const REFUSAL_CODE_MIN: i64 = 400;
/// The greatest code of a refusal that is passed on.
const REFUSAL_CODE_MAX: i64 = 599;

/// The one type of a patch.
const JSON_PATCH: &str = "JSONPatch";

/// The role of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Mutating,
    Validating,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The refusal; `None`: the write is allowed.
    pub(super) denial: Option<WebhookDenial>,
    /// The text of a patch; empty where there is none.
    pub(super) patch: Vec<u8>,
    /// A type of the patch that this server does not know.
    pub(super) unknown_type: Option<String>,
    pub(super) warnings: Vec<String>,
    /// Keys without the webhook's name, and texts.
    pub(super) annotations: Vec<(String, String)>,
}

/// The reason why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The answer is missing, or could not be read.
    Unanswered(String),
    /// An answer came back that breaks the rules.
    Invalid(String),
    /// The patch cannot be read.
    Patch(String),
    /// No call was made.
    Uncalled(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Unanswered(reason) => write!(f, "failed to call webhook: {reason}"),
            Fault::Invalid(reason) => write!(f, "received invalid webhook response: {reason}"),
            Fault::Patch(reason) => write!(f, "received undecodable patch in webhook response: {reason}"),
            Fault::Uncalled(reason) => f.write_str(reason),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Response {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<Outcome>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<Entries>,
    warnings: Option<Few<String>>,
}

/// The Status of an answer.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Outcome {
    message: Option<String>,
    reason: Option<String>,
    details: Option<Details>,
    code: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    name: Option<String>,
    group: Option<String>,
    kind: Option<String>,
    uid: Option<String>,
    causes: Option<Few<Cause>>,
    retry_after_seconds: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

/// The first items of a list. One that is null has no content.
struct Few<T>(Vec<T>);

/// The first entries of a map of texts.
struct Entries(Vec<(String, String)>);

/// The answer in `body` of a webhook called `name` to the review under `uid`.
///
/// # Errors
/// It is none.
pub(super) fn read(
    body: &[u8],
    (name, role): (&str, Role),
    (version, uid): (ReviewVersion, &str),
    brand: &Brand,
) -> Result<Answer, Fault> {
    let review: Review = serde_json::from_slice(body).map_err(|error| {
        let error = error.to_string();
        Fault::Unanswered(format!("the answer is no {KIND}: {}", part(&error)))
    })?;
    let wanted = version.api_version(brand);
    let (kind, api_version) = (review.kind.unwrap_or_default(), review.api_version.unwrap_or_default());
    let is_other = |found: &str, own: &str| !found.is_empty() && found != own;
    if is_other(&kind, KIND) || is_other(&api_version, &wanted) {
        let found = printed(&api_version, &kind);
        return Err(Fault::Unanswered(format!("no kind {found} was asked for: {}", printed(&wanted, KIND))));
    }
    let response = review.response.ok_or_else(|| invalid("webhook response was absent"))?;
    let patch = match version {
        ReviewVersion::V1 => {
            response.check_uid(uid)?;
            if kind.is_empty() || api_version.is_empty() {
                let (wanted, found) = (printed(&wanted, KIND), printed(&api_version, &kind));
                return Err(invalid(&format!("expected webhook response of {wanted}, got {found}")));
            }
            response.check_patch(role)?;
            response.patch()?
        }
        // Uid, kind and type of the patch were never checked in this version, and validating webhooks may send patches.
        ReviewVersion::V1Beta1 if role == Role::Mutating => response.patch()?,
        ReviewVersion::V1Beta1 => Vec::new(),
    };
    let Response { allowed, status, audit_annotations, warnings, patch_type, .. } = response;
    let is_v1 = version == ReviewVersion::V1;
    Ok(Answer {
        denial: (allowed != Some(true)).then(|| status.unwrap_or_default().denial(name)),
        patch,
        unknown_type: patch_type.filter(|of| is_v1 && of != JSON_PATCH),
        warnings: warnings.map(|few| few.0).unwrap_or_default(),
        annotations: audit_annotations.map(|few| few.0).unwrap_or_default(),
    })
}

/// A kind as the reference prints it.
fn printed(api_version: &str, kind: &str) -> String {
    let shown = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!("{}, Kind={}", part(&shown), part(kind))
}

fn invalid(reason: &str) -> Fault {
    Fault::Invalid(reason.to_owned())
}

impl Answer {
    /// The fault of its patch, which has operations.
    pub(super) fn unsupported(&self) -> Option<Fault> {
        let of = self.unknown_type.as_ref()?;
        Some(Fault::Uncalled(format!("unsupported patch type {}", quoted(&part(of)))))
    }
}

impl Response {
    fn check_uid(&self, uid: &str) -> Result<(), Fault> {
        let found = self.uid.as_deref().unwrap_or_default();
        match found == uid {
            true => Ok(()),
            false => {
                Err(invalid(&format!("expected response.uid={}, got {}", quoted(uid), quoted(&part(found)))))
            }
        }
    }

    fn check_patch(&self, role: Role) -> Result<(), Fault> {
        let has_patch = self.patch.as_ref().is_some_and(|patch| !patch.is_empty());
        match (role, has_patch, self.patch_type.as_deref()) {
            (Role::Mutating, true, None) => {
                Err(invalid("webhook returned response.patch but not response.patchType"))
            }
            (Role::Mutating, false, Some(_)) => {
                Err(invalid("webhook returned response.patchType but not response.patch"))
            }
            (Role::Mutating, true, Some("")) => {
                Err(invalid("webhook returned invalid response.patchType of \"\""))
            }
            (Role::Validating, true, _) => Err(invalid("validating webhook may not return response.patch")),
            (Role::Validating, false, Some(_)) => {
                Err(invalid("validating webhook may not return response.patchType"))
            }
            _ => Ok(()),
        }
    }

    /// The text of the patch; empty where there is none.
    fn patch(&self) -> Result<Vec<u8>, Fault> {
        let text = self.patch.as_deref().unwrap_or_default();
        let decoded = decode_base64(text);
        decoded
            .ok_or_else(|| Fault::Unanswered(format!("the answer is no {KIND}: response.patch: no base64")))
    }
}

impl Outcome {
    /// The refusal by the webhook `name` with this Status.
    fn denial(self, name: &str) -> WebhookDenial {
        let Outcome { message, reason, details, code } = self;
        let reason = reason.unwrap_or_default();
        let by = format!("admission webhook {} denied the request", quoted(name));
        let message = match (message.filter(|message| !message.is_empty()), &*reason) {
            (Some(message), _) => format!("{by}: {message}"),
            (None, "") => format!("{by} without explanation"),
            (None, reason) => format!("{by}: {reason}"),
        };
        // A missing code, and one of a success, count as that of a bad request.
        let code = code.filter(|code| (REFUSAL_CODE_MIN..=REFUSAL_CODE_MAX).contains(code));
        let code = u16::try_from(code.unwrap_or(REFUSAL_CODE_MIN)).unwrap_or(400);
        WebhookDenial { code, message, reason, details: details.map(Details::of_denial) }
    }
}

impl Details {
    fn of_denial(self) -> DenialDetails {
        let Details { name, group, kind, uid, causes, retry_after_seconds } = self;
        let subject = Subject {
            group: group.unwrap_or_default(),
            kind: kind.unwrap_or_default(),
            name: name.unwrap_or_default(),
        };
        let cause = |cause: Cause| {
            let Cause { reason, message, field } = cause;
            (reason.unwrap_or_default(), message.unwrap_or_default(), field.unwrap_or_default())
        };
        DenialDetails {
            subject,
            uid: uid.unwrap_or_default(),
            causes: causes.map(|few| few.0).unwrap_or_default().into_iter().map(cause).collect(),
            retry_after_seconds: u32::try_from(retry_after_seconds.unwrap_or(0)).unwrap_or(0),
        }
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Few<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for First<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Few<T>, A::Error> {
                let mut few = Vec::new();
                while few.len() < LISTED_MAX {
                    let Some(item) = items.next_element::<Option<T>>()? else { return Ok(Few(few)) };
                    few.push(item.unwrap_or_default());
                }
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Few(few))
            }
        }
        deserializer.deserialize_seq(First(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First;
        impl<'de> Visitor<'de> for First {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Entries, A::Error> {
                let mut few: Vec<(String, Option<String>)> = Vec::new();
                while few.len() < LISTED_MAX {
                    let Some(entry) = entries.next_entry()? else { break };
                    few.push(entry);
                }
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Entries(few.into_iter().map(|(key, text)| (key, text.unwrap_or_default())).collect()))
            }
        }
        deserializer.deserialize_map(First)
    }
}
