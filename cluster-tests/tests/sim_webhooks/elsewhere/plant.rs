//! Known bugs of conversions and of the way to aggregated servers.
//!
//! Owns the list, the seeds of the search for each, and what it is found as. Those of conversions are compiled into simulations only;
//! the others change what becomes of a request between the product and the server.

use orch_api::conversion::ConversionBug;
use orch_cluster_tests::sim::search::Planted;

/// Seeds for a planted bug: every change of the product moves the seeds that find it.
const SEEDS: u64 = 40;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    Conversion(ConversionBug),
    /// A request whose answer was lost is passed on again.
    PassesOnAgain,
    /// A request bears the identity of the last one.
    MixesIdentities,
    /// A server that hangs keeps the places of all others, for ever.
    SharesPlaces,
}

/// All plants.
pub(crate) const PLANTS: [Planted<Plant>; 5] = [
    planted("trusts-answers", Plant::Conversion(ConversionBug::TrustsAnswers), &["a lie"]),
    planted(
        "keeps-by-uid",
        Plant::Conversion(ConversionBug::KeepsByUid),
        &["is not the conversion of what is stored"],
    ),
    planted("passes-on-again", Plant::PassesOnAgain, &["is carried out twice"]),
    planted("mixes-identities", Plant::MixesIdentities, &["is carried out for another user"]),
    planted("shares-places", Plant::SharesPlaces, &["is not shown"]),
];

const fn planted(name: &'static str, bug: Plant, reasons: &'static [&'static str]) -> Planted<Plant> {
    Planted { name, bug, seeds: 0..SEEDS, reasons }
}
