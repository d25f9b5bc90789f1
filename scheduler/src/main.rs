//! The `scheduler` program: parses the command line, runs the process, and sets the exit code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use orch_scheduler::config::flags::{CommandLine, FlagError, VersionRequest, command, log_format, parse};
use orch_scheduler::config::{Features, check_logging_format};
use orch_scheduler::logging::Format;
use orch_scheduler::{logging, process, version};
use orch_serving::{secrecy, stamps};

/// Objects are decoded, taken in and freed again by the hundred thousand between others that stay: the system's allocator
/// keeps three times what lives then.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let format = log_format(&arguments);
    match start(arguments, format) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Printed) => ExitCode::FAILURE,
    }
}

/// A fault that has been told.
struct Printed;

fn start(arguments: Vec<OsString>, format: Format) -> Result<(), Printed> {
    let tell = |fault: &str| {
        format.tell(fault);
        Printed
    };
    let print = |text: &dyn std::fmt::Display| {
        writeln!(io::stdout(), "{text}").map_err(|error| tell(&format!("Error: {error}")))
    };
    secrecy::keep_secrets()
        .map_err(|error| tell(&format!("Error: cannot keep this process's secrets from others: {error}")))?;
    stamps::note_beginning();
    let line = parse(arguments).map_err(|error| refuse(&error, format))?;
    let configuration = &line.flags.configuration;
    if configuration.help {
        return print(&command(line.brand).render_long_help());
    }
    let features = Features::parse(&line.flags.features.feature_gates);
    if features.is_ok() && configuration.version != VersionRequest::No {
        return match configuration.version {
            VersionRequest::Raw => print(&version::raw()),
            _ => print(&version::short(line.brand)),
        };
    }
    check_logging_format(&line.flags).map_err(|fault| tell(&fault))?;
    let (verbosity, flusher) =
        logging::start(&line.flags.logs).map_err(|error| tell(&format!("Error: {error}")))?;
    let ended = features.map_err(process::Failure).and_then(|features| work(line, features, verbosity));
    let told = ended.map_err(|failure| {
        tracing::error!(err = %failure, "command failed");
        Printed
    });
    flusher.flush();
    told
}

fn work(
    line: CommandLine,
    features: Features,
    verbosity: logging::Verbosity,
) -> Result<(), process::Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| process::Failure(error.to_string()))?;
    let ended = runtime.block_on(process::run(line, features, verbosity));
    // Nothing that hangs keeps the process: its lease is given up, or lapses.
    runtime.shutdown_background();
    ended
}

/// Tells what is wrong with the command line, and for flags the usage.
fn refuse(error: &FlagError, format: Format) -> Printed {
    format.tell(&format!("Error: {error}"));
    if matches!(error, FlagError::Usage(_)) && format == Format::Text {
        format.tell("Usage:\n  scheduler [flags]\n\n`scheduler --help` explains each flag.");
    }
    Printed
}
