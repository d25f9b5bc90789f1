//! Parses the command line, with the reference's rules and error texts.
//!
//! As there, flags and arguments may be mixed, a flag's last occurrence counts, underscores in names count as hyphens,
//! a truth value needs `=`, and a value may begin with a hyphen.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command, FromArgMatches};
use orch_proto::Brand;

use super::{Flags, branded};
use crate::config::notation::quote;
use crate::logging::Format;

/// First part of the help.
const ABOUT: &str = "The scheduler assigns pods to nodes: it finds the nodes on which a pod can run, ranks them by their \
    resources and by the pod's wishes, and binds the pod to the best one. Several schedulers may run in one cluster, \
    and several instances of one: a lease decides which of them works.";

/// Last part of the help.
const EXAMPLES: &str = "Examples:\n  \
    scheduler --{brand}config admin.conf                     work for the cluster of this client configuration\n  \
    scheduler --config scheduler.yaml                        profiles, plugins and extenders from a file\n  \
    scheduler --{brand}config admin.conf --write-config-to scheduler.yaml\n                                                           \
    the configuration in force, to start such a file from\n  \
    scheduler --{brand}config admin.conf --authentication-{brand}config admin.conf --authorization-{brand}config admin.conf\n                                                           \
    metrics and profiles for everyone whom the cluster allows them";

/// A parsed command line.
#[derive(Clone, Debug)]
pub struct CommandLine {
    /// The brand, which names some of the flags.
    pub brand: &'static Brand,
    /// The flags.
    pub flags: Flags,
    /// The flags as given or by default, by name: for `/flagz`. No flag's value is a secret.
    pub shown: Vec<(String, String)>,
}

/// A command line cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A flag is unknown, or its value cannot be read. The usage is printed after it.
    #[error("{0}")]
    Usage(String),
    /// There are arguments that are no flags.
    #[error("{0}")]
    Arguments(String),
}

/// The command line's definition under `brand`.
pub fn command(brand: &'static Brand) -> Command {
    let command = Command::new("scheduler")
        .override_usage("scheduler [flags]")
        .after_help(branded(EXAMPLES, brand))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args_override_self(true)
        .arg(clap::Arg::new("arguments").num_args(0..).hide(true));
    // The groups of flags bring their own descriptions, which the program's replaces.
    Flags::augment_args(command).about(ABOUT).long_about(ABOUT).mut_args(|arg| {
        let name = arg.get_long().map(|name| branded(name, brand));
        let help = arg.get_help().map(|help| branded(&help.to_string(), brand));
        let arg = match name {
            Some(name) => arg.long(name),
            None => arg,
        };
        match help {
            Some(help) => arg.help(help),
            None => arg,
        }
    })
}

/// The form of log lines that `arguments` ask for, though they may not be parsed as a whole: a refusal has that form, too.
pub fn log_format(arguments: &[OsString]) -> Format {
    let words: Vec<String> = arguments.iter().map(|text| normalized(&text.to_string_lossy())).collect();
    let name = last_value(&words, "--logging-format");
    name.and_then(Format::named).unwrap_or(Format::Text)
}

/// The value of the last `flag` among `arguments`, the program's name first.
fn last_value<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let words: Vec<&String> = arguments.iter().skip(1).take_while(|argument| *argument != "--").collect();
    let mut last = None;
    for (at, argument) in words.iter().enumerate() {
        match argument.strip_prefix(flag) {
            Some("") => last = words.get(at + 1).map(|value| value.as_str()).or(last),
            Some(rest) => last = rest.strip_prefix('=').or(last),
            None => {}
        }
    }
    last
}

/// Parses `arguments`, the program's name first.
pub fn parse(arguments: Vec<OsString>) -> Result<CommandLine, FlagError> {
    let arguments: Vec<String> = arguments.iter().map(|text| normalized(&text.to_string_lossy())).collect();
    let brand = brand_of(&arguments)?;
    let matches = command(brand)
        .try_get_matches_from(&arguments)
        .map_err(|error| FlagError::Usage(usage_text(&error, &arguments)))?;
    let extra: Vec<&String> = matches.get_many("arguments").unwrap_or_default().collect();
    let mut flags = Flags::from_arg_matches(&matches).map_err(|error| FlagError::Usage(error.to_string()))?;
    flags.forget_empty_paths();
    // The reference looks for `--help` before it counts arguments.
    // Scripts give empty arguments where they have none.
    if extra.iter().any(|text| !text.is_empty()) && !flags.configuration.help {
        let extra: Vec<String> = extra.into_iter().map(|text| quote(text)).collect();
        return Err(FlagError::Arguments(format!(
            "\"{}-scheduler\" does not take any arguments, got [{}]",
            brand.component_prefix,
            extra.join(" ")
        )));
    }
    let shown = shown(brand, &matches);
    Ok(CommandLine { brand, flags, shown })
}

/// Every flag with its value as text, in order of names. Defaults of flags that a configuration file replaces come later
/// than the command line, and stand in the help.
fn shown(brand: &'static Brand, matches: &clap::ArgMatches) -> Vec<(String, String)> {
    let command = command(brand);
    let mut shown = Vec::new();
    for arg in command.get_arguments() {
        let Some(name) = arg.get_long() else { continue };
        let values = matches.get_raw(arg.get_id().as_str()).unwrap_or_default();
        let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let value = match later_default(&help) {
            Some(default) if values.is_empty() => default.to_owned(),
            _ => values.join(","),
        };
        shown.push((name.to_owned(), value));
    }
    shown.sort();
    shown
}

/// The default that a help text names.
fn later_default(help: &str) -> Option<&str> {
    help.split_once("[default: ")?.1.split(']').next()
}

/// An argument with hyphens for the underscores of a flag's name.
fn normalized(argument: &str) -> String {
    match argument.strip_prefix("--") {
        Some(flag) => {
            let end = flag.find('=').unwrap_or(flag.len());
            format!("--{}{}", flag[..end].replace('_', "-"), &flag[end..])
        }
        None => argument.to_owned(),
    }
}

/// The brand that `arguments` choose: it decides the names of other flags, and so is looked for first.
fn brand_of(arguments: &[String]) -> Result<&'static Brand, FlagError> {
    let name = last_value(arguments, "--brand").unwrap_or("orch");
    Brand::named(name).ok_or_else(|| {
        FlagError::Usage(format!(
            "invalid argument {} for \"--brand\" flag: must be orch or kubernetes",
            quote(name)
        ))
    })
}

/// The reference's text of `error`.
fn usage_text(error: &clap::Error, arguments: &[String]) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let arg = context(ContextKind::InvalidArg);
    // With the placeholder of its value: `--secure-port <PORT>`.
    let name = arg.split([' ', '=', '[']).next().unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with("--") => format!("unknown flag: {name}"),
        ErrorKind::UnknownArgument => {
            let letter = name.trim_start_matches('-');
            let is_group =
                |text: &&String| text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
            let given = arguments.iter().find(is_group).map_or(name, String::as_str);
            format!("unknown shorthand flag: '{letter}' in {given}")
        }
        ErrorKind::InvalidValue if value.is_empty() && name == "--v" => {
            "flag needs an argument: 'v' in -v".into()
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("flag needs an argument: {name}"),
        ErrorKind::ValueValidation => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            let shown = match name {
                "--v" => "-v, --v",
                "--help" => "-h, --help",
                name => name,
            };
            format!("invalid argument {} for \"{shown}\" flag: {reason}", quote(value))
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.strip_prefix("error: ").unwrap_or(line).to_owned()
        }
    }
}
