//! Help and tips beyond what the command line library gives.
//!
//! Owns which flags of a node `--help` shows, in one screen: those that a first start needs. `--help-all` shows every one.
//! Owns the tips for a misspelt or misplaced command.

use std::ffi::OsString;

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

/// Likeness of a name with one slip: a letter too many, too few or wrong, or two swapped.
const SLIP: f64 = 0.9;

/// Fewest letters of a name in which a slip counts: of two letters it leaves one.
const SLIP_LETTERS_MIN: usize = 3;

/// The commands of nodes.
const NODES: [&str; 2] = ["dev", "serve"];

/// Names that other programs have for commands of this one.
const SYNONYMS: [(&str, [&str; 2]); 2] = [("run", NODES), ("start", NODES)];

/// The form of help that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `-h`: the command in a sentence, and its flags.
    Summary,
    /// `--help`: the whole text and examples, too.
    Screen,
}

/// `root` with the help of the node's command that `arguments` ask about in one screen. The list of all commands keeps a
/// sentence for each.
pub(super) fn in_one_screen(root: Command, arguments: &[OsString]) -> Command {
    let asked = arguments.get(1).and_then(|name| name.to_str());
    let Some(name) = NODES.into_iter().find(|name| asked == Some(*name)) else { return root };
    let form = match arguments.iter().any(|argument| argument == "-h") {
        true => Form::Summary,
        false => Form::Screen,
    };
    root.mut_subcommand(name, |command| shortened(command, form))
}

fn shortened(command: Command, form: Form) -> Command {
    let name = command.get_name().to_owned();
    let left_out = groups(&command);
    let more = format!("More flags: `orch {name} --{ALL}` explains every one, in these groups:\n{left_out}");
    let summary = command.get_about().cloned().unwrap_or_default();
    let (about, after) = match form {
        Form::Summary => (summary, format!("{more}\n\n`orch {name} --help` tells more, with examples.")),
        Form::Screen => {
            // The same once more as a file is left to `--help-all`.
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = examples.split("\n\nThe same as a file").next().unwrap_or_default();
            let whole = command.get_long_about().cloned().unwrap_or(summary);
            (whole, format!("{examples}\n\n{more}"))
        }
    };
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
    // Of a switch there are none to hide, and the library asserts that.
    let takes_values = argument.get_action().takes_values();
    let argument = if takes_values { argument.hide_possible_values(true) } else { argument };
    argument.long_help(None::<&'static str>).help_heading(None::<&'static str>).help(help)
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

/// `error` with tips for a command that does not exist. The library looks at the commands of one level, and is heard unless a
/// command of another level is more like it.
pub(super) fn with_tips(mut error: Error, root: &Command) -> Error {
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let asked = asked.to_lowercase();
    let told = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(name)) => likeness(&asked, name),
        Some(ContextValue::Strings(names)) => {
            names.iter().map(|name| likeness(&asked, name)).fold(0.0, f64::max)
        }
        _ => 0.0,
    };
    let near = nearest(&asked, told, root);
    if !near.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = near.iter().map(|path| StyledStr::from(format!("did you mean `orch {path}`?")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.collect()));
    }
    error
}

/// Likeness of `asked` and the name of a command, up to 1.
fn likeness(asked: &str, name: &str) -> f64 {
    let alike = strsim::jaro_winkler(asked, name);
    // Of short names the other measure takes two swapped letters for another word.
    let is_slip = asked.len() >= SLIP_LETTERS_MIN && strsim::osa_distance(asked, name) <= 1;
    if is_slip { alike.max(SLIP) } else { alike }
}

/// The commands below `root` whose last name is most like `asked`, or that `asked` stands for in other programs; empty where
/// none is near, or is more like it than `told`.
fn nearest(asked: &str, told: f64, root: &Command) -> Vec<String> {
    if let Some((_, meant)) = SYNONYMS.into_iter().find(|(word, _)| *word == asked) {
        return meant.map(str::to_owned).into();
    }
    let mut paths = Vec::new();
    collect(root, "", &mut paths);
    let likeness = |path: &str| likeness(asked, path.rsplit(' ').next().unwrap_or(path));
    let best = paths.iter().map(|path| likeness(path)).fold(NEAR, f64::max);
    if best <= told {
        return Vec::new();
    }
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
