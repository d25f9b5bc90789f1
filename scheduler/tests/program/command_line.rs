//! Replays recorded command lines.
//!
//! The records name files in a folder that they call DIR, and not what the files hold: that is written here, so that each
//! file has the one fault of its record.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use serde_json::Value;

use super::process::{Ended, free_port, run, start, write_client_config};

const FACTS: &str = include_str!("../data/scheduler-serving.json");

/// Contents of the files, behind the lines of type, election and connection that all of them have.
const FILES: &[(&str, &str)] = &[
    ("field", "noSuchField: 1\n"),
    ("wcase", "Parallelism: 1\n"),
    ("type", "parallelism: \"x\"\n"),
    ("profiles", "profiles:\n- schedulerName: x\n- schedulerName: x\n"),
    ("noname", "profiles:\n- schedulerName: \"\"\n"),
    ("pct", "percentageOfNodesToScore: 150\n"),
    ("pct2", "percentageOfNodesToScore: -1\n"),
    ("pct3", "profiles:\n- schedulerName: x\n  percentageOfNodesToScore: 101\n"),
    ("par", "parallelism: 0\n"),
    ("par2", "parallelism: -1\n"),
    ("back", "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 1\n"),
    ("back0", "podInitialBackoffSeconds: 0\n"),
    ("plug", "profiles:\n- schedulerName: x\n  plugins: {filter: {enabled: [{name: NoSuch}]}}\n"),
    ("plugcfg", "profiles:\n- schedulerName: x\n  pluginConfig: [{name: NoSuch, args: {a: 1}}]\n"),
    (
        "plugrep",
        "profiles:\n- schedulerName: x\n  pluginConfig:\n  - name: NodeAffinity\n  - name: NodeAffinity\n",
    ),
    (
        "plugargs",
        "profiles:\n- pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]\n",
    ),
    ("plugunk", "profiles:\n- pluginConfig: [{name: InterPodAffinity, args: {nope: 1}}]\n"),
    ("qs", "profiles:\n- schedulerName: x\n  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n"),
    ("nobind", "profiles:\n- schedulerName: x\n  plugins: {bind: {disabled: [{name: \"*\"}]}}\n"),
    ("noqs", "profiles:\n- schedulerName: x\n  plugins: {queueSort: {disabled: [{name: \"*\"}]}}\n"),
    (
        "dqs",
        "profiles:\n- schedulerName: x\n- schedulerName: z\n  plugins: {queueSort: {disabled: [{name: \"*\"}]}}\n",
    ),
    ("ext", "extenders: [{filterVerb: filter}]\n"),
    ("ext2", "extenders: [{urlPrefix: \"http://x\", prioritizeVerb: p, weight: -1}]\n"),
    ("ext3", "extenders: [{urlPrefix: \"http://x\", bindVerb: b}, {urlPrefix: \"http://y\", bindVerb: b}]\n"),
    (
        "strat",
        "profiles:\n- schedulerName: x\n  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Fullest}}}]\n",
    ),
    (
        "spread",
        "profiles:\n- pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: \
         zone, whenUnsatisfiable: ScheduleAnyway}], defaultingType: System}}]\n",
    ),
    (
        "preempt",
        "profiles:\n- pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 101}}]\n",
    ),
    ("w3", "parallelism: 3\n"),
];

fn write_files(dir: &Path) {
    let write = |name: &str, text: &str| std::fs::write(dir.join(format!("{name}.yaml")), text).unwrap();
    let kind = "apiVersion: orchscheduler.config.orch.io/v1\nkind: OrchSchedulerConfiguration\n";
    let connection = format!("clientConnection:\n  orchconfig: {}/admin.conf\n", dir.display());
    for (name, text) in FILES {
        write(name, &format!("{kind}{connection}leaderElection: {{leaderElect: false}}\n{text}"));
    }
    write("elect", &format!("{kind}{connection}leaderElection: {{leaseDuration: 5s, renewDeadline: 9s}}\n"));
    write("dup", &format!("{kind}{connection}parallelism: 1\nparallelism: 2\n"));
    write("empty", "");
    write("notyaml", "{{{");
    write("kind", &kind.replace("OrchSchedulerConfiguration", "Other"));
    write("ver", &kind.replace("/v1", "/v1beta3"));
    write_client_config(&dir.join("admin.conf"), "http://127.0.0.1:1");
}

