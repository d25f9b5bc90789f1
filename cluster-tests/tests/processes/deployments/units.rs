//! The units: their hardening, and their programs as processes under their limits, with their state directory alone writable.
//!
//! `ProtectSystem=strict` becomes the read-only root, `StateDirectory=` a volume, `LimitX=` a limit, `UMask=` the umask. What
//! systemd does beyond (filters of system calls and address families, `MemoryDenyWriteExecute=`, private devices) is looked for
//! in the file and not tried.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use orch_cluster_tests::cluster::{alone, program};
use rustix::process::Signal;

use super::flags::assert_flags_exist;
use super::root::{Job, Root, Volume, give, settable};
use super::{administrator, assert_voters, source, until, wait_probe, wait_scheduled};

/// Settings that both units have.
const HARDENING: [(&str, &str); 21] = [
    ("AmbientCapabilities", ""),
    ("CapabilityBoundingSet", ""),
    ("LimitCORE", "0"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("NoNewPrivileges", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateTmp", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectHome", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectSystem", "strict"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("StateDirectoryMode", "0700"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service"),
    ("UMask", "0077"),
];

/// Nice value 0 as a resource limit: it counts down from there.
const NICE_ZERO: i32 = 20;

/// Nice value of the store's threads, which the unit allows.
const STORE_NICENESS: i32 = -5;

/// The time that systemd gives a unit to stop which names none.
const DEFAULT_STOP: Duration = Duration::from_secs(90);

/// Address of the member and of the scheduler.
const ADDRESS: &str = "127.36.1.1";

/// A unit's settings by section and name.
struct Unit(BTreeMap<(String, String), String>);

impl Unit {
    fn read(name: &str) -> Unit {
        let (mut settings, mut section) = (BTreeMap::new(), String::new());
        for line in source(&format!("deploy/systemd/{name}")).lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                name.clone_into(&mut section);
            } else if !line.is_empty() && !line.starts_with('#') {
                let (name, value) = line.split_once('=').unwrap_or_else(|| panic!("{line:?} sets nothing"));
                let before = settings.insert((section.clone(), name.to_owned()), value.to_owned());
                assert!(before.is_none(), "{name} is set twice");
            }
        }
        Unit(settings)
    }

    fn service(&self, name: &str) -> &str {
        let found = self.0.get(&("Service".to_owned(), name.to_owned()));
        found.unwrap_or_else(|| panic!("the unit does not set {name}"))
    }

    fn command(&self) -> Vec<String> {
        self.service("ExecStart").split_whitespace().map(str::to_owned).collect()
    }

    /// Its process, with `configuration` as /etc/orch and further flags.
    fn job(&self, root: &Root, name: &str, configuration: &Volume, further: &[&str]) -> Job {
        let state = self.service("StateDirectory");
        let mode = u32::from_str_radix(self.service("StateDirectoryMode"), 8).unwrap();
        let state_directory =
            Volume { from: root.directory(state, mode), to: format!("/var/lib/{state}"), is_writable: true };
        let mut command = self.command();
        command.extend(further.iter().map(ToString::to_string));
        let descriptors = self.service("LimitNOFILE");
        let mut limits = vec![format!("--nofile={descriptors}:{descriptors}"), "--core=0:0".to_owned()];
        if let Some(nice) = self.0.get(&("Service".to_owned(), "LimitNICE".to_owned())) {
            let limit = NICE_ZERO - nice.parse::<i32>().unwrap();
            limits.push(format!("--nice={limit}:{limit}"));
        }
        Job {
            name: name.to_owned(),
            command,
            volumes: vec![configuration.clone(), state_directory],
            limits: settable(limits),
            umask: self.service("UMask").to_owned(),
            ..Job::default()
        }
    }
}

