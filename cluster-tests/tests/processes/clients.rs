//! The ecosystem's client libraries, unmodified, against a cluster of that brand. `clients/` holds their scripts.
//!
//! Owns their installation, which is kept beside the build. Without the language or the network, the test prints that
//! it is skipped, and ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;

/// Pinned versions, so that a new release of a client changes no result of ours.
const PYTHON_PACKAGE: &str = "kubernetes==37.0.2";
const JAVASCRIPT_PACKAGE: &str = "@kubernetes/client-node@1.4.0";

/// Oldest release of Node.js that the JavaScript client runs on.
const NODE_MAJOR_MIN: u32 = 20;

/// Timeout of a client's whole script, which takes some seconds.
const SCRIPT_MAX: Duration = Duration::from_secs(90);

/// Timeout of an installation.
const INSTALL_MAX: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_does_what_programs_do_with_it() {
    check("python_client.py", python).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_client_does_what_programs_do_with_it() {
    check("javascript_client.mjs", javascript).await;
}

/// Runs a client's script. `prepare` installs the client in a folder of its own and returns the command, or the reason
/// to skip.
async fn check(script: &'static str, prepare: fn(&Path, &Path) -> Result<Command, String>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(script);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(script);
    std::fs::create_dir_all(&home).unwrap();
    let command = tokio::task::spawn_blocking(move || prepare(&source, &home)).await.unwrap();
    let mut command = match command {
        Ok(command) => command,
        Err(reason) => {
            eprintln!("SKIPPED {script}: {reason}");
            return;
        }
    };
    let options = Options { brand: "kubernetes", ..Options::nodes(1) }.with_service_accounts();
    let cluster = Cluster::start(options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    command.env("KUBECONFIG", configuration(&cluster, folder.path()));
    let ended = tokio::task::spawn_blocking(move || run(command, SCRIPT_MAX)).await.unwrap();
    let (succeeded, told) = ended.unwrap();
    assert!(succeeded && told.lines().any(|line| line == "done"), "{script}:\n{told}");
    assert_eq!(cluster.pids().len(), 1, "the server went away");
}

/// Writes the administrator's kubeconfig; JSON is YAML.
fn configuration(cluster: &Cluster, folder: &Path) -> PathBuf {
    let certificates = cluster.certificates();
    let server = cluster.client(0).unwrap().endpoint().to_string();
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server, "certificate-authority": certificates.join("ca.crt"),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate": certificates.join("admin.crt"), "client-key": certificates.join("admin.key"),
        }}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
    });
    let path = folder.join("config");
    std::fs::write(&path, document.to_string()).unwrap();
    path
}

/// The command of a script in Python, with the client installed in `home`. The error is the reason to skip.
pub(crate) fn python(script: &Path, home: &Path) -> Result<Command, String> {
    let python = home.join("bin/python");
    if !python.exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(home);
        installed(venv)?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PYTHON_PACKAGE]);
    installed(pip)?;
    let mut command = Command::new(python);
    command.arg(script);
    Ok(command)
}

fn javascript(script: &Path, home: &Path) -> Result<Command, String> {
    let version = Command::new("node").arg("--version").output().map_err(|error| format!("node: {error}"))?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major: u32| major < NODE_MAJOR_MIN) {
        return Err(format!("node {version:?} is older than {NODE_MAJOR_MIN}"));
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", "--prefix"]);
    npm.arg(home).arg(JAVASCRIPT_PACKAGE);
    installed(npm)?;
    // Node.js looks for packages beside the script.
    let copy = home.join("client.mjs");
    std::fs::copy(script, &copy).map_err(|error| error.to_string())?;
    let mut command = Command::new("node");
    command.arg(copy);
    Ok(command)
}

/// Runs a step of an installation. The error is the reason to skip.
fn installed(command: Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match run(command, INSTALL_MAX) {
        Ok((true, _)) => Ok(()),
        Ok((false, told)) => Err(format!("{shown} failed:\n{told}")),
        Err(reason) => Err(format!("{shown}: {reason}")),
    }
}

/// Runs a command to its end, or kills it at `limit`; returns `true` on success, and its output.
fn run(mut command: Command, limit: Duration) -> Result<(bool, String), String> {
    // A file, because a pipe would fill up: it is not read while the command runs.
    let output = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let stream = || output.as_file().try_clone().map(Stdio::from);
    let (out, err) = (stream().map_err(|e| e.to_string())?, stream().map_err(|e| e.to_string())?);
    let mut child =
        command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().map_err(|e| e.to_string())?;
    let deadline = Instant::now() + limit;
    let ended = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if ended.is_none() {
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    }
    let told = read(output.path())?;
    match ended {
        Some(status) => Ok((status.success(), told)),
        None => Err(format!("not done after {} s:\n{told}", limit.as_secs())),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    std::io::read_to_string(file).map_err(|error| error.to_string())
}
