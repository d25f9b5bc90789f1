//! The sources that this program was built from: the commit, told by the environment of the build.
//!
//! Owns the names of the variables. `make build` sets them from the working copy; any other build, and that of a tarball, leaves
//! them out, and the server says that it does not know. They are read here, near the end of the graph of crates, so that a
//! new commit builds nothing below anew.

use orch_api::http::Build;

/// Commit, tree state and date, from the environment of the build.
pub fn build() -> Build {
    from(option_env!("ORCH_GIT_COMMIT"), option_env!("ORCH_GIT_TREE_STATE"), option_env!("ORCH_BUILD_DATE"))
}

/// A variable that is empty, as outside of a working copy, is one that is not set.
fn from(commit: Option<&'static str>, tree_state: Option<&'static str>, date: Option<&'static str>) -> Build {
    let unknown = Build::default();
    let known = |text: Option<&'static str>, default| text.filter(|text| !text.is_empty()).unwrap_or(default);
    Build {
        commit: known(commit, unknown.commit),
        tree_state: known(tree_state, unknown.tree_state),
        date: known(date, unknown.date),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_the_build_did_not_tell_are_unknown() {
        assert_eq!(from(None, Some(""), None), Build::default());
        let told = from(Some("c0ffee"), Some("dirty"), Some("2026-01-02T03:04:05Z"));
        assert_eq!((told.commit, told.tree_state, told.date), ("c0ffee", "dirty", "2026-01-02T03:04:05Z"));
    }
}