#[test]
fn both_units_are_hardened_and_have_flags_that_exist() {
    for (name, user) in [("orch.service", "orch"), ("orch-scheduler.service", "orch-scheduler")] {
        let unit = Unit::read(name);
        for (setting, value) in HARDENING {
            assert_eq!(unit.service(setting), value, "{name}: {setting}");
        }
        assert_eq!((unit.service("User"), unit.service("StateDirectory")), (user, user));
        assert_flags_exist(&unit.command());
        let install = source("deploy/package/postinst");
        assert!(
            install.contains(&format!("make_user {user} /var/lib/{user}\n")),
            "{name}: the package makes {user}"
        );
    }
    let unit = Unit::read("orch.service");
    assert_eq!(unit.service("LimitNICE"), STORE_NICENESS.to_string());
    assert_eq!(unit.service("RestartPreventExitStatus"), "2", "exit code of a wrong flag");
    assert_eq!(unit.service("ExecReload"), "/bin/kill -HUP $MAINPID");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_units_start_a_member_and_a_scheduler() {
    let _alone = alone().await.unwrap();
    let root = Root::new(&[("a".to_owned(), ADDRESS.to_owned())]);
    let configuration = root.directory("etc", 0o755);
    let certificates = configuration.join("certs");
    let made = Command::new(program("orch").unwrap())
        .args(["certs", "init", "--member", "a=a", "--dir"])
        .arg(&certificates)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = format!(
        "name = \"a\"\ncerts-dir = \"/etc/orch/certs\"\nbind-address = \"{ADDRESS}\"\ndisk-reserve = \"64Mi\"\n\
         [initial-cluster]\na = \"a:6444\"\n"
    );
    fs::write(configuration.join("orch.toml"), text).unwrap();
    fs::copy(certificates.join("scheduler.conf"), configuration.join("scheduler.conf")).unwrap();
    give_all(&configuration);
    let etc = Volume { from: configuration, to: "/etc/orch".to_owned(), is_writable: false };
    let (member, scheduler) = (Unit::read("orch.service"), Unit::read("orch-scheduler.service"));
    let job = member.job(&root, "orch", &etc, &[]);
    let may_raise = job.limits.iter().any(|limit| limit.starts_with("--nice="));
    let mut member = root.start(&job);
    wait_probe(ADDRESS, "/livez").await;
    let found = ["/usr/bin/orch", "cluster", "found", "--kubeconfig=/etc/orch/certs/admin.conf"];
    let found = Job {
        name: "found".to_owned(),
        command: found.map(str::to_owned).into(),
        volumes: vec![etc.clone()],
        ..Job::default()
    };
    let mut found = root.start(&found);
    assert!(found.wait().await.success(), "{}", found.log());
    wait_probe(ADDRESS, "/readyz").await;
    let bind = format!("--bind-address={ADDRESS}");
    let mut scheduler = root.start(&scheduler.job(&root, "orch-scheduler", &etc, &[&bind]));
    let client = administrator(&certificates, ADDRESS);
    assert_voters(&client, &["a"]).await;
    wait_scheduled(&client).await;
    for process in [&mut member, &mut scheduler] {
        process.assert_running();
        process.assert_confined();
    }
    member.signal(Signal::HUP);
    until("the member reads its certificates again", async || {
        let log = member.log();
        if log.contains(r#"reloaded what="api certificates""#) { Ok(()) } else { Err(log) }
    })
    .await;
    let expected = if may_raise { STORE_NICENESS } else { 0 };
    assert_eq!(niceness(member.pid(), "store"), expected, "LimitNICE= lets the store's threads go first");
    assert_eq!(niceness(member.pid(), "api"), 0);
    // The scheduler gives up its lease, and a unit without a time of its own has systemd's.
    scheduler.assert_stops(DEFAULT_STOP).await;
    let grace = Unit::read("orch.service").service("TimeoutStopSec").parse().unwrap();
    member.assert_stops(Duration::from_secs(grace)).await;
}

/// Gives everything below `path` to the image's user, as an operator does.
fn give_all(path: &std::path::Path) {
    give(path);
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_all(&entry.unwrap().path());
        }
    }
}

/// Nice value of a thread called `name`.
fn niceness(pid: u32, name: &str) -> i32 {
    for entry in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let stat = fs::read_to_string(entry.unwrap().path().join("stat")).unwrap();
        let (head, fields) = stat.rsplit_once(')').unwrap();
        if head.ends_with(&format!("({name}")) {
            // Field 19 of all, of which two stand before.
            return fields.split_whitespace().nth(16).unwrap().parse().unwrap();
        }
    }
    panic!("no thread is called {name}");
}
