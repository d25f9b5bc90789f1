//! The floor: the number of steps of each area that have matched before. It may rise and never falls.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Outcome;

/// Name of the file beside the recordings.
pub(super) const FILE_NAME: &str = "floor.json";

/// Matched steps by area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor(BTreeMap<String, usize>);

impl Floor {
    /// The committed floor beside the recordings in `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self(serde_json::from_str(&text)?))
    }

    /// Areas in which fewer steps match than the floor: name, matched steps, floor.
    pub fn lost(&self, outcome: &Outcome) -> Vec<(String, usize, usize)> {
        let matched = |area: &str| outcome.scores.get(area).map_or(0, |score| score.matched);
        let all = self.0.iter().map(|(area, floor)| (area.clone(), matched(area), *floor));
        all.filter(|(_, matched, floor)| matched < floor).collect()
    }

    /// Panics, and prints the differences, where fewer steps match than the floor.
    ///
    /// # Panics
    /// As said.
    pub fn hold(&self, outcome: &Outcome) {
        let lost = self.lost(outcome);
        for (area, matched, floor) in &lost {
            let differences = outcome.differences.get(area).map_or("", String::as_str);
            eprintln!("{differences}\n{area}: {matched} steps match, {floor} did before");
        }
        assert!(lost.is_empty(), "areas match less than before: {lost:?}");
    }

    /// The floor raised to `outcome` wherever that is higher.
    pub fn raised(&self, outcome: &Outcome) -> Self {
        let mut areas = self.0.clone();
        for (area, score) in &outcome.scores {
            let floor = areas.entry(area.clone()).or_default();
            *floor = score.matched.max(*floor);
        }
        Self(areas)
    }

    /// Writes the floor to its file in `folder`.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::write(folder.join(FILE_NAME), serde_json::to_string_pretty(&self.0)? + "\n")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Score;
    use super::*;

    #[test]
    fn a_floor_rises_and_a_fall_is_named() {
        let scores = |matched| [("crud".to_owned(), Score { matched, judged: 9 })].into_iter().collect();
        let outcome = |matched| Outcome { scores: scores(matched), ..Outcome::default() };
        let floor = Floor([("crud".to_owned(), 5), ("rv".to_owned(), 0)].into_iter().collect());
        assert!(floor.lost(&outcome(5)).is_empty());
        assert_eq!(floor.lost(&outcome(4)), [("crud".to_owned(), 4, 5)]);
        assert_eq!(floor.raised(&outcome(4)), floor);
        assert!(floor.raised(&outcome(7)).lost(&outcome(6)) == [("crud".to_owned(), 6, 7)]);
    }
}
