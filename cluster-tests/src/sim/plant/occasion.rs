//! What a run with a bug certainly has, so that two hundred runs find it and not two thousand.
//!
//! Owns which bug shows on which occasion. Some show only after something that few runs have by chance: a disk put back, a
//! removed member that lies. That is then made to happen, as early as the run allows. What follows is chance, as ever.

use super::Plant;
use crate::sim::world::World;

/// Something that happens in some runs by chance.
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
    /// The same, and the certificate of the removed one is in other hands.
    Liar,
    /// A stored object changes where no checksum tells.
    SilentRot,
    /// Leaders are lost, and with them the power of somebody that has just voted.
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
