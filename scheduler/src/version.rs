//! The version that this program gives: to programs the reference's, whose flags, files and metrics it has, to people its own,
//! as `orch` does. Under the ecosystem's brand people get the ecosystem's line as well.

use orch_proto::Brand;
use orch_proto::brand::KUBERNETES;
pub use orch_proto::version::{GIT_VERSION, MAJOR, MAJOR_MINOR, MINOR, RELEASE};

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

/// Output of `--version` under `brand`.
pub fn short(brand: &Brand) -> String {
    if brand.name == KUBERNETES.name {
        return format!("{} {GIT_VERSION}", brand.product);
    }
    format!("scheduler {}", orch_proto::version::program())
}

/// Output of `--version=raw`.
pub fn raw() -> String {
    let rust = concat!("rust", env!("CARGO_PKG_RUST_VERSION"));
    format!(
        "version.Info{{Major:\"{MAJOR}\", Minor:\"{MINOR}\", EmulationMajor:\"{MAJOR}\", EmulationMinor:\"{MINOR}\", \
         MinCompatibilityMajor:\"{MAJOR}\", MinCompatibilityMinor:\"35\", GitVersion:\"{GIT_VERSION}\", \
         GitCommit:\"{GIT_COMMIT}\", GitTreeState:\"{GIT_TREE_STATE}\", BuildDate:\"{BUILD_DATE}\", GoVersion:\"{rust}\", \
         Compiler:\"rustc\", Platform:\"{PLATFORM}\"}}"
    )
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    #[test]
    fn people_read_one_version_of_all_programs() {
        let own = format!("scheduler {} (API of release 1.36.2)", env!("CARGO_PKG_VERSION"));
        assert_eq!(short(&ORCH), own);
        assert_eq!(short(&KUBERNETES), "Kubernetes v1.36.2");
    }
}
