//! Broken set-ups: each is named with the next step.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use orch_proto::store::Identity;
use orch_raft::disk::rocks::RocksDisk;
use orch_raft::disk::rocks::layout::{FORMAT, STORE};
use orch_raft::disk::{Disk, MetaKey};
use prost::Message;

use super::*;
use crate::certs::init;
use crate::cli::{CertsCommand, Cli, Command};

fn machine() -> Machine {
    Machine { now: OffsetDateTime::now_utc(), files: None, memory: Some(8 << 30), keeps_time: true }
}

fn arguments(line: &str) -> DoctorArgs {
    let line = format!("orch doctor --bind-address 127.0.0.1 --secure-port 0 --peer-port 0 {line}");
    let Command::Doctor(arguments) = Cli::parse_from(line.split_whitespace()).command else {
        panic!("{line}")
    };
    arguments
}

/// A data directory and certificates of members a and b.
fn set_up() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    let line = format!(
        "orch certs init --dir {} --member a=127.0.0.1 --member b=127.0.0.1",
        root.path().join("certs").display()
    );
    let Command::Certs(CertsCommand::Init(arguments)) = Cli::parse_from(line.split_whitespace()).command
    else {
        panic!("{line}")
    };
    init(&arguments, OffsetDateTime::now_utc()).unwrap();
    root
}

fn line(root: &Path) -> String {
    format!("--data-dir {0}/data --certs-dir {0}/certs --name a", root.display())
}

/// The checks' findings, without those that depend on the machine that runs this.
fn found(root: &Path, machine: &Machine) -> Vec<Check> {
    let mut checks = examine(&arguments(&line(root)), machine);
    checks.retain(|check| !matches!(check.name, "room" | "sync"));
    checks
}

#[test]
fn a_sound_set_up_has_nothing_to_be_done() {
    let root = set_up();
    let checks = found(root.path(), &machine());
    assert_eq!((code(&checks), worst(&checks)), (0, None), "{}", text(&checks));
    let all = examine(&arguments(&line(root.path())), &machine());
    assert!(all.iter().any(|check| check.name == "sync" && check.looked_at.contains("50 syncs")), "{all:?}");
    assert_eq!(fs::read_dir(root.path().join("data")).unwrap().count(), 0, "it leaves nothing behind");
}

type Break = fn(&Path, &mut Machine);

