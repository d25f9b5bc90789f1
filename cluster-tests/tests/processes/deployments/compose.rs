//! The compose file: its services refer to what is there, are confined, and run as processes in the order that it says.
//!
//! Containers have an address each; processes of one machine share theirs. So each service gets an address of the loopback
//! interface under its name, and those that listen get it as a further flag. Nothing else is added but a small reserve, for
//! machines with a nearly full disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use orch_cluster_tests::cluster::alone;
use serde_json::Value;

use super::containers;
use super::flags::assert_flags_exist;
use super::root::{Job, Process, Root, Volume, settable};
use super::{administrator, assert_voters, documents, source, texts, wait_probe, wait_scheduled};

const FILE: &str = "deploy/compose/compose.yaml";

/// A service, as the file has it.
struct Service {
    name: String,
    value: Value,
}

impl Service {
    fn all() -> Vec<Service> {
        let file = documents(&source(FILE)).remove(0);
        let services = file["services"].as_object().unwrap().clone();
        let named: BTreeMap<String, Value> = file["volumes"]
            .as_object()
            .map(|volumes| volumes.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            .unwrap_or_default();
        let all: Vec<Service> = services.into_iter().map(|(name, value)| Service { name, value }).collect();
        for service in &all {
            for (volume, _, _) in service.volumes() {
                assert!(named.contains_key(&volume), "{}: volume {volume} is not declared", service.name);
            }
            for needed in service.needs() {
                assert!(all.iter().any(|other| other.name == needed), "{}: {needed}", service.name);
            }
        }
        all
    }

    fn command(&self) -> Vec<String> {
        let mut command = match &self.value["entrypoint"] {
            // The image's program.
            Value::Null => containers::words("ENTRYPOINT"),
            own => texts(own),
        };
        command.extend(texts(&self.value["command"]));
        command
    }

    /// Name, path and whether it may be written.
    fn volumes(&self) -> Vec<(String, String, bool)> {
        let split = |text: String| {
            let mut parts = text.split(':').map(str::to_owned);
            let (name, path) = (parts.next().unwrap(), parts.next().unwrap());
            (name, path, parts.next().as_deref() != Some("ro"))
        };
        texts(&self.value["volumes"]).into_iter().map(split).collect()
    }

    fn needs(&self) -> Vec<String> {
        self.value["depends_on"].as_object().map(|needs| needs.keys().cloned().collect()).unwrap_or_default()
    }

    fn is_member(&self) -> bool {
        self.value["command"][0] == "serve"
    }

    /// The process of this service, at `address`.
    fn job(&self, root: &Root, address: &str) -> Job {
        let mut command = self.command();
        if self.is_member() {
            command.extend([format!("--bind-address={address}"), "--disk-reserve=64Mi".to_owned()]);
        } else if self.name.starts_with("scheduler") {
            command.push(format!("--bind-address={address}"));
        }
        let volume = |(name, to, is_writable): (String, String, bool)| Volume {
            from: root.directory(&name, 0o700),
            to,
            is_writable,
        };
        let temporary = texts(&self.value["tmpfs"]).into_iter().map(|text| {
            let path = text.split(':').next().unwrap().to_owned();
            let from = root.directory(&format!("{}-tmpfs", self.name), 0o700);
            Volume { from, to: path, is_writable: true }
        });
        let mut limits = Vec::new();
        if let Some(found) = self.value["ulimits"].as_object() {
            limits.push(format!("--nofile={}:{}", found["nofile"]["soft"], found["nofile"]["hard"]));
            limits.push(format!("--nice={0}:{0}", found["nice"]));
        }
        Job {
            name: self.name.clone(),
            command,
            volumes: self.volumes().into_iter().map(volume).chain(temporary).collect(),
            limits: settable(limits),
            ..Job::default()
        }
    }
}

#[test]
fn every_service_is_confined_and_has_flags_that_exist() {
    let image = source("deploy/containers/Containerfile");
    assert!(image.contains("\nUSER 65532:65532\n"), "the image's user is that of these tests");
    for service in Service::all() {
        let Service { name, value } = &service;
        assert_eq!(value["user"], "65532:65532", "{name}");
        assert_eq!(value["read_only"], true, "{name}");
        assert_eq!(texts(&value["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(texts(&value["security_opt"]), ["no-new-privileges:true"], "{name}");
        assert_flags_exist(&service.command());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_services_become_a_cluster_that_schedules() {
    let _alone = alone().await.unwrap();
    let services = Service::all();
    let addresses: Vec<(String, String)> = services
        .iter()
        .enumerate()
        .map(|(place, service)| (service.name.clone(), format!("127.36.0.{}", place + 1)))
        .collect();
    let address = |name: &str| addresses.iter().find(|(known, _)| known == name).unwrap().1.clone();
    let root = Root::new(&addresses);
    let start = |service: &Service| root.start(&service.job(&root, &address(&service.name)));
    let mut running: BTreeMap<String, Process> = BTreeMap::new();
    // A service starts after those that it needs; one that must complete is waited for.
    let mut left: Vec<&Service> = services.iter().collect();
    while !left.is_empty() {
        let place = left.iter().position(|service| {
            service.needs().iter().all(|needed| left.iter().all(|other| other.name != *needed))
        });
        let service = left.remove(place.expect("services need each other"));
        let mut process = start(service);
        match service.value["restart"].as_str() {
            Some("unless-stopped") => drop(running.insert(service.name.clone(), process)),
            Some("on-failure") => {
                while !process.wait().await.success() {
                    process = start(service);
                }
                assert!(process.log().contains("founded the cluster of a, b, c"), "{}", process.log());
            }
            _ => assert!(process.wait().await.success(), "{}:\n{}", service.name, process.log()),
        }
    }
    for name in ["a", "b", "c"] {
        wait_probe(&address(name), "/readyz").await;
    }
    let certificates: PathBuf = root.directory("certs", 0o700);
    let client = administrator(&certificates, &address("a"));
    assert_voters(&client, &["a", "b", "c"]).await;
    wait_scheduled(&client).await;
    for process in running.values_mut() {
        process.assert_running();
        process.assert_confined();
    }
    let member = services.iter().find(|service| service.name == "b").unwrap();
    let grace = member.value["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    running.get_mut("b").unwrap().assert_stops(Duration::from_secs(grace)).await;
    // Later starts make no certificates anew.
    let certs = services.iter().find(|service| service.name == "certs").unwrap();
    let mut again = start(certs);
    assert!(again.wait().await.success(), "{}", again.log());
    assert!(again.log().contains("has all of them already"), "{}", again.log());
}
