//! Marks generated tokens that nothing has used for a year, and deletes their secrets after a further year.
//!
//! Owns the two steps: a secret gets a label with the day since which its token is refused, and a year later it is deleted. Only
//! secrets that their account lists are taken, as older clusters made them; secrets made by hand stay, and so do those
//! that a pod mounts. Nothing is removed before uses have been tracked for a year.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{ACCOUNTS, Owner, SECRETS, keeps_token};
use crate::authn::service_account::{DAY_S, INVALID_SINCE, LAST_USED, day_of, day_text};
use crate::authz::node::{PodDocument, ReferenceKind};
use crate::controllers::FAILED;
use crate::controllers::client::{Client, Place, Propagation, is_overtaken, let_others_run};
use crate::controllers::token_tracking::{SINCE, config_map_name};
use crate::error::ApiError;

/// Wait between two passes, as in the reference.
const PASS_WAIT: Duration = Duration::from_secs(DAY_S);

/// Days without a use after which a token is refused, and after as many more deleted: the reference's default.
const UNUSED_DAYS: i64 = 365;

/// Objects that are looked at before other tasks run.
const OBJECTS_PER_TURN: usize = 256;

/// The next step for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its token is refused from today on.
    Mark,
    /// It is deleted.
    Delete,
}

/// Removes tokens, once a day. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    loop {
        pass(client).await?;
        client.store().sleep(PASS_WAIT).await;
    }
}

async fn pass<S: Store>(client: &Client<S>) -> Result<(), ApiError> {
    let (state, brand) = (client.most_recent().await?, client.registry().brand);
    // date: the labels say days.
    let today = i64::try_from(client.now_ms() / 1000 / DAY_S).unwrap_or(i64::MAX);
    let Some(resource) = client.stored_resource(SECRETS) else { return Ok(()) };
    // As in the reference: tracking began at the end of its first day, at the latest.
    let tracked_since = tracked_since(&state, brand.system_namespace, &config_map_name(brand));
    if tracked_since.is_none_or(|day| today < day.saturating_add(1 + UNUSED_DAYS)) {
        return Ok(());
    }
    let mut mounted = Mounted::default();
    for (at, (path, secret)) in state.collection(SECRETS).range_from("").enumerate() {
        if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
            let_others_run(client.store()).await;
        }
        if !keeps_token(brand, secret) || secret.index.terminating {
            continue;
        }
        let object: Value = serde_json::from_slice(&secret.json).unwrap_or_default();
        let is_generated = Owner::of(brand, path, &object).is_some_and(|owner| lists(&state, &owner, path));
        let labels = object.at("metadata").at("labels");
        let [used, marked] = [LAST_USED, INVALID_SINCE].map(|name| labels.text(&brand.label(name)));
        let Some(step) = step(made_on(&object), used, marked, today).filter(|_| is_generated) else {
            continue;
        };
        if mounted.has(client, &state, path).await {
            continue;
        }
        let place = Place { resource: &resource, path };
        let taken = match step {
            Step::Mark => mark(client, place, secret, today).await,
            Step::Delete => {
                let revision = Some(secret.revision);
                client.delete(place, &secret.index.uid, revision, Propagation::Background).await
            }
        };
        match taken {
            Ok(()) => {
                tracing::info!(%path, ?step, "a generated token of a service account that nothing uses")
            }
            Err(error) if is_overtaken(&error) => {}
            Err(error) => {
                if let Some(left_out) = FAILED.pass_at(client.moment()) {
                    tracing::warn!(%error, %path, left_out, "an unused token of a service account cannot be removed");
                }
            }
        }
    }
    Ok(())
}

/// The step for a token that was made on the day `made`, last used and marked on the days that the labels say.
fn step(made: Option<i64>, used: &str, marked: &str, today: i64) -> Option<Step> {
    let oldest = today.saturating_sub(UNUSED_DAYS);
    let is_old = made.is_some_and(|day| day < oldest);
    // A label that is no day tells nothing: the token stays.
    let is_unused = used.is_empty() || day_of(used).is_some_and(|day| day < oldest);
    if !is_old || !is_unused {
        return None;
    }
    match day_of(marked) {
        None => Some(Step::Mark),
        Some(day) if day < oldest => Some(Step::Delete),
        Some(_) => None,
    }
}

