//! Watches when the certificates of a node end, and how old the files of its token keys are.
//!
//! Owns the rule that a renewal is due, the warnings in the log (at the start and once a day), the gauges, and the figures that
//! `/orch/v1/cluster` shows. It tells what the files say: whether a renewed one was taken up is in the log of the reload. No
//! path is a label, since paths may tell of secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration as Wait, SystemTime, UNIX_EPOCH};

use metrics::gauge;
use orch_serving::Causes;
use orch_serving::stamps::{Stamp, stamps};
use parking_lot::Mutex;
use time::{Duration, OffsetDateTime};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::authority::CertsError;
use super::configured::{Configured, ConfiguredCertificate, ConfiguredCertificates};
use super::inspect::{Facts, inspect, inspect_pem};
use super::uses::{CertificateUse, remedy};
use crate::token_keys::KeyFiles;

/// Interval of looks at the files' modification times, as with reloads. Only changed files are read.
const LOOK_EVERY: Wait = Wait::from_secs(30);
/// Looks between two warnings: a day.
const LOOKS_A_WARNING: u32 = 2880;

/// A renewal is due when less than this is left, or less than a fifth of the validity: time to plan it.
const DUE_BEFORE: Duration = Duration::days(30);
const DUE_DIVISOR: i32 = 5;
/// It is urgent when less than this is left, or less than a twentieth of the validity: somebody must act.
const URGENT_BEFORE: Duration = Duration::days(7);
const URGENT_DIVISOR: i32 = 20;

const EXPIRATION: &str = "orch_certificate_expiration_timestamp_seconds";
const NOT_BEFORE: &str = "orch_certificate_not_before_timestamp_seconds";
const KEY_MODIFIED: &str = "orch_service_account_key_file_modified_timestamp_seconds";

/// Whether a certificate has to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The certificate is not due for renewal.
    NotDue,
    /// A renewal is due: less than 30 days are left, or less than a fifth of the validity.
    Due,
    /// Less than 7 days are left, or less than a twentieth of the validity, or it has ended.
    Urgent,
}

/// The validity of the certificate of one use; of several the one that ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Its use.
    pub used_as: CertificateUse,
    /// Start of its validity.
    pub not_before: OffsetDateTime,
    /// End of its validity.
    pub not_after: OffsetDateTime,
}

impl Expiry {
    /// Whether it has to be renewed at `now`.
    pub fn urgency(&self, now: OffsetDateTime) -> Urgency {
        urgency(self.not_before, self.not_after, now)
    }
}

/// Whether a renewal of the certificate is due at `now`, or late.
pub fn is_about_to_expire(facts: &Facts, now: OffsetDateTime) -> bool {
    urgency(facts.not_before, facts.not_after, now) != Urgency::NotDue
}

fn urgency(not_before: OffsetDateTime, not_after: OffsetDateTime, now: OffsetDateTime) -> Urgency {
    let (left, whole) = (not_after - now, not_after - not_before);
    if left < URGENT_BEFORE.min(whole / URGENT_DIVISOR) {
        Urgency::Urgent
    } else if left < DUE_BEFORE.min(whole / DUE_DIVISOR) {
        Urgency::Due
    } else {
        Urgency::NotDue
    }
}

/// The files that are watched.
#[derive(Clone, Debug, Default)]
pub struct WatchedFiles {
    /// Certificates with their uses; a use may have several files, and a file several uses.
    pub certificates: Vec<(CertificateUse, PathBuf)>,
    /// Certificates inside of configurations; `None` where there can be none.
    pub configured: Option<Arc<dyn ConfiguredCertificates>>,
    /// Keys of service account tokens.
    pub token_keys: KeyFiles,
}

impl WatchedFiles {
    /// Those whose paths are known without a look into any.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let certificates = self.certificates.iter().map(|(_, path)| path.clone());
        certificates.chain(self.token_keys.paths())
    }
}

/// The certificates of a node. Clones share what was seen.
#[derive(Clone, Debug, Default)]
pub struct Expiries {
    files: Arc<WatchedFiles>,
    seen: Arc<Mutex<Seen>>,
}

