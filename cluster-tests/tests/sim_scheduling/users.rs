//! Everyone else who uses the API: users, a kubelet for all nodes, another scheduler.
//!
//! Owns what happens to pods and nodes but for scheduling. All of it are requests to members, which may fail; what became
//! of them the ledger tells. Pods take few names, so that names come back with other UIDs. The other scheduler binds pods of this
//! one to a node that this one must not use: it takes pods away, but no room.

use std::sync::Arc;
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::dice::Dice;
use orch_cluster_tests::sim::runtime::NodeRuntime;
use orch_proto::brand::ORCH;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::links::Links;
use super::plant::Plant;
use super::timeline::{Pod, Timeline};

/// Nodes of the scheduler.
const NODES: usize = 4;

/// The node that only the other scheduler uses.
pub(crate) const ELSEWHERE: &str = "elsewhere";

/// Names of pods.
const NAMES: usize = 24;

const PODS: &str = "/api/v1/namespaces/default/pods";
const ALL_NODES: &str = "/api/v1/nodes";

/// Within this time every member must serve once nothing is wrong.
const SERVED_MAX: Duration = Duration::from_secs(40);

/// How often the kubelet looks.
const KUBELET_LOOK: Duration = Duration::from_millis(400);

/// The users of a run. Clones share what they see.
#[derive(Clone)]
pub(crate) struct Users {
    pub(crate) links: Links,
    pub(crate) timeline: Arc<Mutex<Timeline>>,
    pub(crate) plant: Option<Plant>,
    dice: Dice,
}

impl Users {
    pub(crate) fn new(links: &Links, plant: Option<Plant>) -> Self {
        let dice = links.world().dice("users");
        Self { links: links.clone(), timeline: Arc::default(), plant, dice }
    }

    /// Reads what has changed.
    pub(crate) fn look(&self) {
        self.timeline.lock().read(self.links.world().ledger());
    }

    /// Sends a request to any member. An answer that no correct server gives to it fails the run.
    async fn send(&self, method: &str, path: &str, body: Value) -> Option<u16> {
        let members = self.links.world().members();
        let node = members[self.dice.index(members.len())];
        let (code, answer) = self.links.ask(node, method, path, &body).await?;
        // Taken, gone, changed, out of order, or not now.
        if !matches!(code, 200..=202 | 404 | 409 | 429 | 500..=504) {
            self.links.world().fail(format_args!("n{} answers {code} to {method} {path}: {answer}", node.0));
        }
        self.links.world().trace().event(format_args!("user n{} {method} {path}: {code}", node.0));
        Some(code)
    }

    /// Sends a request until it is done, or has been.
    async fn insist(&self, method: &str, path: &str, body: Value) {
        while self.links.world().failure().is_none() {
            let code = self.send(method, path, body.clone()).await;
            let is_over = |code: u16| match method {
                "POST" => matches!(code, 200..=202 | 409),
                // Another user has removed the object.
                _ => matches!(code, 200..=202 | 404),
            };
            if code.is_some_and(is_over) {
                return;
            }
            NodeRuntime::sleep(self.dice.millis(50..200)).await;
        }
    }

    /// Waits until every member answers.
    pub(crate) async fn await_service(&self, when: &str) {
        let began = NodeRuntime::elapsed();
        let world = self.links.world();
        for node in world.members() {
            while world.failure().is_none() {
                let asked = self.links.ask(node, "GET", ALL_NODES, &Value::Null).await;
                if asked.is_some_and(|(code, _)| code == 200) {
                    break;
                }
                if NodeRuntime::elapsed() - began > SERVED_MAX {
                    world.fail(format_args!("n{} serves nothing {SERVED_MAX:?} after {when}", node.0));
                }
                NodeRuntime::sleep(Duration::from_millis(100)).await;
                world.observe_logs();
            }
        }
    }

    /// Makes what every cluster has: nodes, an account, a class of priority.
    pub(crate) async fn found(&self) {
        let account = json!({"metadata": {"name": "default"}});
        self.insist_on_namespace("/api/v1/namespaces/default/serviceaccounts", account).await;
        let class = json!({"metadata": {"name": "high"}, "value": 1000});
        let classes = format!("/apis/{}/v1/priorityclasses", ORCH.group("scheduling"));
        self.insist("POST", &classes, class).await;
        for index in 0..NODES {
            self.mend_node(&node_name(index)).await;
        }
        self.mend_node(ELSEWHERE).await;
        self.insist("PATCH", &format!("{ALL_NODES}/{ELSEWHERE}"), json!({"spec": {"unschedulable": true}}))
            .await;
    }

