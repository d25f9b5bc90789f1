//! Checks that a node adds to the health of its API.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Server;

#[tokio::test(start_paused = true)]
async fn an_added_check_fails_readiness_and_no_liveness() {
    let server = Server::new().await;
    let passes = Arc::new(AtomicBool::new(true));
    let asked = passes.clone();
    let api = server.api_over(server.store.clone());
    let api = api.with_check("kms-providers", move || asked.load(Ordering::Relaxed));
    let server = Server { router: api.router(), ..server };
    let rest = "exclude=poststarthook/rbac/bootstrap-roles";
    for (now, code, line) in [
        (true, 200, "[+]kms-providers ok\n"),
        (false, 500, "[-]kms-providers failed: reason withheld\n"),
        (true, 200, "[+]kms-providers ok\n"),
    ] {
        passes.store(now, Ordering::Relaxed);
        for endpoint in ["readyz", "healthz"] {
            let answered = server.get(&format!("/{endpoint}?verbose&{rest}")).await;
            assert_eq!(answered.code, code, "{endpoint}: {}", answered.text);
            assert!(answered.text.contains(line), "{endpoint}: {}", answered.text);
            let alone = server.get(&format!("/{endpoint}/kms-providers")).await;
            assert_eq!(alone.code, code, "{endpoint}: {}", alone.text);
            let without = server.get(&format!("/{endpoint}?exclude=kms-providers&{rest}")).await;
            assert_eq!(without.code, 200, "{endpoint}: {}", without.text);
        }
        let live = server.get("/livez?verbose").await;
        assert!(live.code == 200 && !live.text.contains("kms"), "a restart mends no plugin: {}", live.text);
    }
}
