//! Parses the process's arguments and the configuration file into a [`Cli`].
//!
//! The file's settings are parsed on their own first, so that an error names the file; then those that no flag
//! overrides are put before the flags and everything is parsed as one command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::Cli;
use super::file::{self, FileError, Setting};

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
