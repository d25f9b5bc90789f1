//! A client configuration for another user, made of an administrator's.
//!
//! Takes the servers and contexts that the administrator reaches the cluster by, and none of its credentials.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{AccessError, Config, Entry, Source, content, member};

/// The text of a configuration for `user` with `credentials`, of the configuration that `source` names. Secret.
pub(in crate::admin) fn config_for(
    source: &Source,
    user: &str,
    credentials: &Value,
) -> Result<String, AccessError> {
    let config = super::configuration(source)?;
    config.derived(user, credentials).map_err(|reason| source.fault(reason))
}

impl Config {
    fn derived(&self, user: &str, credentials: &Value) -> Result<String, String> {
        let (current, context) = self.current_context()?;
        let (cluster, owner) =
            (member(context, "cluster", &self.clusters)?, member(context, "user", &self.users)?);
        let authority = authority(cluster)?;
        let (mut clusters, mut contexts) = (Vec::<Value>::new(), Vec::new());
        for other in self.contexts.iter().filter(|other| other.value["user"] == owner.name.as_str()) {
            // Another context may name a cluster that is not there, or one that has nothing to do with this.
            let Ok(reached) = member(other, "cluster", &self.clusters) else { continue };
            if self::authority(reached).as_ref() != Ok(&authority) {
                continue;
            }
            // few: the members of a cluster.
            if clusters.iter().all(|known| known["name"] != reached.name.as_str()) {
                clusters.push(json!({"name": reached.name, "cluster": embedded(reached, &authority)}));
            }
            contexts.push(json!({"name": other.name, "context": {"cluster": reached.name, "user": user}}));
        }
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": clusters,
            "users": [{"name": user, "user": credentials}],
            "contexts": contexts,
            "current-context": current,
        });
        Ok(format!("{config:#}\n"))
    }
}

/// The authority of `cluster`, PEM in base64.
fn authority(cluster: &Entry) -> Result<String, String> {
    let authority = content(cluster, "certificate-authority")?;
    Ok(STANDARD.encode(authority.ok_or("certificate-authority-data is missing")?))
}

/// The entry of `cluster` with its authority in it: the file that it may name is not where the new configuration is. A
/// server is always verified by that authority, also where the entry turns verification off.
fn embedded(cluster: &Entry, authority: &str) -> Value {
    let mut value = cluster.value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("certificate-authority");
        fields.remove("insecure-skip-tls-verify");
        fields.insert("certificate-authority-data".to_owned(), json!(authority));
    }
    value
}
