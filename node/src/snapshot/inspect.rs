//! `orch snapshot inspect`: verifies a snapshot to its end and shows its header.

use std::io::Write;

use anyhow::Context as _;
use orch_raft::archive::{Count, Header};
use serde_json::{Value, json};

use super::readable;
use super::source::SnapshotFile;
use crate::cli::{InspectSnapshotArgs, Output};
use crate::operator::date;

/// Verifies the snapshot and prints what is in it.
pub(super) fn inspect(arguments: &InspectSnapshotArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let file = SnapshotFile::new(&arguments.file, &arguments.identity)?;
    let (reader, is_sealed) = file.open()?;
    let names = reader.keys().map(|keys| keys.files().map(|(name, _)| name.to_owned()).collect());
    let (header, _) = reader.verify().with_context(|| format!("{}", file.path().display()))?;
    let size = std::fs::metadata(file.path())?.len();
    let facts = Facts { size, is_sealed, identity: names };
    match arguments.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&view(&header, &facts))?)?,
        Output::Text => out.write_all(text(&header, &facts).as_bytes())?,
    }
    Ok(())
}

/// A file, beside what its header tells.
struct Facts {
    /// Its bytes.
    size: u64,
    is_sealed: bool,
    /// Names of the files of the cluster's identity, if that is in it. Their contents are never shown.
    identity: Option<Vec<String>>,
}

/// All objects together.
pub(super) fn total(header: &Header) -> Count {
    header.resources.values().fold(Count::default(), |sum, count| Count {
        objects: sum.objects.saturating_add(count.objects),
        bytes: sum.bytes.saturating_add(count.bytes),
    })
}

/// The document of `--output json`.
fn view(header: &Header, facts: &Facts) -> Value {
    let Count { objects, bytes } = total(header);
    let members: Vec<Value> = header
        .members
        .iter()
        .map(|member| {
            let role = if member.voter { "voter" } else { "learner" };
            json!({"name": member.name, "address": member.address, "role": role})
        })
        .collect();
    let resources: Vec<Value> = header
        .resources
        .iter()
        .map(|(name, count)| json!({"resource": &**name, "objects": count.objects, "bytes": count.bytes}))
        .collect();
    json!({
        "revision": header.revision.0,
        // 0 is the time of a snapshot as a member held it.
        "time": date(header.time_ms),
        "cluster": &*header.cluster,
        "brand": &*header.brand,
        "featureLevel": header.feature_level,
        "member": header.member,
        "program": header.program,
        "members": members,
        "encrypted": facts.is_sealed,
        "identity": facts.identity,
        "fileBytes": facts.size,
        "objects": objects,
        "bytes": bytes,
        "resources": resources,
    })
}

fn text(header: &Header, facts: &Facts) -> String {
    let members = header.members.iter().map(|member| {
        let role = if member.voter { "voter" } else { "learner" };
        format!("{} ({role}, {})", member.name, member.address)
    });
    let members = members.collect::<Vec<_>>().join(", ");
    let sealed = if facts.is_sealed { "encrypted" } else { "NOT encrypted: it shows every secret" };
    let identity = match &facts.identity {
        Some(names) => format!("in it, not shown: {}", names.join(", ")),
        None => "not in it: keep the certificate directory and its keys elsewhere".to_owned(),
    };
    let Count { objects, bytes } = total(header);
    let width = header.resources.keys().map(|name| name.len()).max().unwrap_or_default().max(8);
    let mut lines = vec![
        format!("revision:       {}", header.revision),
        format!("time:           {}", date(header.time_ms)),
        format!("cluster:        {}, brand {}", header.cluster, header.brand),
        format!(
            "saved by:       {}, version {}, feature level {}",
            header.member, header.program, header.feature_level
        ),
        format!("members:        {members}"),
        format!("file:           {}, {sealed}", readable(facts.size)),
        format!("identity:       {identity}"),
        String::new(),
        format!("{:width$}  {:>10}  {:>14}", "RESOURCE", "OBJECTS", "BYTES"),
    ];
    let row = |name: &str, count: Count| format!("{name:width$}  {:>10}  {:>14}", count.objects, count.bytes);
    lines.extend(header.resources.iter().map(|(name, count)| row(name, *count)));
    lines.push(row("total", Count { objects, bytes }));
    lines.push(String::new());
    lines.push("The snapshot is whole.".to_owned());
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_shown_in_words_and_as_a_document() {
        let header = Header {
            cluster: "5f0c".into(),
            revision: orch_raft::Revision(42),
            time_ms: 1_700_000_000_000,
            resources: [("pods".into(), Count { objects: 2, bytes: 300 })].into(),
            ..Header::default()
        };
        let mut facts = Facts { size: 2048, is_sealed: false, identity: None };
        let shown = text(&header, &facts);
        assert!(shown.contains("identity:       not in it"), "{shown}");
        assert!(shown.contains("revision:       42\n") && shown.contains("2023-11-14T22:13:20Z"), "{shown}");
        assert!(shown.contains("2.0 KiB, NOT encrypted"), "{shown}");
        assert!(shown.ends_with("The snapshot is whole.\n"), "{shown}");
        (facts.is_sealed, facts.identity) = (true, Some(vec!["ca.key".to_owned()]));
        let shown = text(&header, &facts);
        assert!(shown.contains("encrypted\nidentity:       in it, not shown: ca.key\n"), "{shown}");
        let view = view(&header, &facts);
        assert_eq!((&view["objects"], &view["encrypted"]), (&json!(2), &json!(true)));
        assert_eq!(view["identity"], json!(["ca.key"]));
        assert_eq!(view["resources"][0], json!({"resource": "pods", "objects": 2, "bytes": 300}));
    }
}
