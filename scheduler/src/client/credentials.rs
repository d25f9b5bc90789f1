//! The `Authorization` header and the client certificate that are in force.
//!
//! Owns how credentials are renewed while the process runs: files are read again after [`FILE_AGE_MAX`], programs are
//! asked again when what they printed runs out or the server answered 401. One caller renews while the others wait; a
//! renewal that began goes on when its caller gives up, so that a slow program ends once and not never.
//! Connections that stand keep the certificate of their handshake; new ones take the newest.

use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use orch_serving::Secret;
use orch_serving::files::{MATERIAL_BYTES_MAX, TOKEN_BYTES_MAX, read_secret};
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use super::config::{Bearer, Certificate, Config, ConfigError, Pem};
use super::error::chain;
use super::exec::{ExecError, ExecPlugin};
use super::measures;
use super::tls::CurrentCertificate;
use crate::ambient;

/// How long the content of a file is believed: tokens of service accounts are replaced when a fifth of their life, at
/// least two minutes, is left.
const FILE_AGE_MAX: Duration = Duration::from_secs(60);

/// How long reading a file may take: a volume that hangs must not cost the lease, which is renewed with what was read
/// before.
const READ_MAX: Duration = Duration::from_secs(2);

/// The reason why there are no credentials now.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: String,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The credential has characters that a header cannot hold.
    #[error("the token of {0} cannot be sent in a header")]
    Header(String),
    /// A program failed.
    #[error("no credentials from the configured program")]
    Exec(#[from] ExecError),
    /// A certificate that cannot be used.
    #[error("no client certificate")]
    Certificate(#[from] ConfigError),
}

/// The credentials of a client.
pub(super) struct Credentials {
    source: Arc<Source>,
    held: Arc<Mutex<Held>>,
}

/// Where credentials come from.
struct Source {
    bearer: Bearer,
    certificate: Option<Certificate>,
    presented: Arc<CurrentCertificate>,
}

#[derive(Default)]
struct Held {
    authorization: Option<HeaderValue>,
    // When the header and the certificate were read; `None` before the first time.
    read: Option<Instant>,
    // When what a program printed runs out.
    expires: Option<SystemTime>,
    // Of a certificate that a program gave: from when until when it is valid.
    validity: Option<(SystemTime, SystemTime)>,
}

impl Credentials {
    pub(super) fn new(config: &Config, presented: Arc<CurrentCertificate>) -> Self {
        let (bearer, certificate) = (config.bearer.clone(), config.certificate.clone());
        Self { source: Arc::new(Source { bearer, certificate, presented }), held: Arc::default() }
    }

    /// The `Authorization` header of a request that is sent at `now`; `None` for none.
    pub(super) async fn authorization(&self, now: Instant) -> Result<Option<HeaderValue>, CredentialError> {
        let mut held = self.held.clone().lock_owned().await;
        if self.source.is_due(&held, now) {
            let outcome;
            (held, outcome) = self.renew(held, now).await;
            match outcome {
                // The credentials of the last read may be good for a while: the next attempt is a minute away.
                Err(error @ CredentialError::File { .. }) if held.read.is_some() => {
                    tracing::warn!(error = chain(&error), "credentials cannot be read again");
                    held.read = Some(now);
                }
                other => other?,
            }
        }
        if let Some((_, ends)) = held.validity {
            measures::certificate_ends(ends, ambient::system_time());
        }
        Ok(held.authorization.clone())
    }

    /// Called after an answer 401 to a request that was sent with `refused`. Returns whether there may be better
    /// credentials now, so that the request is worth another try.
    pub(super) async fn refuse(&self, refused: Option<&HeaderValue>) -> bool {
        if !matches!(self.source.bearer, Bearer::Exec(_) | Bearer::File(_)) {
            return false;
        }
        let mut held = self.held.clone().lock_owned().await;
        if held.authorization.as_ref() != refused {
            return true;
        }
        // A program is asked again; a file that still has the same token would only be refused again.
        let before = held.authorization.take();
        held.read = None;
        let (held, outcome) = self.renew(held, Instant::now()).await;
        match outcome {
            Ok(()) => held.authorization != before,
            Err(error) => {
                tracing::warn!(error = %error, "credentials were refused and cannot be renewed");
                false
            }
        }
    }

    /// Renews `held`. The work is a task of its own, which the end of this call does not end.
    async fn renew(
        &self,
        mut held: OwnedMutexGuard<Held>,
        now: Instant,
    ) -> (OwnedMutexGuard<Held>, Result<(), CredentialError>) {
        let source = self.source.clone();
        let renewal = tokio::spawn(async move {
            let outcome = source.renew(&mut held, now).await;
            (held, outcome)
        });
        renewal.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

impl Source {
    fn is_due(&self, held: &Held, now: Instant) -> bool {
        let Some(read) = held.read else { return true };
        if held.expires.is_some_and(|expires| expires <= ambient::system_time()) {
            return true;
        }
        let is_file = |pem: &Pem| matches!(pem, Pem::File(_));
        let reads_files = matches!(self.bearer, Bearer::File(_))
            || self.certificate.as_ref().is_some_and(|pair| is_file(&pair.chain) || is_file(&pair.key));
        reads_files && now.duration_since(read) >= FILE_AGE_MAX
    }

    async fn renew(&self, held: &mut Held, now: Instant) -> Result<(), CredentialError> {
        if let Some(pair) = &self.certificate {
            let (chain, key) = (content(&pair.chain).await?, content(&pair.key).await?);
            self.presented.replace(&chain, &key)?;
        }
        held.authorization = match &self.bearer {
            Bearer::None => None,
            Bearer::Token(token) => Some(header("Bearer", token.expose(), "the configuration")?),
            Bearer::File(path) => {
                let token = read(path, TOKEN_BYTES_MAX).await?;
                Some(header("Bearer", token.expose().trim(), &path.display().to_string())?)
            }
            Bearer::Basic { username, password } => {
                let pair = STANDARD.encode(format!("{username}:{}", password.expose()));
                Some(header("Basic", &pair, "the configuration")?)
            }
            Bearer::Exec(plugin) => self.run(plugin, held).await?,
        };
        held.read = Some(now);
        Ok(())
    }

    async fn run(
        &self,
        plugin: &ExecPlugin,
        held: &mut Held,
    ) -> Result<Option<HeaderValue>, CredentialError> {
        let printed = plugin.run().await?;
        if let Some((chain, key)) = &printed.certificate {
            let before = self.presented.leaf();
            self.presented.replace(chain, key)?;
            let validity = std::mem::replace(&mut held.validity, self.presented.validity());
            if let Some((since, _)) = validity.filter(|_| before != self.presented.leaf()) {
                measures::certificate_replaced(
                    ambient::system_time().duration_since(since).unwrap_or_default(),
                );
            }
        }
        held.expires = printed.expires;
        printed.token.map(|token| header("Bearer", token.expose(), &plugin.command)).transpose()
    }
}

fn header(scheme: &str, value: &str, source: &str) -> Result<HeaderValue, CredentialError> {
    let mut header = HeaderValue::try_from(format!("{scheme} {value}"))
        .map_err(|_| CredentialError::Header(source.to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn content(pem: &Pem) -> Result<Secret, CredentialError> {
    match pem {
        Pem::Inline(text) => Ok(text.clone()),
        Pem::File(path) => read(path, MATERIAL_BYTES_MAX).await,
    }
}

async fn read(path: &Path, bytes_max: u64) -> Result<Secret, CredentialError> {
    let text = timeout(READ_MAX, read_secret(path, bytes_max)).await;
    let text = text.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    text.map_err(|source| CredentialError::File { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::endpoint::Endpoint;

    fn credentials(bearer: Bearer) -> Credentials {
        let mut config = Config::new(vec!["https://a".parse::<Endpoint>().unwrap()]);
        config.bearer = bearer;
        Credentials::new(&config, Arc::default())
    }

    async fn sent(credentials: &Credentials, now: Instant) -> Option<String> {
        let header = credentials.authorization(now).await.unwrap();
        header.map(|header| header.to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn tokens_and_passwords_become_headers() {
        let now = Instant::now();
        assert_eq!(sent(&credentials(Bearer::None), now).await, None);
        let token = credentials(Bearer::Token(Secret::new("abc")));
        assert_eq!(sent(&token, now).await.as_deref(), Some("Bearer abc"));
        assert!(!token.refuse(None).await, "a fixed token does not get better");
        let basic = Bearer::Basic { username: "u".to_owned(), password: Secret::new("p") };
        assert_eq!(sent(&credentials(basic), now).await.as_deref(), Some("Basic dTpw"));
        let bad = credentials(Bearer::Token(Secret::new("a\nb"))).authorization(now).await.unwrap_err();
        assert_eq!(bad.to_string(), "the token of the configuration cannot be sent in a header");
    }

    #[tokio::test]
    async fn a_token_file_is_read_again_after_a_minute_or_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let credentials = credentials(Bearer::File(path.clone()));
        let start = Instant::now();
        assert_eq!(sent(&credentials, start).await.as_deref(), Some("Bearer one"));
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(sent(&credentials, start + Duration::from_secs(59)).await.as_deref(), Some("Bearer one"));
        assert_eq!(sent(&credentials, start + Duration::from_secs(60)).await.as_deref(), Some("Bearer two"));
        let refused = HeaderValue::from_static("Bearer two");
        assert!(!credentials.refuse(Some(&refused)).await, "the file has not changed");
        std::fs::write(&path, "three").unwrap();
        assert!(credentials.refuse(Some(&refused)).await);
        assert!(credentials.refuse(Some(&refused)).await, "another caller has renewed it already");
        assert_eq!(sent(&credentials, start).await.as_deref(), Some("Bearer three"));
        std::fs::remove_file(&path).unwrap();
        let later = Instant::now() + Duration::from_secs(61);
        assert_eq!(sent(&credentials, later).await.as_deref(), Some("Bearer three"), "better than none");
    }

    #[tokio::test]
    async fn a_token_file_that_grows_past_the_bound_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one").unwrap();
        let credentials = credentials(Bearer::File(path.clone()));
        let start = Instant::now();
        assert_eq!(sent(&credentials, start).await.as_deref(), Some("Bearer one"));
        std::fs::write(&path, "x".repeat(16 << 10) + "x").unwrap();
        assert_eq!(sent(&credentials, start + FILE_AGE_MAX).await.as_deref(), Some("Bearer one"));
        let unread = read(&path, TOKEN_BYTES_MAX).await.unwrap_err();
        assert!(crate::client::chain(&unread).contains("larger than 16384 bytes"), "{unread}");
    }

    #[tokio::test]
    async fn a_program_ends_although_its_caller_gives_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        // The program waits until it may go on, and leaves a mark each time that it is called.
        let script = format!(
            r#"echo x >> {0}; until [ -e {1} ]; do sleep 0.05; done
            echo '{{"apiVersion":"client.authentication.x/v1","kind":"ExecCredential","status":{{"token":"t"}}}}'"#,
            path("calls"),
            path("go")
        );
        let plugin = serde_json::json!({
            "apiVersion": "client.authentication.x/v1", "command": "sh", "args": ["-c", script],
        });
        let credentials = credentials(Bearer::Exec(serde_json::from_value(plugin).unwrap()));
        let calls = || std::fs::read_to_string(path("calls")).unwrap_or_default().lines().count();
        let mut first = Box::pin(credentials.authorization(Instant::now()));
        while calls() == 0 {
            assert!(timeout(Duration::from_millis(10), first.as_mut()).await.is_err());
        }
        drop(first);
        std::fs::write(path("go"), "").unwrap();
        assert_eq!(sent(&credentials, Instant::now()).await.as_deref(), Some("Bearer t"));
        assert_eq!(calls(), 1);
    }

    #[tokio::test]
    async fn a_program_is_asked_again_only_when_its_answer_runs_out() {
        let folder = tempfile::tempdir().unwrap();
        let counter = folder.path().join("calls");
        let script = format!(
            r#"echo x >> {0}; n=$(wc -l < {0}); echo "{{\"apiVersion\":\"client.authentication.x/v1\",\"kind\":\"ExecCredential\",
            \"status\":{{\"token\":\"t$n\"$EXPIRES}}}}""#,
            counter.display()
        );
        let plugin = |expires: &str| {
            let text = serde_json::json!({
                "apiVersion": "client.authentication.x/v1", "command": "sh", "args": ["-c", script],
                "env": [{ "name": "EXPIRES", "value": expires }],
            });
            Bearer::Exec(serde_json::from_value(text).unwrap())
        };
        let lasting = credentials(plugin(""));
        assert_eq!(sent(&lasting, Instant::now()).await.as_deref(), Some("Bearer t1"));
        assert_eq!(sent(&lasting, Instant::now()).await.as_deref(), Some("Bearer t1"));
        assert!(lasting.refuse(Some(&HeaderValue::from_static("Bearer t1"))).await);
        assert_eq!(sent(&lasting, Instant::now()).await.as_deref(), Some("Bearer t2"));
        let expired = credentials(plugin(r#","expirationTimestamp":"2001-01-01T00:00:00Z""#));
        assert_eq!(sent(&expired, Instant::now()).await.as_deref(), Some("Bearer t3"));
        assert_eq!(sent(&expired, Instant::now()).await.as_deref(), Some("Bearer t4"));
    }
}
