//! Alert rules, recorded series and dashboards name only metrics that the programs have; each alert has its page and its tests.
//!
//! Owns the names in an expression (its identifiers without functions, keywords, labels, strings and durations), and what belongs to an
//! alert: a page in `docs/runbooks`, and a case in `deploy/alerts/tests` in which it fires and one in which it does not.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use serde_norway::Value;

use super::check;
use super::tree::{Source, root};

/// Words of expressions that are neither metrics nor functions with their parenthesis behind them.
const KEYWORDS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// Suffixes of the series of a histogram.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Series that Prometheus itself makes.
const OF_PROMETHEUS: [&str; 1] = ["up"];

/// A rule, or a panel of a dashboard.
#[derive(Debug)]
struct Rule {
    /// The alert, the recorded series, or the panel.
    name: String,
    is_alert: bool,
    expression: String,
    /// The path of its page.
    page: Option<String>,
}

/// The text of a file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of the files in a folder of the repository that end with `end`.
fn files(folder: &str, end: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
    let names = entries.map(|entry| entry.expect("it can be read").file_name().into_string());
    let names = names.map(|name| name.expect("names are text")).filter(|name| name.ends_with(end));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The rules in `text`, a file of rules.
fn rules(text: &str) -> Vec<Rule> {
    let file: Value = serde_norway::from_str(text).expect("the rules are YAML");
    let groups = file["groups"].as_sequence().expect("there are groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_sequence().expect("a group has rules"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let rule = |rule: &Value| {
        let name = text(&rule["alert"]).or(text(&rule["record"])).expect("a rule has a name");
        Rule {
            name,
            is_alert: !rule["alert"].is_null(),
            expression: text(&rule["expr"]).expect("a rule has an expression"),
            page: text(&rule["annotations"]["runbook"]),
        }
    };
    rules.map(rule).collect()
}

/// The expressions of the panels in `text`, a dashboard.
fn panels(text: &str) -> Vec<Rule> {
    let dashboard: Value = serde_norway::from_str(text).expect("JSON is YAML");
    let panels = dashboard["panels"].as_sequence().expect("there are panels");
    let mut found = Vec::new();
    for panel in panels {
        let name = panel["title"].as_str().expect("a panel has a title");
        for target in panel["targets"].as_sequence().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("a target has an expression").to_owned();
            found.push(Rule { name: name.to_owned(), is_alert: false, expression, page: None });
        }
    }
    found
}

/// All rules, and the panels of all dashboards.
fn all() -> Vec<Rule> {
    let rules = files("deploy/alerts", ".yaml")
        .into_iter()
        .flat_map(|name| rules(&file(&format!("deploy/alerts/{name}"))));
    let dashboards = files("deploy/dashboards", ".json").into_iter();
    let panels = dashboards.flat_map(|name| panels(&file(&format!("deploy/dashboards/{name}"))));
    rules.chain(panels).collect()
}

/// The metrics that `expression` names.
fn metrics(expression: &str) -> BTreeSet<String> {
    let labels =
        r#"\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"#;
    let bare = Regex::new(labels).expect("the pattern is valid").replace_all(expression, " ");
    let word =
        Regex::new(r"(?P<name>\b[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?P<call>\()?").expect("the pattern is valid");
    let words = word.captures_iter(&bare).filter(|found| found.name("call").is_none());
    let names = words.map(|found| found["name"].to_owned());
    names.filter(|name| !KEYWORDS.contains(&name.as_str())).collect()
}

/// The rules that name no metric, or one that is neither in a string of `sources`, nor recorded by one of them.
fn unknown(rules: &[Rule], sources: &[Source]) -> Vec<String> {
    let product: Vec<String> = sources.iter().map(Source::product).collect();
    let recorded: BTreeSet<&str> =
        rules.iter().filter(|rule| !rule.is_alert).map(|rule| rule.name.as_str()).collect();
    let is_known = |metric: &str| {
        let base = SUFFIXES.iter().find_map(|suffix| metric.strip_suffix(suffix)).unwrap_or(metric);
        OF_PROMETHEUS.contains(&metric)
            || recorded.contains(metric)
            || product.iter().any(|code| code.contains(&format!("\"{base}\"")))
    };
    let mut found = Vec::new();
    for Rule { name, expression, .. } in rules {
        let named = metrics(expression);
        if named.is_empty() {
            found.push(format!("{name}: names no metric"));
        }
        found.extend(
            named.iter().filter(|metric| !is_known(metric)).map(|metric| format!("{name}: {metric}")),
        );
    }
    found
}

