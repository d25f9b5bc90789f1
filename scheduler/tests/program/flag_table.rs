//! Every flag, and the test that shows its effect.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use orch_proto::brand::ORCH;
use orch_scheduler::config::flags::command;

/// Flags of the interface, and functions of tests in this crate. `--brand` is this program's own.
const TABLE: [(&str, &str); 55] = [
    ("allow-metric-labels", "labels_have_the_values_of_their_allow_list"),
    ("authentication-orchconfig", "recorded_answers_are_given"),
    ("authentication-skip-lookup", "authorities_are_looked_up_unless_that_is_skipped"),
    ("authentication-token-webhook-cache-ttl", "answers_are_kept_for_the_times_of_the_flags"),
    ("authentication-tolerate-lookup-failure", "authorities_are_looked_up_unless_that_is_skipped"),
    ("authorization-always-allow-paths", "recorded_answers_are_given"),
    ("authorization-orchconfig", "recorded_answers_are_given"),
    ("authorization-webhook-cache-authorized-ttl", "answers_are_kept_for_the_times_of_the_flags"),
    ("authorization-webhook-cache-unauthorized-ttl", "answers_are_kept_for_the_times_of_the_flags"),
    ("bind-address", "the_port_is_on_the_given_address"),
    ("cert-dir", "a_pair_is_saved_in_the_given_directory"),
    ("client-ca-file", "certificates_and_headers_of_front_proxies_identify"),
    ("cloud-container-registry-config", "flags_without_effect_say_so"),
    ("config", "recorded_command_lines_end_as_recorded"),
    ("contention-profiling", "deprecated_flags_count_without_a_file"),
    ("disabled-metrics", "hidden_metrics_are_shown_for_the_previous_version_unless_they_are_disabled"),
    ("feature-gates", "gates_show_whether_they_are_on"),
    ("help", "recorded_command_lines_end_as_recorded"),
    ("http2-max-streams-per-connection", "streams_of_a_connection_are_limited"),
    ("leader-elect", "with_leader_election_a_signal_is_an_orderly_end"),
    ("leader-elect-lease-duration", "flags_of_the_election_win_over_the_file_and_deprecated_ones_do_not"),
    ("leader-elect-renew-deadline", "recorded_command_lines_end_as_recorded"),
    ("leader-elect-resource-lock", "every_kind_of_lock_is_known"),
    ("leader-elect-resource-name", "deprecated_flags_count_without_a_file"),
    ("leader-elect-resource-namespace", "every_kind_of_lock_is_known"),
    ("leader-elect-retry-period", "every_kind_of_lock_is_known"),
    ("lock-object-name", "deprecated_flags_count_without_a_file"),
    ("lock-object-namespace", "deprecated_flags_count_without_a_file"),
    ("log-flush-frequency", "lines_wait_unless_they_are_urgent_or_nothing_waits"),
    ("logging-format", "recorded_command_lines_end_as_recorded"),
    ("master", "a_server_is_named_by_a_file_a_flag_the_environment_or_the_cluster"),
    ("orch-api-burst", "deprecated_flags_count_without_a_file"),
    ("orch-api-content-type", "deprecated_flags_count_without_a_file"),
    ("orch-api-qps", "deprecated_flags_count_without_a_file"),
    ("orchconfig", "deprecated_flags_count_without_a_file"),
    ("permit-address-sharing", "an_address_is_shared_with_a_socket_that_does_not_listen"),
    ("permit-port-sharing", "a_port_is_shared_by_those_who_say_so"),
    ("pod-max-in-unschedulable-pods-duration", "deprecated_flags_count_without_a_file"),
    ("profiling", "recorded_answers_are_given"),
    ("requestheader-allowed-names", "certificates_and_headers_of_front_proxies_identify"),
    ("requestheader-client-ca-file", "certificates_and_headers_of_front_proxies_identify"),
    ("requestheader-extra-headers-prefix", "certificates_and_headers_of_front_proxies_identify"),
    ("requestheader-group-headers", "certificates_and_headers_of_front_proxies_identify"),
    ("requestheader-username-headers", "certificates_and_headers_of_front_proxies_identify"),
    ("secure-port", "without_a_port_nothing_is_served"),
    (
        "show-hidden-metrics-for-version",
        "hidden_metrics_are_shown_for_the_previous_version_unless_they_are_disabled",
    ),
    ("tls-cert-file", "certificates_of_files_are_served_by_name_and_read_again"),
    ("tls-cipher-suites", "versions_and_suites_are_those_of_the_flags"),
    ("tls-min-version", "versions_and_suites_are_those_of_the_flags"),
    ("tls-private-key-file", "certificates_of_files_are_served_by_name_and_read_again"),
    ("tls-sni-cert-key", "names_choose_certificates_by_precedence"),
    ("v", "verbosity_and_patterns_choose_lines"),
    ("version", "recorded_command_lines_end_as_recorded"),
    ("vmodule", "verbosity_and_patterns_choose_lines"),
    ("write-config-to", "recorded_command_lines_end_as_recorded"),
];

#[test]
fn every_flag_has_a_test_that_shows_its_effect() {
    let command = command(&ORCH);
    let flags: BTreeSet<&str> =
        command.get_arguments().filter_map(|arg| arg.get_long()).filter(|flag| *flag != "brand").collect();
    let rows: BTreeSet<&str> = TABLE.iter().map(|(flag, _)| *flag).collect();
    assert_eq!(flags, rows);
    let tests = tests();
    for (flag, test) in TABLE {
        assert!(tests.contains(test), "--{flag}: there is no test {test}");
    }
}

/// The names of all tests of the crate.
pub(super) fn tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let function = line.trim_start_matches("async ").strip_prefix("fn ");
            match function.and_then(|rest| rest.split('(').next()) {
                Some(name) if is_test => {
                    names.insert(name.to_owned());
                    is_test = false;
                }
                _ => {
                    is_test = line.starts_with("#[test]")
                        || line.starts_with("#[tokio::test")
                        || is_test && line.starts_with('#')
                }
            }
        }
    }
    names
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
