//! Events about admission webhooks that do not answer this member, at their configurations, on every member.
//!
//! Owns what is written and how often: one event for each webhook, member and state, whose count goes up when that comes again
//! and every ten minutes while it lasts, so that it neither expires nor multiplies. The kinds of the configurations have no
//! status, so that an event is the mark that `describe` shows there.
//!
//! Invariant: nothing is written about calls, only about outages, so that a webhook which is about events causes no
//! events without end.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use orch_bounded::WarningLimit;
use orch_raft::{Key, Store};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::{part, quoted};
use orch_schema::json;
use orch_schema::value::Value;
use sha2::{Digest, Sha256};

use super::client::{Client, Moment, Place, is_overtaken};
use crate::error::ApiError;
use crate::webhook::{News, Outage};

const EVENTS: &str = "events";

/// The namespace of events about objects without one.
const NAMESPACE: &str = "default";

/// Least time between two rounds: a webhook that dies and comes back again and again costs twelve writes a minute.
const PACE: Duration = Duration::from_secs(10);

/// Period in which an outage that lasts is written again: events are kept for an hour, unless a flag says otherwise.
const REPEAT: Duration = Duration::from_secs(600);

/// Bytes of the name of a configuration in that of an event, so that the name stays valid.
const STEM_BYTES_MAX: usize = 200;

/// Limits the warnings about events that cannot be written.
static UNWRITTEN: WarningLimit<Moment> = WarningLimit::new();

/// The state of a webhook that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dead,
    Answers,
}

/// Writes the events of the member called `member`. Completes with no error: an event that cannot be written is left out.
pub(super) async fn run<S: Store>(client: &Client<S>, member: &str) -> Result<Infallible, ApiError> {
    let outages = client.webhooks().outages();
    loop {
        let repeating = async {
            match outages.all().is_empty() {
                true => std::future::pending().await,
                false => client.store().sleep(REPEAT).await,
            }
        };
        let is_news = matches!(select(pin!(outages.changed()), pin!(repeating)).await, Either::Left(_));
        match is_news {
            true => {
                for news in outages.take_news() {
                    match news {
                        News::Began(outage) => {
                            if let Some(outage) = outage.upgrade() {
                                note(client, member, &outage, State::Dead).await;
                            }
                        }
                        News::Ended(outage) => note(client, member, &outage, State::Answers).await,
                    }
                }
            }
            false => {
                for outage in outages.all() {
                    note(client, member, &outage, State::Dead).await;
                }
            }
        }
        client.store().sleep(PACE).await;
    }
}

/// Writes the event of `state`, once.
async fn note<S: Store>(client: &Client<S>, member: &str, outage: &Outage, state: State) {
    match write(client, member, outage, state).await {
        Err(error) if !is_overtaken(&error) => {
            let configuration = &*outage.configuration;
            if let Some(left_out) = UNWRITTEN.pass_at(client.moment()) {
                tracing::warn!(%error, configuration, left_out, "the event about a webhook cannot be written");
            }
        }
        _ => {}
    }
}

async fn write<S: Store>(
    client: &Client<S>,
    member: &str,
    outage: &Outage,
    state: State,
) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(EVENTS) else { return Ok(()) };
    let applied = client.applied();
    let configuration = applied.state.collection(outage.resource).get(&outage.configuration).cloned();
    let configuration = configuration.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
    // The configuration is gone, and its outage is about to.
    let Some(configuration) = configuration else { return Ok(()) };
    let uid = configuration.at("metadata").text("uid");
    let name = name(outage, (member, uid), state);
    let (now, message) = (client.now_text(), message(outage, member, state));
    let path = format!("{NAMESPACE}/{name}");
    let key = Key::new(&EVENTS.into(), NAMESPACE, &name);
    let key = key.map_err(|error| ApiError::Internal(error.to_string()))?;
    let known = applied.state.object(&key).cloned();
    let known = known.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
    if let Some(known) = known {
        let count = known.int("count").unwrap_or(1).saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": now.as_str(), "message": message.as_str()});
        return client.patch(Place { resource: &resource, path: &path }, Action::Object, &patch).await;
    }
    let registry = client.registry();
    let reporter = format!("{}-apiserver", registry.brand.component_prefix);
    let versioned = registry.stored(outage.resource).map(|kind| kind.api_version());
    let (kind, reason) = match state {
        State::Dead => ("Warning", "WebhookDead"),
        State::Answers => ("Normal", "WebhookAnswers"),
    };
    let event = json!({
        "metadata": {"name": name.as_str(), "namespace": NAMESPACE},
        "involvedObject": {
            "apiVersion": versioned.unwrap_or_default(), "kind": outage.kind, "name": &*outage.configuration, "uid": uid,
        },
        "type": kind, "reason": reason, "message": message.as_str(),
        "firstTimestamp": now.as_str(), "lastTimestamp": now.as_str(), "count": 1,
        "source": {"component": reporter.as_str(), "host": member},
        "reportingComponent": reporter.as_str(), "reportingInstance": member,
    });
    client.create(&resource, NAMESPACE, &event).await
}

