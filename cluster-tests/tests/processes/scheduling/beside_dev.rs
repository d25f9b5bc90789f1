//! The scheduler that `orch dev` starts: it works, and it lives as long as the node.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use orch_cluster_tests::client::{Access, Client};
use orch_cluster_tests::cluster::program;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use super::{create, node, until};

const POD: &str = "/api/v1/namespaces/default/pods/first";

/// `orch dev`, killed when dropped.
struct Dev(Child);

impl Drop for Dev {
    fn drop(&mut self) {
        // Ended already, where the test ended it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Dev {
    fn start(data: &Path) -> Dev {
        let mut command = Command::new(program("orch").unwrap());
        command.args(["dev", "--secure-port=0", "--data-dir"]).arg(data);
        Dev(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// The process that it has started, while there is one.
    fn scheduler(&self) -> Option<Pid> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
        let children =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        children.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).find_map(
            |pid| {
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
                (name.trim() == "scheduler").then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
            },
        )
    }
}

fn is_alive(pid: Pid) -> bool {
    test_kill_process(pid).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_schedules_restarts_its_scheduler_and_takes_it_along() {
    let directory = tempfile::tempdir().unwrap();
    let mut dev = Dev::start(directory.path());
    let config = directory.path().join("admin.conf");
    let client = until(Duration::from_secs(30), "the node serves", async || {
        directory.path().join("endpoints.json").exists().then_some(())?;
        let (url, access) = Access::from_kubeconfig(&config).ok()?;
        Some(Client::new(url.parse().ok()?, access))
    })
    .await;
    create(&client, "/api/v1/nodes", &node("one", "4", "10")).await;
    let untainted = json!({"spec": {"taints": null}});
    client.merge_patch("/api/v1/nodes/one", &untainted).await.unwrap().success().unwrap();
    let pod = json!({"metadata": {"name": "first"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    until(Duration::from_secs(10), "a pod can be made", async || {
        // The account of its namespace is made by a loop.
        let answer = client.post("/api/v1/namespaces/default/pods", &pod).await.unwrap();
        (answer.status == 201).then_some(())
    })
    .await;
    until(Duration::from_secs(20), "the pod is bound", async || {
        let pod = client.get(POD).await.unwrap().success().unwrap();
        (pod["spec"]["nodeName"] == "one").then_some(())
    })
    .await;

    let first = dev.scheduler().expect("it runs");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    let second = until(Duration::from_secs(10), "it is started again", async || {
        dev.scheduler().filter(|pid| *pid != first)
    })
    .await;
    dev.0.kill().unwrap();
    dev.0.wait().unwrap();
    until(Duration::from_secs(20), "it ends with the node", async || (!is_alive(second)).then_some(())).await;
}
