//! Levels and stages under the reference's names.

/// How much of a request an event holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is no event.
    #[default]
    None,
    /// User, request, times and outcome.
    Metadata,
    /// The object in the request, too.
    Request,
    /// The object in the response, too.
    RequestResponse,
}

impl Level {
    /// All levels, in order.
    pub const ALL: [Level; 4] = [Level::None, Level::Metadata, Level::Request, Level::RequestResponse];

    /// The level's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }
}

/// A point in the life of a request at which an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The user is known, and nothing is decided.
    RequestReceived,
    /// The head of a watch's response is sent, or a request is refused for its credentials.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// A handler panicked. There are no such events: a panic ends the process.
    Panic,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 4] =
        [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    /// The stage's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// The set with `stage`.
    #[must_use]
    pub fn with(self, stage: Stage) -> Stages {
        Stages(self.0 | Stages::bit(stage))
    }

    /// The stages of both sets.
    #[must_use]
    pub fn union(self, other: Stages) -> Stages {
        Stages(self.0 | other.0)
    }

    /// Whether `stage` is in the set.
    pub fn has(self, stage: Stage) -> bool {
        self.0 & Stages::bit(stage) != 0
    }

    fn bit(stage: Stage) -> u8 {
        match stage {
            Stage::RequestReceived => 1,
            Stage::ResponseStarted => 2,
            Stage::ResponseComplete => 4,
            Stage::Panic => 8,
        }
    }
}
