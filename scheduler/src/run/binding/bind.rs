//! The binding itself.
//!
//! Owns the way from an answer, or its absence, to certainty: what the server said decides where it is clear; otherwise
//! the pod is read until it says whether it has the node.

use std::time::Duration;

use crate::api::core::v1::{Binding, ObjectReference, Pod};
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Backoff, Error, Reason, chain};
use crate::plugin::{ExtensionPoint, Plugin};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::{BindOutcome, Binder, Job, PodRef, Why};

/// Pauses between questions whether the pod is bound.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LAST: Duration = Duration::from_secs(5);

/// Bindings of one job that leave the pod without a node, although the server did not refuse them. Beyond, planning
/// decides anew.
const BIND_ATTEMPTS_MAX: u32 = 5;

/// Knowledge about a binding that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The outcome is certain.
    Outcome(BindOutcome),
    /// The outcome is unknown until the pod is read.
    AskPod,
}

/// The outcome that the answer to a binding tells.
pub(super) fn after_binding(answer: &Result<(), Error>) -> Known {
    let error = match answer {
        Ok(()) => return Known::Outcome(BindOutcome::Bound),
        Err(error) => error,
    };
    #[cfg(test)]
    if error.is_outcome_unknown() {
        match () {
            () if plant::is(Plant::UndoesUnknown) => {
                return Known::Outcome(BindOutcome::NotBound(Why::Refused(chain(error))));
            }
            () if plant::is(Plant::TrustsUnknown) => return Known::Outcome(BindOutcome::Bound),
            () => {}
        }
    }
    match error.status().map(|status| status.reason) {
        Some(Reason::NotFound) => Known::Outcome(BindOutcome::NotBound(Why::Gone)),
        // Bound already, by an earlier attempt of this job or by another scheduler; or another pod of this name.
        Some(Reason::Conflict | Reason::AlreadyExists) => Known::AskPod,
        _ if error.is_outcome_unknown() => Known::AskPod,
        _ => {
            let why = Why::Refused(chain(error)).of(Plugin::DefaultBinder, ExtensionPoint::Bind);
            Known::Outcome(BindOutcome::NotBound(why))
        }
    }
}

/// The outcome of binding `wanted` to `node`, read from the pod; `None`: it has no node, the binding did not happen.
pub(super) fn of_pod(wanted: &PodRef, node: &str, found: &Pod) -> Option<BindOutcome> {
    let uid = found.metadata.as_ref().map_or("", |metadata| &metadata.uid);
    if uid != &*wanted.uid {
        return Some(BindOutcome::NotBound(Why::Gone));
    }
    match found.spec.as_ref().map_or("", |spec| &spec.node_name) {
        "" => None,
        bound if bound == node => Some(BindOutcome::Bound),
        other => Some(BindOutcome::NotBound(Why::Taken(other.to_owned()))),
    }
}

/// The error of a binding whose wait was given up at the end of the lease: it may have happened.
fn lease_ended(what: &str) -> Error {
    Error::Lost { what: what.to_owned(), problem: "the lease ended before the answer came".to_owned() }
}

impl Binder {
    pub(super) async fn bind(&self, job: &Job) -> BindOutcome {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LAST);
        for _ in 0..BIND_ATTEMPTS_MAX {
            if !self.leads() {
                return BindOutcome::NotBound(Why::NotLeading);
            }
            let answer = match &job.binder {
                None => self.post(job).await,
                Some(extender) => {
                    match self.leadership.while_held(extender.bind(&job.pod, &job.node)).await {
                        None => Err(lease_ended("extender binding")),
                        Some(Ok(())) => Ok(()),
                        Some(Err(error)) if error.is_outcome_unknown() => Err(Error::Lost {
                            what: "extender binding".to_owned(),
                            problem: error.to_string(),
                        }),
                        Some(Err(error)) => return BindOutcome::NotBound(Why::Refused(error.to_string())),
                    }
                }
            };
            if let Known::Outcome(outcome) = after_binding(&answer) {
                return outcome;
            }
            if let Some(outcome) = self.ask_pod(job, &mut backoff).await {
                return outcome;
            }
        }
        BindOutcome::NotBound(Why::Refused(format!("{BIND_ATTEMPTS_MAX} bindings had no effect")))
    }

    async fn post(&self, job: &Job) -> Result<(), Error> {
        let pod = &job.pod;
        let binding = Binding {
            metadata: Some(ObjectMeta {
                name: pod.name.to_string(),
                namespace: pod.namespace.to_string(),
                uid: pod.uid.to_string(),
                ..ObjectMeta::default()
            }),
            target: Some(ObjectReference {
                kind: "Node".to_owned(),
                name: job.node.to_string(),
                ..ObjectReference::default()
            }),
        };
        #[cfg(test)]
        let binding = match plant::is(Plant::BindsByName) {
            true => Binding { metadata: None, ..binding },
            false => binding,
        };
        let sending =
            self.client.create_subresource::<Pod, _>(&pod.namespace, &pod.name, "binding", &binding);
        #[cfg(test)]
        if plant::is(Plant::RetriesWithoutLease) || plant::is(Plant::BindsWithoutLease) {
            return sending.await;
        }
        // The client sends a request again that had no effect, after pauses that may outlast the lease.
        self.leadership.while_held(sending).await.unwrap_or_else(|| Err(lease_ended("binding")))
    }

    /// Reads the pod until it answers. `None`: it has no node. Asks on even without leadership: the answer decides
    /// whether the node's room is taken.
    async fn ask_pod(&self, job: &Job, backoff: &mut Backoff) -> Option<BindOutcome> {
        loop {
            match self.client.get::<Pod>(&job.pod.namespace, &job.pod.name).await {
                Ok(pod) => return of_pod(&job.pod, &job.node, &pod),
                Err(error) if error.is(Reason::NotFound) => return Some(BindOutcome::NotBound(Why::Gone)),
                Err(error) => {
                    let pause = backoff.random_pause();
                    let (namespace, name) = (&job.pod.namespace, &job.pod.name);
                    tracing::warn!(%namespace, %name, error = chain(&error), ?pause, "cannot see whether a pod is bound");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}
