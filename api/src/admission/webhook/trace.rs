//! Annotations of audit events about calls of webhooks.
//!
//! Owns their keys and texts, which are the reference's.

use orch_rules::validate::names::qualified_name;
use orch_schema::json;

use super::answer::Role;
use super::prepared::Found;
use crate::admission::Attributes;

/// Bytes of a patch in an annotation; a longer one is left out, since a part of it is no JSON.
const PATCH_BYTES_MAX: usize = 3 << 10;

/// A call of a webhook, with its round among mutating ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) found: &'a Found,
    /// 0 or 1.
    pub(super) round: usize,
    /// Place among all mutating webhooks, or among the validating ones that the write meets.
    pub(super) at: usize,
}

impl Call<'_> {
    fn key(&self, attributes: &Attributes<'_>, prefix: &str) -> String {
        let group = match self.found.webhook.role {
            Role::Mutating => "mutation.webhook.admission",
            Role::Validating => "validating.webhook.admission",
        };
        let (round, at) = (self.round, self.at);
        attributes.brand.group(&format!("{prefix}{group}")) + &format!("/round_{round}_index_{at}")
    }

    /// Notes that a mutating webhook was asked.
    pub(super) fn note_asked(&self, attributes: &Attributes<'_>, mutated: bool) {
        let webhook = &self.found.webhook;
        let text = || {
            json!({"configuration": &*webhook.configuration, "webhook": &*webhook.name, "mutated": mutated})
                .to_string()
        };
        attributes.annotate(|| self.key(attributes, ""), text);
    }

    /// Notes the JSON text of a patch that was applied, where events hold requests.
    pub(super) fn note_patch(&self, attributes: &Attributes<'_>, patch: &[u8]) {
        if patch.len() > PATCH_BYTES_MAX || !attributes.exchange.audits_requests() {
            return;
        }
        let webhook = &self.found.webhook;
        let text = || {
            let head =
                json!({"configuration": &*webhook.configuration, "webhook": &*webhook.name}).to_string();
            let patch = String::from_utf8_lossy(patch);
            format!("{},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}", &head[..head.len() - 1])
        };
        let group = attributes.brand.group("patch.webhook.admission");
        attributes.annotate(|| format!("{group}/round_{}_index_{}", self.round, self.at), text);
    }

    /// Notes that the write went on without an answer.
    pub(super) fn note_failed_open(&self, attributes: &Attributes<'_>) {
        attributes.annotate(|| self.key(attributes, "failed-open."), || self.found.webhook.name.to_string());
    }

    /// Notes what the webhook says itself. Keys that are none are left out, as in the reference.
    pub(super) fn note_annotations(&self, attributes: &Attributes<'_>, said: Vec<(String, String)>) {
        for (key, text) in said {
            let key = format!("{}/{key}", self.found.webhook.name);
            if qualified_name(&key).is_empty() {
                attributes.annotate(|| key, || text);
            }
        }
    }
}
