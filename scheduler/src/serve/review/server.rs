//! Asks a server of the client configuration file, with the API's review documents.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use orch_proto::Brand;
use serde_json::{Map, Value, json};

use super::exchange::{ANSWER_MAX, exchange};
use super::{Access, AccessVerdict, ReviewError, Reviewer};
use crate::client::{Config, ConfigError, JsonServer};
use crate::serve::user::User;

/// Reviews a second, and at once: bounds that no healthy scheduler meets, since answers are remembered.
const QPS: f32 = 200.0;
const BURST: u32 = 400;

/// A server that reviews.
pub struct ReviewServer {
    server: JsonServer,
    brand: &'static Brand,
}

impl ReviewServer {
    /// Asks the server that `config` leads to, with the names of `brand`.
    ///
    /// # Errors
    /// Where certificates or headers of the configuration cannot be used.
    pub fn new(config: Config, brand: &'static Brand) -> Result<ReviewServer, ConfigError> {
        let content_type = config.content_type;
        let config = Config { request_timeout: ANSWER_MAX, ..config.with_limits(content_type, QPS, BURST) };
        Ok(ReviewServer { server: JsonServer::new(&config)?, brand })
    }

    /// Creates a review, and returns its status.
    async fn review(&self, stem: &str, kind: &str, spec: Value) -> Result<Value, ReviewError> {
        let group = self.brand.group(stem);
        let resource = format!("{}s", kind.to_lowercase());
        let path = format!("apis/{group}/v1/{resource}");
        let document = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec});
        let fault = |reason: String| ReviewError { attempt: format!("create {resource}"), reason };
        let (status, mut answer) = exchange(&self.server, &path, Some(&document)).await.map_err(&fault)?;
        if !status.is_success() {
            return Err(fault(format!("{status}: {}", answer["message"].as_str().unwrap_or_default())));
        }
        Ok(answer["status"].take())
    }
}

impl Reviewer for ReviewServer {
    fn review_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        async move {
            let status = self.review("authentication", "TokenReview", json!({"token": token})).await?;
            Ok((status["authenticated"] == true).then(|| user(&status["user"])))
        }
        .boxed()
    }

    fn review_access<'a>(&'a self, access: Access<'a>) -> BoxFuture<'a, Result<AccessVerdict, ReviewError>> {
        async move {
            let Access { user, path, verb } = access;
            let extra: Map<String, Value> =
                user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
            let mut spec = json!({
                "user": user.name,
                "groups": user.groups,
                "nonResourceAttributes": {"path": path, "verb": verb},
            });
            if !user.uid.is_empty() {
                spec["uid"] = json!(user.uid);
            }
            if !extra.is_empty() {
                spec["extra"] = Value::Object(extra);
            }
            let status = self.review("authorization", "SubjectAccessReview", spec).await?;
            Ok(AccessVerdict {
                is_allowed: status["allowed"] == true,
                reason: status["reason"].as_str().unwrap_or_default().to_owned(),
            })
        }
        .boxed()
    }

    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<BTreeMap<String, String>>, ReviewError>> {
        async move {
            let fault = |reason| ReviewError { attempt: format!("get configmap {namespace}/{name}"), reason };
            let path = format!("api/v1/namespaces/{namespace}/configmaps/{name}");
            let (status, answer) = exchange(&self.server, &path, None).await.map_err(fault)?;
            if status == StatusCode::NOT_FOUND {
                return Ok(None);
            }
            if !status.is_success() {
                let message = answer["message"].as_str().unwrap_or_default();
                return Err(fault(format!("{status}: {message}")));
            }
            let data = answer["data"].as_object().into_iter().flatten();
            let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
            Ok(Some(data.filter_map(text).collect()))
        }
        .boxed()
    }
}

fn user(value: &Value) -> User {
    let texts = |value: &Value| {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let text = |member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let extra = value["extra"].as_object().into_iter().flatten();
    User {
        name: text("username"),
        uid: text("uid"),
        groups: texts(&value["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}
