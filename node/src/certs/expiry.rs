//! Watches when this node's certificates and authorities expire.
//!
//! Owns the warnings in the log, at the start and once a day, 30 and 7 days ahead; and the gauge
//! `orch_certificate_expiry_seconds`, the seconds left of each file. Files are read again each time: renewed ones count.

use std::path::PathBuf;
use std::time::Duration as Wait;

use time::{Duration, OffsetDateTime};
use tokio_util::sync::CancellationToken;

use super::inspect::{Facts, inspect};
use crate::report::Causes;

/// Interval of looks at the files. The gauge is as old as that at most.
const LOOK_EVERY: Wait = Wait::from_secs(3600);
/// Looks between two warnings: a day.
const LOOKS_A_WARNING: u32 = 24;

/// Ahead of an expiry by this much there is a warning: time to plan a renewal.
const WARN_BEFORE: Duration = Duration::days(30);
/// Ahead of an expiry by this much it is an error: somebody must act.
const URGE_BEFORE: Duration = Duration::days(7);

/// How urgent a renewal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// More than 30 days are left.
    None,
    /// Less than 30 days are left.
    Soon,
    /// Less than 7 days are left, or none.
    Now,
}

/// Looks at `files` until `stopped`.
pub async fn follow_expiry(files: Vec<PathBuf>, stopped: CancellationToken) {
    metrics::describe_gauge!(
        "orch_certificate_expiry_seconds",
        metrics::Unit::Seconds,
        "Seconds until the first certificate of the file expires."
    );
    for look in (0..LOOKS_A_WARNING).cycle() {
        let (files, is_warning) = (files.clone(), look == 0);
        // Files are read on a thread that may wait for a disk.
        let looked = tokio::task::spawn_blocking(move || look_at(&files, is_warning));
        if let Err(error) = looked.await {
            tracing::warn!(%error, "the expiry of certificates is no longer watched");
            return;
        }
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn look_at(files: &[PathBuf], is_warning: bool) {
    let now = OffsetDateTime::now_utc();
    for file in files {
        let facts = match inspect(file) {
            Ok(facts) => facts,
            Err(error) => {
                if is_warning {
                    tracing::warn!(error = %Causes(&error), "cannot tell when a certificate expires");
                }
                continue;
            }
        };
        if let Some(first) = facts.iter().min_by_key(|facts| facts.not_after) {
            let left = (first.not_after - now).as_seconds_f64();
            metrics::gauge!("orch_certificate_expiry_seconds", "file" => file.display().to_string())
                .set(left);
        }
        for facts in facts.iter().filter(|_| is_warning) {
            warn(facts, now);
        }
    }
}

fn warn(facts: &Facts, now: OffsetDateTime) {
    let (file, subject, expires) = (facts.path.display(), &facts.subject, facts.not_after);
    let days = (facts.not_after - now).whole_days();
    match urgency(facts.not_after, now) {
        Urgency::None => {}
        Urgency::Soon => {
            tracing::warn!(%file, %subject, %expires, days, "a certificate expires soon; renew it (orch certs)");
        }
        Urgency::Now => {
            tracing::error!(%file, %subject, %expires, days, "a certificate is about to expire or has expired; renew it (orch certs)");
        }
    }
}

fn urgency(not_after: OffsetDateTime, now: OffsetDateTime) -> Urgency {
    match not_after - now {
        left if left < URGE_BEFORE => Urgency::Now,
        left if left < WARN_BEFORE => Urgency::Soon,
        _ => Urgency::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_become_urgent_a_month_and_a_week_ahead() {
        let now = OffsetDateTime::UNIX_EPOCH;
        for (left, expected) in [
            (Duration::days(31), Urgency::None),
            (Duration::days(30), Urgency::None),
            (Duration::days(29), Urgency::Soon),
            (Duration::days(8), Urgency::Soon),
            (Duration::days(6), Urgency::Now),
            (-Duration::days(1), Urgency::Now),
        ] {
            assert_eq!(urgency(now + left, now), expected, "{left}");
        }
    }
}