/// The name of the event: that of the configuration and a hash, the same each time.
fn name(outage: &Outage, (member, uid): (&str, &str), state: State) -> String {
    let mut hash = Sha256::new();
    for text in [outage.kind, uid, &outage.webhook, member, &format!("{state:?}")] {
        hash.update(text);
        hash.update([0]);
    }
    let hash = hash.finalize();
    let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let configuration = &*outage.configuration;
    let stem = configuration.get(..STEM_BYTES_MAX).unwrap_or(configuration);
    format!("{}.{digits}", stem.trim_end_matches(['.', '-']))
}

fn message(outage: &Outage, member: &str, state: State) -> String {
    let (webhook, configuration) = (quoted(&outage.webhook), &outage.configuration);
    match state {
        State::Dead => {
            let effect = match outage.refuses {
                true => "the writes that it is about are refused",
                false => "the writes that it is about pass without it",
            };
            let reason = outage.reason();
            format!(
                "Webhook {webhook} has not answered {} calls of member {member}, the last since {}: {effect}. Mend its server, or \
                 leave it out for a time with `orch cluster bypass-webhook {configuration}`. Last failure: {}",
                outage.calls(),
                outage.since.seconds_text(),
                part(&reason)
            )
        }
        State::Answers => format!("Webhook {webhook} answers member {member} again."),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::controllers::testing::Fixture;

    const KIND: &str = "validatingwebhookconfigurations.admissionregistration";

    fn outage(fixture: &Fixture, webhook: &str) -> Outage {
        let of = ("ValidatingWebhookConfiguration", KIND);
        let now = fixture.client().now();
        Outage::new(of, (&"policies".into(), webhook), true, now, (3, "connection refused"))
    }

    fn events(fixture: &Fixture) -> Vec<Value> {
        let state = fixture.state();
        let events = state.collection(EVENTS);
        events.range_from("").map(|(_, object)| serde_json::from_slice(&object.json).unwrap()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_has_one_event_at_its_configuration_and_its_end_another() {
        let fixture = Fixture::new();
        fixture.namespace(NAMESPACE).await;
        fixture.create(KIND, "", json!({"metadata": {"name": "policies"}})).await;
        let outages = fixture.client().webhooks().outages().clone();
        let steps = async {
            let settled = || tokio::time::sleep(PACE + Duration::from_secs(1));
            let held = outages.begin(outage(&fixture, "w.example.com"));
            settled().await;
            let found = events(&fixture);
            assert_eq!(found.len(), 1);
            let uid = fixture.read(KIND, "policies")["metadata"]["uid"].clone();
            assert_eq!(found[0]["involvedObject"]["uid"], uid);
            assert_eq!((&found[0]["reason"], &found[0]["type"]), (&json!("WebhookDead"), &json!("Warning")));
            let message = found[0].text("message");
            assert!(message.contains("orch cluster bypass-webhook policies"), "{message}");
            assert!(message.contains("not answered 3 calls of member a"), "{message}");
            outages.end(held);
            settled().await;
            assert_eq!(events(&fixture).len(), 2);
            let again = outages.begin(outage(&fixture, "w.example.com"));
            settled().await;
            tokio::time::sleep(REPEAT).await;
            settled().await;
            let found = events(&fixture);
            let counts: i64 = found.iter().filter_map(|event| event.int("count")).sum();
            assert_eq!((found.len(), counts), (2, 4), "{found:?}");
            drop(again);
            let before = fixture.state().applied();
            tokio::time::sleep(REPEAT * 3).await;
            assert!(fixture.state().applied().0 <= before.0, "its configuration has changed");
        };
        fixture.beside(run(&fixture.client(), "a"), steps).await;
    }

    #[test]
    fn events_have_valid_names_of_their_own() {
        let fixture = Fixture::new();
        let (a, b) = (outage(&fixture, "a"), outage(&fixture, "b"));
        let long = Outage::new(("K", KIND), (&Arc::from("a".repeat(253)), "a"), true, a.since, (3, ""));
        let names = [
            name(&a, ("m", "u"), State::Dead),
            name(&a, ("m", "u"), State::Answers),
            name(&a, ("n", "u"), State::Dead),
            name(&b, ("m", "u"), State::Dead),
            name(&long, ("m", "u"), State::Dead),
        ];
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
        for name in names {
            assert!(orch_schema::names::dns1123_subdomain(&name).is_empty(), "{name}");
        }
    }
}
