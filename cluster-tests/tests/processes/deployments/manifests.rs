//! The manifests: disruption budgets, affinity and probes, and their pods as processes with the certificates that the header's
//! commands make.
//!
//! Pods have an address each; here a pod has one of the loopback interface, which takes the place of the wildcard among its
//! flags. A secret's items become files, a claim and an empty directory become directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::cluster::{alone, program};
use serde_json::Value;

use super::flags::assert_flags_exist;
use super::root::{Job, Process, Root, Volume, give};
use super::{
    administrator, assert_voters, documents, probe, repository, source, texts, tool, wait_probe,
    wait_scheduled,
};

const FILE: &str = "deploy/kubernetes/orch.yaml";

/// The object of `kind` called `name`.
fn object(kind: &str, name: &str) -> Value {
    let mut all = documents(&source(FILE)).into_iter();
    let found = all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("{FILE} has no {kind} {name}"))
}

/// The pods' templates, by the name of their object.
fn templates() -> [(&'static str, Value); 3] {
    let spec = |kind, name| object(kind, name)["spec"]["template"]["spec"].clone();
    [
        ("orch", spec("StatefulSet", "orch")),
        ("orch-found", spec("Job", "orch-found")),
        ("orch-scheduler", spec("Deployment", "orch-scheduler")),
    ]
}

/// The command of the only container, as it is run under the name of its pod.
fn command(pod: &Value, name: &str) -> Vec<String> {
    let container = &pod["containers"][0];
    let mut command = match &container["command"] {
        Value::Null => vec!["/usr/bin/orch".to_owned()],
        own => texts(own),
    };
    command.extend(texts(&container["args"]).into_iter().map(|text| text.replace("$(POD_NAME)", name)));
    command
}

/// The header's commands, each on one line.
fn header() -> Vec<String> {
    let text = source(FILE);
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    let commands: String =
        lines.filter_map(|line| line.strip_prefix("#     ")).map(|line| format!("{line}\n")).collect();
    commands.replace("\\\n", "").lines().map(str::to_owned).collect()
}

/// Makes the Secret by the header's commands in `folder`.
fn secret(folder: &Path) -> Value {
    let binary = program("orch").unwrap();
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let wanted = ["orch certs init", "deploy/kubernetes/secret.sh"];
    let mut printed = Vec::new();
    for line in header().iter().filter(|line| wanted.iter().any(|start| line.starts_with(start))) {
        // The cluster that would take it is this test.
        let line = line.split(" | kubectl").next().unwrap();
        let line =
            line.replace("deploy/kubernetes", &repository().join("deploy/kubernetes").display().to_string());
        let output = tool("bash", "bash", |command| {
            command.args(["-euc", &line]).current_dir(folder).env("PATH", &path);
        });
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        printed = output.stdout;
    }
    documents(&String::from_utf8(printed).unwrap()).remove(0)
}

#[test]
fn a_certificate_directory_with_a_part_missing_gives_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let member = folder.path().join("members/orch-0");
    fs::create_dir_all(&member).unwrap();
    let shared = [
        "ca.crt",
        "peer-ca.crt",
        "service-account.key",
        "service-account.pub",
        "admin.conf",
        "scheduler.conf",
    ];
    let own = ["server.crt", "server.key", "peer.crt", "peer.key"];
    let mut files: Vec<PathBuf> = shared.iter().map(|name| folder.path().join(name)).collect();
    files.extend(own.iter().map(|name| member.join(name)));
    for file in &files {
        fs::write(file, "x").unwrap();
    }
    let run = || {
        let script = repository().join("deploy/kubernetes/secret.sh");
        tool("bash", "bash", |command| {
            command.arg(script).arg(folder.path());
        })
    };
    let whole = run();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let secret = documents(&String::from_utf8(whole.stdout).unwrap()).remove(0);
    assert_eq!(secret["data"].as_object().unwrap().len(), files.len());
    let refused = |named: &Path| {
        let done = run();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && done.stdout.is_empty(), "{}: {told}", named.display());
        assert!(told.contains(&named.display().to_string()), "{}: {told}", named.display());
    };
    for file in &files {
        fs::write(file, "").unwrap();
        refused(file);
        fs::remove_file(file).unwrap();
        refused(file);
        // A directory in its place cannot be read, by root either.
        fs::create_dir(file).unwrap();
        refused(file);
        fs::remove_dir(file).unwrap();
        fs::write(file, "x").unwrap();
    }
    fs::remove_dir_all(folder.path().join("members")).unwrap();
    refused(&folder.path().join("members"));
}

/// The volumes of `pod`, each mounted where its container has it.
fn volumes(root: &Root, pod: &Value, name: &str, secret: &Value) -> Vec<Volume> {
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = |mount: &Value| {
        let volume = mount["name"].as_str().unwrap();
        let from = root.directory(&format!("{name}-{volume}"), 0o2770);
        let all = pod["volumes"].as_array().unwrap();
        // A volume that no entry names is the claim.
        if let Some(volume) = all.iter().find(|known| known["name"] == volume)
            && let Some(wanted) = volume.get("secret")
        {
            assert_eq!(wanted["secretName"], secret["metadata"]["name"]);
            write_items(&from, wanted, &secret["data"]);
        }
        let to = mount["mountPath"].as_str().unwrap().to_owned();
        Volume { from, to, is_writable: mount["readOnly"] != true }
    };
    mounts.iter().map(mount).collect()
}

