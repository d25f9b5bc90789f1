//! The texts of every command: each has its own, and none is lost on its way into the tree of commands.
//!
//! The library takes the texts of a command from its variant. A summary there, which is the variant's comment, replaces the
//! whole text that its struct of flags has.

use clap::CommandFactory;

use super::*;

/// Visits every command below `command`, with the words that reach it.
fn visit(command: &clap::Command, words: &str, look: &mut impl FnMut(&str, &clap::Command)) {
    for below in command.get_subcommands() {
        let words = format!("{words} {}", below.get_name());
        look(&words, below);
        visit(below, &words, look);
    }
}

/// `text` with its words a space apart: lines may be broken.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The structs of flags in `source` that have a text of their own.
fn with_own_text(source: &str) -> Vec<String> {
    let (mut found, mut attributes) = (Vec::new(), String::new());
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line.starts_with("#[") {
            attributes += line;
            let mut last = line;
            while !last.ends_with(")]") {
                let Some(next) = lines.next() else { break };
                attributes += next;
                last = next;
            }
        } else if !line.starts_with("//") {
            let is_of_a_command = attributes.contains("Args)]") && line.contains("struct ");
            if is_of_a_command && attributes.contains("about =") {
                found.push(line.to_owned());
            }
            attributes.clear();
        }
    }
    found
}

#[test]
fn every_command_has_a_summary_and_a_text() {
    let (root, mut count) = (Cli::command(), 0);
    visit(&root, "orch", &mut |words, command| {
        count += 1;
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.contains('\n') && !about.ends_with('.'), "{words}: {about:?}");
        assert!(!about.starts_with("Flags of") && !about.starts_with("What to do"), "{words}: {about:?}");
        let long = command.get_long_about().map(ToString::to_string).unwrap_or_else(|| about.clone());
        let shown = words_of(&command.clone().render_long_help().to_string());
        assert!(long.len() >= about.len() && shown.starts_with(&words_of(&long)), "{words}: {shown}");
    });
    assert!(count > 25, "{count} commands");
}

#[test]
fn no_struct_of_flags_has_a_text_which_the_summary_of_its_command_replaces() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    for path in sources {
        let found = with_own_text(&std::fs::read_to_string(&path).unwrap());
        assert!(found.is_empty(), "{}: set the text at the command's variant: {found:?}", path.display());
    }
    let planted = "/// Flags.\n#[derive(Debug, Args)]\n#[command(\n    long_about = \"All,\\n\\\n        of it.\",\n    \
                   after_help = \"x\"\n)]\npub struct LostArgs {\n";
    assert_eq!(with_own_text(planted), ["pub struct LostArgs {"]);
}

#[test]
fn help_of_commands_with_a_long_text_shows_it() {
    for (asked, expected) in [
        ("orch certs init --help", "service-account.key, .pub  signs service account tokens"),
        ("orch certs add --help", "get the new members as further servers"),
        ("orch certs renew --help", "lose those whose directory is gone"),
        ("orch certs rotate-ca --help", "drops the old authority"),
        ("orch cluster status --help", "time since a member that answers had an answer from it"),
        ("orch cluster recover --help", "cannot take part in it"),
        ("orch cluster migrate-storage --help", "goes on with those that are left"),
        ("orch snapshot save --help", "IN CLEAR"),
        ("orch snapshot extract --help", "verified whole first"),
        ("orch snapshot restore --help", "Clients list anew once"),
    ] {
        let text = cli(asked).unwrap_err();
        assert!(words_of(&text).contains(&words_of(expected)), "{asked}: {text}");
    }
}
