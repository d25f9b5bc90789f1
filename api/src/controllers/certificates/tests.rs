//! The loops over requests for certificates, on one state machine.

use std::sync::Mutex;

use bytes::Bytes;
use orch_raft::memory::MemoryStore;
use orch_rules::certificates::KeyUsages;
use orch_schema::budget::Budget;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::signing::{life, validity};
use super::*;
use crate::authn::User;
use crate::authz::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES};
use crate::controllers::testing::Fixture;
use crate::exchange::Exchange;
use crate::pipeline::Request;
use crate::request::{Query, Target, Verb};
use crate::signing::{CertificateSigner, SigningAuthority, SigningError, Template, Validity};
use orch_rules::certificates::BuiltinSigner;

const KUBELET: &str = "orch.io/kube-apiserver-client-kubelet";
const CLIENT: &str = "orch.io/kube-apiserver-client";
const HOUR_S: u64 = 3600;

/// Issues one certificate for every template, and keeps the templates.
#[derive(Clone)]
struct Recorder {
    certificate: String,
    templates: Arc<Mutex<Vec<Template>>>,
    is_ready: bool,
}

impl Recorder {
    fn new() -> Self {
        let certificate =
            CertificateParams::default().self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        Recorder { certificate, templates: Arc::default(), is_ready: true }
    }
}

impl CertificateSigner for Recorder {
    fn signs_for(&self, signer: BuiltinSigner) -> bool {
        signer != BuiltinSigner::KubeletServing
    }

    fn authority(&self, _signer: BuiltinSigner) -> Result<Box<dyn SigningAuthority>, SigningError> {
        match self.is_ready {
            true => Ok(Box::new(self.clone())),
            false => Err(SigningError::Authority("no file".to_owned())),
        }
    }

    fn life_s_max(&self) -> i64 {
        8760 * 3600
    }
}

impl SigningAuthority for Recorder {
    fn not_after_s(&self) -> i64 {
        i64::MAX
    }

    fn sign(&self, template: &Template) -> Result<String, SigningError> {
        self.templates.lock().unwrap().push(template.clone());
        Ok(self.certificate.clone())
    }
}

fn encoded(common_name: &str, organization: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    STANDARD.encode(request.pem().unwrap())
}

/// A server with loops and users.
struct Server {
    fixture: Fixture,
    signer: Recorder,
}

impl Server {
    fn new() -> Self {
        Server { fixture: Fixture::new(), signer: Recorder::new() }
    }

    async fn run(&self, seconds: u64) {
        let client = self.fixture.client();
        let both = futures::future::join3(approve(&client), sign(&client, &self.signer), clean(&client));
        self.fixture.while_running(both, seconds).await;
    }

    /// A request of `user` for a certificate of `subject` (common name and organization).
    async fn ask(&self, name: &str, user: &str, signer: &str, subject: (&str, &str), usages: Value) {
        let object = json!({"metadata": {"name": name}, "spec": {
            "request": encoded(subject.0, subject.1), "signerName": signer, "usages": usages,
        }});
        self.write(Verb::Create, "", Action::Object, user, &object).await;
    }

    async fn decide(&self, name: &str, kind: &str) {
        let patch = json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
        self.write(Verb::Patch, name, Action::Approval, "admin", &patch).await;
    }

