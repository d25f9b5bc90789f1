//! Documents of files: YAML or JSON, several in a file, lists taken apart.
//!
//! Owns the place of a document in messages: its file and its number there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use orch_schema::value::Value;
use orch_schema::{Schema, yaml_value};

/// Bytes of a file: the largest known file of definitions has a few megabytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// An object in a file.
#[derive(Clone, Debug)]
pub(super) struct Document {
    /// The object.
    pub(super) value: Value,
    /// Where it stands, for messages.
    pub(super) place: String,
}

/// The objects of `files`, in order.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        let context = || format!("cannot read {}", file.display());
        let length = fs::metadata(file).with_context(context)?.len();
        anyhow::ensure!(length <= FILE_BYTES_MAX, "{} has more than 64 MiB", file.display());
        let text = fs::read_to_string(file).with_context(context)?;
        for (at, part) in parts(&text).into_iter().enumerate() {
            let place = place(file, at);
            let value = yaml_value(&Schema::default(), part.as_bytes()).with_context(|| place.clone())?;
            add(value, place, &mut documents)?;
        }
    }
    Ok(documents)
}

fn place(file: &Path, at: usize) -> String {
    match at {
        0 => file.display().to_string(),
        at => format!("{}, document {}", file.display(), at + 1),
    }
}

fn add(value: Value, place: String, documents: &mut Vec<Document>) -> anyhow::Result<()> {
    if value.is_null() {
        return Ok(());
    }
    anyhow::ensure!(value.is_object(), "{place} is no object");
    if text(&value, "kind") == "List" && text(&value, "apiVersion") == "v1" {
        let items = value.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (at, item) in items.iter().enumerate() {
            add(item.clone(), format!("{place}, item {}", at + 1), documents)?;
        }
        return Ok(());
    }
    anyhow::ensure!(!name(&value).is_empty(), "{place}: an object needs metadata.name");
    documents.push(Document { value, place });
    Ok(())
}

/// The documents of a text, which lines of three dashes separate.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        if line.trim_end() == "---" || line.starts_with("--- ") {
            parts.push(String::new());
            continue;
        }
        let last = parts.last_mut().expect("there is a first part");
        last.push_str(line);
        last.push('\n');
    }
    let is_document = |part: &String| {
        part.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    };
    parts.into_iter().filter(is_document).collect()
}

/// The text in `field`; empty where there is none.
pub(super) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    object.get("metadata").map_or("", |metadata| text(metadata, "name"))
}

/// The namespace that an object names.
pub(super) fn namespace(object: &Value) -> Option<&str> {
    let namespace = object.get("metadata").map_or("", |metadata| text(metadata, "namespace"));
    (!namespace.is_empty()).then_some(namespace)
}
