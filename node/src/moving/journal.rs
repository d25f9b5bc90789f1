//! The state file of an import: what was begun and what is done, so that a run after a break goes on.
//!
//! Owns its form: a line for each fact, fields separated by tabs, written before the object is sent. A line without a dot as its last
//! field is broken, and left out. It holds names, uids and the target's reasons, which may quote a field,
//! and no other content.
//!
//!     move  1  SOURCE  TARGET             uids of the services of both APIs
//!     copy  KIND  PLACE  UID  OWNERS      the object is about to be sent, for the first time or with other owners; uids, separated by commas
//!     fail  KIND  PLACE  UID  REASON      the target refused the object, or it comes later; the target has nothing of it
//!     stale KIND  PLACE  UID  REASON      the same of a change of the object: the target has its former state
//!     good  KIND  PLACE  UID              an object that was refused is at the target
//!     gone  KIND  PLACE                   the object was removed, and with a definition those of its kind
//!     kind  KIND  VERSION                 everything up to this version is copied, but for what was refused
//!     open                                changes are followed from here on: `kind` lines tell of watches, which end anywhere
//!     anew                                every kind is listed again from here on: `kind` lines before do not count
//!
//! Invariant: a `copy` line is on the disk before its object is sent: without it nobody would remove the object that the source deletes
//! before the next run. Other lines are not synced: a loss of power has their work done again.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

use anyhow::{Context, bail};

use super::copied::{Copied, Left, Refusal};
use crate::cli::ImportArgs;

/// The form of the file.
const FORM: &str = "1";

/// Bytes of a state file that is read: ten million objects.
const BYTES_MAX: u64 = 2 << 30;

/// Permissions of the file: a reason of the target may quote what it refuses.
const OWNER_ALONE: u32 = 0o600;

/// Characters of a reason that are kept.
const REASON_CHARACTERS_MAX: usize = 500;

/// The state file, open at its end; none in a dry run.
pub(super) struct Journal(Option<File>);

impl Journal {
    /// Opens the state file of `arguments`, and reads what it says about a move between `ends`, which are names of both clusters.
    ///
    /// # Errors
    /// It cannot be read or written, or is of another move.
    pub(super) fn open(arguments: &ImportArgs, ends: &[String; 2]) -> anyhow::Result<(Journal, Copied)> {
        if arguments.dry_run {
            return Ok((Journal(None), Copied::default()));
        }
        let path = &arguments.state;
        let shown = || path.display().to_string();
        let copied = match std::fs::metadata(path) {
            Ok(found) if found.len() > BYTES_MAX => bail!("{}: longer than {BYTES_MAX} bytes", shown()),
            Ok(_) => {
                let text = std::fs::read_to_string(path).with_context(shown)?;
                Some(parse(&text, ends).with_context(shown)?)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(shown),
        };
        let opened = OpenOptions::new().create(true).append(true).mode(OWNER_ALONE).open(path);
        let file = opened.with_context(shown)?;
        if file.metadata().with_context(shown)?.is_file() {
            // One of another owner, or of a file system without permissions, stays as it is.
            let _ = file.set_permissions(Permissions::from_mode(OWNER_ALONE));
        }
        let mut journal = Journal(Some(file));
        match copied {
            // The last line may be broken: what follows stands on its own.
            Some(copied) => {
                journal.write("\n")?;
                Ok((journal, copied))
            }
            None => {
                let [source, target] = ends;
                journal.write(&format!("move\t{FORM}\t{source}\t{target}\n"))?;
                Ok((journal, Copied::default()))
            }
        }
    }

    /// Appends `lines`, which reach the file before this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&mut self, lines: &str) -> anyhow::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(lines.as_bytes()).context("the state file cannot be written"),
            None => Ok(()),
        }
    }

    /// Appends `lines`, which are on the disk before this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_synced(&mut self, lines: &str) -> anyhow::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.write(lines)?;
        match &self.0 {
            Some(file) => file.sync_data().context("the state file cannot be synced"),
            None => Ok(()),
        }
    }
}

pub(super) fn copy_line((kind, place): (&str, &str), uid: &str, owners: &[String]) -> String {
    format!("copy\t{kind}\t{place}\t{uid}\t{}\t.\n", owners.join(","))
}

pub(super) fn gone_line((kind, place): (&str, &str)) -> String {
    format!("gone\t{kind}\t{place}\t.\n")
}

pub(super) fn refusal_line((kind, place): (&str, &str), uid: &str, reason: &str, left: Left) -> String {
    let word = match left {
        Left::Nothing => "fail",
        Left::Former => "stale",
    };
    let shown = reason.chars().map(|c| if c.is_control() { ' ' } else { c });
    let reason: String = shown.take(REASON_CHARACTERS_MAX).collect();
    format!("{word}\t{kind}\t{place}\t{uid}\t{reason}\t.\n")
}

pub(super) fn good_line((kind, place): (&str, &str), uid: &str) -> String {
    format!("good\t{kind}\t{place}\t{uid}\t.\n")
}

pub(super) fn kind_line(kind: &str, version: &str) -> String {
    format!("kind\t{kind}\t{version}\t.\n")
}

/// The line of the begin of following.
pub(super) const OPEN_LINE: &str = "open\t.\n";

/// The line of the begin of a list of everything.
pub(super) const ANEW_LINE: &str = "anew\t.\n";