/// A way to break a set-up, the check that finds it, the exit code, and the message.
const TABLE: [(&str, Break, u8, &str, &str); 21] = [
    ("open-files", |_, machine| machine.files = Some(1024), 3, "4096 open files", "LimitNOFILE"),
    ("memory", |_, machine| machine.memory = Some(100 << 20), 3, "a member needs", "larger machine"),
    ("clock", |_, machine| machine.keeps_time = false, 3, "no client of NTP", "chrony"),
    ("clock", |_, machine| machine.now = OffsetDateTime::UNIX_EPOCH, 4, "before this program", "NTP"),
    ("data-directory", |root, _| mode(&root.join("data"), 0o755), 3, "others than its owner", "chmod 700"),
    (
        "data-directory",
        |root, _| {
            fs::remove_dir(root.join("data")).unwrap();
            fs::write(root.join("data"), "").unwrap();
        },
        4,
        "is no directory",
        "--data-dir",
    ),
    (
        "certificates",
        |root, _| fs::remove_file(root.join("certs/ca.crt")).unwrap(),
        4,
        "there is no",
        "orch certs init",
    ),
    (
        "certificates",
        |root, _| fs::remove_file(root.join("certs/peer-ca.crt")).unwrap(),
        4,
        "peer-ca.crt",
        "copy it from the directory",
    ),
    (
        "certificates",
        |root, _| {
            drop(fs::copy(root.join("certs/members/b/peer.key"), root.join("certs/members/a/peer.key")))
        },
        4,
        "does not belong to the certificate",
        "orch certs renew",
    ),
    (
        "certificates",
        |root, _| fs::write(root.join("certs/members/a/server.key"), "x").unwrap(),
        4,
        "server.key",
        "orch certs renew",
    ),
    (
        "store",
        |root, _| {
            drop(RocksDisk::open(&root.join("data").join(STORE)).unwrap());
            fs::write(root.join("data").join(STORE).join(FORMAT), "orch store 7\n").unwrap();
        },
        4,
        "which this version does not know",
        "a newer program wrote it",
    ),
    (
        "store",
        |root, _| {
            let disk = RocksDisk::open(&root.join("data").join(STORE)).unwrap();
            let identity = Identity { node: 7, name: "b".to_owned(), ..Identity::default() };
            let (done, saved) = std::sync::mpsc::channel();
            let told = Box::new(move |result| drop(done.send(result)));
            disk.save_meta(MetaKey::Identity, identity.encode_to_vec().into(), Some(told)).unwrap();
            saved.recv().unwrap().unwrap();
        },
        4,
        "the data belongs to member b, not to a",
        "--name b",
    ),
    (
        "certificates",
        |root, _| fs::remove_dir_all(root.join("certs/members/a")).unwrap(),
        4,
        "server.crt",
        "orch certs renew",
    ),
    (
        "certificates",
        |root, _| fs::remove_file(root.join("certs/members/a/peer.key")).unwrap(),
        4,
        "peer.key cannot be read",
        "copy",
    ),
    (
        "certificates",
        |root, _| mode(&root.join("certs/members/a/server.key"), 0o644),
        3,
        "others than its owner may read",
        "chmod 600",
    ),
    (
        "certificates",
        |root, _| fs::write(root.join("certs/members/a/server.crt"), "x").unwrap(),
        4,
        "holds no certificate",
        "orch certs renew",
    ),
    (
        "certificates",
        |root, _| fs::write(root.join("certs/ca.crt"), "x").unwrap(),
        4,
        "ca.crt holds no certificate",
        "orch certs rotate-ca",
    ),
    (
        "certificates",
        |root, _| fs::remove_file(root.join("certs/service-account.key")).unwrap(),
        4,
        "service-account.key cannot be read",
        "orch certs init",
    ),
    (
        "certificates",
        |_, machine| machine.now -= time::Duration::days(30),
        4,
        "is not valid before",
        "set this machine's clock",
    ),
    ("certificates", |_, machine| machine.now += time::Duration::days(5000), 4, "has expired", "orch certs"),
    (
        "certificates",
        |_, machine| machine.now += time::Duration::days(360),
        3,
        "expires soon",
        "orch certs renew",
    ),
];

