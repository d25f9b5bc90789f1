//! The flags of scheduled backups, resolved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_serving::Causes;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use rusty_s3::UrlStyle;

use super::folder::Folder;
use super::health::BackupHealth;
use super::names::Names;
use crate::cli::{BackupArgs, Schedule};
use crate::egress::Trust;
use crate::object_store::{ObjectStore, Options, Place};
use crate::run::RunError;
use crate::snapshot::Recipient;

/// When and where backups are made.
#[derive(Clone, Debug)]
pub struct BackupPlan {
    schedule: Schedule,
    folder: PathBuf,
    member: String,
    keep: usize,
    recipients: Vec<Recipient>,
    bucket: Option<Arc<ObjectStore>>,
    health: BackupHealth,
}

/// A plan in a cluster, whose name is in those of the backups.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) schedule: Schedule,
    pub(super) folder: Folder,
    pub(super) names: Names,
    pub(super) keep: usize,
    pub(super) recipients: Vec<Recipient>,
    /// Where they are copied to.
    pub(super) bucket: Option<Arc<ObjectStore>>,
    /// Results by target.
    pub(super) health: BackupHealth,
}

impl BackupPlan {
    /// Results by target.
    pub(in crate::run) fn health(&self) -> BackupHealth {
        self.health.clone()
    }

    /// The plan for a member of `cluster`.
    pub(super) fn of_cluster(self, cluster: &str) -> Job {
        let BackupPlan { schedule, folder, member, keep, recipients, bucket, health } = self;
        let names = Names::of(&member, cluster);
        let folder = Folder::new(&folder, names.clone());
        Job { schedule, folder, names, keep, recipients, bucket, health }
    }
}

/// The plan of `arguments`, if they ask for backups.
pub(in crate::run) fn plan(arguments: &BackupArgs, member: &str) -> Result<Option<BackupPlan>, RunError> {
    for (flag, file) in
        [("credentials", &arguments.backup_s3_credentials_file), ("ca", &arguments.backup_s3_ca_file)]
    {
        if let (None, Some(_)) = (&arguments.backup_s3, file) {
            return Err(RunError::Flags(format!("--backup-s3-{flag}-file goes with --backup-s3")));
        }
    }
    let (Some(schedule), Some(folder)) = (&arguments.backup_schedule, &arguments.backup_dir) else {
        return Ok(None);
    };
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(RunError::Flags(format!("--backup-dir: {folder} is not a folder; make it first")));
    }
    // Without the text: it may be the private key, given by mistake.
    let parse = |(place, key): (usize, &String)| {
        let parsed = Recipient::parse(key);
        parsed.map_err(|error| RunError::Flags(format!("--backup-encrypt-to, key {}: {error}", place + 1)))
    };
    let recipients = arguments.backup_encrypt_to.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    let bucket = arguments.backup_s3.as_ref().map(|place| bucket(place, arguments)).transpose()?;
    Ok(Some(BackupPlan {
        schedule: schedule.clone(),
        folder: folder.clone(),
        member: member.to_owned(),
        keep: usize::from(arguments.backup_keep),
        recipients,
        bucket: bucket.map(Arc::new),
        health: BackupHealth::default(),
    }))
}

/// The bucket that `arguments` name.
fn bucket(place: &Place, arguments: &BackupArgs) -> Result<ObjectStore, RunError> {
    let options = Options {
        place: place.clone(),
        endpoint: arguments.backup_s3_endpoint.clone(),
        region: arguments.backup_s3_region.clone(),
        style: if arguments.backup_s3_path_style { UrlStyle::Path } else { UrlStyle::VirtualHost },
        access_file: arguments.backup_s3_credentials_file.clone(),
        trust: trust(arguments.backup_s3_ca_file.as_deref())?,
    };
    ObjectStore::new(options).map_err(|error| {
        RunError::Flags(format!("--backup-s3 {place} and its flags --backup-s3-...: {}", Causes(&error)))
    })
}

