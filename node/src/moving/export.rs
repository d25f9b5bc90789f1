//! `orch export`: the objects of a server as manifests, in files or as one stream.
//!
//! Owns where they are written, and the report of what is not. `manifest` owns what a manifest leaves out, `exported` the state of an export into a
//! directory, with which one that was broken off goes on. A stream has none.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};

use super::exported::{Exported, Mark, Tally};
use super::kinds::{Kind, Served, declared, discover, place_of};
use super::left_out;
use super::manifest::{Form, Manifest, manifest};
use super::servers::{Cursor, Page, Pool};
use crate::admin::Access;
use crate::cli::ExportArgs;

/// Permissions of a manifest, which may be a secret.
const OWNER_ALONE: u32 = 0o600;

/// Writes the objects of the server that `arguments` name into their directory, or to `out` as one stream, and what was not written to
/// `report`.
///
/// # Errors
/// The server cannot be used, or a file cannot be written.
pub fn export(arguments: &ExportArgs, out: &mut impl Write, report: &mut impl Write) -> anyhow::Result<()> {
    let source = match &arguments.kubeconfig {
        Some(file) => Access::in_context(file, arguments.context.as_deref())?,
        None => Access::of(&arguments.access())?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(arguments, &source, out, report))
}

pub(super) async fn carry_out(
    arguments: &ExportArgs,
    source: &Access,
    out: &mut impl Write,
    report: &mut impl Write,
) -> anyhow::Result<()> {
    let pool = Pool::new(source);
    let mut served = discover(&pool).await?;
    let declared = declared(&pool, &served).await?;
    served.declare(&declared);
    let state = match &arguments.dir {
        Some(dir) => Some(Exported::open(dir, &mark(arguments, &pool, &served).await)?),
        None => None,
    };
    let mut export = Export { arguments, served: &served, state, out };
    let mut tallies = BTreeMap::new();
    if let Some(state) = &export.state {
        tallies.clone_from(state.kinds());
        if !tallies.is_empty() {
            writeln!(report, "going on behind {} kinds", tallies.len())?;
        }
    }
    for kind in served.kinds() {
        let id = kind.id();
        let stays = left_out::of_kind(served.brand, kind, arguments.with_events).is_some();
        if !stays && !tallies.contains_key(&id) {
            let tally = export.kind(kind, &pool).await?;
            tallies.insert(id, tally);
        }
    }
    export.end(&tallies)?;
    Ok(tell(&tallies, report)?)
}

/// What the manifests in a directory are of. A server without the service of its own API is known by its address.
async fn mark(arguments: &ExportArgs, pool: &Pool<'_>, served: &Served) -> Mark {
    let source = served.identity(pool).await;
    Mark {
        source: source.unwrap_or_else(|_| pool.access.servers.join(",")),
        form: if arguments.exact { "exact" } else { "plain" },
        with_events: arguments.with_events,
    }
}

fn tell(tallies: &BTreeMap<String, Tally>, report: &mut impl Write) -> std::io::Result<()> {
    for (kind, tally) in tallies {
        for (reason, count) in &tally.left_out {
            writeln!(report, "{kind}: {count} left out: {reason}")?;
        }
    }
    for (kind, tally) in tallies {
        for (loss, count) in &tally.lost {
            writeln!(report, "{kind}: {count} {loss}")?;
        }
    }
    writeln!(report, "{} objects written", tallies.values().map(|tally| tally.written).sum::<u64>())
}

/// An export under way.
struct Export<'a, W> {
    arguments: &'a ExportArgs,
    served: &'a Served,
    /// `None`: a stream.
    state: Option<Exported>,
    out: &'a mut W,
}