fn parse(text: &str, ends: &[String; 2]) -> anyhow::Result<Copied> {
    let mut lines = text.split_inclusive('\n');
    let head: Vec<&str> = lines.next().unwrap_or_default().trim_end().split('\t').collect();
    match head.as_slice() {
        ["move", FORM, source, target] if [*source, *target] == [ends[0].as_str(), ends[1].as_str()] => {}
        ["move", FORM, ..] => bail!("it is of a move between other clusters; name another file with --state"),
        _ => bail!("it is no state file of an import; name another file with --state"),
    }
    let mut copied = Copied::default();
    // By the id of the kind: the places that were begun since it was copied to its end.
    let mut begun: HashMap<String, HashSet<String>> = HashMap::new();
    // A line without its end was being written when a run ended: the object was not sent.
    for line in lines.filter_map(|line| line.strip_suffix("\t.\n")) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["copy", kind, place, uid, owners] => {
                let owners = owners.split(',').filter(|owner| !owner.is_empty()).map(str::to_owned);
                copied.expect((kind, place), uid, &owners.collect::<Vec<_>>());
                begun.entry((*kind).to_owned()).or_default().insert((*place).to_owned());
            }
            [word @ ("fail" | "stale"), kind, place, uid, reason] => {
                let left = if *word == "fail" { Left::Nothing } else { Left::Former };
                let (uid, reason) = ((*uid).to_owned(), (*reason).to_owned());
                copied.set_refusal((kind, place), Refusal { uid, reason, left });
            }
            ["good", kind, place, uid] => {
                copied.note_present((kind, place), uid);
            }
            ["gone", kind, place] => copied.remove((kind, place)),
            ["kind", kind, version] => {
                copied.set_version(kind, version);
                copied.settle(kind, &begun.remove(*kind).unwrap_or_default());
            }
            ["open"] => copied.note_followed(),
            ["anew"] => copied.forget_versions(),
            _ => bail!("there is a line of an unknown form; name another file with --state"),
        }
    }
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_last_line_is_left_out() {
        let ends = ["s".to_owned(), "t".to_owned()];
        let mut text = "move\t1\ts\tt\n".to_owned();
        text += &copy_line(("a", "n/x"), "u", &["o".to_owned(), "p".to_owned()]);
        text += &kind_line("a", "17");
        text += &copy_line(("b", "n/y"), "v", &[]);
        text += &gone_line(("a", "n/x"));
        text += "copy\tb\tn/z\tw";
        let copied = parse(&text, &ends).unwrap();
        assert_eq!((copied.len(), copied.version("a"), copied.version("b")), (1, Some("17"), None));
        assert_eq!(copied.uid_at(("b", "n/y")).as_deref(), Some("v"));
        text += "\nkind\tb\t18\t.\n";
        assert_eq!(parse(&text, &ends).unwrap().version("b"), Some("18"), "a later run wrote behind it");
    }

    #[test]
    fn refused_objects_are_neither_present_nor_forgotten() {
        let ends = ["s".to_owned(), "t".to_owned()];
        let mut text = "move\t1\ts\tt\n".to_owned();
        for place in ["n/x", "n/y", "n/z"] {
            text += &copy_line(("a", place), place, &[]);
        }
        text += &refusal_line(("a", "n/x"), "n/x", "two\nlines\tand a tab", Left::Nothing);
        text += &refusal_line(("a", "n/y"), "n/y", "no", Left::Former);
        text += &refusal_line(("a", "n/z"), "n/z", "no", Left::Nothing);
        text += &kind_line("a", "17");
        text += &good_line(("a", "n/z"), "n/z");
        let copied = parse(&text, &ends).unwrap();
        let present = ["n/x", "n/y", "n/z"].map(|place| copied.is_present_at(("a", place)));
        assert_eq!(present, [false, true, true]);
        assert_eq!(copied.refused_of("a"), ["n/x", "n/y"]);
        assert_eq!(copied.refusals()[&("a".to_owned(), "n/x".to_owned())].reason, "two lines and a tab");
        text += &gone_line(("a", "n/x"));
        assert_eq!(parse(&text, &ends).unwrap().refused_of("a"), ["n/y"]);
    }

    #[test]
    fn an_object_begun_after_its_kind_was_copied_is_not_certainly_there() {
        let ends = ["s".to_owned(), "t".to_owned()];
        let mut text = "move\t1\ts\tt\n".to_owned();
        text += &copy_line(("a", "n/x"), "u", &[]);
        text += &kind_line("a", "17");
        text += &copy_line(("a", "n/y"), "v", &[]);
        let copied = parse(&text, &ends).unwrap();
        let present = ["n/x", "n/y"].map(|place| copied.is_present_at(("a", place)));
        assert_eq!(present, [true, false]);
        text += &kind_line("a", "18");
        assert!(parse(&text, &ends).unwrap().is_present_at(("a", "n/y")));
    }

    #[test]
    fn versions_of_watches_count_until_everything_is_listed_again() {
        let ends = ["s".to_owned(), "t".to_owned()];
        let mut text = format!("move\t1\ts\tt\n{OPEN_LINE}");
        text += &copy_line(("a", "n/x"), "u", &[]);
        text += &kind_line("a", "17");
        let copied = parse(&text, &ends).unwrap();
        assert!(copied.is_followed() && copied.version("a") == Some("17"));
        text += ANEW_LINE;
        let copied = parse(&text, &ends).unwrap();
        assert!(!copied.is_followed() && copied.version("a").is_none());
        assert!(copied.is_present_at(("a", "n/x")));
    }

    #[test]
    fn the_file_of_another_move_is_refused() {
        let ends = ["s".to_owned(), "t".to_owned()];
        assert!(parse("move\t1\ts\tother\n", &ends).is_err());
        assert!(parse("apiVersion: v1\n", &ends).is_err() && parse("", &ends).is_err());
    }
}
