//! The root of the container image, and processes in it.
//!
//! Owns a directory that `deploy/containers/root.sh` made, with the programs that were built with this test. A process gets a
//! mount namespace in which that directory is read-only, with its volumes mounted, and is confined to it as the image's user
//! without capabilities. Without root it keeps its own user: another one cannot be had then, and its capabilities are those of
//! a user namespace. Dropping a process kills and reaps it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::cluster::program;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PATIENCE, repository, tool};

/// The image's user and group.
pub(super) const USER: u32 = 65_532;

/// Directories and files that a container engine makes in a root.
const OF_ENGINE: [&str; 3] = ["proc", "dev", "sys"];
const HOSTS: &str = "/etc/hosts";

/// Mounts the volumes, sees that the root cannot be written, and becomes the program. Arguments: the root, FROM TO ro|rw for
/// each volume, --, limits for `prlimit`, --, the umask, names and values of the environment, --, the program.
const SCRIPT: &str = r#"
root=$1; shift
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
mount -o remount,bind,ro "$root"
if touch "$root/usr/written" 2> /dev/null; then echo "the root can be written" >&2; exit 90; fi
limits=()
while [ "$1" != -- ]; do limits+=("$1"); shift; done
shift
umask "$1"; shift
environment=()
while [ "$1" != -- ]; do environment+=("$1"); shift; done
shift
[ "${#limits[@]}" = 0 ] || limits=(prlimit "${limits[@]}")
user=(chroot "$root")
if [ "$AS_ROOT" = yes ]; then
    user=(setpriv --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid
        chroot --userspec="$USER_ID:$USER_ID" --groups= "$root")
fi
exec "${limits[@]}" setpriv --no-new-privs env -i PATH=/usr/sbin:/usr/bin "${environment[@]}" "${user[@]}" "$@"
"#;

/// Whether this test may become another user.
pub(super) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// The `limits` (flags of `prlimit`) that this machine lets the test set; the others are printed. Raising a limit takes
/// `CAP_SYS_RESOURCE`, which root in a container may lack.
pub(super) fn settable(limits: Vec<String>) -> Vec<String> {
    let is_settable = |limit: &String| {
        let tried = tool("prlimit", "util-linux", |command| {
            command.args([limit, "true"]);
        });
        if !tried.status.success() {
            eprintln!("NOT TRIED: {limit}: {}", String::from_utf8_lossy(&tried.stderr).trim());
        }
        tried.status.success()
    };
    limits.into_iter().filter(is_settable).collect()
}

/// A directory or file of this machine at a path of the root.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) from: PathBuf,
    pub(super) to: String,
    pub(super) is_writable: bool,
}

/// A process to start.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) name: String,
    /// The program and its flags.
    pub(super) command: Vec<String>,
    pub(super) volumes: Vec<Volume>,
    /// `NAME=VALUE`.
    pub(super) environment: Vec<String>,
    /// Flags of `prlimit`; see [`settable`].
    pub(super) limits: Vec<String>,
    /// `0077`; `0022` where it is empty.
    pub(super) umask: String,
}

/// The image's root.
pub(super) struct Root {
    folder: TempDir,
}

impl Root {
    /// Makes the root, with the addresses of host names.
    pub(super) fn new(hosts: &[(String, String)]) -> Root {
        let folder = tempfile::Builder::new().prefix("orch-root-").tempdir().unwrap();
        // The image's user passes through it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = folder.path().join("root");
        let programs = program("orch").unwrap();
        let programs = programs.parent().unwrap();
        let script = repository().join("deploy/containers/root.sh");
        let made = tool("bash", "bash", |command| {
            command.arg(script).arg(programs).arg(&root);
        });
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for directory in OF_ENGINE {
            fs::create_dir(root.join(directory)).unwrap();
        }
        let lines = hosts.iter().map(|(name, address)| format!("{address} {name}\n"));
        fs::write(root.join(&HOSTS[1..]), lines.collect::<String>()).unwrap();
        fs::set_permissions(root.join(&HOSTS[1..]), fs::Permissions::from_mode(0o644)).unwrap();
        Root { folder }
    }

    /// A new directory outside of the root that belongs to the image's user.
    pub(super) fn directory(&self, name: &str, mode: u32) -> PathBuf {
        let path = self.folder.path().join("volumes").join(name);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(self.folder.path().join("volumes"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        give(&path);
        path
    }

    /// Starts `job`.
    pub(super) fn start(&self, job: &Job) -> Process {
        let root = self.folder.path().join("root");
        for volume in &job.volumes {
            // As an engine does.
            fs::create_dir_all(root.join(volume.to.trim_start_matches('/'))).unwrap();
        }
        let log = self.folder.path().join(format!("{}.log", job.name));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = Command::new("unshare");
        if !is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--mount", "--propagation", "private", "bash", "-euc", SCRIPT, "start"]).arg(&root);
        for Volume { from, to, is_writable } in &job.volumes {
            command.arg(from).arg(to).arg(if *is_writable { "rw" } else { "ro" });
        }
        let umask = if job.umask.is_empty() { "0022" } else { &job.umask };
        command.arg("--").args(&job.limits).args(["--", umask]);
        command.args(&job.environment).arg("RUST_BACKTRACE=1").arg("--").args(&job.command);
        command.env("AS_ROOT", if is_root() { "yes" } else { "no" }).env("USER_ID", USER.to_string());
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn();
        let child =
            child.unwrap_or_else(|error| panic!("unshare: {error}; `apt-get install util-linux` brings it"));
        Process { name: job.name.clone(), child, log }
    }
}

/// Makes `path` the image's user's, where this test may.
pub(super) fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
}

/// A started process.
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Process id: that of the program once the namespace is made.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its whole output.
    pub(super) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Fails with the log if it has ended.
    pub(super) fn assert_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} ended with {ended:?}:\n{}", self.name, self.log());
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Asserts that it ends in good order within `grace` after SIGTERM.
    pub(super) async fn assert_stops(&mut self, grace: Duration) {
        let began = Instant::now();
        self.signal(Signal::TERM);
        let ended = self.wait().await;
        assert!(ended.success() && began.elapsed() < grace, "{}: {ended}:\n{}", self.name, self.log());
    }

    /// Waits for its end.
    pub(super) async fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{} does not end:\n{}", self.name, self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asserts that it is another user without capabilities that can get none, or at least the latter without root.
    pub(super) fn assert_confined(&self) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("no {name} in {status}")).split_whitespace().collect::<Vec<_>>()
        };
        assert!(["orch", "orch-scheduler"].contains(&field("Name")[0]), "it has not begun: {status}");
        assert_eq!(field("NoNewPrivs"), ["1"], "{}", self.name);
        if !is_root() {
            eprintln!("{}: without root it keeps its user and is not asked for its capabilities", self.name);
            return;
        }
        let user = USER.to_string();
        for ids in ["Uid", "Gid"] {
            assert!(field(ids).iter().all(|id| *id == user), "{}: {status}", self.name);
        }
        assert_eq!(field("Groups"), Vec::<&str>::new(), "{}", self.name);
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(set), ["0000000000000000"], "{}: {set}", self.name);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of {}\n{}", self.name, self.log());
        }
    }
}
