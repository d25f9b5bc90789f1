//! The state file of an export into a directory: which manifests it wrote, and which kinds it wrote to their end.
//!
//! Owns its form, that of the state file of an import: a line for each fact, fields separated by tabs, a dot as the last one. It holds names
//! and no content. With it an export that was broken off goes on, and a later one into the same directory removes the manifests of objects that
//! are gone.
//!
//!     export  1  SOURCE  FORM  EVENTS     uid of the service of the source's API, what manifests keep, whether events are among them
//!     file  KIND  PLACE                   the manifest is about to be written
//!     gone  KIND  PLACE                   it is removed
//!     left  KIND  COUNT  REASON           objects that are not written
//!     lost  KIND  COUNT  LOSS             objects that are written without something
//!     kind  KIND  COUNT                   everything of the kind is written: so many manifests
//!     done                                so is every kind: the next run begins anew
//!
//! Invariant: a `file` line is on the disk before its manifest, and all manifests of a kind before its `kind` line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// Its name in the directory, which no reader of manifests takes for one.
pub(super) const STATE: &str = ".orch-export.state";

/// The form of the file.
const FORM: &str = "1";

/// Bytes of a state file that is read: ten million objects.
const BYTES_MAX: u64 = 2 << 30;

/// Permissions of the file.
const OWNER_ALONE: u32 = 0o600;

/// Objects of one kind that were written, and why others were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) written: u64,
    /// By the reason.
    pub(super) left_out: BTreeMap<String, u64>,
    /// Objects that were written without something, by what that is.
    pub(super) lost: BTreeMap<String, u64>,
}

/// An export that makes the same manifests.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// A name of the source.
    pub(super) source: String,
    /// What manifests keep.
    pub(super) form: &'static str,
    pub(super) with_events: bool,
}

/// The state of an export, and its file, open at the end.
#[derive(Debug)]
pub(super) struct Exported {
    file: File,
    written: Written,
}

/// What the file says.
#[derive(Debug, Default)]
struct Written {
    /// The places of manifests that may be in the directory, by the id of the kind.
    places: BTreeMap<String, BTreeSet<String>>,
    /// The kinds that were written to their end by this export, which was broken off.
    kinds: BTreeMap<String, Tally>,
}

