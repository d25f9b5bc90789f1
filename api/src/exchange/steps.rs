//! The steps of a request with their times, for its trace and for the log line of a slow one.
//!
//! Owns the names of steps. Times of a repeated step add up. The call of a webhook counts in the admission step around it, too, so that
//! the sum may exceed the duration of the request. It reads no clock.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Authenticate,
    Authorize,
    /// Waiting for a seat.
    FlowControl,
    /// Receiving a body.
    Body,
    Decode,
    /// Reading the state for a list or a get, and waiting for its point in time.
    Read,
    /// Mutating admission.
    Mutate,
    /// Validating admission.
    Validate,
    /// A call of an admission webhook.
    Webhook,
    /// From the proposal of a write until it is applied here.
    Propose,
    /// The server of an APIService answers.
    Relay,
    Render,
}

const STEPS: [Step; 12] = [
    Step::Authenticate,
    Step::Authorize,
    Step::FlowControl,
    Step::Body,
    Step::Decode,
    Step::Read,
    Step::Mutate,
    Step::Validate,
    Step::Webhook,
    Step::Propose,
    Step::Relay,
    Step::Render,
];

impl Step {
    /// Its name in spans and log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Authenticate => "authenticate",
            Step::Authorize => "authorize",
            Step::FlowControl => "flow control",
            Step::Body => "receive body",
            Step::Decode => "decode",
            Step::Read => "read",
            Step::Mutate => "mutating admission",
            Step::Validate => "validating admission",
            Step::Webhook => "webhook",
            Step::Propose => "propose",
            Step::Relay => "relay",
            Step::Render => "render",
        }
    }
}

/// The time of each step, in microseconds, up to 71 minutes.
#[derive(Debug, Default)]
pub(crate) struct Steps([AtomicU32; STEPS.len()]);

impl Steps {
    /// Adds a time of `step`.
    pub(crate) fn add(&self, step: Step, micros: u64) {
        let micros = u32::try_from(micros).unwrap_or(u32::MAX);
        let spent = &self.0[step as usize];
        // Only validating webhooks run at the same time; one of two additions at once may be lost, which the log line alone shows.
        spent.store(spent.load(Ordering::Relaxed).saturating_add(micros), Ordering::Relaxed);
    }
}

/// The steps that took a millisecond at least, in order, for example `flow control 412 ms, propose 95 ms`.
impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for step in STEPS {
            let millis = self.0[step as usize].load(Ordering::Relaxed) / 1000;
            if millis > 0 {
                write!(f, "{separator}{} {millis} ms", step.name())?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_add_up_and_are_told_in_their_order() {
        for (place, step) in STEPS.into_iter().enumerate() {
            assert_eq!(step as usize, place, "{step:?}");
        }
        let steps = Steps::default();
        assert_eq!(steps.to_string(), "");
        steps.add(Step::Propose, 95_900);
        steps.add(Step::FlowControl, 400_000);
        steps.add(Step::FlowControl, 12_000);
        steps.add(Step::Decode, 999);
        assert_eq!(steps.to_string(), "flow control 412 ms, propose 95 ms");
        steps.add(Step::Decode, u64::MAX);
        steps.add(Step::Decode, u64::MAX);
        assert!(steps.to_string().contains("decode 4294967 ms"), "{steps}");
    }
}
