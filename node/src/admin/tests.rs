//! Valid and malformed client configurations, and the table of a cluster.

use super::access::parse;
use super::command::table;
use crate::certs::{Authority, admin_leaf};
use crate::kubeconfig::{Server, kubeconfig};

fn config() -> String {
    let now = time::OffsetDateTime::now_utc();
    let authority = Authority::create("ca", now).unwrap();
    let admin = authority.issue(&admin_leaf(), now).unwrap();
    let server = |name: &str, url: &str| Server { name: name.to_owned(), url: url.to_owned() };
    let servers = [server("a", "https://10.0.0.1:6443"), server("b", "https://[fd00::2]:6443/")];
    kubeconfig(&orch_proto::brand::ORCH, "admin", &servers, &authority.pair.certificate, &admin)
}

#[test]
fn our_own_configurations_are_read() {
    assert_eq!(parse(&config()).unwrap().servers, ["10.0.0.1:6443", "[fd00::2]:6443"]);
}

#[test]
fn what_a_configuration_lacks_is_named() {
    for (from, to, expected) in [
        ("https://10.0.0.1", "http://10.0.0.1", "a server is not an https:// address"),
        ("certificate-authority-data", "certificate-authority", "certificate-authority-data is missing"),
        ("client-key-data\": \"", "client-key-data\": \"!", "client-key-data is not base64"),
        ("\"users\"", "\"nobody\"", "it names no user"),
        ("\"clusters\"", "\"nothing\"", "it names no cluster"),
    ] {
        assert_eq!(parse(&config().replace(from, to)).unwrap_err(), expected, "{from} -> {to}");
    }
    assert!(parse("{").unwrap_err().starts_with("not a client configuration"));
}

#[test]
fn a_cluster_is_a_table() {
    let cluster = serde_json::json!({
        "name": "b", "leader": "a", "term": 3, "applied": 41, "feature_level": 1,
        "members": [
            {"name": "a", "role": "voter", "address": "10.0.0.1:6444", "matched": 42, "feature_level_max": 2},
            {"name": "long-name", "role": "learner", "address": "h:1"},
        ],
    });
    assert_eq!(
        table(&cluster),
        "NAME       ROLE     ADDRESS        LOG  FEATURES\n\
         a          leader   10.0.0.1:6444  42   2\n\
         long-name  learner  h:1            -    -\n\
         \nleader a, term 3, feature level 1; b has applied 41\n"
    );
}