#[test]
fn each_broken_set_up_is_named_with_the_next_step() {
    for (name, broken, expected, message, next) in TABLE {
        let root = set_up();
        let mut machine = machine();
        broken(root.path(), &mut machine);
        let checks = found(root.path(), &machine);
        let shown = text(&checks);
        assert_eq!(code(&checks), expected, "{name} {message}: {shown}");
        let findings = checks.iter().filter(|check| check.name == name).flat_map(|check| &check.findings);
        let is_told = |finding: &Finding| finding.message.contains(message) && finding.next.contains(next);
        assert!(findings.clone().any(is_told), "{name} {message}: {shown}");
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_port_in_use_and_an_address_of_another_machine_are_named() {
    let root = set_up();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = format!(
        "orch doctor --data-dir {}/data --bind-address 127.0.0.1 --secure-port {port} --peer-port 0",
        root.path().display()
    );
    let Command::Doctor(taken) = Cli::parse_from(line.split_whitespace()).command else { panic!("{line}") };
    let shown = text(&machine::checks(&taken, &machine()));
    assert!(shown.contains("another process listens there") && shown.contains("ss -ltnp"), "{shown}");
    let elsewhere = DoctorArgs { bind_address: "203.0.113.7".to_owned(), ..arguments("--data-dir d") };
    let shown = text(&machine::checks(&elsewhere, &machine()));
    assert!(shown.contains("no interface of this machine") && shown.contains("ip -brief address"), "{shown}");
}

#[test]
fn a_store_in_use_is_named_and_one_that_nobody_uses_is_read() {
    let root = set_up();
    let store = root.path().join("data").join(STORE);
    let disk = RocksDisk::open(&store).unwrap();
    let checks = found(root.path(), &machine());
    assert!(code(&checks) == 4 && text(&checks).contains("orch cluster status"), "{}", text(&checks));
    drop(disk);
    let checks = found(root.path(), &machine());
    assert!(code(&checks) == 0 && text(&checks).contains("which no member has used"), "{}", text(&checks));
}

#[test]
fn a_slow_disk_is_named_by_its_median_and_by_its_worst_sync() {
    let judged = |times: &[u64]| {
        let mut check = Check::passed("sync", "d");
        let times: Vec<Duration> = times.iter().map(|ms| Duration::from_millis(*ms)).collect();
        disk::judge(&mut check, &times);
        check
    };
    assert_eq!(judged(&[1, 1, 2, 3]).findings, []);
    assert!(text(&[judged(&[1, 15, 16, 20])]).contains("the disk is slow: half of the syncs take 16.0ms"));
    assert!(text(&[judged(&[1, 1, 2, 900])]).contains("would be taken for dead"));
}

#[test]
fn a_disk_that_is_nearly_full_is_named() {
    let judged = |free: u64| {
        let mut check = Check::passed("room", "d");
        disk::judge_room(&mut check, free);
        check
    };
    assert_eq!(judged(2 << 30).findings, []);
    let full = judged(200 << 20);
    assert_eq!(
        (full.looked_at.as_str(), code(std::slice::from_ref(&full))),
        ("200 MiB free on the disk of d", 4)
    );
    assert!(text(&[full]).contains("-> make room, or name a directory on another disk"));
}

#[test]
fn a_certificate_for_another_address_is_named_where_the_member_listens_at_one() {
    let root = set_up();
    let certs = root.path().join("certs");
    let at = |address: &str| certificates::checks(&certs, (Some("a"), address), OffsetDateTime::now_utc());
    for address in ["0.0.0.0", "[::]", "0:0::0", "127.0.0.1", "::ffff:127.0.0.1"] {
        assert_eq!(worst(&at(address)), None, "{address}: {}", text(&at(address)));
    }
    let shown = text(&at("10.9.8.7"));
    assert!(
        shown.contains("is not for 10.9.8.7, where it is served, but for")
            && shown.contains("orch certs add")
    );
    assert_eq!(code(&at("10.9.8.7")), 3, "{shown}");
}

#[test]
fn addresses_are_compared_as_addresses_and_names_as_names() {
    use std::net::IpAddr;

    use certificates::{Host, is_served_by};

    let resolve = |name: &str| -> Vec<IpAddr> {
        let addresses: &[&str] = match name {
            "localhost" => &["127.0.0.1", "::1"],
            "a.example.com" => &["10.0.0.1"],
            _ => &[],
        };
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    };
    let table: [(&[&str], &str, bool); 19] = [
        (&["10.0.0.1"], "10.0.0.1", true),
        (&["10.0.0.1"], "10.0.0.10", false),
        (&["10.0.0.1"], "::ffff:10.0.0.1", true),
        (&["10.0.0.1"], "[::ffff:a00:1]", true),
        (&["::1"], "[::1]", true),
        (&["::1"], "0:0:0:0:0:0:0:1", true),
        (&["::1"], "[0::1]", true),
        (&["::1"], "127.0.0.1", false),
        (&["2001:db8::a"], "2001:DB8:0:0::A", true),
        (&["localhost"], "LOCALHOST.", true),
        (&["localhost"], "127.0.0.1", false),
        (&["127.0.0.1", "::1"], "localhost", true),
        (&["127.0.0.1"], "localhost", false),
        (&["10.0.0.1"], "A.example.com", true),
        (&["10.0.0.2"], "a.example.com", false),
        (&["*.example.com"], "b.example.com", true),
        (&["*.example.com"], "example.com", false),
        (&["*.example.com"], "c.b.example.com", false),
        (&["10.0.0.1"], "unknown.example.com", false),
    ];
    for (hosts, address, expected) in table {
        let hosts: Vec<Host> = hosts.iter().map(|host| Host::of(host)).collect();
        assert_eq!(is_served_by(&hosts, &Host::of(address), resolve), expected, "{hosts:?} {address}");
    }
}

#[test]
fn findings_are_a_document_for_programs() {
    let mut check = Check::passed("clock", "now");
    check.fault("it is wrong", "set it");
    let document = document(&[check]);
    assert_eq!(
        (&document["code"], &document["checks"][0]["findings"][0]["severity"]),
        (&json!(4), &json!("fault"))
    );
}