    async fn write(&self, verb: Verb, name: &str, action: Action, user: &str, body: &Value) {
        let pipeline: Arc<crate::pipeline::Pipeline<MemoryStore>> = self.fixture.pipeline();
        let resource = self.fixture.client().stored_resource(REQUESTS).unwrap();
        let groups = if user == "admin" { vec!["system:masters".to_owned()] } else { Vec::new() };
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            name: name.to_owned(),
            subresource: action.subresource().to_owned(),
            ..Target::default()
        };
        let content_type =
            if verb == Verb::Patch { "application/merge-patch+json" } else { "application/json" };
        let request = Request {
            verb,
            registry: &pipeline.registry(),
            target: &target,
            resource: &resource,
            action,
            query: &Query::default(),
            exchange: &Exchange::internal(),
            user: &User { name: user.to_owned(), groups, ..User::default() },
            user_agent: "test",
            content_type,
            body: &Bytes::from(body.to_string()),
            budget: &Budget::default(),
        };
        let answer = pipeline.run(request).await;
        assert!(answer.is_ok(), "{name}: {:?}", answer.err());
    }

    /// Gives `user` the right to create `certificatesigningrequests/PART`.
    async fn grant(&self, user: &str, part: &str) {
        let rules = json!([{
            "verbs": ["create"], "apiGroups": ["certificates.orch.io"],
            "resources": [format!("certificatesigningrequests/{part}")],
        }]);
        let name = format!("{user}-{part}").replace(':', "-");
        let role = json!({"metadata": {"name": name.as_str()}, "rules": rules});
        self.fixture.create(CLUSTER_ROLES, "", role).await;
        let group = "rbac.authorization.orch.io";
        let binding = json!({
            "metadata": {"name": name.as_str()},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name.as_str()},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        self.fixture.create(CLUSTER_ROLE_BINDINGS, "", binding).await;
    }

    fn conditions(&self, name: &str) -> Vec<String> {
        let request = self.fixture.read(REQUESTS, name);
        let conditions = request.at("status").items("conditions").iter();
        conditions.map(|condition| condition.text("type").to_owned()).collect()
    }

    fn is_issued(&self, name: &str) -> bool {
        !self.fixture.read(REQUESTS, name).at("status").is_empty_at("certificate")
    }
}

fn client_usages() -> Value {
    json!(["digital signature", "client auth"])
}

