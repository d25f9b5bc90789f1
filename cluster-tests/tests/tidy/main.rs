//! Checks the source tree against the rules of the house that no compiler checks: sizes, headers, leftovers, brand
//! names in their one place, unused files, and documents that match the tree.

mod alerts;
mod circles;
mod clocks;
mod fields;
mod file_circles;
mod hostile;
mod metrics;
mod mixin;
mod modules;
mod panics;
mod prices;
mod searches;
mod tree;

use std::collections::BTreeSet;
use std::fs;

use orch_proto::brand::{Brand, KUBERNETES, ORCH};
use tree::{Source, root, sources, top_folders};

/// Maximum of lines of a file; longer files are split by noun.
const FILE_LINES_MAX: usize = 600;

/// Fails with all complaints at once, so that one run shows everything to fix.
fn check(rule: &str, complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<_> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{rule}:\n  {}", complaints.join("\n  "));
}

#[test]
fn every_module_opens_with_what_it_owns() {
    let bad = sources("rs").into_iter().filter(|source| {
        let header: Vec<_> = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
        header.concat().len() < "//! Owns this.".len()
    });
    check("a `//!` header comes first", bad.map(|source| source.name));
}

#[test]
fn no_file_is_too_long() {
    let long = sources("rs").into_iter().filter_map(|source| {
        let lines = source.text.lines().count();
        (lines > FILE_LINES_MAX).then(|| format!("{}: {lines} lines", source.name))
    });
    check("files are split by noun before 600 lines", long);
}

#[test]
fn nothing_is_left_for_later() {
    // Spelled apart, so that this file does not match itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("HA", "CK:")];
    let ignored = concat!("#[ign", "ore");
    let mut found = Vec::new();
    for source in ["rs", "proto", "toml", "sh"].into_iter().flat_map(sources) {
        for (number, line) in source.text.lines().enumerate() {
            let is_left =
                words.iter().any(|word| line.contains(word)) || line.trim_start().starts_with(ignored);
            if is_left {
                found.push(format!("{}:{}: {}", source.name, number + 1, line.trim()));
            }
        }
    }
    check("finish it or say so on an issue", found);
}

/// Beginnings of names whose subject is unknown to a reader: a test's name is a claim about a thing of the field.
const PRONOUNS: [&str; 5] = ["what_", "who_", "whose_", "whom_", "which_"];

/// The name of the function that `line` declares, where it begins with one of [`PRONOUNS`].
fn pronoun_name(line: &str) -> Option<&str> {
    let (before, rest) = line.trim_start().split_once("fn ")?;
    let is_declared = before.is_empty() || before.ends_with(' ');
    let name = rest.split(['(', '<']).next()?;
    (is_declared && PRONOUNS.iter().any(|pronoun| name.starts_with(pronoun))).then_some(name)
}

#[test]
fn names_of_functions_have_a_noun_for_their_subject() {
    let mut found = Vec::new();
    for source in sources("rs") {
        let names = source.text.lines().enumerate().filter_map(|(at, line)| Some((at, pronoun_name(line)?)));
        found.extend(names.map(|(at, name)| format!("{}:{}: {name}", source.name, at + 1)));
    }
    check("name the thing that the claim is about", found);
    let bad = concat!("    async fn wh", "at_is_kept() {");
    assert_eq!(pronoun_name(bad), Some("what_is_kept"));
    assert_eq!(pronoun_name("fn whole_pages_are_kept() {"), None);
}

#[test]
fn every_member_inherits_the_lints_and_the_versions() {
    let mut wrong = Vec::new();
    // A fuzz crate is a workspace of its own: it needs another compiler.
    let is_member =
        |source: &Source| source.name.ends_with("/Cargo.toml") && !source.text.contains("[workspace]");
    for manifest in sources("toml").into_iter().filter(is_member) {
        if !manifest.text.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{}: no `[lints] workspace = true`", manifest.name));
        }
        wrong.extend(own_versions(&manifest));
        let folder = manifest.name.trim_end_matches("/Cargo.toml");
        if !root().join(folder).join("clippy.toml").is_file() {
            wrong.push(format!("{folder}: no clippy.toml"));
        }
    }
    check("members inherit from the workspace", wrong);
}

