//! The order of versions by their names: stable before beta before alpha, then the higher number.
//!
//! Owns how a version's name is read. Names of another form come last, in alphabetical order.

use std::cmp::Reverse;

/// A key by which versions are sorted, the best one first.
pub fn version_order(version: &str) -> (Reverse<(u8, u64, u64)>, &str) {
    (Reverse(maturity(version)), version)
}

/// Stage, major number and number within the stage, as a key to compare; zeros for names of another form.
fn maturity(version: &str) -> (u8, u64, u64) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        let stage = &rest[end..];
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        let (rank, number) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(number), _) => (2, number),
            (None, Some(number)) => (1, number),
            (None, None) => return None,
        };
        Some((rank, major, number.parse().ok()?))
    };
    parsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_high_numbers_before_low() {
        let mut versions = [
            "v1alpha1", "v1", "v2beta1", "odd", "v10", "v2", "v1beta2", "v1beta1", "v2alpha1", "v11beta2",
            "even",
        ];
        versions.sort_by_key(|version| version_order(version));
        let expected = [
            "v10", "v2", "v1", "v11beta2", "v2beta1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "even",
            "odd",
        ];
        assert_eq!(versions, expected);
    }
}
