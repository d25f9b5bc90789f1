//! The cluster's identity in a snapshot: the files without which its objects alone make no cluster that its clients know.
//!
//! Owns which files these are: the authorities with their keys, the keys of service account tokens, the configuration of encryption at
//! rest, and further ones that an operator names. They come from the disk of the machine where the save runs, and from no member
//! (docs/decisions/0041). `collect` reads them, and `place` puts them into the directory of a blank machine.
//!
//! Invariant: they are never written but into an encrypted file, and into files of their owner. No message shows a content.

mod place;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use orch_raft::archive::KeyBundle;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::tls::MALFORMED_PEM;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

pub(super) use self::place::{Placed, place};
use super::sealed::Recipient;
use crate::admin::Access;
use crate::certs::{Authority, Client, Layout};
use crate::cli::KeyFileArgs;

/// The name of the configuration of encryption at rest.
const ENCRYPTION: &str = "encryption.yaml";

/// The files that `arguments` ask for; `None` if they ask for none.
///
/// # Errors
/// The snapshot is not encrypted, a file is missing or does not fit its certificate, or the authority is not that of the cluster that
/// is saved.
pub(super) fn collect(
    arguments: &KeyFileArgs,
    recipients: &[Recipient],
    access: &Access,
) -> anyhow::Result<Option<KeyBundle>> {
    if !arguments.with_identity {
        return Ok(None);
    }
    if recipients.is_empty() {
        bail!(
            "--with-identity: the keys of a cluster are only ever saved encrypted; name a public key with --encrypt-to"
        );
    }
    let dir = arguments
        .certs_dir
        .as_ref()
        .context("--with-identity: name the directory of the keys with --certs-dir")?;
    let layout = Layout::new(dir);
    let authorities = [layout.authority(), layout.peer_authority()];
    let mut wanted = Vec::new();
    for authority in &authorities {
        Authority::load(&authority.certificate, &authority.key).context(
            "--certs-dir: without both authorities and their keys no machine becomes the cluster again; bring those that are kept \
             elsewhere here for the save",
        )?;
        wanted.extend([&authority.certificate, &authority.key]);
        // Both are there, or neither: between two steps of a rotation.
        wanted.extend(
            [&authority.next_certificate, &authority.next_key].into_iter().filter(|path| path.exists()),
        );
    }
    require_same_cluster(access, &authorities[0].certificate)?;
    let (token_key, token_public_key) = (layout.token_key(), layout.token_public_key());
    wanted.push(&token_key);
    wanted.extend(Some(&token_public_key).filter(|path| path.exists()));
    let mut bundle = KeyBundle::default();
    for path in wanted {
        add(&mut bundle, "--certs-dir", path, None)?;
    }
    if let Some(path) = &arguments.encryption_provider_config {
        add(&mut bundle, "--encryption-provider-config", path, Some(ENCRYPTION))?;
    }
    for path in &arguments.identity_file {
        refuse_made_anew(path)?;
        add(&mut bundle, "--identity-file", path, None)?;
    }
    Ok(Some(bundle))
}

/// Refuses a file whose name a restore makes anew, for the member, the administrator and the scheduler: it would find the saved one
/// in its way.
fn refuse_made_anew(path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_client = |client: &Client| {
        name.strip_prefix(client.name()).is_some_and(|end| [".crt", ".key", ".conf"].contains(&end))
    };
    if name == "members" || Client::ALL.iter().any(is_client) {
        bail!("--identity-file: {} is made anew by a restore: leave it out", path.display());
    }
    Ok(())
}

/// Adds the file at `path`, which `flag` names, under `name` or its own.
fn add(bundle: &mut KeyBundle, flag: &str, path: &Path, name: Option<&str>) -> anyhow::Result<()> {
    let shown = path.display();
    let content =
        files::read(path, MATERIAL_BYTES_MAX).with_context(|| format!("{flag}: cannot read {shown}"))?;
    let own = path.file_name().and_then(|own| own.to_str());
    let name =
        name.or(own).with_context(|| format!("{flag}: {shown} has no name of plain text; rename it"))?;
    bundle.add(name, content).map_err(|reason| anyhow::anyhow!("{flag}: {shown}: {reason}"))
}

/// Requires that the client configuration trusts the authority at `path`: keys of another cluster beside the objects of this one would
/// be found at the restore.
fn require_same_cluster(access: &Access, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let text =
        files::read(path, MATERIAL_BYTES_MAX).with_context(|| format!("--certs-dir: cannot read {shown}"))?;
    let (own, trusted) = (certificates(&text), certificates(&access.authorities));
    let own = own.with_context(|| format!("--certs-dir: {shown}"))?;
    let trusted = trusted.context("the authorities of the client configuration")?;
    // few: an authority, and its successor.
    if !own.iter().any(|certificate| trusted.contains(certificate)) {
        bail!(
            "--certs-dir: the client configuration trusts no certificate of {shown}: name the directory of this cluster, or the \
             client configuration in it"
        );
    }
    Ok(())
}

fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    // The parser's error is left out: it may quote the file.
    parsed.ok().with_context(|| MALFORMED_PEM)
}

/// The names of the files in `bundle` that no part of a certificate directory is called.
fn further<'a>(bundle: &'a KeyBundle, layout: &Layout) -> Vec<&'a str> {
    let (cluster, peer) = (layout.authority(), layout.peer_authority());
    let known: Vec<PathBuf> = [cluster, peer]
        .into_iter()
        .flat_map(|files| [files.certificate, files.key, files.next_certificate, files.next_key])
        .chain([layout.token_key(), layout.token_public_key(), layout.root().join(ENCRYPTION)])
        .collect();
    bundle.files().map(|(name, _)| name).filter(|name| !known.contains(&layout.root().join(name))).collect()
}

#[cfg(test)]
mod tests;