/// The authorities in the file at `path`, or those of the machine.
fn trust(path: Option<&Path>) -> Result<Trust, RunError> {
    const FLAG: &str = "backup-s3-ca-file";
    let authorities = match path {
        None => None,
        Some(path) => {
            let unreadable = |source| RunError::File { flag: FLAG, path: path.to_owned(), source };
            Some(files::read(path, MATERIAL_BYTES_MAX).map_err(unreadable)?)
        }
    };
    let trust = Trust::new(authorities.as_deref(), None);
    trust.map_err(|error| RunError::Flags(format!("--{FLAG}: {}", Causes(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, parse};

    /// The plan of `orch serve` with `flags`.
    fn planned(flags: &[String]) -> Result<Option<BackupPlan>, String> {
        let words = ["orch".to_owned(), "serve".to_owned()].into_iter().chain(flags.iter().cloned());
        let parsed = parse(words.map(Into::into).collect()).map_err(|error| error.to_string())?;
        let Cli { command: Command::Serve(arguments) } = parsed else { panic!("another command") };
        plan(&arguments.shared.backup, "a").map_err(|error| error.to_string())
    }

    fn refused(flags: &[String], expected: &str) {
        let told = planned(flags).expect_err(expected);
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("s3cret") && !told.contains("nonsense"), "{told}");
    }

    #[test]
    fn a_folder_that_is_not_there_and_a_bad_key_are_refused_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let schedule = "--backup-schedule=30 2 * * *".to_owned();
        let dir = |path: &Path| format!("--backup-dir={}", path.display());
        refused(&[schedule.clone(), dir(&folder.path().join("none"))], "make it first");
        refused(std::slice::from_ref(&schedule), "--backup-dir");
        let key = "--backup-encrypt-to=age1nonsense".to_owned();
        refused(&[schedule.clone(), dir(folder.path()), key], "not a public key");
        refused(&["--backup-schedule=61 * * * *".to_owned(), dir(folder.path())], "at character 1");
        assert!(planned(&[schedule, dir(folder.path())]).unwrap().is_some());
        assert!(planned(&[]).unwrap().is_none());
    }

    #[test]
    fn a_bucket_needs_an_access_key_and_an_endpoint_that_fits() {
        let folder = tempfile::tempdir().unwrap();
        let access = folder.path().join("access");
        std::fs::write(&access, "aws_access_key_id = AK\naws_secret_access_key = s3cret\n").unwrap();
        let authority = crate::certs::Authority::create("ca", time::OffsetDateTime::now_utc()).unwrap();
        let ca = folder.path().join("ca.crt");
        std::fs::write(&ca, &authority.pair.certificate).unwrap();
        let common = [
            "--backup-schedule=6h".to_owned(),
            format!("--backup-dir={}", folder.path().display()),
            "--backup-s3=s3://backups/orch".to_owned(),
            format!("--backup-s3-ca-file={}", ca.display()),
        ];
        let access = format!("--backup-s3-credentials-file={}", access.display());
        let with = |flags: &[&str]| -> Vec<String> {
            common.iter().cloned().chain(flags.iter().map(|flag| (*flag).to_owned())).collect()
        };
        assert!(planned(&with(&[&access])).unwrap().unwrap().bucket.is_some());
        let by_path = ["--backup-s3-endpoint=http://127.0.0.1:9000", "--backup-s3-path-style"];
        assert!(planned(&with(&[&access, by_path[0], by_path[1]])).is_ok());
        refused(&with(&[&access, by_path[0]]), "ask for it by path");
        refused(&with(&[&access, "--backup-s3-endpoint=http://s3.example.com"]), "plain HTTP");
        refused(&with(&[&access, "--backup-s3-endpoint=https://s3.example.com/x"]), "is no URL such as");
        refused(&with(&[&access, "--backup-s3-endpoint=s3.example.com"]), "is no URL such as");
        refused(&with(&[&access, "--backup-s3-region=a/b"]), "the region");
        refused(&with(&["--backup-s3-credentials-file=/nowhere"]), "cannot read");
        refused(std::slice::from_ref(&access), "goes with --backup-s3");
        std::fs::write(folder.path().join("access"), "s3cret\n").unwrap();
        refused(&with(&[&access]), "line 1");
    }
}
