//! `orch export`: the objects of a server as manifests, in files or as one stream.
//!
//! Owns where they are written, and the report of what is not. `manifest` owns what a manifest leaves out.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::kinds::{Kind, declared, discover, place_of};
use super::left_out;
use super::manifest::{Form, Manifest, manifest};
use super::servers::{Cursor, Pool};
use crate::admin::Access;
use crate::cli::ExportArgs;

/// Permissions of a manifest, which may be a secret.
const OWNER_ALONE: u32 = 0o600;

/// Objects that were written, and why others were not, by the id of the kind.
#[derive(Debug, Default)]
struct Tally {
    written: u64,
    left_out: BTreeMap<(String, &'static str), u64>,
    lost: BTreeMap<(String, &'static str), u64>,
}

impl Tally {
    fn tell(&self, report: &mut impl Write) -> std::io::Result<()> {
        for ((kind, reason), count) in &self.left_out {
            writeln!(report, "{kind}: {count} left out: {reason}")?;
        }
        for ((kind, loss), count) in &self.lost {
            writeln!(report, "{kind}: {count} {loss}")?;
        }
        writeln!(report, "{} objects written", self.written)
    }
}

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
    let form = if arguments.exact { Form::Exact } else { Form::Plain };
    let mut tally = Tally::default();
    for kind in served.kinds() {
        if left_out::of_kind(served.brand, kind, arguments.with_events).is_some() {
            continue;
        }
        // A list that is begun anew, or goes on at a later version, may show an object twice.
        let (mut cursor, mut seen) = (Cursor::default(), HashSet::new());
        while let Some(page) = pool.page(&kind.list(), &mut cursor).await? {
            for object in page.items {
                let place = place_of(&object);
                if !seen.insert(place.clone()) {
                    continue;
                }
                let written = match left_out::of_object(served.brand, kind, &object) {
                    Some(reason) => Manifest::LeftOut(reason),
                    None => manifest(served.brand, kind, object, form),
                };
                match written {
                    Manifest::LeftOut(reason) => {
                        *tally.left_out.entry((kind.id(), reason)).or_default() += 1;
                    }
                    Manifest::Written(object, lost) => {
                        write_object(arguments, kind, &place, &object, out)?;
                        tally.written += 1;
                        if let Some(lost) = lost {
                            *tally.lost.entry((kind.id(), lost)).or_default() += 1;
                        }
                    }
                }
            }
            if page.next.is_empty() {
                break;
            }
        }
    }
    out.flush()?;
    Ok(tally.tell(report)?)
}

fn write_object(
    arguments: &ExportArgs,
    kind: &Kind,
    place: &str,
    object: &Value,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let text = serde_norway::to_string(object).with_context(|| format!("{} {place}", kind.id()))?;
    match &arguments.dir {
        Some(dir) => write_file(dir, kind, place, &text),
        None => Ok(write!(out, "---\n{text}")?),
    }
}

/// Writes `DIR/KIND/NAMESPACE/NAME.yaml`.
fn write_file(dir: &Path, kind: &Kind, place: &str, manifest: &str) -> anyhow::Result<()> {
    let mut path = dir.join(kind.id());
    let name = match place.split_once('/') {
        Some((namespace, name)) => {
            path.push(namespace);
            name
        }
        None => place,
    };
    // The names come from another server.
    let is_inside = path.components().all(|part| part != Component::ParentDir) && !name.contains('/');
    ensure!(is_inside, "{} {place:?} has a name that is no name of a file", kind.id());
    path.push(format!("{name}.yaml"));
    let shown = || path.display().to_string();
    fs::create_dir_all(path.parent().unwrap_or(dir)).with_context(shown)?;
    // A file that is there may be readable by others.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(shown),
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(OWNER_ALONE).open(&path);
    opened.and_then(|mut file| file.write_all(manifest.as_bytes())).with_context(shown)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_manifest_in_place_of_a_file_that_others_read_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let kind = Kind {
            group: String::new(),
            version: "v1".to_owned(),
            plural: "secrets".to_owned(),
            kind: "Secret".to_owned(),
            namespaced: true,
        };
        let path = folder.path().join("secrets/n/s.yaml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "a former and longer one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_file(folder.path(), &kind, "n/s", "a: 1\n").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode, fs::read_to_string(&path).unwrap().as_str()), (OWNER_ALONE, "a: 1\n"));
    }
}
