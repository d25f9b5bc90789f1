//! The custom kind whose objects have the form of config maps, to measure one beside the other.
//!
//! Owns its definition: a plain schema with one map of strings, no status, no columns, no rules.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::fixture::ask;
use super::target::Target;

/// Group of the kind.
pub(super) const GROUP: &str = "custom.bench.example.com";

/// Plural name of the kind.
pub(super) const PLURAL: &str = "benchmaps";

/// The kind.
pub(super) const KIND: &str = "BenchMap";

/// Looks at whether the kind is served, 100 ms apart: the reference takes seconds.
const LOOKS: usize = 300;

/// Creates the definition, unless it exists, and waits until its objects are served.
pub(super) fn define(target: &Target) -> Result<()> {
    let schema = json!({
        "type": "object",
        "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
    });
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let group = extensions(target)?;
    let document = json!({
        "apiVersion": format!("{group}/v1"), "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{PLURAL}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": PLURAL, "kind": KIND},
            "versions": [version],
        },
    });
    let path = format!("/apis/{group}/v1/customresourcedefinitions");
    let answer = ask(target, async |client| client.post(&path, &document).await)?;
    if answer.status != 409 {
        answer.success().context("cannot make the definition")?;
    }
    let path = format!("/apis/{GROUP}/v1/{PLURAL}?limit=1");
    for _ in 0..LOOKS {
        if ask(target, async |client| client.get(&path).await)?.status == 200 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the custom kind is not served")
}

/// Removes the definition with all objects.
pub(super) fn remove(target: &Target) -> Result<()> {
    let path = format!("/apis/{}/v1/customresourcedefinitions/{PLURAL}.{GROUP}", extensions(target)?);
    ask(target, async |client| client.delete(&path).await)?.success()?;
    Ok(())
}

/// The group of definitions, under the server's brand.
fn extensions(target: &Target) -> Result<String> {
    let groups = ask(target, async |client| client.get("/apis").await)?.success()?;
    let groups = groups["groups"].as_array().context("no groups are served")?;
    let mut names = groups.iter().filter_map(|group| group["name"].as_str());
    let found = names.find(|name| name.starts_with("apiextensions."));
    Ok(found.context("no definitions are served")?.to_owned())
}
