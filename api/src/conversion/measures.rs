//! Counts and durations of the questions that converters ask of other servers, under the reference's names.
//!
//! Owns how many definitions have series of their own: clients choose the names and versions.

use std::collections::HashSet;
use std::time::Duration;

use metrics::{counter, histogram};
use parking_lot::Mutex;

/// Pairs of versions of definitions with series of their own, some twenty lines of the page each; all further ones share one. Clusters
/// have some dozens of definitions that are converted by webhooks, mostly in one direction.
const SERIES_MAX: usize = 200;

/// The value of labels that are shared.
const OTHER: &str = "other";

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breach {
    /// No answer, or one that is no review.
    Call,
    /// A review that is not the answer, or says that the conversion failed.
    Malformed,
    /// Fewer or more objects.
    Partial,
    /// An object that is not the one that was sent, in the version that was asked for.
    Invalid,
}

impl Breach {
    /// The name of the failure in metrics and spans.
    pub(super) fn name(self) -> &'static str {
        match self {
            Breach::Call => "conversion_webhook_call_failure",
            Breach::Malformed => "conversion_webhook_malformed_response_failure",
            Breach::Partial => "conversion_webhook_partial_response_failure",
            Breach::Invalid => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// The definitions that have series.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    known: Mutex<HashSet<[String; 3]>>,
}

impl Measures {
    /// Counts a question about objects of `definition` from the first of `versions` to the second, which took `took`.
    pub(super) fn note(
        &self,
        definition: &str,
        versions: (&str, &str),
        breach: Option<Breach>,
        took: Duration,
    ) {
        let [definition, from, to] = self.labels([definition, versions.0, versions.1]);
        let seconds = took.as_secs_f64();
        let (result, failure) = match breach {
            None => ("success", ""),
            Some(breach) => ("failure", breach.name()),
        };
        let succeeded = if breach.is_none() { "true" } else { "false" };
        counter!("apiserver_conversion_webhook_request_total", "result" => result, "failure_type" => failure)
            .increment(1);
        histogram!("apiserver_conversion_webhook_duration_seconds", "result" => result, "failure_type" => failure)
            .record(seconds);
        let labels = [
            ("crd_name", definition),
            ("from_version", from),
            ("to_version", to),
            ("succeeded", succeeded.to_owned()),
        ];
        histogram!("apiserver_crd_conversion_webhook_duration_seconds", &labels).record(seconds);
    }

    fn labels(&self, wanted: [&str; 3]) -> [String; 3] {
        let wanted = wanted.map(str::to_owned);
        let mut known = self.known.lock();
        if known.len() < SERIES_MAX {
            known.insert(wanted.clone());
        }
        if known.contains(&wanted) { wanted } else { [OTHER; 3].map(str::to_owned) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_clients_names_are_bounded() {
        let measures = Measures::default();
        for number in 0..SERIES_MAX {
            let name = format!("d{number}");
            assert_eq!(measures.labels([&name, "v1", "v2"])[0], name);
        }
        assert_eq!(measures.labels(["one more", "v1", "v2"]), [OTHER; 3]);
        assert_eq!(measures.labels(["d7", "v1", "v2"])[0], "d7");
        assert_eq!(measures.known.lock().len(), SERIES_MAX);
    }
}
