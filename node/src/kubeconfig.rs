//! The client configuration file (kubeconfig), with everything embedded: servers, authority, certificate, key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use serde_json::json;

use crate::certs::Pair;

/// A server entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name of its cluster and context entries, after the brand.
    pub name: String,
    /// `https://HOST:PORT`.
    pub url: String,
}

/// The text of a configuration for the client called `user`: one context for each server, the first of them current.
/// Secret: it holds a private key.
pub fn kubeconfig(brand: &Brand, user: &str, servers: &[Server], authority: &str, pair: &Pair) -> String {
    let entry = |server: &Server| format!("{}-{}", brand.name, server.name);
    let authority = STANDARD.encode(authority);
    let clusters = servers.iter().map(|server| {
        json!({
            "name": entry(server),
            "cluster": {"server": server.url, "certificate-authority-data": authority},
        })
    });
    let contexts = servers
        .iter()
        .map(|server| json!({"name": entry(server), "context": {"cluster": entry(server), "user": user}}));
    let credentials = json!({
        "client-certificate-data": STANDARD.encode(&pair.certificate),
        "client-key-data": STANDARD.encode(&pair.key),
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters.collect::<Vec<_>>(),
        "users": [{"name": user, "user": credentials}],
        "contexts": contexts.collect::<Vec<_>>(),
        "current-context": servers.first().map(entry).unwrap_or_default(),
    });
    // JSON is YAML, and every client reads it; indented for people.
    let mut text = format!("{config:#}");
    text.push('\n');
    text
}

/// The server entries of `config`, in order. The names are those after the brand.
pub fn servers(config: &str) -> Result<Vec<Server>, String> {
    let config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let clusters = config["clusters"].as_array().ok_or("it names no clusters")?;
    let server = |entry: &serde_json::Value| {
        let (name, url) = (entry["name"].as_str()?, entry["cluster"]["server"].as_str()?);
        let name = name.split_once('-').map_or(name, |(_brand, name)| name);
        Some(Server { name: name.to_owned(), url: url.to_owned() })
    };
    clusters
        .iter()
        .map(|entry| server(entry).ok_or_else(|| "a cluster has no name or server".to_owned()))
        .collect()
}

/// Adds those of `servers` that `config` does not name, each with a context of its own for `user`.
pub fn with_servers(config: &str, user: &str, added: &[Server]) -> Result<String, String> {
    let known = servers(config)?;
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let first = config["clusters"].get(0).cloned().ok_or("it names no clusters")?;
    let brand = first["name"].as_str().and_then(|name| name.split_once('-')).map_or("", |(brand, _)| brand);
    // few: the members of a cluster.
    for server in added.iter().filter(|server| known.iter().all(|known| known.name != server.name)) {
        let entry = format!("{brand}-{}", server.name);
        let mut cluster = first.clone();
        cluster["name"] = json!(entry);
        cluster["cluster"]["server"] = json!(server.url);
        let context = json!({"name": entry, "context": {"cluster": entry, "user": user}});
        for (list, item) in [("clusters", cluster), ("contexts", context)] {
            let list = config.get_mut(list).and_then(|list| list.as_array_mut());
            list.ok_or("it names no clusters or no contexts")?.push(item);
        }
    }
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}

/// Those of the server entries of `config` that are called after a member, as this program calls them. An operator's own entry
/// of another name is none.
pub fn member_servers(config: &str) -> Result<Vec<Server>, String> {
    let all: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let is_member = |entry: &serde_json::Value| entry["name"].as_str().and_then(member_of).is_some();
    let is_member = all["clusters"].as_array().into_iter().flatten().map(is_member);
    Ok(servers(config)?.into_iter().zip(is_member).filter_map(|(server, is)| is.then_some(server)).collect())
}

/// The member after which an entry is called.
fn member_of(entry: &str) -> Option<&str> {
    [&ORCH, &KUBERNETES].into_iter().find_map(|brand| entry.strip_prefix(brand.name)?.strip_prefix('-'))
}

/// Removes the clusters and contexts called after the brand and one of `gone`. The first that is left becomes the current
/// context where that was one of them.
pub fn without_servers(config: &str, gone: &[Server]) -> Result<String, String> {
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    // few: the members of a cluster.
    let is_gone = |name: &serde_json::Value| {
        let member = name.as_str().and_then(member_of);
        member.is_some_and(|member| gone.iter().any(|server| server.name == member))
    };
    for list in ["clusters", "contexts"] {
        let list = config.get_mut(list).and_then(|list| list.as_array_mut());
        list.ok_or("it names no clusters or no contexts")?.retain(|entry| !is_gone(&entry["name"]));
    }
    if is_gone(&config["current-context"]) {
        let first = config["contexts"].get(0).map_or(json!(""), |context| context["name"].clone());
        config["current-context"] = first;
    }
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}

/// Removes those of `gone` from the list of servers of the only cluster of `config`.
pub fn without_listed_servers(config: &str, gone: &[Server]) -> Result<String, String> {
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let server = config.pointer_mut("/clusters/0/cluster/server").ok_or("it names no server")?;
    let urls = server.as_str().unwrap_or_default().split(',');
    let kept: Vec<&str> = urls.filter(|url| gone.iter().all(|server| server.url != *url)).collect();
    *server = json!(kept.join(","));
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}

/// Adds those of `servers` that the only cluster of `config` does not list: its server is a list, separated by commas.
pub fn with_listed_servers(config: &str, added: &[Server]) -> Result<String, String> {
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let server = config.pointer_mut("/clusters/0/cluster/server").ok_or("it names no server")?;
    let mut urls: Vec<String> = server.as_str().unwrap_or_default().split(',').map(str::to_owned).collect();
    for Server { url, .. } in added {
        if !urls.contains(url) {
            urls.push(url.clone());
        }
    }
    *server = json!(urls.join(","));
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}

/// Makes `authority` (PEM) the trusted one of every cluster in `config`.
pub fn with_authority(config: &str, authority: &str) -> Result<String, String> {
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let clusters = config.get_mut("clusters").and_then(|clusters| clusters.as_array_mut());
    for cluster in clusters.ok_or("it names no clusters")? {
        let cluster = cluster.get_mut("cluster").filter(|cluster| cluster.is_object());
        cluster.ok_or("a cluster is no object")?["certificate-authority-data"] =
            json!(STANDARD.encode(authority));
    }
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}

/// Replaces the certificate and key of `user` in `config`.
pub fn reissued(config: &str, user: &str, pair: &Pair) -> Result<String, String> {
    let mut config: serde_json::Value = serde_norway::from_str(config).map_err(|error| error.to_string())?;
    let users = config.get_mut("users").and_then(|users| users.as_array_mut()).ok_or("it names no users")?;
    let entry = users.iter_mut().find(|entry| entry["name"] == user).and_then(|entry| entry.get_mut("user"));
    *entry.ok_or_else(|| format!("it has no user {user:?}"))? = json!({
        "client-certificate-data": STANDARD.encode(&pair.certificate),
        "client-key-data": STANDARD.encode(&pair.key),
    });
    let mut text = format!("{config:#}");
    text.push('\n');
    Ok(text)
}
