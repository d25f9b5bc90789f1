//! The outcome of a copy, counted by kind, as text.
//!
//! Owns the words. What the target refuses stands in the books (`Copied`), which outlast a run, and is only shown here.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::copied::{Left, Place, Refusal};

/// Refusals of one kind, and held objects of one, that are told one by one.
const TOLD_MAX: usize = 10;

/// Objects of one kind.
#[derive(Debug, Default)]
struct Tally {
    copied: u64,
    removed: u64,
    /// Objects in namespaces that are being deleted, which something at the source still holds.
    held: u64,
    /// The first of them: place and finalizers.
    held_told: Vec<(String, String)>,
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

    pub(super) fn held(&mut self, kind: &str, place: &str, finalizers: String) {
        let tally = self.of(kind);
        tally.held += 1;
        if tally.held_told.len() < TOLD_MAX {
            tally.held_told.push((place.to_owned(), finalizers));
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

    /// Whether every object that was to move is at the target, or would be; refusals are told apart.
    pub(super) fn is_whole(&self) -> bool {
        let is_whole = |tally: &Tally| {
            let behind = [tally.unserved, tally.undeclared].into_iter().flatten().sum::<u64>();
            tally.held == 0 && behind == 0
        };
        self.kinds.values().all(is_whole)
    }

    /// The whole, in lines, with what the target refused.
    pub(super) fn text(&self, is_trial: bool, refusals: &BTreeMap<Place, Refusal>) -> String {
        let verb = if is_trial { "would be copied" } else { "copied" };
        let mut out = format!("{} objects {verb}, of {} kinds\n", self.total(), self.kinds_copied());
        for (kind, tally) in &self.kinds {
            tally.tell(kind, &mut out);
        }
        tell_refusals(refusals, &mut out);
        for (kind, reason) in &self.whole_kinds {
            // Writing to a string cannot fail.
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

impl Tally {
    fn tell(&self, kind: &str, out: &mut String) {
        // Writing to a string cannot fail.
        if self.removed > 0 {
            let _ = writeln!(out, "{kind}: {} removed, which the source has no more", self.removed);
        }
        for (reason, count) in &self.left_out {
            let _ = writeln!(out, "{kind}: {count} left out: {reason}");
        }
        if let Some(objects) = self.undeclared.filter(|objects| *objects > 0) {
            let _ = writeln!(out, "{kind}: {objects} come with their definition, and WERE NOT TRIED");
        }
        if let Some(objects) = self.unserved.filter(|objects| *objects > 0) {
            let _ = writeln!(out, "{kind}: {objects} DO NOT FIT: the target does not serve the kind");
        }
        for (place, finalizers) in &self.held_told {
            let _ = writeln!(
                out,
                "{kind} {place} STAYS BEHIND: it is being deleted with its namespace, and held by {finalizers}: let the source end that"
            );
        }
        tell_rest(out, kind, self.held, self.held_told.len(), "stay behind so");
    }
}

fn tell_refusals(refusals: &BTreeMap<Place, Refusal>, out: &mut String) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for ((kind, place), refusal) in refusals {
        let count = counts.entry(kind).or_default();
        *count += 1;
        if *count <= TOLD_MAX {
            let word = match refusal.left {
                Left::Nothing => "REFUSED",
                Left::Former => "REFUSED, and there in a former state",
            };
            let _ = writeln!(out, "{kind} {place} {word}: {}", refusal.reason);
        }
    }
    for (kind, count) in counts {
        tell_rest(out, kind, u64::try_from(count).unwrap_or(u64::MAX), TOLD_MAX, "refused");
    }
}

fn tell_rest(out: &mut String, kind: &str, count: u64, told: usize, verb: &str) {
    let rest = count.saturating_sub(u64::try_from(told).unwrap_or(u64::MAX));
    if rest > 0 {
        let _ = writeln!(out, "{kind}: {rest} more {verb}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_do_not_fit_are_reported_with_their_reasons() {
        let mut report = Report::default();
        report.copied("pods");
        report.left_out("configmaps", "the target has its own");
        report.left_out_kind("leases.coordination.orch.io", "taken again");
        assert!(report.is_whole());
        let none = BTreeMap::new();
        assert_eq!(
            report.text(true, &none),
            "1 objects would be copied, of 1 kinds\nconfigmaps: 1 left out: the target has its own\n\
             leases.coordination.orch.io: left out: taken again\n"
        );
        let refusal = |left| Refusal { uid: "u".to_owned(), reason: "no".to_owned(), left };
        let at = |at: usize| ("pods".to_owned(), format!("n/{at}"));
        let mut refusals: BTreeMap<Place, Refusal> =
            (0..12).map(|n| (at(n), refusal(Left::Nothing))).collect();
        refusals.insert(at(0), refusal(Left::Former));
        report.unserved("widgets.example.com", 3);
        let text = report.text(false, &refusals);
        assert!(!report.is_whole() && text.contains("pods n/1 REFUSED: no\n"), "{text}");
        assert!(text.contains("pods n/0 REFUSED, and there in a former state: no\n"), "{text}");
        assert!(
            text.contains("pods: 2 more refused\n") && text.contains("widgets.example.com: 3 DO NOT FIT")
        );
    }

    #[test]
    fn untried_and_held_objects_keep_a_move_from_being_whole() {
        let mut tried = Report::default();
        tried.undeclared("widgets.example.com", 0);
        assert!(tried.is_whole(), "no object is left");
        tried.undeclared("widgets.example.com", 2);
        assert!(!tried.is_whole() && tried.text(true, &BTreeMap::new()).contains("WERE NOT TRIED"));
        let mut held = Report::default();
        (0..11).for_each(|at| held.held("services", &format!("n/{at}"), "example.com/balancer".to_owned()));
        let text = held.text(false, &BTreeMap::new());
        assert!(!held.is_whole() && text.contains("services n/3 STAYS BEHIND"), "{text}");
        assert!(text.contains("held by example.com/balancer") && text.contains("1 more stay behind so"));
    }
}
