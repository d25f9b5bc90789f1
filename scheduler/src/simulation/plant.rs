//! Known bugs, planted to show that the checks find them.
//!
//! Owns the list, and which one this thread has. The hooks stand where the bug would, and are compiled into tests only.

use std::cell::Cell;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A pod's room is not counted before the API confirms its binding.
    ForgetsAssume,
    /// A binding whose outcome is unknown is taken back.
    UndoesUnknown,
    /// A binding whose outcome is unknown is taken for done.
    TrustsUnknown,
    /// The room of a bound pod is given back before the API tells of it.
    ForgetsEarly,
    /// A leader counts from the end of its renewal.
    RenewsFromEnd,
    /// A contender takes over after half of the lease.
    TakesOverEarly,
    /// Bindings are sent after the lease has ended.
    BindsWithoutLease,
    /// Victims are evicted after the lease has ended.
    EvictsWithoutLease,
    /// The end of a pod wakes nobody.
    LosesWake,
    /// A watch resumes one version too late.
    SkipsVersion,
    /// A new list does not tell what is gone.
    ListsWithoutDeletes,
    /// A nomination is never withdrawn, and keeps its room.
    KeepsNomination,
    /// A binding is sent without the pod's UID.
    BindsByName,
    /// The deletion of a pod that is being bound is ignored.
    IgnoresDeletion,
    /// The lease is let go before bindings under way have ended.
    ReleasesEarly,
    /// The lease is let go although bindings under way have not ended in time.
    ReleasesUnfinished,
    /// A binding that had no effect is sent again after the lease has ended.
    RetriesWithoutLease,
    /// A process that rebuilds its planner is not told again what it was told before.
    TellsNothingAgain,
    /// A new leader plans by what its watches have told it so far.
    TrustsOldView,
    /// A binding is sent while the pod's status is written, and the status whatever has become of the pod.
    PatchesBesideBinding,
    /// The status is written whatever has become of the pod.
    PatchesLate,
    /// A pod is bound before its volumes are.
    BindsBeforeVolumes,
    /// A pod is bound whatever volume its claim got.
    TrustsAnyVolume,
    /// A pod is bound although its status does not name the claim that was made for it.
    NamesNoClaim,
    /// The failure of an extender lets every node through.
    TrustsSilentExtenders,
    /// A claim that had devices is reserved with whatever devices it has.
    ReservesAnyDevices,
    /// The devices of a pod count as free until the API tells of its claim.
    ForgetsDevices,
}

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Whether this thread has the bug.
pub(crate) fn is(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}

/// Plants a bug in this thread, or none.
pub(super) fn plant(plant: Option<Plant>) {
    PLANTED.set(plant);
}
