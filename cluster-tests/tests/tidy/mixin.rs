//! What the public Kubernetes mixin asks for is in the catalog of the program that it asks, with the labels that it selects by.
//!
//! Owns the list (of the mixin at aa38e2b: rules, alerts and dashboards of API servers and schedulers), but for the series that
//! docs/deviations.md names. It reads the catalogs as text. That of the scheduler has the series that are there from the start in place of
//! labels: its labels are held by its own tests.

use std::collections::BTreeMap;

use regex::Regex;

use super::check;
use super::tree::Source;

/// A metric, and the labels that expressions name.
type Asked = (&'static str, &'static [&'static str]);

/// What is asked of API servers.
const OF_NODES: [Asked; 15] = [
    ("aggregator_unavailable_apiservice", &["name"]),
    ("aggregator_unavailable_apiservice_total", &["name"]),
    ("apiserver_client_certificate_expiration_seconds", &[]),
    ("apiserver_request_sli_duration_seconds", &["resource", "scope", "subresource", "verb"]),
    ("apiserver_request_terminations_total", &[]),
    ("apiserver_request_total", &["code", "resource", "verb"]),
    ("go_goroutines", &[]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("rest_client_request_duration_seconds", &["verb"]),
    ("rest_client_requests_total", &["code"]),
    ("workqueue_adds_total", &["name"]),
    ("workqueue_depth", &["name"]),
    ("workqueue_queue_duration_seconds", &["name"]),
    ("workqueue_work_duration_seconds", &["name"]),
];

/// What is asked of schedulers.
const OF_SCHEDULERS: [Asked; 8] = [
    ("go_goroutines", &[]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("rest_client_request_duration_seconds", &[]),
    ("rest_client_requests_total", &[]),
    ("scheduler_pod_scheduling_sli_duration_seconds", &[]),
    ("scheduler_scheduling_algorithm_duration_seconds", &[]),
    ("scheduler_scheduling_attempt_duration_seconds", &[]),
];

/// The labels of each metric of a catalog, which is read as text: rows with a name and the constant of its labels, before the help or
/// behind it.
fn labels(catalog: &str) -> BTreeMap<String, Vec<String>> {
    let constant = Regex::new(r"const ([A-Z_]+): [^=]*=\s*&\[([^\]]*)\];").expect("the pattern is valid");
    let lists: BTreeMap<&str, Vec<String>> = constant
        .captures_iter(catalog)
        .map(|found| {
            let (_, [name, words]) = found.extract();
            let words = words.split(',').map(|word| word.trim().trim_matches('"').to_owned());
            (name, words.filter(|word| !word.is_empty()).collect())
        })
        .collect();
    let row = Regex::new(
        r#"(?m)^\s+(?:Counter|Gauge|Histogram) \w+ "(\w+)" (?:([A-Z_]+) )?"[^"]*"(?: ([A-Z_]+))?"#,
    )
    .expect("the pattern is valid");
    row.captures_iter(catalog)
        .map(|found| {
            let constant = found.get(2).or(found.get(3)).map_or("", |name| name.as_str());
            (found[1].to_owned(), lists.get(constant).cloned().unwrap_or_default())
        })
        .collect()
}

/// What of `asked` neither the catalog `labels` has, nor the rim's series of the process, `process`.
fn lacking(
    program: &str,
    asked: &[Asked],
    labels: &BTreeMap<String, Vec<String>>,
    process: &str,
) -> Vec<String> {
    let mut found = Vec::new();
    for (metric, wanted) in asked {
        let Some(of_metric) = labels.get(*metric) else {
            // The number of tasks is written beside the scheduler's table.
            if !process.contains(&format!("\"{metric}\"")) {
                found.push(format!("{program}: {metric}"));
            }
            continue;
        };
        // few: the labels of one metric.
        let missing = wanted.iter().filter(|label| !of_metric.iter().any(|one| one == *label));
        found.extend(missing.map(|label| format!("{program}: {metric} by {label}")));
    }
    found
}

/// Fails for series of the public mixin that the program of `sources` which it asks has not, or not by its labels.
pub(crate) fn check_mixin(sources: &[Source]) {
    let text = |is_of: &dyn Fn(&str) -> bool| -> String {
        sources.iter().filter(|source| is_of(&source.name)).map(Source::product).collect()
    };
    let process = text(&|path| path.starts_with("serving/src/"));
    for (program, folder, asked) in
        [("the node", "node", &OF_NODES[..]), ("the scheduler", "scheduler", &OF_SCHEDULERS[..])]
    {
        let catalog = labels(&text(&|path| path == format!("{folder}/src/metrics/catalog.rs")));
        assert!(catalog.len() > 50, "{program}: {} rows", catalog.len());
        let beside = text(&|path| path.starts_with(&format!("{folder}/src/metrics"))) + &process;
        check("the public mixin asks for it", lacking(program, asked, &catalog, &beside));
    }
}

#[test]
fn a_label_that_a_metric_lacks_is_told_and_a_metric_of_the_other_program_is_no_help() {
    let catalog = "const NAME: Labels = &[\"name\"];\nconst REQUEST: Labels =\n    &[\"code\", \"verb\"];\n\
        catalog! {\n    Counter Alpha \"a_total\" NAME \"Help.\";\n    Counter Alpha \"b_total\" \"Help.\" REQUEST;\n}";
    let catalog = labels(catalog);
    assert_eq!(catalog["b_total"], ["code", "verb"]);
    let asked: [Asked; 3] = [("a_total", &["name", "code"]), ("b_total", &["verb"]), ("c_total", &[])];
    assert_eq!(lacking("p", &asked, &catalog, ""), ["p: a_total by code", "p: c_total"]);
    assert_eq!(lacking("p", &asked[1..], &catalog, "\"c_total\""), [""; 0]);
}
