//! Parses the process's arguments and the configuration file into a [`Cli`].
//!
//! The file's settings are parsed on their own first, so that an error names the file; then those that no flag
//! overrides are put before the flags and everything is parsed as one command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, ValueEnum};

use super::file::{self, FileError, Setting};
use super::help;
use super::{Cli, LogFormat};

/// Value name of flags that name a file to be read.
const FILE: &str = "FILE";

/// Parsing gave no command to run. A request for help or the version is one too: [`clap::Error::exit`] prints it and
/// ends with success.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The command line is wrong, or asks for help or the version.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The configuration file is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that a flag names cannot be read.
    #[error("--{flag}: cannot read {path}")]
    Unreadable {
        /// The flag.
        flag: String,
        /// The file.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
}

impl ParseError {
    /// Whether the process ends with the exit code of usage errors: the command line is wrong, or the file has an
    /// unknown flag or a bad value, which on the command line would be a usage error.
    pub fn is_usage(&self) -> bool {
        match self {
            ParseError::CommandLine(_) => true,
            ParseError::File(error) => {
                matches!(error, FileError::UnknownKey { .. } | FileError::Value { .. })
            }
            ParseError::Unreadable { .. } => false,
        }
    }
}

/// The form of log lines that `arguments` ask for, themselves or by the configuration file that they name, though they may not
/// be parsed as a whole: a refusal of them has that form, too.
pub fn log_format(arguments: &[OsString]) -> LogFormat {
    let values = |flag: &str| -> Vec<&str> {
        let words = arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default());
        let mut words = words.take_while(|word| *word != "--");
        let mut values = Vec::new();
        while let Some(word) = words.next() {
            match word.strip_prefix(flag) {
                Some("") => values.extend(words.next()),
                Some(rest) => values.extend(rest.strip_prefix('=')),
                None => {}
            }
        }
        values
    };
    let given = values("--log-format");
    let in_file =
        || values("--config").into_iter().find_map(|path| file::value(Path::new(path), "log-format"));
    let name = given.first().map(|name| (*name).to_owned()).or_else(in_file);
    name.and_then(|name| LogFormat::from_str(&name, false).ok()).unwrap_or(LogFormat::Text)
}

/// Parses `arguments`, the program's name first, and checks that the files which they name can be read.
pub fn parse_and_find_files(arguments: Vec<OsString>) -> Result<Cli, ParseError> {
    let matches = matches(arguments)?;
    check_files(&built(), &matches)?;
    cli(&matches)
}

/// Parses `arguments`, the program's name first.
pub fn parse(arguments: Vec<OsString>) -> Result<Cli, ParseError> {
    cli(&matches(arguments)?)
}

fn cli(matches: &ArgMatches) -> Result<Cli, ParseError> {
    let mut cli = Cli::from_arg_matches(matches)?;
    match &mut cli.command {
        super::Command::Dev(arguments) => arguments.shared.flags = flags(matches),
        super::Command::Serve(arguments) => arguments.shared.flags = flags(matches),
        _ => {}
    }
    Ok(cli)
}

/// Whether `argument` asks for a text instead of a run.
fn asks_for_text(argument: &Arg) -> bool {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    matches!(argument.get_action(), Help | HelpLong | HelpShort | Version)
}

/// The flags of the command in `matches` with their values, those of a list joined by commas. No flag's value is a secret: those are
/// in files.
fn flags(matches: &ArgMatches) -> Vec<(String, String)> {
    let Some((name, given)) = matches.subcommand() else { return Vec::new() };
    let root = built();
    let arguments = root.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
    let flag = |argument: &Arg| {
        let name = argument.get_long().filter(|_| !asks_for_text(argument))?;
        let values = given.try_get_raw(argument.get_id().as_str()).ok().flatten();
        let values = values.into_iter().flatten().map(|value| value.to_string_lossy());
        Some((name.to_owned(), values.collect::<Vec<_>>().join(",")))
    };
    let mut flags: Vec<(String, String)> = arguments.filter_map(flag).collect();
    flags.sort();
    flags
}

fn built() -> Command {
    let mut root = Cli::command();
    root.build();
    root
}

