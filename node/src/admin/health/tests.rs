//! Conditions in the output of `orch cluster status`, also from servers that report fewer of them. The faults themselves are tried in
//! `run::cluster_view`, over the state of a node.

use super::*;

/// A healthy cluster of three.
fn healthy() -> Value {
    let member = |name: &str| {
        json!({"name": name, "role": "voter", "address": "h:1", "state": "up", "heard_ms_ago": 0, "lag": 0, "behind_ms": 0,
            "feature_level_max": 2, "clock_skew_ms": 3, "room": 1_u64 << 40,
            "syncs": {"count": 9, "p50_us": 300, "p99_us": 2000, "pending_us": 0}})
    };
    json!({
        "name": "a", "leader": "a", "term": 3, "applied": 41, "feature_level": 2, "changing": false,
        "members": [member("a"), member("b"), member("c")],
        "state": {"bytes": 1000, "quota": 1_000_000}, "agreement": {"differing": [], "split": false},
        "space": {"short": [], "pressure": "none", "reserve": 1 << 30},
        "certificates": [{"use": "serving", "left_s": 8_640_000, "expires": "2027-01-01T00:00:00Z", "condition": "valid"}],
    })
}

#[test]
fn a_healthy_cluster_has_nothing_to_be_done() {
    let found = conditions(&healthy());
    assert_eq!((lines(&found).as_str(), exit_code(&found)), ("HEALTHY\n\n", 0));
    assert_eq!(with_conditions(healthy(), &found)["health"], "healthy");
}

/// The healthy cluster with differences.
fn with(differs: &[(&str, &str)]) -> Value {
    let mut cluster = healthy();
    for (path, value) in differs {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = cluster.pointer_mut(parent).unwrap();
        let place = match field.parse::<usize>() {
            Ok(at) => &mut parent[at],
            Err(_) => &mut parent[field],
        };
        *place = serde_json::from_str(value).unwrap();
    }
    cluster
}

#[test]
fn a_dead_webhook_is_reported_once_and_many_have_a_bound() {
    let webhook = json!({"webhook": "w", "configuration": "p", "refuses": false, "remedy": "r"});
    let shown = |count: usize| {
        let mut cluster = healthy();
        cluster["dead_webhooks"] = json!(vec![webhook.clone(); count]);
        super::super::table::table(&cluster)
    };
    let one = shown(1);
    assert_eq!(one.to_lowercase().matches("webhook").count(), 1, "{one}");
    let many = shown(11);
    assert_eq!(many.matches("WEBHOOK DEAD").count(), 8, "{many}");
    assert!(many.contains("\n    3 more like these (WebhookDead); --output json has all\n"), "{many}");
}

#[test]
fn a_learner_that_is_filled_needs_time_alone() {
    let filled = with(&[("/members/2/role", "\"learner\""), ("/members/2/lag", "70")]);
    assert_eq!(conditions(&filled), []);
}

#[test]
fn an_older_server_makes_no_conditions_of_what_it_does_not_tell() {
    let cluster =
        json!({"name": "a", "leader": "a", "members": [{"name": "a", "role": "voter", "matched": 42}]});
    assert_eq!(conditions(&cluster), []);
}

#[test]
fn the_gravest_condition_comes_first() {
    let mut cluster = healthy();
    cluster["members"][1]["clock_skew_ms"] = json!(2000);
    cluster["space"]["short"] = json!(["c"]);
    let text = lines(&conditions(&cluster));
    let [first, second] = ["!! LITTLE DISK SPACE", " ! the clock of b"].map(|line| text.find(line).unwrap());
    assert!(first < second && text.starts_with("NOT HEALTHY:\n"), "{text}");
}

#[test]
fn durations_have_the_unit_that_they_reach() {
    let shown = [0, 999, 1500, 25_000, 2_000_000, 75_000_000].map(micros);
    assert_eq!(shown, ["0us", "999us", "1.5ms", "25ms", "2000ms", "1m15s"]);
}
