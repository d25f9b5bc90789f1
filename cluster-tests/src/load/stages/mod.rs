//! Where the servers' CPU time goes: samples of their stacks by stage of a request, and switches of their threads.
//!
//! Owns the stages and the rule that gives a sample to one: the innermost frame that names a stage decides, so that each sample is
//! counted once and the shares add up to one. `recording` takes the samples. Names of frames are compared as the compiler writes
//! them, mangled or not; no symbol is decoded here.

mod recording;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub(super) use self::recording::Recording;

/// A stage and the paths of its functions. Of several in one frame the one that stands first decides: type parameters follow.
struct Stage {
    name: &'static str,
    paths: &'static [&'static str],
}

/// A stage of a request, or of the work beside it.
const fn stage(name: &'static str, paths: &'static [&'static str]) -> Stage {
    Stage { name, paths }
}

/// The stages, in the order of a request's life.
const STAGES: &[Stage] = &[
    stage("socket", &["tcp_", "sock_", "inet_", "unix_stream_", "__skb", "skb_", "net_rx_action"]),
    stage("accept", &["orch_node::server::serve", "orch_node::server::places", "orch_node::tls"]),
    stage(
        "TLS",
        &["rustls", "tokio_rustls", "ring", "ring_core", "orch_node::server::gather", "aes_", "gcm_"],
    ),
    stage(
        "HTTP/2",
        &["h2", "hyper", "hyper_util", "httparse", "http", "tower", "tower_http", "axum", "axum_core"],
    ),
    stage("connection", &["orch_node::server", "orch_node::run"]),
    stage(
        "gate",
        &["orch_api::gate", "orch_api::authn", "orch_api::authz", "orch_api::request", "orch_api::endpoint"],
    ),
    stage("flow control", &["orch_api::flow", "orch_api::http::stages::seated"]),
    stage(
        "decode",
        &["orch_schema::json", "orch_schema::protobuf", "orch_schema::fill", "orch_api::pipeline::incoming"],
    ),
    stage("patch", &["orch_api::patch", "orch_api::pipeline::patch", "orch_api::pipeline::modify"]),
    stage("ownership", &["orch_api::fields"]),
    stage("admission", &["orch_api::admission", "orch_api::pipeline::admit", "orch_api::webhook"]),
    stage("validate", &["orch_rules", "orch_expression"]),
    stage(
        "encode",
        &[
            "orch_schema::json::encode",
            "orch_schema::json::stored",
            "orch_schema::json::text",
            "orch_api::pipeline::stored",
        ],
    ),
    stage("pipeline", &["orch_api::pipeline", "orch_api::http", "orch_api::registry", "orch_schema"]),
    stage(
        "propose",
        &[
            "orch_raft::member::handle",
            "orch_raft::member::proposals",
            "orch_raft::member::forward",
            "orch_raft::encoding",
            "orch_api::pipeline::propose",
        ],
    ),
    stage("consensus", &["openraft", "orch_raft::member"]),
    stage("log", &["orch_raft::member::log", "orch_raft::disk", "rocksdb"]),
    stage("disk", &["ext4_", "jbd2_", "xfs_", "vfs_fsync", "blk_", "__blk", "submit_bio", "virtblk_"]),
    stage("apply", &["orch_raft::member::machine", "orch_raft::state", "orch_raft::object", "imbl"]),
    stage(
        "wake",
        &[
            "orch_raft::interest",
            "orch_raft::notify",
            "orch_raft::member::machine::announce",
            "futex_wake",
            "eventfd_",
        ],
    ),
    stage(
        "watch",
        &["orch_api::watch", "orch_api::follow", "orch_api::controllers", "orch_api::definitions"],
    ),
    stage("render", &["orch_api::render", "orch_api::http::respond", "orch_api::answer"]),
    stage("audit", &["orch_api::audit", "orch_api::pipeline::audited", "orch_node::audit"]),
    stage(
        "metrics",
        &[
            "orch_api::metrics",
            "orch_api::http::request_figures",
            "metrics",
            "metrics_util",
            "metrics_exporter_prometheus",
        ],
    ),
    stage("runtime", &["tokio", "mio", "futures_util", "parking_lot"]),
    stage(
        "waits and switches",
        &[
            "__schedule",
            "finish_task_switch",
            "futex_wait",
            "ep_poll",
            "do_epoll_wait",
            "hrtimer_",
            "try_to_wake_up",
        ],
    ),
];

/// The stage of samples whose frames name none.
const OTHER: &str = "other";

/// Samples by stage and by thread, and switches by thread, of one work.
#[derive(Debug, Default, Serialize)]
pub(super) struct Profile {
    samples: u64,
    stages: BTreeMap<&'static str, u64>,
    threads: BTreeMap<String, Thread>,
}

/// The part of the threads of one name.
#[derive(Debug, Default, Serialize)]
struct Thread {
    samples: u64,
    /// Times that they gave up a processor, and that one was taken from them.
    switches: u64,
}

impl Profile {
    /// Adds a sample of the thread `name` in `stage`; `None`: its frames name none.
    fn add(&mut self, name: &str, stage: Option<&'static str>) {
        self.samples += 1;
        *self.stages.entry(stage.unwrap_or(OTHER)).or_default() += 1;
        self.thread(name).samples += 1;
    }

    /// Adds switches of the threads of this name.
    fn add_switches(&mut self, name: &str, switches: u64) {
        self.thread(name).switches += switches;
    }

    fn thread(&mut self, name: &str) -> &mut Thread {
        if !self.threads.contains_key(name) {
            self.threads.insert(name.to_owned(), Thread::default());
        }
        self.threads.entry(name.to_owned()).or_default()
    }

    /// The figures of `operations`, each of which took `cpu_us`.
    pub(super) fn table(&self, cpu_us: f64, operations: u64) -> Table<'_> {
        Table { profile: self, cpu_us, operations }
    }
}