impl Exported {
    /// Reads the state file in `dir`, or makes one.
    ///
    /// # Errors
    /// It cannot be read or written, or is of another export.
    pub(super) fn open(dir: &Path, mark: &Mark) -> anyhow::Result<Exported> {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let path = dir.join(STATE);
        let shown = || path.display().to_string();
        let written = match fs::metadata(&path) {
            Ok(found) if found.len() > BYTES_MAX => bail!("{}: longer than {BYTES_MAX} bytes", shown()),
            Ok(_) => {
                let text = fs::read_to_string(&path).with_context(shown)?;
                Some(parse(&text, mark).with_context(shown)?)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(shown),
        };
        let file = OpenOptions::new().create(true).append(true).mode(OWNER_ALONE).open(&path);
        let mut file = file.with_context(shown)?;
        // One of another owner stays as it is.
        let _ = file.set_permissions(Permissions::from_mode(OWNER_ALONE));
        let first = match &written {
            // The last line may be broken: what follows stands on its own.
            Some(_) => "\n".to_owned(),
            None => head(mark),
        };
        file.write_all(first.as_bytes()).with_context(shown)?;
        Ok(Exported { file, written: written.unwrap_or_default() })
    }

    /// The kinds that an export which was broken off wrote to their end.
    pub(super) fn kinds(&self) -> &BTreeMap<String, Tally> {
        &self.written.kinds
    }

    /// The kinds of which there may be manifests.
    pub(super) fn kinds_of_places(&self) -> Vec<String> {
        self.written.places.keys().cloned().collect()
    }

    /// Notes that the manifests of `kind` at `places` are about to be written.
    pub(super) fn expect<'p>(
        &mut self,
        kind: &str,
        places: impl Iterator<Item = &'p str>,
    ) -> anyhow::Result<()> {
        let (mut lines, of_kind) = (String::new(), self.written.places.entry(kind.to_owned()).or_default());
        for place in places {
            if of_kind.insert(place.to_owned()) {
                // Writing to a string cannot fail.
                let _ = write!(lines, "file\t{kind}\t{place}\t.\n");
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.append(&lines)?;
        self.file.sync_data().context("the state file cannot be synced")
    }

    /// The places of manifests of `kind` that `written` lacks.
    pub(super) fn missing_in(&self, kind: &str, written: &BTreeSet<String>) -> Vec<String> {
        let places = self.written.places.get(kind).into_iter().flatten();
        places.filter(|place| !written.contains(*place)).cloned().collect()
    }

    /// Notes that there is no manifest of `kind` at `place` any more.
    pub(super) fn note_gone(&mut self, kind: &str, place: &str) -> anyhow::Result<()> {
        if let Some(places) = self.written.places.get_mut(kind) {
            places.remove(place);
        }
        self.append(&format!("gone\t{kind}\t{place}\t.\n"))
    }

    /// Notes that everything of `kind` is written, once all of it is on the disk.
    pub(super) fn finish(&mut self, kind: &str, tally: &Tally) -> anyhow::Result<()> {
        rustix::fs::syncfs(&self.file).context("the directory cannot be synced")?;
        let mut lines = String::new();
        for (word, counts) in [("left", &tally.left_out), ("lost", &tally.lost)] {
            for (reason, count) in counts {
                // Writing to a string cannot fail.
                let _ = write!(lines, "{word}\t{kind}\t{count}\t{reason}\t.\n");
            }
        }
        lines += &format!("kind\t{kind}\t{}\t.\n", tally.written);
        self.append(&lines)
    }

    /// Notes that every kind is written.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.append("done\t.\n")
    }

    fn append(&mut self, lines: &str) -> anyhow::Result<()> {
        self.file.write_all(lines.as_bytes()).context("the state file cannot be written")
    }
}

fn head(mark: &Mark) -> String {
    let events = if mark.with_events { "events" } else { "none" };
    format!("export\t{FORM}\t{}\t{}\t{events}\n", mark.source, mark.form)
}

fn parse(text: &str, mark: &Mark) -> anyhow::Result<Written> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    ensure!(
        first == head(mark),
        "it is of another export (of another server, or with other flags): name another directory, or remove this one"
    );
    let (mut written, mut tallies) = (Written::default(), BTreeMap::<String, Tally>::new());
    for line in lines.filter_map(|line| line.strip_suffix("\t.\n")) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["file", kind, place] => {
                written.places.entry((*kind).to_owned()).or_default().insert((*place).to_owned());
            }
            ["gone", kind, place] => {
                if let Some(places) = written.places.get_mut(*kind) {
                    places.remove(*place);
                }
            }
            [word @ ("left" | "lost"), kind, count, reason] => {
                let tally = tallies.entry((*kind).to_owned()).or_default();
                let counts = if *word == "left" { &mut tally.left_out } else { &mut tally.lost };
                counts.insert((*reason).to_owned(), count.parse()?);
            }
            ["kind", kind, count] => {
                let tally = Tally { written: count.parse()?, ..tallies.remove(*kind).unwrap_or_default() };
                written.kinds.insert((*kind).to_owned(), tally);
            }
            ["done"] => written.kinds.clear(),
            _ => bail!("there is a line of an unknown form: name another directory, or remove this one"),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        Mark { source: "s".to_owned(), form: "plain", with_events: false }
    }

    fn set(places: &[&str]) -> BTreeSet<String> {
        places.iter().map(|place| (*place).to_owned()).collect()
    }

    #[test]
    fn manifests_are_known_after_a_break_and_a_whole_export_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = Exported::open(folder.path(), &mark()).unwrap();
        state.expect("a", ["n/x", "n/y"].into_iter()).unwrap();
        let left_out = BTreeMap::from([("no".to_owned(), 2)]);
        let tally = Tally { written: 2, left_out, lost: BTreeMap::new() };
        state.finish("a", &tally).unwrap();
        state.expect("b", ["n/z"].into_iter()).unwrap();
        state.note_gone("a", "n/y").unwrap();
        // The line that was being written when the process was killed.
        state.append("file\tb\tn/q").unwrap();
        let mut state = Exported::open(folder.path(), &mark()).unwrap();
        assert_eq!(state.kinds(), &BTreeMap::from([("a".to_owned(), tally)]));
        assert_eq!(state.missing_in("a", &BTreeSet::new()), ["n/x"]);
        assert_eq!(state.missing_in("b", &set(&["n/z"])), [""; 0]);
        state.end().unwrap();
        let state = Exported::open(folder.path(), &mark()).unwrap();
        assert!(state.kinds().is_empty() && state.kinds_of_places() == ["a", "b"]);
        let mode = fs::metadata(folder.path().join(STATE)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, OWNER_ALONE);
    }

    #[test]
    fn the_state_of_another_export_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Exported::open(folder.path(), &mark()).unwrap());
        for other in [
            Mark { source: "t".to_owned(), ..mark() },
            Mark { form: "exact", ..mark() },
            Mark { with_events: true, ..mark() },
        ] {
            let refused = Exported::open(folder.path(), &other).unwrap_err();
            assert!(format!("{refused:#}").contains("of another export"), "{refused:#}");
        }
    }
}
