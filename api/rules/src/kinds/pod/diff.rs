//! The difference of two specs, as the error of a refused update shows it.
//!
//! The reference prints its own in-memory form, field by field, indented by one, as a unified diff with three lines
//! around each change. `form` writes that form; this file compares its lines.

mod form;

use self::form::{claim_form, pod_form};

use orch_schema::value::Value;

/// Lines of context around a change.
const AROUND: usize = 3;
/// Beyond this many pairs of lines the part between the first and the last change is shown as one change.
const PAIRS_MAX: usize = 1_000_000;
/// Bytes after which a difference is cut: more than a message repeats.
const DIFF_BYTES_MAX: usize = 64 * 1024;

/// The difference between two pod specs; empty when their shown forms are the same.
pub(super) fn spec_diff(before: &Value, after: &Value) -> String {
    unified(&pod_form(before), &pod_form(after))
}

/// The difference between two specs of volume claims; empty when their shown forms are the same.
pub(crate) fn claim_diff(before: &Value, after: &Value) -> String {
    unified(&claim_form(before), &claim_form(after))
}

/// A changed stretch: line ranges in the old and in the new text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    old: (usize, usize),
    new: (usize, usize),
}

fn unified(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut out = String::new();
    for group in grouped(&changes(&before, &after)) {
        if out.len() > DIFF_BYTES_MAX {
            break;
        }
        let (first, last) = (group[0], group[group.len() - 1]);
        let start = first.old.0.saturating_sub(AROUND);
        let lead = first.old.0 - start;
        let end = (last.old.1 + AROUND).min(before.len());
        let new_start = first.new.0 - lead;
        let new_end = last.new.1 + (end - last.old.1);
        out.push_str(&format!("@@ -{} +{} @@\n", range(start, end), range(new_start, new_end)));
        let mut at = start;
        for change in group {
            push_lines(&mut out, ' ', &before[at..change.old.0]);
            push_lines(&mut out, '-', &before[change.old.0..change.old.1]);
            push_lines(&mut out, '+', &after[change.new.0..change.new.1]);
            at = change.old.1;
        }
        push_lines(&mut out, ' ', &before[at..end]);
    }
    out
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

fn push_lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        if out.len() > DIFF_BYTES_MAX {
            break;
        }
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

// Groups changes whose context lines touch.
fn grouped(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut groups: Vec<Vec<Change>> = Vec::new();
    for &change in changes {
        let near =
            |group: &Vec<Change>| group.last().is_some_and(|last| change.old.0 - last.old.1 <= 2 * AROUND);
        match groups.last_mut() {
            Some(group) if near(group) => group.push(change),
            _ => groups.push(vec![change]),
        }
    }
    groups
}

// The longest common subsequence by dynamic programming, without the common lines at both ends.
fn changes(before: &[&str], after: &[&str]) -> Vec<Change> {
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        return vec![Change { old: (head, head + old.len()), new: (head, head + new.len()) }];
    }
    let mut found: Vec<Change> = Vec::new();
    let lengths = common_lengths(old, new);
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            continue;
        }
        let remove = j == new.len() || (i < old.len() && lengths[i + 1][j] >= lengths[i][j + 1]);
        let step = if remove { (1, 0) } else { (0, 1) };
        match found.last_mut() {
            Some(last) if last.old.1 == head + i && last.new.1 == head + j => {
                last.old.1 += step.0;
                last.new.1 += step.1;
            }
            _ => {
                found.push(Change { old: (head + i, head + i + step.0), new: (head + j, head + j + step.1) })
            }
        }
        (i, j) = (i + step.0, j + step.1);
    }
    found
}

fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut lengths = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i][j] = if old[i] == new[j] {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    lengths
}