/// The stage that a frame names: of all paths in it the first one, and of several that begin there the longest.
fn stage_of_frame(frame: &str) -> Option<&'static str> {
    let found = STAGES.iter().flat_map(|stage| {
        let place = move |path: &&str| Some((place(frame, path)?, usize::MAX - path.len(), stage.name));
        stage.paths.iter().filter_map(place)
    });
    found.min().map(|(_, _, name)| name)
}

/// Where `path` stands in the name of a function: as a whole path, in one of the compiler's forms, or for names of C, as its beginning.
fn place(frame: &str, path: &str) -> Option<usize> {
    let mangled: String = path.split("::").map(|part| format!("{}{part}", part.len())).collect();
    let find = |form: &str, may_follow: fn(char) -> bool| {
        let is_whole = |at: &usize| frame[..*at].chars().next_back().is_none_or(may_follow);
        frame.match_indices(form).map(|(at, _)| at).find(is_whole)
    };
    // A path is no part of a longer one: `h2` is none of `fresh2`, and `http` is none of `orch_api::http`.
    let is_outside = |before: char| !before.is_ascii_alphanumeric() && !matches!(before, ':' | '_' | '.');
    let forms = [
        find(&format!("{path}::"), is_outside),
        find(&format!("{}..", path.replace("::", "..")), is_outside),
        find(&mangled, |before| matches!(before, 'N' | 'C' | '_')),
        (path.contains('_') && !path.contains("::") && frame.starts_with(path)).then_some(0),
    ];
    forms.into_iter().flatten().min()
}

/// A table of a profile.
pub(super) struct Table<'a> {
    profile: &'a Profile,
    cpu_us: f64,
    operations: u64,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { profile, cpu_us, operations } = self;
        let share = |samples: u64| samples as f64 / profile.samples.max(1) as f64;
        writeln!(f, "{:<20}{:>10}{:>8}   of {} samples", "stage", "CPU/op", "share", profile.samples)?;
        let names = STAGES.iter().map(|stage| stage.name).chain([OTHER]);
        for (name, samples) in names.filter_map(|name| Some((name, *profile.stages.get(name)?))) {
            let part = share(samples);
            writeln!(f, "{name:<20}{:>8.1}us{:>7.1}%", part * cpu_us, part * 100.0)?;
        }
        writeln!(f, "{:<20}{:>10}{:>8}{:>13}", "threads", "CPU/op", "share", "switches/op")?;
        for (name, thread) in &profile.threads {
            let part = share(thread.samples);
            let switches = thread.switches as f64 / (*operations).max(1) as f64;
            writeln!(f, "{name:<20}{:>8.1}us{:>7.1}%{switches:>13.2}", part * cpu_us, part * 100.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_the_compiler_writes_them() {
        let cases = [
            ("_ZN8orch_api4gate4Gate12authenticate17h0123456789abcdefE", Some("gate")),
            ("_RNvMNtCs1234_8orch_api4gateNtB2_4Gate12authenticate", Some("gate")),
            (
                "_ZN75_$LT$rustls..server..ServerConnection$u20$as$u20$core..fmt..Debug$GT$3fmt17hE",
                Some("TLS"),
            ),
            ("<orch_api::gate::Gate as core::fmt::Debug>::fmt", Some("gate")),
            ("rocksdb::WriteBatch::Put(rocksdb::Slice const&)", Some("log")),
            ("_ZN7rocksdb10WriteBatch3PutE", Some("log")),
            ("ring_core_0_17_14__aes_gcm_enc_update_vaes_avx2", Some("TLS")),
            ("tcp_sendmsg_locked", Some("socket")),
            ("my_tcp_thing", None),
            ("fresh2::thing", None),
        ];
        for (frame, stage) in cases {
            assert_eq!(stage_of_frame(frame), stage, "{frame}");
        }
    }

    #[test]
    fn type_parameters_decide_nothing_and_longer_paths_come_first() {
        assert_eq!(stage_of_frame("tokio::runtime::task::poll::<orch_api::gate::Gate>"), Some("runtime"));
        assert_eq!(stage_of_frame("orch_schema::json::encode::write_value"), Some("encode"));
        assert_eq!(stage_of_frame("orch_raft::member::machine::announce::mark"), Some("wake"));
        assert_eq!(stage_of_frame("orch_raft::member::core::Core::leader"), Some("consensus"));
    }

    #[test]
    fn a_table_has_the_stages_in_order_and_what_each_takes() {
        let mut profile = Profile::default();
        for frame in ["h2::proto::poll", "h2::frame::encode", "rustls::write", "nothing"] {
            profile.add("connections", stage_of_frame(frame));
        }
        profile.add_switches("store", 30);
        let table = profile.table(100.0, 10).to_string();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["TLS", "25.0us", "25.0%"]);
        assert_eq!(lines[2], ["HTTP/2", "50.0us", "50.0%"]);
        assert_eq!(lines[3], ["other", "25.0us", "25.0%"]);
        assert_eq!(lines[5], ["connections", "100.0us", "100.0%", "0.00"]);
        assert_eq!(lines[6], ["store", "0.0us", "0.0%", "3.00"]);
    }
}