/// The values of `arguments` and of the configuration file that they name.
fn matches(arguments: Vec<OsString>) -> Result<ArgMatches, ParseError> {
    let (arguments, root) = (with_long_help(arguments), built());
    let matches = Cli::command().try_get_matches_from(&arguments);
    let matches = matches.map_err(|error| helpful(error, &arguments, &root))?;
    let Some((name, given, path)) = configured(&matches) else { return Ok(matches) };
    let Some(command) = root.find_subcommand(name) else { return Ok(matches) };
    let settings = file::read(&path, command)?;
    check(&path, name, &settings)?;
    let merged = merge(arguments, &settings, given);
    Ok(Cli::command().try_get_matches_from(merged)?)
}

/// Refuses a command with a flag whose file cannot be read. Every flag with the value name [`FILE`] names a file that is read, so
/// that none is found missing in the middle of a start, or never. The file is not opened: it may be a pipe.
fn check_files(command: &Command, given: &ArgMatches) -> Result<(), ParseError> {
    for argument in command.get_arguments().filter(|argument| reads_file(argument)) {
        let paths = given.try_get_many::<PathBuf>(argument.get_id().as_str()).ok().flatten();
        for path in paths.into_iter().flatten() {
            readable(path).map_err(|source| {
                let flag = argument.get_long().unwrap_or_default().to_owned();
                ParseError::Unreadable { flag, path: path.clone(), source }
            })?;
        }
    }
    match given.subcommand().and_then(|(name, given)| Some((command.find_subcommand(name)?, given))) {
        Some((command, given)) => check_files(command, given),
        None => Ok(()),
    }
}

pub(super) fn reads_file(argument: &Arg) -> bool {
    argument.get_value_names().is_some_and(|names| names.iter().any(|name| name.as_str() == FILE))
}

fn readable(path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(rustix::fs::access(path, rustix::fs::Access::READ_OK)?)
}

/// `error` with tips, or the help in one screen that it asks for.
fn helpful(error: clap::Error, arguments: &[OsString], root: &Command) -> clap::Error {
    let asks_for_all =
        arguments.iter().any(|argument| argument.to_str() == Some(&format!("--{}", help::ALL)));
    match error.kind() {
        ErrorKind::DisplayHelp if !asks_for_all => {
            // The same question to the shortened command is answered with its help.
            let shortened = help::in_one_screen(Cli::command(), arguments);
            shortened.try_get_matches_from(arguments).err().unwrap_or(error)
        }
        _ => help::with_tips(error, root),
    }
}

/// Rewrites `orch help COMMAND` as `orch COMMAND --help`: clap prints the short text for `help`.
fn with_long_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// The name of the subcommand, its matches and the value of `--config`; `None` without that flag.
fn configured(matches: &ArgMatches) -> Option<(&str, &ArgMatches, PathBuf)> {
    let (name, given) = matches.subcommand()?;
    let path = given.try_get_one::<PathBuf>("config").ok().flatten()?;
    Some((name, given, path.clone()))
}

/// Refuses settings that the command would refuse as flags.
fn check(path: &Path, command: &str, settings: &[Setting]) -> Result<(), FileError> {
    let arguments = ["orch".to_owned(), command.to_owned()].into_iter();
    let arguments = arguments.chain(settings.iter().map(Setting::argument));
    match Cli::command().try_get_matches_from(arguments) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
            Err(FileError::Value { path: path.to_owned(), reason })
        }
    }
}

/// Inserts the file's settings between the subcommand and its flags, except those that a flag overrides. `--join` and
/// `--initial-cluster` exclude each other, so either on the command line overrides both in the file.
fn merge(arguments: Vec<OsString>, settings: &[Setting], given: &ArgMatches) -> Vec<OsString> {
    let on_line = |id: &str| {
        given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let overridden = |flag: &str| match flag {
        "join" | "initial-cluster" => on_line("join") || on_line("initial_cluster"),
        _ => on_line(&flag.replace('-', "_")),
    };
    let kept = settings.iter().filter(|setting| !overridden(&setting.flag));
    let mut rest = arguments.into_iter();
    let mut merged: Vec<OsString> = rest.by_ref().take(2).collect();
    merged.extend(kept.map(|setting| setting.argument().into()));
    merged.extend(rest);
    merged
}
