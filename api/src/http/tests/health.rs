//! The checks of health: their names, what excludes them, and those that a node adds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use http::Method;

use super::Server;
use crate::controllers::testing::bootstrap;
use crate::http::Scope;
use crate::metrics::Exposition;

#[tokio::test(start_paused = true)]
async fn an_added_check_fails_readiness_and_no_liveness() {
    let server = Server::new().await;
    let passes = Arc::new(AtomicBool::new(true));
    let asked = passes.clone();
    let api = server.api_over(server.store.clone());
    let api = api.with_check("kms-providers", Scope::Readiness, move || asked.load(Ordering::Relaxed));
    let server = Server { router: api.router(), ..server };
    bootstrap(server.store.clone()).await;
    for (now, code, line) in [
        (true, 200, "[+]kms-providers ok\n"),
        (false, 500, "[-]kms-providers failed: reason withheld\n"),
        (true, 200, "[+]kms-providers ok\n"),
    ] {
        passes.store(now, Ordering::Relaxed);
        for endpoint in ["readyz", "healthz"] {
            let answered = server.get(&format!("/{endpoint}?verbose")).await;
            assert_eq!(answered.code, code, "{endpoint}: {}", answered.text);
            assert!(answered.text.contains(line), "{endpoint}: {}", answered.text);
            let alone = server.get(&format!("/{endpoint}/kms-providers")).await;
            assert_eq!(alone.code, code, "{endpoint}: {}", alone.text);
            let without = server.get(&format!("/{endpoint}?exclude=kms-providers")).await;
            assert_eq!(without.code, 200, "{endpoint}: {}", without.text);
        }
        let live = server.get("/livez?verbose").await;
        assert!(live.code == 200 && !live.text.contains("kms"), "a restart mends no plugin: {}", live.text);
    }
}

/// Names of the checks in a verbose report, in order.
fn names(report: &str) -> Vec<&str> {
    report.lines().filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok")).collect()
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_has_its_checks_and_each_check_its_path() {
    let server = Server::new().await;
    bootstrap(server.store.clone()).await;
    let hooks = [
        "poststarthook/start-system-namespaces-controller",
        "poststarthook/rbac/bootstrap-roles",
        "poststarthook/scheduling/bootstrap-system-priority-classes",
        "poststarthook/priority-and-fairness-config-producer",
    ];
    let ready =
        [&["ping", "store", "etcd", "etcd-readiness", "agreement"], &hooks[..], &["shutdown"]].concat();
    let health: Vec<_> = ready.iter().copied().filter(|name| *name != "etcd-readiness").collect();
    for (endpoint, expected) in [("livez", vec!["ping"]), ("readyz", ready), ("healthz", health)] {
        let answered = server.get(&format!("/{endpoint}?verbose")).await;
        assert_eq!((answered.code.as_u16(), names(&answered.text)), (200, expected.clone()), "{endpoint}");
        assert!(answered.text.ends_with(&format!("{endpoint} check passed\n")), "{}", answered.text);
        for name in expected {
            let alone = server.get(&format!("/{endpoint}/{name}")).await;
            assert_eq!((alone.code.as_u16(), alone.text.as_str()), (200, "ok"), "{endpoint}/{name}");
        }
        assert_eq!(server.get(&format!("/{endpoint}/log")).await.code, 404, "no check without a meaning");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_is_unready_by_the_name_of_each_thing_that_it_lacks() {
    let server = Server::new().await;
    let before = server.get("/readyz").await;
    assert_eq!(before.code, 500);
    assert_eq!(before.text.matches("[-]poststarthook/").count(), 4, "{}", before.text);
    bootstrap(server.store.clone()).await;
    assert_eq!(server.get("/readyz").await.text, "ok");
}

#[tokio::test(start_paused = true)]
async fn an_excluded_check_is_not_carried_out_and_an_unknown_one_is_told() {
    let server = Server::new().await;
    bootstrap(server.store.clone()).await;
    server.stopping.cancel();
    let failed = server.get("/readyz?exclude=nope").await;
    assert_eq!(failed.code, 500);
    assert!(failed.text.contains("[-]shutdown failed: reason withheld\n"), "{}", failed.text);
    let told = "warn: some health checks cannot be excluded: no matches for \"nope\"\n";
    assert!(failed.text.contains(told), "{}", failed.text);
    let query = "verbose&exclude=shutdown&exclude=z&exclude=etcd&exclude=a&exclude=a";
    let passed = server.get(&format!("/readyz?{query}")).await;
    assert_eq!(passed.code, 200, "{}", passed.text);
    for line in [
        "[+]shutdown excluded: ok\n",
        "[+]etcd excluded: ok\n",
        "[+]store ok\n",
        "warn: some health checks cannot be excluded: no matches for \"a\",\"z\"\nreadyz check passed\n",
    ] {
        assert!(passed.text.contains(line), "{line}: {}", passed.text);
    }
    assert_eq!(server.get("/livez?exclude=etcd").await.text, "ok", "told in the report alone");
}

/// A page without series.
struct Page;

impl Exposition for Page {
    fn render(&self) -> String {
        String::new()
    }
}

#[tokio::test(start_paused = true)]
async fn results_of_checks_are_counted_by_check_endpoint_and_status() {
    let server = Server::new().await;
    let passes = Arc::new(AtomicBool::new(true));
    let asked = passes.clone();
    let api = server.api_over(server.store.clone()).exposing(Arc::new(Page));
    let api = api.with_check("log", Scope::Liveness, move || asked.load(Ordering::Relaxed));
    let server = Server { router: api.router(), ..server };
    bootstrap(server.store.clone()).await;
    assert_eq!(server.get("/metrics/slis").await.text, "", "no check was carried out");
    assert_eq!(server.get("/livez").await.code, 200);
    passes.store(false, Ordering::Relaxed);
    assert_eq!(server.get("/livez").await.code, 500);
    // Neither counts: a check alone, and one that is excluded.
    assert_eq!(server.get("/livez/ping").await.code, 200);
    assert_eq!(server.get("/livez/ping?verbose").await.text, "ok");
    let alone = server.get("/livez/log?exclude=log").await;
    assert_eq!(
        (alone.code.as_u16(), &*alone.text),
        (500, "internal server error: the check fails: the log has its reason\n")
    );
    assert_eq!(server.get("/livez?exclude=log").await.code, 200);
    let page = server.get("/metrics/slis").await;
    assert_eq!(page.code, 200);
    let expected = [
        "# TYPE orch_healthcheck gauge",
        "orch_healthcheck{name=\"log\",type=\"livez\"} 0",
        "orch_healthcheck{name=\"ping\",type=\"livez\"} 1",
        "# TYPE orch_healthchecks_total counter",
        "orch_healthchecks_total{name=\"log\",status=\"error\",type=\"livez\"} 1",
        "orch_healthchecks_total{name=\"log\",status=\"success\",type=\"livez\"} 1",
        "orch_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 3",
    ];
    assert_eq!(page.text.lines().collect::<Vec<_>>(), expected);
    assert_eq!(server.delete("/metrics/slis").await.text, "metrics reset\n");
    assert_eq!(server.get("/metrics/slis").await.text, "");
    assert_eq!(server.send(Method::PUT, "/metrics/slis", &[], Body::empty()).await.code, 405);
}
