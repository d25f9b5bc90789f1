//! Variables of the environment by which one of our processes tells another something.

/// Where it is set, a process ends as if told by SIGTERM when its standard input closes, so that it does not outlive the
/// process that started it, however that one ends.
pub const STOP_WITH_STDIN: &str = "ORCH_STOP_WITH_STDIN";