impl<W: Write> Export<'_, W> {
    /// Writes the objects of `kind`, and removes the manifests of those that are gone.
    async fn kind(&mut self, kind: &Kind, pool: &Pool<'_>) -> anyhow::Result<Tally> {
        let (mut tally, mut written) = (Tally::default(), BTreeSet::new());
        // A list that is begun anew, or goes on at a later version, may show an object twice.
        let (mut cursor, mut seen) = (Cursor::default(), HashSet::new());
        while let Some(mut page) = pool.page(&kind.list(), &mut cursor).await? {
            page.items.retain(|object| seen.insert(place_of(object)));
            let is_last = page.next.is_empty();
            let manifests = self.manifests(kind, page, &mut tally)?;
            if let Some(state) = &mut self.state {
                state.expect(&kind.id(), manifests.iter().map(|(place, _)| place.as_str()))?;
            }
            for (place, text) in manifests {
                match &self.arguments.dir {
                    Some(dir) => write_file(&path_in(dir, &kind.id(), &place)?, &text)?,
                    None => write!(self.out, "---\n{text}")?,
                }
                written.insert(place);
            }
            if is_last {
                break;
            }
        }
        self.remove_missing(&kind.id(), &written)?;
        if let Some(state) = &mut self.state {
            state.finish(&kind.id(), &tally)?;
        }
        Ok(tally)
    }

    /// The manifests of a page's objects, with their places; the others are counted.
    fn manifests(&self, kind: &Kind, page: Page, tally: &mut Tally) -> anyhow::Result<Vec<(String, String)>> {
        let (brand, form) = (self.served.brand, if self.arguments.exact { Form::Exact } else { Form::Plain });
        let mut manifests = Vec::new();
        for object in page.items {
            let place = place_of(&object);
            let made = match left_out::of_object(brand, kind, &object) {
                Some(reason) => Manifest::LeftOut(reason),
                None => manifest(brand, kind, object, form),
            };
            match made {
                Manifest::LeftOut(reason) => *tally.left_out.entry(reason.to_owned()).or_default() += 1,
                Manifest::Written(object, lost) => {
                    let text = serde_norway::to_string(&object);
                    let text = text.with_context(|| format!("{} {place}", kind.id()))?;
                    manifests.push((place, text));
                    tally.written += 1;
                    if let Some(lost) = lost {
                        *tally.lost.entry(lost.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        Ok(manifests)
    }

    /// Removes the manifests of the kind called `id` that this export, or one before, wrote and that are not among those `written` now.
    fn remove_missing(&mut self, id: &str, written: &BTreeSet<String>) -> anyhow::Result<()> {
        let (Some(dir), Some(state)) = (&self.arguments.dir, &mut self.state) else { return Ok(()) };
        for place in state.missing_in(id, written) {
            let path = path_in(dir, id, &place)?;
            remove_file(&path)?;
            state.note_gone(id, &place)?;
        }
        Ok(())
    }

    /// Ends an export whose kinds are all written: what was written of other kinds, which the server has no more, goes.
    fn end(&mut self, tallies: &BTreeMap<String, Tally>) -> anyhow::Result<()> {
        let known = self.state.as_ref().map(Exported::kinds_of_places).unwrap_or_default();
        for id in known.iter().filter(|id| !tallies.contains_key(*id)) {
            self.remove_missing(id, &BTreeSet::new())?;
        }
        self.out.flush()?;
        self.state.as_mut().map_or(Ok(()), Exported::end)
    }
}

/// The path of a manifest: `DIR/KIND/NAMESPACE/NAME.yaml`.
fn path_in(dir: &Path, id: &str, place: &str) -> anyhow::Result<PathBuf> {
    let mut path = dir.join(id);
    let name = match place.split_once('/') {
        Some((namespace, name)) => {
            path.push(namespace);
            name
        }
        None => place,
    };
    // The names come from another server.
    let is_inside = path.components().all(|part| part != Component::ParentDir) && !name.contains('/');
    ensure!(is_inside, "{id} {place:?} has a name that is no name of a file");
    path.push(format!("{name}.yaml"));
    Ok(path)
}

fn write_file(path: &Path, manifest: &str) -> anyhow::Result<()> {
    let shown = || path.display().to_string();
    fs::create_dir_all(path.parent().unwrap_or(path)).with_context(shown)?;
    // A file that is there may be readable by others.
    remove_file(path)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_ALONE).open(path);
    opened.and_then(|mut file| file.write_all(manifest.as_bytes())).with_context(shown)
}

/// Removes a manifest, where there is one.
fn remove_file(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| path.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_manifest_in_place_of_a_file_that_others_read_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets/n/s.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "a former and longer one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(path_in(folder.path(), "secrets", "n/s").unwrap(), path);
        write_file(&path, "a: 1\n").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, fs::read_to_string(&path).unwrap().as_str()), (OWNER_ALONE, "a: 1\n"));
        for place in ["../s", "n/../../s"] {
            assert!(path_in(folder.path(), "secrets", place).is_err(), "{place}");
        }
    }
}
