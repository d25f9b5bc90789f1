//! The outcome of a copy, counted by kind, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Refusals of one kind that are told one by one.
const TOLD_MAX: usize = 10;

/// Objects of one kind.
#[derive(Debug, Default)]
struct Tally {
    copied: u64,
    removed: u64,
    refused: u64,
    /// The first refusals: place and reason.
    told: Vec<(String, String)>,
    /// Objects that stay behind, by the reason.
    left_out: BTreeMap<&'static str, u64>,
    /// The target does not serve the kind: how many objects there are.
    unserved: Option<u64>,
    /// The kind comes with its definition, which a dry run does not copy.
    undeclared: Option<u64>,
}

/// What became of all objects.
#[derive(Debug, Default)]
pub(super) struct Report {
    kinds: BTreeMap<String, Tally>,
    whole_kinds: BTreeMap<String, &'static str>,
    tokens: u64,
}

impl Report {
    fn of(&mut self, kind: &str) -> &mut Tally {
        self.kinds.entry(kind.to_owned()).or_default()
    }

    pub(super) fn copied(&mut self, kind: &str) {
        self.of(kind).copied += 1;
    }

    pub(super) fn removed(&mut self, kind: &str) {
        self.of(kind).removed += 1;
    }

    pub(super) fn refused(&mut self, kind: &str, place: &str, reason: String) {
        let tally = self.of(kind);
        tally.refused += 1;
        if tally.told.len() < TOLD_MAX {
            tally.told.push((place.to_owned(), reason));
        }
    }

    pub(super) fn left_out(&mut self, kind: &str, reason: &'static str) {
        *self.of(kind).left_out.entry(reason).or_default() += 1;
    }

    pub(super) fn left_out_kind(&mut self, kind: &str, reason: &'static str) {
        self.whole_kinds.insert(kind.to_owned(), reason);
    }

    pub(super) fn unserved(&mut self, kind: &str, objects: u64) {
        self.of(kind).unserved = Some(objects);
    }

    pub(super) fn undeclared(&mut self, kind: &str, objects: u64) {
        self.of(kind).undeclared = Some(objects);
    }

    pub(super) fn token(&mut self) {
        self.tokens += 1;
    }

    /// Number of objects copied.
    pub(super) fn total(&self) -> u64 {
        self.kinds.values().map(|tally| tally.copied).sum()
    }

    /// Whether every object that was to move is at the target.
    pub(super) fn is_whole(&self) -> bool {
        self.kinds.values().all(|tally| tally.refused == 0 && tally.unserved.unwrap_or(0) == 0)
    }

    /// The whole, in lines.
    pub(super) fn text(&self, is_trial: bool) -> String {
        let verb = if is_trial { "would be copied" } else { "copied" };
        let mut out = format!("{} objects {verb}, of {} kinds\n", self.total(), self.kinds_copied());
        for (kind, tally) in &self.kinds {
            // Writing to a string cannot fail.
            if tally.removed > 0 {
                let _ = writeln!(out, "{kind}: {} removed, which the source has no more", tally.removed);
            }
            for (reason, count) in &tally.left_out {
                let _ = writeln!(out, "{kind}: {count} left out: {reason}");
            }
            if let Some(objects) = tally.undeclared {
                let _ = writeln!(out, "{kind}: {objects} come with their definition, and were not tried");
            }
            if let Some(objects) = tally.unserved.filter(|objects| *objects > 0) {
                let _ = writeln!(out, "{kind}: {objects} DO NOT FIT: the target does not serve the kind");
            }
            for (place, reason) in &tally.told {
                let _ = writeln!(out, "{kind} {place} REFUSED: {reason}");
            }
            let untold = tally.refused.saturating_sub(u64::try_from(tally.told.len()).unwrap_or(u64::MAX));
            if untold > 0 {
                let _ = writeln!(out, "{kind}: {untold} more refused");
            }
        }
        for (kind, reason) in &self.whole_kinds {
            let _ = writeln!(out, "{kind}: left out: {reason}");
        }
        if self.tokens > 0 {
            let _ = writeln!(
                out,
                "{} secrets hold tokens that the source has signed: they are good at the target if its members get the source's public \
                 key by --service-account-key-file",
                self.tokens
            );
        }
        out
    }

    fn kinds_copied(&self) -> usize {
        self.kinds.values().filter(|tally| tally.copied > 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told_with_its_reason() {
        let mut report = Report::default();
        report.copied("pods");
        report.left_out("configmaps", "the target has its own");
        report.left_out_kind("leases.coordination.orch.io", "taken again");
        assert!(report.is_whole());
        assert_eq!(
            report.text(true),
            "1 objects would be copied, of 1 kinds\nconfigmaps: 1 left out: the target has its own\n\
             leases.coordination.orch.io: left out: taken again\n"
        );
        (0..12).for_each(|at| report.refused("pods", &format!("n/{at}"), "no".to_owned()));
        report.unserved("widgets.example.com", 3);
        let text = report.text(false);
        assert!(!report.is_whole() && text.contains("pods n/0 REFUSED: no\n"), "{text}");
        assert!(
            text.contains("pods: 2 more refused\n") && text.contains("widgets.example.com: 3 DO NOT FIT")
        );
    }
}
