//! Effects of flags that only the running program shows.

use std::net::{Ipv4Addr, SocketAddr};

use http::StatusCode;
use tokio::net::TcpStream;

use super::https::Client;
use super::process::{Running, free_port, start, write_client_config};

/// Starts the program with `flags`, in which DIR stands for a folder, and everything allowed to everybody.
fn started(port: u16, flags: &[&str]) -> (Running, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    write_client_config(&directory.path().join("admin.conf"), "http://127.0.0.1:1");
    let folder = directory.path().display().to_string();
    let common = ["--leader-elect=false", "--log-flush-frequency=0", "--authorization-always-allow-paths=*"];
    let mut all: Vec<String> = common.iter().chain(flags).map(|flag| flag.replace("DIR", &folder)).collect();
    if !flags.iter().any(|flag| flag.starts_with("--config=")) {
        all.push(format!("--orchconfig={folder}/admin.conf"));
    } else {
        let text = format!(
            "apiVersion: orchscheduler.config.orch.io/v1\nkind: OrchSchedulerConfiguration\nclientConnection: \
             {{orchconfig: {folder}/admin.conf}}\nparallelism: 3\n"
        );
        std::fs::write(directory.path().join("scheduler.yaml"), text).unwrap();
    }
    all.push(format!("--secure-port={port}"));
    (start(&all), directory)
}

#[test]
fn flags_without_effect_say_so() {
    let flags = [
        "--config=DIR/scheduler.yaml",
        "--cloud-container-registry-config=x",
        "--orch-api-qps=7",
        "--feature-gates=Unheard=true",
    ];
    let (running, _directory) = started(free_port(), &flags);
    for expected in [
        "--cloud-container-registry-config has no effect",
        "this flag is ignored, because --config is given flag=\"--orch-api-qps\"",
        "this feature gate is not known, and has no effect gate=\"Unheard\"",
        "parallelism has no effect: nodes are looked at on one thread parallelism=3",
    ] {
        assert!(running.said(expected), "{expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_is_on_the_given_address() {
    let connects =
        async |port| TcpStream::connect(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port))).await.is_ok();
    for (flag, expected) in [("--bind-address=127.0.0.1", false), ("--bind-address=0.0.0.0", true)] {
        let port = free_port();
        let (_running, _directory) = started(port, &[flag]);
        assert_eq!(connects(port).await, expected, "{flag}");
    }
}

#[test]
fn without_a_port_nothing_is_served() {
    let (running, _directory) = started(0, &["--tls-cert-file=/nowhere"]);
    assert!(!running.said("serving securely"));
    assert_eq!(running.stop().code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_verbosity_is_changed_while_it_runs() {
    let port = free_port();
    let (_running, _directory) = started(port, &[]);
    let client = Client::new(port);
    let answer = client.send("PUT", "/debug/flags/v", &[], "4").await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::OK, "successfully set the verbosity to 4\n")
    );
    let answer = client.send("PUT", "/debug/flags/v", &[], "loud").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let answer = client.send("PUT", "/debug/flags/v", &[], &"9".repeat(5000)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_flags_state_and_counters() {
    let port = free_port();
    let (_running, _directory) = started(port, &["-v=4", "--disabled-metrics=process_open_fds"]);
    let client = Client::new(port);
    let flags = client.get("/flagz", None).await.body;
    assert!(flags.contains("\nv=4\n") && flags.contains("\nleader-elect=false\n"), "{flags}");
    assert!(flags.contains("\norch-api-qps=50\n"), "{flags}");
    assert!(client.get("/statusz", None).await.body.contains("\nVersion: v1.36.2\n"));
    let live = client.get("/livez", None).await;
    assert_eq!(live.headers["cache-control"], "no-cache, private");
    let slis = client.get("/metrics/slis", None).await.body;
    assert!(slis.contains("\norch_healthcheck{name=\"ping\",type=\"livez\"} 1\n"), "{slis}");
    let metrics = client.get("/metrics", None).await.body;
    assert!(metrics.contains("\nprocess_start_time_seconds ") && !metrics.contains("process_open_fds"));
    assert_eq!(client.send("DELETE", "/metrics", &[], "").await.body, "metrics reset\n");
    let expected = [
        ("GET", Some("text/html; charset=utf-8"), "<a href=\"/debug/pprof/\">Found</a>.\n\n"),
        ("HEAD", Some("text/html; charset=utf-8"), ""),
        ("POST", None, ""),
    ];
    for (method, content_type, body) in expected {
        let found = client.send(method, "/debug/pprof", &[], "").await;
        assert_eq!((found.status, found.body.as_str()), (StatusCode::FOUND, body), "{method}");
        let header = |name: &str| found.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((header("location"), header("content-type")), (Some("/debug/pprof/"), content_type));
    }
    let profile = client.get("/debug/pprof/profile?seconds=1", None).await;
    assert_eq!(
        (profile.status, profile.headers["content-type"].to_str().unwrap()),
        (StatusCode::OK, "application/octet-stream")
    );
}

#[test]
fn with_leader_election_a_signal_is_an_orderly_end() {
    let (running, _directory) = started(free_port(), &["--leader-elect=true"]);
    assert_eq!(running.stop().code(), Some(0));
}
