//! Warnings about volumes: sources that are gone, sizes that are no whole bytes, and files in one place.

use std::collections::BTreeMap;

use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::WARNINGS_MAX;
use crate::kinds::volume_claim::warn_about_sizes;
use crate::validate::Path;
use crate::validate::tree::Tree;

/// Sources of volumes that are gone or go, each by the name that the reference tells, and why.
const SOURCES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Sources with files, by their name and by that of the object in them.
const FILES: [(&str, &str, &str); 3] = [
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("downwardAPI", "DownwardAPI", ""),
];

/// Bytes of the longest path that a file can have.
const PATH_MAX: usize = 4096;

/// Warnings about the volumes of a pod.
pub(super) fn warn_about_volumes(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, volume) in spec.items("volumes").iter().numbered() {
        let path = path.index(at);
        let gone = SOURCES.iter().filter(|(source, ..)| volume.has(source));
        warnings.extend(gone.map(|(_, shown, text)| format!("{}: {text}", path.child(shown))));
        let claim = volume.at("ephemeral").at("volumeClaimTemplate").at("spec");
        let claim_path = path.child("ephemeral").child("volumeClaimTemplate").child("spec");
        warnings.extend(warn_about_sizes(claim, &claim_path));
        if warnings.len() > WARNINGS_MAX {
            break;
        }
    }
    for volume in spec.items("volumes").iter().take_while(|_| count_step()) {
        warn_about_files(volume, &mut warnings);
        if warnings.len() > WARNINGS_MAX {
            break;
        }
    }
    warnings
}

/// The paths of a volume's files so far, with what each is of.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<String>>);

impl Files {
    /// Adds the file of `source`, and tells with which others it shares a place.
    fn add(&mut self, path: &str, source: &str, volume: &str, warnings: &mut Vec<String>) {
        let path = path.trim_end_matches('/');
        if path.is_empty() || path.len() > PATH_MAX || warnings.len() > WARNINGS_MAX || !count_step() {
            return;
        }
        let below = format!("{path}/");
        let above = path.match_indices('/').map(|(end, _)| &path[..end]).chain([path]);
        let above = above.filter_map(|above| self.0.get_key_value(above));
        let below = self.0.range(below.clone()..).take_while(|(other, _)| other.starts_with(&below));
        let shown = |path: &str, source: &str| match source {
            "" => quoted(path),
            source => format!("{} ({source})", quoted(path)),
        };
        for (other, sources) in above.chain(below) {
            for other_source in sources.iter().take(WARNINGS_MAX) {
                let (this, other) = (shown(path, source), shown(other, other_source));
                warnings.push(format!("{volume}: overlapping paths: {this} with {other}"));
            }
        }
        self.0.entry(path.to_owned()).or_default().push(source.to_owned());
    }
}

fn warn_about_files(volume: &Value, warnings: &mut Vec<String>) {
    let name = quoted(volume.text("name"));
    for (field, kind, name_field) in FILES {
        let source = volume.at(field);
        let shown = format!("volume {name} ({})", described(kind, source.text(name_field)));
        let mut files = Files::default();
        for item in source.items("items") {
            files.add(item.text("path"), "", &shown, warnings);
        }
    }
    let (mut files, shown) = (Files::default(), format!("volume {name} (Projected)"));
    for source in volume.at("projected").items("sources") {
        // An empty object joins nothing.
        if source.as_object().is_none_or(|members| members.iter().all(|(_, member)| member.is_null())) {
            warnings.push(format!("{shown} has no sources provided"));
        }
        for (field, kind, _) in FILES {
            let part = source.at(field);
            let described = described(kind, part.text("name"));
            for item in part.items("items") {
                files.add(item.text("path"), &described, &shown, warnings);
            }
        }
        files.add(source.at("serviceAccountToken").text("path"), "ServiceAccountToken", &shown, warnings);
    }
}

fn described(kind: &str, name: &str) -> String {
    if kind == "DownwardAPI" { kind.to_owned() } else { format!("{kind} {}", quoted(name)) }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn check(volume: Value, expected: &[&str]) {
        assert_eq!(warn_about_volumes(&json!({"volumes": [volume]}), &Path::new("v")), expected, "{volume}");
    }

    #[test]
    fn sources_that_are_gone_are_told() {
        check(
            json!({"name": "a", "storageos": {}, "rbd": {}}),
            &[
                "v[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
                "v[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            ],
        );
        check(
            json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"limits": {"storage": "100m"}}}}}}),
            &[
                "v[0].ephemeral.volumeClaimTemplate.spec.resources.limits[storage]: fractional byte value \"100m\" is \
               invalid, must be an integer",
            ],
        );
    }

    #[test]
    fn files_in_one_place_are_told() {
        let items = |paths: &[&str]| paths.iter().map(|path| json!({"path": path})).collect::<Vec<_>>();
        check(
            json!({"name": "a", "secret": {"secretName": "s", "items": items(&["a", "b", "ab", ""])}}),
            &[],
        );
        check(
            json!({"name": "Test", "configMap": {"name": "foo", "items": items(&["test", "test/app", "test/"])}}),
            &[
                "volume \"Test\" (ConfigMap \"foo\"): overlapping paths: \"test/app\" with \"test\"",
                "volume \"Test\" (ConfigMap \"foo\"): overlapping paths: \"test\" with \"test\"",
                "volume \"Test\" (ConfigMap \"foo\"): overlapping paths: \"test\" with \"test/app\"",
            ],
        );
        check(
            json!({"name": "foo", "projected": {"sources": [
                {"configMap": {"name": "Test", "items": items(&["test"])}}, {"serviceAccountToken": {"path": "test"}}, {}
            ]}}),
            &[
                "volume \"foo\" (Projected): overlapping paths: \"test\" (ServiceAccountToken) with \"test\" (ConfigMap \
                 \"Test\")",
                "volume \"foo\" (Projected) has no sources provided",
            ],
        );
    }
}
