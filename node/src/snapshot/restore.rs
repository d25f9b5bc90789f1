//! `orch snapshot restore`: a new cluster of one member from a snapshot.
//!
//! Owns the checks of the directory and what an operator is told. The reader of the archive proves the file, and
//! `orch_raft::member::reseed` makes the store: nothing of it is at its place before both have ended. Once the directory is marked as
//! this restore's, the cluster's identity comes first, and goes again where the rest fails: a store without it would be started
//! with other keys.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use orch_proto::Brand;
use orch_proto::brand::ORCH;
use orch_raft::archive::{Header, KeyBundle};
use orch_raft::disk::rocks::layout::{BEFORE, DRAFT, MARK, STORE};
use orch_raft::member::node_id;
use orch_raft::member::reseed::{self, Made, NewCluster, Origin, ReseedError};
use orch_raft::transport::Peer;
use time::OffsetDateTime;

use super::key_files::{Placed, place};
use super::source::SnapshotFile;
use crate::cli::{RestoreArgs, check_member};
use crate::operator::{self, CLIENTS_LIST_ANEW};
use crate::recovery::keys;
use crate::run;

/// Names in a directory that counts as empty: what an interrupted restore leaves, and what systems put there.
const EMPTY: [&str; 5] = [MARK, DRAFT, "certs", ".certs.restoring", "lost+found"];
/// Names of which one at least is in the data directory of a node that has run.
const OURS: [&str; 4] = ["pki", "brand", STORE, BEFORE];

/// Restores the snapshot that `arguments` name into their data directory. Tells `out`.
pub(super) fn restore(arguments: &RestoreArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let data_dir = &arguments.data_dir;
    require_ours(data_dir)?;
    let file = SnapshotFile::new(&arguments.file, &arguments.identity)?;
    let (reader, _) = file.open()?;
    let (header, bundle) = (reader.header().clone(), reader.keys().cloned());
    let member = member(arguments, &header)?;
    let now_ms = (run::clock())();
    let (cluster, revision, time_ms) = (header.cluster.clone(), header.revision.0, header.time_ms);
    let origin = Origin { cluster, revision, time_ms };
    let new = NewCluster {
        member: member.clone(),
        // The brand is that of the objects.
        seed: run::seed(&ORCH)?,
        directory: format!("{:016x}", run::incarnation()),
        now_ms,
        beginning: reseed::beginning(&origin, now_ms, arguments.revision_floor),
    };
    let age = match reseed::elapsed_ms(time_ms, now_ms) {
        Some(age_ms) => format!("{} s ago", age_ms / 1000),
        None => "at an unknown time".to_owned(),
    };
    writeln!(out, "restoring cluster {} as of revision {revision}, {age} ...", header.cluster)?;
    let mut placed = None;
    let prepare = || {
        // A directory whose store was moved away may name another brand than the snapshot.
        run::brand_of_data(data_dir, Brand::named(&header.brand))?;
        placed = place_keys(arguments, bundle.as_ref(), &member, &header)?;
        let own = placed.as_ref().and_then(|placed: &Placed| placed.encryption.as_deref());
        anyhow::Ok(keys(arguments.encryption_provider_config.as_deref().or(own))?)
    };
    let made = match reseed::restore(data_dir, prepare, &origin, &new, reader) {
        Err(ReseedError::Unprepared(fault)) => return Err(anyhow::Error::from_boxed(fault)),
        Err(ReseedError::Source(fault)) => {
            let fault = anyhow::Error::from_boxed(fault);
            return Err(fault.context(format!("{}: nothing was restored", file.path().display())));
        }
        made => made.with_context(|| format!("{}: nothing was restored", data_dir.display()))?,
    };
    let placed = placed.map(Placed::keep);
    tell_next(&header, &made, &member, &start(arguments, placed.as_ref(), &member), out).with_context(|| {
        let data_dir = data_dir.display();
        format!("cluster {} was made in {data_dir}, and what to do next cannot be written", made.cluster)
    })
}

/// Places the cluster's identity, if the snapshot has it and it is wanted.
fn place_keys(
    arguments: &RestoreArgs,
    keys: Option<&KeyBundle>,
    member: &Peer,
    header: &Header,
) -> anyhow::Result<Option<Placed>> {
    let Some(bundle) = keys.filter(|_| !arguments.keys.without_identity) else { return Ok(None) };
    let brand = Brand::named(&header.brand).with_context(|| {
        format!("this program does not know the brand {:?}; use a newer one", header.brand)
    })?;
    let of_member = (&*member.name, run::host_of(&member.address));
    place(bundle, &arguments.keys, &arguments.data_dir, of_member, brand, OffsetDateTime::now_utc()).map(Some)
}

