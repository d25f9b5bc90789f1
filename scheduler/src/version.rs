//! The version that this program gives: the reference's, whose flags, files and metrics it has.

pub use orch_proto::version::{GIT_VERSION, MAJOR, MAJOR_MINOR, MINOR};

/// Commit of the sources; empty where the build did not say.
pub const GIT_COMMIT: &str = match option_env!("ORCH_GIT_COMMIT") {
    Some(commit) => commit,
    None => "",
};
/// Whether the sources were those of a commit.
pub const GIT_TREE_STATE: &str = "";
/// When it was built; empty where the build did not say.
pub const BUILD_DATE: &str = match option_env!("ORCH_BUILD_DATE") {
    Some(date) => date,
    None => "",
};
/// Operating system and architecture.
pub const PLATFORM: &str = const_platform();

const fn const_platform() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "linux/amd64"
    } else if cfg!(target_arch = "aarch64") {
        "linux/arm64"
    } else {
        "linux/unknown"
    }
}

/// What `--version` prints, for the product called `product`.
pub fn short(product: &str) -> String {
    format!("{product} {GIT_VERSION}")
}

/// What `--version=raw` prints.
pub fn raw() -> String {
    let rust = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
    format!(
        "version.Info{{Major:\"{MAJOR}\", Minor:\"{MINOR}\", EmulationMajor:\"{MAJOR}\", EmulationMinor:\"{MINOR}\", \
         MinCompatibilityMajor:\"{MAJOR}\", MinCompatibilityMinor:\"35\", GitVersion:\"{GIT_VERSION}\", \
         GitCommit:\"{GIT_COMMIT}\", GitTreeState:\"{GIT_TREE_STATE}\", BuildDate:\"{BUILD_DATE}\", GoVersion:\"{rust}\", \
         Compiler:\"rustc\", Platform:\"{PLATFORM}\"}}"
    )
}
