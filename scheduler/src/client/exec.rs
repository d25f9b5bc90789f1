//! Credentials from a program (`users[].user.exec` of a client configuration file).
//!
//! Owns how the program is called, what it prints, and for how long that holds. The program gets what it must know by
//! `*_EXEC_INFO`, has no terminal here (`interactiveMode: Always` is refused), must end within [`EXEC_TIMEOUT`] and
//! may print [`OUTPUT_BYTES_MAX`] bytes. Its standard error goes to this process's own, as users expect.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use orch_serving::Secret;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::config::ConfigError;

/// How long the program may take: programs ask servers of identity over networks.
const EXEC_TIMEOUT: Duration = Duration::from_secs(60);

/// The most that the program may print: a certificate chain and a key are a few kilobytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The reason why a program gave no credentials.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started or read.
    #[error("cannot run {command}")]
    Run {
        /// The program.
        command: String,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// It ran for too long.
    #[error("{0} took over {EXEC_TIMEOUT:?}")]
    Timeout(String),
    /// It reported a failure.
    #[error("{command} ended with {status}")]
    Failed {
        /// The program.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
    },
    /// It printed no credential. Never with what it printed.
    #[error("{command} printed no valid credential: {problem}")]
    Output {
        /// The program.
        command: String,
        /// The fault of the output, without the output itself.
        problem: String,
    },
}

/// A program that prints credentials.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecPlugin {
    /// Version of the credential's form, which the program's answer repeats.
    pub api_version: String,
    /// The program: a name to look up, or a path, relative to the configuration file.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Environment variables besides those of this process.
    #[serde(default)]
    pub env: Option<Vec<ExecVariable>>,
    /// Hint for users when the program is not found.
    #[serde(default)]
    pub install_hint: Option<String>,
    /// `Never`, `IfAvailable` or `Always`.
    #[serde(default)]
    pub interactive_mode: Option<String>,
}

/// An environment variable. The value may be a secret.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ExecVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// The credentials that a program printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExecCredential {
    pub(super) token: Option<Secret>,
    /// Chain and key, in PEM.
    pub(super) certificate: Option<(Secret, Secret)>,
    /// When to ask again; `None` for never, but after an answer 401.
    pub(super) expires: Option<SystemTime>,
}

impl ExecPlugin {
    /// Checks what can be checked before the first call, and resolves a relative path of the program against `folder`.
    pub(super) fn resolved(mut self, folder: &Path) -> Result<Self, ConfigError> {
        let invalid = |problem: &str| ConfigError::Invalid { field: "exec", problem: problem.to_owned() };
        let (group, version) = self.api_version.split_once('/').unwrap_or_default();
        if !group.starts_with("client.authentication.") || !["v1", "v1beta1"].contains(&version) {
            return Err(invalid("apiVersion must be v1 or v1beta1 of the group client.authentication"));
        }
        if self.command.is_empty() {
            return Err(invalid("the command is empty"));
        }
        if self.interactive_mode.as_deref() == Some("Always") {
            return Err(invalid("interactiveMode Always: this process has no terminal"));
        }
        if self.command.contains('/') {
            self.command = folder.join(&self.command).to_string_lossy().into_owned();
        }
        Ok(self)
    }

    /// Runs the program once.
    pub(super) async fn run(&self) -> Result<ExecCredential, ExecError> {
        let printed = tokio::time::timeout(EXEC_TIMEOUT, self.output()).await;
        let printed = printed.map_err(|_| ExecError::Timeout(self.command.clone()))??;
        self.parse(&printed)
    }

