//! The release of the reference whose behaviour is served, which every program gives as its version to clients.
//!
//! Owns the number. A program's own version is that of the workspace, and stands behind it where a form has room for it.

/// Major version.
pub const MAJOR: &str = "1";
/// Minor version.
pub const MINOR: &str = "36";
/// Both.
pub const MAJOR_MINOR: &str = "1.36";
/// The oldest release whose behaviour a server of this one may be asked to emulate, major version.
pub const COMPATIBLE_MAJOR: &str = "1";
/// Its minor version: the one before.
pub const COMPATIBLE_MINOR: &str = "35";
/// The whole release.
pub const RELEASE: &str = "1.36.2";
/// The release as clients read it.
pub const GIT_VERSION: &str = "v1.36.2";

/// The version of the programs, which is that of the workspace, with the release: what each of them gives to people.
pub fn program() -> String {
    format!("{} (API of release {RELEASE})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_of_one_release() {
        assert_eq!(MAJOR_MINOR, format!("{MAJOR}.{MINOR}"));
        assert_eq!(
            (COMPATIBLE_MAJOR, COMPATIBLE_MINOR.parse()),
            (MAJOR, MINOR.parse::<u32>().map(|minor| minor - 1))
        );
        assert!(RELEASE.starts_with(&format!("{MAJOR_MINOR}.")));
        assert_eq!(GIT_VERSION, format!("v{RELEASE}"));
    }
}
