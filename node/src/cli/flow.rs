//! The flags of flow control: who is served now, and who waits.

use clap::{ArgAction, Args};

const FLOW: &str = "Flow control";

/// Flags of flow control.
#[derive(Clone, Debug, Args)]
pub struct FlowArgs {
    /// Divide the requests under way among priority levels, by the FlowSchemas and PriorityLevelConfigurations of the
    /// cluster; without, the two limits below apply to all users together
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "true", action = ArgAction::Set, help_heading = FLOW)]
    pub enable_priority_and_fairness: bool,
    /// Reads under way at once; with priority and fairness, the sum of both is what the levels divide. 0 is no limit
    /// without it
    #[arg(long, value_name = "COUNT", default_value_t = 400, help_heading = FLOW)]
    pub max_requests_inflight: u32,
    /// Writes under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 200, help_heading = FLOW)]
    pub max_mutating_requests_inflight: u32,
}