/// Dependencies with a version of their own instead of the workspace's.
fn own_versions(manifest: &Source) -> Vec<String> {
    let mut is_dependencies = false;
    let mut found = Vec::new();
    for line in manifest.text.lines() {
        if line.starts_with('[') {
            is_dependencies = line.contains("dependencies");
        } else if is_dependencies && line.contains('=') && !line.contains("workspace = true") {
            found.push(format!("{}: {line}", manifest.name));
        }
    }
    found
}

#[test]
fn the_brand_is_spelled_in_one_file() {
    let names = brand_names();
    let sources = sources("rs");
    let only_for_tests = modules::only_for_tests(&sources);
    let mut found = Vec::new();
    for source in &sources {
        let is_exempt = source.name == "proto/src/brand.rs" || is_test(&source.name);
        if is_exempt || only_for_tests.contains(&source.name) {
            continue;
        }
        for (number, line) in product_code(&source.product()) {
            if let Some(name) = names.iter().find(|name| line.contains(**name)) {
                found.push(format!("{}:{number}: {name}", source.name));
            }
        }
    }
    check("take brand names from `orch_proto::Brand`", found);
}

/// Every string of the brand table that cannot be an everyday word.
fn brand_names() -> BTreeSet<&'static str> {
    let of = |brand: &'static Brand| {
        [
            brand.group_domain,
            brand.label_domain,
            brand.protobuf_media_type,
            brand.extension_prefix,
            brand.system_namespace,
            brand.public_namespace,
            brand.node_lease_namespace,
        ]
    };
    [&ORCH, &KUBERNETES].into_iter().flat_map(of).collect()
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// The lines of code with their numbers, without comments.
fn product_code(product: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = product.lines().enumerate().map(|(number, line)| (number + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Folders whose code runs for any connection, or reads objects that a client has stored.
const PORTS: [&str; 7] = [
    "node/src/server/",
    "node/src/tls/",
    "api/src/http/",
    "api/src/watch/",
    "api/src/controllers/",
    "raft/src/transport/",
    "scheduler/src/serve/",
];

/// Files in these folders whose warnings no client can cause: about certificates and revocation lists that the operator
/// renews, about authorities that are looked up once a minute, and about a port that starts or stops.
const NOT_OF_PORTS: [&str; 6] = [
    "node/src/tls/reload.rs",
    "node/src/tls/revocation.rs",
    "scheduler/src/serve/lookup.rs",
    "scheduler/src/serve/mod.rs",
    "scheduler/src/serve/tls/clients.rs",
    "scheduler/src/serve/tls/resolver.rs",
];

#[test]
fn nobody_who_connects_can_fill_the_log() {
    let mut found = Vec::new();
    for source in sources("rs") {
        let is_port = PORTS.iter().any(|folder| source.name.starts_with(folder));
        if !is_port || is_test(&source.name) || NOT_OF_PORTS.contains(&source.name.as_str()) {
            continue;
        }
        let mut before = String::new();
        // Warnings, unlike names, may also follow the declaration of a test module.
        let code = source.text.lines().take_while(|line| *line != "mod tests {");
        let code = code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in code {
            let is_warning = line.contains("warn!(") || line.contains("error!(");
            let limits = [".pass_at(", ".may_warn("];
            // few: two names.
            let is_limited = before.ends_with(".pass()") || limits.iter().any(|limit| before.contains(limit));
            if is_warning && !is_limited {
                found.push(format!("{}:{}: {}", source.name, number + 1, line.trim()));
            }
            // The condition right before a warning counts, on one line or several.
            let line = line.trim().trim_end_matches('{').trim_end();
            if !line.is_empty() && !line.starts_with("let (") {
                before = line.to_owned();
            }
        }
    }
    check("ask a `WarningLimit` first, or say it at debug level", found);
}

#[test]
fn searches_over_what_clients_send_have_a_reason() {
    let sources = sources("rs");
    let only_for_tests = modules::only_for_tests(&sources);
    let product =
        sources.iter().filter(|source| !is_test(&source.name) && !only_for_tests.contains(&source.name));
    let found = product.flat_map(searches::unexplained);
    check("look it up by hash, or say `// few:`, `// once:` or `// set:`", found);
}

#[test]
fn names_of_fields_are_those_of_the_messages() {
    let declared = fields::declared(&sources("proto"));
    let sources = sources("rs");
    let only_for_tests = modules::only_for_tests(&sources);
    let product =
        sources.iter().filter(|source| !is_test(&source.name) && !only_for_tests.contains(&source.name));
    let found: Vec<String> = product.flat_map(|source| fields::unknown(source, &declared)).collect();
    check("no message of proto/schema has such a field", found);
}

#[test]
fn alert_rules_and_dashboards_name_metrics_that_exist() {
    let programs = ["api/", "node/", "raft/", "scheduler/", "serving/"];
    let is_product = |source: &Source| {
        programs.iter().any(|folder| source.name.starts_with(folder)) && !is_test(&source.name)
    };
    let product: Vec<Source> = sources("rs").into_iter().filter(is_product).collect();
    alerts::check_metrics(&product);
    mixin::check_mixin(&product);
}

#[test]
fn every_source_file_is_used() {
    check("declare the module or remove the file", modules::unused(&sources("rs")));
}

#[test]
fn folders_of_a_crate_name_one_another_in_one_direction() {
    let sources = sources("rs");
    let only_for_tests = modules::only_for_tests(&sources);
    let is_of_tests = |name: &str| {
        let is_below = |module: &String| {
            let folder = module.trim_end_matches(".rs").trim_end_matches("/mod");
            name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
        };
        is_test(name) || only_for_tests.iter().any(is_below)
    };
    let product: Vec<&Source> = sources.iter().filter(|source| !is_of_tests(&source.name)).collect();
    let found =
        circles::CRATES.into_iter().flat_map(|folder| circles::circles(folder, product.iter().copied()));
    check("move what the folder below takes from the one above to where both reach it", found);
    let files = file_circles::FOLDERS.into_iter();
    let found = files.flat_map(|folder| file_circles::circles(folder, product.iter().copied()));
    check("move what the first file takes from the second into a file below both", found);
}

#[test]
fn every_schema_file_is_used() {
    let build = fs::read_to_string(root().join("proto/build.rs")).unwrap();
    let schemas = sources("proto");
    let unused = schemas.iter().filter(|source| {
        let path = source.name.trim_start_matches("proto/");
        let folder = path.split('/').next().unwrap_or_default();
        let is_compiled =
            build.contains(path) || build.contains(&format!("proto_files(Path::new(\"{folder}\"))"));
        !is_compiled && !schemas.iter().any(|other| other.text.contains(&format!("import \"{path}\"")))
    });
    check("compile or import the schema, or remove it", unused.map(|source| source.name.clone()));
}

#[test]
fn the_architecture_names_every_top_level_folder() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    let missing = top_folders().into_iter().filter(|folder| !text.contains(&format!("{folder}/")));
    check("ARCHITECTURE.md says what each folder is for", missing);
    assert!(text.contains("Invariant:"), "ARCHITECTURE.md says what must stay absent");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in sources("md") {
        let folder = root().join(&document.name);
        let folder = folder.parent().expect("a file has a folder");
        for (line, text) in document.text.lines().enumerate() {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let paths = targets.map(|target| target.split('#').next().unwrap_or_default());
            let inside = paths.filter(|path| !path.is_empty() && !path.contains("://"));
            let gone = inside.filter(|path| !folder.join(path).exists());
            wrong.extend(gone.map(|path| format!("{}:{}: {path}", document.name, line + 1)));
        }
    }
    check("name a document that is there", wrong);
}

#[test]
fn decisions_are_numbered_without_a_gap() {
    let mut names = Vec::new();
    if let Ok(entries) = fs::read_dir(root().join("docs/decisions")) {
        names.extend(entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()));
    }
    names.retain(|name| name.ends_with(".md") && name != "README.md");
    names.sort();
    let wrong =
        names.iter().enumerate().filter(|(place, name)| !name.starts_with(&format!("{:04}-", place + 1)));
    check("decisions are NNNN-title.md from 0001 on", wrong.map(|(_, name)| name.clone()));
}
