//! The settings of flow control, from its flags.

use orch_api::flow::Options;

use crate::cli::SharedArgs;

/// The settings that the flags ask for.
pub(super) fn options(shared: &SharedArgs) -> Options {
    let flags = &shared.flow;
    Options {
        is_fair: flags.enable_priority_and_fairness,
        reads_max: flags.max_requests_inflight,
        writes_max: flags.max_mutating_requests_inflight,
    }
}
