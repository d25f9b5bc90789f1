//! The container file: its instructions in the form that engines read, what they name, and the image's entry point as a process.
//!
//! Owns a reader of the instructions that the file has. It is no engine: that an image is built is not proven here.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::root::{Job, Root};
use super::{repository, source, texts, tool};

const FILE: &str = "deploy/containers/Containerfile";

/// Instructions that the file may have: others need a look at what they do.
const KNOWN: [&str; 9] = ["FROM", "WORKDIR", "COPY", "ARG", "RUN", "USER", "EXPOSE", "ENTRYPOINT", "CMD"];

/// The instructions in order, each with the rest of its lines.
fn instructions() -> Vec<(String, String)> {
    let text = source(FILE);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    let split = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is no instruction"));
        assert!(KNOWN.contains(&name), "{FILE}: {line}");
        (name.to_owned(), rest.trim().to_owned())
    };
    lines.map(split).collect()
}

/// The rests of every instruction called `name`.
fn all(name: &str) -> Vec<String> {
    instructions().into_iter().filter(|(known, _)| known == name).map(|(_, rest)| rest).collect()
}

/// The words of the only instruction called `name`, which has the form of a list.
pub(super) fn words(name: &str) -> Vec<String> {
    let found = all(name);
    let [list] = found.as_slice() else { panic!("{FILE} has {name} {} times", found.len()) };
    let words = serde_json::from_str(list).unwrap_or_else(|error| panic!("{name} {list}: {error}"));
    texts(&words)
}

#[test]
fn the_image_is_what_the_root_s_script_makes_and_nothing_of_the_build() {
    let compiler = all("FROM").remove(0);
    let expected = format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(compiler.starts_with(&expected) && compiler.ends_with(" AS build"), "{compiler}");
    let stages: Vec<String> =
        instructions().into_iter().map(|(name, rest)| format!("{name} {rest}")).collect();
    let last = stages.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert_eq!(stages[last..last + 2], ["FROM scratch", "COPY --from=build /image/ /"]);
    assert!(stages[last..].iter().all(|line| !line.starts_with("RUN ")), "nothing can be run in it");
}

#[test]
fn files_that_the_build_runs_are_there_and_can_be_read() {
    let ignored = source(".dockerignore");
    let runs = all("RUN");
    assert!(!runs.is_empty());
    for run in runs {
        let checked = tool("bash", "bash", |command| {
            command.args(["-nc", &run]);
        });
        assert!(checked.status.success(), "{run}: {}", String::from_utf8_lossy(&checked.stderr));
        let own =
            run.split_whitespace().filter(|word| word.starts_with(".ci/") || word.starts_with("deploy/"));
        let own: Vec<&str> = own.collect();
        assert!(own.contains(&"deploy/containers/root.sh"), "{run}");
        for script in own {
            let found = repository().join(script).metadata();
            let mode = found.unwrap_or_else(|error| panic!("{script}: {error}")).permissions().mode();
            assert_eq!(mode & 0o111, 0o111, "{script} can be run");
            let top = Path::new(script).iter().next().unwrap().to_string_lossy().into_owned();
            assert!(ignored.lines().all(|line| line.trim_matches('/') != top), "{top} is sent to the engine");
        }
    }
}

#[tokio::test]
async fn the_entry_point_runs_with_its_own_words() {
    let root = Root::new(&[]);
    let command = words("ENTRYPOINT").into_iter().chain(words("CMD")).collect();
    let mut process = root.start(&Job { name: "entry".to_owned(), command, ..Job::default() });
    assert!(process.wait().await.success(), "{}", process.log());
    assert!(process.log().contains("Usage: orch"), "{}", process.log());
}
