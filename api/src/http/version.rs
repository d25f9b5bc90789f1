//! `/version`: the server's version, in the reference's form.

use metrics::gauge;
use orch_proto::Brand;
use orch_proto::version::{GIT_VERSION, MAJOR, MINOR};
use orch_schema::json;

use super::Document;
use crate::pipeline::Features;

/// Reports the version and the feature gates among the metrics, under the names of the brand.
pub(super) fn report(brand: &Brand, features: Features) {
    let labels = [
        ("major", MAJOR.to_owned()),
        ("minor", MINOR.to_owned()),
        ("git_version", git_version()),
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
pub(super) fn document() -> Document {
    let document = json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
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
