//! `orch cluster recover`: a new cluster of what one stopped member has, after the majority is lost for good.
//!
//! Owns what an operator is told before and after, and the confirmation between. The store does the work; until it was
//! confirmed no entry and no object is changed.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_proto::brand::ORCH;
use orch_raft::disk::cipher::RecordCipher;
use orch_raft::member::reseed::{self, Found, Made, NewCluster, Origin, ReseedError};
use orch_raft::transport::Peer;

use crate::cli::RecoverArgs;
use crate::encryption::{EncryptionError, Keyring};
use crate::operator::{self, CLIENTS_LIST_ANEW, date};
use crate::run::{self, RunError};

/// Why no cluster was recovered, the member's data being as before, or why nothing was told of one that was.
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
    /// No confirmation was given, and there is no terminal to ask on.
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
    #[error("nothing was changed: cannot ask")]
    Out(#[from] io::Error),
    /// The new cluster is made, and the text about it cannot be written.
    #[error("cluster {cluster} was made, and what to do next cannot be written")]
    Untold {
        /// The new cluster's id.
        cluster: Arc<str>,
        /// The error of the output.
        source: io::Error,
    },
}

/// Asks on the terminal; `None` where there is none.
///
/// # Errors
/// It cannot be read.
pub fn typed() -> io::Result<Option<String>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    operator::line(&mut io::stdin().lock()).map(Some)
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
    let (found, origin) = (examined.found().clone(), examined.origin());
    let new = decide(arguments, &found, &origin, &*run::clock(), ask, out)?;
    writeln!(out, "making the new store ...")?;
    let made = reseed::recover(&arguments.data_dir, keys, examined, &new)?;
    tell_next(&found, &made, &new.member, out)
        .map_err(|source| RecoveryError::Untold { cluster: made.cluster.clone(), source })
}

/// Tells what was found, and makes the beginning of the new cluster once it is confirmed.
fn decide(
    arguments: &RecoverArgs,
    found: &Found,
    origin: &Origin,
    clock: &dyn Fn() -> u64,
    ask: impl FnOnce() -> io::Result<Option<String>>,
    out: &mut impl Write,
) -> Result<NewCluster, RecoveryError> {
    describe(found, clock(), out)?;
    let member = new_member(arguments.peer_address.as_deref(), found)?;
    confirm(found, arguments.confirm.as_deref(), ask, out)?;
    // Read again: an answer may take hours, in which the others may have gone on.
    let now_ms = clock();
    Ok(NewCluster {
        member,
        // The brand is that of the data.
        seed: run::seed(&ORCH)?,
        directory: format!("{:016x}", run::incarnation()),
        now_ms,
        beginning: reseed::beginning(origin, now_ms, arguments.revision_floor),
    })
}

fn new_member(address: Option<&str>, found: &Found) -> Result<Peer, ReseedError> {
    match (address, &found.member) {
        (Some(address), _) => {
            let (id, name) = (orch_raft::member::node_id(&found.name), found.name.clone());
            Ok(Peer { id, name, address: address.into() })
        }
        (None, Some(member)) => Ok(member.clone()),
        (None, None) => Err(ReseedError::NoAddress(found.name.clone())),
    }
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
    writeln!(out, "now         {}, by this machine's clock", date(now_ms))?;
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
    )?;
    let versions = match reseed::elapsed_ms(found.time_ms, now_ms) {
        Some(_) => {
            "Versions of the new cluster begin beyond all that the old one can have given out since its last write. If one of the\n\
             two times above is wrong, give a version beyond all that clients have seen with --revision-floor."
        }
        None => {
            "The time of the last write is unknown, or later than this machine's clock shows. It counts as long ago: versions of the\n\
             new cluster begin some hundred million million further on, unless --revision-floor is higher yet."
        }
    };
    writeln!(out, "\n{versions}")
}

/// A time, and how long ago that is.
fn moment(time_ms: u64, now_ms: u64) -> String {
    match reseed::elapsed_ms(time_ms, now_ms) {
        Some(elapsed_ms) => format!("{}, {} s ago", date(time_ms), elapsed_ms / 1000),
        None if time_ms == 0 => date(time_ms),
        None => format!("{}, which is later than now", date(time_ms)),
    }
}

fn confirm(
    found: &Found,
    given: Option<&str>,
    ask: impl FnOnce() -> io::Result<Option<String>>,
    out: &mut impl Write,
) -> Result<(), RecoveryError> {
    let question = "To go on, type the id of the cluster that is given up";
    let given = operator::word(given, question, ask, out)?;
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
        writeln!(
            out,
            "the old store is {}: it holds every secret that the new one does, in clear or under the same keys; delete it once\n\
             you need it no more",
            kept.display()
        )?;
    }
    writeln!(out, "\nnext:\n  start {} with the flags it had; it leads the new cluster alone", found.name)?;
    for other in &found.others {
        writeln!(out, "  on the machine of {}: empty its data directory, then", other.name)?;
        write!(out, "{}", operator::joining(&other.name, &other.address, &member.address, "    "))?;
    }
    writeln!(out, "  {CLIENTS_LIST_ANEW}")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
    fn writes_that_may_be_lost_are_told_before_anything_is_asked() {
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
    fn a_time_that_cannot_be_believed_is_called_so() {
        let told = |time_ms, now_ms| {
            let mut out = Vec::new();
            describe(&Found { time_ms, ..found() }, now_ms, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (known, unknown, later) = (told(5000, 70_000), told(0, 70_000), told(5_000_000, 70_000));
        assert!(known.contains("1970-01-01T00:00:05Z, 65 s ago") && !known.contains("long ago"), "{known}");
        assert!(
            unknown.contains("last write  unknown") && unknown.contains("It counts as long ago"),
            "{unknown}"
        );
        assert!(
            later.contains("which is later than now") && later.contains("It counts as long ago"),
            "{later}"
        );
    }

    #[test]
    fn the_time_that_an_answer_takes_counts() {
        let origin = Origin { cluster: "c-1".into(), revision: 70, time_ms: found().time_ms };
        let arguments = RecoverArgs {
            data_dir: PathBuf::new(),
            confirm: None,
            peer_address: Some("a:1".into()),
            revision_floor: 0,
            encryption_provider_config: None,
        };
        let now_ms = Cell::new(origin.time_ms);
        let answer = || {
            now_ms.set(origin.time_ms + 3_600_000);
            Ok(Some("c-1".to_owned()))
        };
        let clock = || now_ms.get();
        let new = decide(&arguments, &found(), &origin, &clock, answer, &mut Vec::new()).unwrap();
        assert_eq!(new.beginning, reseed::beginning(&origin, origin.time_ms + 3_600_000, 0));
        assert_eq!((new.now_ms, &*new.member.address), (origin.time_ms + 3_600_000, "a:1"));

        let arguments = RecoverArgs { peer_address: None, ..arguments };
        let never = || panic!("asked without an address");
        let refused = decide(&arguments, &found(), &origin, &clock, never, &mut Vec::new()).err().unwrap();
        assert!(refused.to_string().contains("--peer-address"), "{refused}");
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
