//! Configurations for tests, made as the process makes them: from a file, with defaults and checks.

use orch_proto::brand::ORCH;

use crate::config::flags::parse;
use crate::config::{Configuration, settle};

/// The configuration of a file with `members` behind its type.
pub(super) fn configuration(members: &str) -> Configuration {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    let version = crate::config::group_version(&ORCH);
    let kind = "OrchSchedulerConfiguration";
    std::fs::write(&path, format!("apiVersion: {version}\nkind: {kind}\n{members}")).unwrap();
    let config = format!("--config={}", path.display());
    let line = parse(vec!["scheduler".into(), config.into()]).unwrap();
    settle(&line.flags, &ORCH).unwrap().complete().unwrap()
}