/// Fails for rules and dashboards of metrics that no source in `product` has.
pub(crate) fn check_metrics(product: &[Source]) {
    let all = all();
    assert!(all.len() > 100, "{} rules and panels", all.len());
    check("no program has such a metric", unknown(&all, product));
}

#[test]
fn each_alert_has_its_page_and_each_page_its_alert() {
    let rules = rules(&file("deploy/alerts/orch.yaml"));
    let alerts: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert!(rules.iter().all(|rule| rule.is_alert) && alerts.len() > 30, "{} alerts", alerts.len());
    let path = |alert: &str| format!("docs/runbooks/{alert}.md");
    let elsewhere = rules.iter().filter(|rule| rule.page.as_deref() != Some(&path(&rule.name)));
    check("the annotation `runbook` names the page", elsewhere.map(|rule| rule.name.clone()));
    let pages = files("docs/runbooks", ".md");
    let without = alerts.iter().filter(|alert| !pages.contains(&format!("{alert}.md")));
    check("each alert has a page", without.map(|alert| (*alert).to_owned()));
    let orphans = pages.iter().filter(|page| !alerts.contains(page.trim_end_matches(".md")));
    check("each page is that of an alert", orphans.cloned());
    let misnamed = pages.iter().filter(|page| {
        !file(&format!("docs/runbooks/{page}")).starts_with(&format!("# {}\n", page.trim_end_matches(".md")))
    });
    check("a page begins with the name of its alert", misnamed.cloned());
}

#[test]
fn each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let tests = files("deploy/alerts/tests", ".yaml");
    let cases: String = tests.iter().map(|name| file(&format!("deploy/alerts/tests/{name}"))).collect();
    let alerts: BTreeSet<String> =
        rules(&file("deploy/alerts/orch.yaml")).into_iter().map(|rule| rule.name).collect();
    let missing = alerts.iter().flat_map(|alert| {
        let is_there = |end: &str| {
            let case = Regex::new(&format!(r"(?m)^  - name: {alert}( [0-9a-z]+)? {end}$"));
            case.expect("the pattern is valid").is_match(&cases)
        };
        let missing = ["fires", "is silent"].into_iter().filter(move |end| !is_there(end));
        missing.map(move |end| format!("{alert} {end}")).collect::<Vec<_>>()
    });
    check("promtool tests each alert", missing);
    let named = Regex::new(r"(?m)^  - name: (?P<alert>\w+) ").expect("the pattern is valid");
    let unknown = named.captures_iter(&cases).filter(|found| !alerts.contains(&found["alert"]));
    check("a case is of an alert", unknown.map(|found| found["alert"].to_owned()));
}

#[test]
fn names_in_expressions_are_found_without_labels_and_functions() {
    let expression =
        r#"sum by (instance, le) (rate(a_bucket{code="b"}[5m])) > on (c) time() - d:e or f offset 5m"#;
    assert_eq!(metrics(expression).into_iter().collect::<Vec<_>>(), ["a_bucket", "d:e", "f"]);
    let source = Source { name: "x.rs".to_owned(), text: "gauge!(\"a\");\n".to_owned() };
    let sources = [source];
    let found = |expression: &str| {
        let text = "groups: [{rules: [{record: 'r:a', expr: a}, {alert: X, expr: \"EXPR\"}]}]";
        unknown(&rules(&text.replace("EXPR", expression)), &sources)
    };
    assert!(found("a_bucket > 1").is_empty() && found("r:a > up").is_empty());
    assert_eq!(found("ab > 1"), ["X: ab"]);
    assert_eq!(found("time() > 1"), ["X: names no metric"]);
}