fn write_items(folder: &Path, wanted: &Value, data: &Value) {
    for item in wanted["items"].as_array().unwrap() {
        let (key, path) = (item["key"].as_str().unwrap(), folder.join(item["path"].as_str().unwrap()));
        let text = data[key].as_str().unwrap_or_else(|| panic!("the Secret has no {key}"));
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        fs::write(&path, STANDARD.decode(text).unwrap()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
        for made in [parent, parent.parent().unwrap(), &path] {
            give(made);
        }
    }
}

#[test]
fn pods_are_confined_and_have_flags_that_exist() {
    for (name, pod) in templates() {
        let (security, container) = (&pod["securityContext"], &pod["containers"][0]);
        assert_eq!(
            (&security["runAsNonRoot"], &security["runAsUser"]),
            (&true.into(), &65_532.into()),
            "{name}"
        );
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(texts(&security["capabilities"]["drop"]), ["ALL"], "{name}");
        assert_flags_exist(&command(&pod, "orch-0"));
    }
}

#[test]
fn members_are_kept_apart_and_one_at_a_time_is_taken_away() {
    let members = object("StatefulSet", "orch");
    let labels = &members["spec"]["selector"]["matchLabels"];
    let template = &members["spec"]["template"];
    let given = template["metadata"]["labels"].as_object().unwrap();
    assert!(labels.as_object().unwrap().iter().all(|(name, value)| given.get(name) == Some(value)));
    let rule =
        &template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(
        (&rule["topologyKey"], &rule["labelSelector"]["matchLabels"]),
        (&"kubernetes.io/hostname".into(), labels)
    );
    let budget = object("PodDisruptionBudget", "orch");
    assert_eq!(
        (&budget["spec"]["maxUnavailable"], &budget["spec"]["selector"]["matchLabels"]),
        (&1.into(), labels)
    );
    let peers = object("Service", "orch-peers");
    assert_eq!(peers["spec"]["publishNotReadyAddresses"], true, "founders are not ready");
    assert_eq!((&peers["spec"]["selector"], &members["spec"]["serviceName"]), (labels, &"orch-peers".into()));
}

/// The path of a pod's probe.
fn probed(pod: &Value, name: &str) -> String {
    let probe = &pod["containers"][0][name]["httpGet"];
    assert_eq!((&probe["scheme"], &probe["port"]), (&"HTTPS".into(), &"https".into()), "{name}");
    probe["path"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pods_become_a_cluster_that_schedules() {
    let _alone = alone().await.unwrap();
    let names = ["orch-0", "orch-1", "orch-2"];
    let address = |place: usize| format!("127.37.0.{}", place + 1);
    let hosts: Vec<(String, String)> =
        (0..3).map(|place| (format!("{}.orch-peers", names[place]), address(place))).collect();
    let root = Root::new(&hosts);
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(folder.path());
    let [(_, member), (_, founding), (_, scheduler)] = templates();
    let start = |pod: &Value, name: &str, further: &[String], address: &str| -> Process {
        let own = |text: String| text.replace("0.0.0.0", address);
        let command = command(pod, name).into_iter().map(own).chain(further.iter().cloned()).collect();
        let volumes = volumes(&root, pod, name, &secret);
        root.start(&Job { name: name.to_owned(), command, volumes, ..Job::default() })
    };
    let further =
        |place: usize| vec![format!("--bind-address={}", address(place)), "--disk-reserve=64Mi".to_owned()];
    let mut running: Vec<Process> =
        (0..3).map(|place| start(&member, names[place], &further(place), &address(place))).collect();
    // A member that waits to be founded lives, and is not ready.
    for place in 0..3 {
        wait_probe(&address(place), &probed(&member, "startupProbe")).await;
        wait_probe(&address(place), &probed(&member, "livenessProbe")).await;
        let unready = probe(&address(place)).get(&probed(&member, "readinessProbe")).await.unwrap();
        assert_ne!(unready.status, 200, "{unready:?}");
    }
    let mut found = start(&founding, "orch-found", &[], "");
    assert!(found.wait().await.success(), "{}", found.log());
    for place in 0..3 {
        wait_probe(&address(place), &probed(&member, "readinessProbe")).await;
    }
    for place in 0..2 {
        let bind = vec![format!("--bind-address={}", address(3 + place))];
        running.push(start(&scheduler, &format!("orch-scheduler-{place}"), &bind, ""));
    }
    let client = administrator(&folder.path().join("certs"), &address(0));
    assert_voters(&client, &names).await;
    wait_scheduled(&client).await;
    for process in &mut running {
        process.assert_running();
        process.assert_confined();
    }
}