/// The result of the last look.
#[derive(Debug, Default)]
struct Seen {
    /// The files were read once.
    is_read: bool,
    /// Of each file that was read, its stamp of before; `None` where that is not known, so that it is read again.
    stamps: BTreeMap<PathBuf, Stamp>,
    expiries: Vec<Expiry>,
    /// Modification of the file of the key that signs tokens; `None` without one.
    signing_key: Option<SystemTime>,
}

impl Expiries {
    /// Those in `files`, at which nothing has looked yet.
    pub fn new(files: WatchedFiles) -> Expiries {
        Expiries { files: Arc::new(files), seen: Arc::default() }
    }

    /// As of the last look, the first to end first.
    pub fn all(&self) -> Vec<Expiry> {
        self.seen.lock().expiries.clone()
    }

    /// Modification time of the file of the key that signs service account tokens, as of the last look; `None` where none signs, or the
    /// file cannot be read.
    pub fn signing_key_modified(&self) -> Option<SystemTime> {
        self.seen.lock().signing_key
    }

    /// Looks at the files until `stopped`, and at once on SIGHUP.
    ///
    /// # Errors
    /// The signal cannot be taken.
    pub async fn follow(self, stopped: CancellationToken) -> std::io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        for look in (0..LOOKS_A_WARNING).cycle() {
            let (this, is_warning) = (self.clone(), look == 0);
            // Files are read on a thread that may wait for a disk.
            let looked = tokio::task::spawn_blocking(move || this.look(is_warning));
            if let Err(error) = looked.await {
                tracing::warn!(%error, "a look at the expiry of certificates failed");
            }
            tokio::select! {
                () = stopped.cancelled() => return Ok(()),
                _ = hangup.recv() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        Ok(())
    }

    /// Looks at the files once; `is_warning`: those whose renewal is due are logged.
    pub(crate) fn look(&self, is_warning: bool) {
        let mut paths: BTreeSet<PathBuf> = self.files.paths().collect();
        paths.extend(self.seen.lock().stamps.keys().cloned());
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let stamps: BTreeMap<PathBuf, Stamp> = paths.iter().cloned().zip(stamps(&paths)).collect();
        let is_first = !self.seen.lock().is_read;
        if stamps == self.seen.lock().stamps && !is_first && !is_warning {
            return;
        }
        let configured = self.files.configured.as_ref().map(|configured| configured.read());
        let Configured { files, certificates } = configured.unwrap_or_default();
        let expiries = expiries(&self.files.certificates, &certificates, is_warning);
        let uses = |of: &[Expiry]| of.iter().map(|expiry| expiry.used_as).collect::<BTreeSet<_>>();
        for gone in uses(&self.all()).difference(&uses(&expiries)) {
            // Equal to nothing, so that no alert goes on for a file that was taken away.
            gauge!(EXPIRATION, "use" => gone.name()).set(f64::NAN);
            gauge!(NOT_BEFORE, "use" => gone.name()).set(f64::NAN);
        }
        for Expiry { used_as, not_before, not_after } in &expiries {
            gauge!(EXPIRATION, "use" => used_as.name()).set(seconds(*not_after));
            gauge!(NOT_BEFORE, "use" => used_as.name()).set(seconds(*not_before));
        }
        let KeyFiles { signing, verifying } = &self.files.token_keys;
        let signing_key = show_oldest_key("signing", signing.as_slice());
        show_oldest_key("verifying", verifying);
        let of_before = |path: PathBuf| {
            let stamp = stamps.get(&path).copied().flatten();
            (path, stamp)
        };
        let stamps = self.files.paths().chain(files).map(of_before).collect();
        *self.seen.lock() = Seen { is_read: true, stamps, expiries, signing_key };
    }
}

/// Reads the certificates in `files`, and those in configurations: of each use the one that ends first; sorted by their ends. Logs
/// those whose renewal is due if `is_warning`, and what cannot be read.
fn expiries(
    files: &[(CertificateUse, PathBuf)],
    configured: &[ConfiguredCertificate],
    is_warning: bool,
) -> Vec<Expiry> {
    let now = OffsetDateTime::now_utc();
    let mut read: BTreeMap<&Path, Vec<Facts>> = BTreeMap::new();
    let mut first = FirstToEnd::default();
    for (used_as, path) in files {
        // A client's file is there on the operator's machine alone, and where one machine has everything.
        if matches!(used_as, CertificateUse::Client(_)) && !path.exists() {
            continue;
        }
        let facts = read.entry(path).or_insert_with(|| told(inspect(path), *used_as, is_warning, now));
        first.add(*used_as, facts);
    }
    for ConfiguredCertificate { used_as, path, pem } in configured {
        first.add(*used_as, &told(inspect_pem(path, pem), *used_as, is_warning, now));
    }
    let mut all: Vec<Expiry> = first.0.into_values().collect();
    all.sort_by_key(|expiry| expiry.not_after);
    all
}

/// Of each use the certificate that ends first.
#[derive(Default)]
struct FirstToEnd(BTreeMap<CertificateUse, Expiry>);

impl FirstToEnd {
    fn add(&mut self, used_as: CertificateUse, facts: &[Facts]) {
        for Facts { not_before, not_after, .. } in facts {
            let found = Expiry { used_as, not_before: *not_before, not_after: *not_after };
            let earliest = self.0.entry(used_as).or_insert(found);
            if found.not_after < earliest.not_after {
                *earliest = found;
            }
        }
    }
}

/// The certificates that were read, with their warnings; none if they cannot be read.
fn told(
    read: Result<Vec<Facts>, CertsError>,
    used_as: CertificateUse,
    is_warning: bool,
    now: OffsetDateTime,
) -> Vec<Facts> {
    match read {
        Ok(facts) => {
            for facts in facts.iter().filter(|_| is_warning) {
                warn(facts, used_as, now);
            }
            facts
        }
        Err(error) => {
            tracing::warn!(error = %Causes(&error), "cannot tell when a certificate expires");
            Vec::new()
        }
    }
}

fn warn(facts: &Facts, used_as: CertificateUse, now: OffsetDateTime) {
    let (file, subject, expires, used_as) =
        (facts.path.display(), &facts.subject, facts.not_after, used_as.name());
    let (days, remedy) = ((facts.not_after - now).whole_days(), remedy(used_as));
    match urgency(facts.not_before, facts.not_after, now) {
        Urgency::NotDue => {}
        Urgency::Due => {
            tracing::warn!(used_as, %file, %subject, %expires, days, "a certificate expires soon: {remedy}");
        }
        Urgency::Urgent => {
            tracing::error!(used_as, %file, %subject, %expires, days, "a certificate is about to expire or has expired: {remedy}");
        }
    }
}

/// Sets the gauge of token keys to the oldest of `paths`, and returns its time. A file that cannot be read is left out: the reload of the
/// keys says so.
fn show_oldest_key(key: &'static str, paths: &[PathBuf]) -> Option<SystemTime> {
    let modified = |path: &PathBuf| std::fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let oldest = paths.iter().filter_map(modified).min()?;
    gauge!(KEY_MODIFIED, "use" => key).set(seconds_of(oldest));
    Some(oldest)
}

fn seconds(time: OffsetDateTime) -> f64 {
    (time - OffsetDateTime::UNIX_EPOCH).as_seconds_f64()
}

fn seconds_of(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::super::{Client, Webhook};
    use super::*;

    #[test]
    fn renewals_become_due_a_month_or_a_fifth_ahead_and_urgent_a_week_or_a_twentieth() {
        let start = OffsetDateTime::UNIX_EPOCH;
        let (year, day) = (Duration::days(365), Duration::days(1));
        for (whole, left, expected) in [
            (year, Duration::days(31), Urgency::NotDue),
            (year, Duration::days(30), Urgency::NotDue),
            (year, Duration::days(29), Urgency::Due),
            (year, Duration::days(8), Urgency::Due),
            (year, Duration::days(6), Urgency::Urgent),
            (year, -day, Urgency::Urgent),
            (day, Duration::hours(5), Urgency::NotDue),
            (day, Duration::hours(4), Urgency::Due),
            (day, Duration::hours(1), Urgency::Urgent),
            (day, -Duration::SECOND, Urgency::Urgent),
        ] {
            assert_eq!(urgency(start, start + whole, start + whole - left), expected, "{left} of {whole}");
        }
    }

    #[test]
    fn each_use_has_the_certificate_that_ends_first_and_a_file_that_is_gone_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let now = OffsetDateTime::now_utc();
        let write = |name: &str, made: &[Duration]| -> PathBuf {
            let path = directory.path().join(name);
            let pem = made
                .iter()
                .map(|age| super::super::Authority::create("x", now - *age).unwrap().pair.certificate);
            std::fs::write(&path, pem.collect::<String>()).unwrap();
            path
        };
        let bundle = write("ca.crt", &[Duration::ZERO, Duration::days(100)]);
        let admin = write("admin.crt", &[Duration::days(50)]);
        let used = [CertificateUse::ClientAuthority, CertificateUse::PodAuthority];
        let mut certificates: Vec<_> = used.into_iter().map(|used_as| (used_as, bundle.clone())).collect();
        certificates.push((CertificateUse::Client(Client::Admin), admin.clone()));
        certificates.push((CertificateUse::Client(Client::Scheduler), directory.path().join("none.crt")));
        let watched = Expiries::new(WatchedFiles { certificates, ..WatchedFiles::default() });
        watched.look(false);
        let shown = || -> Vec<(&str, i64)> {
            let days = |expiry: &Expiry| (expiry.not_after - now).whole_days();
            watched.all().iter().map(|expiry| (expiry.used_as.name(), days(expiry))).collect()
        };
        assert_eq!(shown(), [("authority_client", 3549), ("authority_pod", 3549), ("client_admin", 3599)]);
        std::fs::remove_file(admin).unwrap();
        watched.look(false);
        assert_eq!(shown(), [("authority_client", 3549), ("authority_pod", 3549)]);
    }

