//! Logs, commands, files and ports of pods, through a pretend kubelet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;

use super::{KUBECTL, Session};
use crate::connect::pretend::Pretend;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reads_logs_runs_commands_and_copies_files() {
    if Command::new(KUBECTL).args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: {KUBECTL} is not installed");
        return;
    }
    let kubelet = Pretend::kubelet().await;
    let flags = [kubelet.flags(), vec!["--proxy-local-addresses=127.0.0.0/8".to_owned()]].concat();
    let cluster = Cluster::start(Options { brand: "kubernetes", flags, ..Options::nodes(1) }).await.unwrap();
    let admin = cluster.client(0).unwrap();
    kubelet.register(&admin, "n").await;
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    admin.post("/api/v1/namespaces/default/pods", &pod).await.unwrap().success().unwrap();
    let runs = json!({"status": {"phase": "Running"}});
    admin.merge_patch("/api/v1/namespaces/default/pods/p/status", &runs).await.unwrap().success().unwrap();
    tokio::task::spawn_blocking(move || Session::new(&cluster).streams(&kubelet)).await.unwrap();
}

impl Session {
    fn streams(&self, kubelet: &Pretend) {
        assert_eq!(self.text(&["logs", "p"]), "one\ntwo\n");
        let mut following = self.command(&["logs", "-f", "p"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
        for number in 0..3 {
            assert_eq!(lines.next().unwrap().unwrap(), format!("line {number}"));
            kubelet.say_more();
        }
        following.kill().unwrap();
        following.wait().unwrap();
        assert_eq!(self.text(&["exec", "p", "--", "echo", "hello"]), "echo hello\n");
        let mut shouting = self
            .command(&["exec", "-i", "p", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        shouting.stdin.take().unwrap().write_all(b"hello").unwrap();
        assert_eq!(shouting.wait_with_output().unwrap().stdout, b"HELLO");
        let copy = self.folder.path().join("motd");
        self.text(&["cp", "default/p:/etc/motd", &copy.display().to_string()]);
        assert_eq!(std::fs::read_to_string(copy).unwrap(), "welcome\n");
        let raw = self.text(&["get", "--raw", "/api/v1/nodes/n/proxy/echo"]);
        assert_eq!(raw, "");
        assert_eq!(self.text(&["attach", "p"]), "attached\n");
        assert_eq!(self.text(&["run", "q", "--image=i", "--restart=Never"]), "pod/q created\n");
        self.forward_a_port();
    }

    fn forward_a_port(&self) {
        let mut forwarding =
            self.command(&["port-forward", "pod/p", ":8080"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(forwarding.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.strip_prefix("Forwarding from ").and_then(|rest| rest.split(' ').next());
        let mut connection = TcpStream::connect(address.unwrap_or_else(|| panic!("{said:?}"))).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection.write_all(b"hello").unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        connection.read_to_string(&mut heard).unwrap();
        forwarding.kill().unwrap();
        forwarding.wait().unwrap();
        assert_eq!(heard, "HELLO");
    }
}