    /// The namespace is made by the first leader's controllers.
    async fn insist_on_namespace(&self, path: &str, body: Value) {
        while self.links.world().failure().is_none() {
            if matches!(self.send("POST", path, body.clone()).await, Some(201 | 409)) {
                return;
            }
            NodeRuntime::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes the node if it is not there, and whole if it is not.
    async fn mend_node(&self, name: &str) {
        self.insist("POST", ALL_NODES, node(name)).await;
        let whole = json!({"spec": {"unschedulable": null, "taints": null}});
        self.insist("PATCH", &format!("{ALL_NODES}/{name}"), whole).await;
        let room = json!({"status": {"allocatable": {"cpu": "4", "pods": "6"}}});
        self.insist("PATCH", &format!("{ALL_NODES}/{name}/status"), room).await;
    }

    /// Mends everything that users have broken.
    pub(crate) async fn settle(&self) {
        for index in 0..NODES {
            self.mend_node(&node_name(index)).await;
        }
    }

    /// One user, until the run is calm.
    pub(crate) async fn act(self) {
        let every = self.dice.number(60..400);
        while self.links.world().is_busy() {
            NodeRuntime::sleep(self.dice.millis(every / 2..every * 2)).await;
            self.look();
            match self.dice.number(0..20) {
                0..=8 => self.create_pod().await,
                9..=10 => self.delete_pod().await,
                11 => self.finish_pod().await,
                12 => self.lift_gates().await,
                13 => self.take_away().await,
                14 => self.touch().await,
                15 => self.break_node().await,
                16 => self.mend_node(&node_name(self.dice.index(NODES))).await,
                _ => {}
            }
        }
    }

    /// The kubelet of all nodes, and the collector of pods whose node is away, until the world ends.
    pub(crate) async fn keep_nodes(self) {
        while self.links.world().failure().is_none() {
            NodeRuntime::sleep(KUBELET_LOOK).await;
            self.look();
            let over: Vec<String> = {
                let timeline = self.timeline.lock();
                let is_over = |pod: &Pod| {
                    let is_homeless = !pod.node.is_empty() && !timeline.nodes.contains_key(&pod.node);
                    pod.is_ending || pod.is_finished || is_homeless
                };
                timeline.pods.iter().filter(|(_, pod)| is_over(pod)).map(|(name, _)| name.clone()).collect()
            };
            for name in over {
                self.send("DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=0"), Value::Null).await;
            }
        }
    }

    fn any(&self, wanted: impl Fn(&Pod) -> bool) -> Option<String> {
        let timeline = self.timeline.lock();
        let names: Vec<&String> =
            timeline.pods.iter().filter(|(_, pod)| wanted(pod)).map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| names[self.dice.index(names.len())].clone())
    }

    async fn create_pod(&self) {
        let name = format!("p{}", self.dice.index(NAMES));
        let cpu = ["500m", "1", "1", "2", "3500m"][self.dice.index(5)];
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [container], "automountServiceAccountToken": false},
        });
        if self.dice.percent(20) {
            pod["spec"]["priorityClassName"] = json!("high");
        }
        if self.dice.percent(20) {
            let zone = ["even", "odd"][self.dice.index(2)];
            pod["spec"]["nodeSelector"] = json!({"zone": zone});
        }
        if self.dice.percent(10) {
            pod["spec"]["schedulingGates"] = json!([{"name": "gate"}]);
        }
        self.send("POST", PODS, pod).await;
    }

    async fn delete_pod(&self) {
        let Some(name) = self.any(|_| true) else { return };
        let grace = if self.dice.percent(50) { "?gracePeriodSeconds=0" } else { "" };
        self.send("DELETE", &format!("{PODS}/{name}{grace}"), Value::Null).await;
    }

    async fn finish_pod(&self) {
        let Some(name) = self.any(|pod| !pod.node.is_empty() && !pod.is_finished) else { return };
        let done = json!({"status": {"phase": "Succeeded"}});
        self.send("PATCH", &format!("{PODS}/{name}/status"), done).await;
    }

    async fn lift_gates(&self) {
        let Some(name) = self.any(|pod| pod.is_gated) else { return };
        self.send("PATCH", &format!("{PODS}/{name}"), json!({"spec": {"schedulingGates": null}})).await;
    }

    /// Another scheduler binds a pod.
    async fn take_away(&self) {
        let Some(name) = self.any(|pod| pod.node.is_empty() && !pod.is_gated && !pod.is_ending) else {
            return;
        };
        let ignores_room = self.plant == Some(Plant::IgnoresRoom);
        let node = if ignores_room { node_name(0) } else { ELSEWHERE.to_owned() };
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        self.send("POST", &format!("{PODS}/{name}/binding"), binding).await;
    }

    /// A change that means nothing to anyone.
    async fn touch(&self) {
        let Some(name) = self.any(|_| true) else { return };
        let touched = format!("{:?}", NodeRuntime::elapsed());
        self.send(
            "PATCH",
            &format!("{PODS}/{name}"),
            json!({"metadata": {"annotations": {"touched": touched}}}),
        )
        .await;
    }

    async fn break_node(&self) {
        let path = format!("{ALL_NODES}/{}", node_name(self.dice.index(NODES)));
        match self.dice.index(3) {
            0 => self.send("DELETE", &path, Value::Null).await,
            1 => {
                let half = json!({"status": {"allocatable": {"cpu": "2"}}});
                self.send("PATCH", &format!("{path}/status"), half).await
            }
            _ => self.send("PATCH", &path, json!({"spec": {"unschedulable": true}})).await,
        };
    }
}

fn node_name(index: usize) -> String {
    format!("w{index}")
}

fn node(name: &str) -> Value {
    let zone = if name.ends_with(['0', '2']) { "even" } else { "odd" };
    let room = json!({"cpu": "4", "pods": "6"});
    json!({
        "metadata": {"name": name, "labels": {"zone": zone}},
        "status": {"capacity": room, "allocatable": room},
    })
}