#[tokio::test(start_paused = true)]
async fn kubelets_are_approved_by_their_rights_and_get_certificates() {
    let server = Server::new();
    let node = ("system:node:n", "system:nodes");
    server.grant("boot", "nodeclient").await;
    server.grant("system:node:n", "selfnodeclient").await;
    server.ask("bootstrap", "boot", KUBELET, node, client_usages()).await;
    server.ask("renewal", "system:node:n", KUBELET, node, client_usages()).await;
    server.ask("other-node", "system:node:m", KUBELET, node, client_usages()).await;
    server.ask("no-node", "boot", KUBELET, ("n", "system:nodes"), client_usages()).await;
    server.ask("other-signer", "boot", CLIENT, node, client_usages()).await;
    server.run(5).await;
    for (name, is_approved) in [
        ("bootstrap", true),
        ("renewal", true),
        ("other-node", false),
        ("no-node", false),
        ("other-signer", false),
    ] {
        assert_eq!(server.conditions(name) == ["Approved"], is_approved, "{name}");
        assert_eq!(server.is_issued(name), is_approved, "{name}");
    }
    let message = server.fixture.read(REQUESTS, "renewal").at("status").items("conditions")[0].clone();
    assert!(message.text("message").starts_with("Auto approving self kubelet"), "{message}");
    let template = server.signer.templates.lock().unwrap()[0].clone();
    assert_eq!(template.usages, KeyUsages::named(["digital signature", "client auth"]).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_grant_and_for_an_authority() {
    let mut server = Server::new();
    server.signer.is_ready = false;
    server.ask("early", "boot", KUBELET, ("system:node:n", "system:nodes"), client_usages()).await;
    server.run(5).await;
    assert!(server.conditions("early").is_empty());
    server.grant("boot", "nodeclient").await;
    server.run(5).await;
    assert_eq!((server.conditions("early"), server.is_issued("early")), (vec!["Approved".to_owned()], false));
    server.signer.is_ready = true;
    server.run(5).await;
    assert!(server.is_issued("early"));
}

#[tokio::test(start_paused = true)]
async fn the_signer_refuses_what_breaks_its_rules_and_signs_nothing_undecided() {
    let server = Server::new();
    for name in ["good", "bad", "pending", "denied"] {
        let usages = if name == "bad" { json!(["server auth"]) } else { json!(["client auth"]) };
        server.ask(name, "ann", CLIENT, ("ann", "team"), usages).await;
    }
    let serving = json!(["digital signature", "server auth"]);
    server
        .ask("unserved", "ann", "orch.io/kubelet-serving", ("system:node:n", "system:nodes"), serving)
        .await;
    server.ask("foreign", "ann", "example.com/x", ("ann", "team"), json!(["client auth"])).await;
    for name in ["good", "bad", "foreign", "unserved"] {
        server.decide(name, "Approved").await;
    }
    server.decide("denied", "Denied").await;
    server.run(5).await;
    for name in ["bad", "pending", "denied", "foreign", "unserved"] {
        assert!(!server.is_issued(name), "{name}");
    }
    assert!(server.is_issued("good"));
    assert_eq!(server.conditions("unserved"), ["Approved"], "another node or program answers it");
    assert_eq!(server.conditions("bad"), ["Approved", "Failed"]);
    let failed = server.fixture.read(REQUESTS, "bad").at("status").items("conditions")[1].clone();
    assert_eq!(failed.text("reason"), "SignerValidationFailure");
    assert_eq!(failed.text("message"), "invalid usage for client certificate: server auth");
    let before = server.fixture.state().applied();
    server.run(60).await;
    assert_eq!(server.fixture.state().applied(), before, "nothing is decided twice");
}

#[test]
fn validity_is_backdated_and_ends_with_the_authority() {
    let year = 8760 * 3600;
    assert_eq!(
        [None, Some(1), Some(7200), Some(i64::MAX)].map(|asked| life(asked, year)),
        [year, 600, 7200, year]
    );
    let at = |not_before_s, not_after_s| Ok(Validity { not_before_s, not_after_s });
    assert_eq!(validity(1000, 7200, i64::MAX), at(700, 8200));
    assert_eq!(validity(1000, year, i64::MAX), at(700, 700 + year));
    assert_eq!(validity(1000, 7200, 2000), at(700, 2000));
    let told = validity(86_400, 7200, 86_400).unwrap_err().to_string();
    assert_eq!(told, "the signer has expired: NotAfter=1970-01-02T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn requests_are_removed_when_nobody_needs_them() {
    let server = Server::new();
    for name in ["denied", "issued", "failed", "approved", "pending"] {
        let usages = if name == "failed" { json!(["server auth"]) } else { json!(["client auth"]) };
        let signer = if name == "approved" { "example.com/x" } else { CLIENT };
        server.ask(name, "ann", signer, ("ann", "team"), usages).await;
        match name {
            "pending" => {}
            "denied" => server.decide(name, "Denied").await,
            _ => server.decide(name, "Approved").await,
        }
    }
    let left = || {
        let names = ["denied", "issued", "failed", "approved", "pending"];
        names.into_iter().filter(|name| server.fixture.exists(REQUESTS, name)).collect::<Vec<_>>()
    };
    server.run(5).await;
    server.fixture.advance(Duration::from_secs(HOUR_S - 60));
    server.run(70).await;
    assert_eq!(left().len(), 5);
    server.fixture.advance(Duration::from_secs(120));
    server.run(70).await;
    assert_eq!(left(), ["approved", "pending"]);
    server.fixture.advance(Duration::from_secs(23 * HOUR_S));
    server.run(70).await;
    assert_eq!(left(), ["approved"], "as in the reference, an approved request waits for its signer");
}

#[test]
fn an_expired_certificate_ends_a_request_at_once() {
    let mut params = CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(2026, 1, 1);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let request = json!({"status": {
        "certificate": STANDARD.encode(certificate),
        "conditions": [{"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-02T00:00:00Z"}],
    }});
    let expected = rcgen::date_time_ymd(2026, 1, 1).unix_timestamp();
    assert_eq!(super::cleaning::deadline(&request), Some(expected));
}
