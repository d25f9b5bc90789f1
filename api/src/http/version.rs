//! `/version`: the server's version, in the reference's form.
//!
//! Owns the document and the metrics of the version. The emulated release is the served one: no older behaviour can be asked
//! for. `compiler` is this program's, and `goVersion`, which has none, is empty.

use metrics::gauge;
use orch_proto::Brand;
use orch_proto::version::{COMPATIBLE_MAJOR, COMPATIBLE_MINOR, GIT_VERSION, MAJOR, MINOR};
use orch_schema::json;

use super::Document;
use crate::pipeline::Features;

/// The sources that this program was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Commit of the sources, 40 hexadecimal digits; empty where it is unknown.
    pub commit: &'static str,
    /// `clean`, or `dirty` where files differed from the commit; empty where it is unknown.
    pub tree_state: &'static str,
    /// Time of the commit, RFC 3339; that of 1970 where it is unknown.
    pub date: &'static str,
}

impl Default for Build {
    fn default() -> Self {
        Build { commit: "", tree_state: "", date: "1970-01-01T00:00:00Z" }
    }
}

/// The path of the document.
pub(super) const PATH: &str = "/version";

/// Reports the version and the feature gates among the metrics, under the names of the brand.
pub(super) fn report(brand: &Brand, features: Features, build: Build) {
    let labels = [
        ("major", MAJOR.to_owned()),
        ("minor", MINOR.to_owned()),
        ("git_version", git_version()),
        ("git_commit", build.commit.to_owned()),
        ("git_tree_state", build.tree_state.to_owned()),
        ("build_date", build.date.to_owned()),
        ("go_version", String::new()),
        ("compiler", "rustc".to_owned()),
        ("platform", format!("{}/{}", std::env::consts::OS, platform())),
    ];
    gauge!(format!("{}_build_info", brand.name), &labels).set(1.0);
    for (name, is_on) in features.all() {
        // All are stable: stages of other gates have names.
        let labels = [("name", name), ("stage", "")];
        gauge!(format!("{}_feature_enabled", brand.name), &labels).set(f64::from(u8::from(is_on)));
    }
}

/// The reference's release, and this program's behind it.
fn git_version() -> String {
    format!("{GIT_VERSION}+orch.{}", env!("CARGO_PKG_VERSION"))
}

/// The JSON document.
pub(super) fn document(build: Build) -> Document {
    let document = json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": COMPATIBLE_MAJOR,
        "minCompatibilityMinor": COMPATIBLE_MINOR,
        "gitVersion": git_version(),
        "gitCommit": build.commit,
        "gitTreeState": build.tree_state,
        "buildDate": build.date,
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    });
    document.to_string().into()
}

/// The architecture as the reference spells it.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::value::Value;

    use super::*;

    #[test]
    fn the_document_has_every_member_of_the_reference_in_its_order() {
        let build = Build { commit: "c0ffee", tree_state: "clean", date: "2026-01-02T03:04:05Z" };
        let told: Value = serde_json::from_slice(&document(build)).unwrap();
        let members: Vec<_> = told.as_object().unwrap().iter().map(|(name, _)| name.to_string()).collect();
        let expected = [
            "major",
            "minor",
            "emulationMajor",
            "emulationMinor",
            "minCompatibilityMajor",
            "minCompatibilityMinor",
            "gitVersion",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        ];
        assert_eq!(members, expected);
        assert_eq!((&told["gitCommit"], &told["emulationMinor"]), (&json!("c0ffee"), &told["minor"]));
        // Clients read it as a semantic version.
        let version = told["gitVersion"].as_str().unwrap();
        assert!(
            version.starts_with(&format!("v{MAJOR}.{MINOR}.")) && version.contains("+orch."),
            "{version}"
        );
        assert_eq!(told["platform"].as_str().unwrap().split('/').count(), 2);
    }
}
