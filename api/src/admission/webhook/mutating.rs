//! `MutatingAdmissionWebhook`: webhooks that change writes, one after the other.
//!
//! Owns their order and the rules of the two rounds, which are the reference's. A webhook is matched with the object as those
//! before it have left it, and is sent that. The second round calls a webhook again if its `reinvocationPolicy` allows it, it was
//! called in the first round, and the object has changed since.
//!
//! Invariant: a refused write leaves the object as it was. A refusal behind a call is final, since no webhook is called twice.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::Either;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::answer::Role;
use super::asking::{Allowed, Asking};
use super::patched::applied;
use super::prepared::Found;
use super::review::Request;
use super::stored::Stored;
use super::trace::Call;
use super::{Callers, is_asked_about};
use crate::admission::matching::{Names, Target, Version, back, shown_in};
use crate::admission::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};
use crate::error::ApiError;

pub(in crate::admission) struct MutatingAdmissionWebhook {
    stored: Stored,
    callers: Callers,
}

impl MutatingAdmissionWebhook {
    pub(in crate::admission) fn new(callers: Callers) -> Self {
        MutatingAdmissionWebhook { stored: Stored::of(Role::Mutating), callers }
    }
}

impl Plugin for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        is_asked_about(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        view: &'a View,
        additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(looked) = self.stored.look_up(attributes, view) else { return rule(Ok(())) };
        Either::Right(Box::pin(async move {
            let found = self.stored.found(looked, attributes, view).await;
            let memory = additions.remembered::<Memory>().map(|memory| (*memory).clone());
            let mut mutating = Mutating {
                asking: Asking::new(attributes, view, &self.callers),
                memory: memory.unwrap_or_default(),
                is_second: additions.is_second_round(),
                has_called: false,
                written: None,
            };
            let changed = mutating.run(&found, object.as_deref()).await;
            let changed = changed.map_err(|refusal| match mutating.has_called {
                true => Refusal::Final(refusal.into_error(attributes)),
                false => refusal,
            })?;
            let mut memory = mutating.memory;
            if changed.is_some() {
                additions.ask_again();
            }
            if let Some(object) = object {
                if let Some(changed) = changed {
                    *object = changed;
                }
                // No plugin behind this one changes the object or asks for a second round.
                memory.output = additions.has_second_round().then(|| object.clone());
            }
            additions.remember(memory);
            Ok(())
        }))
    }
}

/// The state of the first round, from which the second one goes on.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// The object behind the webhooks, where there is a second round.
    output: Option<Value>,
    /// Calls that may be made again, and were made.
    made: HashSet<Key>,
    /// Those of them behind which something has changed.
    due: HashSet<Key>,
}

/// Configuration and name of a webhook.
type Key = (Arc<str>, Box<str>);

struct Mutating<'a> {
    asking: Asking<'a>,
    memory: Memory,
    is_second: bool,
    has_called: bool,
    /// The request of the last document, and its version: the next webhook is often sent the same.
    written: Option<(Names, Request)>,
}

impl<'a> Mutating<'a> {
    /// The object behind all webhooks; `None` if none changed it.
    async fn run(&mut self, found: &[Found], object: Option<&Value>) -> Result<Option<Value>, Refusal> {
        if self.is_second && self.memory.output.as_ref() != object {
            self.make_due();
        }
        let mut current: Option<Value> = None;
        for found in found {
            let now = current.as_ref().or(object);
            let Some(version) = self.asking.version(&found.webhook, now)? else { continue };
            let key = (found.webhook.configuration.clone(), found.webhook.name.clone());
            // set: keys of the webhooks that are due.
            if self.is_second && !self.memory.due.contains(&key) {
                continue;
            }
            let Some(after) = self.call(found, &version, now).await? else { continue };
            if let Some(changed) = after.changed {
                self.make_due();
                current = Some(changed);
                self.written = None;
            }
            if found.webhook.is_reinvoked {
                self.memory.made.insert(key);
            }
        }
        Ok(current)
    }

    /// Has all calls that may be made again and were made be made again.
    fn make_due(&mut self) {
        self.memory.due.extend(self.memory.made.drain());
    }

    /// Calls a webhook about `object`; `None` where its conditions leave it out.
    async fn call(
        &mut self,
        found: &Found,
        version: &Version<'a>,
        object: Option<&Value>,
    ) -> Result<Option<After>, Refusal> {
        let attributes = self.asking.attributes();
        let own = attributes.resource;
        let names = Names::of(&self.asking.write.asked, version);
        let unconverted = |reason: String| Refusal::Error(ApiError::WebhookFailed(reason));
        let shown =
            shown_in(own, version, object, attributes.exchange.onward()).await.map_err(unconverted)?;
        let old = shown_in(own, version, attributes.old, attributes.exchange.onward())
            .await
            .map_err(unconverted)?;
        let objects = (shown.as_deref(), old.as_deref());
        if !self.asking.is_met(&found.webhook, &names, objects).await? {
            return Ok(None);
        }
        self.has_called = true;
        let request = self.request(&names, objects);
        let call = Call { found, round: usize::from(self.is_second), at: found.at };
        let allowed = self.asking.waited(self.asking.call(call, &request, object)).await;
        let name = &found.webhook.name;
        let patched = match allowed {
            Ok(allowed) => self.patched(name, (version, &names), shown.as_deref(), allowed).await,
            Err(refusal) => Err(refusal),
        };
        self.written = Some((names, request));
        let mutated = matches!(patched, Ok(Some(Patched { changed: Some(_), .. })));
        call.note_asked(attributes, mutated);
        let Some(Patched { changed, text }) = patched? else { return Ok(Some(After { changed: None })) };
        call.note_patch(attributes, &text);
        Ok(Some(After { changed }))
    }

    /// The request that shows `objects`, which are in the version of `names`.
    fn request(&mut self, names: &Names, objects: (Option<&Value>, Option<&Value>)) -> Request {
        if let Some((_, request)) = self.written.take().filter(|(of, _)| of == names) {
            return request;
        }
        let asked = &self.asking.write.asked;
        Request::of(asked, (names, &Names::of(asked, &Version::Own)), objects.0, objects.1)
    }

    /// The object in the form of its rules, as the patch of `allowed` changes `shown`, where it does, and the patch; `None`: there is none.
    async fn patched(
        &self,
        name: &str,
        (version, names): (&Version<'a>, &Names),
        shown: Option<&Value>,
        allowed: Allowed,
    ) -> Result<Option<Patched>, Refusal> {
        let attributes = self.asking.attributes();
        let broken = |reason: String| Refusal::Final(ApiError::WebhookFailed(reason));
        let Allowed { text, patch: Some(patch) } = allowed else { return Ok(None) };
        let Some(shown) = shown else {
            return Err(broken(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                quoted(name)
            )));
        };
        let target = Target::of(attributes, version, names);
        let Some(changed) = applied(&target, shown, patch).map_err(Refusal::Final)? else {
            return Ok(Some(Patched { changed: None, text }));
        };
        let changed = back(attributes.resource, version, changed, attributes.exchange.onward())
            .await
            .map_err(broken)?;
        Ok(Some(Patched { changed: Some(changed), text }))
    }
}

/// The object behind a patch.
struct Patched {
    /// `None` if it stays as it is.
    changed: Option<Value>,
    /// The patch.
    text: Vec<u8>,
}

/// The object behind one webhook.
struct After {
    /// `None` if it stays as it is.
    changed: Option<Value>,
}
