//! Occasions: events that a run with a planted bug always has, so that two hundred runs detect the bug and not two
//! thousand.
//!
//! Owns the occasion of each bug. Some bugs show only after an event that few runs have by chance: a disk put back, a
//! removed member that lies. Such an event is then scheduled as early as the run allows. The rest stays random.

use super::Plant;
use crate::sim::world::World;

/// An event that some runs have by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A member's disk is lost.
    LostDisk,
    /// An older copy of a member's disk is put back.
    OlderCopy,
    /// With one of three members down, the removal of another is requested.
    Corner,
    /// Members are replaced while one is down.
    Thinning,
    /// Members are replaced while one is down, and an attacker has the certificate of a removed one.
    Liar,
    /// A stored object changes without a checksum error.
    SilentRot,
    /// Leaders lose power, and so does a member that has just voted.
    LostVotes,
    /// Leaders are paused, and reach only one other member when they resume.
    ForgottenLeaders,
    /// The quorum is lost for good, and a survivor is recovered.
    Recovery,
    /// All members are lost, and a snapshot is restored.
    Restore,
}

impl Plant {
    fn occasion(self) -> Option<Occasion> {
        match self {
            Plant::EmptiedUnseen => Some(Occasion::LostDisk),
            Plant::RollbackUnseen => Some(Occasion::OlderCopy),
            Plant::DeadAnswers => Some(Occasion::Corner),
            Plant::AcquaintanceClaimed => Some(Occasion::Thinning),
            Plant::LoneWordCounts => Some(Occasion::Liar),
            Plant::JudgesDeaf | Plant::PullsWrongState | Plant::OddOneRules | Plant::DiffersSilently => {
                Some(Occasion::SilentRot)
            }
            Plant::VoteUnsynced => Some(Occasion::LostVotes),
            Plant::FollowsAnybody => Some(Occasion::ForgottenLeaders),
            Plant::RecoveryKeepsName => Some(Occasion::Recovery),
            Plant::RevisionsReused | Plant::WatchGoesOn => Some(Occasion::Restore),
            _ => None,
        }
    }
}

impl World {
    /// This run must have `occasion`.
    pub fn is_due(&self, occasion: Occasion) -> bool {
        self.setup().plant.and_then(Plant::occasion) == Some(occasion)
    }
}
