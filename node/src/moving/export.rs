//! `orch export`: objects as manifests, in files or as one stream.
//!
//! Owns what a manifest leaves out. Without `--exact` it is what a person would have written: no identity, no status, and no object that a
//! controller makes of another one.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::kinds::{Kind, discover, place_of};
use super::left_out;
use super::servers::{Cursor, Pool};
use crate::admin::Access;
use crate::cli::ExportArgs;

/// Permissions of a manifest, which may be a secret.
const OWNER_ALONE: u32 = 0o600;

/// Members of the metadata that a server gives.
const GIVEN: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "deletionTimestamp",
];

/// Writes the objects of the server that `arguments` name into their directory, or to `out` as one stream.
///
/// # Errors
/// The server cannot be used, or a file cannot be written.
pub fn export(arguments: &ExportArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let source = match &arguments.kubeconfig {
        Some(file) => Access::in_context(file, arguments.context.as_deref())?,
        None => Access::of(&arguments.access())?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(arguments, &source, out))
}

async fn carry_out(arguments: &ExportArgs, source: &Access, out: &mut impl Write) -> anyhow::Result<()> {
    let pool = Pool::new(source);
    let served = discover(&pool).await?;
    let mut count = 0_u64;
    for kind in served.kinds() {
        if left_out::of_kind(served.brand, kind, arguments.with_events).is_some() {
            continue;
        }
        let mut cursor = Cursor::default();
        while let Some(page) = pool.page(&kind.list(), &mut cursor).await? {
            for object in page.items {
                if left_out::of_object(served.brand, kind, &object).is_some() {
                    continue;
                }
                let place = place_of(&object);
                let Some(manifest) = manifest(kind, object, arguments.exact) else { continue };
                count += 1;
                match &arguments.dir {
                    Some(dir) => write_file(dir, kind, &place, &manifest)?,
                    None => write!(out, "---\n{manifest}")?,
                }
            }
            if page.next.is_empty() {
                break;
            }
        }
    }
    if let Some(dir) = &arguments.dir {
        writeln!(out, "{count} objects in {}", dir.display())?;
    }
    Ok(())
}

/// `object` as YAML; `None`: a controller makes it.
fn manifest(kind: &Kind, mut object: Value, is_exact: bool) -> Option<String> {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.kind);
    if !is_exact {
        let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        if owners.into_iter().any(|owner| owner["controller"] == true) {
            return None;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            GIVEN.iter().for_each(|field| drop(metadata.remove(*field)));
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
    }
    serde_norway::to_string(&object).ok()
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
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ALONE).open(&path);
    opened.and_then(|mut file| file.write_all(manifest.as_bytes())).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_what_a_person_would_have_written() {
        let kind = Kind {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            kind: "Deployment".to_owned(),
            namespaced: true,
        };
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"k": "v"}},
            "spec": {"replicas": 1}, "status": {"replicas": 1},
        });
        let text = manifest(&kind, object.clone(), false).unwrap();
        let read: Value = serde_norway::from_str(&text).unwrap();
        assert_eq!(
            read,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1},
                "metadata": {"name": "a", "namespace": "n", "labels": {"k": "v"}},
            })
        );
        let exact: Value = serde_norway::from_str(&manifest(&kind, object.clone(), true).unwrap()).unwrap();
        assert_eq!(exact["metadata"]["uid"], "u");
        let mut owned = object;
        owned["metadata"]["ownerReferences"] = json!([{"uid": "o", "controller": true}]);
        assert!(manifest(&kind, owned.clone(), false).is_none() && manifest(&kind, owned, true).is_some());
    }
}