/// The command that starts the member, and what to mind of its flags.
fn start(arguments: &RestoreArgs, placed: Option<&Placed>, member: &Peer) -> String {
    let Peer { name, address, .. } = member;
    let Some(Placed { dir, encryption, further, .. }) = placed else {
        return format!("orch serve --name {name} --initial-cluster {name}={address} ...");
    };
    let (data, certs) = (arguments.data_dir.display(), dir.display());
    let mut command = format!(
        "orch serve --name {name} --data-dir {data} --certs-dir {certs} --initial-cluster {name}={address}"
    );
    let config = arguments.encryption_provider_config.as_ref().or(encryption.as_ref());
    if let Some(config) = config {
        command.push_str(&format!(" --encryption-provider-config {}", config.display()));
    }
    if !further.is_empty() {
        command.push_str(&format!(
            "\n  with the flags that named these files before, which are in {certs} now: {}",
            further.join(", ")
        ));
    }
    command.push_str(&format!("\n  its administrator: {}", dir.join("admin.conf").display()));
    command
}

/// The member that the flags name, by default the one that the snapshot is from.
fn member(arguments: &RestoreArgs, header: &Header) -> anyhow::Result<Peer> {
    let name = arguments.name.as_ref().unwrap_or(&header.member);
    let known = header.members.iter().find(|member| member.name == *name);
    let address = arguments.peer_address.as_ref().or(known.map(|member| &member.address));
    let address = address.with_context(|| {
        format!("the snapshot has no member {name}: give its peer address with --peer-address HOST:PORT")
    })?;
    // A snapshot has no author: whoever knows the public key can write one, and the name becomes a part of paths.
    check_member(name, address).map_err(|reason| {
        anyhow::anyhow!(
            "the snapshot names a member that no cluster has: {reason}; give --name and --peer-address"
        )
    })?;
    Ok(Peer { id: node_id(name), name: name.as_str().into(), address: address.as_str().into() })
}

/// Refuses a directory that holds something else than a node's data.
fn require_ours(data_dir: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", data_dir.display());
    let entries = match fs::read_dir(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(cannot)?,
    };
    let mut foreign = None;
    for entry in entries {
        let name = entry.with_context(cannot)?.file_name().to_string_lossy().into_owned();
        if OURS.contains(&&*name) {
            return Ok(());
        }
        foreign = foreign.or(Some(name).filter(|name| !EMPTY.contains(&&**name)));
    }
    if let Some(name) = foreign {
        let dir = data_dir.display();
        bail!("{dir} holds {name} and no data of this program: give an empty directory with --data-dir");
    }
    Ok(())
}

fn tell_next(
    header: &Header,
    made: &Made,
    member: &Peer,
    start: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let (objects, cluster, beginning, name) = (made.objects, &made.cluster, made.beginning, &member.name);
    writeln!(
        out,
        "made cluster {cluster} of one, {name}: {objects} objects, beginning at revision {beginning}"
    )?;
    writeln!(
        out,
        "\nnext:\n  start it: {start}\n  \
         other members join it as new ones, with empty data directories:",
    )?;
    write!(out, "{}", operator::joining("NAME", "HOST:PORT", &member.address, "    "))?;
    let names: Vec<&str> = header.members.iter().map(|member| &*member.name).collect();
    writeln!(
        out,
        "  members of the old cluster that still run ({}) serve clients beside this one: stop them\n  \
         {CLIENTS_LIST_ANEW}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use orch_raft::archive::MemberEntry;

    use super::*;
    use crate::cli::{IdentityArgs, KeyPlaceArgs};

    #[test]
    fn a_directory_of_something_else_is_refused() {
        let root = tempfile::tempdir().unwrap();
        require_ours(&root.path().join("absent")).unwrap();
        require_ours(root.path()).unwrap();
        for name in EMPTY {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        require_ours(root.path()).unwrap();
        fs::write(root.path().join("thesis.tex"), "x").unwrap();
        let told = require_ours(root.path()).unwrap_err().to_string();
        assert!(told.contains("holds thesis.tex") && told.contains("empty directory"), "{told}");
        fs::write(root.path().join("brand"), "orch\n").unwrap();
        require_ours(root.path()).unwrap();
    }

    #[test]
    fn the_member_is_the_one_named_or_the_one_the_snapshot_is_from() {
        let entry = |name: &str, address: &str| MemberEntry {
            name: name.into(),
            address: address.into(),
            voter: true,
        };
        let members = vec![entry("a", "10.0.0.1:1"), entry("b", "10.0.0.2:1")];
        let header = Header { member: "b".into(), members, ..Header::default() };
        let with = |name: Option<&str>, address: Option<&str>| {
            let arguments = RestoreArgs {
                file: "f".into(),
                identity: IdentityArgs::default(),
                data_dir: "d".into(),
                name: name.map(str::to_owned),
                peer_address: address.map(str::to_owned),
                encryption_provider_config: None,
                revision_floor: 0,
                keys: KeyPlaceArgs {
                    certs_dir: None,
                    host: Vec::new(),
                    secure_port: 6443,
                    without_identity: false,
                },
            };
            let member = member(&arguments, &header).map_err(|error| error.to_string());
            member.map(|peer| (peer.name.to_string(), peer.address.to_string()))
        };
        assert_eq!(with(None, None), Ok(("b".into(), "10.0.0.2:1".into())));
        assert_eq!(with(Some("a"), None), Ok(("a".into(), "10.0.0.1:1".into())));
        assert_eq!(with(Some("z"), Some("h:2")), Ok(("z".into(), "h:2".into())));
        assert!(with(Some("z"), None).unwrap_err().contains("--peer-address"));
    }
}
