//! Names of a member's backups: `MEMBER-1f2e3d4c-20261129T101500Z.snapshot`, with a digest of the cluster's name.
//!
//! Owns their form, and the choice of the backups that are not kept. The digest tells them from those of another cluster, which a
//! restore or a new start makes under the same member's name. The order of names is that of the times in them.

use sha2::{Digest, Sha256};

use crate::snapshot::{is_stamp, stamp};

/// Bytes of the digest of the cluster's name.
const CLUSTER_BYTES: usize = 4;

/// The end of a backup's name.
const SUFFIX: &str = ".snapshot";

/// The names of one member's backups.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The member, the cluster, and a hyphen.
    begin: String,
}

impl Names {
    /// The names of the backups of `member` in `cluster`.
    pub(super) fn of(member: &str, cluster: &str) -> Names {
        let digest = Sha256::digest(cluster);
        let digest: String = digest[..CLUSTER_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        Names { begin: format!("{member}-{digest}-") }
    }

    /// The name of a backup that is made now.
    pub(super) fn now(&self) -> anyhow::Result<String> {
        Ok(format!("{}{}{SUFFIX}", self.begin, stamp()?))
    }

    /// The beginning of all of them. Other names may have it, too.
    pub(super) fn begin(&self) -> &str {
        &self.begin
    }

    /// Whether `name` is that of a backup of this member.
    pub(super) fn include(&self, name: &str) -> bool {
        let stamp = name.strip_prefix(&*self.begin).and_then(|rest| rest.strip_suffix(SUFFIX));
        stamp.is_some_and(is_stamp)
    }

    /// The `names` of backups before `newest` that are not among the last `keep` of them and it. A later name is one of a clock
    /// that ran ahead: if it counted, `newest` could be removed as the oldest.
    pub(super) fn surplus<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        newest: &str,
        keep: usize,
    ) -> Vec<&'a str> {
        let mut older: Vec<&str> = names.filter(|name| self.include(name) && *name < newest).collect();
        older.sort_unstable_by(|one, other| other.cmp(one));
        older.split_off(older.len().min(keep.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_members_own_backups_are_counted() {
        let names = Names::of("a", "one");
        let begin = names.begin();
        assert_eq!(begin, "a-7692c3ad-");
        assert!(names.include(&format!("{begin}20261129T101500Z.snapshot")));
        assert!(names.include(&names.now().unwrap()));
        for other in [
            format!("b{}20261129T101500Z.snapshot", &begin[1..]),
            format!("{}20261129T101500Z.snapshot", Names::of("a", "two").begin()),
            "a-20261129T101500Z.snapshot".to_owned(),
            format!(".{begin}20261129T101501Z.snapshot.partial"),
            format!("{begin}20261129T101500Z.snapshot.old"),
            format!("{begin}20261129T101500X.snapshot"),
            format!("{begin}monday.snapshot"),
            String::new(),
        ] {
            assert!(!names.include(&other), "{other}");
        }
    }

    #[test]
    fn the_newest_and_those_before_it_are_kept() {
        let names = Names::of("a", "one");
        let at = |day: u8| format!("{}202611{day:02}T101500Z.snapshot", names.begin());
        let all: Vec<String> = [3, 9, 1, 2, 4].map(at).to_vec();
        let surplus = |newest: u8, keep: usize| {
            let all = all.iter().map(String::as_str).chain(["a-b", "b-20261101T101500Z.snapshot"]);
            names.surplus(all, &at(newest), keep)
        };
        assert_eq!(surplus(4, 1), [&at(3), &at(2), &at(1)]);
        assert_eq!(surplus(4, 3), [&at(1)]);
        assert!(surplus(4, 4).is_empty());
        assert!(surplus(1, 1).is_empty(), "nothing is removed for one that is the oldest");
        assert_eq!(surplus(5, 2), [&at(3), &at(2), &at(1)], "it need not be among them");
    }
}
