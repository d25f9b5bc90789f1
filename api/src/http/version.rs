//! `/version`: the server's version, in the reference's form.

use orch_schema::json;

use super::Document;

/// The reference's release whose behaviour is served; clients compare it with their own.
const MAJOR: &str = "1";
const MINOR: &str = "36";

/// The JSON document.
pub(super) fn document() -> Document {
    let document = json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+orch.{}", env!("CARGO_PKG_VERSION")),
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
