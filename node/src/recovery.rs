//! `orch cluster recover`: a new cluster of what one stopped member has, after the majority is lost for good.
//!
//! Owns what an operator is told before and after, and the confirmation between. The store does the work; until it was
//! confirmed nothing is changed.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_proto::brand::ORCH;
use orch_raft::disk::cipher::RecordCipher;
use orch_raft::member::reseed::{self, Found, Made, NewCluster, ReseedError};
use orch_raft::transport::Peer;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::cli::RecoverArgs;
use crate::encryption::{EncryptionError, Keyring};
use crate::run::{self, RunError};

/// Why no cluster was recovered. The member's data is as before.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The keys of the data cannot be loaded.
    #[error("--encryption-provider-config: {}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        source: EncryptionError,
    },
    /// The data cannot be read, or the new store not be made.
    #[error(transparent)]
    Reseed(#[from] ReseedError),
    /// Nobody was asked.
    #[error(
        "nothing was changed: standard input is no terminal; to go on, run it again with --confirm {cluster}"
    )]
    Unasked {
        /// The cluster's id.
        cluster: Arc<str>,
    },
    /// Another text than the cluster's id was given.
    #[error("nothing was changed: {given:?} is not the cluster's id, {cluster}")]
    Unconfirmed {
        /// The text given.
        given: String,
        /// The cluster's id.
        cluster: Arc<str>,
    },
    /// Random bytes cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The text cannot be written, or the answer not be read.
    #[error("cannot ask")]
    Out(#[from] io::Error),
}

/// Asks on the terminal; `None` where there is none.
///
/// # Errors
/// It cannot be read.
pub fn typed() -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(Some(line.trim().to_owned()))
}

/// Recovers the cluster of the member in `--data-dir`, once `ask` or `--confirm` gave the cluster's id. Tells `out`.
///
/// # Errors
/// See [`RecoveryError`].
pub fn recover(
    arguments: &RecoverArgs,
    ask: impl FnOnce() -> io::Result<Option<String>>,
    out: &mut impl Write,
) -> Result<(), RecoveryError> {
    let keys = keys(arguments.encryption_provider_config.as_deref())?;
    let examined = reseed::examine(&arguments.data_dir, keys.clone())?;
    let (found, origin) = (examined.0.found().clone(), examined.0.origin());
    let now_ms = (run::clock())();
    describe(&found, now_ms, out)?;
    confirm(&found, arguments.confirm.as_deref(), ask, out)?;
    let member = match (&arguments.peer_address, &found.member) {
        (Some(address), _) => {
            let (id, name) = (orch_raft::member::node_id(&found.name), found.name.clone());
            Peer { id, name, address: address.as_str().into() }
        }
        (None, Some(member)) => member.clone(),
        (None, None) => return Err(ReseedError::NoAddress(found.name).into()),
    };
    let new = NewCluster {
        member,
        // The brand is that of the data.
        seed: run::seed(&ORCH)?,
        directory: format!("{:016x}", run::incarnation()),
        now_ms,
        beginning: reseed::beginning(&origin, now_ms, arguments.revision_floor),
    };
    writeln!(out, "making the new store ...")?;
    let made = reseed::recover(&arguments.data_dir, keys, examined, &new)?;
    tell_next(&found, &made, &new.member, out)?;
    Ok(())
}

/// The keys of an encryption configuration, if one is given.
pub(crate) fn keys(config: Option<&Path>) -> Result<Option<Arc<dyn RecordCipher>>, RecoveryError> {
    let Some(path) = config else { return Ok(None) };
    let loaded = Keyring::load(path);
    let loaded = loaded.map_err(|source| RecoveryError::Keys { path: path.to_owned(), source })?;
    Ok(Some(Arc::new(loaded)))
}