    async fn output(&self) -> Result<Vec<u8>, ExecError> {
        let mut command = Command::new(PathBuf::from(&self.command));
        command.args(self.args.iter().flatten()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let info = serde_json::json!({
            "apiVersion": self.api_version, "kind": "ExecCredential", "spec": { "interactive": false },
        });
        for brand in [&orch_proto::brand::ORCH, &orch_proto::brand::KUBERNETES] {
            command.env(format!("{}_EXEC_INFO", brand.name.to_uppercase()), info.to_string());
        }
        for variable in self.env.iter().flatten() {
            command.env(&variable.name, variable.value.expose());
        }
        let run = |source| ExecError::Run { command: self.described(), source };
        let mut child = command.spawn().map_err(run)?;
        let mut printed = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut printed).await.map_err(run)?;
        }
        let status = child.wait().await.map_err(run)?;
        if !status.success() {
            return Err(ExecError::Failed { command: self.command.clone(), status });
        }
        Ok(printed)
    }

    /// The program's name, with the hint of how to get it.
    fn described(&self) -> String {
        match &self.install_hint {
            Some(hint) => format!("{} ({})", self.command, hint.trim()),
            None => self.command.clone(),
        }
    }

    fn parse(&self, printed: &[u8]) -> Result<ExecCredential, ExecError> {
        let invalid =
            |problem: &str| ExecError::Output { command: self.command.clone(), problem: problem.to_owned() };
        // The library's own message could repeat a part of the output.
        let printed: Printed = serde_json::from_slice(printed).map_err(|_| invalid("not the JSON of one"))?;
        if printed.api_version != self.api_version || printed.kind != "ExecCredential" {
            return Err(invalid("another kind or version than was asked for"));
        }
        let status = printed.status.ok_or_else(|| invalid("it has no status"))?;
        let certificate = match (status.client_certificate_data, status.client_key_data) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => return Err(invalid("a certificate and its key go together")),
        };
        let token = status.token.filter(|token| !token.expose().is_empty());
        if token.is_none() && certificate.is_none() {
            return Err(invalid("neither token nor certificate"));
        }
        let expires = status.expiration_timestamp.map(|text| OffsetDateTime::parse(&text, &Rfc3339));
        let expires = expires.transpose().map_err(|_| invalid("the expiration is no time of RFC 3339"))?;
        Ok(ExecCredential { token, certificate, expires: expires.map(SystemTime::from) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    status: Option<PrintedStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedStatus {
    token: Option<Secret>,
    client_certificate_data: Option<Secret>,
    client_key_data: Option<Secret>,
    expiration_timestamp: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "client.authentication.example/v1";

    fn plugin(script: &str) -> ExecPlugin {
        ExecPlugin {
            api_version: VERSION.to_owned(),
            command: "sh".to_owned(),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            env: Some(vec![ExecVariable { name: "FROM_FILE".to_owned(), value: Secret::new("abc") }]),
            install_hint: None,
            interactive_mode: None,
        }
    }

    async fn check(script: &str, expected: Result<&str, &str>) {
        let outcome = plugin(script).run().await;
        let told = outcome.map(|credential| credential.token.unwrap().expose().to_owned());
        match expected {
            Ok(token) => assert_eq!(told.unwrap(), token, "{script}"),
            Err(part) => {
                let error = told.unwrap_err().to_string();
                assert!(error.contains(part) && !error.contains("s3cret"), "{script}: {error}");
            }
        }
    }

    #[tokio::test]
    async fn a_program_gives_a_token_and_sees_its_environment() {
        let print = |status: &str| {
            format!(
                r#"echo "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{VERSION}\",\"status\":{status}}}""#
            )
        };
        check(&print(r#"{\"token\":\"$FROM_FILE\"}"#), Ok("abc")).await;
        check(&print("{}"), Err("neither token nor certificate")).await;
        check(&print(r#"{\"token\":\"s3cret\",\"clientKeyData\":\"k\"}"#), Err("go together")).await;
        check(&print(r#"{\"token\":\"s3cret\",\"expirationTimestamp\":\"soon\"}"#), Err("RFC 3339")).await;
        check("echo '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"s3cret\"}}'", Err("another kind"))
            .await;
        check("echo s3cret", Err("not the JSON of one")).await;
        check("exit 3", Err("exit status: 3")).await;
        check(
            r#"printf '%s' "$ORCH_EXEC_INFO" | grep -q interactive || exit 9; exit 4"#,
            Err("exit status: 4"),
        )
        .await;
    }

    #[tokio::test]
    async fn a_missing_program_is_named_with_its_hint() {
        let missing = ExecPlugin {
            command: "/nonexistent/login".to_owned(),
            install_hint: Some("install it from the portal".to_owned()),
            ..plugin("")
        };
        let error = missing.run().await.unwrap_err().to_string();
        assert_eq!(error, "cannot run /nonexistent/login (install it from the portal)");
    }

    #[test]
    fn the_version_and_the_mode_are_checked_first() {
        let refused = |change: fn(&mut ExecPlugin)| {
            let mut changed = plugin("");
            change(&mut changed);
            changed.resolved(Path::new("/etc")).map_err(|error| error.to_string())
        };
        assert!(refused(|_| ()).is_ok());
        assert!(refused(|plugin| plugin.api_version = "v1".to_owned()).is_err());
        assert!(refused(|plugin| plugin.command = String::new()).is_err());
        assert!(refused(|plugin| plugin.interactive_mode = Some("Always".to_owned())).is_err());
        let relative = refused(|plugin| plugin.command = "./login".to_owned()).unwrap();
        assert_eq!(relative.command, "/etc/./login");
    }
}