    /// A configuration that names the file of its certificate in its only line.
    #[derive(Debug)]
    struct Naming(PathBuf);

    impl ConfiguredCertificates for Naming {
        fn read(&self) -> Configured {
            let named = PathBuf::from(std::fs::read_to_string(&self.0).unwrap());
            let used_as = CertificateUse::Webhook(Webhook::Audit);
            let pem = std::fs::read(&named).unwrap();
            let certificates = vec![ConfiguredCertificate { used_as, path: named.clone(), pem }];
            Configured { files: vec![self.0.clone(), named], certificates }
        }
    }

    #[test]
    fn certificates_of_a_configuration_are_followed_with_it_and_with_the_files_that_it_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let now = OffsetDateTime::now_utc();
        let write = |name: &str, age: i64| {
            let made = super::super::Authority::create("x", now - Duration::days(age)).unwrap();
            std::fs::write(path(name), made.pair.certificate).unwrap();
        };
        write("one.crt", 0);
        write("other.crt", 100);
        std::fs::write(path("config"), path("one.crt").to_str().unwrap()).unwrap();
        let configured: Option<Arc<dyn ConfiguredCertificates>> = Some(Arc::new(Naming(path("config"))));
        let watched = Expiries::new(WatchedFiles { configured, ..WatchedFiles::default() });
        let days = || -> Vec<i64> {
            watched.look(false);
            watched.all().iter().map(|expiry| (expiry.not_after - now).whole_days()).collect()
        };
        assert_eq!(days(), [3649]);
        assert_eq!(watched.all()[0].used_as.name(), "webhook_audit");
        assert_eq!(days(), [3649], "files that were not known before are read once more");
        // Longer than the first, so that the stamp differs under any clock.
        std::fs::write(path("config"), path("other.crt").to_str().unwrap()).unwrap();
        assert_eq!(days(), [3549]);
        days();
        let longer = std::fs::read_to_string(path("one.crt")).unwrap() + "\n";
        std::fs::write(path("other.crt"), longer).unwrap();
        assert_eq!(days(), [3649]);
    }

    #[test]
    fn the_signing_key_has_the_age_of_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sa.key");
        let token_keys = KeyFiles { signing: Some(path.clone()), ..KeyFiles::default() };
        let watched = Expiries::new(WatchedFiles { token_keys, ..WatchedFiles::default() });
        watched.look(false);
        assert_eq!(watched.signing_key_modified(), None, "a file that is not there has no age");
        let file = std::fs::File::create(&path).unwrap();
        let modified = UNIX_EPOCH + Wait::from_secs(1_000_000_000);
        file.set_modified(modified).unwrap();
        watched.look(false);
        assert_eq!(watched.signing_key_modified(), Some(modified));
    }
}
