//! Occasions: events that a run with a planted bug certainly has, so that two hundred runs find the bug and not two thousand.
//!
//! Owns which bug shows on which occasion. Some bugs show only after an event that few runs have by chance: a disk put back,
//! a removed member that lies. Such an event is then made to happen as early as the run allows. The rest stays chance.

use super::Plant;
use crate::sim::world::World;

/// An event that some runs have by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// A member's disk is lost.
    LostDisk,
    /// An older copy of a member's disk is put back.
    OlderCopy,
    /// With one of three members down, the removal of another is asked for.
    Corner,
    /// Members are replaced while one is away.
    Thinning,
    /// Members are replaced while one is away, and the certificate of a removed one is in other hands.
    Liar,
    /// A stored object changes where no checksum tells.
    SilentRot,
    /// Leaders are lost, and with them the power of a member that has just voted.
    LostVotes,
    /// Leaders stop, and meet one of the others alone when they go on.
    ForgottenLeaders,
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
            _ => None,
        }
    }
}

impl World {
    /// Whether `occasion` certainly comes in this run.
    pub fn is_due(&self, occasion: Occasion) -> bool {
        self.setup().plant.and_then(Plant::occasion) == Some(occasion)
    }
}
