//! The guides: each block of commands is run as it stands, by the shells of the machines that the guide names.
//!
//! A block begins with ```` ```sh ````, followed by the machines that run it; without a name it is for the only one. Of the first
//! block, the values of variables are replaced by addresses and directories of this test: nothing else is. A machine is a
//! directory of its own; `scp` copies into another machine's.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::cluster::{alone, program};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::sleep;

/// Longest time of one block.
const BLOCK_MAX: Duration = Duration::from_secs(60);

/// The machine of a guide for one.
const ONLY: &str = "here";

/// A block of commands.
struct Block {
    machines: Vec<String>,
    commands: String,
}

/// The blocks of a guide, in order.
fn blocks(guide: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides").join(guide);
    let text = fs::read_to_string(&path).unwrap();
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let mut words = info.split_whitespace();
                assert_eq!(words.next(), Some("sh"), "{guide}: a block of another language: {info}");
                let mut machines: Vec<String> = words.map(str::to_owned).collect();
                if machines.is_empty() {
                    machines.push(ONLY.to_owned());
                }
                open = Some(Block { machines, commands: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.commands += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{guide}: a block without its end");
    blocks
}

/// `commands` with other values of the variables that it sets; each must be set there.
fn with_values(commands: &str, values: &[(&str, String)]) -> String {
    let mut text = commands.to_owned();
    for (name, value) in values {
        let start = format!("{name}=");
        let line = text.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("the first block does not set {name}")).to_owned();
        text = text.replace(&line, &format!("{start}{value}"));
    }
    text
}

/// The shell of a machine. Dropping it kills what it started.
struct Machine {
    shell: Child,
    input: ChildStdin,
    output: PathBuf,
    blocks: usize,
}

/// Directories of the machines, and programs that they have.
struct Machines {
    // Dropped before the folder in which they work.
    running: BTreeMap<String, Machine>,
    folder: tempfile::TempDir,
}

impl Machines {
    fn new() -> Machines {
        let folder = tempfile::tempdir().unwrap();
        let tools = folder.path().join("tools");
        fs::create_dir(&tools).unwrap();
        for (name, binary) in [("orch", "orch"), ("orch-scheduler", "scheduler")] {
            std::os::unix::fs::symlink(program(binary).unwrap(), tools.join(name)).unwrap();
        }
        let scp = format!(
            "#!/bin/bash\n# scp FILE HOST:\nset -eu\n[ $# = 2 ]\n[ \"${{2: -1}}\" = : ]\nexec cp \"$1\" \"{}/${{2%:}}/\"\n",
            folder.path().display()
        );
        fs::write(tools.join("scp"), scp).unwrap();
        fs::set_permissions(tools.join("scp"), fs::Permissions::from_mode(0o755)).unwrap();
        Machines { running: BTreeMap::new(), folder }
    }

    /// Directory of the machine at `address`.
    fn directory(&self, address: &str) -> PathBuf {
        self.folder.path().join(address)
    }

    /// Starts the machine called `name` at `address`.
    fn start(&mut self, name: &str, address: &str) {
        let directory = self.directory(address);
        fs::create_dir(&directory).unwrap();
        let output = self.folder.path().join(format!("{name}.out"));
        let file = File::create(&output).unwrap();
        let path =
            format!("{}:{}", self.folder.path().join("tools").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash")
            .arg("-eu")
            .current_dir(&directory)
            .env("PATH", path)
            .env_remove("KUBECONFIG")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        let input = shell.stdin.take().unwrap();
        self.running.insert(name.to_owned(), Machine { shell, input, output, blocks: 0 });
    }

    /// Runs a block on its machines, one after another; `values` replace those that it sets.
    async fn run(&mut self, block: &Block, values: impl Fn(&str) -> Vec<(&'static str, String)>) {
        for name in &block.machines {
            let machine = self.running.get_mut(name).unwrap_or_else(|| panic!("there is no machine {name}"));
            machine.run(&with_values(&block.commands, &values(name))).await;
        }
    }
}

impl Machine {
    async fn run(&mut self, commands: &str) {
        self.blocks += 1;
        let mark = format!("--- block {} is done", self.blocks);
        write!(self.input, "{commands}\necho '{mark}'\n").unwrap();
        let began = Instant::now();
        while !self.said().contains(&mark) {
            let ended = self.shell.try_wait().unwrap();
            let in_time = began.elapsed() < BLOCK_MAX;
            assert!(ended.is_none() && in_time, "{ended:?} at:\n{commands}\nit said:\n{}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The output of its commands so far.
    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap()).into_owned()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let group = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // All processes may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
        if std::thread::panicking() {
            eprintln!("--- output of a machine\n{}", self.said());
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["a", "b", "c"] {
                let logs = [format!("127.36.3.1/{name}.log"), format!("127.36.4.1/{name}.log")];
                for log in logs.map(|log| self.folder.path().join(log)) {
                    let text = fs::read_to_string(&log).unwrap_or_default();
                    eprintln!("--- {}\n{text}", log.display());
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_one_machine_is_true() {
    let _alone = alone().await.unwrap();
    let mut machines = Machines::new();
    machines.start(ONLY, "127.36.3.1");
    let blocks = blocks("one-machine.md");
    assert!(blocks.len() >= 6, "{}", blocks.len());
    for (place, block) in blocks.iter().enumerate() {
        let values = |_: &str| match place {
            0 => {
                [("A", 1), ("B", 2), ("C", 3)].map(|(name, last)| (name, format!("127.36.3.{last}"))).to_vec()
            }
            _ => Vec::new(),
        };
        machines.run(block, values).await;
    }
    let said = machines.running[ONLY].said();
    for expected in
        ["founded the cluster of a, b, c", "wrote ann.conf: user ann of devs", "removed the data in data-c"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let directory = machines.directory("127.36.3.1");
    assert!(!directory.join("data-a/store").exists() && directory.join("certs/ca.key").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_policies_is_true() {
    let mut machines = Machines::new();
    machines.start(ONLY, "127.36.5.1");
    for block in blocks("policies.md") {
        machines.run(&block, |_| Vec::new()).await;
    }
    let said = machines.running[ONLY].said();
    for expected in [
        "denied request: at most 3 replicas",
        "warning: Validation failed for ValidatingAdmissionPolicy 'replicas' with binding 'shops': at most 3 replicas",
        "no policy is about it",
        "\"operation\":\"update\"",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_three_machines_is_true() {
    let _alone = alone().await.unwrap();
    let mut machines = Machines::new();
    let address = |name: &str| match name {
        "a" => "127.36.4.1",
        "b" => "127.36.4.2",
        _ => "127.36.4.3",
    };
    for name in ["a", "b", "c"] {
        machines.start(name, address(name));
    }
    let folder = machines.folder.path().to_owned();
    for (place, block) in blocks("three-machines.md").iter().enumerate() {
        let values = |name: &str| match place {
            0 => {
                let own = folder.join(address(name));
                vec![
                    ("A", address("a").to_owned()),
                    ("B", address("b").to_owned()),
                    ("C", address("c").to_owned()),
                    ("ETC", own.join("etc").display().to_string()),
                    ("DATA", own.join("data").display().to_string()),
                ]
            }
            _ => Vec::new(),
        };
        machines.run(block, values).await;
    }
    let said = machines.running["a"].said();
    for expected in ["founded the cluster of a, b, c", "wrote ann.conf: user ann of devs"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let shown = said.rsplit("NAME ").next().unwrap();
    for name in ["a", "b", "c"] {
        assert!(
            shown.lines().any(|line| line.starts_with(&format!("{name} ")) && line.contains(" up ")),
            "{shown}"
        );
        assert!(
            !machines.directory(address(name)).join("etc/certs/ca.key").exists(),
            "authorities stay where they are"
        );
    }
}
