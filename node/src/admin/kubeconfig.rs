//! `orch kubeconfig`: a client configuration for a further user or a service account.
//!
//! Owns the two credentials, a certificate of the authority in a directory and a token that the cluster gives, and the text
//! about them. Invariant: neither credential is printed, and an existing file is not overwritten.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use orch_api::authn::GROUP_MASTERS;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::access::{Access, Source, config_for};
use super::request::{RequestError, send};
use crate::certs::{CertsError, Client, Layout, User, user_pair, write_new};
use crate::cli::{AccountName, KubeconfigArgs};

/// A credential as a client configuration holds it, and in words.
struct Credential {
    /// Name of its entry.
    user: String,
    /// The entry. Secret.
    entry: Value,
    /// Its holder, in words.
    holder: String,
    /// When it ends.
    until: String,
    /// Its rights.
    rights: String,
}

/// Makes the configuration that `arguments` describe.
///
/// # Errors
/// The file exists, a file that it is made of cannot be read, or the cluster gives no token.
pub fn make_kubeconfig(
    arguments: &KubeconfigArgs,
    now: OffsetDateTime,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let path = &arguments.out;
    // Asked first: a token that is not kept would be valid all the same.
    ensure!(!path.exists(), CertsError::Exists { path: path.clone() });
    let credential = match (&arguments.user, &arguments.service_account) {
        (Some(name), _) => certificate(arguments, name, now)?,
        (None, Some(account)) => token(arguments, account)?,
        (None, None) => anyhow::bail!("--user or --service-account is missing"),
    };
    let source = Source::named(source(arguments).as_deref());
    write_new(path, &config_for(&source, &credential.user, &credential.entry)?)?;
    let Credential { holder, until, rights, .. } = credential;
    writeln!(out, "wrote {}: {holder}, valid until {until}\n{rights}", path.display())?;
    Ok(())
}

/// The configuration whose servers are taken, where the flags name one: beside the authority there is the administrator's.
fn source(arguments: &KubeconfigArgs) -> Option<PathBuf> {
    let beside = arguments.certs_dir.as_ref().map(|dir| Layout::new(dir).client(Client::Admin).config);
    arguments.access.kubeconfig.clone().or(beside.filter(|path| path.exists()))
}

fn certificate(arguments: &KubeconfigArgs, name: &str, now: OffsetDateTime) -> anyhow::Result<Credential> {
    let dir = arguments.certs_dir.as_ref().context("--certs-dir is missing")?;
    let user = User { name: name.to_owned(), groups: arguments.groups.clone() };
    let made = user_pair(&Layout::new(dir), &user, arguments.valid_for, now)?;
    let groups = match &user.groups[..] {
        [] => String::new(),
        groups => format!(" of {}", groups.join(", ")),
    };
    let rights = match user.groups.iter().any(|group| group == GROUP_MASTERS) {
        true => format!("{GROUP_MASTERS} may do everything: keep the file as you keep the administrator's"),
        false => "it has the rights of the roles that are bound to the user or its groups, and no others"
            .to_owned(),
    };
    Ok(Credential {
        user: name.to_owned(),
        entry: json!({
            "client-certificate-data": STANDARD.encode(&made.pair.certificate),
            "client-key-data": STANDARD.encode(&made.pair.key),
        }),
        holder: format!("user {name}{groups}"),
        until: made.not_after.format(&Rfc3339)?,
        rights,
    })
}

fn token(arguments: &KubeconfigArgs, account: &AccountName) -> anyhow::Result<Credential> {
    let mut access = Access::named(source(arguments).as_deref())?;
    access.prefer(&arguments.access.server);
    let AccountName { namespace, name } = account;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let seconds = arguments.valid_for.map(|valid| valid.as_secs());
    let body = json!({"spec": seconds.map_or(json!({}), |seconds| json!({"expirationSeconds": seconds}))});
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = runtime.block_on(send(&access, Method::POST, &path, body)).map_err(|error| match error {
        // The token is not kept here: asking for another does no harm.
        RequestError::Lost { server, reason } => {
            anyhow::anyhow!("{server}: {reason}; no file was written, give the command again")
        }
        error => error.into(),
    })?;
    let token = answer["status"]["token"].as_str().context("the answer has no token")?;
    let until = answer["status"]["expirationTimestamp"].as_str().unwrap_or("its account ends");
    Ok(Credential {
        user: format!("{namespace}-{name}"),
        entry: json!({"token": token}),
        holder: format!("service account {namespace}/{name}"),
        until: until.to_owned(),
        rights: "it has the rights of the roles that are bound to the account, and no others".to_owned(),
    })
}
