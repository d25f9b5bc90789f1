//! The certificates of a directory as `orch certs init` lays it out, for one member.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::Check;
use crate::certs::{Layout, inspect, is_about_to_expire};
use crate::tls::{MaterialError, load_pair};

/// The next step for a pair that is no use.
const RENEWAL: &str = "orch certs renew --dir DIR, where the authorities' keys are";

/// The checks of the directory `dir` at `now`, for the member called `name` where that is given, which listens at `address`.
pub(super) fn checks(dir: &Path, (name, address): (Option<&str>, &str), now: OffsetDateTime) -> Vec<Check> {
    let mut check = Check::passed("certificates", dir.display().to_string());
    let layout = Layout::new(dir);
    if !layout.authority_certificate().is_file() {
        let message = format!("there is no {}", layout.authority_certificate().display());
        check.fault(message, "make the directory: orch certs init --dir DIR --member NAME=ADDRESS ...");
        return vec![check];
    }
    let members = names(&layout.members());
    let member = match (name, members.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, []) => {
            check.fault("it has no member's certificates", "orch certs add --dir DIR --member NAME=ADDRESS");
            return vec![check];
        }
        (None, many) => {
            check.looked_at += &format!(", of {}", many.join(", "));
            check.warn("it is not known which member's they are", "name the member with --name");
            return vec![check];
        }
    };
    check.looked_at += &format!(", member {member}");
    let files = layout.member(&member);
    if !layout.peer_authority_certificate().is_file() {
        let message = format!("there is no {}", layout.peer_authority_certificate().display());
        check.fault(
            message,
            "copy it from the directory that orch certs init made: peers would not be believed",
        );
    }
    for path in [layout.authority_certificate(), layout.peer_authority_certificate()] {
        if path.is_file() {
            certificate(&mut check, &path, now, "orch certs rotate-ca --dir DIR begin");
        }
    }
    for path in [&files.server_certificate, &files.peer_certificate] {
        certificate(&mut check, path, now, RENEWAL);
    }
    host(&mut check, &files.server_certificate, address);
    for (certificate, key) in
        [(&files.server_certificate, &files.server_key), (&files.peer_certificate, &files.peer_key)]
    {
        pair(&mut check, certificate, key, now);
    }
    for path in [files.server_key, files.peer_key, layout.token_key()] {
        key(&mut check, &path);
    }
    vec![check]
}

/// Whether the server's certificate is for the address that it listens at. Where it listens at all of them, clients decide.
fn host(check: &mut Check, path: &Path, address: &str) {
    let (bare, host) = (bare(address), Host::of(address));
    let is_any = matches!(host, Host::Address(address) if address.is_unspecified());
    let found = inspect(path).unwrap_or_default();
    let Some(own) = found.first().filter(|_| !is_any) else { return };
    let hosts: Vec<Host> = own.hosts.iter().map(|host| Host::of(host)).collect();
    if !is_served_by(&hosts, &host, resolved) {
        let message = format!(
            "{} is not for {bare}, where it is served, but for {}",
            path.display(),
            own.hosts.join(", ")
        );
        let next = "remove the member's directory there and make it anew with that address: orch certs add --dir DIR --member \
                    NAME=ADDRESS,...; or choose another --bind-address";
        check.warn(message, next);
    }
}

/// A host as an address or a name, whatever its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// An IPv4 address in the form of IPv6 is that IPv4 address, since the system takes both for the same.
    Address(IpAddr),
    /// In lower case, without the dot at its end.
    Name(String),
}

impl Host {
    /// Reads an address, in brackets or without, or a name.
    pub(super) fn of(text: &str) -> Host {
        match bare(text).parse::<IpAddr>() {
            Ok(address) => Host::Address(address.to_canonical()),
            Err(_) => Host::Name(text.trim_end_matches('.').to_ascii_lowercase()),
        }
    }

    /// Whether a certificate for this host is one for `other`. The first label of a name in a certificate may be `*`.
    fn covers(&self, other: &Host) -> bool {
        let (Host::Name(own), Host::Name(other)) = (self, other) else { return self == other };
        let has_end = |end: &str| other.split_once('.').is_some_and(|(_, rest)| rest == end);
        own == other || own.strip_prefix("*.").is_some_and(has_end)
    }
}

/// Whether a certificate for `hosts` is one for `host`: itself or, for a name, every address that it stands for, where a client may use
/// either.
pub(super) fn is_served_by(hosts: &[Host], host: &Host, resolve: impl FnOnce(&str) -> Vec<IpAddr>) -> bool {
    // few: the names of one member.
    let has = |host: &Host| hosts.iter().any(|own| own.covers(host));
    match host {
        Host::Address(_) => has(host),
        Host::Name(name) if !has(host) => {
            let addresses = resolve(name);
            // few: the addresses of one name.
            !addresses.is_empty()
                && addresses.iter().all(|address| has(&Host::Address(address.to_canonical())))
        }
        Host::Name(_) => true,
    }
}

/// The addresses of a name; none where it has none, or the resolver does not answer.
fn resolved(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map(|found| found.map(|found| found.ip()).collect()).unwrap_or_default()
}

/// An address without its brackets.
pub(super) fn bare(address: &str) -> &str {
    address.strip_prefix('[').and_then(|address| address.strip_suffix(']')).unwrap_or(address)
}

/// Whether a key is one, and that of its certificate. A file that cannot be read is told elsewhere.
fn pair(check: &mut Check, certificate: &Path, key: &Path, now: OffsetDateTime) {
    match load_pair(certificate, key, now) {
        Err(error @ MaterialError::KeyMismatch { .. }) => check.fault(error.to_string(), RENEWAL),
        Err(error @ (MaterialError::Malformed { .. } | MaterialError::Empty { .. }))
            if error.path() == Some(key) =>
        {
            check.fault(error.to_string(), RENEWAL);
        }
        _ => {}
    }
}

/// The names of the directories in `path`, in order.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn certificate(check: &mut Check, path: &Path, now: OffsetDateTime, renewal: &str) {
    let found = match inspect(path) {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => return check.fault(format!("{} holds no certificate", path.display()), renewal),
        Err(error) => return check.fault(error.to_string(), renewal),
    };
    for facts in found {
        let shown = path.display();
        if facts.not_after < now {
            check.fault(format!("{shown} has expired, {}", facts.not_after.date()), renewal);
        } else if facts.not_before > now {
            let message = format!("{shown} is not valid before {}", facts.not_before);
            check
                .fault(message, "set this machine's clock, or that of the machine that made the certificate");
        } else if is_about_to_expire(&facts, now) {
            check.warn(format!("{shown} expires soon, {}", facts.not_after.date()), renewal);
        }
    }
}

fn key(check: &mut Check, path: &PathBuf) {
    match fs::metadata(path) {
        Ok(metadata) => {
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                let message = format!("others than its owner may read {} (mode {mode:o})", path.display());
                check.warn(message, format!("chmod 600 {}", path.display()));
            } else if let Err(error) = fs::File::open(path) {
                let message = format!("{} cannot be read: {error}", path.display());
                check.fault(message, "give it to the user that the member runs as");
            }
        }
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            check.fault(
                message,
                "copy the member's directory, with its keys, from where orch certs init made it",
            );
        }
    }
}
