//! The packing of a release: the same bytes twice, and everything in them that is promised.
//!
//! Nothing is built: the programs are small scripts that start those of this test. That a build of the same sources gives the
//! same programs is not proven here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use orch_cluster_tests::cluster::program;

use super::{repository, tool};

const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// Files of the repository that a release holds or is packed with.
const PACKED: [&str; 6] =
    ["deploy", "docs/guides", "docs/operations.md", "CHANGELOG.md", "README.md", "LICENSE"];

/// A repository of its own with a tag, whose programs stand beside it.
struct Checkout {
    folder: tempfile::TempDir,
}

impl Checkout {
    fn new() -> Checkout {
        let folder = tempfile::tempdir().unwrap();
        let (sources, programs) = (folder.path().join("sources"), folder.path().join("programs"));
        for name in PACKED {
            let target = sources.join(name);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            succeed("cp", "coreutils", &["-r".as_ref(), &repository().join(name), &target], Path::new("/"));
        }
        fs::create_dir(&programs).unwrap();
        for name in ["orch", "scheduler"] {
            let script = format!("#!/bin/sh\nexec {} \"$@\"\n", program(name).unwrap().display());
            fs::write(programs.join(name), script).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let git = |words: &[&str]| {
            let words: Vec<&Path> = identity.iter().chain(words).map(Path::new).collect();
            succeed("git", "git", &words, &sources);
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "--message", "x"]);
        git(&["tag", TAG]);
        Checkout { folder }
    }

    /// Packs into a directory of this name.
    fn pack(&self, name: &str, tag: &str, umask: &str) -> (Output, PathBuf) {
        let out = self.folder.path().join(name);
        let script = self.folder.path().join("sources/deploy/release.sh");
        let run = format!("umask {umask}; exec {} {tag} {}", script.display(), out.display());
        let done = tool("bash", "bash", |command| {
            let temporary = self.folder.path();
            command.args(["-c", &run]).env("PROGRAMS", temporary.join("programs")).env("TMPDIR", temporary);
        });
        (done, out)
    }
}

fn succeed(name: &str, package: &str, words: &[&Path], folder: &Path) -> String {
    let done = tool(name, package, |command| {
        command.args(words).current_dir(folder);
    });
    assert!(done.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The only file in `folder` with this end.
fn file(folder: &Path, end: &str) -> PathBuf {
    let mut all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = all.find(|path| path.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {}", folder.display()))
}

#[test]
fn the_same_tag_gives_the_same_bytes_with_everything_in_them() {
    let checkout = Checkout::new();
    let (done, first) = checkout.pack("first", TAG, "022");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (done, second) = checkout.pack("second", TAG, "077");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&second));
    assert_eq!(sums(&first).lines().count(), 2);
    succeed("sha256sum", "coreutils", &["--check", "SHA256SUMS"].map(Path::new), &first);

    let (archive, package) = (file(&first, ".tar.gz"), file(&first, ".deb"));
    let listed = succeed("tar", "tar", &["--numeric-owner".as_ref(), "-tvzf".as_ref(), &archive], &first);
    assert!(listed.lines().all(|line| line.contains(" 0/0 ")), "everything is root's: {listed}");
    let packed = succeed("dpkg-deb", "dpkg", &["--contents".as_ref(), &package], &first);
    for line in listed.lines().chain(packed.lines()).filter(|line| line.contains("/share/")) {
        assert!(
            line.starts_with("-rw-r--r--") || line.starts_with("drwxr-xr-x"),
            "everybody reads it: {line}"
        );
    }
    let expected = [
        "bin/orch -> ../lib/orch/orch",
        "bin/orch-scheduler -> ../lib/orch/scheduler",
        "lib/systemd/system/orch.service",
        "lib/systemd/system/orch-scheduler.service",
        "share/bash-completion/completions/orch",
        "share/zsh/vendor-completions/_orch",
        "share/fish/vendor_completions.d/orch.fish",
        "share/man/man1/orch-serve.1.gz",
        "share/man/man1/orch-scheduler.1.gz",
        "share/doc/orch/three-machines.md",
        "share/doc/orch/BUILD",
    ];
    for name in expected {
        assert!(listed.contains(name) && packed.contains(name), "{name}: {listed}\n{packed}");
    }
    let field = |name: &str| {
        succeed("dpkg-deb", "dpkg", &["--field".as_ref(), &package, name.as_ref()], &first).trim().to_owned()
    };
    assert_eq!((field("Package").as_str(), field("Version").as_str()), ("orch", env!("CARGO_PKG_VERSION")));
    assert!(field("Depends").starts_with("libc6 (>= "), "{}", field("Depends"));

    let unpacked = checkout.folder.path().join("unpacked");
    succeed("dpkg-deb", "dpkg", &["--extract".as_ref(), &package, &unpacked], &first);
    let version =
        succeed(&unpacked.join("usr/bin/orch").display().to_string(), "orch", &["version".as_ref()], &first);
    assert!(version.starts_with(concat!("orch ", env!("CARGO_PKG_VERSION"))), "{version}");
    let page = succeed(
        "gzip",
        "gzip",
        &["-dc".as_ref(), &unpacked.join("usr/share/man/man1/orch-serve.1.gz")],
        &first,
    );
    assert!(page.contains(".TH orch-serve 1") && page.contains("initial\\-cluster"), "{page:.2000}");
}

#[test]
fn a_tag_that_is_not_there_or_not_of_the_program_is_refused() {
    let checkout = Checkout::new();
    let (done, out) = checkout.pack("out", "v9.9.9", "022");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && told.contains("there is no tag v9.9.9"), "{told}");
    assert!(!out.exists());
    let sources = checkout.folder.path().join("sources");
    succeed("git", "git", &["tag", "v9.9.9"].map(Path::new), &sources);
    let (done, _) = checkout.pack("out", "v9.9.9", "022");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && told.contains("set the version in Cargo.toml"), "{told}");
}

#[test]
fn releases_and_images_are_built_with_the_library_that_is_built_in_groups() {
    for name in ["deploy/release.sh", "deploy/containers/Containerfile"] {
        let text = super::source(name);
        let builds: Vec<&str> = text.lines().filter(|line| line.contains("cargo build")).collect();
        assert!(!builds.is_empty(), "{name} builds nothing");
        for line in builds {
            assert!(line.contains(".ci/cargo build --profile dist --locked"), "{name}: {line}");
        }
    }
}

#[test]
fn the_package_s_script_is_read_by_the_shell_that_runs_it() {
    let script = repository().join("deploy/package/postinst");
    let read = tool("sh", "dash", |command| {
        command.arg("-n").arg(&script);
    });
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}
