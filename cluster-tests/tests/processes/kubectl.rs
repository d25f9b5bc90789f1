//! The ecosystem's own command line, unmodified, against a cluster of that brand.
//!
//! Owns a session with the program: its own home, the administrator's certificate, output as text. The everyday
//! commands are tested here, others by subject in the modules below.

mod aggregated;
mod bootstrap;
mod credentials;
mod custom;
mod custom_members;
mod describing;
pub(crate) mod kinds;
mod managing;
mod streams;
mod writing;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use orch_cluster_tests::cluster::{Cluster, Options};

/// The program. Where it is not installed the test prints that it is skipped, and ends.
const KUBECTL: &str = "kubectl";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_creates_gets_applies_watches_and_deletes() {
    in_session(Session::all).await;
}

/// Runs `steps` against a new cluster.
async fn in_session(steps: fn(&Session)) {
    in_session_with(&[], steps).await;
}

/// Runs `steps` against a new cluster with further flags.
async fn in_session_with(flags: &[&str], steps: fn(&Session)) {
    if Command::new(KUBECTL).args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: {KUBECTL} is not installed");
        return;
    }
    let flags = flags.iter().map(ToString::to_string).collect();
    let cluster = Cluster::start(Options { brand: "kubernetes", flags, ..Options::nodes(1) }).await.unwrap();
    tokio::task::spawn_blocking(move || steps(&Session::new(&cluster))).await.unwrap();
}

/// kubectl with the cluster's address and the administrator's certificate.
struct Session {
    server: String,
    flags: Vec<String>,
    certificates: PathBuf,
    folder: tempfile::TempDir,
}

impl Session {
    fn new(cluster: &Cluster) -> Self {
        Self::through(cluster, 0)
    }

    /// A session with member `node`.
    fn through(cluster: &Cluster, node: usize) -> Self {
        let certificates = cluster.certificates();
        let flag = |name: &str, file: &str| format!("--{name}={}", certificates.join(file).display());
        let server = cluster.client(node).unwrap().endpoint().to_string();
        let flags = vec![
            format!("--server={server}"),
            flag("certificate-authority", "ca.crt"),
            flag("client-certificate", "admin.crt"),
            flag("client-key", "admin.key"),
        ];
        Self { server, flags, certificates, folder: tempfile::tempdir().unwrap() }
    }

    fn all(&self) {
        self.text(&["create", "namespace", "shop"]);
        self.text(&["-n", "shop", "create", "configmap", "c", "--from-literal=colour=red"]);
        assert_eq!(self.colour(), "red");
        let mut watch = self.watch();
        let file = self.folder.path().join("c.yaml");
        self.write_manifest(&file, "green");
        self.text(&["apply", "-f", &file.display().to_string()]);
        assert_eq!(self.colour(), "green");
        self.write_manifest(&file, "blue");
        self.text(&["apply", "--server-side", "--force-conflicts", "-f", &file.display().to_string()]);
        assert_eq!(self.colour(), "blue");
        let table = self.text(&["-n", "shop", "get", "configmaps"]);
        assert!(table.contains("NAME") && table.contains("DATA"), "{table}");
        self.text(&["-n", "shop", "delete", "configmap", "c"]);
        let gone = self.run(&["-n", "shop", "get", "configmap", "c"]);
        assert!(String::from_utf8_lossy(&gone.stderr).contains("(NotFound)"), "{gone:?}");
        assert_eq!(watch.take(3), ["red", "green", "blue"]);
    }

    fn colour(&self) -> String {
        self.text(&["-n", "shop", "get", "configmap", "c", "-o", "jsonpath={.data.colour}"])
    }

    fn watch(&self) -> ColourWatch {
        let mut child = self
            .command(&["-n", "shop", "get", "configmap", "c", "-w", "-o", "jsonpath={.data.colour}{\"\\n\"}"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap(); // the first line shows that the watch is open
        ColourWatch { child, lines, seen: vec![first.trim().to_owned()] }
    }

    fn write_manifest(&self, path: &Path, colour: &str) {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: shop\ndata:\n  colour: {colour}\n"
        );
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {arguments:?} at {} failed:\n{out}{err}", self.server);
        out.into_owned()
    }

    /// The program's output when it fails; panics if it succeeds.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success(), "kubectl {arguments:?} succeeded:\n{out}{err}");
        err.into_owned()
    }

    /// The program's output for the holder of `token`, or its errors if it fails.
    fn by_token(&self, token: &str, arguments: &[&str]) -> Result<String, String> {
        let authority = self.certificates.join("ca.crt").display().to_string();
        let mut command = Command::new(KUBECTL);
        command.env("HOME", self.folder.path()).env_remove("KUBECONFIG").arg("--request-timeout=20s");
        command.args(["--server", &self.server, "--certificate-authority", &authority, "--token", token]);
        let output = command.args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Writes a file in the session's folder and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(KUBECTL);
        // Its own home, so that no configuration or discovery cache of the machine has an effect.
        command.env("HOME", self.folder.path()).env_remove("KUBECONFIG");
        command.arg("--request-timeout=20s").args(&self.flags).args(arguments);
        command
    }
}

/// A running `kubectl get -w`.
struct ColourWatch {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    seen: Vec<String>,
}

impl ColourWatch {
    /// The first `count` different colours in order.
    fn take(&mut self, count: usize) -> Vec<String> {
        while self.seen.len() < count {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the watch ended after {:?}", self.seen);
            if self.seen.last().is_some_and(|last| last != line.trim()) {
                self.seen.push(line.trim().to_owned());
            }
        }
        self.seen.clone()
    }
}

impl Drop for ColourWatch {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}
