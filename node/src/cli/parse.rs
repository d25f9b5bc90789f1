//! From the process's arguments to a [`Cli`], the configuration file included.
//!
//! The file's settings are parsed on their own first, so that an error says it is the file's; then those that no
//! flag overrides are put before the flags and everything is parsed as one line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::Cli;
use super::file::{self, FileError, Setting};

/// Why there is nothing to run. For help and version that is no failure: [`clap::Error::exit`] knows.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The command line: wrong, or a question for help.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    /// The configuration file.
    #[error(transparent)]
    File(#[from] FileError),
}

impl ParseError {
    /// Whether the file has a flag that does not exist, or a bad value: the same mistake on the command line ends the
    /// process with the code of usage errors.
    pub fn is_usage(&self) -> bool {
        match self {
            ParseError::CommandLine(_) => true,
            ParseError::File(error) => {
                matches!(error, FileError::UnknownKey { .. } | FileError::Value { .. })
            }
        }
    }
}

/// Parses `arguments`, the program's name first.
pub fn parse(arguments: Vec<OsString>) -> Result<Cli, ParseError> {
    let arguments = with_long_help(arguments);
    let matches = Cli::command().try_get_matches_from(&arguments)?;
    let Some((name, given, path)) = configured(&matches) else {
        return Ok(Cli::from_arg_matches(&matches)?);
    };
    let mut root = Cli::command();
    root.build();
    let Some(command) = root.find_subcommand(name) else {
        return Ok(Cli::from_arg_matches(&matches)?);
    };
    let settings = file::read(&path, command)?;
    check(&path, name, &settings)?;
    let merged = merge(arguments, &settings, given);
    let matches = Cli::command().try_get_matches_from(merged)?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// `orch help COMMAND` as `orch COMMAND --help`: of its own accord clap prints the short text there.
fn with_long_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// The subcommand with a `--config`, its matches and the file.
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

/// The arguments with the file's settings between the subcommand and its flags, less those that a flag overrides.
/// The two ways into a cluster override each other: `--join` on the command line sets the file's members aside.
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
