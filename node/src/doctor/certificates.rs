//! The certificates of a directory as `orch certs init` lays it out, for one member.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::Check;
use crate::certs::{Layout, inspect, is_about_to_expire};

/// The checks of the directory `dir` at `now`, for the member called `name` where that is given.
pub(super) fn checks(dir: &Path, name: Option<&str>, now: OffsetDateTime) -> Vec<Check> {
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
    for path in [layout.authority_certificate(), layout.peer_authority_certificate()] {
        certificate(&mut check, &path, now, "orch certs rotate-ca --dir DIR begin");
    }
    for path in [files.server_certificate, files.peer_certificate] {
        certificate(&mut check, &path, now, "orch certs renew --dir DIR, where the authorities' keys are");
    }
    for path in [files.server_key, files.peer_key, layout.token_key()] {
        key(&mut check, &path);
    }
    vec![check]
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
