//! `orch snapshot extract`: objects of a snapshot as YAML.
//!
//! Owns the choice of objects and the files that they go into. The snapshot is verified to its end before the first object
//! is written. Paths of files are made of names that a snapshot's reader has checked: none reaches out of the folder.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use orch_api::registry::Registry;
use orch_proto::Brand;
use orch_raft::archive::Record;
use orch_raft::{Object, ObjectPath};
use serde_json::Value;

use super::notes::Notes;
use super::source::SnapshotFile;
use crate::cli::ExtractArgs;

/// Longest name of a file on common systems, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// The end of a file's name.
const SUFFIX: &str = ".yaml";

/// Writes the objects that are asked for.
pub(super) fn extract(
    arguments: &ExtractArgs,
    out: &mut impl Write,
    notes: &mut Notes<impl Write>,
) -> anyhow::Result<()> {
    let file = SnapshotFile::new(&arguments.file, &arguments.identity)?;
    let whole = || format!("{}", file.path().display());
    let (header, _) = file.open()?.0.verify().with_context(whole)?;
    let Some(brand) = Brand::named(&header.brand) else {
        bail!("{}: this program does not know the brand {:?}; use a newer one", whole(), header.brand)
    };
    let kinds = Kinds::of(brand);
    let wanted = arguments.resource.as_deref().map(|name| kinds.storage(name)).transpose()?;
    if let Some(folder) = &arguments.output {
        let error = || format!("cannot make the folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(error)?;
    }
    let (mut found, mut unknown) = (0_u64, BTreeMap::<Arc<str>, u64>::new());
    for record in file.open()?.0 {
        let record = record.with_context(whole)?;
        if !is_wanted(&record, wanted.as_deref(), arguments) {
            continue;
        }
        let Some(kind) = kinds.by_storage.get(&record.resource) else {
            *unknown.entry(record.resource).or_default() += 1;
            continue;
        };
        found += 1;
        let yaml =
            kind.yaml(&record.object).with_context(|| format!("{} {:?}", record.resource, record.path))?;
        match &arguments.output {
            Some(folder) => write_file(&path_of(folder, &kind.name, &record.path), &yaml)?,
            None => write!(out, "---\n{yaml}")?,
        }
    }
    for (resource, objects) in unknown {
        notes.tell(format_args!("left out: {objects} objects of {resource}, which no API serves"));
    }
    if found == 0 {
        bail!("no such object is in the snapshot; `orch snapshot inspect` lists its resources");
    }
    Ok(())
}

fn is_wanted(record: &Record, resource: Option<&str>, arguments: &ExtractArgs) -> bool {
    let path = ObjectPath::of(&record.path);
    let matches =
        |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    resource.is_none_or(|resource| *record.resource == *resource)
        && matches(&arguments.namespace, path.namespace())
        && matches(&arguments.name, path.name())
}

/// `FOLDER/RESOURCE/NAMESPACE/NAME.yaml`, without the namespace where there is none.
fn path_of(folder: &Path, resource: &str, path: &str) -> PathBuf {
    let (namespace, name) = ObjectPath::of(path).parts();
    let name = match name.len() + SUFFIX.len() <= FILE_NAME_BYTES_MAX {
        true => format!("{name}{SUFFIX}"),
        false => name.to_owned(),
    };
    match namespace {
        "" => folder.join(resource).join(name),
        namespace => folder.join(resource).join(namespace).join(name),
    }
}

/// Errors show paths with control characters escaped: names come from the file.
fn write_file(path: &Path, yaml: &str) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(|| format!("cannot make the folder {parent:?}"))?;
    // Not made durable one by one: they are copies.
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => Ok(file.write_all(yaml.as_bytes())?),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{path:?} exists: extract into an empty folder")
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {path:?}")),
    }
}

/// The resources that this program serves, by their names in the store.
struct Kinds {
    by_storage: BTreeMap<Arc<str>, Kind>,
    /// Store names by the names of the command line: `pods`, `deployments.apps`.
    names: BTreeMap<String, Arc<str>>,
}

/// A resource in the version that is stored.
struct Kind {
    /// `deployments.apps`.
    name: String,
    /// `{"kind":"Deployment","apiVersion":"apps/v1",`.
    head: Vec<u8>,
}

impl Kinds {
    fn of(brand: &'static Brand) -> Kinds {
        let registry = Registry::builtin(brand);
        let mut kinds = Kinds { by_storage: BTreeMap::new(), names: BTreeMap::new() };
        for resource in registry.resources() {
            let name = match &*resource.group {
                "" => resource.plural.to_string(),
                group => format!("{}.{group}", resource.plural),
            };
            for name in [name.clone(), resource.plural.to_string()] {
                kinds.names.entry(name).or_insert_with(|| resource.storage.clone());
            }
            if resource.stands_for_stored() && resource.review.is_none() {
                let kind = Kind { name, head: resource.head.to_vec() };
                kinds.by_storage.entry(resource.storage.clone()).or_insert(kind);
            }
        }
        kinds
    }

    /// The name in the store of the resource that is called `name` on the command line.
    fn storage(&self, name: &str) -> anyhow::Result<Arc<str>> {
        let lower = name.to_ascii_lowercase();
        match self.names.get(&lower) {
            Some(storage) => Ok(storage.clone()),
            None => {
                bail!("--resource: there is no resource {name:?}; write it as in pods or deployments.apps")
            }
        }
    }
}

impl Kind {
    /// The object with its kind and version, as YAML.
    fn yaml(&self, object: &Object) -> anyhow::Result<String> {
        let mut whole = self.head.clone();
        whole.extend_from_slice(object.json.get(1..).unwrap_or_default());
        let value: Value = serde_json::from_slice(&whole).context("its stored form is not JSON")?;
        Ok(serde_norway::to_string(&value)?)
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    #[test]
    fn every_stored_resource_has_one_kind_and_people_find_it() {
        let kinds = Kinds::of(&ORCH);
        for name in ["pods", "secrets", "deployments", "deployments.apps", "Nodes"] {
            let storage = kinds.storage(name).unwrap();
            assert!(kinds.by_storage.contains_key(&storage), "{name} is {storage}");
        }
        assert!(kinds.storage("podz").is_err());
        let deployment = &kinds.by_storage[&kinds.storage("deployments").unwrap()];
        let head = String::from_utf8_lossy(&deployment.head).into_owned();
        assert!(head.starts_with("{\"kind\":\"Deployment\",\"apiVersion\":\"apps/v1\","), "{head}");
    }

    #[test]
    fn files_have_their_place_by_resource_namespace_and_name() {
        let folder = Path::new("out");
        assert_eq!(path_of(folder, "pods", "default/a"), Path::new("out/pods/default/a.yaml"));
        assert_eq!(path_of(folder, "nodes", "n1"), Path::new("out/nodes/n1.yaml"));
        let long = "x".repeat(253);
        assert_eq!(path_of(folder, "nodes", &long), folder.join("nodes").join(&long));
    }
}