async fn mark<S: Store>(
    client: &Client<S>,
    place: Place<'_>,
    secret: &SharedObject,
    today: i64,
) -> Result<(), ApiError> {
    let Some(day) = day_text(today) else { return Ok(()) };
    let label = client.registry().brand.label(INVALID_SINCE);
    let patch = json!({"metadata": {
        "uid": secret.index.uid,
        "resourceVersion": secret.revision.to_string(),
        "labels": {(label.as_str()): day},
    }});
    client.patch(place, Action::Object, &patch).await
}

/// The day since which uses are tracked; `None`: nothing tells.
fn tracked_since(state: &State, namespace: &str, name: &str) -> Option<i64> {
    let collection = state.collection("configmaps");
    let stored = collection.get(&format!("{namespace}/{name}"))?;
    let object: Value = serde_json::from_slice(&stored.json).ok()?;
    day_of(object.at("data").text(SINCE))
}

/// The day on which `object` was made.
fn made_on(object: &Value) -> Option<i64> {
    let made = OffsetDateTime::parse(object.at("metadata").text("creationTimestamp"), &Rfc3339).ok()?;
    i64::try_from(DAY_S).ok().map(|day| made.unix_timestamp().div_euclid(day))
}

/// Whether the account `owner` lists the secret at `path`.
fn lists(state: &State, owner: &Owner, path: &str) -> bool {
    let collection = state.collection(ACCOUNTS);
    let Some(account) = collection.get(&owner.path).filter(|account| owner.is(account)) else { return false };
    let account: Value = serde_json::from_slice(&account.json).unwrap_or_default();
    let name = ObjectPath::of(path).name();
    // once: for each secret that may be removed.
    account.items("secrets").iter().any(|listed| listed.text("name") == name)
}

/// The secrets that pods refer to, by namespace, as far as they were asked for.
#[derive(Debug, Default)]
struct Mounted(BTreeMap<Arc<str>, BTreeSet<String>>);

impl Mounted {
    /// Whether a pod refers to the secret at `path`.
    async fn has<S: Store>(&mut self, client: &Client<S>, state: &State, path: &str) -> bool {
        let (namespace, name) = ObjectPath::of(path).parts();
        if !self.0.contains_key(namespace) {
            let mut names = BTreeSet::new();
            for (at, (_, pod)) in state.collection("pods").within(namespace, "").enumerate() {
                if at % OBJECTS_PER_TURN == OBJECTS_PER_TURN - 1 {
                    let_others_run(client.store()).await;
                }
                if let Some(pod) = PodDocument::parse(&pod.json) {
                    pod.visit_references(&mut |kind, name| {
                        if matches!(kind, ReferenceKind::Secret) {
                            names.insert(name.to_owned());
                        }
                    });
                }
            }
            self.0.insert(namespace.into(), names);
        }
        self.0.get(namespace).is_some_and(|names| names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_marked_after_a_year_without_use_and_deleted_after_another() {
        let today = day_of("2026-01-02").unwrap();
        let made = day_of("2023-05-01");
        for (made, used, marked, expected) in [
            (made, "", "", Some(Step::Mark)),
            (made, "2025-01-01", "", Some(Step::Mark)),
            (made, "2025-01-02", "", None),
            (made, "yesterday", "", None),
            (made, "", "soon", Some(Step::Mark)),
            (made, "", "2025-01-02", None),
            (made, "", "2025-01-01", Some(Step::Delete)),
            (made, "2026-01-01", "2025-01-01", None),
            (day_of("2025-01-02"), "", "", None),
            (None, "", "", None),
        ] {
            assert_eq!(step(made, used, marked, today), expected, "{made:?} {used} {marked}");
        }
    }
}
