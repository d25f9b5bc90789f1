//! Help and tips beyond what the command line library gives.
//!
//! Owns which flags of a node `--help` shows, in one screen: those that a first start needs. `--help-all` shows every one.
//! Owns the tips for a misspelt or misplaced command.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

/// The flag that explains every flag.
pub(super) const ALL: &str = "help-all";

/// Flags that `--help` shows, of those of a node.
const SHOWN: [&str; 17] = [
    "data-dir",
    "name",
    "certs-dir",
    "initial-cluster",
    "join",
    "peer-address",
    "advertise-address",
    "bind-address",
    "secure-port",
    "insecure-port",
    "peer-port",
    "no-scheduler",
    "brand",
    "config",
    "log-format",
    "help",
    ALL,
];

/// Least Jaro-Winkler similarity (1 is equal) of a command that is suggested: a letter or two swapped, left out or wrong.
const NEAR: f64 = 0.8;

/// `root` with the help of nodes in one screen.
pub(super) fn in_one_screen(root: Command) -> Command {
    ["dev", "serve"].into_iter().fold(root, |root, name| root.mut_subcommand(name, shortened))
}

fn shortened(command: Command) -> Command {
    let about = command.get_long_about().or_else(|| command.get_about()).cloned().unwrap_or_default();
    let left_out = groups(&command);
    let name = command.get_name().to_owned();
    // The same once more as a file is left to `--help-all`.
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = examples.split("\n\nThe same as a file").next().unwrap_or_default();
    let after = format!(
        "{examples}\n\nMore flags: `orch {name} --{ALL}` explains every one, in these groups:\n{left_out}"
    );
    command.long_about(None::<&'static str>).about(about).after_help(after).mut_args(
        |argument| match argument.get_long().is_some_and(|long| SHOWN.contains(&long)) {
            true => in_a_line(argument),
            false => argument.hide(true),
        },
    )
}

/// The argument with its help beside its name. Help of single values would make the library use the long form for all.
fn in_a_line(argument: Arg) -> Arg {
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let is_switch = values.len() < 2 || values == ["true", "false"];
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let help = first_sentence(&help);
    let help = if is_switch { help } else { format!("{help}: {}", values.join(" or ")) };
    argument
        .long_help(None::<&'static str>)
        .hide_possible_values(true)
        .help_heading(None::<&'static str>)
        .help(help)
}

/// The first sentence of `help`, with the default that it ends with.
fn first_sentence(help: &str) -> String {
    let first = help.split_once(". ").map_or(help, |(first, _)| first);
    match help.rfind(" [default: ") {
        Some(at) if at > first.len() => format!("{first}{}", &help[at..]),
        _ => first.to_owned(),
    }
}

/// Headings of the flags that `--help` leaves out, each with their number, in lines.
fn groups(command: &Command) -> String {
    let mut groups: Vec<(&str, usize)> = Vec::new();
    let left_out = command
        .get_arguments()
        .filter(|argument| argument.get_long().is_some_and(|long| !SHOWN.contains(&long)));
    for heading in left_out.filter_map(Arg::get_help_heading) {
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, count)) => *count += 1,
            None => groups.push((heading, 1)),
        }
    }
    let groups: Vec<String> = groups.iter().map(|(heading, count)| format!("{heading} ({count})")).collect();
    let lines: Vec<String> = groups.chunks(3).map(|pair| format!("  {}", pair.join(", "))).collect();
    lines.join("\n")
}

/// `error` with tips for a command that does not exist: the nearest of the same level, or one of another level.
pub(super) fn with_tips(mut error: Error, root: &Command) -> Error {
    let is_told = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.kind() != ErrorKind::InvalidSubcommand || is_told {
        return error;
    }
    let near = nearest(asked, root);
    if !near.is_empty() {
        let tips = near.iter().map(|path| StyledStr::from(format!("did you mean `orch {path}`?")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.collect()));
    }
    error
}

/// The commands below `root` whose last name is most like `asked`; empty where none is near.
fn nearest(asked: &str, root: &Command) -> Vec<String> {
    let mut paths = Vec::new();
    collect(root, "", &mut paths);
    let likeness = |path: &str| {
        let last = path.rsplit(' ').next().unwrap_or(path);
        strsim::jaro_winkler(last, &asked.to_lowercase())
    };
    let best = paths.iter().map(|path| likeness(path)).fold(NEAR, f64::max);
    paths.retain(|path| likeness(path) >= best);
    paths
}

fn collect(command: &Command, prefix: &str, into: &mut Vec<String>) {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let path = format!("{prefix}{}", inner.get_name());
        collect(inner, &format!("{path} "), into);
        into.push(path);
    }
}
