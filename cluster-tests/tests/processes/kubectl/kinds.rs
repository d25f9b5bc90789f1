//! Every kind as the program shows it: in wide tables and described.

use std::process::Command;

use super::{Session, in_session};

/// An object of every kind that can be created but requests for certificates, whose object the test makes.
pub(crate) const OBJECTS: &str = include_str!("kinds.yaml");

/// Kinds whose beta programs before 1.34 describe, while neither the reference nor this server serves it.
const DESCRIBED_AS_BETA: [&str; 3] = [
    "ipaddresses.networking.k8s.io",
    "servicecidrs.networking.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_and_describes_every_kind() {
    in_session(shown).await;
}

fn shown(session: &Session) {
    let file = session.file("kinds.yaml", OBJECTS);
    session.text(&["create", "-f", &file]);
    let request = request_for_a_certificate(session);
    let file = session.file("request.yaml", &request);
    session.text(&["create", "-f", &file]);
    let resources = session.text(&["api-resources", "--verbs=create,list", "-o", "name"]);
    for resource in resources.lines() {
        let table = session.text(&["get", resource, "-A", "-o", "wide", "--ignore-not-found"]);
        let mut lines = table.lines();
        let header = lines.next().unwrap_or_else(|| panic!("{resource}: no object of it in kinds.yaml"));
        // Events are shown by their time and reason.
        assert!(header.contains("NAME") || header.contains("REASON"), "{resource}: {table}");
        assert!(lines.next().is_some(), "{resource}: {table}");
        // The measurements of an autoscaler are unknown until somebody makes them.
        let is_measured = !resource.starts_with("horizontalpodautoscalers");
        assert!(!is_measured || !table.contains("<unknown>"), "{resource}: {table}");
        if DESCRIBED_AS_BETA.contains(&resource) {
            continue;
        }
        let described = session.text(&["describe", resource, "-A"]);
        assert!(described.contains("one"), "{resource}: {described}");
    }
    let warned = session.run(&["get", "componentstatuses"]);
    let warning = String::from_utf8_lossy(&warned.stderr).into_owned();
    assert!(warning.contains("v1 ComponentStatus is deprecated in v1.19+"), "{warning}");
    let all = session.text(&["get", "all", "-n", "all", "-o", "name"]);
    for object in ["pod/one", "service/one", "deployment.apps/one", "job.batch/one"] {
        assert!(all.lines().any(|line| line == object), "{object} in {all}");
    }
}

/// A CertificateSigningRequest of a new key.
fn request_for_a_certificate(session: &Session) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "nobody");
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let encoded = Command::new("base64").arg("-w0").arg(session.file("request.pem", &pem)).output().unwrap();
    let encoded = String::from_utf8(encoded.stdout).unwrap();
    format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: one}}\nspec:\n  \
         request: {encoded}\n  signerName: kubernetes.io/kube-apiserver-client\n  usages: [client auth]\n"
    )
}