fn describe(found: &Found, now_ms: u64, out: &mut impl Write) -> io::Result<()> {
    let others: Vec<String> =
        found.others.iter().map(|peer| format!("{} ({})", peer.name, peer.address)).collect();
    let address = found.member.as_ref().map_or("not in the membership", |member| &*member.address);
    writeln!(out, "cluster     {}", found.cluster)?;
    writeln!(out, "member      {} ({address})", found.name)?;
    writeln!(out, "others      {}", others.join(", "))?;
    writeln!(out, "last entry  {} of term {}", found.revision, found.term)?;
    writeln!(out, "committed   {} at least, as far as this member knows", found.committed)?;
    writeln!(out, "last write  {}", moment(found.time_ms, now_ms))?;
    writeln!(out, "objects     {}", found.objects)?;
    for doubt in &found.doubts {
        writeln!(
            out,
            "\nWARNING: this member should not be trusted: {doubt}. Recover another one, if one is left."
        )?;
    }
    writeln!(
        out,
        "\nWhat may be lost: every write behind entry {}, whoever has acknowledged it. Look at each member that is left, with\n\
         this command, and recover the one with the highest term and, where these are equal, the highest entry.\n\
         \n\
         What the others have is given up. Stop them, and never start them with their data again: two of three would be a\n\
         majority of the old cluster, and serve clients beside the new one.",
        found.revision
    )
}

/// A time, and how long ago that is.
fn moment(time_ms: u64, now_ms: u64) -> String {
    if time_ms == 0 {
        return "none".to_owned();
    }
    let at = OffsetDateTime::from_unix_timestamp(i64::try_from(time_ms / 1000).unwrap_or(i64::MAX));
    let at = at.ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{time_ms} ms"));
    format!("{at}, {} s ago", now_ms.saturating_sub(time_ms) / 1000)
}

fn confirm(
    found: &Found,
    given: Option<&str>,
    ask: impl FnOnce() -> io::Result<Option<String>>,
    out: &mut impl Write,
) -> Result<(), RecoveryError> {
    let given = match given {
        Some(given) => Some(given.to_owned()),
        None => {
            write!(out, "\nTo go on, type the id of the cluster that is given up: ")?;
            out.flush()?;
            ask()?
        }
    };
    let cluster = found.cluster.clone();
    match given {
        None => {
            writeln!(out)?;
            Err(RecoveryError::Unasked { cluster })
        }
        Some(given) if given == *cluster => Ok(()),
        Some(given) => Err(RecoveryError::Unconfirmed { given, cluster }),
    }
}

fn tell_next(found: &Found, made: &Made, member: &Peer, out: &mut impl Write) -> io::Result<()> {
    let (objects, cluster, beginning) = (made.objects, &made.cluster, made.beginning);
    writeln!(
        out,
        "\nmade cluster {cluster} of {}: {objects} objects, beginning at revision {beginning}",
        found.name
    )?;
    if let Some(kept) = &made.kept {
        writeln!(out, "the old store is {}: delete it once you need it no more", kept.display())?;
    }
    writeln!(out, "\nnext:\n  start {} with the flags it had; it leads the new cluster alone", found.name)?;
    for other in &found.others {
        let (name, address) = (&other.name, &other.address);
        writeln!(
            out,
            "  on the machine of {name}: empty its data directory, then\n    \
             orch cluster add {name} {address} --kubeconfig certs/admin.conf\n    \
             orch serve --name {name} --join {} --peer-address {address} ...\n    \
             orch cluster promote {name} --kubeconfig certs/admin.conf      (once it is up and has no lag)",
            member.address
        )?;
    }
    writeln!(out, "  clients list anew once: every version of before is expired")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found {
            cluster: "c-1".into(),
            name: "a".into(),
            member: None,
            others: Vec::new(),
            revision: 70,
            term: 3,
            committed: 69,
            time_ms: 1_700_000_000_000,
            objects: 12,
            doubts: vec!["its state differs".to_owned()],
        }
    }

    #[test]
    fn what_may_be_lost_is_told_before_anything_is_asked() {
        let mut out = Vec::new();
        describe(&found(), 1_700_000_065_000, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "last entry  70 of term 3",
            "2023-11-14T22:13:20Z, 65 s ago",
            "every write behind entry 70",
            "WARNING: this member should not be trusted: its state differs",
            "never start them with their data",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn only_the_cluster_s_id_confirms() {
        let asked = |given: Option<&str>, typed: Option<&str>| {
            let typed = typed.map(str::to_owned);
            confirm(&found(), given, || Ok(typed), &mut Vec::new()).map_err(|error| error.to_string())
        };
        assert_eq!(asked(Some("c-1"), None), Ok(()));
        assert_eq!(asked(None, Some("c-1")), Ok(()));
        assert!(asked(Some("a"), Some("c-1")).unwrap_err().contains("is not the cluster's id"));
        assert!(asked(None, Some("")).unwrap_err().contains("is not the cluster's id"));
        assert!(asked(None, None).unwrap_err().contains("--confirm c-1"));
    }
}