#[test]
fn recorded_command_lines_end_as_recorded() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let mut differences = Vec::new();
    let records = facts["commandLine"].as_array().unwrap();
    assert_eq!(records.len(), 79);
    for record in records {
        if let Err(difference) = replay(record, dir.path()) {
            differences.push(format!("{}: {difference}", record["name"].as_str().unwrap()));
        }
    }
    assert!(differences.is_empty(), "{} of 79 differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn a_fault_before_the_log_is_json_where_that_was_asked_for() {
    for (arguments, told) in [
        (vec!["--logging-format=json", "--nonsense"], "unknown flag: --nonsense"),
        (vec!["--nonsense", "--logging_format", "json"], "unknown flag: --nonsense"),
        (vec!["--logging-format=json", "--brand=acme"], "must be orch or kubernetes"),
        (vec!["--logging-format=json", "one"], "does not take any arguments"),
        (vec!["--logging-format=json", "--config=/none.yaml"], "/none.yaml"),
    ] {
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let ended = run(&arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        let lines: Vec<Value> =
            ended.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_told = |line: &Value| line["err"].as_str().is_some_and(|error| error.contains(told));
        assert!(lines.iter().any(is_told), "{arguments:?}: {}", ended.stderr);
    }
}

fn replay(record: &Value, dir: &Path) -> Result<(), String> {
    let in_use = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = in_use.local_addr().unwrap().port();
    let folder = dir.display().to_string();
    let put = |text: &str| {
        text.replace("DIR", &folder).replace("=PORT", &format!("={port}")).replace("ADDRESS", "127.0.0.1")
    };
    let mut arguments: Vec<String> =
        record["args"].as_array().unwrap().iter().map(|text| put(text.as_str().unwrap())).collect();
    // The default port may be another process's. Those with faults in single flags end before they listen.
    let listens = arguments
        .iter()
        .any(|text| ["--orch", "--config", "--master"].iter().any(|flag| text.starts_with(flag)));
    if listens && !arguments.iter().any(|text| text.starts_with("--secure-port")) {
        arguments.push(format!("--secure-port={}", free_port()));
    }
    match record["exit"].as_u64() {
        Some(code) => compare_end(record, &run(&arguments), code, dir, port),
        None => {
            arguments.push("--log-flush-frequency=0".to_owned());
            let status = start(&arguments).stop();
            let expected = record["exitOnTerm"].as_i64();
            equal("exit on SIGTERM", status.code().map(i64::from), expected)
        }
    }
}

fn compare_end(record: &Value, ended: &Ended, code: u64, dir: &Path, port: u16) -> Result<(), String> {
    let Ended { status, stdout, stderr } = ended;
    equal("exit", status.code().and_then(|code| u64::try_from(code).ok()), Some(code))
        .map_err(|difference| format!("{difference}; {stderr}"))?;
    match &record["stdout"] {
        Value::String(text) if text.starts_with("version.Info") => equal("fields", &fields(stdout), text)?,
        Value::String(text) => equal("output", stdout.trim_end(), text)?,
        Value::Object(form) if form.contains_key("help") => {
            if !stdout.contains("--secure-port <PORT>") || !stderr.is_empty() {
                return Err(format!("no help: {stdout}"));
            }
        }
        _ => equal("output", stdout.as_str(), "")?,
    }
    if let Some(expected) = record["error"].as_str() {
        let told = match record["loggedAs"].as_str() {
            Some("plain") => stderr.lines().next().unwrap_or_default().to_owned(),
            _ => logged(stderr).ok_or_else(|| format!("no log line with an error: {stderr}"))?,
        };
        equal("error", normalized(&told, dir, port).as_str(), expected)?;
        let has_usage = stderr.contains("Usage:\n");
        equal("usage", has_usage, record["usageOnStderr"] == true)?;
    }
    if let Some(keys) = record["writtenTopKeys"].as_array() {
        let mut arguments = record["args"].as_array().unwrap().iter().filter_map(Value::as_str);
        let path = arguments.find_map(|text| text.strip_prefix("--write-config-to=DIR/")).unwrap();
        let text = std::fs::read_to_string(dir.join(path)).map_err(|error| error.to_string())?;
        let is_key = |line: &&str| !line.starts_with([' ', '-']);
        let written: Vec<&str> =
            text.lines().filter(is_key).filter_map(|line| line.split(':').next()).collect();
        let expected: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        equal("keys", written, expected)?;
    }
    Ok(())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {expected:?}")),
    }
}

/// The error of the log line with which the program ends.
fn logged(stderr: &str) -> Option<String> {
    let line = stderr.lines().rev().find(|line| line.contains("ERROR command failed err="))?;
    line.split_once(" err=").map(|(_, text)| text.to_owned())
}

/// An error with the records' words for what differs from run to run.
fn normalized(text: &str, dir: &Path, port: u16) -> String {
    let text = text
        .replace(&dir.display().to_string(), "DIR")
        .replace("\\n  ", " | ")
        .replace("0.0.0.0", "ADDRESS")
        .replace(&format!(":{port}"), ":PORT");
    match text.split_once("in scheme \"") {
        Some((before, _)) => format!("{before}in scheme \"SCHEME\""),
        None => text,
    }
}

/// The names of the fields in the text of a version.
fn fields(text: &str) -> String {
    let inner = text.trim().trim_start_matches("version.Info{").trim_end_matches('}');
    let names: Vec<&str> = inner.split(", ").filter_map(|field| field.split(':').next()).collect();
    format!("version.Info{{{}}}", names.join(", "))
}

#[test]
fn every_file_of_the_records_is_written() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let mut used: BTreeMap<String, bool> = BTreeMap::new();
    for record in facts["commandLine"].as_array().unwrap() {
        for text in record["args"].as_array().unwrap().iter().filter_map(Value::as_str) {
            if let Some(file) = text.strip_prefix("--config=DIR/").filter(|file| *file != "missing.yaml") {
                used.insert(file.to_owned(), dir.path().join(file).exists());
            }
        }
    }
    assert!(used.len() > 25 && used.values().all(|is_there| *is_there), "{used:?}");
}
