//! Token and authorization webhooks that answer badly, and clients who cause questions to them without end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use orch_proto::brand::ORCH;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::hook::Hook;
use super::report::status_counts;
use super::stage::{Stage, Surroundings, TENANT};

/// Clients that ask at once.
const CLIENTS: usize = 100;
/// Time in which they ask.
const ATTACK: Duration = Duration::from_secs(20);

/// A cluster with a token webhook.
pub(super) async fn prepare_authentication() -> Result<Stage> {
    let (folder, hook) = (tempfile::tempdir()?, Hook::start().await?);
    let connection = connection(folder.path(), &hook)?;
    let flags = vec![
        format!("--authentication-token-webhook-config-file={connection}"),
        "--authentication-token-webhook-version=v1".to_owned(),
    ];
    let mut stage = Stage::start(flags).await?;
    stage.surroundings = Some(Surroundings { _folder: folder, _hook: hook });
    Ok(stage)
}

/// A cluster with an authorization webhook, asked where no role allows something.
pub(super) async fn prepare_authorization() -> Result<Stage> {
    let (folder, hook) = (tempfile::tempdir()?, Hook::start().await?);
    let connection = connection(folder.path(), &hook)?;
    let webhook = json!({
        "timeout": "3s", "authorizedTTL": "5m", "unauthorizedTTL": "30s", "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": connection},
    });
    let authorizers = json!([
        {"type": "RBAC", "name": "rbac"}, {"type": "Webhook", "name": "hook", "webhook": webhook},
    ]);
    let configuration = json!({
        "apiVersion": format!("{}/v1", ORCH.group("apiserver.config")), "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    });
    let config = write(folder.path(), "authorization.json", &configuration)?;
    let mut stage = Stage::start(vec![format!("--authorization-config={config}")]).await?;
    stage.surroundings = Some(Surroundings { _folder: folder, _hook: hook });
    Ok(stage)
}

fn connection(folder: &Path, hook: &Hook) -> Result<String> {
    let connection = json!({
        "clusters": [{"name": "c", "cluster": {"server": hook.url}}], "users": [],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
    });
    write(folder, "hook.conf", &connection)
}

fn write(folder: &Path, name: &str, document: &Value) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, document.to_string())?;
    Ok(path.display().to_string())
}

/// Requests with made-up tokens.
pub(super) async fn attack_authentication(stage: &Stage) -> Result<String> {
    let path = format!("/api/v1/namespaces/{TENANT}/configmaps/none");
    from_all(stage, move |client, number| (path.clone(), Some(format!("Bearer made-up-{client}-{number}"))))
        .await
}

/// Requests of the tenant for what no role allows.
pub(super) async fn attack_authorization(stage: &Stage) -> Result<String> {
    from_all(stage, |client, number| {
        (format!("/api/v1/namespaces/other-{client}-{number}/configmaps/none"), None)
    })
    .await
}

/// Asks for the path, with the credential, that `next` gives for a client and the number of its request.
async fn from_all(
    stage: &Stage,
    next: impl Fn(usize, usize) -> (String, Option<String>) + Clone + Send + 'static,
) -> Result<String> {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (tenant, next) = (stage.tenant.clone(), next.clone());
        clients.spawn(async move {
            let mut statuses = Vec::new();
            while began.elapsed() < ATTACK {
                let (path, credential) = next(client, statuses.len());
                let headers: Vec<_> = credential.iter().map(|own| ("authorization", own.as_str())).collect();
                let answer = tenant.send(http::Method::GET, &path, &headers, bytes::Bytes::new()).await;
                statuses.push(answer.map_or(0, |answer| answer.status));
            }
            statuses
        });
    }
    Ok(status_counts(clients.join_all().await.into_iter().flatten()))
}
