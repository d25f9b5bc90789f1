//! Names of a member's backups: `MEMBER-20261129T101500Z.snapshot`.
//!
//! Owns their form, and the choice of those that are not kept. The order of names is that of the times in them.

use crate::snapshot::stamp;

/// The end of a backup's name.
const SUFFIX: &str = ".snapshot";

/// The names of one member's backups.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// The member's name and a hyphen.
    begin: String,
}

impl Names {
    /// The names of the backups of `member`.
    pub(super) fn of(member: &str) -> Names {
        Names { begin: format!("{member}-") }
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
        let form = |(at, byte): (usize, u8)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        };
        stamp.is_some_and(|stamp| stamp.len() == 16 && stamp.bytes().enumerate().all(form))
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
        let names = Names::of("a");
        assert!(names.include("a-20261129T101500Z.snapshot"));
        assert!(names.include(&names.now().unwrap()));
        for other in [
            "a-b-20261129T101500Z.snapshot",
            "b-20261129T101500Z.snapshot",
            ".a-20261129T101501Z.snapshot.partial",
            "a-20261129T101500Z.snapshot.old",
            "a-20261129T101500X.snapshot",
            "a-monday.snapshot",
            "",
        ] {
            assert!(!names.include(other), "{other}");
        }
        assert!(Names::of("a-b").include("a-b-20261129T101500Z.snapshot"));
    }

    #[test]
    fn the_newest_and_those_before_it_are_kept() {
        let names = Names::of("a");
        let at = |day: u8| format!("a-202611{day:02}T101500Z.snapshot");
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
