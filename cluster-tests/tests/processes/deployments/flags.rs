//! Flags that the files of `deploy/` name are flags of the programs.

use std::collections::BTreeSet;
use std::process::Command;

use orch_cluster_tests::cluster::program;

/// Asserts that each flag of `command` is one: its first word is the program's path in the image.
pub(super) fn assert_flags_exist(command: &[String]) {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let (name, words) = words.split_first().unwrap_or_else(|| panic!("an empty command"));
    let (binary, help) = match *name {
        "/usr/bin/orch" => ("orch", subcommands(words)),
        // Under the other brand one flag has another name.
        "/usr/bin/orch-scheduler" => {
            let brand = words.iter().filter(|word| word.starts_with("--brand=")).copied();
            ("scheduler", brand.chain(["--help"]).collect())
        }
        other => panic!("{other} is not in the image"),
    };
    let output = Command::new(program(binary).unwrap()).args(&help).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let known: BTreeSet<&str> = text
        .split(|letter: char| letter.is_whitespace() || "=,[]".contains(letter))
        .filter(|word| word.starts_with("--"))
        .collect();
    let used = words.iter().filter(|word| word.starts_with("--"));
    let used: Vec<&str> = used.map(|word| word.split('=').next().unwrap_or(word)).collect();
    assert!(!used.is_empty(), "{command:?} has no flag");
    for flag in used {
        assert!(known.contains(flag), "{binary} {} has no {flag}: {known:?}", help.join(" "));
    }
}

/// The words that ask for the help of the command in `words`.
fn subcommands<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let names = words.iter().take_while(|word| !word.starts_with("--")).copied();
    let mut asked: Vec<&str> = names.collect();
    asked.push(if asked == ["serve"] { "--help-all" } else { "--help" });
    asked
}

#[test]
#[should_panic(expected = "has no --sekure-port")]
fn a_flag_that_is_none_is_found() {
    assert_flags_exist(&["/usr/bin/orch", "serve", "--sekure-port=1"].map(str::to_owned));
}
