//! kubectl with credentials that a program gives it: a token, and a client certificate.

use std::os::unix::fs::PermissionsExt;

use orch_cluster_tests::cluster::ALICE_TOKEN;
use serde_json::json;

use super::{Session, in_session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_the_credentials_that_a_program_gives_it() {
    in_session(given).await;
}

fn given(session: &Session) {
    let token = json!({"token": ALICE_TOKEN});
    assert_eq!(session.whoami(&token), "alice");
    let pem = |file: &str| std::fs::read_to_string(session.certificates.join(file)).unwrap();
    let certificate = json!({"clientCertificateData": pem("admin.crt"), "clientKeyData": pem("admin.key")});
    assert_eq!(session.whoami(&certificate), "system:admin");
    let config = session.exec_config(&json!({"token": "unknown-token"}));
    let refused = session.command_with(&config).args(["get", "namespaces"]).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("logged in"), "{told}");
}

impl Session {
    /// The user as whom the server knows the holder of `status`, the credentials in an `ExecCredential`.
    fn whoami(&self, status: &serde_json::Value) -> String {
        let config = self.exec_config(status);
        let arguments = ["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"];
        let output = self.command_with(&config).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A client configuration whose user is a program that prints `status`.
    fn exec_config(&self, status: &serde_json::Value) -> String {
        let version = "client.authentication.k8s.io/v1";
        let credential = json!({"apiVersion": version, "kind": "ExecCredential", "status": status});
        let credential = self.file("credential.json", &credential.to_string());
        let program = self.file("program.sh", &format!("#!/bin/sh\nexec cat '{credential}'\n"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let authority = self.certificates.join("ca.crt").display().to_string();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.server, "certificate-authority": authority}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"exec": {
                "apiVersion": version, "command": program, "interactiveMode": "Never",
            }}}],
        });
        self.file("exec.conf", &config.to_string())
    }

    /// kubectl with a client configuration instead of the administrator's flags.
    fn command_with(&self, config: &str) -> std::process::Command {
        let mut command = std::process::Command::new(super::KUBECTL);
        command.env("HOME", self.folder.path()).env_remove("KUBECONFIG");
        command.args(["--request-timeout=20s", "--kubeconfig", config]);
        command
    }
}
